//! How a workgroup cuts its tile of y.

use std::fmt;

/// A workgroup's tile of y, its subgroups' parts of it, and the matrices they multiply. Each divides the one before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KhrShape {
    /// Rows of x, rows of W, and columns of both at once: the workgroup's n, m, k.
    pub tile: [u32; 3],
    /// Subgroups along n and along m, of each slice.
    pub subgroups: [u32; 2],
    /// n, m, k of one multiply-add.
    pub matrix: [u32; 3],
    /// Lanes of a subgroup.
    pub lanes: u32,
    /// In what order it all happens.
    pub schedule: Schedule,
}

/// What a workgroup does when, and which of its subgroups.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Groups of subgroups that share the columns of a slab: each multiplies its part of them onto sums of its own, which
    /// are added in the end. Where a group is small its subgroups hold more, and read less for a product.
    pub slices: u32,
    /// Whether workgroups that follow each other share rows of W, which are too many for a cache, rather than of x.
    pub across: bool,
    /// Whether an invocation asks for the next slab before all have stored this one.
    pub eager: bool,
    /// Whether a whole tile goes to y matrix by matrix: that takes longer than row by row, but fewer registers.
    pub matrices: bool,
}

impl Schedule {
    /// One slice, each thing after the other.
    pub const PLAIN: Schedule = Schedule { slices: 1, across: false, eager: false, matrices: false };
}

impl KhrShape {
    /// A small tile on a CPU driver's matrices.
    pub(super) const NARROW: KhrShape = KhrShape {
        tile: [32, 16, 16],
        subgroups: [2, 1],
        matrix: [8, 8, 8],
        lanes: 8,
        schedule: Schedule::PLAIN,
    };

    /// The same shape on another schedule.
    pub const fn on(self, schedule: Schedule) -> Self {
        KhrShape { schedule, ..self }
    }

    /// Subgroups of the workgroup.
    pub const fn all_subgroups(&self) -> u32 {
        self.subgroups[0] * self.subgroups[1] * self.schedule.slices
    }

    /// Workgroups along x and along y of the grid.
    pub fn groups(&self, n: u32, m: u32) -> [u32; 2] {
        let (n, m) = (n.div_ceil(self.tile[0]), m.div_ceil(self.tile[1]));
        if self.schedule.across { [n, m] } else { [m, n] }
    }

    /// Invocations of the workgroup.
    pub const fn invocations(&self) -> u32 {
        self.all_subgroups() * self.lanes
    }

    /// Matrices along n and along m that a subgroup holds.
    pub const fn held(&self) -> [u32; 2] {
        [
            self.tile[0] / (self.subgroups[0] * self.matrix[0]),
            self.tile[1] / (self.subgroups[1] * self.matrix[1]),
        ]
    }

    /// Multiply-adds along k of one subgroup in a slab.
    pub const fn steps(&self) -> u32 {
        self.tile[2] / (self.matrix[2] * self.schedule.slices)
    }

    /// The slab of `rows` rows that is staged at once, in words of `per_word` elements.
    pub const fn slab(&self, rows: u32, per_word: u32) -> Slab {
        Slab { rows, words: self.tile[2] / per_word, invocations: self.invocations() }
    }

    /// Words from the first of x's slab to the first of W's.
    pub const fn x_words(&self, per_word: u32) -> u32 {
        self.slab(self.tile[0], per_word).staged()
    }

    /// Words of workgroup memory, of `bytes` bytes and `per_word` elements: a slab of x and one of W behind it, or what
    /// sums need on their way.
    pub const fn memory_words(&self, bytes: u32, per_word: u32) -> u32 {
        let slabs = self.x_words(per_word) + self.slab(self.tile[1], per_word).staged();
        let strips = self.strips(1, bytes).words();
        if slabs > strips { slabs } else { strips }
    }

    /// Bytes of workgroup memory.
    pub const fn workgroup_bytes(&self, bytes: u32, per_word: u32) -> u32 {
        bytes * self.memory_words(bytes, per_word)
    }

