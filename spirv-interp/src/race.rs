//! Data races: per granule of memory the last store and the loads since, per workgroup the barriers that order them.
//!
//! Time is one counter that each barrier and each release advances. A clock belongs to one kind of memory; it says from which
//! time on accesses are not yet ordered with the present, for the workgroup as a whole and for each subgroup.
//! Workgroups run one after another, so what happened before the current one's start is another workgroup's doing, and
//! is ordered by releases and acquires alone.

use kiln_abi::spirv::{MemorySemantics, Scope};

use crate::{
    order::{Known, Reach, Spot},
    program::Barrier,
};

const WHO: u32 = 0xffff;
/// The access took no part in ordering, so no barrier orders it.
const PRIVATE: u32 = 1 << 16;
/// The store made itself available.
const AVAILABLE: u32 = 1 << 17;
/// The store's value was undefined.
const UNDEFINED: u32 = 1 << 18;
/// Lanes of several subgroups have loaded.
const MANY: u32 = 1 << 19;
/// Several lanes of one subgroup have loaded.
const MANY_LANES: u32 = 1 << 20;
/// An earlier workgroup has loaded.
const EARLIER: u32 = 1 << 21;
/// The store, or every load since, was atomic: another atomic access needs no order with it.
const ATOMIC: u32 = 1 << 22;

/// The shadow of one granule; a time of 0 means never.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cell {
    store_time: u32,
    store_who: u32,
    store_word: u32,
    load_time: u32,
    load_who: u32,
    load_word: u32,
}

/// Why no barrier can order two accesses: in words of the kernel's language, then of SPIR-V. Kernels state the flag for all
/// memory but buffers that they only store to, or only load from.
macro_rules! private {
    ($what:literal) => {
        concat!(
            "nothing orders the two; one invocation is to store there, or an atomic, or, where the kernel loads from the \
             buffer too, `barrier_buffers()` between them (",
            $what,
            " lacks NonPrivatePointer)"
        )
    };
}
const OTHER_STORE: &str = private!("the other store");
const OTHER_LOAD: &str = private!("the other load");
const THIS_STORE: &str = private!("this store");
const THIS_ACCESS: &str = private!("this access");
/// Of a barrier that orders workgroup memory alone.
const NO_BUFFERS: &str =
    "lacks UniformMemory: `barrier()` orders workgroup memory, `barrier_buffers()` buffers too";

/// One access as the race check sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    pub(crate) invocation: u32,
    pub(crate) word: u32,
    pub(crate) now: u32,
    pub(crate) private: bool,
    pub(crate) available: bool,
    pub(crate) visible: bool,
    /// One step that no other atomic access comes between.
    pub(crate) atomic: bool,
}

/// Two accesses that nothing orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// What is missing.
    pub(crate) why: &'static str,
    pub(crate) other_stores: bool,
    pub(crate) other_word: u32,
    pub(crate) other_time: u32,
    pub(crate) other_invocation: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    /// Accesses before this time are ordered with the present.
    ordered: u32,
    /// Stores before this time are available and visible too.
    visible: u32,
}

/// A barrier, a release or an acquire that did not order this memory, and why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ineffective {
    pub(crate) time: u32,
    pub(crate) word: u32,
    pub(crate) why: &'static str,
}

/// Order among the current workgroup's accesses to one kind of memory.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    start: u32,
    workgroup: Marks,
    subgroups: Vec<Marks>,
    /// Subgroup size as a shift.
    shift: u32,
    /// Memory that workgroups share.
    shared: bool,
    pub(crate) ineffective: Option<Ineffective>,
    /// What releases and acquires order beyond the barriers.
    known: Known,
}

impl Clock {
    pub(crate) fn new(subgroups: usize, subgroup_size: u32, shared: bool) -> Self {
        Clock {
            start: 0,
            workgroup: Marks::default(),
            subgroups: vec![Marks::default(); subgroups],
            shift: subgroup_size.trailing_zeros(),
            shared,
            ineffective: None,
            known: Known::new(subgroup_size.trailing_zeros()),
        }
    }

