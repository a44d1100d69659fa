//! Shared memory of a CTA: the buffers that a nest needs, how long each lives, and where it lies.
//!
//! A buffer holds a staged copy with its pipeline stages, a value `in shared`, or room to combine a reduction. It lives
//! from the statement that fills it to the last one that reads it:
//!
//! ```text
//! copy under a pipelined loop      from before the loop, which fills stages ahead, to its end
//! other copy                       from its stage to the last read in it
//! value computed in place          from its let to its last read
//! reduction in registers, then     from where it is published, between the two parts of its let, to its last read
//!   in shared memory
//! room to combine                  where parts are combined, between the two parts of the let; from the let on where the parts
//!                                  accumulate in it
//! parts of other CTAs of a cluster between the two parts of the let, where they are added up
//! ```
//! What is read in a loop inside lives as long as the loop. Buffers whose lives do not overlap may lie in the same bytes.
//! Of two buffers in one loop at run time each step then takes two barriers more, so they share only where a loop
//! further inside has barriers of its own, and never in a pipelined loop. Buffers with half words that are cleared once
//! ([`Buffer::halves`]) share with none. Other CTAs store their parts into bytes that nothing has used before, where as many
//! CTAs fit on a multiprocessor then ([`Buffer::fresh`]): the cluster needs no barrier before that.
//!
//! What a buffer holds, and how much of it, the plan says: boxes, channels, places, sums and stores. The engine's check explains the
//! bytes, the lowering takes the places: both read this.

mod content;
mod life;

pub(crate) use content::Content;

use crate::{
    dtype::DType,
    kernel::place,
    machine::{Space, Target, Via},
    nest::{CopyId, CopyLayout, LoopKind, Nest, Stmt, TileSize, ValueId, WIDEST, chain},
    plan::{Channel, Ctas, Full, Parts, Place, Producer, StorePath, Threads, Using},
    span::SpanId,
};
use life::{Clock, Life};
use std::{collections::BTreeMap, fmt};

/// Places for numbers of tiles that are taken of a counter.
pub(crate) const NUMBERS: u32 = 2;

/// Words that say which tiles are computed again: one for all, and a prime number of others.
pub(crate) const AGAIN_WORDS: u32 = 1 + 61;

/// How the elements of a buffer come about.
#[derive(Clone, Debug)]
pub(crate) enum Size {
    /// A box of a tensor, once a stage.
    Copy {
        /// Elements of the box by dimension, padding left out.
        dims: Vec<u64>,
        /// How the box lies.
        layout: CopyLayout,
        /// Stages.
        depth: u32,
    },
    /// A box of points, by axis.
    Value(Vec<u64>),
    /// So many mbarriers.
    Barriers(u32),
    /// So many places for each of so many elements.
    Partial {
        /// Places for an element.
        places: u64,
        /// Elements that a thread holds in registers, or that a CTA holds in shared memory.
        elems: u64,
    },
    /// So many elements of each thread, from so many other CTAs.
    Parts { others: u64, threads: u64, elems: u64 },
}

/// A buffer.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    pub content: Content,
    /// Name, unlike those of the others.
    pub name: String,
    pub dtype: DType,
    /// Elements in all, whole words.
    pub elems: u64,
    /// Alignment in bytes.
    pub align: u32,
    pub size: Size,
    /// Elements of 16 or 8 bits, a part of a word of which may never be written: loads of whole words would read it.
    pub halves: bool,
    /// Filled through the asynchronous proxy: threads that used its bytes before would have to fence.
    tensor: bool,
    /// Shares its bytes with none.
    alone: bool,
    /// No statement uses its bytes before it lives.
    pub fresh: bool,
    /// Source of the directive or statement.
    pub span: SpanId,
    /// Byte at which it starts.
    pub start: u64,
    lives: Vec<Life>,
}

/// The buffers of a nest, in the order in which they are first filled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allocation {
    pub buffers: Vec<Buffer>,
    /// Bytes in all.
    pub bytes: u64,
    /// Which buffer holds something, from one of its places in the program on.
    found: BTreeMap<(Content, usize), u32>,
}

