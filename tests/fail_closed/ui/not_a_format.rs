use kiln_dsl::prelude::*;

#[derive(Block)]
pub struct OneBlock {
    d: f32,
}

pub struct One;

#[device]
impl QuantFormat for One {
    type Block = OneBlock;
    const BLK: u32 = 1;
    fn decode<R: Rail>(b: &BlockRef<OneBlock, R>, _at: u32) -> f32 {
        b.d
    }
}

#[kernel(local_size = 64, grid = 1)]
pub fn case<F: QuantFormat>(w: &Buf<F::Block>, y: &BufMut<f32>) {
    y[0] = F::decode(&w[0], 0);
}

pub fn chosen() -> Case<OneBlock> {
    Case::new()
}

fn main() {}
