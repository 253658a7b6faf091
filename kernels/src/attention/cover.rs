//! How a team of invocations covers a chunk of keys: who reads which words of a line, who scores which key.

use kiln_dsl::prelude::*;

use crate::{
    fold::{RUN, halves},
    kv_type::{KV_BLOCK, KvType, kv_element, kv_low, kv_scale},
};

/// Keys of a chunk, and invocations of the team that owns it.
pub const CHUNK: u32 = RUN;
/// Lanes that share a line, at most.
const LANES: u32 = 16;
/// Loads of a lane that are on their way together.
const AHEAD: u32 = 8;

/// The cut of a line: comptime.
///
/// A line is units of four words where its words are whole fours, else of one. `lanes` neighbors take them in turn, so
/// that a team reads `CHUNK / lanes` whole lines at once, in as many rounds as a line has lanes.
#[derive(Clone, Copy)]
pub(super) struct Cover {
    head_dim: u32,
    ty: KvType,
    /// Words of a unit.
    at_once: u32,
    /// Units of a line.
    units: u32,
    /// Invocations side by side that share a line; also the rounds of a chunk.
    pub(super) lanes: u32,
    /// Units of each of them, clamped ones included.
    held: u32,
    /// Rounds whose words are asked for together.
    ahead: u32,
}

impl Cover {
    pub(super) const fn of(head_dim: u32, ty: KvType) -> Self {
        let at_once = if !ty.is_mixed() && ty.line_words(head_dim).is_multiple_of(4) { 4 } else { 1 };
        let units = ty.data_words(head_dim) / at_once;
        let mut lanes = 1;
        while lanes < units && lanes < LANES {
            lanes *= 2;
        }
        let held = units.div_ceil(lanes);
        let mut ahead = 1;
        while 2 * ahead * held <= AHEAD && 2 * ahead <= lanes {
            ahead *= 2;
        }
        Cover { head_dim, ty, at_once, units, lanes, held, ahead }
    }

    /// Words that a lane reads of a line.
    const fn words(self) -> u32 {
        self.held * self.at_once
    }

    /// Elements of a unit.
    const fn of_unit(self) -> u32 {
        self.at_once * self.ty.per_word()
    }

    /// Elements that a lane has of a line.
    const fn each(self) -> u32 {
        self.words() * self.ty.per_word()
    }

    /// The same in fours, the last one filled with zeros.
    pub(super) const fn fours(self) -> u32 {
        self.each().div_ceil(4)
    }

    /// Words that are asked for together.
    pub(super) const fn asked(self) -> u32 {
        self.ahead * self.words()
    }

    /// Lines that a team reads at once.
    const fn lines(self) -> u32 {
        CHUNK / self.lanes
    }

    /// Times that a team asks for words together.
    const fn batches(self) -> u32 {
        self.lanes / self.ahead
    }

    /// How far apart lanes are that have the same elements of lines whose sums meet, neighbors first.
    fn line_distances(self) -> impl Iterator<Item = u32> {
        (0..self.lines().trailing_zeros()).map(move |level| self.lanes << level)
    }

    /// Workgroup memory of a head of a team where it has no shuffles, in elements: its keys' parts by lane, or its sums
    /// by line.
    const fn exchanged(self) -> u32 {
        let (parts, sums) = (CHUNK * self.lanes, self.lines() * self.head_dim);
        if parts > sums { parts } else { sums }
    }

    /// Workgroup memory of a head of a team for its sums, in elements.
    pub(super) const fn room(self, subgroup: Option<u32>) -> u32 {
        if subgroup.is_some() { self.head_dim } else { self.exchanged() }
    }
}

/// An invocation of a team, and the chunk that it works on.
#[derive(Struct, Clone, Copy)]
pub(super) struct Member {
    /// Its place in the team.
    pub(super) at: u32,
    /// The line of the chunk's first key.
    pub(super) line: u32,
    /// The first and the last key of the chunk that its row sees.
    pub(super) low: u32,
    pub(super) high: u32,
}

/// The unit that is a lane's `u`-th; past the last one, the last one again.
#[device]
fn unit(at: u32, #[comptime] u: u32, #[comptime] c: Cover) -> u32 {
    min(at % c.lanes + u * c.lanes, c.units - 1)
}

/// Where element `e` of a lane is in a head; past the last one, in the last unit again.
#[device]
fn place(at: u32, #[comptime] e: u32, #[comptime] c: Cover) -> u32 {
    unit(at, comptime!(e / c.of_unit()), comptime!(c)) * comptime!(c.of_unit()) + comptime!(e % c.of_unit())
}

