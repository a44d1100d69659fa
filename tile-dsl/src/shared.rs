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
//! The engine's check explains the bytes, the lowering takes the places: both read this.

mod life;

use crate::{
    dtype::DType,
    index::AxisId,
    kernel::place,
    machine::Target,
    nest::{
        Across, CopyId, CopyLayout, Layout, LoopKind, Nest, Placement, Step, Steps, Stmt, TileSize, ValueId,
        chain, own_loops, places, threads,
    },
    span::SpanId,
};
use life::{Clock, Life};
use std::{collections::BTreeMap, fmt};

/// What a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Content {
    /// What a stage copied.
    Copy(CopyId),
    /// The elements of a value.
    Value(ValueId),
    /// Partial results of a value, to be combined.
    Partial(ValueId),
    /// What the other CTAs of a cluster have of a value, as far as this one adds it up.
    Parts(ValueId),
    /// The mbarriers of the channel whose first copy it is.
    Full(CopyId),
    /// Those by which its stages are given back.
    Empty(CopyId),
    /// What a group of the threads that compute stores of a tensor.
    Output(crate::tile::TensorId, u32),
    /// The mbarriers by which groups pass the turn on.
    Turn,
}

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
}

impl Buffer {
    /// Bytes it takes.
    pub fn bytes(&self) -> u64 {
        place::whole(self.elems.saturating_mul(self.dtype.bytes().into()), self.align)
    }

