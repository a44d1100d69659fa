//! Random legal schedules: directives are proposed and those that apply are kept.

use super::{Random, TYPES};
use crate::{
    directive::{self, DirectiveKind},
    dtype::DType,
    nest::{self, Across, Fraction, Level, Nest, Order, Steps, ValueId, loops},
    schedule::{Schedule, Space, Target, Unit, UnitDim, Via},
    tile::{AxisKind, Kernel, TensorId},
};
use std::collections::{BTreeMap, BTreeSet};

mod ahead;
mod last;
mod limited;
mod matrix;
mod promised;
mod propose;
mod repair;
mod skewed;
mod warpgroup;
mod wild;
mod wish;
mod work;

pub use wild::{Wild, repaired, wild_schedule, wild_schedule_at};
pub(crate) use wish::{ATOMS, COMPUTING, COPIES, PRODUCERS, Wish};
pub use wish::{Refusal, Wished, can_meet, multiplying, wished_schedule};

/// A legal schedule of a kernel, for every element type that its generic parameter may have. Equal seeds give
/// equal schedules; different seeds differ in tiles, splits, order, staging, units and expansion.
///
/// # Panics
/// If no legal schedule was found in a hundred attempts, which means that the generator does not know how to
/// schedule the kernel.
pub fn random_schedule(kernel: &Kernel, seed: u64) -> Schedule {
    random_schedule_at(kernel, seed, &Extents::new())
}

/// As [`random_schedule`], quick enough for launches of these extents.
///
/// # Panics
/// As [`random_schedule`].
pub fn random_schedule_at(kernel: &Kernel, seed: u64, extents: &Extents) -> Schedule {
    let mut random = Random::new(seed);
    let types = dtypes(kernel);
    (0..100)
        .find_map(|_| {
            let generator = Generator::over(kernel, types.clone(), &mut random);
            Generator { extents, ..generator.expect("a kernel that can be scheduled") }.run()
        })
        .unwrap_or_else(|| panic!("no legal schedule of `{}` found from seed {seed}", kernel.name))
}

/// The element types a kernel is scheduled for.
fn dtypes(kernel: &Kernel) -> Vec<Option<DType>> {
    match kernel.generic {
        Some(_) => TYPES.map(Some).to_vec(),
        None => vec![None],
    }
}

/// The most that a random schedule makes a simulator do, in steps of a warp: about a second's worth.
const MOST_WORK: u64 = 1 << 20;
/// Extent at which the work of a schedule is estimated, in points of each axis without a bound.
const TYPICAL: u64 = 80;

/// Extents of launches, by dim.
pub type Extents = BTreeMap<String, i64>;

/// No dim has an extent.
static NO_EXTENTS: Extents = Extents::new();

/// A schedule in the making.
pub(crate) struct Generator<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) random: &'a mut Random,
    /// One nest for each element type, with the directives so far applied.
    pub(crate) nests: Vec<Nest>,
    pub(crate) schedule: Schedule,
    pub(crate) fresh: usize,
    /// Threads are addressed as warps and lanes.
    pub(crate) warps: bool,
    pub(crate) most_work: u64,
    /// Extents at which the work is estimated.
    pub(crate) extents: &'a Extents,
    /// Schedules with what the engine said when it caught itself in a mistake.
    pub(crate) internal: Vec<(Schedule, String)>,
    /// Why the last directive that was proposed does not apply, if it does not.
    pub(crate) refused: Option<String>,
    /// Why what was wished for did not apply.
    pub(crate) refusals: Vec<Refusal>,
    /// Where extreme numbers are drawn from, if they are; other draws do not depend on it.
    pub(crate) extremes: Option<Extremes>,
    /// Where it is drawn from whether tiles are copied ahead, if some are; other draws do not depend on it.
    pub(crate) ahead: Option<Random>,
}

/// How extreme numbers are drawn.
pub(crate) struct Extremes {
    random: Random,
    /// In so many of 100 proposals.
    percent: usize,
    /// Whether the directive is kept if it applies; else it is only tried.
    kept: bool,
}