/// Whether a lane is the one that has its element `e`.
#[device]
fn owns(at: u32, #[comptime] e: u32, #[comptime] c: Cover) -> bool {
    at % c.lanes + comptime!(e / c.of_unit() * c.lanes) < c.units
}

/// Element `e` of a lane's part of the head from `from` on in `query`; zero past the last one.
#[device]
fn own_element(query: &Shared<f32>, from: u32, at: u32, #[comptime] e: u32, #[comptime] c: Cover) -> f32 {
    if comptime!(e < c.each()) {
        select(owns(at, comptime!(e), comptime!(c)), query[from + place(at, comptime!(e), comptime!(c))], 0.0)
    } else {
        0.0
    }
}

/// A lane's parts of `heads` queries.
#[device]
pub(super) fn own_parts(
    query: &Shared<f32>,
    at: u32,
    parts: &PlaceArray<Vec4<f32>, Local>,
    #[comptime] heads: u32,
    #[comptime] c: Cover,
) {
    let fours = comptime!(c.fours());
    for h in comptime!(0..heads) {
        let from = comptime!(h * c.head_dim);
        for f in comptime!(0..fours) {
            parts[h * fours + f] = vec4(
                own_element(&query, from, at, comptime!(4 * f), comptime!(c)),
                own_element(&query, from, at, comptime!(4 * f + 1), comptime!(c)),
                own_element(&query, from, at, comptime!(4 * f + 2), comptime!(c)),
                own_element(&query, from, at, comptime!(4 * f + 3), comptime!(c)),
            );
        }
    }
}

/// The word at which the line of round `i` starts; keys that the row does not see are read as the next one that it sees.
#[device]
fn start(m: Member, i: u32, #[comptime] c: Cover) -> u32 {
    let key = clamp(i * comptime!(c.lines()) + m.at / c.lanes, m.low, m.high);
    (m.line + key) * comptime!(c.ty.line_words(c.head_dim))
}

/// Asks for the words of the `a`-th of the rounds from `first` on.
#[device]
fn ask_round(
    pages: &Buf<u32>,
    m: Member,
    words: &PlaceArray<u32, Local>,
    first: u32,
    #[comptime] a: u32,
    #[comptime] c: Cover,
) {
    let fours = pages.view::<Vec4<u32>>();
    let from = start(m, first + a, comptime!(c));
    for u in comptime!(0..c.held) {
        let w = unit(m.at, comptime!(u), comptime!(c));
        let to = comptime!(a * c.words() + u * c.at_once);
        if comptime!(c.at_once == 4) {
            let four = fours[from / 4 + w];
            for i in comptime!(0..4u32) {
                words[to + i] = four[i];
            }
        } else {
            words[to] = pages[from + w];
        }
    }
}

/// Asks for the words of the first rounds.
#[device]
pub(super) fn ask(pages: &Buf<u32>, m: Member, words: &PlaceArray<u32, Local>, #[comptime] c: Cover) {
    for a in comptime!(0..c.ahead) {
        ask_round(&pages, m, &words, 0, comptime!(a), comptime!(c));
    }
}

/// A word of those that were asked for; zero past the last one.
#[device]
fn word(words: &PlaceArray<u32, Local>, #[comptime] a: u32, #[comptime] w: u32, #[comptime] c: Cover) -> u32 {
    if comptime!(w < c.words()) { words[comptime!(a * c.words() + w)] } else { 0 }
}

/// Four `f` of what a lane has of the line of round `first + a`, whose words were asked for.
#[device]
fn four_of(
    pages: &Buf<u32>,
    m: Member,
    words: &PlaceArray<u32, Local>,
    first: u32,
    #[comptime] a: u32,
    #[comptime] f: u32,
    #[comptime] c: Cover,
) -> Vec4<f32> {
    if comptime!(c.ty == KvType::F16) {
        let low = unpack_half(word(&words, comptime!(a), comptime!(2 * f), comptime!(c)));
        let high = unpack_half(word(&words, comptime!(a), comptime!(2 * f + 1), comptime!(c)));
        vec4(low.x(), low.y(), high.x(), high.y())
    } else if comptime!(c.ty == KvType::F32) {
        vec4(
            bitcast::<f32, u32>(word(&words, comptime!(a), comptime!(4 * f), comptime!(c))),
            bitcast::<f32, u32>(word(&words, comptime!(a), comptime!(4 * f + 1), comptime!(c))),
            bitcast::<f32, u32>(word(&words, comptime!(a), comptime!(4 * f + 2), comptime!(c))),
            bitcast::<f32, u32>(word(&words, comptime!(a), comptime!(4 * f + 3), comptime!(c))),
        )
    } else {
        let from = start(m, first + a, comptime!(c));
        let w = unit(m.at, comptime!(f), comptime!(c));
        let low = kv_low(&pages, from, w, comptime!(c.ty), comptime!(c.head_dim));
        let block = w / comptime!(KV_BLOCK / c.ty.per_word());
        let scale = kv_scale(&pages, from, block, comptime!(c.ty), comptime!(c.head_dim));
        let own = word(&words, comptime!(a), comptime!(f), comptime!(c));
        // Nine bits and eleven: exact.
        splat::<Vec4<f32>>(scale)
            * vec4(
                kv_element(own, low, comptime!(c.ty), comptime!(0)),
                kv_element(own, low, comptime!(c.ty), comptime!(1)),
                kv_element(own, low, comptime!(c.ty), comptime!(2)),
                kv_element(own, low, comptime!(c.ty), comptime!(3)),
            )
    }
}

