//! Which arm and tile a gemv takes: a pure function of format, shape and device, as the records of `bench` measured it.

use kiln_abi::{DeviceCaps, spirv::Capability};
use kiln_dsl::{
    prelude::Plane,
    tensor::{MOST_COPIES, TABLES},
};

use super::{Arm, Choice, Exact, Shape};
use crate::{
    Format,
    activations::{BLOCK, Planes},
    arms::{COPIES, Ends, Form, MOST, Tile, WIDE},
};

/// Units of a row that make all lanes of a row worth their fold.
pub(super) const LANES: [u32; 4] = [128, 64, 32, 8];
/// Rows of W per lane group: their blocks of x are read once.
const ROWS: u32 = 4;
/// The same for a single row of x of one plane.
const ROWS_OF_BYTES: u32 = 2;
/// Rows of x at once, where there is more than one.
pub(super) const COLS: u32 = 8;
/// Invocations of a workgroup, at least.
const LOCAL: u32 = 64;
/// Rows of a lane group and invocations of a workgroup that many rows share a table in.
const MANY: [(u32, u32); 5] = [(8, 768), (4, 768), (4, 512), (2, 768), (2, 512)];
/// Multiprocessors that such workgroups are spread over: an H200's, for no device says how many it has.
const PROCESSORS: u32 = 132;
/// Bytes of a thin unit's first plane, at most.
const THIN: u32 = 8;
/// Workgroups of a launch that are few, for a GPU that takes several hundred at once, and the rows of a lane group then.
const FEW_GROUPS: u32 = 256;
/// And those of several rows of x where rows of W are short: four would save little and take twice the code.
const FEW_ROWS: u32 = 2;
/// Planes that are few.
const FEW_PLANES: u32 = 2;
/// Rounds that are few.
const FEW_ROUNDS: u32 = 2;
/// Bytes of a unit's first plane that are few, where it has no table.
const NARROW: u32 = 16;
/// Rows of a lane group and invocations of a workgroup where a table is long: many, so that few workgroups fill it.
const LONG: [(u32, u32); 2] = [(8, 768), (ROWS, WIDE)];
/// Rows at once, where there are eight or a round, and where a unit has many words.
const FEW_AT_ONCE: u32 = 2;
/// Bytes that copies of a long table take at most, where a unit is not so thin that to fill them takes longer.
const BYTES_OF_LONG: u32 = 16 << 10;
/// Words of the longest table that is not beyond that, and copies of longer ones where rows are of two rounds.
const LONGEST: u32 = 512;
const COPIES_OF_LONGEST: u32 = 2;
/// Rows of a lane group and invocations of a workgroup where a table is longer: as many rows as there is room for, for a
/// lane reads x once for all of them; of single words and of pairs, where a launch has fewer.
const MANY_ROWS: (u32, u32) = (16, 768);
const SOME_ROWS: [(u32, u32); 2] = [(8, 256), (8, 512)];
/// Rows that a lane owns of thin units, and takes at once where it would take all, in a launch that keeps so many
/// invocations then: what each does beside its products is done for more rows.
const ROWS_OF_THIN: (u32, u32) = (8, 4);
const MANY_INVOCATIONS: u32 = 64 << 10;
/// Planes of a unit that is not heavy, at most.
const PLANES_OF_HEAVY: u32 = 3;
/// Workgroups up to which three rounds of wide units are told where a unit is not heavy: 1024 of them lose by it.
const SOME_GROUPS: u32 = 512;
/// Words of a small table.
const SMALL: u32 = 256;
/// The subgroup size that shuffles are used for.
pub(crate) const SUBGROUP: u32 = 32;

/// What a choice depends on of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Elements of a unit.
    pub unit: u32,
    /// Elements that share a scale, where it has packed lanes.
    pub group: u32,
    /// Whether it has packed lanes.
    pub packed: bool,
    /// Its first plane.
    pub first: Plane,
    /// Planes that are not tables.
    pub planes: u32,
    /// 32-bit words of its first table, if it has one.
    pub table: u32,
    /// Those of further ones.
    pub others: u32,
    /// Words of an entry of the first.
    pub entry: u32,
}