/// Numbers at the edges of what directives, indices and 32 bits can be.
const EXTREMES: [u32; 9] =
    [0, 1, 1 << 16, 1 << 20, 1 << 30, (1 << 31) - (1 << 16) - 1, (1 << 31) - 1, 1 << 31, u32::MAX];

impl<'a> Generator<'a> {
    /// For these element types of the generic parameter; nothing if the kernel cannot be scheduled.
    pub(crate) fn over(
        kernel: &'a Kernel,
        types: Vec<Option<DType>>,
        random: &'a mut Random,
    ) -> Option<Self> {
        let nests =
            types.iter().map(|t| nest::initial(&kernel.instantiate(*t)).ok()).collect::<Option<_>>()?;
        let target = *random.pick(&[80, 86, 90]);
        let schedule = Schedule {
            name: "random".into(),
            kernel: kernel.name.clone(),
            dtypes: types.into_iter().flatten().collect(),
            target: Target { sm: target, specific: false },
            directives: Vec::new(),
        };
        let warps = random.below(100) < 45;
        let (fresh, most_work, extents, internal) = (0, MOST_WORK, &NO_EXTENTS, Vec::new());
        let (extremes, ahead) = (None, None);
        Some(Generator {
            kernel,
            random,
            nests,
            schedule,
            fresh,
            warps,
            most_work,
            extents,
            internal,
            refused: None,
            refusals: vec![],
            extremes,
            ahead,
        })
    }

    pub(crate) fn run(mut self) -> Option<Schedule> {
        self.assume();
        self.tile();
        self.split();
        self.place();
        self.reorder();
        self.stage();
        self.split_k();
        self.bind();
        self.expand();
        if self.chance(30) {
            let order = *self.random.pick(&[Order::Column, Order::Grouped(2), Order::Row]);
            self.propose(directive::Order { order, axes: Vec::new() });
        }
        self.last();
        self.repair()
    }

    /// How persistent CTAs take their tiles: in rounds of which every second one is backwards, or by a counter.
    pub(crate) fn rounds(&mut self) -> (bool, bool) {
        let serpentine = self.chance(25);
        (serpentine, !serpentine && self.chance(12))
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.random.below(100) < percent
    }

    /// Names of loops of a fixed number of steps, or of all.
    pub(crate) fn digits(&self, fixed: bool) -> Vec<(String, Option<u32>)> {
        let nest = &self.nests[0];
        let mut found = Vec::new();
        for (digit, _) in loops(&nest.body) {
            let steps = if let Steps::Fixed(n) = digit.steps { Some(n) } else { None };
            let entry = (nest.digit_name(digit), steps);
            if (steps.is_some() || !fixed) && !found.contains(&entry) {
                found.push(entry);
            }
        }
        found
    }

    /// What is carried is held all the time: its axes have bounds, and small ones.
    pub(crate) fn bound_what_is_carried(&mut self) {
        let nest = &self.nests[0];
        let carried = (0..nest.values.len() as u16).map(ValueId).filter(|v| nest.is_carried(*v));
        let axes: BTreeSet<_> = carried.flat_map(|v| nest.value(v).axes.clone()).collect();
        let held = axes.into_iter().map(|a| &self.kernel.axes[usize::from(a.0)]);
        let held = held.filter(|a| a.kind != AxisKind::Program);
        let dims: Vec<String> = held.filter_map(|a| a.extent.dims.keys().next().cloned()).collect();
        for dim in dims {
            let max = *self.random.pick(&[3, 4, 8, 11, 16]);
            self.propose(directive::Fits { dim, max });
        }
    }

    pub(crate) fn assume(&mut self) {
        self.bound_what_is_carried();
        for axis in &self.kernel.axes {
            if axis.kind != AxisKind::Program
                && let Some(dim) = axis.extent.dims.keys().next()
                && self.chance(35)
            {
                let max = *self.random.pick(&[24, 32, 64, 100, 128]);
                self.propose(directive::Fits { dim: dim.clone(), max });
            }
        }
        for tensor in &self.kernel.tensors {
            if tensor.dims.len() > 1 && self.chance(15) {
                let kind = DirectiveKind::Layout(directive::Layout {
                    tensor: tensor.name.clone(),
                    column_major: true,
                });
                self.propose(kind);
            }
        }
    }