/// The key of a chunk that an invocation has the score of.
#[device]
pub(super) fn own_key(at: u32, #[comptime] c: Cover) -> u32 {
    at % c.lanes * comptime!(c.lines()) + at / c.lanes
}

/// Products of the lane's part of each of `heads` queries with every key, folded so that `scores[h]` is the score of
/// [`own_key`]. `room` is the team's, from `from` on; all invocations of the workgroup have to come here.
#[device]
pub(super) fn score(
    queries: &PlaceArray<Vec4<f32>, Local>,
    k_pages: &Buf<u32>,
    m: Member,
    scores: &PlaceArray<f32, Local>,
    room: &Shared<f32>,
    from: u32,
    #[comptime] heads: u32,
    #[comptime] c: Cover,
    #[comptime] subgroup: Option<u32>,
) {
    let (lanes, fours, ahead, batches) = comptime!((c.lanes, c.fours(), c.ahead, c.batches()));
    let levels = comptime!(c.ahead.trailing_zeros());
    let mut words = [0u32; comptime!(c.asked())];
    // Sums of two rounds meet as soon as both are there, so few wait: one of each stage of the tree.
    let mut waiting = [0.0; comptime!(heads * (levels + 1))];
    let mut met_of = [0.0; comptime!(heads * batches)];
    ask(&k_pages, m, &words, comptime!(c));
    for b in 0..batches {
        let (first, next) = (b * ahead, min(b + 1, batches - 1) * ahead);
        for a in comptime!(0..ahead) {
            let mut parts = [splat::<Vec4<f32>>(0.0); heads];
            for f in comptime!(0..fours) {
                let four = four_of(&k_pages, m, &words, first, comptime!(a), comptime!(f), comptime!(c));
                for h in comptime!(0..heads) {
                    parts[h] = fma(queries[h * fours + f], four, parts[h]);
                }
            }
            // As soon as they are free, the words of the next rounds are asked for.
            if comptime!(batches > 1) {
                ask_round(&k_pages, m, &words, next, comptime!(a), comptime!(c));
            }
            for h in comptime!(0..heads) {
                let part = parts[h];
                let mut sum = (part.x() + part.y()) + (part.z() + part.w());
                if comptime!(subgroup.is_some()) {
                    for level in comptime!(0..a.trailing_ones()) {
                        sum = met(waiting[h * (levels + 1) + level], sum, m.at, comptime!(level));
                    }
                    waiting[h * (levels + 1) + comptime!(a.trailing_ones())] = sum;
                } else {
                    let key = (first + a) * comptime!(c.lines()) + m.at / lanes;
                    room[from + h * comptime!(c.exchanged()) + key * lanes + m.at % lanes] = sum;
                }
            }
        }
        if comptime!(subgroup.is_some()) {
            for h in comptime!(0..heads) {
                for i in comptime!(0..batches) {
                    let own = waiting[h * (levels + 1) + levels];
                    met_of[h * batches + i] = select(b == i, own, met_of[h * batches + i]);
                }
            }
        }
    }
    if comptime!(subgroup.is_none()) {
        barrier();
    }
    for h in comptime!(0..heads) {
        if comptime!(subgroup.is_some()) {
            for (half, level) in comptime!(halves(batches).zip(levels..)) {
                for i in comptime!(0..half) {
                    let (even, odd) = (met_of[h * batches + 2 * i], met_of[h * batches + 2 * i + 1]);
                    met_of[h * batches + i] = met(even, odd, m.at, comptime!(level));
                }
            }
            scores[h] = met_of[h * batches];
        } else {
            let own = from + h * comptime!(c.exchanged()) + own_key(m.at, comptime!(c)) * lanes;
            scores[h] = tree(&room, own, comptime!(1), comptime!(lanes));
        }
    }
    if comptime!(subgroup.is_none()) {
        barrier();
    }
}

