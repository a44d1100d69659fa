//! Lives of shared buffers that lie in the same bytes.
//!
//! [`begin`] says where each life begins: before the outermost statement that accesses the buffer and none of its rivals,
//! the buffers in its bytes. There all threads have to have left the rivals, and no copy may be on its way into one:
//!
//! ```text
//! .. rival ..                     .. rival ..
//! .. buffer ..         becomes    wait 0; barrier         // each where nothing before does
//!                                 live buffer
//!                                 .. buffer ..
//! ```
//! In a loop around both, the rival's accesses of the step before count, too. Where tensor maps fill the buffer, which the
//! hardware writes through the asynchronous proxy, the threads that accessed the rival by ordinary means fence before that
//! barrier (PTX ISA 8.6, proxies). [`check`] finds a life that begins too early, and an access outside of one.

use super::{Async, Kernel, Mem, Stmt, visit::Access};
use std::collections::BTreeSet;

type Buffers = BTreeSet<u32>;

/// Marks where the lives of buffers begin that share bytes with others, and puts barriers there.
pub(crate) fn begin(kernel: &mut Kernel) {
    let lives = Lives::of(kernel);
    if lives.rivals.iter().all(Vec::is_empty) {
        return;
    }
    lives.mark(&mut kernel.body, &mut Buffers::new());
    let mut met = Some(Vec::new());
    lives.flow(&kernel.body, State::default(), &mut met, &mut |_, _| {});
    kernel.body = met.unwrap_or_default();
}

/// Checks that lives begin where all threads have left the rivals, and that buffers are accessed while they live.
pub(super) fn check(kernel: &Kernel) -> Result<(), String> {
    let lives = Lives::of(kernel);
    if lives.rivals.iter().all(Vec::is_empty) {
        return Ok(());
    }
    let mut wrong = None;
    lives.flow(&kernel.body, State::default(), &mut None, &mut |buffer, what| {
        let name = |b: u32| kernel.shared.get(b as usize).map_or("?", |s| s.name.as_str());
        wrong.get_or_insert_with(|| format!("shared buffer `{}` {what}", name(buffer)));
    });
    wrong.map_or(Ok(()), Err)
}

/// The buffers of its own CTA that a statement accesses; mbarriers are none that share their bytes.
pub(super) fn accesses(stmt: &Stmt) -> Vec<u32> {
    let mut buffers = Vec::new();
    stmt.accesses(&mut |mem, access| match (mem, access) {
        (_, Access::Peer | Access::Mbarrier) | (Mem::Global(_), _) => {}
        (Mem::Shared(buffer), _) => buffers.push(buffer),
    });
    buffers
}

struct Lives {
    /// Of each buffer those in its bytes.
    rivals: Vec<Vec<u32>>,
    /// Buffers that tensor maps fill.
    boxed: Buffers,
}

/// What may be, at a point of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    /// Buffers accessed since the last barrier.
    touched: Buffers,
    /// Buffers into which copies may be on their way.
    flying: Buffers,
    /// Buffers accessed by ordinary means since the last fence between proxies.
    unfenced: Buffers,
    /// Buffers that live, on all ways to here; only ones with rivals.
    alive: Buffers,
}

impl State {
    fn or(self, other: &State) -> State {
        State {
            touched: &self.touched | &other.touched,
            flying: &self.flying | &other.flying,
            unfenced: &self.unfenced | &other.unfenced,
            alive: &self.alive & &other.alive,
        }
    }
}

impl Lives {
    fn of(kernel: &Kernel) -> Self {
        let mut boxed = Buffers::new();
        let mut note = |stmt: &Stmt| {
            if let Stmt::Async(Async::Copy { shared, .. }) = stmt {
                boxed.insert(*shared);
            }
        };
        kernel.body.iter().for_each(|stmt| stmt.each(&mut note));
        Lives { rivals: kernel.rivals(), boxed }
    }

    fn rivals(&self, buffers: &Buffers) -> Buffers {
        let of = |b: &u32| self.rivals.get(*b as usize).into_iter().flatten().copied();
        buffers.iter().flat_map(of).collect()
    }

    /// Buffers with rivals that a statement accesses, or one inside.
    fn accessed(&self, stmt: &Stmt) -> Buffers {
        let mut all = Buffers::new();
        stmt.each(&mut |stmt| all.extend(self.access(stmt)));
        all
    }

    /// The buffers with rivals that a statement accesses.
    fn access(&self, stmt: &Stmt) -> Vec<u32> {
        let mut buffers = match stmt {
            // All CTAs run the same program: what lives here lives there.
            Stmt::StorePeer { shared, .. } => vec![*shared],
            own => accesses(own),
        };
        buffers.retain(|b| self.rivals.get(*b as usize).is_some_and(|r| !r.is_empty()));
        buffers
    }

