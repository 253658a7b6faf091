//! How a workgroup cuts its tile of y.

use std::fmt;

/// A workgroup's tile of y, its subgroups' parts of it, and the matrices they multiply. Each divides the one before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KhrShape {
    /// Rows of x, rows of W, and columns of both at once: the workgroup's n, m, k.
    pub tile: [u32; 3],
    /// Subgroups along n and along m.
    pub subgroups: [u32; 2],
    /// n, m, k of one multiply-add.
    pub matrix: [u32; 3],
    /// Lanes of a subgroup.
    pub lanes: u32,
}

impl KhrShape {
    /// Invocations of the workgroup.
    pub const fn invocations(&self) -> u32 {
        self.subgroups[0] * self.subgroups[1] * self.lanes
    }

    /// Matrices along n and along m that a subgroup holds.
    pub const fn held(&self) -> [u32; 2] {
        [
            self.tile[0] / (self.subgroups[0] * self.matrix[0]),
            self.tile[1] / (self.subgroups[1] * self.matrix[1]),
        ]
    }

    /// Elements of one matrix of sums for each subgroup.
    pub const fn sums(&self) -> u32 {
        self.subgroups[0] * self.subgroups[1] * self.matrix[0] * self.matrix[1]
    }

    /// The slab of `rows` rows that is staged at once, in words of `per_word` elements.
    pub const fn slab(&self, rows: u32, per_word: u32) -> Slab {
        Slab { rows, words: self.tile[2] / per_word, invocations: self.invocations() }
    }

    /// Bytes of workgroup memory, words having `word` bytes and `per_word` elements.
    pub const fn workgroup_bytes(&self, word: u32, per_word: u32) -> u32 {
        let (x, w) = (self.slab(self.tile[0], per_word), self.slab(self.tile[1], per_word));
        word * (x.staged() + w.staged()) + 4 * self.sums()
    }
}

/// `128x128x64 by 2x4 of 16x16x16, 32 lanes`
impl fmt::Debug for KhrShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([n, m, k], [sn, sm], [mn, mm, mk]) = (self.tile, self.subgroups, self.matrix);
        write!(f, "{n}x{m}x{k} by {sn}x{sm} of {mn}x{mm}x{mk}, {} lanes", self.lanes)
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

    /// Whether every invocation copies as many.
    pub const fn even(&self) -> bool {
        (self.rows * self.words).is_multiple_of(self.invocations)
    }
}
