//! What a tensor format says to a kernel: planes on the device, units of them, decoding.

use kiln_abi::Location;
use kiln_dsl_macros::device;
use kiln_spirv_emit::ir::{Const, ValueId};

use std::cell::RefCell;
use std::rc::Rc;

use crate::{
    block::Buf,
    builtin::barrier,
    math::{Vec2Methods, Vec4Methods, fma, pack_half, vec2, vec4},
    ops::{add, bitand, div, mul, rem, select, shl, shr},
    place::{At, Path},
    session::with,
    table::{Asked, Entries, Table, field},
    value::{Ex, Read, Vec2, Vec4},
};

mod addresses;

/// One field of a format as a device holds it: that field of every unit, or of every block, one after another.
///
/// A tensor is its planes, each from a multiple of 16 bytes on. Wide planes are read 16 bytes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plane {
    /// Bytes of the field: 1, 2, or a multiple of 4.
    pub bytes: u32,
    /// Units that share it: 1 for a field of the unit, 0 for a table that the whole tensor shares.
    pub units: u32,
    /// Words of an entry of a table, which are read at once: 1 or 2.
    pub entry: u32,
}

pub use crate::table::{MOST_COPIES, TABLES, table_bytes, table_copies};

/// Planes start at multiples of this many bytes.
pub const PLANE_ALIGN: u32 = 16;

impl Plane {
    /// A field of `bytes` bytes in each unit. Other numbers of bytes than a field can have do not compile.
    pub const fn unit(bytes: u32) -> Self {
        Self::block(bytes, 1)
    }

    /// A field of `bytes` bytes that `units` units, a block, share. Other numbers of bytes than a field can have do not
    /// compile.
    pub const fn block(bytes: u32, units: u32) -> Self {
        assert!(
            bytes == 1 || bytes == 2 || bytes > 0 && bytes.is_multiple_of(4),
            "a plane's field has 1, 2 or a multiple of 4 bytes; part it into several planes"
        );
        Plane { bytes, units, entry: 1 }
    }

    /// A table of `words` 32-bit words, once for the tensor; tables are the last planes.
    pub const fn table(words: u32) -> Self {
        Plane { bytes: 4 * words, units: 0, entry: 1 }
    }

    /// The same, of entries of two words.
    pub const fn pairs(words: u32) -> Self {
        Plane { bytes: 4 * words, units: 0, entry: 2 }
    }

    /// Whether it is a table.
    pub const fn is_table(self) -> bool {
        self.units == 0
    }

    const fn bytes_of(self, n_units: u64) -> u64 {
        let n = if self.units == 0 { 1 } else { n_units / self.units as u64 };
        (n * self.bytes as u64).next_multiple_of(PLANE_ALIGN as u64)
    }
}

/// First byte of each plane of a tensor of `n_units` units, and the bytes of them all.
pub fn plane_offsets(planes: &[Plane], n_units: u64) -> (Vec<u64>, u64) {
    let mut end = 0;
    let mut offsets = Vec::with_capacity(planes.len());
    for plane in planes {
        offsets.push(end);
        end += plane.bytes_of(n_units);
    }
    (offsets, end)
}

/// A tensor format: rows of blocks of `BLK` elements, on a device cut into units of `UNIT` elements.
///
/// A unit is what an invocation takes at once; `UNIT` divides `BLK`, or is a multiple of it. Where a plane is narrow,
/// read it by sixteen bits and shift: picking single bytes costs more than the arithmetic around it.
#[device]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tensor format",
    label = "a format implements `TensorFormat` in its own file"
)]
pub trait TensorFormat: 'static {
    /// Elements per block, a power of two.
    const BLK: u32;
    /// Elements per unit, a power of two of 4 or more; 32 or 64 where lanes are packed.
    const UNIT: u32;
    /// The planes, wide ones first.
    const PLANES: &'static [Plane];

    /// The elements `at` to `at + 3` of a unit; `at` is a multiple of four.
    fn decode4(u: &Unit, at: u32) -> Vec4<f32>;

    /// The element `at` (less than `UNIT`) of a unit.
    fn decode(u: &Unit, at: u32) -> f32 {
        let four = Self::decode4(&u, at & !3);
        let even = select((at & 2) == 0, four.x(), four.z());
        let odd = select((at & 2) == 0, four.y(), four.w());
        select((at & 1) == 0, even, odd)
    }

    /// The elements `at` to `at + 7` of a unit that has as many, rounded to halves, two a word; `at` is a multiple of
    /// eight. A format of halves gives them as they lie.
    fn decode_halves(u: &Unit, at: u32) -> Vec4<u32> {
        pack_halves(Self::decode4(&u, at), Self::decode4(&u, at + 4))
    }
}

