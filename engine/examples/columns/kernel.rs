//! `y[c, i] = Σ_j W[i, j] · x[c, j]` for eight rows of x, W in a packed format: on products of 16×8×16 halves.
//!
//! Per group of W, with `w = s · q + o` and `x = d · (256 · hi + lo)`: `s · d · (256 · Σ q hi + Σ q lo) + o · d · Σ x`.
//! Shapes: W `[m, k]` in planes; x as [`words_of`] lays it out; y `[8, m]` f32.
//! Who owns what: a workgroup owns [`Shape::rows`] rows of W, a subgroup a run of units of them, four neighboring units
//! at a step. Lane (g, t) asks for unit t of rows g and g + 8 of each tile of 16; four lanes then exchange their words, so
//! that each has a quarter of all four units, as a factor holds it.
//! Numerics: the products of a unit are integers, exact in f32. Sums of units meet neighbors first.
//! By count, for Q4_K in f16: 66 instructions of a subgroup for 16 rows, 32 weights and eight rows of x with two tiles, of
//! which 4 are products, 16 scale and add sums, 12 exchange words and scales, 14 unpack weights and 10 x.

use half::f16;
use kiln_dsl::{
    prelude::*,
    tensor::{loaded_words, plane_offsets},
};
use kiln_kernels::activations::{Planes, quantize_row};

use super::shape::{COLUMNS, Parts, STEP, Shape, XAhead};
use super::words::{
    exchanged, four_halves, from_lane, half_of, keep, kept, lane_of, lane_pair, lane_words, parts_of, plain,
    quad_at, round_at, scale_words, signed, unit_at, wide_at,
};

/// Push constants.
#[derive(Clone, Copy, Debug, Push)]
pub struct ColumnsPush {
    /// Rows of W.
    pub m: u32,
    /// Workgroups, each of which takes tile after tile.
    pub groups: u32,
}

/// 32-bit words of a tensor of so many units on a device.
fn tensor_words<F: TensorFormat>(n_units: u32) -> u64 {
    plane_offsets(F::PLANES, u64::from(n_units)).1 / 4
}

/// Words of 16 bytes that a unit of x has for its products, and those behind all of them for its scales.
const fn fields(planes: Planes) -> (u32, u32) {
    (planes.count() * 16, 8)
}

/// Eight rows of x as the kernel takes them: for each unit and lane (g, t) the words `t` and `t + 4` of row g, hi before
/// lo; behind all units for each unit and t the scales and sums of rows 2t and 2t + 1.
pub fn words_of(planes: Planes, factor: f32, rows: &[f32], k: usize) -> Vec<u32> {
    let n = k / 32;
    let packed: Vec<Vec<u32>> = rows.chunks_exact(k).map(|x| quantize_row(planes, x).0).collect();
    let word = |row: usize, field: usize, unit: usize, i: usize| packed[row][(field * n + unit) * 4 + i];
    let mut words = Vec::new();
    for unit in 0..n {
        for (g, t) in (0..8).flat_map(|g| (0..4).map(move |t| (g, t))) {
            words.extend((0..2 * planes.count() as usize).map(|field| word(g, field, unit, t)));
        }
    }
    let last = 2 * planes.count() as usize;
    for unit in 0..n {
        for t in 0..4 {
            let of = |row: usize, i: usize| f32::from_bits(word(row, last, unit, i));
            let two = |f: &dyn Fn(usize) -> f32| [f(2 * t), f(2 * t + 1)];
            let d = two(&|row| of(row, 0) * factor);
            let all = two(&|row| of(row, 1) + of(row, 2));
            let (low, high) = (two(&|row| of(row, 1)), two(&|row| of(row, 2)));
            words.extend([d, all, low, high].as_flattened().iter().map(|v| v.to_bits()));
        }
    }
    words
}