impl Traits {
    /// Those of a format.
    pub fn of<F: Format>() -> Self {
        let mut tables = F::PLANES.iter().filter(|plane| plane.is_table());
        let (table, entry) = tables.next().map_or((0, 1), |plane| (plane.bytes / 4, plane.entry));
        let others = tables.map(|plane| plane.bytes / 4).sum();
        let first = F::PLANES.first().copied().unwrap_or(Plane::unit(4));
        let planes = F::PLANES.iter().filter(|plane| !plane.is_table()).count() as u32;
        let (unit, arms) = (F::UNIT, F::arms());
        let (packed, group) = (arms.is_packed(), arms.group());
        Traits { unit, group, packed, first, planes, table, others, entry }
    }

    /// Whether a unit takes so few bytes that a round's loads leave the memory idle: the next round's go with them.
    fn is_thin(self) -> bool {
        self.table == 0 && self.first.units == 1 && self.first.bytes <= THIN
    }

    /// Whether elements are words: those of a few rows are as many as a lane has room for.
    fn is_whole(self) -> bool {
        self.first.units == 1 && self.first.bytes == 4 * self.unit
    }

    /// Whether its first table is small.
    fn is_small(self) -> bool {
        (1..=SMALL).contains(&self.table)
    }

    /// Whether that holds, and a unit meets one block of x.
    fn is_thin_of_block(self) -> bool {
        self.is_thin() && self.unit == BLOCK
    }

    /// Whether its units take many bytes and no table.
    fn is_wide(self) -> bool {
        self.table == 0 && !self.is_thin()
    }

    /// Whether its units take more than that.
    fn is_broad(self) -> bool {
        self.is_wide() && self.first.bytes > NARROW
    }

    /// Whether a unit without a table takes more bytes or planes than a few.
    fn is_heavy(self) -> bool {
        self.is_broad() || self.is_wide() && self.planes > PLANES_OF_HEAVY
    }

    /// Whether its first table is more than that.
    fn is_long(self) -> bool {
        self.table > SMALL
    }

    /// Whether its first table is longer still.
    fn is_longest(self) -> bool {
        self.table > LONGEST
    }

    /// Whether a unit has several words: two in its first plane, and two more planes.
    fn has_many_words(self) -> bool {
        self.first.bytes >= THIN && self.planes > FEW_PLANES
    }

    /// Bytes of workgroup memory that its tables take at most.
    fn table_bytes(self, copies: u32) -> u32 {
        let (first, others) = (4 * self.table * copies, 4 * self.others);
        let most = if copies > 1 { MOST_COPIES } else { 1 };
        first + (others * most).min(TABLES.saturating_sub(first).max(others))
    }
}