    pub(crate) fn tile(&mut self) {
        let program = self.kernel.axes.iter().filter(|a| a.kind == AxisKind::Program).count();
        for axis in &self.kernel.axes {
            let tiled = if axis.kind == AxisKind::Program { 85 } else { 60 };
            if self.chance(tiled) {
                let sizes: &[u32] = match (axis.kind, program) {
                    (AxisKind::Program, 1) => &[1, 4, 32, 48, 64, 96, 128, 256],
                    (AxisKind::Program, _) => &[1, 3, 8, 16, 24, 32, 64],
                    _ => &[1, 2, 4, 5, 8, 16, 32],
                };
                let size = *self.random.pick(sizes);
                self.propose(directive::Tile { axis: axis.name.clone(), size });
            }
        }
        self.size_recurrences(&[1, 2, 4, 5, 8, 16, 32]);
    }

    /// Loops whose tiles the kernel sees have a size, whatever else is tiled.
    pub(crate) fn size_recurrences(&mut self, sizes: &[u32]) {
        let open: Vec<_> =
            self.nests[0].recurrences.iter().filter(|(_, r)| r.tile.is_none()).map(|(a, _)| *a).collect();
        for axis in open {
            let (axis, size) = (self.nests[0].axis(axis).to_string(), *self.random.pick(sizes));
            self.propose(directive::Tile { axis, size });
        }
    }

    pub(crate) fn split(&mut self) {
        for n in 0..self.random.below(4) + usize::from(self.warps) {
            let digits = self.digits(false);
            // Tile loops are rarely worth a split.
            let inner: Vec<_> = digits.iter().filter(|d| !d.0.ends_with(".o")).cloned().collect();
            let among = if inner.is_empty() || self.chance(10) { &digits } else { &inner };
            let (digit, _) = self.random.pick(among).clone();
            let kind = if self.warps && n == 0 { 4 * self.random.below(2) } else { self.random.below(6) };
            let factors: Vec<u32> = match kind {
                0 => vec![32, 4],
                1 => vec![8, 4],
                2 => vec![*self.random.pick(&[2, 3, 4, 8, 16, 32])],
                3 => vec![4, 2],
                4 => vec![32],
                _ => vec![2, 8, 2],
            };
            let names = (0..=factors.len())
                .map(|_| {
                    self.fresh += 1;
                    format!("d{}", self.fresh)
                })
                .collect();
            self.propose(directive::Split { digit, names, factors });
        }
    }

    pub(crate) fn place(&mut self) {
        let values: Vec<String> = self.nests[0].values.iter().map(|v| v.name.clone()).collect();
        for value in values {
            if self.chance(50) {
                self.propose(directive::Recompute { value: value.clone() });
                let digits = self.digits(false);
                let axes: Vec<String> = self.kernel.axes.iter().map(|a| a.name.clone()).collect();
                let at = match self.chance(70) {
                    true => self.random.pick(&axes).clone(),
                    false => self.random.pick(&digits).0.clone(),
                };
                self.propose(directive::Fuse { value, at });
            }
        }
    }

    pub(crate) fn reorder(&mut self) {
        let targets: Vec<String> = self.nests[0].values.iter().map(|v| v.name.clone()).collect();
        for within in [None, targets.first().cloned()] {
            if !self.chance(60) {
                continue;
            }
            let mut digits: Vec<String> = self.digits(false).into_iter().map(|d| d.0).collect();
            for n in (1..digits.len()).rev() {
                digits.swap(n, self.random.below(n + 1));
            }
            // Tile loops stay outside mostly: copies and threads go inside them.
            digits.retain(|d| !d.ends_with(".o"));
            digits.truncate(2 + self.random.below(4));
            self.propose(directive::Reorder { digits, within });
        }
    }