/// Eight numbers as halves, two a word.
#[device]
pub fn pack_halves(a: Vec4<f32>, b: Vec4<f32>) -> Vec4<u32> {
    vec4(
        pack_half(vec2(a.x(), a.y())),
        pack_half(vec2(a.z(), a.w())),
        pack_half(vec2(b.x(), b.y())),
        pack_half(vec2(b.z(), b.w())),
    )
}

/// A format that an integer dot product can use: an element is `scale * q + offset` with an 8-bit `q`.
///
/// A unit has 32 or 64 elements, one or two of the blocks of 32 in which a row of x comes, in groups of `GROUP` with one
/// scale and one offset. `q` is signed, from -128 to 127.
#[device]
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no packed integer lanes",
    label = "implement `PackedFormat` for formats whose elements are scale * q + offset"
)]
pub trait PackedFormat: TensorFormat {
    /// Elements that share a scale and an offset: 16 or 32.
    const GROUP: u32;
    /// Whether any offset is not zero.
    const OFFSET: bool;
    /// `Some(-8.0)` where `scale_offset` always gives an offset of `-8.0 * scale` (and `OFFSET` is true): a product with rows
    /// of x of two planes then takes it from the sum of x alone. It is worth stating where it is true.
    const CENTER: Option<f32> = None;

    /// Scale and offset of the group `group` of the unit.
    fn scale_offset(u: &Unit, group: u32) -> (f32, f32);

    /// The `q` of the elements `4 pack` to `4 pack + 3` as signed bytes, the first lowest.
    fn lanes(u: &Unit, pack: u32) -> u32;
}

/// The elements `at` to `at + 3` of a packed format: `scale * q + offset`, rounded once.
#[device]
pub fn packed_decode4<F: PackedFormat>(u: &Unit, at: u32) -> Vec4<f32> {
    let word = F::lanes(&u, at >> 2);
    let (scale, offset) = F::scale_offset(&u, at / F::GROUP);
    let q0 = (word << 24) as i32 >> 24;
    let q1 = (word << 16) as i32 >> 24;
    let q2 = (word << 8) as i32 >> 24;
    let q3 = word as i32 >> 24;
    vec4(
        fma(q0 as f32, scale, offset),
        fma(q1 as f32, scale, offset),
        fma(q2 as f32, scale, offset),
        fma(q3 as f32, scale, offset),
    )
}

/// The element `at` of a packed format, as [`packed_decode4`] gives it.
#[device]
pub fn packed_decode<F: PackedFormat>(u: &Unit, at: u32) -> f32 {
    let word = F::lanes(&u, at >> 2);
    let (scale, offset) = F::scale_offset(&u, at / F::GROUP);
    let q = (word << (24 - (at & 3) * 8)) as i32 >> 24;
    fma(q as f32, scale, offset)
}

/// A tensor on the device, seen by a kernel.
pub struct Tensor {
    words: Buf<u32>,
    /// Of each plane: what it is, and its first byte.
    planes: Vec<(Plane, Ex<u32>)>,
    /// The tables that have room in workgroup memory: all, in the order of their planes, or none.
    tables: Tables,
    n_units: Ex<u32>,
}

type Tables = Rc<[Table]>;

/// Tables on their way to workgroup memory.
pub struct AskedTables(Vec<Asked>);

impl Tensor {
    /// The tensor of `n_units` units of format `F` behind `words`.
    #[track_caller]
    pub fn new<F: TensorFormat>(words: &Buf<u32>, n_units: Ex<u32>) -> Self {
        let mut first = number(0);
        let mut planes = Vec::with_capacity(F::PLANES.len());
        for (i, &plane) in F::PLANES.iter().enumerate() {
            planes.push((plane, first));
            if i + 1 < F::PLANES.len() {
                let fields = match plane.units {
                    0 => number(1),
                    1 => n_units,
                    units => div(n_units, number(units)),
                };
                let bytes = mul(fields, number(plane.bytes));
                let aligned = bitand(add(bytes, number(PLANE_ALIGN - 1)), number(!(PLANE_ALIGN - 1)));
                first = if i == 0 { aligned } else { add(first, aligned) };
            }
        }
        Tensor { words: words.view(), planes, tables: Rc::new([]), n_units }
    }