impl Buffer {
    /// Bytes it takes.
    pub fn bytes(&self) -> u64 {
        place::whole(self.elems.saturating_mul(self.dtype.bytes().into()), self.align)
    }

    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes())
    }

    /// Whether some bytes are those of another buffer, too.
    pub fn overlaps(&self, other: &Buffer) -> bool {
        self.start < other.end() && other.start < self.end()
    }

    /// Whether another, which ordinary stores fill, lives later alone.
    fn comes_before(&self, other: &Buffer) -> bool {
        let end = self.lives.iter().map(|l| l.end).max();
        !other.tensor && other.lives.iter().all(|l| Some(l.begin) > end)
    }
}

impl Allocation {
    /// Buffers for a nest. What the plan has no place, box or sum for has no buffer.
    pub fn of_nest(nest: &Nest) -> Allocation {
        Allocation::of(Parts::of(nest, Target::DEFAULT).using())
    }

    /// Buffers for what is planned.
    pub fn of(plan: Using<'_>) -> Allocation {
        let (nest, threads) = (plan.nest, plan.threads);
        let mut finder = Finder {
            plan,
            clock: Clock::default(),
            buffers: Vec::new(),
            found: BTreeMap::new(),
            repeated: 0,
            copies: BTreeMap::new(),
            lets: BTreeMap::new(),
        };
        finder.stmt(&nest.body);
        finder.outputs();
        finder.turns();
        finder.numbers();
        finder.again();
        finder.before();
        let Finder { clock, mut buffers, found, .. } = finder;
        let sizes: Vec<(u64, u32)> = buffers.iter().map(|b| (b.bytes(), b.align)).collect();
        let is_parts = |b: &Buffer| matches!(b.content, Content::Parts(_));
        let place = |parts_first: bool| {
            place::overlaid(&sizes, &|a, b| {
                let (a, b): (&Buffer, &Buffer) = (&buffers[a], &buffers[b]);
                // Roles have no barriers in common.
                let shares = |b: &Buffer| !b.halves && !b.alone && nest.producer.is_none();
                let ordered = !a.tensor && !b.tensor || a.comes_before(b) || b.comes_before(a);
                let later = |a: &Buffer, b: &Buffer| !is_parts(a) || a.comes_before(b);
                let fresh = !parts_first || later(a, b) && later(b, a);
                shares(a) && shares(b) && ordered && fresh && clock.apart(&a.lives, &b.lives)
            })
        };
        let (mut starts, mut bytes) = place(false);
        if buffers.iter().any(is_parts) {
            let threads = threads.saturating_add(nest.producing().into());
            let resident = |bytes: u64| Target::CLUSTERS.resident(threads, bytes);
            let fresh = place(true);
            if resident(fresh.1) >= resident(bytes).max(1) {
                (starts, bytes) = fresh;
            }
        }
        buffers.iter_mut().zip(starts).for_each(|(buffer, start)| buffer.start = start);
        for n in 0..buffers.len() {
            let own = &buffers[n];
            let later = |(m, b): (usize, &Buffer)| m == n || !own.overlaps(b) || own.comes_before(b);
            buffers[n].fresh = !own.halves && buffers.iter().enumerate().all(later);
        }
        Allocation { buffers, bytes, found }
    }

    /// Whether some buffers share bytes.
    pub fn overlaid(&self) -> bool {
        let later = |n: usize| &self.buffers[n + 1..];
        self.buffers.iter().enumerate().any(|(n, a)| later(n).iter().any(|b| a.overlaps(b)))
    }

    /// The buffer of something: of a copy or a value at one of its places, of the mbarriers of the channel of a number.
    pub fn find(&self, content: Content, place: usize) -> Option<u32> {
        self.found.get(&(content, place)).copied()
    }

    /// Buffers one after the other that take all bytes; the others lie in bytes of these.
    pub fn pile(&self) -> Vec<&Buffer> {
        let mut pile: Vec<&Buffer> = Vec::new();
        let mut top = self.bytes;
        while top > 0 {
            let below =
                |b: &&Buffer| place::whole(b.end(), pile.last().map_or(1, |above| above.align)) == top;
            let Some(next) = self.buffers.iter().find(below) else { break };
            pile.push(next);
            top = next.start;
        }
        // As they are filled.
        self.buffers.iter().filter(|b| pile.iter().any(|p| std::ptr::eq(*p, *b))).collect()
    }
}

