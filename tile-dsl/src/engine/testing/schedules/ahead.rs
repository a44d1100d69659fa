//! Schedules in which a CTA takes tile after tile, and a producer copies what is read once a tile while the one before is still read.
//!
//! Whether to is drawn apart: other schedules stay as they are.

use super::Generator;
use crate::{
    directive,
    engine::testing::Random,
    nest::over_tiles,
    schedule::{Space, Target, Unit, Via},
};

/// Drawn apart from all else.
pub(super) fn random(seed: u64) -> Random {
    Random::new(seed.rotate_left(23) ^ 0x51ab_0e93_7c6d_f482)
}

impl Generator<'_> {
    /// Whether a schedule gets tiles ahead this time.
    pub(super) fn goes_ahead(&mut self, percent: usize) -> bool {
        self.ahead.as_mut().is_some_and(|random| random.below(100) < percent)
    }

    /// Whole warps that read tiles which a producer copies ahead, and little else.
    pub(super) fn wild_ahead(&mut self, busy: usize) {
        self.schedule.target = Target { sm: 90, specific: self.chance(30) };
        // A bound leaves few tiles.
        match self.chance(30) {
            true => self.wild_assumptions(),
            false => self.bound_what_is_carried(),
        }
        let sizes: &[[u32; 3]] =
            &[[32, 1, 1], [64, 1, 1], [8, 4, 1], [4, 8, 1], [8, 8, 1], [16, 4, 1], [2, 16, 1], [4, 8, 2]];
        let sizes = *self.random.pick(sizes);
        let program = self.program_axes();
        for axis in &self.kernel.axes {
            let size = match program.iter().position(|name| *name == axis.name) {
                // A row alone may have all points of a small tile.
                Some(0) if program.len() == 1 => sizes[0] * sizes[1],
                Some(n) => sizes[n.min(2)],
                None => *self.random.pick(&[4, 8, 8, 16]),
            };
            if self.chance(90) {
                self.propose(directive::Tile { axis: axis.name.clone(), size });
            }
        }
        self.size_recurrences(&[1, 2, 4, 8]);
        if self.chance(30) {
            self.wild_places(busy);
        }
        if self.chance(30) {
            self.wild_orders(busy);
        }
        self.tiles_ahead();
        match self.warps {
            true => self.bind_whole(Unit::Lane, 32, &[], false),
            false => {
                let warpgroups = self.nests[0].producer == Some(Unit::Warpgroup);
                let count = if warpgroups { 128 } else { *self.random.pick(&[32, 32, 64]) };
                self.bind_whole(Unit::Thread, count, &[], false);
            }
        }
        if self.chance(30) {
            self.wild_units(1);
        }
        self.wild_expansion(busy);
    }

    /// Has CTAs take tile after tile, and a producer copy some of what is read once a tile; whether there is such.
    pub(super) fn tiles_ahead(&mut self) -> bool {
        let target = self.schedule.target;
        if target.sm < Target::CLUSTERS.sm {
            self.schedule.target = Target::CLUSTERS;
        }
        // The innermost loop over the tiles of a CTA has all its copies; an outer one those that do not vary with it.
        let program: Vec<String> = self.program_axes().iter().rev().map(over_tiles).collect();
        let at = program.iter().find(|at| self.copied_ahead(at)).cloned();
        let Some(digit) = at else {
            self.schedule.target = target;
            return false;
        };
        let (serpentine, counter) = self.rounds();
        self.propose(directive::Persistent { ctas: 1, serpentine, counter });
        let unit = self.nests[0].producer.unwrap_or(match self.chance(20) {
            true => Unit::Warpgroup,
            false => Unit::Warp,
        });
        let stages = self.chance(50).then(|| 2 + self.random.below(3) as u32);
        self.propose(directive::Produce { digit, unit, stages })
    }

    /// Copies one or two tensors by tensor maps at a loop over tiles, if any can be.
    fn copied_ahead(&mut self, at: &str) -> bool {
        let staged = self.staged();
        let mut buffers: Vec<String> = self.read().into_iter().filter(|t| !staged.contains(t)).collect();
        self.shuffle(&mut buffers);
        let most = 1 + self.random.below(2);
        let mut copied = 0;
        for buffer in buffers {
            let stage = directive::Stage {
                buffer: buffer.clone(),
                at: Some(at.to_string()),
                space: Space::Shared,
                transposed: false,
                via: Via::Tma,
                vector: None,
            };
            if copied < most && self.propose(stage) {
                copied += 1;
                if self.chance(30) {
                    let span = 32 << self.random.below(3);
                    self.propose(directive::Swizzle { buffer, span });
                }
            }
        }
        copied > 0
    }
}