    /// What copies of a tensor are called: by each way in which it is read, mostly, where there are several.
    pub(crate) fn buffers(&mut self, tensor: TensorId) -> Vec<String> {
        let names = self.nests[0].buffers(tensor);
        match names.len() > 1 && self.chance(15) {
            true => vec![self.kernel.tensors[usize::from(tensor.0)].name.clone()],
            false => names,
        }
    }

    /// What copies of all tensors are called, of those that are only read if `read`.
    pub(crate) fn all_buffers(&mut self, read: bool) -> Vec<String> {
        let kernel = self.kernel;
        let ids = (0..).map(TensorId).zip(&kernel.tensors).filter(|(_, t)| !read || !t.mutable);
        ids.flat_map(|(id, _)| self.buffers(id)).collect()
    }

    pub(crate) fn stage(&mut self) {
        for buffer in self.all_buffers(true) {
            if !self.chance(55) {
                continue;
            }
            let digits = self.digits(false);
            let outer: Vec<&(String, Option<u32>)> = digits.iter().filter(|d| d.0.ends_with(".o")).collect();
            let at = match outer.is_empty() || self.chance(20) {
                true => self.random.pick(&digits).0.clone(),
                false => self.random.pick(&outer).0.clone(),
            };
            let kind = DirectiveKind::Stage(directive::Stage {
                buffer: buffer.clone(),
                at: Some(at),
                space: Space::Shared,
                transposed: self.chance(30),
                via: *self.random.pick(&[Via::Plain, Via::Plain, Via::CpAsync]),
                vector: *self.random.pick(&[None, None, Some(4), Some(8), Some(16)]),
            });
            if self.propose(kind) {
                match self.random.below(5) {
                    0 => drop(self.propose(directive::Pad { buffer, bytes: 16 })),
                    1 => drop(self.propose(directive::Pad { buffer, bytes: 4 })),
                    2 => {
                        let span = *self.random.pick(&[32, 64, 128]);
                        self.propose(directive::Swizzle { buffer, span });
                    }
                    _ => {}
                }
            }
        }
        let values: Vec<String> = self.nests[0].values.iter().map(|v| v.name.clone()).collect();
        for value in values {
            if self.chance(12) {
                self.propose(super::super::checks::stage_value(&value));
            }
        }
        self.private();
        self.gathered();
        self.fragments();
        let staged: Vec<String> = self
            .schedule
            .directives
            .iter()
            .filter_map(|d| {
                if let DirectiveKind::Stage(directive::Stage { at, .. }) = &d.kind {
                    at.clone()
                } else {
                    None
                }
            })
            .collect();
        if !staged.is_empty() && self.chance(50) {
            let digit = self.random.pick(&staged).clone();
            let stages = 2 + self.random.below(3) as u32;
            self.propose(directive::Pipeline { digit, stages });
        }
    }

    /// Loads some tensors to registers, ahead of their use where that is legal.
    pub(crate) fn fragments(&mut self) {
        let inner: Vec<String> =
            self.digits(true).into_iter().filter(|d| matches!(d.1, Some(2..=16))).map(|d| d.0).collect();
        if inner.is_empty() || !self.chance(40) {
            return;
        }
        let at = self.random.pick(&inner).clone();
        let mut loaded = false;
        for buffer in self.all_buffers(true) {
            if self.chance(70) {
                loaded |= self.propose(directive::Fragment { buffer, at: at.clone() });
            }
        }
        if loaded && self.chance(60) {
            let stages = 2 + self.random.below(2) as u32;
            if self.propose(directive::Pipeline { digit: at.clone(), stages }) && self.chance(70) {
                self.interleave(at);
            }
        }
    }

    /// Spreads accesses over other parts of a pipeline of registers.
    pub(crate) fn interleave(&mut self, digit: String) -> bool {
        let mut part = || {
            let of = 1 + self.random.below(8);
            let parts = 1 + self.random.below(of) as u32;
            Fraction { parts, of: of as u32 }
        };
        let [loads, copies, stores] = [part(), part(), part()];
        // Most pipelines of registers have no copies among their steps.
        let (loads, copies, stores) = match self.random.below(5) {
            0 => (None, Some(copies), Some(stores)),
            1 => (Some(loads), None, Some(stores)),
            _ => (Some(loads), None, None),
        };
        self.propose(directive::Interleave { digit, loads, copies, stores })
    }