/// A line a buffer: where it lies, and at which ticks of the statements' clock it lives.
impl fmt::Display for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for buffer in &self.buffers {
            let Buffer { name, dtype, elems, start, lives, .. } = buffer;
            let lives: Vec<String> = lives.iter().map(|l| format!("{} to {}", l.begin, l.end)).collect();
            let end = buffer.end();
            writeln!(f, "{name}: {dtype}[{elems}] in bytes {start}..{end}, lives {}", lives.join(", "))?;
        }
        writeln!(f, "{} bytes", self.bytes)
    }
}

/// Elements of which a 32-bit word has several, or one.
fn in_a_word(dtype: DType) -> u64 {
    u64::from(4 / dtype.bytes()).max(1)
}

/// Elements rounded up to whole 32-bit words.
fn whole_words(dtype: DType, elems: u64) -> u64 {
    elems.next_multiple_of(in_a_word(dtype))
}

/// Finds the buffers of a nest, and when each lives.
struct Finder<'p> {
    plan: Using<'p>,
    clock: Clock,
    buffers: Vec<Buffer>,
    found: BTreeMap<(Content, usize), u32>,
    /// Loops at run time around the current statement.
    repeated: u32,
    /// Places of each copy, and `let`s of each value, before the current statement.
    copies: BTreeMap<CopyId, usize>,
    lets: BTreeMap<ValueId, usize>,
}

