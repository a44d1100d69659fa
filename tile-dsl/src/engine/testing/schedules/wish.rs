//! Schedules that have what is wished for: a core of the wanted kinds of directives and of what these need, phase by phase, then
//! random directives around it, of which those go that the core does not bear.

use super::{Extents, Extremes, Generator, Wild, ahead, matrix::Product, wild::TYPICAL, work::work};
use crate::{
    directive::{self, DirectiveKind as D},
    dtype::DType,
    engine::testing::{Kind, Random, kinds},
    nest::Nest,
    schedule::{Schedule, Target, Unit},
    span::SpanId,
    tile::{Axis, AxisKind, ElemType, ExprKind, Kernel, Stmt},
};
use std::collections::BTreeSet;

mod candidates;
pub(crate) use candidates::Wish;
mod places;
mod threads;

/// A directive that was asked for, and why the engine would not have it.
pub type Refusal = (Kind, String);

/// What a search for a schedule of certain kinds came to.
pub struct Wished {
    /// A legal schedule that has them.
    pub found: Wild,
    /// The kernel has what it takes, as far as that shows at once.
    pub tried: bool,
    /// Why candidates were refused on the way.
    pub refusals: Vec<Refusal>,
}

/// A random legal schedule that has directives of these kinds, for one element type of the generic parameter, and that makes a
/// simulator take at most `most_work` steps of a warp. With `meeting`, what one of them does and what others do concerns the same loops:
/// copies come behind parts, or in loops that go back. Equal seeds give equal schedules.
pub fn wished_schedule(
    kernel: &Kernel,
    dtype: Option<DType>,
    seed: u64,
    most_work: u64,
    wanted: &[Kind],
    meeting: bool,
) -> Wished {
    let mut random = Random::new(seed);
    let Some(mut generator) = Generator::over(kernel, vec![dtype], &mut random) else {
        return Wished { found: Wild { schedule: None, internal: vec![] }, tried: false, refusals: vec![] };
    };
    generator.most_work = most_work;
    // What is wished for is rarely legal with one.
    generator.extremes = Some(Extremes { random: Random::new(!seed), percent: 25, kept: false });
    generator.ahead = Some(ahead::random(seed));
    let schedule = generator.wish(wanted, meeting);
    let internal = std::mem::take(&mut generator.internal);
    let refusals = std::mem::take(&mut generator.refusals);
    let tried = !generator.schedule.directives.is_empty();
    Wished { found: Wild { schedule, internal }, tried, refusals }
}

/// Copies of tensors in shared memory, by how they are made.
pub(crate) const COPIES: &[Kind] =
    &[Kind::StagePlain, Kind::StageVector, Kind::StageAsync, Kind::StageAsyncVector, Kind::StageTma];
pub(crate) const PRODUCERS: &[Kind] = &[Kind::ProduceWarp, Kind::ProduceWarpgroup];
pub(crate) const COMPUTING: &[Kind] = &[Kind::Mma, Kind::Wgmma, Kind::BindThread, Kind::BindLane];
const SPLITS: &[Kind] = &[Kind::SplitK, Kind::SplitKAtomic, Kind::SplitKCluster];
pub(crate) const ATOMS: &[Kind] = &[Kind::Mma, Kind::Wgmma];
/// Kinds that only Hopper has.
const HOPPER: &[Kind] = &[
    Kind::Wgmma,
    Kind::StageTma,
    Kind::Collect,
    Kind::CollectMatrices,
    Kind::SplitKCluster,
    Kind::ProduceWarp,
    Kind::ProduceWarpgroup,
    Kind::Cluster,
    Kind::Launch,
];

/// Whether kinds are of schedules for tensor cores.
pub fn multiplying(wanted: &[Kind]) -> bool {
    wanted
        .iter()
        .any(|k| ATOMS.contains(k) || k.beside().iter().any(|any| *any == ATOMS || **any == [Kind::Wgmma]))
}

/// Whether it matters where directives of these kinds meet others.
pub fn can_meet(wanted: &[Kind]) -> bool {
    wanted.iter().any(|k| SPLITS.contains(k) || *k == Kind::Serpentine)
}