/// The kernel.
#[kernel(
    local_size = shape.invocations(),
    subgroup = 32,
    invocations = shape.invocations().max(256),
    workgroup_bytes = (2 * shape.subgroups * shape.sums() * 4).max(16384),
    grid = p.groups,
)]
pub fn columns<F: PackedFormat>(
    #[weight]
    #[len(tensor_words::<F>(p.m * shape.units()))]
    w: &Buf<u32>,
    #[len(shape.units() * (fields(planes).0 + fields(planes).1))] x: &Buf<Vec4<u32>>,
    #[len(p.m * COLUMNS)] y: &BufMut<f32>,
    #[push] p: ColumnsPush,
    #[comptime] planes: Planes,
    #[comptime] shape: Shape,
) {
    let (g, t) = (lane() >> 2, lane() & 3);
    let n_units = p.m * comptime!(shape.units());
    let tensor = comptime!(Tensor::new::<F>(w, n_units));
    let n_tiles = p.m / comptime!(shape.rows());
    let first = subgroup_id() * comptime!(shape.own());
    let mut words = [0u32; comptime!(shape.slots() * 2 * shape.tiles * loaded_words(F::PLANES) as u32)];
    let mut scales = [0u32; comptime!(2 * shape.tiles * scale_words_of::<F>())];
    let own = comptime!(Own { tensor: &tensor, w, n_units, x, first, g, t, words, scales, planes, shape });
    let n = comptime!(shape.subgroups * shape.sums());
    let shared = Shared::<f32>::new(comptime!(2 * n));
    comptime!(own.start::<F>(start_of(workgroup_id_x(), g, shape)));
    let mut side = 0u32;
    for tile in (workgroup_id_x()..n_tiles).step_by(p.groups) {
        let after = min(tile + p.groups, n_tiles - 1);
        let sums = comptime!(own.sums::<F>(start_of(tile, g, shape), start_of(after, g, shape)));
        for a in comptime!(0..shape.tiles * 4) {
            let at = side + (subgroup_id() * comptime!(shape.tiles) + comptime!(a / 4)) * 128 + lane() * 4;
            shared[at + comptime!(a % 4)] = comptime!(sums[a as usize]);
        }
        barrier();
        for j in comptime!(0..shape.sums().div_ceil(shape.invocations())) {
            let i = local_id() + comptime!(j * shape.invocations());
            if i < comptime!(shape.sums()) {
                let at = side + i;
                let total = comptime!(meet(&shared, at, 0, shape.subgroups, shape));
                let (of_rows, e) = (i >> 7, i & 3);
                let (row, column) = ((i >> 4) & 7, ((i >> 2) & 3) * 2 + (e & 1));
                y[column * p.m + tile * comptime!(shape.rows()) + of_rows * 16 + row + (e >> 1) * 8] = total;
            }
        }
        side = n - side;
    }
}

/// The first unit of row g of a tile.
#[device]
fn start_of(tile: u32, g: u32, #[comptime] shape: Shape) -> u32 {
    (tile * comptime!(shape.rows()) + g) * comptime!(shape.units())
}

/// Words that hold the scales which a lane brings of a row.
fn scale_words_of<F: PackedFormat>() -> u32 {
    let of = |plane: &Plane| match (plane.units, plane.bytes) {
        (1, 2) => 2,
        (1, _) => 0,
        _ => 1,
    };
    F::PLANES.iter().map(of).sum()
}

/// The sums of subgroups `from` to `from + n`, neighbors first.
#[track_caller]
fn meet(shared: &Shared<f32>, i: Ex<u32>, from: u32, n: u32, shape: Shape) -> Ex<f32> {
    if n == 1 {
        return part(shared, i, from, shape);
    }
    let (low, high) = (meet(shared, i, from, n / 2, shape), meet(shared, i, from + n / 2, n / 2, shape));
    plus(low, high)
}

#[device]
fn part(shared: &Shared<f32>, i: u32, #[comptime] from: u32, #[comptime] shape: Shape) -> f32 {
    shared[i + comptime!(from * shape.sums())]
}

#[device]
fn plus(a: f32, b: f32) -> f32 {
    a + b
}

/// What a lane works on.
struct Own<'a> {
    tensor: &'a Tensor,
    w: &'a Buf<u32>,
    n_units: Ex<u32>,
    x: &'a Buf<Vec4<u32>>,
    /// The subgroup's first unit of a row.
    first: Ex<u32>,
    g: Ex<u32>,
    t: Ex<u32>,
    /// Words of weights on their way, slot after slot.
    words: PlaceArray<u32, Local>,
    /// And of scales.
    scales: PlaceArray<u32, Local>,
    planes: Planes,
    shape: Shape,
}

/// A scale and an offset, where there is one.
type Scale = (Ex<f32>, Option<Ex<f32>>);

/// A word of four lanes' own as each has it: of unit 0, 1, 2 and 3.
type Quarters = [Ex<u32>; 4];