/// The choice for a format.
///
/// A row's result depends on the arm and the lanes, and these on the format and k alone: what shares its step does not
/// change it.
pub fn choose(format: Traits, shape: Shape, caps: &DeviceCaps) -> Choice {
    let has_dot = caps.capabilities.contains(&Capability::DotProductInput4x8BitPacked);
    let (arm, why) = match (format.packed, has_dot) {
        _ if shape.exact == Exact::Float => (Arm::Float, "float is asked for"),
        (true, true) if shape.exact == Exact::One => {
            (Arm::Dot4(Planes::One), "packed weights, the class int8, a device with an integer dot product")
        }
        (true, true) => (Arm::Dot4(Planes::Two), "packed weights on a device with an integer dot product"),
        (true, false) => (Arm::Float, "packed weights without an integer dot product"),
        (false, _) => (Arm::Float, "the format has no packed lanes"),
    };
    let per_row = shape.k / format.unit;
    let known = known_rounds(format, arm).iter().find(|known| known.lanes * known.rounds == per_row);
    let lanes = lanes(format, arm).find(|lanes| per_row >= least(format, arm, *lanes)).unwrap_or(LANES[3]);
    let subgroup = subgroup(caps);
    let cols = if shape.rows == 1 || shape.experts { 1 } else { COLS };
    let plain = || tile(format, arm, (lanes, cols), subgroup);
    let mut tile = known.map_or_else(plain, |known| tile_of_row(format, arm, (*known, cols), subgroup));
    if tile.rows > FEW_ROWS && has_copies(format, arm, cols) {
        tile.rows = if workgroups(tile, shape) < FEW_GROUPS { FEW_ROWS } else { tile.rows };
    }
    if format.table_bytes(tile.copies) + FOLD_BYTES > caps.limits.max_workgroup_bytes {
        tile.copies = 1;
    }
    if let Some(known) = known.filter(|known| is_told(format, arm, **known, cols)) {
        let fits = |t: &Tile| {
            pays(format, *t, shape)
                && t.local <= caps.limits.max_invocations
                && t.bytes_beside(format.table_bytes(t.copies), Form::default())
                    <= caps.limits.max_workgroup_bytes
        };
        let tiles = told_tiles(format, arm, tile, *known).into_iter().filter(fits);
        tile = tiles.min_by_key(|t| most_rows(*t, shape)).unwrap_or(tile);
    }
    let fold = subgroup.map_or("workgroup memory", |_| "shuffles");
    let Tile { lanes, rows, local, .. } = tile;
    let how = format!(
        "{per_row} units a row for {lanes} lanes of {local}, {rows} rows each; {cols} rows of x at once; folds by {fold}"
    );
    Choice { arm, tile, why, how }
}

/// Invocations of a workgroup that leaves blocks alone, at most: what 1024 lose where many of them follow each other is
/// more than the launch that they save (24576 rows of 4096 on an H200: 5.6 us against 2.6).
const MOST_FOR_BLOCKS: u32 = 512;

/// The tile of a choice where a launch leaves blocks: a workgroup owns a block of rows of W. None where the device has
/// not the invocations or the memory for it.
pub fn of_block(format: Traits, choice: &Choice, form: Form, caps: &DeviceCaps) -> Option<Tile> {
    let tile = choice.tile.untold().of_block();
    let most = if form.ends == Ends::Blocks { MOST_FOR_BLOCKS } else { u32::MAX };
    let fits = tile.local <= most.min(caps.limits.max_invocations)
        && tile.bytes_beside(format.table_bytes(tile.copies), form) <= caps.limits.max_workgroup_bytes;
    (fits && choice.tile.cols == 1 && choice.arm == Arm::Dot4(Planes::Two)).then_some(tile)
}

/// The subgroup size that kernels with a choice use shuffles of, where the device has it.
pub fn subgroup(caps: &DeviceCaps) -> Option<u32> {
    let (low, high) = caps.subgroup_sizes;
    (low <= SUBGROUP && SUBGROUP <= high).then_some(SUBGROUP)
}

/// Bytes of workgroup memory that a fold takes at most beside copies of a table.
const FOLD_BYTES: u32 = 8192;

/// Lanes that a row may have: of bytes, and where a table is filled, fewer, for then more rows share what is filled.
fn lanes(format: Traits, arm: Arm) -> impl Iterator<Item = u32> {
    let most = match (format.table, arm) {
        (0, Arm::Dot4(Planes::Two)) if format.is_thin() => 64,
        (0, Arm::Float | Arm::Dot4(Planes::Two)) => 128,
        _ if format.is_broad() => 128,
        _ => 64,
    };
    LANES.into_iter().filter(move |lanes| *lanes <= most)
}

/// Units of a row from which on it has so many lanes: a round each, or more where what fills a table for few rows would
/// take longer than what more lanes save.
fn least(format: Traits, arm: Arm, lanes: u32) -> u32 {
    if format.is_small() && arm != Arm::Float && lanes > LANES[2] { 4 * lanes } else { lanes }
}

/// Whether a table has copies, and fewer rows a lane group are worth it where a launch has few workgroups.
fn has_copies(format: Traits, arm: Arm, cols: u32) -> bool {
    format.is_small() && arm != Arm::Float && cols == 1
}

