//! What a wished kind of directive can be in a nest: candidates, of which the first that applies is kept.

use super::{
    super::{Generator, matrix::Product},
    COPIES, SPLITS,
    places::axis_of,
    threads::THREADS,
};
use crate::{
    directive::{self, DirectiveKind as D},
    engine::testing::{Kind, kinds},
    schedule::{Space, Target, Unit, UnitDim, Via},
    tile::AxisKind,
};
use std::collections::BTreeSet;

/// What a directive is wished for beside.
pub(crate) struct Wish<'w> {
    /// The other kinds of the core.
    pub set: &'w BTreeSet<Kind>,
    /// The product that atoms are to multiply.
    pub product: Option<&'w Product>,
    /// Loops that copies are made at, the likeliest first.
    pub at: &'w [String],
}

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
    pub(crate) fn draw(
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
        let mut some = kind.candidates(self, &Wish { set, product, at });
        self.shuffle(&mut some);
        match kind {
            // In front of what is copied, or where a value is computed more than once.
            _ if SPLITS.contains(&kind) => {
                let met = self.in_front_of_copies();
                let again = self.recomputed().into_iter().flat_map(|value| self.around(&value));
                let met: BTreeSet<String> =
                    met.into_iter().chain(again.map(|d| axis_of(&d).to_string())).collect();
                some.sort_by_key(|d| !matches!(d, D::SplitK(directive::SplitK { digit, .. }) if met.contains(axis_of(digit))));
            }
            Kind::Recompute if SPLITS.iter().any(|k| set.contains(k)) => {
                let sums = self.reductions();
                some.sort_by_key(
                    |d| !matches!(d, D::Recompute(directive::Recompute { value }) if sums.contains(value)),
                );
            }
            // Around copies: what is copied follows the way back.
            Kind::Serpentine if self.chance(80) && product.is_none() => {
                let around = self.around_copies();
                let apart = |d: &D| !matches!(d, D::Serpentine(directive::Serpentine { digit, within: None }) if around.contains(digit));
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
    pub(crate) fn asked(&mut self, kind: Kind, candidate: impl Into<D>) -> bool {
        let before = self.refused.take();
        let applied = self.propose(candidate);
        if let Some(message) = self.refused.take() {
            self.refusals.push((kind, message));
        }
        self.refused = before;
        applied
    }

    /// Copies of tensors in all the wanted ways.
    pub(crate) fn draw_copies(&mut self, set: &BTreeSet<Kind>, product: Option<&Product>, at: &[String]) {
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
            // What values lead to comes first, mostly.
            if self.chance(70) {
                let led = self.led();
                buffers.sort_by_key(|buffer| !led.contains(buffer));
            }
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
            let _ = factors.any(|tensor| self.propose(directive::Layout { tensor, column_major: true }));
        }
        for (buffer, kind) in buffers.iter().zip(kinds) {
            self.draw_copy(buffer, kind, &mut transposed, at);
        }
        for kind in rest {
            let _ = others.iter().any(|buffer| self.draw_copy(buffer, kind, &mut transposed, &everywhere));
        }
    }

    /// A copy of a tensor, transposed if one is to be.
    pub(crate) fn draw_copy(
        &mut self,
        buffer: &str,
        kind: Kind,
        transposed: &mut bool,
        at: &[String],
    ) -> bool {
        let (via, vectors) = copied(kind);
        for at in at.iter().take(6) {
            for turned in [*transposed, !*transposed] {
                let vector = *self.random.pick(vectors);
                let stage = D::Stage(directive::Stage {
                    buffer: buffer.to_string(),
                    at: Some(at.clone()),
                    space: Space::Shared,
                    transposed: turned,
                    via,
                    vector,
                });
                if self.asked(kind, stage) {
                    *transposed &= !turned;
                    return true;
                }
            }
        }
        false
    }

    /// Tensors that are read only.
    pub(crate) fn read(&self) -> Vec<String> {
        let nest = &self.nests[0];
        let read = |name: &str| nest.accesses.iter().any(|a| nest.tensor(a.tensor).name == name);
        let tensors = self.kernel.tensors.iter().filter(|t| !t.mutable && read(&t.name));
        tensors.map(|t| t.name.clone()).collect()
    }

    /// Where tensors are copied, to shared memory or to registers.
    pub(crate) fn copies(&self, held: bool) -> Vec<(String, String)> {
        let found = self.schedule.directives.iter().filter_map(|d| match &d.kind {
            D::Stage(directive::Stage { buffer, at: Some(at), .. }) if !held => {
                Some((buffer.clone(), at.clone()))
            }
            D::Fragment(directive::Fragment { buffer, at }) if held => Some((buffer.clone(), at.clone())),
            _ => None,
        });
        found.collect()
    }

    /// Whatever lies in shared memory.
    pub(crate) fn staged(&self) -> Vec<String> {
        let found = self.schedule.directives.iter();
        found
            .filter_map(|d| {
                if let D::Stage(directive::Stage { buffer, .. }) = &d.kind {
                    Some(buffer.clone())
                } else {
                    None
                }
            })
            .collect()
    }

    pub(crate) fn stored(&self) -> Vec<String> {
        self.kernel.tensors.iter().filter(|t| t.mutable).map(|t| t.name.clone()).collect()
    }

    /// Here and there, a part of its own for each CTA of what values are combined with.
    pub(crate) fn private(&mut self) {
        for tensor in self.combined() {
            if !self.chance(60) {
                continue;
            }
            // Those that values lead to need a bound; others have several tiles without.
            let nest = &self.nests[0];
            let combined = nest.accesses.iter().filter(|access| nest.tensor(access.tensor).name == tensor);
            let led = combined.flat_map(|a| a.by.keys().map(|dim| &nest.tensor(a.tensor).dims[*dim]));
            let named: BTreeSet<String> = led.flat_map(|extent| extent.dims.keys().cloned()).collect();
            for dim in named {
                let max = *self.random.pick(&[5, 24, 32, 100]);
                self.propose(directive::Fits { dim, max });
            }
            self.propose(crate::engine::checks::stage_value(&tensor));
        }
    }

    /// Bounds, mostly, for axes of a tensor of which a CTA reads all.
    fn bounded(&mut self, tensor: &str) {
        let nest = &self.nests[0];
        let read = nest.accesses.iter().filter(|access| nest.tensor(access.tensor).name == tensor);
        let axes: BTreeSet<_> = read.flat_map(|access| access.axes()).collect();
        let kernel = self.kernel;
        for axis in axes.into_iter().map(|axis| &kernel.axes[usize::from(axis.0)]) {
            if let (AxisKind::Whole, Some(dim)) = (axis.kind, axis.extent.dims.keys().next())
                && self.chance(70)
            {
                let max = *self.random.pick(&[4, 8, 8, 16, 24]);
                self.propose(directive::Fits { dim: dim.clone(), max });
            }
        }
    }

    /// Tensors that are read where values say.
    pub(crate) fn led(&self) -> Vec<String> {
        let nest = &self.nests[0];
        let led = nest.accesses.iter().filter(|access| !access.by.is_empty() && access.combines.is_none());
        let tensors: BTreeSet<_> = led.map(|access| access.tensor).collect();
        tensors.into_iter().map(|tensor| nest.tensor(tensor).name.clone()).collect()
    }

    /// Copies of what is read where values say, each at a loop where there can be one.
    pub(crate) fn gathered(&mut self) {
        for buffer in self.led() {
            if !self.chance(80) {
                continue;
            }
            self.bounded(&buffer);
            // A box that one value moves, if there is a place where it is one.
            let boxes = self.chance(50);
            for attempt in 0..9 {
                let digit = self.wild_digit();
                let (via, vector) = match boxes && attempt < 5 {
                    true => (Via::Tma, None),
                    false => *self.random.pick(&[
                        (Via::CpAsync, Some(16)),
                        (Via::CpAsync, Some(4)),
                        (Via::Plain, None),
                        (Via::Plain, None),
                    ]),
                };
                let (buffer, transposed) = (buffer.clone(), self.chance(10));
                let target = self.schedule.target;
                if via == Via::Tma && target.sm < Target::CLUSTERS.sm {
                    self.schedule.target = Target::CLUSTERS;
                }
                let kind = directive::Stage {
                    buffer,
                    at: Some(digit.clone()),
                    space: Space::Shared,
                    transposed,
                    via,
                    vector,
                };
                if self.propose(kind) {
                    let stages = 1 + self.random.below(4) as u32;
                    self.propose(directive::Pipeline { digit, stages });
                    break;
                }
                self.schedule.target = target;
            }
        }
    }

    /// Tensors that values are combined with.
    pub(crate) fn combined(&self) -> Vec<String> {
        let nest = &self.nests[0];
        let combined = nest.accesses.iter().filter(|access| access.combines.is_some());
        let found: BTreeSet<_> = combined.map(|access| access.tensor).collect();
        found.into_iter().map(|tensor| nest.tensor(tensor).name.clone()).collect()
    }

    /// Loops of few steps.
    pub(crate) fn short(&self, most: u32) -> Vec<String> {
        let digits = self.digits(true).into_iter();
        digits.filter(|d| d.1.is_some_and(|n| n > 1 && n <= most)).map(|d| d.0).collect()
    }

    /// Values beside a product.
    pub(crate) fn between(&self, product: Option<&Product>) -> Vec<String> {
        let values = self.nests[0].values.iter().filter(|v| product.is_none() || v.reduction.is_none());
        values.map(|v| v.name.clone()).filter(|v| product.is_none_or(|p| p.value != *v)).collect()
    }

    pub(crate) fn produced(&self) -> Vec<String> {
        let found = self.schedule.directives.iter();
        found
            .filter_map(|d| {
                if let D::Produce(directive::Produce { digit, .. }) = &d.kind {
                    Some(digit.clone())
                } else {
                    None
                }
            })
            .collect()
    }

    /// Loops bound to a unit.
    pub(crate) fn bound(&self, unit: Unit, dims: &[UnitDim]) -> Vec<D> {
        let digits = self.short(if unit == Unit::Lane { 32 } else { 512 });
        let bind = |dim: &UnitDim| {
            let dim = *dim;
            digits
                .iter()
                .map(move |digit| D::Bind(directive::Bind { digit: digit.clone(), unit, dim, xor: None }))
        };
        dims.iter().flat_map(bind).collect()
    }

    /// Has accumulators stored in pairs.
    pub(crate) fn pairs_of_stored(&mut self, pairs: &[String]) -> bool {
        let mut any = false;
        for tensor in self.stored() {
            for digit in pairs {
                let within = Some(tensor.clone());
                any |= self.propose(directive::Vectorize { digit: digit.clone(), within });
            }
        }
        any
    }

    /// Dims that axes have.
    pub(crate) fn dims(&self) -> BTreeSet<String> {
        self.kernel.axes.iter().flat_map(|a| a.extent.dims.keys().cloned()).collect()
    }

    /// Names of the program axes.
    pub(crate) fn program_axes(&self) -> Vec<String> {
        let axes = self.kernel.axes.iter().filter(|a| a.kind == AxisKind::Program);
        axes.map(|a| a.name.clone()).collect()
    }

    /// The loops over pairs that accumulators of atoms have, along any axis.
    pub(crate) fn pairs(&self) -> Vec<String> {
        self.kernel.axes.iter().map(|a| format!("{}.pair", a.name)).collect()
    }
}