    /// The same with room in workgroup memory for its tables, if it has any, `copies` (a power of two) of each word of
    /// the first: an invocation reads its own, so that fewer of them wait for one bank. [`Tensor::fill_table`] fills them.
    #[track_caller]
    pub fn with_table(mut self, copies: u32) -> Self {
        let planes: Vec<_> = self.planes.iter().map(|(plane, _)| *plane).collect();
        let tables = planes.iter().filter(|plane| plane.is_table());
        let tables = tables.zip(table_copies(&planes, copies));
        self.tables = tables.map(|(plane, n)| Table::new(*plane, n, self.n_units)).collect();
        self
    }

    /// The same with its tables in workgroup memory, once, and filled.
    #[track_caller]
    pub fn stage(self) -> Self {
        let with_table = self.with_table(1);
        with_table.fill_table();
        with_table
    }

    /// Brings its tables, if it has any, to workgroup memory. It holds a barrier then, so all invocations of the
    /// workgroup come here.
    #[track_caller]
    pub fn fill_table(&self) {
        self.fill_table_with(&self.ask_table());
    }

    /// Asks for what [`Tensor::fill_table_with`] then brings to workgroup memory.
    #[track_caller]
    pub fn ask_table(&self) -> AskedTables {
        AskedTables(self.table_places().map(|(table, first)| table.ask(&self.words, first)).collect())
    }

    /// The same as [`Tensor::fill_table`] with what was asked for earlier.
    #[track_caller]
    pub fn fill_table_with(&self, asked: &AskedTables) {
        for ((table, first), asked) in self.table_places().zip(&asked.0) {
            table.fill(asked, &self.words, first);
        }
        if !self.tables.is_empty() {
            barrier();
        }
    }

    /// Whether it has tables in workgroup memory.
    pub fn has_tables(&self) -> bool {
        !self.tables.is_empty()
    }

    /// The tables that have room in workgroup memory, and their first bytes.
    fn table_places(&self) -> impl Iterator<Item = (&Table, Ex<u32>)> {
        let planes = self.planes.iter().filter(|(plane, _)| plane.is_table());
        self.tables.iter().zip(planes.map(|(_, first)| *first))
    }

    /// The same with the table of another tensor of its format.
    pub fn with_table_of(mut self, other: &Tensor) -> Self {
        self.tables.clone_from(&other.tables);
        self
    }

    /// Its unit `index`: nothing is loaded yet.
    #[track_caller]
    pub fn unit(&self, index: Ex<u32>) -> Unit {
        let fields = self.planes.iter().map(|&(plane, first)| Field { plane, first, loaded: Vec::new() });
        let (words, tables) = (self.words.view(), self.tables.clone());
        Unit {
            words,
            fields: fields.collect(),
            index,
            row: None,
            in_row: index,
            behind: 0,
            first_field: None,
            tables,
            kept: RefCell::new(Vec::new()),
        }
    }

    /// Unit `i` of a row whose first is `start`: a row is whole blocks, so that `i` says which unit of its block it is.
    #[track_caller]
    pub fn unit_of_row(&self, start: Ex<u32>, i: Ex<u32>) -> Unit {
        Unit { row: Some(start), in_row: i, ..self.unit(add(start, i)) }
    }

    /// Its unit `index`, whose field of the first plane lies at `first_field`.
    #[track_caller]
    pub(crate) fn unit_at(&self, index: Ex<u32>, first_field: Path) -> Unit {
        Unit { first_field: Some(first_field), ..self.unit(index) }
    }

    pub(crate) fn words(&self) -> &Buf<u32> {
        &self.words
    }

    /// What makes it this tensor and no other.
    pub(crate) fn identity(&self) -> Vec<ValueId> {
        let table = self.tables.iter().map(Table::base);
        self.planes.iter().map(|(_, first)| first.id).chain([self.words.base()]).chain(table).collect()
    }
}

/// One field of a unit.
struct Field {
    plane: Plane,
    /// First byte of the plane.
    first: Ex<u32>,
    /// Its words, once loaded.
    loaded: Vec<Ex<u32>>,
}

