//! Numbers in and out of a device's buffers, for tests and small programs: a buffer for each call.

use crate::{BufferRange, Device, DeviceError};

/// A number as it lies in a buffer; of an f16, its bits.
pub trait Number: Copy {
    /// Its bytes, the lowest first.
    fn write(self, bytes: &mut Vec<u8>);
    /// The numbers that bytes hold.
    fn read(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! numbers {
    ($($t:ty)*) => { $(
        impl Number for $t {
            fn write(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }
            fn read(bytes: &[u8]) -> Vec<Self> {
                let whole = bytes.as_chunks().0;
                whole.iter().map(|bytes| <$t>::from_le_bytes(*bytes)).collect()
            }
        }
    )* };
}
numbers! { f32 u32 i32 u16 i16 u8 i8 }

/// A new buffer that holds `numbers`.
///
/// # Errors
/// What the device says.
pub fn put<T: Number>(device: &dyn Device, numbers: &[T]) -> Result<BufferRange, DeviceError> {
    let mut bytes = Vec::with_capacity(size_of_val(numbers));
    numbers.iter().for_each(|n| n.write(&mut bytes));
    let buffer = device.allocate(bytes.len() as u64, "numbers")?;
    device.write(buffer, 0, &bytes)?;
    Ok(BufferRange { buffer, offset_bytes: 0, bytes: bytes.len() as u64 })
}

/// The numbers of a range.
///
/// # Errors
/// What the device says.
pub fn get<T: Number>(device: &dyn Device, range: BufferRange) -> Result<Vec<T>, DeviceError> {
    let mut bytes = vec![0; usize::try_from(range.bytes).unwrap_or(usize::MAX)];
    device.read(range.buffer, range.offset_bytes, &mut bytes)?;
    Ok(T::read(&bytes))
}
