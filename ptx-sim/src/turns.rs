//! Whose turn it is among CTAs that may see one another's atomics: all of them run on one core.

use crate::counters;
use crate::engine::{Device, Engine, Env, Outcome};
use crate::findings::Log;
use std::rc::Rc;

/// Turns of all warps that a CTA has before the next one goes on, under seed 0.
const TURNS: u64 = 64;
/// CTAs (clusters) in flight under any other seed, as long as one of them can go on: one of these numbers a launch.
const FLYING: [usize; 6] = [2, 3, 4, 6, 8, 48];

/// Runs `total` CTAs (clusters), of which `resident` fit on the device at once. `limit` says that in words.
///
/// Seed 0 lets one CTA run to its end, and starts another where it polls or takes long. So whoever waits for a CTA of a
/// lower number finds it done. Any other seed keeps several CTAs in flight, picks who goes on, and stops it after few
/// instructions: others see what it has published so far.
pub fn by_turns(
    env: &Env<'_>,
    (total, resident): (u64, u64),
    tick: &(dyn Fn() + Sync),
    limit: &dyn Fn() -> String,
) -> Vec<(counters::Raw, Log)> {
    let mut flight = Flight {
        env,
        device: Device::new(env),
        flying: vec![],
        idle: vec![],
        next: 0,
        total,
        resident: usize::try_from(resident).unwrap_or(usize::MAX),
    };
    let all_ended = match env.seed {
        0 => flight.in_order(tick),
        seed => flight.at_random(seed, tick),
    };
    if !all_ended {
        // Every resident CTA polls, and nobody is left to change what they poll. The others never start.
        let why = if flight.next < total { format!(": {}", limit()) } else { String::new() };
        for mut e in std::mem::take(&mut flight.flying) {
            e.report_deadlock(&why);
            flight.idle.push(e);
            tick();
        }
    }
    flight.idle.into_iter().map(|e| (e.counts, e.log)).collect()
}

struct Flight<'e> {
    env: &'e Env<'e>,
    device: Rc<std::cell::RefCell<Device>>,
    flying: Vec<Engine<'e>>,
    /// Engines whose CTA has ended.
    idle: Vec<Engine<'e>>,
    /// The CTA that starts next.
    next: u64,
    total: u64,
    resident: usize,
}

impl Flight<'_> {
    /// Starts a CTA where one is left and has room.
    fn start(&mut self) -> bool {
        if self.next == self.total || self.flying.len() >= self.resident {
            return false;
        }
        let mut engine = self.idle.pop().unwrap_or_else(|| Engine::new(self.env, self.device.clone()));
        engine.start(self.next);
        self.next += 1;
        self.flying.push(engine);
        true
    }

    fn is_over(&self) -> bool {
        self.next == self.total && self.flying.is_empty()
    }

    /// One CTA after the other; `false`: all poll.
    fn in_order(&mut self, tick: &dyn Fn()) -> bool {
        let mut at = 0;
        // Something moved since the last time that all had their turn.
        let mut moved = false;
        while !self.is_over() {
            if at >= self.flying.len() {
                if self.start() {
                    (at, moved) = (self.flying.len() - 1, true);
                } else if !std::mem::take(&mut moved) {
                    return false;
                } else {
                    at = 0;
                }
            }
            match self.flying[at].advance(TURNS) {
                Outcome::Done => {
                    self.idle.push(self.flying.remove(at));
                    tick();
                    // Whoever waited for this CTA goes first.
                    (at, moved) = (0, true);
                }
                Outcome::Pending => (at, moved) = (at + 1, true),
                Outcome::Stalled => at += 1,
            }
        }
        true
    }

    /// By turns of random lengths; `false`: all poll.
    fn at_random(&mut self, seed: u64, tick: &dyn Fn()) -> bool {
        // Launches of one seed differ, too.
        let mut state = (seed ^ self.total.rotate_left(32)).wrapping_mul(0xd1b5_4a32_d192_ed03) | 1;
        let mut random = |n: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((state >> 32) as usize) % n
        };
        let flying = FLYING[random(FLYING.len())];
        // The oldest CTA goes on when no other can, so that all others come to wait for it.
        let oldest_last = random(2) == 0;
        // Behind the first `able` are those that have polled since anything moved.
        let mut able = 0;
        while !self.is_over() {
            let more = self.flying.len() < flying && (random(2) == 0 || oldest_last && able == 1);
            if (able == 0 || more) && self.start() {
                let last = self.flying.len() - 1;
                self.flying.swap(able, last);
                able += 1;
            }
            if able == 0 {
                return false;
            }
            let mut at = random(able);
            if oldest_last && self.flying[..able].iter().all(|e| e.number() >= self.flying[at].number()) {
                at = (at + 1) % able;
            }
            // Mostly a few instructions of every warp, now and then a CTA as good as whole.
            let turns = if random(8) == 0 { TURNS } else { 1 + random(4) as u64 };
            match self.flying[at].advance(turns) {
                Outcome::Done => {
                    self.idle.push(self.flying.swap_remove(at));
                    tick();
                    able = self.flying.len();
                }
                Outcome::Pending => able = self.flying.len(),
                Outcome::Stalled => {
                    able -= 1;
                    self.flying.swap(at, able);
                }
            }
        }
        true
    }
}
