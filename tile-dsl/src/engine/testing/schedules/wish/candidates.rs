//! What a wished kind of directive can be in a nest: candidates, of which the first that applies is kept.

use super::{
    super::{Generator, matrix::Product},
    COPIES, SPLITS,
    places::axis_of,
    threads::THREADS,
};
use crate::{
    engine::{
        checks::stage_value,
        testing::{Kind, kinds},
    },
    nest::{Across, Atom, Level, Order},
    schedule::{DirectiveKind as D, Evict, Space, Start, Unit, UnitDim, Via},
    tile::AxisKind,
};
use std::collections::BTreeSet;

/// Candidates that are tried.
const MOST: usize = 24;

/// How copies of a kind are made, with a width that suits it.
fn copied(kind: Kind) -> (Via, &'static [Option<u32>]) {
    match kind {
        Kind::StageTma => (Via::Tma, &[None]),
        Kind::StageAsync => (Via::CpAsync, &[None, Some(4)]),
        Kind::StageAsyncVector => (Via::CpAsync, &[Some(8), Some(16)]),
        Kind::StageVector => (Via::Plain, &[Some(4), Some(8), Some(16)]),
        _ => (Via::Plain, &[None]),
    }
}

impl Generator<'_> {
    /// Proposes directives of a kind until one applies.
    pub(super) fn draw(
        &mut self,
        kind: Kind,
        set: &BTreeSet<Kind>,
        product: Option<&Product>,
        at: &[String],
    ) {
        if COPIES.contains(&kind) {
            // All copies at once: which tensor comes how matters.
            if !COPIES.iter().any(|k| kinds(&self.schedule).contains(k)) {
                self.draw_copies(set, product, at);
            }
            return;
        }
        if THREADS.contains(&kind) && product.is_none() {
            if !THREADS.iter().any(|k| kinds(&self.schedule).contains(k)) {
                self.draw_threads(set);
            }
            return;
        }
        let mut some = self.candidates(kind, set, product, at);
        self.shuffle(&mut some);
        match kind {
            // In front of what is copied, or where a value is computed more than once.
            _ if SPLITS.contains(&kind) => {
                let met = self.in_front_of_copies();
                let again = self.recomputed().into_iter().flat_map(|value| self.around(&value));
                let met: BTreeSet<String> =
                    met.into_iter().chain(again.map(|d| axis_of(&d).to_string())).collect();
                some.sort_by_key(|d| !matches!(d, D::SplitK { digit, .. } if met.contains(axis_of(digit))));
            }
            Kind::Recompute if SPLITS.iter().any(|k| set.contains(k)) => {
                let sums = self.reductions();
                some.sort_by_key(|d| !matches!(d, D::Recompute { value } if sums.contains(value)));
            }
            // Around copies: what is copied follows the way back.
            Kind::Serpentine if self.chance(80) && product.is_none() => {
                let around = self.around_copies();
                let apart =
                    |d: &D| !matches!(d, D::Serpentine { digit, within: None } if around.contains(digit));
                some.sort_by_key(apart);
            }
            _ => {}
        }
        let every = kind == Kind::Swizzle && set.contains(&Kind::Wgmma)
            || matches!(kind, Kind::Serpentine | Kind::Recompute) && self.chance(60);
        for candidate in some.into_iter().take(MOST) {
            if self.asked(kind, candidate) && !every {
                break;
            }
        }
    }

    /// As `propose`, remembering why not.
    pub(super) fn asked(&mut self, kind: Kind, candidate: D) -> bool {
        let before = self.refused.take();
        let applied = self.propose(candidate);
        if let Some(message) = self.refused.take() {
            self.refusals.push((kind, message));
        }
        self.refused = before;
        applied
    }

    /// Copies of tensors in all the wanted ways.
    fn draw_copies(&mut self, set: &BTreeSet<Kind>, product: Option<&Product>, at: &[String]) {
        let mut ways: Vec<Kind> = COPIES.iter().filter(|k| set.contains(k)).copied().collect();
        self.shuffle(&mut ways);
        let produced = set.contains(&Kind::ProduceWarp) || set.contains(&Kind::ProduceWarpgroup);
        let read = self.read();
        let mut buffers: Vec<String> = match product {
            Some(product) => product.factors.clone(),
            None => read.clone(),
        };
        if product.is_none() {
            self.shuffle(&mut buffers);
        }
        // A producer makes all copies of its loop.
        let most = if produced { buffers.len().min(2) } else { buffers.len() };
        let others: Vec<String> = read.into_iter().filter(|t| !buffers[..most].contains(t)).collect();
        buffers.truncate(most);
        // What is padded has no swizzle, and beside `wgmma` it is no factor.
        let beside = produced || set.contains(&Kind::Wgmma) && set.contains(&Kind::Pad);
        let mut kinds: Vec<Kind> = match beside {
            true => vec![Kind::StageTma; most],
            false => ways.clone(),
        };
        while set.contains(&Kind::Pad) && set.contains(&Kind::Swizzle) && kinds.len() < most {
            kinds.push(*self.random.pick(&ways));
        }
        while product.is_some() && kinds.len() < most {
            // Atoms read both factors from shared memory.
            kinds.push(*self.random.pick(&ways));
        }
        let everywhere: Vec<String> = self.digits(false).into_iter().map(|d| d.0).collect();
        let mut transposed = set.contains(&Kind::StageTransposed);
        let rest: Vec<Kind> =
            ways.iter().filter(|k| !kinds[..most.min(kinds.len())].contains(k)).copied().collect();
        if produced && transposed && rest.is_empty() {
            // A tensor map turns nothing: a factor is transposed that lies in columns.
            let mut factors = buffers.iter().cloned();
            let _ = factors.any(|tensor| self.propose(D::Layout { tensor, column_major: true }));
        }
        for (buffer, kind) in buffers.iter().zip(kinds) {
            self.draw_copy(buffer, kind, &mut transposed, at);
        }
        for kind in rest {
            let _ = others.iter().any(|buffer| self.draw_copy(buffer, kind, &mut transposed, &everywhere));
        }
    }

    /// A copy of a tensor, transposed if one is to be.
    fn draw_copy(&mut self, buffer: &str, kind: Kind, transposed: &mut bool, at: &[String]) -> bool {
        let (via, vectors) = copied(kind);
        for at in at.iter().take(6) {
            for turned in [*transposed, !*transposed] {
                let vector = *self.random.pick(vectors);
                let stage = D::Stage {
                    buffer: buffer.to_string(),
                    at: Some(at.clone()),
                    space: Space::Shared,
                    transposed: turned,
                    via,
                    vector,
                };
                if self.asked(kind, stage) {
                    *transposed &= !turned;
                    return true;
                }
            }
        }
        false
    }

    /// Tensors that are read only.
    fn read(&self) -> Vec<String> {
        let nest = &self.nests[0];
        let read = |name: &str| nest.accesses.iter().any(|a| nest.tensor(a.tensor).name == name);
        let tensors = self.kernel.tensors.iter().filter(|t| !t.mutable && read(&t.name));
        tensors.map(|t| t.name.clone()).collect()
    }

    /// Where tensors are copied, to shared memory or to registers.
    pub(super) fn copies(&self, held: bool) -> Vec<(String, String)> {
        let found = self.schedule.directives.iter().filter_map(|d| match &d.kind {
            D::Stage { buffer, at: Some(at), .. } if !held => Some((buffer.clone(), at.clone())),
            D::Fragment { buffer, at } if held => Some((buffer.clone(), at.clone())),
            _ => None,
        });
        found.collect()
    }

    /// Whatever lies in shared memory.
    pub(super) fn staged(&self) -> Vec<String> {
        let found = self.schedule.directives.iter();
        found
            .filter_map(|d| if let D::Stage { buffer, .. } = &d.kind { Some(buffer.clone()) } else { None })
            .collect()
    }

    pub(super) fn stored(&self) -> Vec<String> {
        self.kernel.tensors.iter().filter(|t| t.mutable).map(|t| t.name.clone()).collect()
    }

    /// Loops of few steps.
    pub(super) fn short(&self, most: u32) -> Vec<String> {
        let digits = self.digits(true).into_iter();
        digits.filter(|d| d.1.is_some_and(|n| n > 1 && n <= most)).map(|d| d.0).collect()
    }

    fn candidates(
        &mut self,
        kind: Kind,
        set: &BTreeSet<Kind>,
        product: Option<&Product>,
        at: &[String],
    ) -> Vec<D> {
        let kernel = self.kernel;
        let dims: BTreeSet<String> = kernel.axes.iter().flat_map(|a| a.extent.dims.keys().cloned()).collect();
        let program: Vec<String> =
            kernel.axes.iter().filter(|a| a.kind == AxisKind::Program).map(|a| a.name.clone()).collect();
        let pairs: Vec<String> = kernel.axes.iter().map(|a| format!("{}.pair", a.name)).collect();
        match kind {
            Kind::Fits => {
                let max = *self.random.pick(&[24, 32, 64, 100]);
                dims.into_iter().map(|dim| D::Fits { dim, max }).collect()
            }
            Kind::Multiple => {
                let of = *self.random.pick(&[2, 3, 4, 8, 16]);
                dims.into_iter().map(|dim| D::Multiple { dim, of }).collect()
            }
            Kind::Layout => {
                let some = kernel.tensors.iter().filter(|t| t.dims.len() > 1);
                some.map(|t| D::Layout { tensor: t.name.clone(), column_major: true }).collect()
            }
            Kind::Split => {
                self.fresh += 2;
                let names = vec![format!("d{}", self.fresh), format!("d{}", self.fresh + 1)];
                let split = |(digit, factor)| D::Split { digit, names: names.clone(), factors: vec![factor] };
                if let Some(product) = product {
                    // What an atom takes at once stays together.
                    let whole = if set.contains(&Kind::Wgmma) { [64, 64, 16] } else { [16, 16, 16] };
                    let tiles = product.axes.iter().map(|a| format!("{a}.t")).zip(whole);
                    return tiles.map(split).collect();
                }
                let factor = *self.random.pick(&[2, 2, 4, 8]);
                let mut digits: Vec<String> = self.digits(false).into_iter().map(|d| d.0).collect();
                digits.retain(|d| !d.ends_with(".o"));
                digits.into_iter().map(|digit| split((digit, factor))).collect()
            }
            Kind::Recompute => {
                self.between(product).into_iter().map(|value| D::Recompute { value }).collect()
            }
            Kind::Fuse => {
                let mut found = vec![];
                for value in self.between(product) {
                    // Of several readers each has its own.
                    self.propose(D::Recompute { value: value.clone() });
                    let mut at = self.around(&value);
                    at.extend(kernel.axes.iter().map(|a| a.name.clone()));
                    found.extend(at.into_iter().map(|at| D::Fuse { value: value.clone(), at }));
                }
                found
            }
            Kind::Mma | Kind::Wgmma => {
                let Some(product) = product else { return vec![] };
                let wide = |n| Atom::from_name("wgmma", Some([64, n])).expect("a number of columns");
                let atoms: Vec<Atom> = match kind {
                    Kind::Mma => vec![Atom::MMA],
                    _ => [8, 16, 32, 64].map(wide).to_vec(),
                };
                let swapped = set.contains(&Kind::Swapped);
                let core = |atom| D::TensorCore { value: product.value.clone(), atom, swapped };
                atoms.into_iter().map(core).collect()
            }
            Kind::Reorder => {
                let mut found = vec![];
                for statement in self.statements() {
                    let mut digits = self.around(&statement);
                    digits.retain(|d| !d.ends_with(".o"));
                    if digits.len() > 1 {
                        digits.drain(..digits.len() - 2);
                        digits.reverse();
                        found.push(D::Reorder { digits, within: Some(statement) });
                    }
                }
                found
            }
            Kind::StageValue => self.values().iter().map(|value| stage_value(value)).collect(),
            Kind::Collect | Kind::CollectMatrices => {
                let via = if kind == Kind::Collect { Via::Tma } else { Via::Stmatrix };
                if kind == Kind::CollectMatrices {
                    self.pairs_of_stored(&pairs);
                }
                let stage = |buffer| D::Stage {
                    buffer,
                    at: None,
                    space: Space::Shared,
                    transposed: false,
                    via,
                    vector: None,
                };
                self.stored().into_iter().map(stage).collect()
            }
            Kind::Fragment => {
                let mut digits = self.short(16);
                if let Some(product) = product {
                    let k = &product.axes[2];
                    digits = vec![format!("{k}.atom"), format!("{k}.{}", product.value)];
                }
                // What one step reads is of use in the copies' steps.
                let mut found = vec![];
                let at = if digits.is_empty() {
                    at.first().cloned()
                } else {
                    Some(self.random.pick(&digits).clone())
                };
                for t in kernel.tensors.iter().filter(|t| !t.mutable) {
                    found.extend(at.iter().map(|at| D::Fragment { buffer: t.name.clone(), at: at.clone() }));
                    found.extend(
                        digits.iter().map(|at| D::Fragment { buffer: t.name.clone(), at: at.clone() }),
                    );
                }
                found
            }
            Kind::Pad => {
                let bytes = *self.random.pick(&[4, 8, 16, 16, 32]);
                self.staged().into_iter().map(|buffer| D::Pad { buffer, bytes }).collect()
            }
            Kind::Swizzle => {
                let spans = [32, 64, 128];
                let swizzle = |buffer: String| spans.map(|span| D::Swizzle { buffer: buffer.clone(), span });
                self.staged().into_iter().flat_map(swizzle).collect()
            }
            Kind::Pipeline | Kind::PipelineRegisters => {
                let stages = 2 + self.random.below(3) as u32;
                let at = self.copies(kind == Kind::PipelineRegisters).into_iter();
                let at: BTreeSet<String> = at.map(|(_, at)| at).collect();
                at.into_iter().map(|digit| D::Pipeline { digit, stages }).collect()
            }
            Kind::Interleave => {
                let digits: BTreeSet<String> = self.copies(true).into_iter().map(|(_, at)| at).collect();
                for digit in digits {
                    if self.interleave(digit) {
                        break;
                    }
                }
                vec![]
            }
            Kind::SplitK | Kind::SplitKAtomic | Kind::SplitKCluster => {
                let parts = *self.random.pick(&[2, 2, 3, 4]);
                let across = match kind {
                    Kind::SplitK => Across::Workspace,
                    Kind::SplitKAtomic => Across::Atomic,
                    _ => Across::Cluster,
                };
                let axes = kernel.axes.iter().filter(|a| a.kind != AxisKind::Program).map(|a| a.name.clone());
                let axes: Vec<String> = match product {
                    Some(product) => vec![product.steps()],
                    None => axes.collect(),
                };
                axes.into_iter().map(|digit| D::SplitK { digit, parts, across }).collect()
            }
            Kind::BindBlock => {
                let digits: Vec<String> = self.digits(false).into_iter().map(|d| d.0).collect();
                let all = digits.into_iter().chain(program);
                all.map(|digit| D::Bind { digit, unit: Unit::Block, dim: UnitDim::X, xor: None }).collect()
            }
            Kind::BindWarpgroup => match product {
                Some(product) => {
                    let digit = format!("{}.atom", product.axes[0]);
                    vec![D::Bind { digit, unit: Unit::Warpgroup, dim: UnitDim::X, xor: None }]
                }
                None => self.bound(Unit::Warpgroup, &[UnitDim::X]),
            },
            Kind::BindWarp => match product {
                Some(product) => {
                    let bind = |(n, dim): (usize, UnitDim)| D::Bind {
                        digit: format!("{}.atom", product.axes[n]),
                        unit: Unit::Warp,
                        dim,
                        xor: None,
                    };
                    // Rows by 16 are warps; columns beside them, if they are to change places.
                    let rows = bind((0, UnitDim::X));
                    match self.asked(kind, rows) {
                        true => vec![],
                        false => self.bound(Unit::Warp, &[UnitDim::X, UnitDim::Y]),
                    }
                }
                None => vec![],
            },
            Kind::BindXor => {
                let unit = if set.contains(&Kind::BindWarpgroup) { Unit::Warpgroup } else { Unit::Warp };
                let xor = |digit| D::Bind { digit, unit, dim: UnitDim::Y, xor: Some(UnitDim::X) };
                self.short(32).into_iter().map(xor).collect()
            }
            Kind::ReduceLane | Kind::ReduceWarp | Kind::ReduceCta | Kind::BindLane | Kind::BindThread => {
                // Beside an atom: other statements' loops.
                let unit = if kind == Kind::BindThread { Unit::Thread } else { Unit::Lane };
                let level = match kind {
                    Kind::ReduceLane => Level::Lane,
                    Kind::ReduceWarp => Level::Warp,
                    _ => Level::Cta,
                };
                let values = self.nests[0].values.iter().filter(|v| v.reduction.is_some());
                let values = values.filter(|v| product.is_none_or(|p| p.value != v.name));
                match kind {
                    Kind::BindLane | Kind::BindThread => self.bound(unit, &[UnitDim::X]),
                    _ => values.map(|v| D::Reduce { value: v.name.clone(), level }).collect(),
                }
            }
            Kind::Unroll => {
                if let Some(product) = product {
                    let digit = format!("{}.atom", product.axes[2]);
                    if self.propose(D::Unroll { digit, within: None }) {
                        return vec![];
                    }
                }
                self.short(16).into_iter().map(|digit| D::Unroll { digit, within: None }).collect()
            }
            Kind::Serpentine => {
                let mut found: Vec<D> =
                    self.short(16).into_iter().map(|digit| D::Serpentine { digit, within: None }).collect();
                for statement in self.statements() {
                    let within = Some(statement);
                    found.extend(
                        self.short(16)
                            .into_iter()
                            .map(|digit| D::Serpentine { digit, within: within.clone() }),
                    );
                }
                found
            }
            Kind::Vectorize => {
                if product.is_some() && self.pairs_of_stored(&pairs) {
                    return vec![];
                }
                let mut found = vec![];
                for digit in self.short(8) {
                    found.push(D::Vectorize { digit: digit.clone(), within: None });
                    let within = |y| D::Vectorize { digit: digit.clone(), within: Some(y) };
                    found.extend(self.statements().into_iter().map(within));
                }
                found
            }
            Kind::Exchange => {
                self.pairs_of_stored(&pairs);
                // What four lanes exchange is a straight line.
                for digit in self.short(16) {
                    if [".half", ".group", ".row", ".atom"].iter().any(|part| digit.ends_with(part)) {
                        self.propose(D::Unroll { digit, within: None });
                    }
                }
                self.stored().into_iter().map(|tensor| D::Exchange { tensor }).collect()
            }
            Kind::Cache => {
                let (_, evict) = *self.random.pick(&Evict::NAMED);
                kernel.tensors.iter().map(|t| D::Cache { tensor: t.name.clone(), evict }).collect()
            }
            Kind::ProduceWarp | Kind::ProduceWarpgroup => {
                let unit = if kind == Kind::ProduceWarp { Unit::Warp } else { Unit::Warpgroup };
                let mut at: BTreeSet<String> = self.copies(false).into_iter().map(|(_, at)| at).collect();
                if !self.produced().is_empty() {
                    at = self.digits(false).into_iter().map(|d| d.0).collect();
                }
                at.into_iter().map(|digit| D::Produce { digit, unit }).collect()
            }
            Kind::Arrive => {
                let unit = *self.random.pick(&[Unit::Thread, Unit::Thread, Unit::Warp]);
                self.produced().into_iter().map(|digit| D::Arrive { digit, unit }).collect()
            }
            Kind::Alternate => self.produced().into_iter().map(|digit| D::Alternate { digit }).collect(),
            Kind::Overwrite | Kind::InFlight => {
                let Some(product) = product else { return vec![] };
                let overwrite = set.contains(&Kind::Overwrite);
                let in_flight = u32::from(set.contains(&Kind::InFlight));
                vec![D::Issue { value: product.value.clone(), overwrite, in_flight }]
            }
            Kind::Registers => {
                [40, 104, 152, 160, 168].map(|consumer| D::Registers { producer: 24, consumer }).to_vec()
            }
            Kind::Persistent => vec![D::Persistent { ctas: 1 }],
            Kind::Pingpong => vec![D::Pingpong { groups: 2 }],
            Kind::Cluster => {
                let ctas = *self.random.pick(&[2, 2, 2, 4]);
                program.into_iter().map(|axis| D::Cluster { axis, ctas }).collect()
            }
            Kind::Segment => {
                // Most of what is copied has tiles of two sizes then.
                let (halves, copied) = (self.rows_of_halves(), self.axes_of_copies());
                let (among, odd) = match self.random.below(10) {
                    0..5 if !halves.is_empty() => (halves, true),
                    0..7 => (copied, false),
                    _ => (BTreeSet::new(), false),
                };
                for _ in 0..6 {
                    self.segment(&among, odd);
                    if kinds(&self.schedule).contains(&Kind::Segment) {
                        break;
                    }
                }
                vec![]
            }
            Kind::Occupancy => vec![D::Occupancy { ctas: 1 + self.random.below(2) as u32 }],
            Kind::Order => {
                let orders =
                    [Order::Row, Order::Column, Order::Hilbert, Order::Grouped(2), Order::Serpentine(2)];
                vec![D::Order { order: *self.random.pick(&orders) }]
            }
            Kind::Assemble => vec![D::Assemble { level: self.random.below(5) as u32 }],
            Kind::Launch => vec![D::Launch { start: Start::Dependent }],
            Kind::Tile
            | Kind::Swapped
            | Kind::StagePlain
            | Kind::StageVector
            | Kind::StageAsync
            | Kind::StageAsyncVector
            | Kind::StageTma
            | Kind::StageTransposed => vec![],
        }
    }

    /// Values beside a product.
    fn between(&self, product: Option<&Product>) -> Vec<String> {
        let values = self.nests[0].values.iter().filter(|v| product.is_none() || v.reduction.is_none());
        values.map(|v| v.name.clone()).filter(|v| product.is_none_or(|p| p.value != *v)).collect()
    }

    fn produced(&self) -> Vec<String> {
        let found = self.schedule.directives.iter();
        found
            .filter_map(|d| if let D::Produce { digit, .. } = &d.kind { Some(digit.clone()) } else { None })
            .collect()
    }

    /// Loops bound to a unit.
    fn bound(&self, unit: Unit, dims: &[UnitDim]) -> Vec<D> {
        let digits = self.short(if unit == Unit::Lane { 32 } else { 512 });
        let bind = |dim: &UnitDim| {
            let dim = *dim;
            digits.iter().map(move |digit| D::Bind { digit: digit.clone(), unit, dim, xor: None })
        };
        dims.iter().flat_map(bind).collect()
    }

    /// Has accumulators stored in pairs.
    fn pairs_of_stored(&mut self, pairs: &[String]) -> bool {
        let mut any = false;
        for tensor in self.stored() {
            for digit in pairs {
                let within = Some(tensor.clone());
                any |= self.propose(D::Vectorize { digit: digit.clone(), within });
            }
        }
        any
    }
}
