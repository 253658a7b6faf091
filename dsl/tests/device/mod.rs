//! Runs a kernel on the interpreter over buffers of words.

use kiln_abi::{BufferRef, Device, Kernel, LaunchError, launch};
use kiln_spirv_interp::{InterpOptions, Interpreter};

/// Runs a kernel that reads `x` and writes `out` words of `y`, which start as `fill`.
///
/// `args` puts the two ranges into the kernel's arguments.
#[allow(dead_code, reason = "a test that asks the interpreter has its own")]
pub fn run<K: Kernel, T, U>(
    kernel: &K,
    x: &[u32],
    (out, fill): (usize, u32),
    args: impl Fn(BufferRef<T>, BufferRef<U>) -> K::Args<'static>,
) -> Result<Vec<u32>, LaunchError> {
    run_on(
        &Interpreter::new(InterpOptions { subgroup_size: 8, ..Default::default() }),
        kernel,
        x,
        (out, fill),
        args,
    )
}

/// As [`run`], on an interpreter that is asked afterwards.
pub fn run_on<K: Kernel, T, U>(
    device: &Interpreter,
    kernel: &K,
    x: &[u32],
    (out, fill): (usize, u32),
    args: impl Fn(BufferRef<T>, BufferRef<U>) -> K::Args<'static>,
) -> Result<Vec<u32>, LaunchError> {
    let bytes = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let (x, y) = (bytes(x), bytes(&vec![fill; out]));
    let (x_len, y_len) = (x.len() as u64, y.len() as u64);
    let x_buffer = device.allocate(x_len, "x")?;
    let y_buffer = device.allocate(y_len, "y")?;
    device.write(x_buffer, 0, &x)?;
    device.write(y_buffer, 0, &y)?;
    let args = args(BufferRef::new(x_buffer, 0, x_len), BufferRef::new(y_buffer, 0, y_len));
    launch(device, kernel, &args)?;
    let mut read = y;
    device.read(y_buffer, 0, &mut read)?;
    Ok(read.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect())
}