/// Every tile that [`choose`] can give a format on an arm.
pub fn tiles(format: Traits, arm: Arm) -> Vec<Tile> {
    let subgroups = [None, Some(SUBGROUP)];
    let cols = [1, COLS];
    let shapes = lanes(format, arm).flat_map(|lanes| cols.map(|cols| (lanes, cols)));
    let mut tiles: Vec<_> = shapes.flat_map(|shape| subgroups.map(|s| tile(format, arm, shape, s))).collect();
    for known in known_rounds(format, arm) {
        for tile in
            cols.into_iter().flat_map(|cols| subgroups.map(|s| tile_of_row(format, arm, (*known, cols), s)))
        {
            if !tiles.contains(&tile) {
                tiles.push(tile);
            }
        }
    }
    let few: Vec<_> = tiles
        .iter()
        .filter(|t| has_copies(format, arm, t.cols))
        .map(|t| Tile { rows: FEW_ROWS, ..*t })
        .collect();
    tiles.extend(few);
    let scarce: Vec<_> = tiles.iter().filter(|t| t.copies > 1).map(|t| Tile { copies: 1, ..*t }).collect();
    let told = cols.into_iter().flat_map(|cols| known_rounds(format, arm).iter().map(move |k| (cols, *k)));
    let known = told.filter(|(cols, known)| is_told(format, arm, *known, *cols)).flat_map(|(cols, known)| {
        let plain = subgroups.map(|s| tile(format, arm, (known.lanes, cols), s));
        plain.into_iter().flat_map(move |t| told_tiles(format, arm, t, known))
    });
    let known: Vec<_> = known.collect();
    tiles.extend(scarce.into_iter().chain(known));
    tiles
}

/// Units of a row that each of so many lanes takes, and the rows of a step (0: all at once) where a tile tells it.
#[derive(Clone, Copy)]
struct Rounds {
    lanes: u32,
    rounds: u32,
    walk: u32,
}

/// The rounds that a tile tells, where it was measured to pay.
fn known_rounds(format: Traits, arm: Arm) -> &'static [Rounds] {
    const fn known(lanes: u32, rounds: u32, walk: u32) -> Rounds {
        Rounds { lanes, rounds, walk }
    }
    let Arm::Dot4(planes) = arm else { return &[] };
    match planes {
        _ if format.is_small() && format.others == 0 && format.first.bytes <= THIN => {
            const { &[known(64, 1, 1), known(64, 2, 2), known(64, 6, 2)] }
        }
        _ if format.is_small() && format.others == 0 => {
            const { &[known(32, 2, 1), known(32, 4, 2), known(64, 6, 2)] }
        }
        Planes::Two if format.is_thin() && format.unit > BLOCK => {
            const { &[known(32, 1, 1), known(64, 1, 1), known(64, 3, 1)] }
        }
        // Six rounds are faster alone, and a model slower that comes to their code once a step.
        Planes::Two if format.is_thin() => const { &[known(64, 1, 0), known(64, 2, 0)] },
        Planes::Two if format.is_longest() && format.entry > 1 => {
            const { &[known(64, 1, 2), known(128, 1, 1), known(128, 3, 1)] }
        }
        Planes::Two if format.is_longest() => const { &[known(64, 1, 1), known(128, 1, 1), known(64, 6, 2)] },
        _ if format.is_long() && format.entry > 1 => {
            const { &[known(64, 1, 4), known(64, 2, 4), known(64, 6, 2)] }
        }
        _ if format.is_long() => const { &[known(64, 1, 4), known(64, 2, 4), known(64, 6, 4)] },
        Planes::Two if format.is_wide() => const { &[known(32, 2, 0), known(128, 1, 0), known(128, 3, 4)] },
        Planes::One if format.is_broad() => const { &[known(64, 1, 0), known(128, 1, 0)] },
        Planes::One if format.is_thin_of_block() => const { &[known(64, 1, 0), known(64, 2, 0)] },
        Planes::One if format.is_wide() => const { &[known(64, 1, 0)] },
        _ => &[],
    }
}

