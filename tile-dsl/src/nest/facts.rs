//! The facts of a nest: what directives say that is no statement. One table makes the fields of [`Nest`], what each is where
//! nothing is said, how it is printed and how it is read.
//!
//! A row is `field: type, line "word";`, with `= default` after a type whose default is not what holds where nothing is said.
//! A fact that says something is a line behind the term, its entries in parentheses: `; cache(a: evict_last, c: evict_first)`.
//! A row with `term` is printed in the term, where it belongs: `[acc@lane]`, `#lane.y^x`. Source spans are not printed.

use super::{
    Access, Across, Copy, Digit, Expr, Fraction, Interleave, Issue, Level, Limits, Order, Output, Recurrence,
    Segment, Stmt, Value, ValueId,
};
use crate::{
    index::AxisId,
    machine::{Evict, Unit, UnitDim},
    span::SpanId,
    tile::{self, TensorId},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

/// Makes the nest of the rows of its facts.
macro_rules! facts {
    ($($(#[$doc:meta])* $field:ident: $type:ty $(= $default:expr)?, $place:ident $word:literal;)*) => {
        /// A scheduled (or not yet scheduled) program for fixed element types: the term, its side tables and its facts.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub struct Nest {
            /// The instantiated kernel this came from: parameters, axes, source.
            pub kernel: tile::Kernel,
            /// The kernel as written, where a directive has rewritten it (`online`).
            pub written: Option<Box<tile::Kernel>>,
            /// Named intermediates, accumulators included.
            pub values: Vec<Value>,
            /// Tensor accesses.
            pub accesses: Vec<Access>,
            /// Staged copies that the term mentions.
            pub copies: Vec<Copy>,
            /// The term.
            pub body: Stmt,
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Nest {
            /// A term with empty tables: what holds where no directive says anything.
            pub fn bare(kernel: tile::Kernel, body: Stmt) -> Self {
                Nest {
                    kernel,
                    written: None,
                    values: Vec::new(),
                    accesses: Vec::new(),
                    copies: Vec::new(),
                    body,
                    $($field: default!($($default)?),)*
                }
            }

            /// The facts that say something, a line each, but those that the term shows.
            pub(crate) fn print_facts(&self) -> String {
                let mut out = String::new();
                $(line!($place, out, $word, self.$field.entries(self));)*
                out
            }

            /// Reads a line of [`Self::print_facts`]; nothing for a line that is none.
            pub(super) fn read_fact(&mut self, line: &str) -> Option<()> {
                let (word, entries) = line.strip_prefix("; ")?.strip_suffix(')')?.split_once('(')?;
                let entries: Vec<&str> = entries.split(", ").collect();
                match word {
                    $($word => self.$field = Fact::read(&entries, self)?,)*
                    _ => return None,
                }
                Some(())
            }
        }
    };
}

/// What a fact is where nothing is said.
macro_rules! default {
    () => {
        Default::default()
    };
    ($default:expr) => {
        $default
    };
}

/// The line of a fact that has one.
macro_rules! line {
    (line, $out:ident, $word:literal, $entries:expr) => {
        let entries = $entries;
        if !entries.is_empty() {
            let _ = writeln!($out, "; {}({})", $word, entries.join(", "));
        }
    };
    (term, $($rest:tt)*) => {};
}

facts! {
    /// Upper bounds of axes asserted by `fits`, checked at launch; by axis, in elements.
    bounds: BTreeMap<AxisId, u32>, line "fits";
    /// Upper bounds of dims that no axis goes through, asserted by `fits`, checked at launch.
    lengths: BTreeMap<String, u32>, line "lengths";
    /// Numbers that dims are multiples of, asserted by `multiple`, checked at launch; by dim.
    multiples: BTreeMap<String, u32>, line "multiple";
    /// Loops of the kernel whose steps see a tile as a whole, by axis.
    recurrences: BTreeMap<AxisId, Recurrence>, line "recurrences";
    /// User names of digits (`i.o`, `i.t`, `ir`), display and addressing only.
    names: BTreeMap<String, Digit>, line "names";
    /// How each unit-bound reduction combines its partials, by value.
    combine: BTreeMap<ValueId, Level>, term "reduce";
    /// Reductions that several CTAs hold parts of (`split_k`), and how those come together.
    across: BTreeMap<ValueId, Across>, term "split_k";
    /// Tensors whose contiguous dimension is the first (`layout(b: col)`), by parameter.
    column_major: BTreeSet<TensorId>, line "column_major";
    /// Minimum resident CTAs an SM (`occupancy`), as `.minnctapersm`.
    occupancy: Option<u32>, line "occupancy";
    /// Tensors that the kernel stores to, whose elements a CTA collects in shared memory first.
    outputs: BTreeMap<TensorId, Output>, line "collected";
    /// Tensors that values are combined with, of which each CTA has a part of its own in shared memory (`stage`), and where that is said.
    private: BTreeMap<TensorId, SpanId>, line "private";
    /// Tensors whose stored rows lanes exchange, so that each stores eight elements (`exchange`), and where that is said.
    exchanged: BTreeMap<TensorId, SpanId>, line "exchange";
    /// Eviction priorities in L2 of what is accessed of tensors, where one is said (`cache`).
    cache: BTreeMap<TensorId, Evict>, line "cache";
    /// How accesses stand among the computation on registers, of pipelined loops that say so (`interleave`).
    interleaved: BTreeMap<Digit, Interleave>, line "interleave";
    /// Loops whose copies a warp or a warpgroup of its own makes (`produce`).
    produced: BTreeSet<Digit>, line "produce";
    /// Which of the two.
    producer: Option<Unit>, line "producer";
    /// Of loops over tiles that CTAs have, the stages of copies that a producer makes once a tile, where there is more than one (`produce`).
    tile_stages: BTreeMap<Digit, u32>, line "stages";
    /// Of produced loops, who says that a stage has been read where it is not a lane a warp (`arrive`).
    arrive: BTreeMap<Digit, Unit>, line "arrive";
    /// Produced loops that run backwards for every second tile of a CTA (`alternate`).
    alternate: BTreeSet<Digit>, line "alternate";
    /// How asynchronous MMA is issued, by value (`issue`).
    issue: BTreeMap<ValueId, Issue>, line "issue";
    /// Values that pipelined loops compute a step ahead (`skew`).
    ahead: BTreeSet<ValueId>, line "skew";
    /// Running maxima that all steps of their loop but the first leave as they are (`freeze`).
    frozen: BTreeSet<ValueId>, line "freeze";
    /// Registers of a thread that copies and of one that computes (`registers`).
    registers: Option<[u32; 2]>, line "registers";
    /// An axis with mixed tile sizes: its tiles start over after so many points (`segment`).
    segment: Option<Segment>, line "segment";
    /// CTAs for each multiprocessor that take tile after tile (`persistent`).
    persistent: Option<u32>, line "persistent";
    /// Whether these take every second round of tiles backwards (`persistent(1, serpentine)`).
    serpentine_rounds: bool, line "serpentine";
    /// Whether they take the next tile of a counter that all share (`persistent(1, counter)`).
    counted: bool, line "counter";
    /// A loop whose steps CTAs share out, each of which is told what is known before it (`lookback`).
    lookback: Option<Digit>, line "lookback";
    /// Groups of the threads that compute, each with a tile of its own, that take turns (`pingpong`).
    pingpong: Option<u32>, line "pingpong";
    /// The digit that tells the CTAs of a cluster apart, bound to CTAs (`cluster`, or `split_k` among them).
    cluster: Option<Digit>, line "cluster";
    /// Order of CTAs over output tiles.
    order: Order = Order::Row, line "order";
    /// The axis of whose tiles bands are, and the one along which they are walked; the last two program axes when absent.
    bands: Option<[AxisId; 2]>, line "bands";
    /// Bound digits whose step is the coordinate of their unit xor this other coordinate of it.
    skew: BTreeMap<Digit, UnitDim>, term "xor";
    /// Optimisation level of the PTX assembler (`assemble`); its own default when absent.
    assemble: Option<u32>, line "assemble";
    /// Axes of which only some points do something.
    limits: BTreeMap<AxisId, Limits>, line "limits";
    /// Whether it is launched before the kernel before it has ended, and waits for that itself (`launch(dependent)`).
    dependent: bool, line "dependent";
}

/// A fact as entries of its line; none where it says nothing.
trait Fact: Sized {
    fn entries(&self, nest: &Nest) -> Vec<String>;
    fn read(entries: &[&str], nest: &Nest) -> Option<Self>;
}

/// A key or a value of an entry as text.
trait Text: Sized {
    fn show(&self, nest: &Nest) -> String;
    fn read(text: &str, nest: &Nest) -> Option<Self>;
}

/// What facts are about. (Names of dims and of digits are no such keys: a digit is not named by its names.)
trait Key: Text + Ord {}

impl<K: Key, V: Text> Fact for BTreeMap<K, V> {
    fn entries(&self, nest: &Nest) -> Vec<String> {
        let entry = |(key, value): (&K, &V)| match (key.show(nest), value.show(nest)) {
            (key, value) if value.is_empty() => key,
            (key, value) => format!("{key}: {value}"),
        };
        self.iter().map(entry).collect()
    }
    fn read(entries: &[&str], nest: &Nest) -> Option<Self> {
        let entry = |entry: &&str| {
            let (key, value) = entry.split_once(": ").unwrap_or((entry, ""));
            Some((K::read(key, nest)?, V::read(value, nest)?))
        };
        entries.iter().map(entry).collect()
    }
}

impl<K: Key> Fact for BTreeSet<K> {
    fn entries(&self, nest: &Nest) -> Vec<String> {
        self.iter().map(|key| key.show(nest)).collect()
    }
    fn read(entries: &[&str], nest: &Nest) -> Option<Self> {
        entries.iter().map(|entry| K::read(entry, nest)).collect()
    }
}

impl Fact for BTreeMap<String, u32> {
    fn entries(&self, _: &Nest) -> Vec<String> {
        self.iter().map(|(name, number)| format!("{name}: {number}")).collect()
    }
    fn read(entries: &[&str], _: &Nest) -> Option<Self> {
        let entry = |entry: &&str| {
            let (name, number) = entry.split_once(": ")?;
            Some((name.to_string(), number.parse().ok()?))
        };
        entries.iter().map(entry).collect()
    }
}

impl Fact for BTreeMap<String, Digit> {
    fn entries(&self, nest: &Nest) -> Vec<String> {
        self.iter().map(|(name, digit)| format!("{name}: {}", nest.plain_digit(*digit))).collect()
    }
    fn read(entries: &[&str], nest: &Nest) -> Option<Self> {
        let entry = |entry: &&str| {
            let (name, digit) = entry.split_once(": ")?;
            Some((name.to_string(), nest.read_plain_digit(digit)?))
        };
        entries.iter().map(entry).collect()
    }
}

impl<T: Text> Fact for Option<T> {
    fn entries(&self, nest: &Nest) -> Vec<String> {
        self.iter().map(|value| value.show(nest)).collect()
    }
    fn read(entries: &[&str], nest: &Nest) -> Option<Self> {
        let [entry] = entries else { return None };
        T::read(entry, nest).map(Some)
    }
}

impl Fact for bool {
    fn entries(&self, _: &Nest) -> Vec<String> {
        self.then(String::new).into_iter().collect()
    }
    fn read(_: &[&str], _: &Nest) -> Option<Self> {
        Some(true)
    }
}

impl Fact for Order {
    fn entries(&self, _: &Nest) -> Vec<String> {
        (*self != Order::Row).then(|| self.to_string()).into_iter().collect()
    }
    fn read(entries: &[&str], _: &Nest) -> Option<Self> {
        let [entry] = entries else { return None };
        let banded = |word: &str| {
            let number = entry.strip_prefix(word)?.strip_prefix('(')?.strip_suffix(')')?;
            number.parse::<u32>().ok()
        };
        match *entry {
            "row" => Some(Order::Row),
            "col" => Some(Order::Column),
            "hilbert" => Some(Order::Hilbert),
            "reversed" => Some(Order::Reversed),
            _ => {
                let grouped = banded("grouped").map(Order::Grouped);
                let backwards = || banded("backwards").map(Order::Backwards);
                grouped.or_else(|| banded("serpentine").map(Order::Serpentine)).or_else(backwards)
            }
        }
    }
}

impl Key for AxisId {}
impl Text for AxisId {
    fn show(&self, nest: &Nest) -> String {
        nest.axis(*self).to_string()
    }
    fn read(text: &str, nest: &Nest) -> Option<Self> {
        nest.kernel.axes.iter().position(|a| a.name == text).map(|n| AxisId(n as u16))
    }
}

impl Key for TensorId {}
impl Text for TensorId {
    fn show(&self, nest: &Nest) -> String {
        nest.tensor(*self).name.clone()
    }
    fn read(text: &str, nest: &Nest) -> Option<Self> {
        nest.kernel.tensors.iter().position(|t| t.name == text).map(|n| TensorId(n as u16))
    }
}

impl Key for ValueId {}
impl Text for ValueId {
    fn show(&self, nest: &Nest) -> String {
        nest.value(*self).name.clone()
    }
    fn read(text: &str, nest: &Nest) -> Option<Self> {
        nest.values.iter().position(|v| v.name == text).map(|n| ValueId(n as u16))
    }
}

impl Key for Digit {}
impl Text for Digit {
    fn show(&self, nest: &Nest) -> String {
        nest.digit_name(*self)
    }
    fn read(text: &str, nest: &Nest) -> Option<Self> {
        nest.names.get(text).copied().or_else(|| nest.read_plain_digit(text))
    }
}

impl Text for u32 {
    fn show(&self, _: &Nest) -> String {
        self.to_string()
    }
    fn read(text: &str, _: &Nest) -> Option<Self> {
        text.parse().ok()
    }
}

/// Registers of a thread that copies and of one that computes.
impl Text for [u32; 2] {
    fn show(&self, _: &Nest) -> String {
        format!("{} {}", self[0], self[1])
    }
    fn read(text: &str, _: &Nest) -> Option<Self> {
        let (producer, consumer) = text.split_once(' ')?;
        Some([producer.parse().ok()?, consumer.parse().ok()?])
    }
}

/// The axis of whose tiles bands are, and the one along which they are walked.
impl Text for [AxisId; 2] {
    fn show(&self, nest: &Nest) -> String {
        format!("{} {}", self[0].show(nest), self[1].show(nest))
    }
    fn read(text: &str, nest: &Nest) -> Option<Self> {
        let (band, along) = text.split_once(' ')?;
        Some([AxisId::read(band, nest)?, AxisId::read(along, nest)?])
    }
}

impl Text for SpanId {
    fn show(&self, _: &Nest) -> String {
        String::new()
    }
    fn read(_: &str, _: &Nest) -> Option<Self> {
        Some(SpanId::NONE)
    }
}

/// Types of words that print by themselves.
macro_rules! words {
    ($($type:ident: $($word:ident)*;)*) => {$(
        impl Text for $type {
            fn show(&self, _: &Nest) -> String {
                self.to_string()
            }
            fn read(text: &str, _: &Nest) -> Option<Self> {
                [$($type::$word),*].into_iter().find(|word| word.to_string() == text)
            }
        }
    )*};
}

words! {
    Unit: Block Warpgroup Warp Lane Thread;
    UnitDim: X Y Z;
    Evict: First Last;
    Level: Lane Warp Cta;
    Across: Workspace Atomic Cluster;
}

/// Words with a number each in parentheses, as far as they are there: `loads(3/8) copies(1/4)`.
fn argument<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    text.split(' ').find_map(|part| part.strip_prefix(word)?.strip_prefix('(')?.strip_suffix(')'))
}

impl Text for Interleave {
    fn show(&self, _: &Nest) -> String {
        format!("loads({}) copies({}) stores({})", self.loads, self.copies, self.stores)
    }
    fn read(text: &str, _: &Nest) -> Option<Self> {
        let part = |word| {
            let (parts, of) = argument(text, word)?.split_once('/')?;
            Some(Fraction { parts: parts.parse().ok()?, of: of.parse().ok()? })
        };
        Some(Interleave { loads: part("loads")?, copies: part("copies")?, stores: part("stores")? })
    }
}

/// `(ld first[b,i]) .. (add (iota i) 1:i32)`: no comma is followed by a space, which divides entries.
impl Text for Limits {
    fn show(&self, nest: &Nest) -> String {
        let end = |end: &Option<Expr>| end.as_ref().map_or("..".into(), |end| nest.expr(end));
        format!("{} to {}", end(&self.from), end(&self.to)).replace(", ", ",")
    }
    fn read(text: &str, nest: &Nest) -> Option<Self> {
        let (from, to) = text.split_once(" to ")?;
        let end = |text: &str| match text {
            ".." => Some(None),
            text => nest.read_expr(text).map(Some),
        };
        Some(Limits { from: end(from)?, to: end(to)? })
    }
}

impl Text for Issue {
    fn show(&self, _: &Nest) -> String {
        format!("{}in_flight({})", if self.overwrite { "overwrite " } else { "" }, self.in_flight)
    }
    fn read(text: &str, _: &Nest) -> Option<Self> {
        let overwrite = text.starts_with("overwrite ");
        Some(Issue { overwrite, in_flight: argument(text, "in_flight")?.parse().ok()? })
    }
}

impl Text for Output {
    fn show(&self, _: &Nest) -> String {
        format!("swizzle({}){}", self.swizzle, if self.matrices { " stmatrix" } else { "" })
    }
    fn read(text: &str, _: &Nest) -> Option<Self> {
        let swizzle = argument(text, "swizzle")?.parse().ok()?;
        Some(Output { swizzle, matrices: text.ends_with(" stmatrix"), span: SpanId::NONE })
    }
}

impl Text for Recurrence {
    fn show(&self, _: &Nest) -> String {
        self.tile.map_or_else(|| "untiled".to_string(), |tile| tile.to_string())
    }
    fn read(text: &str, _: &Nest) -> Option<Self> {
        let tile = if text == "untiled" { None } else { Some(text.parse().ok()?) };
        Some(Recurrence { tile, span: SpanId::NONE })
    }
}

impl Text for Segment {
    fn show(&self, nest: &Nest) -> String {
        format!("{}: {}", self.digit.show(nest), self.points)
    }
    fn read(text: &str, nest: &Nest) -> Option<Self> {
        let (digit, points) = text.split_once(": ")?;
        Some(Segment { digit: Digit::read(digit, nest)?, points: points.parse().ok()? })
    }
}

impl Nest {
    /// The nest without its facts.
    pub(crate) fn without_facts(&self) -> Nest {
        let Nest { kernel, values, accesses, copies, body, .. } = self.clone();
        Nest { values, accesses, copies, ..Nest::bare(kernel, body) }
    }
}
