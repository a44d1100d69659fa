//! Schedules for Hopper: products of warpgroups, tensor maps, producers, collected tiles.

use super::{Generator, matrix::Product};
use crate::{
    directive::{self, DirectiveKind as D},
    nest::Atom,
    schedule::{Space, Target, Unit, UnitDim, Via},
    tile::AxisKind,
};

impl Generator<'_> {
    /// Tiles that atoms divide, mostly; copies by tensor maps, mostly.
    pub(crate) fn wild_warpgroup(&mut self, product: &Product, busy: usize) {
        // Of two products in the steps of a loop the first may be a step ahead.
        if let Some(pair) = self.pair()
            && self.chance(60)
        {
            self.wild_assumptions();
            let unit = *self.random.pick(&[Unit::Warp, Unit::Warpgroup]);
            self.draw_skewed(&pair, unit);
            self.beside_skewed(&pair);
            return self.wild_expansion(busy);
        }
        let (swapped, mut product) = (self.chance(25), product.clone());
        if swapped {
            product.axes.swap(0, 1);
        }
        let product = &product;
        self.schedule.target = Target { sm: 90, specific: true };
        self.warps = true;
        self.wild_assumptions();
        // Halves and thirds of some are no whole patterns of a swizzle.
        let columns = *self.random.pick(&[8, 16, 24, 32, 40, 64, 64, 72, 128]);
        let rows = *self.random.pick(&[64, 64, 128, 128, 192]);
        for axis in &self.kernel.axes {
            let size = match product.axes.iter().position(|a| *a == axis.name) {
                Some(0) => rows,
                // A thread holds at most a register for each of 128 columns of 64 rows.
                Some(1) => columns * *self.random.pick(if columns <= 32 { &[1, 1, 2, 4] } else { &[1] }),
                Some(_) => *self.random.pick(&[16, 32, 64, 64, 128, 48]),
                None if self.chance(40) => *self.random.pick(&[1, 2, 2, 3, 4]),
                None => continue,
            };
            self.propose(directive::Tile { axis: axis.name.clone(), size });
        }
        self.size_recurrences(&[1, 2, 4]);
        for (axis, points) in product.axes.iter().zip([64, columns, 16]) {
            if self.chance(30) {
                let factor = points * *self.random.pick(&[1, 1, 1, 2]);
                let factor = if self.chance(10) { 16 } else { factor };
                self.cut_tile(axis, factor);
            }
        }
        let atom = Atom::from_name("wgmma", Some([64, columns])).expect("a number of columns");
        self.propose(directive::TensorCore { value: product.value.clone(), atom, swapped });
        // Products beside it: what one leaves in registers may be the rows of another.
        let mut others = self.products();
        others.retain(|other| other.value != product.value);
        for other in &others {
            let swapped = self.chance(15);
            let core = |columns| directive::TensorCore {
                value: other.value.clone(),
                atom: Atom::from_name("wgmma", Some([64, columns])).expect("a number of columns"),
                swapped,
            };
            let taken = self.chance(85) && [64, 32, 16, 8].into_iter().any(|n| self.propose(core(n)));
            if !taken && self.chance(50) {
                let value = other.value.clone();
                self.propose(directive::TensorCore { value, atom: Atom::MMA, swapped });
            }
        }
        self.windows_outside(product);
        self.wild_orders(busy);
        let k = product.steps();
        // All copies of a loop that threads of their own make come by tensor maps, and its pipeline is theirs.
        let produced = self.chance(50);
        let of_others = others.iter().flat_map(|other| {
            let at = crate::nest::over_tiles(&other.axes[2]);
            other.factors.iter().map(move |buffer| (buffer, at.clone()))
        });
        let operands: Vec<(&String, String)> =
            product.factors.iter().map(|buffer| (buffer, k.clone())).chain(of_others).collect();
        // Where the axis of a sum is not tiled, its factors are copied at the tiles of another one.
        let tiles: Vec<String> = self.kernel.axes.iter().map(|a| crate::nest::over_tiles(&a.name)).collect();
        for (buffer, at) in operands {
            let ways = [
                (Via::Tma, None),
                (Via::Tma, None),
                (Via::Tma, None),
                (Via::CpAsync, Some(16)),
                (Via::Plain, None),
            ];
            let how = if produced { ways[0] } else { *self.random.pick(&ways) };
            let stage = |at: &String, (via, vector), transposed| {
                D::Stage(directive::Stage {
                    buffer: buffer.clone(),
                    at: Some(at.clone()),
                    space: Space::Shared,
                    transposed,
                    via,
                    vector,
                })
            };
            let ways = [how, (Via::Plain, None)].map(|how| [(how, false), (how, true)]);
            let places: Vec<&String> = [&at].into_iter().chain(&tiles).collect();
            places.into_iter().any(|at| {
                ways.as_flattened().iter().any(|(how, transposed)| self.propose(stage(at, *how, *transposed)))
            });
            let first = self.random.below(3);
            (0..3).any(|n| {
                self.propose(directive::Swizzle { buffer: buffer.clone(), span: 32 << ((first + n) % 3) })
            });
        }
        if produced || self.chance(65) {
            let stages = 2 + self.random.below(3) as u32;
            self.propose(directive::Pipeline { digit: k.clone(), stages });
        }
        // What CTAs that share a reduction store is not collected.
        match self.chance(50) {
            true => self.wild_shares(product, 75),
            false => self.wild_collected(),
        }
        if rows > 64 && self.chance(80) {
            let digit = format!("{}.atom", product.axes[0]);
            self.propose(directive::Bind { digit, unit: Unit::Warpgroup, dim: UnitDim::X, xor: None });
        }
        for _ in 0..self.random.below(busy + 2) {
            let digits = self.digits(true);
            if digits.is_empty() {
                break;
            }
            let digit = self.random.pick(&digits).0.clone();
            let dim = *self.random.pick(&[UnitDim::X, UnitDim::Y, UnitDim::Z]);
            self.propose(directive::Bind { digit, unit: Unit::Warpgroup, dim, xor: None });
        }
        if produced {
            self.wild_producer(&k);
        }
        if self.chance(35) {
            let (serpentine, counter) = self.rounds();
            self.propose(directive::Persistent { ctas: 1, serpentine, counter });
        }
        if self.chance(75) {
            // Products stay in flight in straight-line code.
            let digit = format!("{}.atom", product.axes[2]);
            self.propose(directive::Unroll { digit, within: None });
            let overwrite = self.chance(50);
            let in_flight = if overwrite && self.chance(40) { 0 } else { 1 + self.random.below(2) as u32 };
            self.propose(directive::Issue { value: product.value.clone(), overwrite, in_flight });
        }
        self.wild_expansion(busy);
    }

    /// Whether copies come by tensor maps this time: the target has them.
    pub(crate) fn takes_maps(&mut self) -> bool {
        self.schedule.target.sm >= 90 && self.chance(50)
    }

    /// Has the copies of a pipelined loop made by threads of their own; how registers are shared out then.
    pub(crate) fn wild_producer(&mut self, digit: &str) {
        // Registers are shared out where several warpgroups compute.
        let several = self
            .schedule
            .directives
            .iter()
            .any(|d| matches!(d.kind, D::Bind(directive::Bind { unit: Unit::Warpgroup, .. })));
        let unit = if several || self.chance(30) { Unit::Warpgroup } else { Unit::Warp };
        self.propose(directive::Produce { digit: digit.to_string(), unit, stages: None });
        if self.chance(45) {
            let unit = *self.random.pick(&[Unit::Thread, Unit::Thread, Unit::Warp]);
            self.propose(directive::Arrive { digit: digit.to_string(), unit });
        }
        if self.chance(30) {
            let (serpentine, counter) = self.rounds();
            self.propose(directive::Persistent { ctas: 1, serpentine, counter });
            self.propose(directive::Alternate { digit: digit.to_string() });
        }
        if self.chance(35) {
            let (serpentine, counter) = self.rounds();
            self.propose(directive::Persistent { ctas: 1, serpentine, counter });
            let groups = *self.random.pick(&[2, 2, 2, 3, 4]);
            self.propose(directive::Pingpong { groups });
        }
        if unit == Unit::Warpgroup {
            let consumer = *self.random.pick(&[104, 152, 160, 168, 240]);
            self.propose(directive::Registers { producer: 24, consumer });
        }
        let program = self.kernel.axes.iter().filter(|a| a.kind == AxisKind::Program);
        let axes: Vec<String> = program.map(|a| a.name.clone()).collect();
        if self.chance(50) && !axes.is_empty() {
            let axis = self.random.pick(&axes).clone();
            let ctas = *self.random.pick(&[2, 2, 2, 4, 8, 3]);
            self.propose(directive::Cluster { axis, ctas });
        }
    }

    /// Has lanes exchange what they store, where accumulators lie as they do for it.
    pub(crate) fn wild_exchange(&mut self) {
        for tensor in self.kernel.tensors.iter().filter(|t| t.mutable) {
            let name = tensor.name.clone();
            let pairs = self.kernel.axes.iter().map(|a| format!("{}.pair", a.name));
            let vector = |digit| D::Vectorize(directive::Vectorize { digit, within: Some(name.clone()) });
            if self.chance(50) {
                // Where lanes hold columns, no vector is stored before.
                let _ = pairs.rev().any(|digit| self.propose(vector(digit)));
                self.propose(directive::Exchange { tensor: name });
            }
        }
    }

    /// Collects what is stored, here and there.
    pub(crate) fn wild_collected(&mut self) {
        for tensor in self.kernel.tensors.iter().filter(|t| t.mutable) {
            if self.chance(60) {
                let buffer = tensor.name.clone();
                let stage = |via| {
                    D::Stage(directive::Stage {
                        buffer: buffer.clone(),
                        at: None,
                        space: Space::Shared,
                        transposed: false,
                        via,
                        vector: None,
                    })
                };
                let pairs = self.kernel.axes.iter().map(|a| format!("{}.pair", a.name));
                let matrices = self.chance(50) && {
                    let vector =
                        |digit| D::Vectorize(directive::Vectorize { digit, within: Some(buffer.clone()) });
                    let _ = pairs.rev().any(|digit| self.propose(vector(digit)));
                    self.propose(stage(Via::Stmatrix))
                };
                if (matrices || self.propose(stage(Via::Tma))) && self.chance(60) {
                    let span = 32 << self.random.below(3);
                    self.propose(directive::Swizzle { buffer, span });
                }
            }
        }
    }
}