    /// A workgroup begins at `now`.
    pub(crate) fn begin(&mut self, now: u32) {
        self.start = now;
        self.workgroup = Marks::default();
        self.subgroups.fill(Marks::default());
        self.ineffective = None;
        self.known.begin();
    }

    /// A barrier completes; accesses from `now` on come after it. `subgroup` is the one it was for, if not for all.
    pub(crate) fn barrier(
        &mut self,
        b: &Barrier,
        subgroup: Option<usize>,
        vulkan: bool,
        now: u32,
        word: u32,
    ) {
        let has = |mask: u32| b.semantics.0 & mask == mask;
        let (class, scopes): (u32, &[Scope]) = (
            if self.shared { MemorySemantics::UNIFORM_MEMORY } else { MemorySemantics::WORKGROUP_MEMORY },
            match subgroup {
                Some(_) => &[Scope::Subgroup, Scope::Workgroup, Scope::QueueFamily, Scope::Device],
                None => &[Scope::Workgroup, Scope::QueueFamily, Scope::Device],
            },
        );
        let acquires_and_releases =
            has(MemorySemantics::ACQUIRE_RELEASE) || has(MemorySemantics::ACQUIRE | MemorySemantics::RELEASE);
        let mut missing = |why| self.ineffective = Some(Ineffective { time: now, word, why });
        if !acquires_and_releases {
            return missing("lacks AcquireRelease");
        }
        if !has(class) {
            return missing(if self.shared { NO_BUFFERS } else { "lacks WorkgroupMemory" });
        }
        if !scopes.contains(&b.memory) {
            return missing("has a memory scope that is too small");
        }
        let visible = !vulkan || has(MemorySemantics::MAKE_AVAILABLE | MemorySemantics::MAKE_VISIBLE);
        if !visible {
            let available = has(MemorySemantics::MAKE_AVAILABLE);
            missing(if available { "lacks MakeVisible" } else { "lacks MakeAvailable" });
        }
        let marks = match subgroup {
            Some(s) => &mut self.subgroups[s],
            None => &mut self.workgroup,
        };
        marks.ordered = now;
        if visible {
            marks.visible = now;
            self.known.share(subgroup);
        }
    }

    /// Whether these semantics release to, or acquire from, other invocations what was done to this memory.
    fn orders(
        &mut self,
        semantics: MemorySemantics,
        [side, made]: [u32; 2],
        vulkan: bool,
        (now, word): (u32, u32),
    ) -> bool {
        let has = |mask: u32| semantics.0 & mask != 0;
        let class =
            if self.shared { MemorySemantics::UNIFORM_MEMORY } else { MemorySemantics::WORKGROUP_MEMORY };
        let taken = has(side | MemorySemantics::ACQUIRE_RELEASE);
        let why = match (has(class), !vulkan || has(made)) {
            (true, true) => return taken,
            (false, _) if self.shared => "lacks UniformMemory",
            (false, _) => "lacks WorkgroupMemory",
            (true, false) if made == MemorySemantics::MAKE_VISIBLE => "lacks MakeVisible",
            (true, false) => "lacks MakeAvailable",
        };
        if taken {
            self.ineffective = Some(Ineffective { time: now, word, why });
        }
        false
    }

    /// An atomic at `spot` is about to read: what was released there is known from here on.
    pub(crate) fn acquire(&mut self, spot: Spot, s: MemorySemantics, vulkan: bool, v: &Visit) {
        let sides = [MemorySemantics::ACQUIRE, MemorySemantics::MAKE_VISIBLE];
        if self.orders(s, sides, vulkan, (v.now, v.word)) {
            self.known.acquire(spot, v.invocation);
        }
    }

    /// An atomic at `spot` has stored, `reads` what was there too; what comes next is at another time.
    pub(crate) fn release(
        &mut self,
        spot: Spot,
        s: MemorySemantics,
        (vulkan, reads): (bool, bool),
        v: &Visit,
    ) {
        if !reads {
            self.known.overwrite(spot);
        }
        let sides = [MemorySemantics::RELEASE, MemorySemantics::MAKE_AVAILABLE];
        if self.orders(s, sides, vulkan, (v.now, v.word)) {
            let (me, all) = (v.invocation, self.workgroup.visible);
            let reach = Reach { all, subgroup: self.between(me, me).visible, own: v.now + 1 };
            self.known.release(spot, self.start, me, reach);
        }
    }

