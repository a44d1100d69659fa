//! Schedules that nobody would write: every directive, at every place where it applies.

use super::{Extents, Extremes, Generator, ahead, dtypes, repair::without, work::work};
use crate::{
    directive::{self, DirectiveKind as D},
    dtype::DType,
    engine::{checks::stage_value, prove, testing::Random},
    nest::{Across, Frame, Level, Order, Target, leaves},
    schedule::{Schedule, Space, Start, Unit, UnitDim, Via},
    span::SpanId,
    tile::{AxisKind, Kernel},
};

/// Factors, tile sizes, bounds: small ones, powers of two, and their neighbours.
const SIZES: [u32; 16] = [1, 2, 2, 3, 4, 4, 5, 7, 8, 8, 15, 16, 17, 32, 33, 64];

/// Extent at which the work is estimated: cases are launched at small sizes.
pub(super) const TYPICAL: u64 = 16;

/// Schedules with tiles that are copied ahead, in percent: of all, and of those that have a producer.
const AHEAD: (usize, usize) = (15, 50);

/// What a search for a schedule came to.
pub struct Wild {
    /// A legal schedule; nothing if none was found.
    pub schedule: Option<Schedule>,
    /// Schedules with what the engine said when it caught itself in a mistake.
    pub internal: Vec<(Schedule, String)>,
}

/// A random legal schedule from all directives, for one element type of the generic parameter, that
/// makes a simulator take at most `most_work` steps of a warp. Equal seeds give equal schedules.
pub fn wild_schedule(kernel: &Kernel, dtype: Option<DType>, seed: u64, most_work: u64) -> Wild {
    wild_schedule_at(kernel, dtype, seed, most_work, &Extents::new())
}

/// As [`wild_schedule`], where the work is that of launches of these extents.
pub fn wild_schedule_at(
    kernel: &Kernel,
    dtype: Option<DType>,
    seed: u64,
    most_work: u64,
    extents: &Extents,
) -> Wild {
    let mut random = Random::new(seed);
    let mut internal = Vec::new();
    let schedule = (0..8).find_map(|n| {
        let mut generator = Generator::over(kernel, vec![dtype], &mut random)?;
        (generator.most_work, generator.extents) = (most_work, extents);
        generator.extremes = Some(Extremes { random: Random::new(!seed), percent: 4, kept: true });
        generator.ahead = Some(ahead::random(seed ^ n));
        let found = generator.wild();
        internal.append(&mut generator.internal);
        found
    });
    Wild { schedule, internal }
}