impl Generator<'_> {
    pub(crate) fn wish(&mut self, wanted: &[Kind], meeting: bool) -> Option<Schedule> {
        // Parts in front of copies, loops that go back around copies: no atom then, which would take both for itself.
        let splits = SPLITS.iter().any(|k| wanted.contains(k));
        let meeting = meeting && can_meet(wanted);
        let set = self.closed(wanted, meeting);
        let has = |kind: &Kind| set.contains(kind);
        let meeting = meeting && !ATOMS.iter().any(has);
        if HOPPER.iter().any(has) {
            let specific = has(&Kind::Wgmma) || has(&Kind::Registers);
            self.schedule.target = Target { sm: 90, specific };
        }
        let addressed = [Kind::Mma, Kind::Wgmma, Kind::BindLane, Kind::BindWarp, Kind::ReduceLane];
        self.warps = addressed.iter().any(has);
        let mut product = None;
        if ATOMS.iter().any(has) {
            let products = self.products();
            if products.is_empty() {
                self.refusals.push((wanted[0], "no product that the atom could multiply".into()));
                return None;
            }
            product = Some(self.random.pick(&products).clone());
        }
        let pair = if has(&Kind::Skew) { self.pair() } else { None };
        if let Some(pair) = &pair {
            product = Some(pair.first.clone());
        } else if has(&Kind::Skew) {
            self.refusals.push((Kind::Skew, "no two products of a step".into()));
            return None;
        }
        if !self.suits(&set) || meeting && !self.meets(splits) {
            return None;
        }
        self.bound_what_is_carried();
        match &pair {
            Some(pair) => {
                let unit = if has(&Kind::ProduceWarp) { Unit::Warp } else { Unit::Warpgroup };
                self.draw_skewed(pair, unit);
            }
            None => self.frame(&set, product.as_mut()),
        }
        if meeting && !splits {
            self.tiles_of_a_cta();
        }
        let mut at = self.steps_of(product.as_ref());
        if meeting && splits {
            at.insert(0, self.random.pick(&self.behind()).1.clone());
        }
        for kind in Kind::ALL {
            if set.contains(kind) && !kinds(&self.schedule).contains(kind) {
                self.draw(*kind, &set, product.as_ref(), &at);
                // The rest is of no use without it.
                if wanted.contains(kind) && !kinds(&self.schedule).contains(kind) {
                    return None;
                }
            }
        }
        self.renumber();
        let whole = |schedule: &Schedule| {
            let kinds = kinds(schedule);
            wanted.iter().all(|k| kinds.contains(k))
        };
        // What the core needs none of may go.
        let mut left = 3;
        let nests = loop {
            if !whole(&self.schedule) {
                return None;
            }
            match self.proved() {
                Ok(nests) => break nests,
                Err(wrong) => {
                    let at = self.schedule.directives.iter().position(|d| d.span == wrong[0].span)?;
                    self.refusals.push((self.kind_at(at), wrong[0].message.clone()));
                    self.schedule.directives.remove(at);
                    left -= 1;
                }
            }
            if left == 0 {
                return None;
            }
        };
        if !self.quick(&nests) {
            return None;
        }
        self.renumber();
        let core = self.schedule.clone();
        self.adorn();
        let nests = self.keep_core(core.directives.len());
        match nests.is_some_and(|nests| self.quick(&nests)) && whole(&self.schedule) {
            true => Some(self.schedule.clone()),
            false => Some(core),
        }
    }

    pub(crate) fn kind_at(&self, at: usize) -> Kind {
        let one =
            Schedule { directives: vec![self.schedule.directives[at].clone()], ..self.schedule.clone() };
        kinds(&one).into_iter().next().unwrap_or(Kind::Tile)
    }

    pub(crate) fn quick(&self, nests: &[Nest]) -> bool {
        nests.iter().all(|nest| work(nest, &Extents::new(), TYPICAL) <= self.most_work)
    }

    pub(crate) fn renumber(&mut self) {
        for (n, directive) in (1..).zip(&mut self.schedule.directives) {
            directive.span = SpanId(n);
        }
    }

    /// The kinds with all that they need.
    pub(crate) fn closed(&mut self, wanted: &[Kind], without_atoms: bool) -> BTreeSet<Kind> {
        let mut set: BTreeSet<Kind> = wanted.iter().copied().collect();
        loop {
            let open = set.iter().flat_map(|k| k.beside()).find(|any| !any.iter().any(|k| set.contains(k)));
            let Some(any) = open else { return set };
            let fits = |k: &&Kind| !(clashes(**k, &set) || without_atoms && ATOMS.contains(k));
            let some: Vec<Kind> = any.iter().filter(fits).copied().collect();
            let kind = *self.random.pick(if some.is_empty() { any } else { &some });
            set.insert(kind);
        }
    }

    /// Whether a kernel has what some kinds are about, as far as that shows before anything is scheduled.
    pub(crate) fn suits(&mut self, set: &BTreeSet<Kind>) -> bool {
        let kernel = self.nests[0].kernel.clone();
        let stored = kernel.tensors.iter().filter(|t| t.mutable);
        let narrow =
            stored.filter(|t| matches!(t.elem, ElemType::Fixed(dtype) if dtype.bytes() == 2)).count();
        let sum = |stmt: &Stmt| {
            let Stmt::Store { value, tensor, .. } = stmt else { return true };
            let whole = matches!(kernel.tensors[usize::from(tensor.0)].elem, ElemType::Fixed(DType::F32));
            whole && matches!(value.kind, ExprKind::Var(_) | ExprKind::Reduce(..) | ExprKind::Dot(..))
        };
        let sums = kernel.body.iter().all(sum);
        let no = |kind: Kind, why: &str| (kind, why.to_string());
        let outputs = kernel.tensors.iter().filter(|t| t.mutable).count();
        let shared = kernel.axes.iter().filter(|a| a.kind == AxisKind::Program).count() > 1;
        let reduces = [Kind::ReduceLane, Kind::ReduceWarp, Kind::ReduceCta].iter().any(|k| set.contains(k));
        let atoms = ATOMS.iter().any(|k| set.contains(k));
        let wrong = if reduces && atoms && self.reductions().len() < 2 {
            no(Kind::ReduceLane, "the product is the only reduction")
        } else if set.contains(&Kind::Cluster) && !shared {
            no(Kind::Cluster, "no two program axes")
        } else if set.contains(&Kind::SplitKAtomic) && !(sums && outputs == 1) {
            no(Kind::SplitKAtomic, "what is stored is no sum")
        } else if set.contains(&Kind::Exchange) && narrow == 0 {
            no(Kind::Exchange, "no stored element has 2 bytes")
        } else if set.contains(&Kind::CollectMatrices) && narrow == 0 {
            no(Kind::CollectMatrices, "no stored element has 2 bytes")
        } else if set.contains(&Kind::Recompute) {
            let before = (self.nests.clone(), self.schedule.directives.clone());
            let values = self.values().into_iter();
            let any =
                values.map(|value| D::Recompute(directive::Recompute { value })).any(|d| self.propose(d));
            (self.nests, self.schedule.directives) = before;
            if any {
                return true;
            }
            no(Kind::Recompute, "no value has two readers")
        } else {
            return true;
        };
        self.refusals.push(wrong);
        false
    }

    /// Tiles: what atoms divide, or such that threads are whole warps and rows of copies whole boxes.
    pub(crate) fn frame(&mut self, set: &BTreeSet<Kind>, product: Option<&mut Product>) {
        let has = |kind| set.contains(&kind);
        let mut tiles = vec![];
        let groups = has(Kind::BindWarpgroup) || has(Kind::Registers);
        let deep = has(Kind::Fragment) || has(Kind::Cluster) || has(Kind::Split);
        match product {
            Some(product) if has(Kind::Wgmma) => {
                if has(Kind::Swapped) {
                    product.axes.swap(0, 1);
                }
                let rows = if groups { *self.random.pick(&[128, 128, 256]) } else { 64 };
                let columns = *self.random.pick(&[8, 16, 32, 32, 64]);
                let points = *self.random.pick(if deep { &[32, 64, 64] } else { &[16, 32, 64] });
                tiles.extend(product.axes.iter().cloned().zip([rows, columns, points]));
            }
            Some(product) => {
                // Warps take 16 rows each.
                let rows: &[u32] = match () {
                    () if has(Kind::Registers) => &[128],
                    () if has(Kind::ProduceWarpgroup) => &[64],
                    () if has(Kind::BindWarp) => &[32, 32, 64],
                    () => &[16, 16, 32],
                };
                let columns: &[u32] = match has(Kind::BindXor) || has(Kind::Exchange) {
                    true => &[32],
                    false => &[16, 16, 32],
                };
                let points: &[u32] = if deep { &[32, 32, 64] } else { &[16, 16, 32] };
                let sizes =
                    if has(Kind::Swapped) { [columns, rows, points] } else { [rows, columns, points] };
                for (axis, sizes) in product.axes.iter().zip(sizes) {
                    tiles.push((axis.clone(), *self.random.pick(sizes)));
                }
            }
            None => {}
        }
        let atoms = tiles.len();
        let program: Vec<String> = self.program().map(|a| a.name.clone()).collect();
        // Sizes of tiles of program axes, such that a thread a point is as many threads as it takes.
        let whole: &[[u32; 3]] = match () {
            () if has(Kind::BindXor) && !has(Kind::ProduceWarpgroup) => {
                &[[8, 4, 1], [4, 8, 1], [8, 8, 1], [16, 4, 1]]
            }
            () if has(Kind::Registers) => &[[256, 1, 1], [32, 8, 1], [16, 16, 1], [8, 8, 4]],
            () if has(Kind::ProduceWarpgroup) => &[[128, 1, 1], [16, 8, 1], [32, 4, 1], [8, 4, 4]],
            () if has(Kind::BindWarp) => &[[64, 1, 1], [32, 4, 1], [2, 32, 1], [64, 2, 1], [32, 2, 2]],
            () if has(Kind::BindLane) || PRODUCERS.iter().any(|k| has(*k)) => {
                &[[32, 1, 1], [8, 4, 1], [4, 8, 1], [32, 2, 1], [8, 8, 1], [8, 4, 2]]
            }
            // So small that a thread reads the row of a tile in one piece.
            () if has(Kind::Segment) => &[[16, 1, 1], [8, 4, 1], [4, 4, 1], [4, 8, 1], [8, 8, 1], [4, 8, 2]],
            () => &[[16, 1, 1], [32, 1, 1], [8, 8, 1], [4, 8, 2], [16, 4, 1], [8, 16, 1]],
        };
        let fits = |sizes: &&[u32; 3]| sizes.iter().filter(|n| **n > 1).count() <= program.len().max(1);
        let some: Vec<[u32; 3]> = whole.iter().filter(fits).copied().collect();
        let mut sizes = *self.random.pick(if some.is_empty() { whole } else { &some });
        if has(Kind::Vectorize) || has(Kind::Split) || has(Kind::Serpentine) {
            sizes[0] *= 2;
        }
        let reduced: &[u32] = match () {
            () if has(Kind::ReduceLane) || has(Kind::ReduceCta) => &[32],
            () if has(Kind::ReduceWarp) => &[2, 4],
            () if has(Kind::StageTma) || has(Kind::Swizzle) || deep => &[8, 8, 16],
            // A thread then reads the row of a copy element after element, where words may be split.
            () if has(Kind::Segment) => &[1, 1, 1, 1, 3, 5, 8],
            // Rows of an odd number of elements, too.
            () => &[1, 3, 4, 4, 5, 8, 16],
        };
        let boxes = has(Kind::StageTma) || has(Kind::Collect) || has(Kind::StageVector);
        for (n, axis) in self.kernel.axes.iter().enumerate() {
            if tiles.iter().any(|(name, _)| *name == axis.name) {
                continue;
            }
            let size = match program.iter().position(|name| *name == axis.name) {
                _ if atoms > 0 => *self.random.pick(&[1, 1, 2, 4]),
                Some(n) => sizes[n.min(2)],
                None => *self.random.pick(reduced),
            };
            if boxes || atoms > 0 || n == 0 || self.chance(90) {
                tiles.push((axis.name.clone(), size));
            }
        }
        for (axis, size) in tiles {
            // What a CTA holds all of has a bound.
            let whole = |a: &&Axis| a.name == axis && a.kind == AxisKind::Whole;
            let held =
                self.kernel.axes.iter().filter(whole).find_map(|a| a.extent.dims.keys().next().cloned());
            if let (true, Some(dim)) = (atoms > 0, held) {
                self.propose(directive::Fits { dim, max: size.max(16) * 2 });
            }
            self.propose(directive::Tile { axis, size });
        }
        self.size_recurrences(&[1, 2, 4, 8]);
    }

    pub(crate) fn program(&self) -> impl Iterator<Item = &Axis> {
        self.kernel.axes.iter().filter(|a| a.kind == AxisKind::Program)
    }

    /// The loop that copies are made at, mostly: over the tiles of a reduction.
    pub(crate) fn steps_of(&mut self, product: Option<&Product>) -> Vec<String> {
        let mut first: Vec<String> = product.iter().map(|p| p.steps()).collect();
        let digits: Vec<String> = self.digits(false).into_iter().map(|d| d.0).collect();
        let reduced = |name: &str| {
            let axis = name.split('.').next().unwrap_or_default();
            self.kernel.axes.iter().any(|a| a.name == axis && a.kind != AxisKind::Program)
        };
        let (mut outer, mut others): (Vec<String>, Vec<String>) =
            digits.into_iter().partition(|d| reduced(d) && !d.ends_with(".t"));
        self.shuffle(&mut outer);
        self.shuffle(&mut others);
        first.extend(outer);
        first.extend(others);
        first
    }

    pub(crate) fn shuffle<T>(&mut self, of: &mut [T]) {
        for n in (1..of.len()).rev() {
            of.swap(n, self.random.below(n + 1));
        }
    }

    /// Random directives around a core, few.
    pub(crate) fn adorn(&mut self) {
        if self.chance(25) {
            self.wild_assumptions();
        }
        if self.chance(15) {
            self.wild_places(1);
        }
        if self.chance(25) {
            self.wild_orders(1);
        }
        if self.chance(50) {
            self.limited();
            self.private();
            self.gathered();
        }
        if self.chance(25) {
            self.wild_units(1);
        }
        if self.chance(40) {
            self.wild_expansion(1);
        }
        // Beside a producer, tiles that it copies ahead.
        if self.nests[0].producer.is_some() && self.goes_ahead(50) {
            self.tiles_ahead();
        }
        self.wild_launch();
        self.last();
    }

    /// Drops what the core of so many directives does not bear; the nests of what is left.
    pub(crate) fn keep_core(&mut self, core: usize) -> Option<Vec<Nest>> {
        self.renumber();
        loop {
            let wrong = match self.proved() {
                Ok(nests) => return Some(nests),
                Err(wrong) => wrong,
            };
            let directives = &mut self.schedule.directives;
            let at = directives.iter().position(|d| d.span == wrong[0].span);
            match at {
                Some(at) if at >= core => drop(directives.remove(at)),
                _ if directives.len() > core => drop(directives.pop()),
                _ => return None,
            }
        }
    }
}

/// Threads are addressed one way or the other, and atoms take all lanes.
fn clashes(kind: Kind, set: &BTreeSet<Kind>) -> bool {
    const LISTS: [(&[Kind], &[Kind]); 3] = [
        (&[Kind::Mma, Kind::Wgmma, Kind::BindLane, Kind::BindWarp, Kind::BindWarpgroup], &[Kind::BindThread]),
        (&[Kind::Mma, Kind::Wgmma, Kind::BindWarpgroup], &[Kind::BindLane]),
        (&[Kind::Wgmma], &[Kind::BindWarp, Kind::Fragment, Kind::Pad]),
    ];
    let meets = |all: &[Kind]| all.iter().any(|k| set.contains(k));
    let clash = |(some, others): &(&[Kind], &[Kind])| {
        some.contains(&kind) && meets(others) || others.contains(&kind) && meets(some)
    };
    LISTS.iter().any(clash)
}
