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
    fn decode<R: Rail>(b: &BlockRef<Eight, R>, at: u32) -> f32 {
        b.d as f32 * b.q[at & 3] as f32
    }
    fn decode4<R: Rail>(b: &BlockRef<Eight, R>, at: u32) -> Vec2<f32> {
        let d = b.d as f32;
        vec2(d, d)
    }
}

#[kernel(local_size = 64, grid = 1)]
pub fn case<F: QuantFormat>(w: &Buf<F::Block>, y: &BufMut<f32>) {
    y[0] = F::decode(&w[0], 1);
}

fn main() {}