    fn mark(&self, block: &mut Vec<Stmt>, alive: &mut Buffers) {
        let mut marked = Vec::with_capacity(block.len());
        for mut stmt in block.drain(..) {
            let used = self.accessed(&stmt);
            let both = self.rivals(&used);
            if used.is_disjoint(&both) {
                let new: Vec<u32> = used.difference(alive).copied().collect();
                if !new.is_empty() {
                    alive.retain(|b| !both.contains(b));
                    alive.extend(&new);
                    marked.push(Stmt::Live(new));
                }
            } else {
                // What lives at the end of one step or branch is not what lives at the start of the next.
                alive.retain(|b| !both.contains(b));
                for block in stmt.blocks_mut() {
                    self.mark(block, &mut alive.clone());
                }
            }
            marked.push(stmt);
        }
        *block = marked;
    }

    /// Walks through a block. Waits and barriers that lives lack go to `out`, with all statements; `wrong` hears of
    /// them, and of accesses outside of lives.
    fn flow(
        &self,
        block: &[Stmt],
        mut at: State,
        out: &mut Option<Vec<Stmt>>,
        wrong: &mut dyn FnMut(u32, &'static str),
    ) -> State {
        for stmt in block {
            match stmt {
                Stmt::For { body, .. } | Stmt::While { body, .. } => {
                    // Any number of steps: what may be before one may be after another.
                    loop {
                        let after = self.flow(body, at.clone(), &mut None, &mut |_, _| {});
                        let either = at.clone().or(&after);
                        if either == at {
                            break;
                        }
                        at = either;
                    }
                    let mut inside = out.is_some().then(Vec::new);
                    at = at.clone().or(&self.flow(body, at, &mut inside, wrong));
                    if let (Some(out), Some(inside)) = (out.as_mut(), inside) {
                        let mut new = stmt.clone();
                        new.blocks_mut().into_iter().for_each(|body| body.clone_from(&inside));
                        out.push(new);
                    }
                    continue;
                }
                Stmt::If { cond, then, otherwise } => {
                    let (mut a, mut b) = (out.is_some().then(Vec::new), out.is_some().then(Vec::new));
                    let other = self.flow(otherwise, at.clone(), &mut b, wrong);
                    at = self.flow(then, at, &mut a, wrong).or(&other);
                    if let (Some(out), Some(then), Some(otherwise)) = (out.as_mut(), a, b) {
                        out.push(Stmt::If { cond: cond.clone(), then, otherwise });
                    }
                    continue;
                }
                Stmt::One { thread, body } => {
                    let mut inside = out.is_some().then(Vec::new);
                    at = at.clone().or(&self.flow(body, at, &mut inside, wrong));
                    if let (Some(out), Some(body)) = (out.as_mut(), inside) {
                        out.push(Stmt::One { thread: *thread, body });
                    }
                    continue;
                }
                Stmt::Live(buffers) => {
                    let buffers: Buffers = buffers.iter().copied().collect();
                    self.begin_lives(&buffers, &mut at, out, wrong);
                }
                Stmt::WaitGroup(0) => at.land(),
                Stmt::Async(Async::ProxyFence) => at.unfenced.clear(),
                Stmt::Barrier | Stmt::ClusterBarrier | Stmt::Arrive { group: None, .. } => at.touched.clear(),
                _ => {}
            }
            for buffer in self.access(stmt) {
                if !at.alive.contains(&buffer) {
                    wrong(buffer, "is accessed while another has its bytes");
                }
                at.touched.insert(buffer);
                if !matches!(stmt, Stmt::Async(_)) {
                    at.unfenced.insert(buffer);
                }
                if matches!(stmt, Stmt::CopyAsync { .. }) {
                    at.flying.insert(buffer);
                }
            }
            if let Some(out) = out {
                out.push(stmt.clone());
            }
        }
        at
    }

    fn begin_lives(
        &self,
        buffers: &Buffers,
        at: &mut State,
        out: &mut Option<Vec<Stmt>>,
        wrong: &mut dyn FnMut(u32, &'static str),
    ) {
        let rivals = self.rivals(buffers);
        let mut lacks = |what, stmt| {
            buffers.first().into_iter().for_each(|b| wrong(*b, what));
            if let Some(out) = out {
                out.push(stmt);
            }
        };
        if !at.flying.is_disjoint(&rivals) {
            lacks("begins while a copy to its bytes may be on its way", Stmt::WaitGroup(0));
            at.land();
        }
        if !at.unfenced.is_disjoint(&self.rivals(&(buffers & &self.boxed))) {
            lacks(
                "begins before ordinary accesses of its bytes are fenced from copies",
                Stmt::Async(Async::ProxyFence),
            );
            at.unfenced.clear();
            // What one thread has fenced another copies over.
            at.touched.extend(&rivals);
        }
        if !at.touched.is_disjoint(&rivals) {
            lacks("begins before all threads have left its bytes", Stmt::Barrier);
            at.touched.clear();
        }
        at.alive.retain(|b| !rivals.contains(b));
        at.alive.extend(buffers);
    }
}

impl State {
    /// All copies of this thread arrive: it writes to their buffers.
    fn land(&mut self) {
        self.touched.append(&mut self.flying);
    }
}
