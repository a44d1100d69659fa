//! Who touches what at the same time.
//!
//! A moment is the list of the loops around it whose steps are taken at once, each with its step. Two moments are at once if the first
//! loop that tells them apart is the same entry of one loop, in different steps. Behind the end of such a loop everything inside it has
//! happened.

use smallvec::SmallVec;

/// A loop whose steps are taken at once, by the number of its entry, and a step of it.
pub type At = (u32, i64);

/// A moment, by number.
pub type Moment = u32;

/// The moments of a run: a tree, in which a moment's loops are the edges to it from the root.
pub struct Moments {
    all: Vec<Node>,
    now: Moment,
    entries: u32,
}

/// A moment, as the last loop around it and the moment without that loop. The root is its own.
#[derive(Clone, Copy)]
struct Node {
    around: Moment,
    at: At,
    depth: u32,
}

/// Most moments that are kept of an element. Later ones are compared with these.
const MOST: usize = 64;

/// Who has touched an element since it came to be.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    /// Writes: whether it was a contribution to a reduction.
    writes: SmallVec<[(Moment, bool); 2]>,
    reads: SmallVec<[Moment; 2]>,
}

impl Moments {
    /// At the start of a run.
    pub fn new() -> Self {
        let root = Node { around: 0, at: (0, 0), depth: 0 };
        Moments { all: vec![root], now: 0, entries: 0 }
    }

    /// A number for a loop that is entered.
    pub fn enter(&mut self) -> u32 {
        self.entries += 1;
        self.entries
    }

    /// Goes into a step of a loop, which each entry of the loop does once.
    pub fn step_in(&mut self, at: At) {
        let depth = self.node(self.now).depth + 1;
        self.all.push(Node { around: self.now, at, depth });
        self.now = self.all.len() as Moment - 1;
    }

    /// Leaves a step.
    pub fn step_out(&mut self) {
        self.now = self.node(self.now).around;
    }

    /// The moment.
    pub fn now(&self) -> Moment {
        self.now
    }

    fn node(&self, moment: Moment) -> Node {
        self.all[moment as usize]
    }

    fn at_once(&self, mut a: Moment, mut b: Moment) -> bool {
        while self.node(a).depth > self.node(b).depth {
            a = self.node(a).around;
        }
        while self.node(b).depth > self.node(a).depth {
            b = self.node(b).around;
        }
        if a == b {
            return false;
        }
        while self.node(a).around != self.node(b).around {
            (a, b) = (self.node(a).around, self.node(b).around);
        }
        self.node(a).at.0 == self.node(b).at.0
    }
}

impl Touched {
    /// A read; whether it is at once with a write.
    pub fn read(&mut self, moments: &Moments) -> bool {
        let now = moments.now();
        if self.reads.last() == Some(&now) {
            return false;
        }
        if self.reads.len() < MOST {
            self.reads.push(now);
        }
        self.writes.iter().any(|(then, _)| moments.at_once(*then, now))
    }

    /// A write; whether it is at once with a read, or with a write that is no contribution to the same reduction.
    pub fn write(&mut self, moments: &Moments, contributes: bool) -> bool {
        let now = moments.now();
        if self.writes.last() == Some(&(now, contributes)) && self.reads.is_empty() {
            return false;
        }
        let writes = self.writes.iter().any(|(then, c)| !(contributes && *c) && moments.at_once(*then, now));
        let reads = self.reads.iter().any(|then| moments.at_once(*then, now));
        if self.writes.len() < MOST {
            self.writes.push((now, contributes));
        }
        writes || reads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_has_ended_is_in_the_past() {
        let mut moments = Moments::new();
        let mut element = Touched::default();
        let first = moments.enter();
        moments.step_in((first, 0));
        assert!(!element.write(&moments, false));
        moments.step_out();
        let second = moments.enter();
        moments.step_in((second, 1));
        assert!(!element.read(&moments), "another loop");
        moments.step_out();
        moments.step_in((second, 2));
        assert!(!element.read(&moments), "both read");
        assert!(element.write(&moments, false), "the step before has read it");
    }

    #[test]
    fn contributions_may_meet_and_nobody_may_look_meanwhile() {
        let mut moments = Moments::new();
        let mut element = Touched::default();
        let entry = moments.enter();
        for step in 0..2 {
            moments.step_in((entry, step));
            assert!(!element.write(&moments, true));
            moments.step_out();
        }
        assert!(!element.clone().read(&moments), "behind the loop");
        moments.step_in((entry, 2));
        assert!(element.read(&moments));
    }
}
