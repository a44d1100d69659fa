//! Barriers between threads that write shared memory and threads that read it.
//!
//! A barrier is emitted before an access that conflicts with one since the last barrier, and at the end of a
//! loop whose next step would conflict with this one; nowhere else.

use std::collections::BTreeSet;

/// Accesses of shared buffers since the last barrier.
#[derive(Clone, Debug, Default)]
pub(super) struct Sync {
    reads: BTreeSet<u32>,
    writes: BTreeSet<u32>,
    /// Buffers touched in each enclosing loop at run time, outermost first.
    loops: Vec<Touched>,
}

#[derive(Clone, Debug, Default)]
struct Touched {
    reads: BTreeSet<u32>,
    writes: BTreeSet<u32>,
    before: (BTreeSet<u32>, BTreeSet<u32>),
}

impl Sync {
    /// Enclosing loops at run time.
    pub fn depth(&self) -> usize {
        self.loops.len()
    }

    /// Records a write that the outermost `loops` repeat on the same elements; in loops further inside each
    /// thread writes elements of its own. True if a barrier must come first.
    #[must_use]
    pub fn write(&mut self, buffer: u32, loops: usize) -> bool {
        let conflict = self.reads.contains(&buffer) || self.writes.contains(&buffer);
        if conflict {
            self.barrier();
        }
        self.writes.insert(buffer);
        for around in &mut self.loops[..loops] {
            around.writes.insert(buffer);
        }
        conflict
    }

    /// Whether a buffer was written since the last barrier.
    pub fn is_written(&self, buffer: u32) -> bool {
        self.writes.contains(&buffer)
    }

    /// Records a read; true if a barrier must come first.
    #[must_use]
    pub fn read(&mut self, buffer: u32) -> bool {
        let conflict = self.writes.contains(&buffer);
        if conflict {
            self.barrier();
        }
        self.reads.insert(buffer);
        for around in &mut self.loops {
            around.reads.insert(buffer);
        }
        conflict
    }

    /// All threads met.
    pub fn barrier(&mut self) {
        self.reads.clear();
        self.writes.clear();
    }

    /// Enters a loop.
    pub fn enter(&mut self) {
        let before = (self.reads.clone(), self.writes.clone());
        self.loops.push(Touched { before, ..Touched::default() });
    }

    /// Ends the body of a loop; true if a barrier must end each step.
    /// `synchronised`: each step starts with a barrier.
    #[must_use]
    pub fn leave(&mut self, synchronised: bool) -> bool {
        let touched = self.loops.pop().expect("a loop was entered");
        let conflict = !synchronised
            && (!self.reads.is_disjoint(&touched.writes)
                || self.writes.iter().any(|b| touched.reads.contains(b) || touched.writes.contains(b)));
        if conflict {
            self.barrier();
        }
        // No step may have run.
        self.reads.extend(touched.before.0);
        self.writes.extend(touched.before.1);
        conflict
    }
}