    /// How sums go through memory of words of `bytes` bytes and `per_word` elements: as many matrices of a row of them as
    /// there is room for.
    pub const fn strip(&self, bytes: u32, per_word: u32) -> Strips {
        let mut wide = self.held()[1];
        while wide > 1
            && (!self.held()[1].is_multiple_of(wide)
                || self.strips(wide, bytes).words() > self.memory_words(bytes, per_word))
        {
            wide -= 1;
        }
        self.strips(wide, bytes)
    }

    const fn strips(&self, wide: u32, bytes: u32) -> Strips {
        Strips {
            subgroups: self.all_subgroups(),
            rows: self.matrix[0],
            columns: wide * self.matrix[1],
            wide,
            word: bytes / 4,
        }
    }
}

/// `128x128x64 by 2x4 of 16x16x16, 32 lanes`, and what differs from the plain schedule.
impl fmt::Debug for KhrShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([n, m, k], [sn, sm], [mn, mm, mk]) = (self.tile, self.subgroups, self.matrix);
        write!(f, "{n}x{m}x{k} by {sn}x{sm} of {mn}x{mm}x{mk}, {} lanes", self.lanes)?;
        if self.schedule != Schedule::PLAIN {
            write!(f, ", {:?}", self.schedule)?;
        }
        Ok(())
    }
}

/// `slices=2+across`: what differs from the plain schedule.
impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slices = (self.slices != 1).then(|| format!("slices={}", self.slices));
        let flags = [("across", self.across), ("eager", self.eager), ("matrices", self.matrices)];
        let flags = flags.into_iter().filter(|(_, on)| *on).map(|(name, _)| name.to_owned());
        f.write_str(&slices.into_iter().chain(flags).collect::<Vec<_>>().join("+"))
    }
}

/// Rows of words that a workgroup copies together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slab {
    /// Rows.
    pub rows: u32,
    /// Words of a row.
    pub words: u32,
    /// Who copies.
    pub invocations: u32,
}

impl Slab {
    /// Words from a staged row to the next: one more than it has, so that neighboring rows start in different banks.
    pub const fn pitch(&self) -> u32 {
        self.words + 1
    }

    /// Words that stage it.
    pub const fn staged(&self) -> u32 {
        self.rows * self.pitch()
    }

    /// Words that one invocation copies, at most.
    pub const fn each(&self) -> u32 {
        (self.rows * self.words).div_ceil(self.invocations)
    }

    /// Whether a turn of all invocations is whole rows, so that each stays in its column.
    pub const fn straight(&self) -> bool {
        self.even() && self.invocations.is_multiple_of(self.words)
    }

    /// Whether every invocation copies as many.
    pub const fn even(&self) -> bool {
        (self.rows * self.words).is_multiple_of(self.invocations)
    }
}

/// Sums in workgroup memory, on their way to y: of each subgroup a row of matrices, side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strips {
    /// Subgroups.
    pub subgroups: u32,
    /// Rows of a strip.
    pub rows: u32,
    /// Columns of a strip.
    pub columns: u32,
    /// Matrices of a strip.
    pub wide: u32,
    /// Sums in a word.
    pub word: u32,
}

impl Strips {
    /// Words from a row to the next: 32 bytes more than it has, so that neighboring rows start in different banks.
    pub const fn pitch(&self) -> u32 {
        (self.columns + 8).div_ceil(self.word)
    }

    /// Words of one subgroup's.
    pub const fn own(&self) -> u32 {
        self.rows * self.pitch()
    }

    /// Words of them all.
    pub const fn words(&self) -> u32 {
        self.subgroups * self.own()
    }

    /// Whether a turn of so many lanes takes whole rows, or whole turns a row, and a strip so many turns.
    pub const fn straight(&self, lanes: u32) -> bool {
        (lanes.is_multiple_of(self.columns) || self.columns.is_multiple_of(lanes))
            && self.sums().is_multiple_of(lanes)
            && self.columns.is_multiple_of(self.word)
            && lanes.is_multiple_of(self.word)
    }

    /// How far a lane's sum of each turn is from its first: rows, columns.
    pub fn turns(&self, lanes: u32) -> Vec<(u32, u32)> {
        (0..self.sums()).step_by(lanes as usize).map(|at| (at / self.columns, at % self.columns)).collect()
    }

    /// Sums of one subgroup's.
    pub const fn sums(&self) -> u32 {
        self.rows * self.columns
    }
}