impl Own<'_> {
    /// Asks for the first slots of a tile.
    #[track_caller]
    fn start<F: PackedFormat>(&self, start: Ex<u32>) {
        for (slot, step) in (0..self.shape.slots()).zip(self.shape.steps()) {
            self.ask::<F>(start, slot, step);
        }
        self.ask_scales::<F>(start, self.shape.steps()[0]);
    }

    /// The sums of a lane's elements, four a tile, over the subgroup's units, while those of the tile `after` are asked for.
    #[track_caller]
    fn sums<F: PackedFormat>(&self, start: Ex<u32>, after: Ex<u32>) -> Vec<Ex<f32>> {
        let (steps, slots) = (self.shape.steps(), self.shape.slots());
        let together = self.shape.together() as usize;
        // Sums that wait for a neighbor, each of so many units.
        let mut waiting: Vec<(u32, Vec<Ex<f32>>)> = Vec::new();
        let mut sums: Option<Vec<Vec<Ex<f32>>>> = None;
        let mut scales: Vec<Vec<Unit>> = Vec::new();
        for (i, &(q, r)) in steps.iter().enumerate() {
            let of = |ahead: usize| match steps.get(i + ahead) {
                Some(step) => (start, *step),
                None => (after, steps[i + ahead - steps.len()]),
            };
            if i % together == 0 {
                scales = self.brought_scales::<F>();
                let (start, step) = of(together);
                if self.shape.drop & 128 == 0 {
                    self.ask_scales::<F>(start, step);
                }
            }
            let slot = i as u32 % slots;
            let units = self.brought::<F>(slot);
            let (start, step) = of(slots as usize);
            if self.shape.drop & 32 == 0 {
                self.ask::<F>(start, slot, step);
            }
            subgroup_barrier();
            let columns = if self.shape.drop & 4 > 0 {
                self.ask_columns::<F>(0, 0)
            } else {
                self.ask_columns::<F>(q, r)
            };
            if self.shape.x == XAhead::Step {
                subgroup_barrier();
            }
            let added = self.step::<F>((&units, &columns), &scales, i as u32 % together as u32, sums.take());
            if r + 1 < self.shape.rounds {
                sums = Some(added);
                continue;
            }
            let [a, b, c, d] = &added[..] else { continue };
            let mut own = (STEP, pairs(&pairs(a, b), &pairs(c, d)));
            while let Some((n, before)) = waiting.pop_if(|(n, _)| *n == own.0) {
                own = (2 * n, pairs(&before, &own.1));
            }
            waiting.push(own);
        }
        waiting.pop().map(|(_, sums)| sums).unwrap_or_default()
    }

    /// Asks for unit t of step (q, r) of rows g and g + 8 of each tile.
    #[track_caller]
    fn ask<F: PackedFormat>(&self, start: Ex<u32>, slot: u32, (q, r): (u32, u32)) {
        let Shape { tiles, lanes, .. } = self.shape;
        let i = unit_at(self.first, self.t, q * STEP);
        let n = loaded_words(F::PLANES) as u32;
        for half in 0..2 * tiles {
            let behind = half * 8 * self.shape.units() + r * lanes;
            let unit = if self.shape.drop & 64 > 0 {
                let behind = (half * 4 + 16 * q) * self.shape.units() + r * lanes;
                let (start, i) = wide_at(start, self.g, self.first, self.shape.units());
                self.tensor.unit_of_row(start, i).behind(behind).load()
            } else {
                self.tensor.unit_of_row(start, i).behind(behind).load()
            };
            for (j, word) in (0..).zip(unit.loaded()) {
                keep(&self.words, (slot * 2 * tiles + half) * n + j, word);
            }
        }
    }

    /// What a slot has.
    #[track_caller]
    fn brought<F: PackedFormat>(&self, slot: u32) -> Vec<Unit> {
        let n = loaded_words(F::PLANES) as u32;
        let of_row = |half: u32| {
            let first = (slot * 2 * self.shape.tiles + half) * n;
            self.tensor.unit(self.first).with_loaded((first..first + n).map(|at| kept(&self.words, at)))
        };
        (0..2 * self.shape.tiles).map(of_row).collect()
    }

    /// Asks for the scales that this lane brings for steps from (q, r) on: of rows g and g + 8 of each tile, of the four
    /// units of its own step among them.
    #[track_caller]
    fn ask_scales<F: PackedFormat>(&self, start: Ex<u32>, (q, r): (u32, u32)) {
        let (Shape { tiles, lanes, .. }, n) = (self.shape, scale_words_of::<F>());
        let together = self.shape.together();
        for half in 0..2 * tiles {
            let behind = half * 8 * self.shape.units() + r * lanes;
            let i = if self.shape.rounds > 1 {
                round_at(self.first, self.t, q * STEP, together, lanes)
            } else {
                quad_at(self.first, self.t, q * STEP, together)
            };
            let near = self.tensor.unit_of_row(start, i).behind(behind);
            let mut words = Vec::new();
            for (n, plane) in (0..).zip(F::PLANES) {
                if plane.units == 1 && plane.bytes == 2 {
                    let before = F::PLANES[..n as usize].iter().map(|p| p.bytes * 8 / p.units).sum::<u32>();
                    let four = four_halves(self.w, self.n_units, start, i, before, behind);
                    words.extend([four.x(), four.y()]);
                } else if plane.units > 1 && plane.bytes < 4 {
                    words.push(near.sixteen(number(n)));
                } else if plane.units > 1 {
                    words.push(near.word(number(n), number(0)));
                }
            }
            for (j, word) in (0..).zip(words) {
                keep(&self.scales, half * n + j, word);
            }
        }
    }

    /// Those as four units of each row.
    #[track_caller]
    fn brought_scales<F: PackedFormat>(&self) -> Vec<Vec<Unit>> {
        let n = scale_words_of::<F>();
        let of_row = |half: u32| {
            let own: Vec<Ex<u32>> = (half * n..(half + 1) * n).map(|at| kept(&self.scales, at)).collect();
            let of_unit = |u: u32| {
                let (mut at, mut words) = (0, Vec::new());
                for plane in F::PLANES {
                    if plane.units == 1 && plane.bytes == 2 {
                        words.push(half_of(own[at + u as usize / 2], u % 2));
                        at += 2;
                    } else if plane.units > 1 {
                        words.push(own[at]);
                        at += 1;
                    } else {
                        // Nothing of a scale.
                        words.extend((0..plane.bytes.div_ceil(4)).map(|_| number(0)));
                    }
                }
                self.tensor.unit(self.first).with_loaded(words)
            };
            (0..STEP).map(of_unit).collect()
        };
        (0..2 * self.shape.tiles).map(of_row).collect()
    }

    /// The scale of a unit of step `from` of those together, from the lane that has it.
    #[track_caller]
    fn scale<F: PackedFormat>(&self, own: &Unit, from: u32, group: usize) -> Scale {
        let centered = F::CENTER.is_some() && self.planes == Planes::Two;
        let (from, (scale, offset)) = (lane_of(self.g, from), F::scale_offset(own, number(group as u32)));
        if self.shape.drop & 2 > 0 {
            return (scale, (F::OFFSET && !centered).then_some(offset));
        }
        (from_lane(scale, from), (F::OFFSET && !centered).then(|| from_lane(offset, from)))
    }

    /// `sums` of each unit and tile with the products of a step.
    #[track_caller]
    fn step<F: PackedFormat>(
        &self,
        (units, columns): (&[Unit], &[Asked]),
        scales: &[Vec<Unit>],
        from: u32,
        sums: Option<Vec<Vec<Ex<f32>>>>,
    ) -> Vec<Vec<Ex<f32>>> {
        // As one column has it: of two planes, what all rows of W share comes from the sum of x.
        let centered = F::CENTER.is_some() && self.planes == Planes::Two;
        let own: Vec<[Quarters; 2]> = units.iter().map(|unit| self.quarters::<F>(unit)).collect();
        let mut found = Vec::new();
        for u in 0..STEP {
            let x = self.column::<F>(&columns[u as usize]);
            let mut all = Vec::new();
            for tile in 0..self.shape.tiles as usize {
                let rows = [2 * tile, 2 * tile + 1];
                let words = rows.map(|row| own[row].map(|quarters| self.pairs_of(quarters[u as usize])));
                let mut total: Vec<Ex<f32>> = match &sums {
                    Some(sums) => sums[u as usize][4 * tile..4 * tile + 4].to_vec(),
                    None => (0..4).map(|_| zero()).collect(),
                };
                for (group, products) in self.products::<F>(&words, &x).into_iter().enumerate() {
                    let parts = rows.map(|row| self.scale::<F>(&scales[row][u as usize], from, group));
                    for (e, total) in total.iter_mut().enumerate() {
                        let (scale, offset) = parts[e / 2];
                        let (d, of_x) = (x.d[e % 2], x.sums[group][e % 2]);
                        if self.shape.drop & 16 > 0 {
                            *total = plus(*total, plus(products[e], scale));
                            continue;
                        }
                        *total = match (centered, offset) {
                            (true, _) => about(*total, products[e], d, scale, of_x),
                            (_, None) => scaled(*total, products[e], d, scale),
                            (_, Some(offset)) => fma(offset, of_x, scaled(*total, products[e], d, scale)),
                        };
                    }
                }
                all.extend(total);
            }
            found.push(all);
        }
        found
    }

    /// Words t and t + 4 of each of four lanes' units.
    #[track_caller]
    fn quarters<F: PackedFormat>(&self, unit: &Unit) -> [Quarters; 2] {
        if !self.shape.nibbles {
            let lanes = |first: u32| [0, 1, 2, 3].map(|j| F::lanes(unit, number(first + j)));
            return [exchanged(lanes(0), self.t), exchanged(lanes(4), self.t)];
        }
        let words = [0, 1, 2, 3].map(|j| unit.word(number(0), number(j)));
        let words = if self.shape.drop & 1 > 0 { words } else { exchanged(words, self.t) };
        let lanes = |word: Ex<u32>, pack: u32| {
            let mut loaded = unit.loaded();
            loaded[..4].fill(word);
            F::lanes(&self.tensor.unit(self.first).with_loaded(loaded), number(pack))
        };
        [words.map(|word| lanes(word, 0)), words.map(|word| lanes(word, 4))]
    }

    /// Four bytes as halves: elements 0 and 2, 1 and 3.
    #[track_caller]
    fn pairs_of(&self, bytes: Ex<u32>) -> [Ex<u32>; 2] {
        if self.shape.most.1 {
            [signed(bytes, 0), signed(bytes, 8)]
        } else {
            [plain(bytes, 0), plain(bytes, 8)]
        }
    }

    /// The sums of products of each group, four elements each.
    #[track_caller]
    fn products<F: PackedFormat>(&self, words: &[[[Ex<u32>; 2]; 2]; 2], x: &Column) -> Vec<[Ex<f32>; 4]> {
        let left = |pack: usize| {
            let [[e0, o0], [e1, o1]] = [words[0][pack], words[1][pack]];
            [e0, o0, e1, o1]
        };
        let parts = self.shape.parts(F::GROUP, self.planes);
        let product = |packs: &[usize], planes: &[usize]| {
            let factors = planes.iter().flat_map(|plane| packs.iter().map(move |pack| (*plane, *pack)));
            product_of(factors.map(|(plane, pack)| (left(pack), x.words[plane][pack])).collect())
        };
        let both: Vec<usize> = (0..self.planes.count() as usize).collect();
        let groups: &[&[usize]] = if F::GROUP == 16 { &[&[0], &[1]] } else { &[&[0, 1]] };
        let whole = |packs: &&[usize]| match parts {
            Parts::One => product(packs, &both),
            Parts::Halves => pairwise(product(&[0], &both), product(&[1], &both)),
            Parts::Planes => pairwise(product(packs, &both[..1]), product(packs, &both[1..])),
        };
        groups.iter().map(whole).collect()
    }

    #[track_caller]
    fn ask_columns<F: PackedFormat>(&self, q: u32, r: u32) -> Vec<Asked> {
        (0..STEP).map(|u| self.ask_column::<F>(q * STEP + u + r * self.shape.lanes)).collect()
    }

    /// Asks for what unit `i` from the subgroup's first on meets: words of products, then of scales.
    #[track_caller]
    fn ask_column<F: PackedFormat>(&self, i: u32) -> Asked {
        let (products, scales) = fields(self.planes);
        let words = if self.planes == Planes::Two {
            let four = lane_words(self.x, self.first, i);
            vec![four.x(), four.y(), four.z(), four.w()]
        } else {
            let pair = lane_pair(self.x, self.first, i);
            vec![pair.x(), pair.y()]
        };
        let behind = self.shape.units() * products + i * scales;
        let n = if F::GROUP == 16 { 2 } else { 1 };
        Asked { words, scales: (0..n).map(|j| scale_words(self.x, self.first, self.t, behind + j)).collect() }
    }

    /// That as factors and numbers.
    #[track_caller]
    fn column<F: PackedFormat>(&self, asked: &Asked) -> Column {
        // A half of the lower plane is 256th parts, so that both planes have one sum.
        let drop = self.shape.drop & 8 > 0;
        let higher = |word: Ex<u32>| if drop { [word, word] } else { [signed(word, 0), signed(word, 8)] };
        let lower = |word: Ex<u32>| if drop { [word, word] } else { [parts_of(word, 0), parts_of(word, 8)] };
        let words = match asked.words[..] {
            [a, b, c, d] => vec![[higher(a), higher(b)], [lower(c), lower(d)]],
            _ => vec![[higher(asked.words[0]), higher(asked.words[1])]],
        };
        let first = asked.scales[0];
        let float = |word| bitcast::<f32, u32>(word);
        let d = [float(first.x()), float(first.y())];
        let sums = if F::GROUP == 16 {
            let more = asked.scales[1];
            vec![[float(more.x()), float(more.y())], [float(more.z()), float(more.w())]]
        } else {
            vec![[float(first.z()), float(first.w())]]
        };
        let center = F::CENTER.filter(|_| self.planes == Planes::Two).unwrap_or(1.0);
        let sums = sums.into_iter().map(|two| two.map(|sum| times(sum, center))).collect();
        Column { words, d, sums }
    }
}