    fn same_subgroup(&self, a: u32, b: u32) -> bool {
        a >> self.shift == b >> self.shift
    }

    /// The marks that hold between two invocations.
    fn between(&self, a: u32, b: u32) -> Marks {
        match self.subgroups.get((a >> self.shift) as usize) {
            Some(s) if self.same_subgroup(a, b) => Marks {
                ordered: s.ordered.max(self.workgroup.ordered),
                visible: s.visible.max(self.workgroup.visible),
            },
            _ => self.workgroup,
        }
    }

    /// Whether the granule holds a value in the current workgroup (asked of workgroup memory only).
    pub(crate) const fn defined(&self, cell: &Cell) -> bool {
        cell.store_time >= self.start && cell.store_time != 0 && cell.store_who & UNDEFINED == 0
    }

    /// Checks and notes a load.
    #[inline]
    pub(crate) fn load(&self, cell: &mut Cell, v: &Visit) -> Result<(), Conflict> {
        self.after_store(cell, v, true)?;
        let (time, who, me) = (cell.load_time, cell.load_who, v.invocation);
        let mut next = me | private_if(v.private) | if v.atomic { ATOMIC } else { 0 };
        if time < self.start {
            if self.shared && time != 0 && !self.knows_load(cell, v) {
                next |= EARLIER;
                next &= !ATOMIC | who;
            }
        } else if time != 0 {
            let other = who & WHO;
            next |= who & EARLIER;
            if who & EARLIER != 0 {
                next &= !ATOMIC | who;
            }
            let superseded = time < self.workgroup.ordered
                || who & MANY == 0 && time < self.between(me, other).ordered
                || self.knows_load(cell, v);
            if who & PRIVATE != 0 || !superseded {
                next |= who & (PRIVATE | MANY | MANY_LANES);
                next &= !ATOMIC | who;
                if other != me {
                    next |= if self.same_subgroup(other, me) { MANY_LANES } else { MANY };
                }
            }
        }
        (cell.load_time, cell.load_who, cell.load_word) = (v.now, next, v.word);
        Ok(())
    }

    /// Checks and notes a store.
    #[inline]
    pub(crate) fn store(&self, cell: &mut Cell, v: &Visit, undefined: bool) -> Result<(), Conflict> {
        self.after_store(cell, v, false)?;
        self.after_load(cell, v)?;
        let others = if v.atomic { self.atomics_before(cell, v) } else { 0 };
        cell.store_time = v.now;
        cell.store_word = v.word;
        cell.store_who = v.invocation
            | private_if(v.private)
            | if v.available { AVAILABLE } else { 0 }
            | if undefined { UNDEFINED } else { 0 }
            | if v.atomic { ATOMIC | others } else { 0 };
        Ok(())
    }