/// Whether a tile of so many rows of x tells its rounds. For several it was measured to pay where each lane has a unit of
/// weights without a table, and of one plane where a table is filled or units are thin; each round is that much code.
fn is_told(format: Traits, arm: Arm, known: Rounds, cols: u32) -> bool {
    match arm {
        // More rounds of one row are faster alone, and a model is slower by them: it comes to much code rarely.
        Arm::Dot4(Planes::One) if format.table == 0 => known.rounds == 1 || cols > 1,
        Arm::Dot4(Planes::One) => cols == 1 || known.rounds <= FEW_ROUNDS,
        _ => cols == 1 || format.is_wide() && known.rounds == 1 && known.lanes == LANES[0],
    }
}

/// Copies of a long table for the lane groups of a tile, where a device has room.
fn copies_of_long(format: Traits, tile: Tile) -> u32 {
    match tile.rows > ROWS && tile.rounds == FEW_ROUNDS {
        true if format.is_longest() => COPIES_OF_LONGEST,
        // Lanes never meet in pairs of banks.
        true => COPIES,
        false if tile.rows == MANY_ROWS.0 || format.first.bytes < THIN => 1,
        false => 1 << (BYTES_OF_LONG / (4 * format.table)).max(1).ilog2(),
    }
}

/// Rows of a lane group and invocations of a workgroup where a table is long, those of many rows where they fold by
/// shuffles: else that would take more workgroup memory than there is.
fn shapes_of_long(format: Traits, tile: Tile, longest: bool) -> Vec<(u32, u32)> {
    let some = SOME_ROWS[usize::from(format.entry > 1)];
    let shapes: &[(u32, u32)] = match (tile.lanes, tile.rounds) {
        (_, FEW_ROUNDS) => &LONG,
        (128, 1) => &[MANY_ROWS, some, (ROWS, WIDE)],
        (128, _) => &[some, (ROWS, WIDE)],
        (_, 6) if longest => &[(ROWS, 2 * WIDE), (ROWS, WIDE)],
        _ => &[(ROWS, WIDE)],
    };
    shapes.iter().copied().filter(|(rows, _)| tile.subgroup.is_some() || *rows <= ROWS).collect()
}

/// Whether a tile that tells its rounds was measured to pay in a launch of that size.
fn pays(format: Traits, tile: Tile, shape: Shape) -> bool {
    let groups = workgroups(tile, shape);
    if format.is_thin() {
        tile.rows <= ROWS || groups.saturating_mul(tile.local) >= MANY_INVOCATIONS
    } else {
        !format.is_wide() || tile.rounds <= FEW_ROUNDS || format.is_heavy() || groups <= SOME_GROUPS
    }
}

/// What a tile may become where its rounds are known, the first where they are alike.
fn told_tiles(format: Traits, arm: Arm, tile: Tile, Rounds { rounds, walk, .. }: Rounds) -> Vec<Tile> {
    if tile.cols > 1 {
        return vec![Tile { rounds, rows: tile.rows.min(ROWS), ..tile }];
    }
    let told = Tile { rounds, walk, ..tile };
    if arm == Arm::Dot4(Planes::One) && format.table == 0 {
        return vec![told];
    }
    if format.is_thin() {
        let told = Tile { local: if walk > 0 { LOCAL } else { told.local }, ..told };
        let (rows, at_once) = ROWS_OF_THIN;
        let more = Tile { rows, walk: if walk > 0 { 2 * walk } else { at_once }, ..told };
        let light = format.planes <= FEW_PLANES || format.unit > BLOCK;
        return if light && rounds <= FEW_ROUNDS { vec![more, told] } else { vec![told] };
    }
    if format.is_long() {
        // What is asked for ahead takes registers: fewer rows at once of a unit of many words.
        let few = |rows| rows > ROWS || rounds == 1 || rounds == 2 && format.has_many_words();
        let two = arm == Arm::Dot4(Planes::Two);
        let longest = two && format.is_longest();
        let at_once = |rows| match longest {
            false if few(rows) => FEW_AT_ONCE / if two { format.entry } else { 1 },
            _ => walk,
        };
        let ahead = if longest && format.entry == 1 && rounds > 1 { 2 } else { told.ahead };
        let tiles = shapes_of_long(format, told, longest).into_iter();
        let tiles = tiles.map(|(rows, local)| Tile { rows, local, walk: at_once(rows), ahead, ..told });
        let more = |t: Tile| Some(Tile { copies: copies_of_long(format, t), ..t }).filter(|t| t.copies > 1);
        return tiles.flat_map(|t| more(t).into_iter().chain([t])).collect();
    }
    if !format.is_small() {
        // A unit of few planes has less to ask for: more lane groups of fewer rows were measured to gain then.
        let rows = if rounds > 1 && walk == 0 && format.planes <= FEW_PLANES { FEW_ROWS } else { told.rows };
        return vec![Tile { rows, ..told }];
    }
    // Eight rows were measured with two rounds alone.
    let many = MANY.iter().filter(|(rows, _)| tile.subgroup.is_some() && (*rows <= ROWS || rounds == 2));
    many.map(|&(rows, local)| Tile { rows, local, copies: MOST, ..told }).collect()
}

