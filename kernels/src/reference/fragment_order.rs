//! Products of integers of 16 × 16 and 16 × 8, each three times.

/// For each 256 of `a`, row by row, and 128 of `b`, column by column, their product row by row, three times; exact.
pub fn fragment_order(a: &[u16], b: &[u16]) -> Vec<f32> {
    let problems = a.chunks_exact(256).zip(b.chunks_exact(128));
    let product = |(a, b): (&[u16], &[u16])| -> Vec<f32> {
        let rows = a.chunks_exact(16);
        let of_row = |row: &[u16]| -> Vec<f32> {
            let dot =
                |column: &[u16]| row.iter().zip(column).map(|(&a, &b)| f32::from(a) * f32::from(b)).sum();
            b.chunks_exact(16).map(dot).collect()
        };
        rows.flat_map(of_row).collect::<Vec<f32>>().repeat(3)
    };
    problems.flat_map(product).collect()
}
