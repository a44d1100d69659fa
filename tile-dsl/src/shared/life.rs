//! When buffers live: a clock that ticks with the statements of a nest.

use crate::nest::{CopyId, Digit, LoopKind, Steps, ValueId};

/// From the tick that fills a buffer to the tick that reads it last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub begin: u32,
    pub end: u32,
}

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Value(ValueId),
    Copy(CopyId),
}

/// A loop that repeats what is in it.
#[derive(Clone, Debug)]
struct Loop {
    life: Life,
    /// At run time, with more than one step.
    runs: bool,
    piped: bool,
    /// There are barriers in it.
    synchronised: bool,
}

/// Waits for the last read of something.
#[derive(Clone, Debug)]
struct Watch {
    read: Read,
    /// Loops around it.
    outside: usize,
    last: Last,
}

#[derive(Clone, Copy, Debug)]
enum Last {
    Tick(u32),
    /// The end of a loop.
    Loop(usize),
}

/// The time in a nest.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    now: u32,
    loops: Vec<Loop>,
    /// Enclosing loops that repeat, outermost first.
    open: Vec<usize>,
    watches: Vec<Watch>,
}

impl Clock {
    pub fn tick(&mut self) -> u32 {
        self.now += 1;
        self.now
    }

    /// Enters a loop; steps that units take at the same time repeat nothing.
    pub fn enter(&mut self, digit: Digit, at: LoopKind) -> bool {
        let repeats = !matches!(at, LoopKind::Unit(..));
        let begin = self.tick();
        if repeats {
            let piped = matches!(at, LoopKind::Pipe(_));
            let runs = piped || at == LoopKind::Seq && digit.steps != Steps::Fixed(1);
            self.open.push(self.loops.len());
            self.loops.push(Loop { life: Life { begin, end: u32::MAX }, runs, piped, synchronised: false });
        }
        repeats
    }

    /// Leaves a loop; `repeats` as [`Self::enter`] said.
    pub fn leave(&mut self, repeats: bool) {
        let end = self.tick();
        if repeats {
            let at = self.open.pop().expect("a loop was entered");
            self.loops[at].life.end = end;
        }
    }

    /// There is a barrier here.
    pub fn barrier(&mut self) {
        for at in &self.open {
            self.loops[*at].synchronised = true;
        }
    }

    /// Waits for reads from here on; to be ended by [`Self::last`], the last one first.
    pub fn watch(&mut self, read: Read) -> usize {
        self.watches.push(Watch { read, outside: self.open.len(), last: Last::Tick(0) });
        self.watches.len() - 1
    }

    /// Something is read now.
    pub fn read(&mut self, what: Read) {
        for watch in self.watches.iter_mut().filter(|w| w.read == what) {
            watch.last = self.open.get(watch.outside).map_or(Last::Tick(self.now), |at| Last::Loop(*at));
        }
    }

    /// When what was watched was read last: the end of the outermost loop around the read.
    pub fn last(&mut self, watch: usize) -> u32 {
        let last = self.watches[watch].last;
        self.watches.truncate(watch);
        match last {
            Last::Tick(at) => at,
            Last::Loop(at) => self.loops[at].life.end,
        }
    }

    /// Whether buffers may lie in the same bytes: no life of one overlaps one of the other, and a loop around both does not
    /// pay for it.
    pub fn apart(&self, a: &[Life], b: &[Life]) -> bool {
        a.iter().all(|a| b.iter().all(|b| a.is_apart(b) && self.barrier_is_cheap(a, b)))
    }

    fn barrier_is_cheap(&self, a: &Life, b: &Life) -> bool {
        let both = Life { begin: a.begin.min(b.begin), end: a.end.max(b.end) };
        let around: Vec<&Loop> = self.loops.iter().filter(|l| l.runs && l.life.has(&both)).collect();
        // They begin in the order of their nesting.
        let Some(innermost) = around.last() else { return true };
        let inside =
            |l: &Loop| l.runs && l.synchronised && l.life != innermost.life && innermost.life.has(&l.life);
        around.iter().all(|l| !l.piped) && self.loops.iter().any(inside)
    }
}

impl Life {
    fn is_apart(&self, other: &Life) -> bool {
        self.end < other.begin || other.end < self.begin
    }

    fn has(&self, other: &Life) -> bool {
        self.begin <= other.begin && other.end <= self.end
    }
}