/// Workgroups of a launch.
fn workgroups(tile: Tile, shape: Shape) -> u32 {
    shape.m.div_ceil(tile.workgroup_rows()).saturating_mul(shape.rows)
}

/// Rows of W that the busiest multiprocessor multiplies.
fn most_rows(tile: Tile, shape: Shape) -> u32 {
    workgroups(tile, shape).div_ceil(PROCESSORS).saturating_mul(tile.workgroup_rows())
}

/// The tile for rows of a known length. Several columns leave a lane of many rows no room: it takes two rounds instead, which
/// meet as twice the lanes do.
fn tile_of_row(format: Traits, arm: Arm, (known, cols): (Rounds, u32), subgroup: Option<u32>) -> Tile {
    if format.is_longest() && cols > 1 && known.lanes > LANES[1] && known.rounds == 1 {
        Tile { apart: true, ..tile(format, arm, (known.lanes / 2, cols), subgroup) }
    } else {
        tile(format, arm, (known.lanes, cols), subgroup)
    }
}

fn tile(format: Traits, arm: Arm, (lanes, cols): (u32, u32), subgroup: Option<u32>) -> Tile {
    let (table, bytes) = (format.table > 0, arm == Arm::Dot4(Planes::One));
    let plain = arm == Arm::Float && !format.packed;
    // A row of x beside weights of wide numbers: more lane groups of fewer rows have more of these on their way.
    let lone = plain && cols == 1 && lanes == LANES[0];
    let rows = match (bytes && !table, cols) {
        (true, 1) => ROWS_OF_BYTES,
        (_, 1) if lone && format.is_whole() => 1,
        (_, 1) if lone => FEW_ROWS,
        (_, COLS) if lanes == LANES[3] || format.is_whole() => FEW_ROWS,
        _ => ROWS,
    };
    let two = cols == 1 && arm == Arm::Dot4(Planes::Two);
    let wide = cols == 1 && (table || bytes) || lone;
    let thin = two && format.is_thin();
    // Where rows of x are several, what a lane does with them is long enough to wait for numbers that are wide.
    let ahead = u32::from(thin || plain && cols > 1 || cols == 1 && table && arm != Arm::Float);
    let small = has_copies(format, arm, cols);
    // Rows of x of one plane beside a unit of one group leave a lane room for more workgroups.
    let short = bytes && cols > 1 && format.is_wide() && !format.is_broad() && format.group == BLOCK;
    let local = match lanes {
        _ if wide => WIDE,
        64 if short => LOCAL,
        _ if thin || cols > 1 && lanes == LANES[1] => 2 * LOCAL,
        _ => LOCAL.max(lanes),
    };
    let copies = if small { COPIES } else { 1 };
    Tile { lanes, rows, cols, ahead, rounds: 0, walk: 0, apart: false, local, copies, subgroup }
}