/// Of the sums of an even and an odd round, a lane's own one with that of its neighbor at distance 2^level.
#[device]
fn met(even: f32, odd: f32, at: u32, #[comptime] level: u32) -> f32 {
    let is_odd = (at >> level & 1) == 1;
    let distance = comptime!(1u32 << level);
    let theirs = subgroup::shuffle_xor(select(is_odd, even, odd), distance);
    select(is_odd, odd, even) + theirs
}

/// The sum of `n` elements `stride` apart, a power of two: neighbors meet first.
#[device]
fn tree(x: &Shared<f32>, first: u32, #[comptime] stride: u32, #[comptime] n: u32) -> f32 {
    let mut sums = [0.0; n];
    for i in comptime!(0..n) {
        sums[i] = x[first + i * stride];
    }
    for half in comptime!(halves(n)) {
        for i in comptime!(0..half) {
            sums[i] = sums[2 * i] + sums[2 * i + 1];
        }
    }
    sums[0]
}

/// Sums of the values under the weights of each head, which come to the team's `room` from `from` on, for [`sum_of`].
/// The words of the first rounds are asked for already. `weights[h]` is that of [`own_key`], and in `shared` from
/// `own` on for the whole team where there are no shuffles.
#[device]
pub(super) fn weigh(
    weights: &PlaceArray<f32, Local>,
    v_pages: &Buf<u32>,
    m: Member,
    words: &PlaceArray<u32, Local>,
    shared: &Shared<f32>,
    own: u32,
    room: &Shared<f32>,
    from: u32,
    #[comptime] heads: u32,
    #[comptime] c: Cover,
    #[comptime] subgroup: Option<u32>,
) {
    let (lanes, fours, ahead, batches) = comptime!((c.lanes, c.fours(), c.ahead, c.batches()));
    let mut sums = [splat::<Vec4<f32>>(0.0); comptime!(heads * fours)];
    let line = m.at / lanes;
    for b in 0..batches {
        let (first, next) = (b * ahead, min(b + 1, batches - 1) * ahead);
        for a in comptime!(0..ahead) {
            let who = line * lanes + first + a;
            let mut own_weights = [0.0; heads];
            for h in comptime!(0..heads) {
                own_weights[h] = if comptime!(subgroup.is_some()) {
                    subgroup::shuffle(weights[h], who)
                } else {
                    shared[own + h * CHUNK + who]
                };
            }
            for f in comptime!(0..fours) {
                let four = four_of(&v_pages, m, &words, first, comptime!(a), comptime!(f), comptime!(c));
                for h in comptime!(0..heads) {
                    let at = comptime!(h * fours + f);
                    sums[at] = fma(splat::<Vec4<f32>>(own_weights[h]), four, sums[at]);
                }
            }
            if comptime!(batches > 1) {
                ask_round(&v_pages, m, &words, next, comptime!(a), comptime!(c));
            }
        }
    }
    for h in comptime!(0..heads) {
        for f in comptime!(0..fours) {
            let mut sum = sums[h * fours + f];
            let mut first = from + h * comptime!(c.room(subgroup));
            let mut is_own = true;
            if comptime!(subgroup.is_some()) {
                for distance in comptime!(c.line_distances()) {
                    let theirs = subgroup::shuffle_xor(sum, distance);
                    sum = sum + theirs;
                }
                is_own = line == comptime!(h % c.lines());
            } else {
                first += line * comptime!(c.head_dim);
            }
            // Elements of a unit have one owner.
            let n = comptime!(c.of_unit().min(4));
            for e0 in comptime!((4 * f..c.each().min(4 * f + 4)).step_by(n as usize)) {
                if is_own && owns(m.at, comptime!(e0), comptime!(c)) {
                    for e in comptime!(e0..e0 + n) {
                        room[first + place(m.at, comptime!(e), comptime!(c))] = sum[e % 4];
                    }
                }
            }
        }
    }
}

/// Element `d` of head `h` of a team whose `room` starts at `from`.
#[device]
pub(super) fn sum_of(
    room: &Shared<f32>,
    from: u32,
    h: u32,
    d: u32,
    #[comptime] c: Cover,
    #[comptime] subgroup: Option<u32>,
) -> f32 {
    let at = from + h * comptime!(c.room(subgroup)) + d;
    if comptime!(subgroup.is_some()) {
        room[at]
    } else {
        tree(&room, at, comptime!(c.head_dim), comptime!(c.lines()))
    }
}