/// Words of a unit of x on their way.
struct Asked {
    words: Vec<Ex<u32>>,
    scales: Vec<Ex<Vec4<u32>>>,
}

/// What a lane has of a unit of x: its words as halves, by plane and pack, and the scales and sums of two rows.
struct Column {
    words: Vec<[[Ex<u32>; 2]; 2]>,
    d: [Ex<f32>; 2],
    sums: Vec<[Ex<f32>; 2]>,
}

#[track_caller]
fn product_of(factors: Vec<Factors>) -> [Ex<f32>; 4] {
    let sums = chained(&Chain(factors));
    [sums.x(), sums.y(), sums.z(), sums.w()]
}

/// The words of a left and of a right factor.
type Factors = ([Ex<u32>; 4], [Ex<u32>; 2]);

/// Products that are added up in one tile.
struct Chain(Vec<Factors>);

impl<'a> Read for &'a Chain {
    type Out = &'a Chain;
    fn read(&self) -> &'a Chain {
        self
    }
}

#[device]
fn chained(factors: &Chain) -> Vec4<f32> {
    dims!(M = 16, N = 8, K = 16);
    let mut acc = Tile::<f32, Acc, Sg, M, N>::zero();
    for i in comptime!(0..factors.0.len() as u32) {
        let (a, b) = comptime!(factors.0[i as usize]);
        let left = Tile::<f16, MatA, Sg, M, K>::of_words(
            comptime!(a[0]),
            comptime!(a[1]),
            comptime!(a[2]),
            comptime!(a[3]),
        );
        let right = Tile::<f16, MatB, Sg, K, N>::of_words(comptime!(b[0]), comptime!(b[1]));
        acc = mul_add(left, right, acc);
    }
    fragment::sums(acc)
}

#[track_caller]
fn pairs(a: &[Ex<f32>], b: &[Ex<f32>]) -> Vec<Ex<f32>> {
    a.iter().zip(b).map(|(a, b)| plus(*a, *b)).collect()
}

#[track_caller]
fn pairwise(a: [Ex<f32>; 4], b: [Ex<f32>; 4]) -> [Ex<f32>; 4] {
    [0, 1, 2, 3].map(|e| plus(a[e], b[e]))
}

#[track_caller]
fn number(n: u32) -> Ex<u32> {
    n.read()
}

#[track_caller]
fn zero() -> Ex<f32> {
    0.0f32.read()
}

/// `sum` and the product of a group.
#[device]
fn scaled(sum: f32, products: f32, d: f32, scale: f32) -> f32 {
    fma(products * d, scale, sum)
}

/// The same where elements are about a center, whose product with the sum of x is given.
#[device]
fn about(sum: f32, products: f32, d: f32, scale: f32, of_x: f32) -> f32 {
    fma(fma(products, d, of_x), scale, sum)
}

/// A sum of x times the center; where there is none, 1, itself.
#[device]
fn times(sum: f32, #[comptime] center: f32) -> f32 {
    if comptime!(center == 1.0) { sum } else { sum * center }
}
