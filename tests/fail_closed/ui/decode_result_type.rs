use kiln_dsl::prelude::*;

#[derive(Block)]
pub struct Eight {
    d: f16,
    q: [u16; 4],
}

pub struct One;

#[device]
impl QuantFormat for One {
    type Block = Eight;
    const BLK: u32 = 8;
    fn decode<R: Rail>(b: &BlockRef<Eight, R>, at: u32) -> u32 {
        b.q[at & 3] as u32
    }
}

#[kernel(local_size = 64, grid = 1)]
pub fn case<F: QuantFormat>(w: &Buf<F::Block>, y: &BufMut<f32>) {
    y[0] = F::decode(&w[0], 1);
}

fn main() {}