/// A unit of a tensor: `UNIT` elements, read field by field where they lie.
pub struct Unit {
    words: Buf<u32>,
    fields: Vec<Field>,
    index: Ex<u32>,
    /// The first unit of its row of whole blocks, where it is known.
    row: Option<Ex<u32>>,
    /// The index, or the number in that row.
    in_row: Ex<u32>,
    /// Units from there to this one: see [`Unit::behind`].
    behind: u32,
    /// Words of the first plane's field, where they are not found by the index.
    first_field: Option<Path>,
    tables: Tables,
    /// What [`Unit::once`] keeps.
    kept: RefCell<Vec<Ex<u32>>>,
}

/// Words of a field that are loaded with its unit: none of a table.
const fn words_at_once(plane: Plane) -> usize {
    match plane.bytes {
        _ if plane.is_table() => 0,
        ..4 => 1,
        bytes => bytes as usize / 4,
    }
}

/// Words that [`Unit::load`] brings of a unit with these planes.
pub fn loaded_words(planes: &[Plane]) -> usize {
    planes.iter().map(|plane| words_at_once(*plane)).sum()
}

impl Unit {
    /// The unit that lies so many behind, whole blocks: an address has room for what is known of it, so that units which
    /// are a known way apart are found by one.
    pub fn behind(mut self, units: u32) -> Self {
        self.behind += units;
        self
    }

    /// Loads every field now, 16 bytes at a time where they are that wide; words with a known index come from there.
    #[track_caller]
    pub fn load(mut self) -> Self {
        for plane in 0..self.fields.len() {
            let bytes = self.fields[plane].plane.bytes;
            if words_at_once(self.fields[plane].plane) == 0 {
                continue;
            }
            let mut loaded = Vec::new();
            if bytes < 4 {
                loaded.push(self.narrow(plane));
            } else if bytes.is_multiple_of(16) {
                for j in 0..bytes / 16 {
                    let four = self.sixteen_bytes(plane, number(j));
                    loaded.extend([four.x(), four.y(), four.z(), four.w()]);
                }
            } else if bytes.is_multiple_of(8) {
                for j in 0..bytes / 8 {
                    let two = self.eight_bytes(plane, number(j));
                    loaded.extend([two.x(), two.y()]);
                }
            } else {
                for j in 0..bytes / 4 {
                    loaded.push(self.word_in_memory(plane, number(j)));
                }
            }
            self.fields[plane].loaded = loaded;
        }
        self
    }

    /// What [`Unit::load`] has brought: as many words as [`loaded_words`] says.
    pub fn loaded(&self) -> Vec<Ex<u32>> {
        self.fields.iter().flat_map(|field| field.loaded.iter().copied()).collect()
    }

    /// The same with words that [`Unit::load`] brought earlier.
    pub fn with_loaded(mut self, words: impl IntoIterator<Item = Ex<u32>>) -> Self {
        let mut words = words.into_iter();
        for field in &mut self.fields {
            field.loaded = words.by_ref().take(words_at_once(field.plane)).collect();
        }
        self
    }

    /// Words that all of a unit's elements are decoded from, made once wherever they can still be used: a driver that
    /// meets them for each element works out those bits for each that it needs.
    #[track_caller]
    pub fn once(&self, words: impl FnOnce() -> Vec<Ex<u32>>) -> Vec<Ex<u32>> {
        let kept = self.kept.borrow().clone();
        if !kept.is_empty() && with(|s| kept.iter().all(|word| s.b.in_scope(word.id))) {
            return kept;
        }
        let made = words();
        self.kept.replace(made.clone());
        made
    }

    /// Which unit of its block it is.
    #[track_caller]
    pub fn in_block<F: TensorFormat>(&self) -> Ex<u32> {
        rem(self.in_row, number(F::BLK / F::UNIT))
    }

    /// The 32-bit word `j` of a field of four bytes or more.
    #[track_caller]
    pub fn word(&self, plane: Ex<u32>, j: Ex<u32>) -> Ex<u32> {
        let (plane, known, at) = (self.plane(plane), known(j), Location::caller());
        if let Some(message) = self.no_word(plane, known) {
            with(|s| s.b.error("E104", message, at));
            return number(0);
        }
        match known.and_then(|j| self.fields[plane].loaded.get(j)) {
            Some(&word) => word,
            None => self.word_in_memory(plane, j),
        }
    }