    /// Shares a reduction out among CTAs.
    pub(crate) fn split_k(&mut self) {
        if !self.chance(25) {
            return;
        }
        let axes: Vec<String> = self.kernel.axes.iter().map(|a| a.name.clone()).collect();
        let digit = self.random.pick(&axes).clone();
        let parts = *self.random.pick(&[2, 3, 4, 7]);
        let across = self.meeting();
        self.propose(directive::SplitK { digit, parts, across });
    }

    /// How parts come together, as the target has it.
    pub(crate) fn meeting(&mut self) -> Across {
        let ways: &[Across] = match self.schedule.target.sm {
            90.. => &[Across::Workspace, Across::Atomic, Across::Cluster, Across::Cluster],
            _ => &[Across::Workspace, Across::Workspace, Across::Atomic],
        };
        *self.random.pick(ways)
    }

    pub(crate) fn bind(&mut self) {
        let warps = self.warps;
        let units: &[(Unit, UnitDim)] = match warps {
            true => &[
                (Unit::Lane, UnitDim::X),
                (Unit::Lane, UnitDim::Y),
                (Unit::Warp, UnitDim::X),
                (Unit::Warp, UnitDim::Y),
            ],
            false => &[(Unit::Thread, UnitDim::X), (Unit::Thread, UnitDim::Y), (Unit::Thread, UnitDim::Z)],
        };
        let reductions: Vec<String> = self.nests[0]
            .values
            .iter()
            .filter(|v| v.combined_by().is_some())
            .map(|v| v.name.clone())
            .collect();
        for value in reductions {
            if self.chance(45) {
                let level = match warps {
                    true => *self.random.pick(&[Level::Lane, Level::Lane, Level::Cta]),
                    false => Level::Cta,
                };
                self.propose(directive::Reduce { value, level });
            }
        }
        if self.warps {
            let lanes =
                self.digits(true).into_iter().filter(|d| d.1 == Some(32)).map(|d| d.0).collect::<Vec<_>>();
            if !lanes.is_empty() {
                let digit = self.random.pick(&lanes).clone();
                self.propose(directive::Bind { digit, unit: Unit::Lane, dim: UnitDim::X, xor: None });
            }
        }
        for (unit, dim) in units {
            for _ in 0..3 {
                let mut digits = self.digits(true);
                if *unit == Unit::Lane {
                    // 32 in one dimension, or 8 · 4 and 4 · 8 in two.
                    digits.retain(|d| matches!(d.1, Some(32 | 16 | 8 | 4 | 2)));
                }
                digits.retain(|d| d.1.is_some_and(|n| n > 1 && n <= 256));
                if digits.is_empty() {
                    break;
                }
                let digit = self.random.pick(&digits).0.clone();
                let xor = (*dim != UnitDim::X && self.chance(25)).then_some(UnitDim::X);
                if self.propose(directive::Bind { digit, unit: *unit, dim: *dim, xor }) {
                    break;
                }
            }
        }
    }

    pub(crate) fn expand(&mut self) {
        let short: Vec<String> =
            self.digits(true).into_iter().filter(|d| matches!(d.1, Some(2 | 4 | 8))).map(|d| d.0).collect();
        for digit in short {
            if self.chance(60) {
                self.propose(directive::Vectorize { digit, within: None });
            }
        }
        for _ in 0..self.random.below(4) {
            let digits = self.digits(true);
            if digits.is_empty() {
                return;
            }
            let (digit, steps) = self.random.pick(&digits).clone();
            let kind = match self.random.below(4) {
                0 if steps.is_some_and(|n| n <= 16) => {
                    DirectiveKind::Unroll(directive::Unroll { digit, within: None })
                }
                1 if steps.is_some_and(|n| n <= 16) => {
                    DirectiveKind::Serpentine(directive::Serpentine { digit, within: None })
                }
                _ => DirectiveKind::Vectorize(directive::Vectorize { digit, within: None }),
            };
            self.propose(kind);
        }
    }
}
