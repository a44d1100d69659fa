//! What is wished for when: the rarest so far, in a way that follows from the seed, whatever the threads do.
//!
//! Programs come in rounds. Two of three have wishes instead of a random kernel: those of a round follow from what was run until the
//! end of the round before the last one. So threads rarely wait for each other, and equal seeds give equal cases. Most of the others
//! are kernels in which values decide what is read, or which points count.

use crate::{
    data::mix,
    impossible,
    pairs::Pairs,
    program::{gathers, limited, scatters},
    wish::Wish,
};
use std::{
    collections::BTreeMap,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tile_dsl::engine::testing::Kind;

/// Programs of a round.
const ROUND: u64 = 24;
/// Of so many programs one has no wishes.
const PLAIN: u64 = 3;
/// Programs of a round that have wishes.
const WISHING: u64 = ROUND - ROUND / PLAIN;

/// How many attempts a launched schedule counts as: what was launched least is tried again first, however rarely an attempt succeeds.
const RUN: u64 = 256;
/// How often one is wished for in a round at most.
const MOST_IN_A_ROUND: u64 = 4;
/// How many attempts one counts as at what this run has not found yet.
const UNFOUND: u64 = 64;
/// How many attempts one at a pair counts as that no run ever found.
const DEAR: u64 = 1024;
/// How many times over it is wished for first what changes the order of work beside what changes who does it, or what it reads.
const DELICATE: u64 = 4;

/// Kinds that change who copies, and what is read instead of a tensor.
const COPIED: &[Kind] = &[
    Kind::StagePlain,
    Kind::StageVector,
    Kind::StageAsync,
    Kind::StageAsyncVector,
    Kind::StageTma,
    Kind::StageValue,
    Kind::Pipeline,
    Kind::ProduceWarp,
    Kind::ProduceWarpgroup,
    Kind::Arrive,
];

/// Whether walks of the nest have to agree on what a wish changes. Where they did not, values were wrong: the holes
/// `serpentine-of-producers`, `producers-behind-split-k` and `parts-behind-parts` are of such pairs.
fn delicate(wish: &Wish) -> bool {
    let meets = |a: &Kind, b: &Kind| a.orders() && (COPIED.contains(b) || b.orders());
    matches!(wish, Wish::Pair(a, b) if meets(a, b) || meets(b, a))
}

/// What decides in the kernel of a program that has no wishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Values say where it reads.
    Gathers,
    /// Values say where it stores.
    Scatters,
    /// Axes have limits.
    Limited,
    /// Whatever is drawn.
    Any,
}

impl Theme {
    /// That of a program.
    pub fn of(program: u64) -> Theme {
        match program / PLAIN % 6 {
            0 | 1 => Theme::Gathers,
            2 => Theme::Scatters,
            3 | 4 => Theme::Limited,
            _ => Theme::Any,
        }
    }

    /// Whether the kernel of a seed has it.
    pub fn suits(self, seed: u64) -> bool {
        match self {
            Theme::Gathers => gathers(seed),
            Theme::Scatters => scatters(seed),
            Theme::Limited => limited(seed),
            Theme::Any => true,
        }
    }
}

/// The wishes of a run.
pub struct Plan {
    possible: Vec<Wish>,
    seed: u64,
    /// Wishes of a program.
    each: usize,
    state: Mutex<State>,
    turned: Condvar,
}

#[derive(Default)]
struct State {
    /// Rounds that are complete, all before them, too.
    complete: u64,
    /// Programs done and what was run, of rounds that are not.
    open: BTreeMap<u64, (u64, Pairs)>,
    run: Pairs,
    /// How often each was wished for.
    tries: BTreeMap<Wish, u64>,
    /// By round.
    wishes: Vec<Vec<Wish>>,
}