impl<'p> Finder<'p> {
    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For { digit, at, body } => {
                let (copies, inner) = chain(body);
                let at = self.plan.nest.runs(*at, copies.first().copied());
                if let (LoopKind::Pipe(depth @ 2..), false) = (at, copies.is_empty()) {
                    let ring = self.clock.tick();
                    let around = self.clock.enter(*digit, at);
                    self.clock.barrier();
                    let mut buffers: Vec<_> = copies.iter().filter_map(|c| self.copy(*c, depth)).collect();
                    self.repeated += 1;
                    let channels = self.plan.channels.get(Some((*digit, depth)), &copies, inner);
                    buffers.extend(channels.iter().filter_map(|channel| self.full(channel)));
                    channels.iter().for_each(|channel| self.empty(channel));
                    self.stmt(inner);
                    self.repeated -= 1;
                    self.clock.leave(around);
                    let life = Life { begin: ring, end: self.clock.tick() };
                    buffers.into_iter().for_each(|b| self.buffers[b].lives.push(life));
                    return;
                }
                let around = self.clock.enter(*digit, at);
                let runs = u32::from(matches!(at, LoopKind::Seq | LoopKind::Pipe(_)));
                self.repeated += runs;
                self.stmt(body);
                self.repeated -= runs;
                self.clock.leave(around);
            }
            Stmt::Stage { .. } => {
                let (copies, inner) = chain(stmt);
                let begin = self.clock.tick();
                let channels = self.plan.channels.get(None, &copies, inner);
                let depth = |copy: &CopyId| {
                    channels.iter().find(|c| c.copies.contains(copy)).map_or(1, |channel| channel.stages)
                };
                let buffers: Vec<_> = copies
                    .iter()
                    .filter_map(|c| Some((self.copy(*c, depth(c))?, life::Read::Copy(*c))))
                    .collect();
                if !buffers.is_empty() {
                    self.clock.barrier();
                }
                for channel in channels {
                    self.full(channel);
                    self.empty(channel);
                }
                let reads: Vec<_> = buffers.iter().map(|(_, read)| self.clock.watch(*read)).collect();
                self.stmt(inner);
                for ((buffer, _), read) in buffers.into_iter().zip(reads).rev() {
                    let end = self.clock.last(read).max(begin);
                    self.buffers[buffer].lives.push(Life { begin, end });
                }
            }
            Stmt::Let { values, first, rest } => self.let_(values, first, rest),
            Stmt::Skip => {}
            Stmt::Def { expr, .. }
            | Stmt::Red { expr, .. }
            | Stmt::Scan { expr, .. }
            | Stmt::Set { expr, .. }
            | Stmt::Put { expr, .. } => {
                self.clock.tick();
                for value in expr.values() {
                    self.clock.read(life::Read::Value(value));
                }
                for access in expr.accesses() {
                    let copies = (0..self.plan.nest.copies.len() as u16).map(CopyId);
                    let served = copies.filter(|c| self.plan.nest.serves(*c, access));
                    served.for_each(|c| self.clock.read(life::Read::Copy(c)));
                }
            }
        }
    }

    fn let_(&mut self, values: &[ValueId], first: &Stmt, rest: &Stmt) {
        let begin = self.clock.tick();
        let rooms: Vec<Rooms<'p>> = values.iter().map(|v| self.rooms(*v)).collect();
        if rooms.iter().any(|r| r.held.is_some() || r.partial.is_some()) {
            self.clock.barrier();
        }
        self.stmt(first);
        let mut published = Vec::new();
        for (value, room) in values.iter().zip(&rooms) {
            let combined = self.clock.tick();
            if let Some(partial) = room.partial {
                let from = if room.in_place { begin } else { combined };
                self.buffers[partial].lives.push(Life { begin: from, end: combined });
            }
            if let Some(held) = room.held {
                // In place, combined from parts; in place; from registers, later.
                let from = match (room.in_place, room.partial) {
                    (true, Some(_)) => Some(combined),
                    (true, None) => Some(begin),
                    (false, _) => None,
                };
                published.push((held, from, self.clock.watch(life::Read::Value(*value))));
            }
        }
        let met = self.clock.tick();
        for room in &rooms {
            let parts = room.place.and_then(|place| self.parts(place));
            parts.into_iter().for_each(|b| self.buffers[b].lives.push(Life { begin: met, end: met }));
        }
        let publish = self.clock.tick();
        self.stmt(rest);
        for (buffer, from, read) in published.into_iter().rev() {
            let end = self.clock.last(read).max(publish);
            self.buffers[buffer].lives.push(Life { begin: from.unwrap_or(publish), end });
        }
    }

    /// The buffer into which the other CTAs of a cluster store their parts of a value.
    fn parts(&mut self, place: &Place) -> Option<usize> {
        let Some(Ctas::Cluster(cut)) = &self.plan.sums.get(place)?.ctas else { return None };
        let v = self.plan.nest.value(place.value);
        let (threads, others) = (self.plan.threads, u64::from(self.plan.nest.cluster_ctas()) - 1);
        let elems = cut.own.len() as u64;
        let all = threads.saturating_mul(elems).saturating_mul(others);
        let size = Size::Parts { others, threads, elems };
        let at = (Content::Parts(place.value), place.nth);
        Some(self.buffer(at, v.dtype, all, size, v.span))
    }

    /// The buffers of a value from its next `let` on.
    fn rooms(&mut self, value: ValueId) -> Rooms<'p> {
        let nth = self.lets.entry(value).or_default();
        let place = self.plan.places.nth(value, *nth);
        *nth += 1;
        let Some(place) = place else { return Rooms::default() };
        let v = self.plan.nest.value(value);
        let held = place.shared.as_ref().map(|of| {
            let (at, size) = ((Content::Value(value), place.nth), Size::Value(of.points.clone()));
            self.buffer(at, v.dtype, of.elems, size, v.span)
        });
        let sum = self.plan.sums.get(place).and_then(|sum| sum.threads.as_ref());
        let each = match (&place.registers, &place.shared) {
            (Some(layout), _) => match sum {
                // A total of each block of registers.
                Some(Threads::Scanned(scan)) => layout.slots() / scan.block() as u64,
                _ => layout.slots(),
            },
            (None, shared) => shared.as_ref().map_or(0, |of| of.elems),
        };
        let places = match sum {
            None => 0,
            Some(Threads::Registers(combination)) => combination.places(),
            Some(Threads::Scanned(scan)) => scan.places(),
            Some(Threads::Shared(units)) => self.plan.extent(units),
        };
        let partial = (places > 0).then(|| {
            let (at, size) = ((Content::Partial(value), place.nth), Size::Partial { places, elems: each });
            self.buffer(at, v.dtype, places.saturating_mul(each), size, v.span)
        });
        // The last tile of a segment leaves elements between others unwritten.
        let parted = self.plan.nest.segment.is_some_and(|s| v.axes.contains(&s.digit.axis));
        if parted && in_a_word(v.dtype) > 1 {
            held.iter().chain(&partial).for_each(|n| self.buffers[*n].halves = true);
        }
        Rooms { place: Some(place), held, partial, in_place: place.registers.is_none() }
    }

    /// The buffer of a copy at its next place.
    fn copy(&mut self, copy: CopyId, depth: u32) -> Option<usize> {
        let info = self.plan.nest.copy(copy);
        if info.space != Space::Shared {
            return None;
        }
        let place = self.copies.entry(copy).or_default();
        let of = self.plan.boxes.of_copy(copy).find(|of| of.place == *place);
        *place += 1;
        let of = of?;
        let layout = of.layout.clone();
        let dims = layout.extents.clone();
        let dtype = self.plan.nest.elem(info.tensor);
        let elems = layout.stage(depth, dtype.bytes().into()).saturating_mul(depth.into());
        let (align, span) = (layout.align, info.span);
        // Rows or gaps between them that end within a word, in tiles of any size.
        let filled = [TileSize::Whole, TileSize::Last].map(|size| of.extents(size));
        let rows = filled.into_iter().filter_map(|points| points.get(layout.contiguous).copied());
        let gap = u64::from(info.pad / dtype.bytes());
        let within = rows.chain([gap]).any(|n| !n.is_multiple_of(in_a_word(dtype)));
        let at = (Content::Copy(copy), of.place);
        let buffer = self.buffer(at, dtype, elems, Size::Copy { dims, layout, depth }, span);
        self.buffers[buffer].align = align;
        self.buffers[buffer].halves |= within;
        let tensor = info.via == Via::Tma;
        self.buffers[buffer].tensor |= tensor;
        // Threads that used the bytes before would have to fence.
        self.buffers[buffer].alone |= tensor && self.repeated > 0;
        Some(buffer)
    }

    /// The tiles that are collected before they are stored, and those that a CTA has to itself.
    fn outputs(&mut self) {
        let nest = self.plan.nest;
        for (tensor, output) in &nest.outputs {
            let store = self.plan.stores.collected(nest, *tensor);
            let Some(layout) = store.and_then(|store| store.tile.as_ref()) else { continue };
            let (dtype, size) = (nest.elem(*tensor), Size::Value(layout.extents.clone()));
            for group in 0..nest.groups() {
                let at = (Content::Output(*tensor, group), 0);
                let buffer = self.buffer(at, dtype, layout.elems, size.clone(), output.span);
                self.buffers[buffer].align = layout.align;
                // Copies may be on their way from it.
                self.buffers[buffer].alone = true;
            }
        }
        for (tensor, span) in &nest.private {
            let store = self.plan.stores.collected(nest, *tensor);
            let Some(Ok(StorePath::Private(tile))) = store.map(|store| &store.how) else { continue };
            let extents: Vec<u64> = tile.dims.iter().map(|dim| dim.extent).collect();
            let dtype = nest.elem(*tensor);
            for group in 0..nest.groups() {
                let at = (Content::Output(*tensor, group), 0);
                let buffer = self.buffer(at, dtype, tile.elems, Size::Value(extents.clone()), *span);
                // It lives as long as the tile.
                self.buffers[buffer].alone = true;
            }
        }
    }

    /// The mbarriers of groups that take turns.
    fn turns(&mut self) {
        if let Some(groups) = self.plan.nest.pingpong {
            self.mbarriers((Content::Turn, 0), groups, SpanId::NONE);
        }
    }

    /// The numbers of tiles that are taken of a counter.
    fn numbers(&mut self) {
        if self.plan.nest.counted {
            self.mbarriers((Content::NumberFull, 0), NUMBERS, SpanId::NONE);
            self.mbarriers((Content::NumberEmpty, 0), NUMBERS, SpanId::NONE);
            let (words, size) = (NUMBERS.into(), Size::Value(vec![NUMBERS.into()]));
            let numbers = self.buffer((Content::Numbers, 0), DType::I32, words, size, SpanId::NONE);
            self.buffers[numbers].alone = true;
        }
    }

    /// What says which tiles are computed again.
    fn again(&mut self) {
        if self.plan.maxima.are_told() {
            self.mbarriers((Content::Verdict, 0), 1, SpanId::NONE);
        }
        if !self.plan.maxima.all.is_empty() {
            let (words, size) = (AGAIN_WORDS.into(), Size::Value(vec![AGAIN_WORDS.into()]));
            let again = self.buffer((Content::Again, 0), DType::I32, words, size, SpanId::NONE);
            self.buffers[again].alone = true;
        }
    }

    /// What CTAs that look back draw, and are told.
    fn before(&mut self) {
        let Some(lookback) = self.plan.lookback else { return };
        let ticket = std::iter::once((Content::Ticket, DType::I32));
        let told =
            lookback.states.iter().map(|s| (Content::Before(s.value), self.plan.nest.value(s.value).dtype));
        for (content, dtype) in ticket.chain(told).collect::<Vec<_>>() {
            let buffer = self.buffer((content, 0), dtype, 1, Size::Value(vec![1]), SpanId::NONE);
            self.buffers[buffer].alone = true;
        }
    }

    /// The mbarriers of a channel, where copies come by tensor maps.
    fn full(&mut self, channel: &Channel) -> Option<usize> {
        let comes = |full: &Full| *full == Full::Mbarrier;
        let at = (Content::Full(channel.ring), channel.number);
        let span = self.plan.nest.copy(channel.ring).span;
        channel.signals().iter().any(comes).then(|| self.mbarriers(at, channel.stages, span))
    }

    /// The mbarriers by which readers give the stages of a channel back.
    fn empty(&mut self, channel: &Channel) {
        if let Producer::Role(_) = channel.producer {
            let span = self.plan.nest.copy(channel.ring).span;
            self.mbarriers((Content::Empty(channel.ring), channel.number), channel.stages, span);
        }
    }

    /// So many mbarriers, each a word of 64 bits.
    fn mbarriers(&mut self, at: (Content, usize), count: u32, span: SpanId) -> usize {
        let buffer = self.buffer(at, DType::I32, 2 * u64::from(count), Size::Barriers(count), span);
        self.buffers[buffer].alone = true;
        buffer
    }

    /// The buffer of something at a place: one for all places that hold the same in as many elements.
    fn buffer(&mut self, at: (Content, usize), dtype: DType, elems: u64, size: Size, span: SpanId) -> usize {
        let buffer = self.like(at.0, dtype, elems, size, span);
        self.found.insert(at, buffer as u32);
        buffer
    }

    /// A buffer that holds as many elements of something.
    fn like(&mut self, content: Content, dtype: DType, elems: u64, size: Size, span: SpanId) -> usize {
        let words = whole_words(dtype, elems);
        if let Some(known) = self.buffers.iter().position(|b| b.content == content && b.elems == words) {
            return known;
        }
        let nest = self.plan.nest;
        let base = content.word(nest);
        let name = unique(&base, |n| self.buffers.iter().any(|b| b.name == n));
        self.buffers.push(Buffer {
            content,
            name,
            dtype,
            elems: words,
            align: WIDEST as u32,
            size,
            halves: words != elems,
            tensor: false,
            alone: false,
            fresh: false,
            span,
            start: 0,
            lives: Vec::new(),
        });
        self.buffers.len() - 1
    }
}

/// The buffers of a value from one of its `let`s on, by position.
#[derive(Default)]
struct Rooms<'p> {
    place: Option<&'p Place>,
    held: Option<usize>,
    partial: Option<usize>,
    in_place: bool,
}

/// A name that is not taken: this one, or with a number behind it.
pub(crate) fn unique(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let candidates = std::iter::once(name.to_string()).chain((2..).map(|n| format!("{name}_{n}")));
    candidates.into_iter().find(|n| !taken(n)).expect("endless candidates")
}