impl Generator<'_> {
    pub(crate) fn wild(&mut self) -> Option<Schedule> {
        // Few directives show what each does, many how they meet.
        let busy = *self.random.pick(&[1, 2, 2, 3]);
        let products = self.products();
        if self.goes_ahead(AHEAD.0) {
            self.wild_ahead(busy);
        } else if !products.is_empty() && self.chance(85) {
            let product = self.random.pick(&products).clone();
            match self.chance(30) {
                true => self.wild_warpgroup(&product, busy),
                false => self.wild_matrix(&product, busy),
            }
        } else if self.chance(15) {
            self.wild_straight(busy);
        } else {
            self.wild_assumptions();
            self.wild_tiles(busy);
            self.wild_places(busy);
            self.wild_orders(busy);
            self.limited();
            self.wild_copies(busy);
            self.wild_units(busy);
            self.wild_expansion(busy);
        }
        if self.nests[0].producer.is_some() && self.goes_ahead(AHEAD.1) {
            self.tiles_ahead();
        }
        self.wild_frozen();
        self.wild_launch();
        self.wild_repair()?;
        if self.chance(30) {
            self.wild_drops();
        }
        self.last();
        let quick = self
            .proved()
            .is_ok_and(|nests| nests.iter().all(|n| work(n, self.extents, TYPICAL) <= self.most_work));
        quick.then(|| self.schedule.clone())
    }

    /// Has running maxima stay as they are, where that changes no result.
    fn wild_frozen(&mut self) {
        let maxima = self.nests[0].running_maxima();
        for value in maxima {
            if self.chance(60) {
                self.propose(directive::Freeze { value });
            }
        }
    }

    pub(crate) fn times(&mut self, percent: usize, most: usize) -> usize {
        if self.chance(percent) { 1 + self.random.below(most) } else { 0 }
    }

    pub(crate) fn size(&mut self) -> u32 {
        *self.random.pick(&SIZES)
    }

    /// A loop by any of its names; a bare axis too, which means one of its two.
    pub(crate) fn wild_digit(&mut self) -> String {
        let digits = self.digits(false);
        if digits.is_empty() || self.chance(15) {
            return self.wild_axis();
        }
        self.random.pick(&digits).0.clone()
    }

    pub(crate) fn wild_axis(&mut self) -> String {
        let axes: Vec<String> = self.kernel.axes.iter().map(|a| a.name.clone()).collect();
        if axes.is_empty() { String::new() } else { self.random.pick(&axes).clone() }
    }

    pub(crate) fn values(&self) -> Vec<String> {
        self.nests[0].values.iter().map(|v| v.name.clone()).collect()
    }

    /// Everything that `in` may name: values and stored tensors.
    pub(crate) fn statements(&self) -> Vec<String> {
        let stored = self.kernel.tensors.iter().filter(|t| t.mutable).map(|t| t.name.clone());
        self.values().into_iter().chain(stored).collect()
    }

    pub(crate) fn within(&mut self, percent: usize) -> Option<String> {
        let statements = self.statements();
        self.chance(percent).then(|| self.random.pick(&statements).clone())
    }

    /// A program in one straight line: short loops, all unrolled, in statements of different order. What is shared between
    /// statements is shared there.
    pub(crate) fn wild_straight(&mut self, busy: usize) {
        for axis in &self.kernel.axes {
            let size = *self.random.pick(&[2, 3, 4, 4, 8]);
            if axis.kind == AxisKind::Program {
                self.propose(directive::Tile { axis: axis.name.clone(), size });
            } else if let Some(dim) = axis.extent.dims.keys().next() {
                self.propose(directive::Fits { dim: dim.clone(), max: size });
            }
        }
        self.size_recurrences(&[2, 3, 4, 8]);
        self.wild_places(busy);
        for statement in self.statements() {
            let mut digits = self.around(&statement);
            digits.retain(|d| !d.ends_with(".o"));
            if digits.len() > 1 && self.chance(60) {
                digits.drain(..digits.len() - 2);
                digits.reverse();
                self.propose(directive::Reorder { digits, within: Some(statement) });
            }
        }
        if self.chance(25) {
            self.wild_units(1);
        }
        for (digit, _) in self.digits(true) {
            self.propose(directive::Unroll { digit, within: None });
        }
    }

    /// The loops around a statement, outermost first.
    pub(crate) fn around(&self, statement: &str) -> Vec<String> {
        let nest = &self.nests[0];
        let mut found = Vec::new();
        leaves(&nest.body, &mut |path, leaf| {
            let is_it = match leaf.leaf() {
                Some((Target::Value(value), _)) => nest.values[usize::from(value.0)].name == statement,
                Some((Target::Access(access), _)) => {
                    nest.tensor(nest.accesses[usize::from(access.0)].tensor).name == statement
                }
                None => false,
            };
            for frame in path {
                if let Frame::For(digit, _) = frame
                    && is_it
                    && !found.contains(&nest.digit_name(*digit))
                {
                    found.push(nest.digit_name(*digit));
                }
            }
        });
        found
    }

    pub(crate) fn wild_assumptions(&mut self) {
        for axis in &self.kernel.axes {
            if let Some(dim) = axis.extent.dims.keys().next()
                && self.chance(30)
            {
                let max = self.size();
                self.propose(directive::Fits { dim: dim.clone(), max });
            }
        }
        for tensor in &self.kernel.tensors {
            if tensor.dims.len() > 1 && self.chance(15) {
                let column_major = self.chance(85);
                self.propose(directive::Layout { tensor: tensor.name.clone(), column_major });
            }
        }
    }

    pub(crate) fn wild_tiles(&mut self, busy: usize) {
        for (n, axis) in self.kernel.axes.iter().enumerate() {
            // Limits begin and end within some of the small tiles.
            if !axis.limits.is_none() && self.chance(60) {
                let size = *self.random.pick(&[2, 2, 3, 4, 5, 8]);
                self.propose(directive::Tile { axis: axis.name.clone(), size });
                continue;
            }
            if !self.chance(25 + 20 * busy) {
                continue;
            }
            let bound = self.nests[0].bounds.get(&crate::index::AxisId(n as u16)).copied();
            let whole = axis.extent.as_constant().and_then(|e| u32::try_from(e).ok()).or(bound);
            let near = [1, 1, 2, 3].map(|less| whole.unwrap_or(0).saturating_sub(less - 1).max(1));
            let size = match whole {
                Some(whole) if self.chance(20) => whole + 1,
                Some(_) if self.chance(70) => *self.random.pick(&near),
                _ => self.size(),
            };
            self.propose(directive::Tile { axis: axis.name.clone(), size });
        }
        self.size_recurrences(&SIZES);
        for _ in 0..self.random.below(busy + 1) {
            let digit = self.wild_digit();
            let factors: Vec<u32> = match self.random.below(8) {
                0 => vec![32, 2],
                1 => vec![32],
                2 => vec![4, 8],
                _ => (0..=self.random.below(2)).map(|_| self.size()).collect(),
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

    pub(crate) fn wild_places(&mut self, busy: usize) {
        for _ in 0..self.times(60, busy) {
            let values = self.values();
            if values.is_empty() {
                return;
            }
            let value = self.random.pick(&values).clone();
            if self.chance(70) {
                self.propose(directive::Recompute { value: value.clone() });
            }
            if self.chance(80) {
                let at = self.wild_digit();
                self.propose(directive::Fuse { value, at });
            }
        }
    }

    pub(crate) fn wild_orders(&mut self, busy: usize) {
        for _ in 0..self.times(70, busy + 1) {
            let within = self.within(70);
            let mut digits: Vec<String> = match &within {
                Some(statement) => self.around(statement),
                None => self.digits(false).into_iter().map(|d| d.0).collect(),
            };
            if within.is_some() && self.chance(35) {
                // The innermost two, swapped: mostly legal.
                digits.drain(..digits.len().saturating_sub(2));
                digits.reverse();
            } else {
                for n in (1..digits.len()).rev() {
                    digits.swap(n, self.random.below(n + 1));
                }
                if self.chance(60) {
                    digits.retain(|d| !d.ends_with(".o"));
                }
                digits.truncate(2 + self.random.below(3));
            }
            if digits.len() > 1 {
                self.propose(directive::Reorder { digits, within });
            }
        }
    }

    pub(crate) fn wild_copies(&mut self, busy: usize) {
        let tensors = self.all_buffers(false);
        let mut places = Vec::new();
        let maps = self.takes_maps();
        for buffer in &tensors {
            if !self.chance(15 + 15 * busy) {
                continue;
            }
            let at = self.wild_digit();
            let mut kind = D::Stage(directive::Stage {
                buffer: buffer.clone(),
                at: Some(at.clone()),
                space: Space::Shared,
                transposed: self.chance(30),
                via: *self.random.pick(&[Via::Plain, Via::Plain, Via::CpAsync]),
                vector: *self.random.pick(&[None, None, Some(2), Some(4), Some(8), Some(16)]),
            });
            if let (D::Stage(directive::Stage { via, vector, .. }), true) = (&mut kind, maps) {
                (*via, *vector) = (Via::Tma, None);
            }
            if self.propose(kind) {
                places.push(at);
                self.wild_layout(buffer);
            }
        }
        for value in self.values() {
            if self.chance(15) && self.propose(stage_value(&value)) {
                self.wild_layout(&value);
            }
        }
        self.private();
        self.gathered();
        for _ in 0..self.times(20 + 10 * busy, 2) {
            let at = self.wild_digit();
            for buffer in &tensors {
                if self.chance(60)
                    && self.propose(directive::Fragment { buffer: buffer.clone(), at: at.clone() })
                {
                    places.push(at.clone());
                }
            }
        }
        for _ in 0..self.times(60, 2) {
            let digit = match places.is_empty() || self.chance(10) {
                true => self.wild_digit(),
                false => self.random.pick(&places).clone(),
            };
            let stages = 1 + self.random.below(5) as u32;
            if self.propose(directive::Pipeline { digit: digit.clone(), stages }) && maps && self.chance(50) {
                self.wild_producer(&digit);
            }
            if self.chance(30) {
                self.interleave(digit);
            }
        }
        if maps {
            self.wild_collected();
        }
        if self.chance(20) {
            let digit = if self.chance(50) { self.wild_axis() } else { self.wild_digit() };
            let parts = *self.random.pick(&[1, 2, 2, 3, 4, 5, 8]);
            let across = *self.random.pick(&[Across::Workspace, Across::Atomic, Across::Cluster]);
            self.propose(directive::SplitK { digit, parts, across });
        }
    }

    pub(crate) fn wild_layout(&mut self, buffer: &str) {
        let buffer = buffer.to_string();
        match self.random.below(5) {
            0 => {
                let bytes = *self.random.pick(&[2, 4, 8, 16, 12, 32]);
                self.propose(directive::Pad { buffer, bytes });
            }
            1 => {
                let span = *self.random.pick(&[32, 64, 128]);
                self.propose(directive::Swizzle { buffer, span });
            }
            _ => {}
        }
    }

    pub(crate) fn wild_units(&mut self, busy: usize) {
        let reductions: Vec<String> = self.nests[0]
            .values
            .iter()
            .filter(|v| v.combined_by().is_some())
            .map(|v| v.name.clone())
            .collect();
        for value in reductions {
            if self.chance(40) {
                let level = *self.random.pick(&[Level::Lane, Level::Warp, Level::Cta, Level::Cta]);
                self.propose(directive::Reduce { value, level });
            }
        }
        let dims = [UnitDim::X, UnitDim::Y, UnitDim::Z];
        for _ in 0..self.random.below(2 * busy + 2) {
            let digits = self.digits(true);
            let unit = match (self.random.below(20), self.warps) {
                (0, _) => Unit::Block,
                (1..=9, true) => Unit::Warp,
                (_, true) => Unit::Lane,
                (_, false) => Unit::Thread,
            };
            if digits.is_empty() {
                return;
            }
            let digit = self.random.pick(&digits).0.clone();
            let dim = *self.random.pick(&dims);
            let other = *self.random.pick(&dims);
            let xor = (other != dim && self.chance(25)).then_some(other);
            self.propose(directive::Bind { digit, unit, dim, xor });
        }
    }

    pub(crate) fn wild_expansion(&mut self, busy: usize) {
        // All in one straight line: what is shared between statements there is shared.
        if self.chance(30) {
            for (digit, steps) in self.digits(true) {
                if steps.is_some_and(|n| n <= 8) && self.chance(85) {
                    self.propose(directive::Unroll { digit, within: None });
                }
            }
        }
        for _ in 0..self.random.below(2 * busy + 1) {
            let digits = self.digits(true);
            if digits.is_empty() {
                return;
            }
            let (digit, steps) = self.random.pick(&digits).clone();
            if steps.is_some_and(|n| n > 16) {
                continue;
            }
            let within = self.within(45);
            let kind = match self.random.below(5) {
                0 | 1 => D::Unroll(directive::Unroll { digit, within }),
                2 => D::Serpentine(directive::Serpentine { digit, within }),
                _ => D::Vectorize(directive::Vectorize { digit, within }),
            };
            self.propose(kind);
        }
        self.wild_exchange();
    }

    pub(crate) fn wild_launch(&mut self) {
        if self.chance(30) {
            let groups = [1, 2, 3, 8, 100, 65_536, 1 << 30, u32::MAX];
            let orders = [
                Order::Row,
                Order::Column,
                Order::Hilbert,
                Order::Reversed,
                Order::Grouped(*self.random.pick(&groups)),
                Order::Serpentine(*self.random.pick(&groups)),
                Order::Backwards(*self.random.pick(&groups)),
            ];
            let order = if self.chance(50) { orders[3] } else { *self.random.pick(&orders) };
            self.propose(directive::Order { order, axes: Vec::new() });
        }
        if self.chance(15) {
            let ctas = *self.random.pick(&[1, 2, 3, 4, 8, 16, 32]);
            self.propose(directive::Occupancy { ctas });
        }
        if self.chance(10) {
            let ctas = *self.random.pick(&[1, 1, 2, 5]);
            let (serpentine, counter) = self.rounds();
            self.propose(directive::Persistent { ctas, serpentine, counter });
        }
        if self.chance(10) {
            let level = self.random.below(5) as u32;
            self.propose(directive::Assemble { level });
        }
        if self.chance(10) {
            self.propose(directive::Launch { start: Start::Dependent });
        }
    }

    pub(crate) fn proved(&self) -> Result<Vec<crate::nest::Nest>, Vec<crate::diagnostic::Diagnostic>> {
        let types = match self.schedule.dtypes.as_slice() {
            [] => dtypes(self.kernel),
            some => some.iter().copied().map(Some).collect(),
        };
        types.into_iter().map(|t| prove(self.kernel, &self.schedule, t).map(|(nest, _)| nest)).collect()
    }

    /// Drops directives that the final checks object to, until none is left.
    pub(crate) fn wild_repair(&mut self) -> Option<()> {
        for _ in 0..=self.schedule.directives.len() {
            let Err(wrong) = self.proved() else { return Some(()) };
            if let Some(mistake) = wrong.iter().find(|d| d.message.contains("internal limit")) {
                self.internal.push((self.schedule.clone(), mistake.message.clone()));
            }
            let at = self.schedule.directives.iter().position(|d| d.span == wrong[0].span)?;
            without(self.kernel, &mut self.schedule, at)?;
        }
        None
    }

    /// Takes some directives away again: what they prepared for must stand without them, or fall with them.
    pub(crate) fn wild_drops(&mut self) {
        let whole = self.schedule.clone();
        for _ in 0..=self.random.below(3) {
            if !self.schedule.directives.is_empty() {
                let at = self.random.below(self.schedule.directives.len());
                self.schedule.directives.remove(at);
            }
        }
        if self.wild_repair().is_none() {
            self.schedule = whole;
        }
    }
}

/// The schedule without the directives that do not apply or that the checks object to, as far as they say which.
pub fn repaired(kernel: &Kernel, schedule: &Schedule, dtype: Option<DType>) -> Option<Schedule> {
    let mut schedule = schedule.clone();
    for (n, directive) in schedule.directives.iter_mut().enumerate() {
        directive.span = SpanId(n as u32 + 1);
    }
    loop {
        let Err(wrong) = prove(kernel, &schedule, dtype) else { return Some(schedule) };
        let at = schedule.directives.iter().position(|d| d.span == wrong[0].span)?;
        without(kernel, &mut schedule, at)?;
    }
}