    const fn unordered(&self) -> &'static str {
        match self.shared {
            true => "no barrier orders them; `barrier_buffers()` or an atomic would",
            false => "no barrier orders them; `barrier()` or an atomic would",
        }
    }

    /// What an atomic store takes over from the atomic stores before it that nothing orders with the present: that
    /// other invocations, or workgroups, stored too.
    fn atomics_before(&self, cell: &Cell, v: &Visit) -> u32 {
        let (time, who) = (cell.store_time, cell.store_who);
        if time == 0 || who & ATOMIC == 0 {
            return 0;
        }
        if time < self.start {
            return if self.shared { EARLIER } else { 0 };
        }
        let other = who & WHO;
        let superseded = time < self.workgroup.ordered;
        let several = !superseded && (who & MANY != 0 || other != v.invocation);
        who & EARLIER | if several { MANY } else { 0 }
    }

    fn after_store(&self, cell: &Cell, v: &Visit, loads: bool) -> Result<(), Conflict> {
        let (time, who) = (cell.store_time, cell.store_who);
        let mine = who & WHO == v.invocation && who & (MANY | EARLIER) == 0;
        let both_atomic = v.atomic && who & ATOMIC != 0;
        if time == 0 || both_atomic || time >= self.start && mine || time < self.start && !self.shared {
            return Ok(());
        }
        let conflict = |why| {
            let (other_word, other_invocation) = (cell.store_word, who & WHO);
            Err(Conflict { why, other_stores: true, other_word, other_time: time, other_invocation })
        };
        let known = || {
            let apart = (who | private_if(v.private)) & (PRIVATE | EARLIER) == 0;
            apart && self.known.knows(v.invocation, time, who & WHO, who & MANY != 0)
        };
        if time < self.start || who & EARLIER != 0 {
            return if known() { Ok(()) } else { conflict("no barrier orders workgroups") };
        }
        if who & PRIVATE != 0 {
            return conflict(OTHER_STORE);
        }
        if v.private {
            return conflict(THIS_ACCESS);
        }
        let marks = if who & MANY != 0 { self.workgroup } else { self.between(v.invocation, who & WHO) };
        if time < marks.visible || known() {
            return Ok(());
        }
        if time >= marks.ordered {
            return conflict(self.unordered());
        }
        if who & AVAILABLE == 0 {
            return conflict("neither the other store has MakePointerAvailable nor a barrier MakeAvailable");
        }
        if loads && !v.visible {
            return conflict("neither this load has MakePointerVisible nor a barrier MakeVisible");
        }
        Ok(())
    }

    fn after_load(&self, cell: &Cell, v: &Visit) -> Result<(), Conflict> {
        let (time, who) = (cell.load_time, cell.load_who);
        if time == 0 || time < self.start && !self.shared || v.atomic && who & ATOMIC != 0 {
            return Ok(());
        }
        let conflict = |why| {
            let (other_word, other_invocation) = (cell.load_word, who & WHO);
            Err(Conflict { why, other_stores: false, other_word, other_time: time, other_invocation })
        };
        let known = || !v.private && self.knows_load(cell, v);
        if time < self.start || who & EARLIER != 0 {
            return if known() { Ok(()) } else { conflict("no barrier orders workgroups") };
        }
        let other = who & WHO;
        if other == v.invocation && who & (MANY | MANY_LANES) == 0 {
            return Ok(());
        }
        if who & PRIVATE != 0 {
            return conflict(OTHER_LOAD);
        }
        if v.private {
            return conflict(THIS_STORE);
        }
        let marks = if who & MANY != 0 { self.workgroup } else { self.between(v.invocation, other) };
        if time >= marks.ordered && !known() {
            return conflict(self.unordered());
        }
        Ok(())
    }

    /// Whether the loads of the granule are known, by acquires, to have come before.
    fn knows_load(&self, cell: &Cell, v: &Visit) -> bool {
        let who = cell.load_who;
        let several = who & (MANY | MANY_LANES) != 0;
        who & (PRIVATE | EARLIER) == 0 && self.known.knows(v.invocation, cell.load_time, who & WHO, several)
    }
}

const fn private_if(private: bool) -> u32 {
    if private { PRIVATE } else { 0 }
}

/// Granules behind one buffer, made when they are first touched.
#[derive(Debug)]
pub(crate) struct Shadow {
    pages: Vec<Option<Box<[Cell]>>>,
    /// Bytes of a granule, as a shift.
    shift: u32,
}

const PAGE: usize = 1024;

impl Shadow {
    pub(crate) fn new(bytes: usize, granule: u32) -> Self {
        let shift = granule.trailing_zeros();
        let granules = bytes.div_ceil(1 << shift);
        Shadow { pages: vec![None; granules.div_ceil(PAGE)], shift }
    }

    /// Calls `f` on each granule of `first..first + bytes`.
    #[inline]
    pub(crate) fn visit(
        &mut self,
        first: usize,
        bytes: usize,
        mut f: impl FnMut(&mut Cell) -> Result<(), Conflict>,
    ) -> Result<(), Conflict> {
        for g in first >> self.shift..=(first + bytes - 1) >> self.shift {
            let page = self.pages[g / PAGE].get_or_insert_with(|| vec![Cell::default(); PAGE].into());
            f(&mut page[g % PAGE])?;
        }
        Ok(())
    }
}