impl Plan {
    /// So many wishes for a program, of these.
    pub fn new(seed: u64, possible: Vec<Wish>, each: u64) -> Plan {
        let plan =
            Plan { possible, seed, each: each as usize, state: Mutex::default(), turned: Condvar::new() };
        let mut state = plan.lock();
        plan.wish(&mut state);
        plan.wish(&mut state);
        drop(state);
        plan
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The wishes of one more round: what was run and tried least.
    fn wish(&self, state: &mut State) {
        let round = state.wishes.len() as u64;
        // What was never found is tried now and then all the same.
        let dear = |wish: &Wish, run: u64| match wish {
            Wish::Pair(a, b) if impossible::pair(*a, *b).is_some() => DEAR,
            _ if run == 0 => UNFOUND,
            _ => 1,
        };
        let rare = |wish: &Wish| {
            let run = state.run.of(*wish);
            let rare = RUN * run + (state.tries.get(wish).copied().unwrap_or(0) + 1) * dear(wish, run);
            if run < DELICATE && delicate(wish) { rare / DELICATE } else { rare }
        };
        // What is far behind is wished for several times in a round, each as if the others were launched.
        let numbered = (0..).zip(&self.possible);
        let again = |(n, w): (u64, &Wish)| {
            let (rare, mixed) = (rare(w), mix(self.seed ^ round, n));
            let wish = *w;
            (0..MOST_IN_A_ROUND).map(move |times| (rare + times * RUN, mixed, wish))
        };
        let mut by: Vec<_> = numbered.flat_map(again).collect();
        by.sort_unstable();
        let count = self.each * WISHING as usize;
        let wishes: Vec<Wish> = by.into_iter().cycle().take(count).map(|(.., wish)| wish).collect();
        wishes.iter().for_each(|wish| *state.tries.entry(*wish).or_default() += 1);
        state.wishes.push(wishes);
    }

    /// The wishes of a program, if it has any; waits for those of other threads that they follow from. Nothing once it is too late.
    pub fn wishes(&self, program: u64, late: &dyn Fn() -> bool) -> Option<Vec<Wish>> {
        let (round, n) = (program / ROUND, program % ROUND);
        if n.is_multiple_of(PLAIN) || self.possible.is_empty() {
            return Some(vec![]);
        }
        let mut state = self.lock();
        loop {
            if let Some(wishes) = state.wishes.get(round as usize) {
                let first = (n - n / PLAIN - 1) as usize * self.each;
                return Some(wishes[first..first + self.each].to_vec());
            }
            if late() {
                return None;
            }
            let waited = self.turned.wait_timeout(state, Duration::from_millis(100));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A program was run.
    pub fn done(&self, program: u64, run: &Pairs) {
        let mut state = self.lock();
        let (done, pairs) = state.open.entry(program / ROUND).or_default();
        *done += 1;
        pairs.add(run);
        while let Some((ROUND, _)) = state.open.get(&state.complete) {
            let round = state.complete;
            let (_, pairs) = state.open.remove(&round).expect("it is open");
            state.run.add(&pairs);
            state.complete += 1;
            self.wish(&mut state);
        }
        self.turned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_run_least_is_wished_for_whatever_the_order_of_threads() {
        let possible: Vec<Wish> = Wish::pairs().map(|(a, b)| Wish::Pair(a, b)).take(60).collect();
        let often: Vec<Wish> = possible[..20].to_vec();
        let run = || {
            let mut pairs = Pairs::default();
            for wish in &often {
                let Wish::Pair(a, b) = wish else { unreachable!("they are pairs") };
                pairs.pairs.insert((*a, *b), 100);
            }
            pairs
        };
        let of = |backwards: bool| {
            let plan = Plan::new(7, possible.clone(), 2);
            let mut order: Vec<u64> = (0..ROUND).collect();
            if backwards {
                order.reverse();
            }
            order.into_iter().for_each(|p| plan.done(p, &run()));
            assert_eq!(plan.wishes(3 * ROUND + 1, &|| true), None, "it follows from what is not run yet");
            let round = (0..ROUND).map(|n| plan.wishes(2 * ROUND + n, &|| true).expect("it is known"));
            round.flatten().collect::<Vec<Wish>>()
        };
        let wishes = of(false);
        assert_eq!(wishes.len(), 2 * WISHING as usize);
        assert!(wishes.iter().all(|wish| !often.contains(wish)), "{wishes:?}");
        assert_eq!(wishes, of(true));
        let plan = Plan::new(7, vec![Wish::pair(Kind::Pad, Kind::Tile)], 2);
        assert_eq!(plan.wishes(1, &|| true).map(|w| w.len()), Some(2));
    }
}