    /// Why a plane has no such word: past its last lies what belongs to the next unit.
    fn no_word(&self, plane: usize, j: Option<usize>) -> Option<String> {
        let bytes = self.fields[plane].plane.bytes;
        match (bytes / 4, j) {
            (0, _) => Some(format!(
                "plane {plane} has fields of {bytes} bytes, which are no words; read them by `small` or `sixteen`"
            )),
            (words, Some(j)) if j >= words as usize => Some(format!(
                "expected a word of plane {plane}, 0 to {}, as its fields have {bytes} bytes; found word {j}",
                words - 1
            )),
            _ => None,
        }
    }

    /// The entry of the format's table in plane `plane`, of single words, that `bits` bits of `word` from bit `from` on
    /// name.
    #[track_caller]
    pub fn lookup(&self, plane: Ex<u32>, word: Ex<u32>, from: Ex<u32>, bits: Ex<u32>) -> Ex<u32> {
        let plane = self.plane(plane);
        match self.table(plane) {
            Some(table @ Table { entries: Entries::Words(words), .. }) => {
                words.at(table.place(word, from, bits)).read()
            }
            _ => self.word_in_memory(plane, field(word, from, bits)),
        }
    }

    /// The same of a table whose entries have two words.
    #[track_caller]
    pub fn lookup_pair(&self, plane: Ex<u32>, word: Ex<u32>, from: Ex<u32>, bits: Ex<u32>) -> Ex<Vec2<u32>> {
        let plane = self.plane(plane);
        match self.table(plane) {
            Some(table @ Table { entries: Entries::Pairs(pairs), .. }) => {
                pairs.at(table.place(word, from, bits)).read()
            }
            _ => self.eight_bytes(plane, field(word, from, bits)),
        }
    }

    /// The table of a plane, where it is in workgroup memory.
    fn table(&self, plane: usize) -> Option<&Table> {
        let before = self.fields[..plane].iter().filter(|field| field.plane.is_table()).count();
        self.tables.get(before).filter(|_| self.fields[plane].plane.is_table())
    }

    /// A field of one or two bytes, zeros above.
    #[track_caller]
    pub fn small(&self, plane: Ex<u32>) -> Ex<u32> {
        let pair = self.sixteen(plane);
        self.picked(self.plane(plane), pair)
    }

    /// The sixteen bits that a field of two bytes is, or that hold a field of one, anything above: what a mask or a half
    /// drops anyway costs nothing to clear.
    #[track_caller]
    pub fn sixteen(&self, plane: Ex<u32>) -> Ex<u32> {
        let plane = self.plane(plane);
        match self.fields[plane].loaded.first() {
            Some(&value) => value,
            None => self.narrow(plane),
        }
    }

    /// The field in the sixteen bits that hold it. A byte is picked where it is used: what is asked for ahead would be
    /// waited for otherwise.
    #[track_caller]
    fn picked(&self, plane: usize, pair: Ex<u32>) -> Ex<u32> {
        if self.fields[plane].plane.bytes == 2 {
            return bitand(pair, number(0xffff));
        }
        let shift = shl(bitand(self.start(plane, 1), number(1)), number(3));
        bitand(shr(pair, shift), number(0xff))
    }

    /// The number of a plane, which is known while staging.
    #[track_caller]
    fn plane(&self, plane: Ex<u32>) -> usize {
        let (n, at) = (self.fields.len(), Location::caller());
        match known(plane).filter(|plane| *plane < n) {
            Some(plane) => plane,
            None => {
                let message = format!("a plane is one of the format's {n}, known while the kernel is staged");
                with(|s| s.b.error("E104", message, at));
                0
            }
        }
    }
}

impl<'a> Read for &'a Tensor {
    type Out = &'a Tensor;
    fn read(&self) -> &'a Tensor {
        self
    }
}

impl<'a> Read for &'a Unit {
    type Out = &'a Unit;
    fn read(&self) -> &'a Unit {
        self
    }
}

/// A value that is known while staging.
pub(crate) fn known(n: Ex<u32>) -> Option<usize> {
    with(|s| match s.b.as_const(n.id) {
        Some(Const::Scalar { bits, .. }) => Some(*bits as usize),
        _ => None,
    })
}

#[track_caller]
pub(crate) fn number(n: u32) -> Ex<u32> {
    Ex::new(with(|s| s.u32_const(n)))
}