    fn end(&self) -> u64 {
        self.start + self.bytes()
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
    /// Buffers for a nest. What has no bound has no buffer, which the engine's checks report.
    pub fn of(nest: &Nest) -> Allocation {
        let mut finder = Finder { nest, clock: Clock::default(), buffers: Vec::new(), repeated: 0 };
        finder.stmt(&nest.body);
        finder.outputs();
        finder.turns();
        let Finder { clock, mut buffers, .. } = finder;
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
            let threads = threads(nest).saturating_add(nest.producing().into());
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
        Allocation { buffers, bytes }
    }

    /// Whether some buffers share bytes.
    pub fn overlaid(&self) -> bool {
        let later = |n: usize| &self.buffers[n + 1..];
        self.buffers.iter().enumerate().any(|(n, a)| later(n).iter().any(|b| a.overlaps(b)))
    }

    /// The buffer for `elems` elements of something.
    pub fn find(&self, content: Content, elems: u64) -> Option<u32> {
        let at =
            self.buffers.iter().position(|b| b.content == content && b.elems == whole_words(b.dtype, elems));
        at.map(|at| at as u32)
    }

    /// Elements of a value that it has a buffer for.
    pub fn elements(&self, value: ValueId) -> Option<u64> {
        self.buffers.iter().find_map(|b| match &b.size {
            Size::Value(points) if b.content == Content::Value(value) => {
                Some(points.iter().copied().fold(1, u64::saturating_mul))
            }
            _ => None,
        })
    }

    /// Buffers one after the other that take all bytes; the others lie in bytes of these.
    pub fn pile(&self) -> Vec<&Buffer> {
        let mut pile: Vec<&Buffer> = Vec::new();
        let mut top = self.bytes;
        while top > 0 {
            let below = |b: &&Buffer| {
                b.end().next_multiple_of(pile.last().map_or(1, |above| above.align.into())) == top
            };
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

/// How the elements of a value lie in shared memory: row-major over its points inside its `let`.
#[derive(Clone, Debug)]
pub(crate) struct ValueBox {
    /// Weight of a point of each axis, in elements.
    pub pitches: BTreeMap<AxisId, i64>,
    /// Points, by axis.
    pub points: Vec<u64>,
    /// Elements in all.
    pub elems: u64,
}

/// Lays out a value that `loops` compute.
///
/// # Errors
/// The axis of a loop without a bound.
pub(crate) fn value_box(nest: &Nest, value: ValueId, loops: &[Step]) -> Result<ValueBox, AxisId> {
    let (mut pitches, mut all, mut elems) = (BTreeMap::new(), Vec::new(), 1u64);
    for axis in nest.value(value).axes.iter().rev() {
        let mut points = 1u64;
        for (digit, _) in loops.iter().filter(|(d, _)| d.axis == *axis) {
            let Steps::Fixed(steps) = digit.steps else { return Err(*axis) };
            points += u64::from(digit.stride) * (u64::from(steps) - 1);
        }
        pitches.insert(*axis, elems as i64);
        all.push(points);
        elems = elems.saturating_mul(points).min(u32::MAX.into());
    }
    all.reverse();
    Ok(ValueBox { pitches, points: all, elems })
}

/// Whether a value in shared memory is computed there. A reduction accumulates in registers wherever its result goes,
/// unless a loop at run time indexes it.
pub(crate) fn in_place(nest: &Nest, value: ValueId, loops: &[Step]) -> bool {
    let v = nest.value(value);
    let fixed = |(digit, at): &Step| {
        matches!(at, LoopKind::Unit(..)) || at.is_expanded() || digit.steps == Steps::Fixed(1)
    };
    v.placement == Placement::Shared && (v.reduction.is_none() || !loops.iter().all(fixed))
}

/// Whether a value of a `let` is computed in shared memory.
pub(crate) fn accumulates_in_place(nest: &Nest, value: ValueId, first: &Stmt) -> bool {
    in_place(nest, value, &own_loops(nest, value, first))
}

/// Whether a value is computed in shared memory, by any of its `let`s.
pub(crate) fn computed_in_place(nest: &Nest, value: ValueId) -> bool {
    nest.value(value).placement == Placement::Shared
        && nest.lets().into_iter().any(|(v, first)| v == value && accumulates_in_place(nest, value, first))
}

/// Finds the buffers of a nest, and when each lives.
struct Finder<'n> {
    nest: &'n Nest,
    clock: Clock,
    buffers: Vec<Buffer>,
    /// Loops at run time around the current statement.
    repeated: u32,
}

impl Finder<'_> {
    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For { digit, at, body } => {
                let (copies, inner) = chain(body);
                let at = self.nest.runs(*at, copies.first().copied());
                if let (LoopKind::Pipe(depth @ 2..), false) = (at, copies.is_empty()) {
                    let ring = self.clock.tick();
                    let around = self.clock.enter(*digit, at);
                    self.clock.barrier();
                    let mut buffers: Vec<_> =
                        copies.iter().filter_map(|c| self.copy(*c, inner, depth)).collect();
                    self.repeated += 1;
                    buffers.extend(self.full(&copies, depth));
                    if self.nest.produced.contains(digit) {
                        self.empty(&copies, depth);
                    }
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
                let buffers: Vec<_> = copies
                    .iter()
                    .filter_map(|c| Some((self.copy(*c, inner, 1)?, life::Read::Copy(*c))))
                    .collect();
                if !buffers.is_empty() {
                    self.clock.barrier();
                }
                self.full(&copies, 1);
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
            | Stmt::Set { expr, .. }
            | Stmt::Put { expr, .. } => {
                self.clock.tick();
                for value in expr.values() {
                    self.clock.read(life::Read::Value(value));
                }
                for access in expr.accesses() {
                    let copies = (0..self.nest.copies.len() as u16).map(CopyId);
                    let served = copies.filter(|c| self.nest.serves(*c, access));
                    served.for_each(|c| self.clock.read(life::Read::Copy(c)));
                }
            }
        }
    }

    fn let_(&mut self, values: &[ValueId], first: &Stmt, rest: &Stmt) {
        let begin = self.clock.tick();
        let rooms: Vec<Rooms> = values.iter().map(|v| self.rooms(*v, first)).collect();
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
        for value in values {
            let parts = self.parts(*value, first);
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
    fn parts(&mut self, value: ValueId, first: &Stmt) -> Option<usize> {
        let across = self.nest.across.get(&value);
        across.filter(|across| **across == Across::Cluster)?;
        let v = self.nest.value(value);
        let slots = Layout::new(self.nest, value, own_loops(self.nest, value, first)).slots();
        let ctas = u64::from(self.nest.cluster_ctas());
        let cut = self.nest.share().is_some_and(|digit| v.axes.contains(&digit.axis));
        let (threads, elems, others) = (threads(self.nest), if cut { slots / ctas } else { slots }, ctas - 1);
        let all = threads.saturating_mul(elems).saturating_mul(others);
        let size = Size::Parts { others, threads, elems };
        Some(self.buffer(Content::Parts(value), v.dtype, all, size, v.span))
    }

    /// The buffers of a value of a `let`.
    fn rooms(&mut self, value: ValueId, first: &Stmt) -> Rooms {
        let v = self.nest.value(value);
        let loops = own_loops(self.nest, value, first);
        let in_place = in_place(self.nest, value, &loops);
        let mut held = None;
        let mut whole = None;
        if v.placement == Placement::Shared
            && let Ok(ValueBox { points, elems, .. }) = value_box(self.nest, value, &loops)
        {
            whole = Some(elems);
            held = Some(self.buffer(Content::Value(value), v.dtype, elems, Size::Value(points), v.span));
        }
        let each =
            if in_place { whole } else { Some(Layout::new(self.nest, value, loops.iter().copied()).slots()) };
        let places = places(self.nest, value, first, in_place);
        let partial = each.filter(|_| places > 0).map(|elems| {
            let size = Size::Partial { places, elems };
            self.buffer(Content::Partial(value), v.dtype, places.saturating_mul(elems), size, v.span)
        });
        // The last tile of a segment leaves elements between others unwritten.
        if self.nest.segment.is_some_and(|s| v.axes.contains(&s.digit.axis)) && in_a_word(v.dtype) > 1 {
            held.iter().chain(&partial).for_each(|n| self.buffers[*n].halves = true);
        }
        Rooms { held, partial, in_place }
    }

    fn copy(&mut self, copy: CopyId, body: &Stmt, depth: u32) -> Option<usize> {
        let info = self.nest.copy(copy);
        if info.space != crate::machine::Space::Shared {
            return None;
        }
        let layout = self.nest.copy_layout(copy, body)?;
        let dims: Vec<u64> = self.nest.footprint(copy, body).iter().filter_map(|d| d.extent).collect();
        let dtype = self.nest.elem(info.tensor);
        let elems = layout.stage(depth, dtype.bytes().into()).saturating_mul(depth.into());
        let (align, span) = (layout.align, info.span);
        // Rows or gaps between them that end within a word, in tiles of any size.
        let filled = [TileSize::Whole, TileSize::Last].map(|size| self.nest.filled(size, copy, body));
        let rows = filled.into_iter().flatten().filter_map(|points| points.get(layout.contiguous).copied());
        let gap = u64::from(info.pad / dtype.bytes());
        let within = rows.chain([gap]).any(|n| !n.is_multiple_of(in_a_word(dtype)));
        let buffer = self.buffer(Content::Copy(copy), dtype, elems, Size::Copy { dims, layout, depth }, span);
        self.buffers[buffer].align = align;
        self.buffers[buffer].halves |= within;
        let tensor = info.via == crate::machine::Via::Tma;
        self.buffers[buffer].tensor |= tensor;
        // Threads that used the bytes before would have to fence.
        self.buffers[buffer].alone |= tensor && self.repeated > 0;
        Some(buffer)
    }

    /// The tiles that are collected before they are stored.
    fn outputs(&mut self) {
        for (tensor, output) in &self.nest.outputs {
            let Some(layout) = self.nest.output_layout(*tensor) else { continue };
            let (dtype, elems, align) = (self.nest.elem(*tensor), layout.elems, layout.align);
            let size = Size::Value(layout.extents.clone());
            for group in 0..self.nest.groups() {
                let content = Content::Output(*tensor, group);
                let buffer = self.buffer(content, dtype, elems, size.clone(), output.span);
                self.buffers[buffer].align = align;
                // Copies may be on their way from it.
                self.buffers[buffer].alone = true;
            }
        }
    }

    /// The mbarriers of groups that take turns.
    fn turns(&mut self) {
        if let Some(groups) = self.nest.pingpong {
            let (words, size) = (2 * u64::from(groups), Size::Barriers(groups));
            let buffer = self.buffer(Content::Turn, DType::I32, words, size, SpanId::NONE);
            self.buffers[buffer].alone = true;
        }
    }

    /// The mbarriers of a channel, where copies come by tensor maps.
    fn full(&mut self, copies: &[CopyId], depth: u32) -> Option<usize> {
        let boxed = |c: &&CopyId| self.nest.copy(**c).via == crate::machine::Via::Tma;
        let first = self.nest.ring(&copies.iter().filter(boxed).copied().collect::<Vec<_>>())?;
        let (words, size) = (2 * u64::from(depth), Size::Barriers(depth));
        let span = self.nest.copy(first).span;
        let buffer = self.buffer(Content::Full(first), DType::I32, words, size, span);
        self.buffers[buffer].alone = true;
        Some(buffer)
    }

    /// The mbarriers by which readers give the stages of a channel back.
    fn empty(&mut self, copies: &[CopyId], depth: u32) {
        let Some(first) = self.nest.ring(copies) else { return };
        let (words, size) = (2 * u64::from(depth), Size::Barriers(depth));
        let span = self.nest.copy(first).span;
        let buffer = self.buffer(Content::Empty(first), DType::I32, words, size, span);
        self.buffers[buffer].alone = true;
    }

    /// A buffer, the same for all places that hold the same in as many elements.
    fn buffer(&mut self, content: Content, dtype: DType, elems: u64, size: Size, span: SpanId) -> usize {
        let words = whole_words(dtype, elems);
        if let Some(known) = self.buffers.iter().position(|b| b.content == content && b.elems == words) {
            return known;
        }
        let base = match content {
            Content::Copy(copy) => self.nest.copy_word(copy),
            Content::Value(value) => self.nest.value(value).name.clone(),
            Content::Partial(value) => format!("{}.partial", self.nest.value(value).name),
            Content::Parts(value) => format!("{}.parts", self.nest.value(value).name),
            Content::Output(tensor, _) => format!("{}.tile", self.nest.tensor(tensor).name),
            Content::Turn => "turn".into(),
            Content::Full(copy) => format!("{}.full", self.nest.copy_word(copy)),
            Content::Empty(copy) => format!("{}.empty", self.nest.copy_word(copy)),
        };
        let name = unique(&base, |n| self.buffers.iter().any(|b| b.name == n));
        self.buffers.push(Buffer {
            content,
            name,
            dtype,
            elems: words,
            align: crate::nest::WIDEST as u32,
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

/// The buffers of a value, by position.
struct Rooms {
    held: Option<usize>,
    partial: Option<usize>,
    in_place: bool,
}

/// A name that is not taken: this one, or with a number behind it.
pub(crate) fn unique(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let candidates = std::iter::once(name.to_string()).chain((2..).map(|n| format!("{name}_{n}")));
    candidates.into_iter().find(|n| !taken(n)).expect("endless candidates")
}
