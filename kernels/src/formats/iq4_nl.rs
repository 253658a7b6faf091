//! IQ4_NL: 32 weights of sixteen uneven values, one scale, 4.5 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 16 | qs: byte j has weight j in its low nibble and weight j + 16 in its high one |
//!
//! Value: `d · table[q]` (table: `codebook.rs`). Outside reference: gguf 0.19.0 (`gguf.quants.IQ4_NL`).

use kiln_abi::BlockGeometry;

use super::{HostFormat, codebook::IQ4_VALUES, f16_at};

/// The format.
pub struct Iq4Nl;

const QS: usize = 2;
const HALF: usize = 16;
const _: () = assert!(QS + HALF == Iq4Nl::GEOMETRY.bytes() as usize);

impl HostFormat for Iq4Nl {
    const ID: u32 = 20;
    const NAME: &'static str = "IQ4_NL";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(32, 18);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, 0);
        let value = |nibble: u8| d * f32::from(IQ4_VALUES[usize::from(nibble)]);
        for (j, q) in block[QS..QS + HALF].iter().enumerate() {
            out[j] = value(q & 15);
            out[j + HALF] = value(q >> 4);
        }
    }
}
