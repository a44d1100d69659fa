//! Schedules of two products of a step by warpgroups, of which the first is a step ahead.

use super::{Generator, matrix::Product};
use crate::{
    directive::{self, DirectiveKind as D},
    nest::{Access, Atom, over_tiles},
    schedule::{Space, Target, Unit, UnitDim, Via},
    tile::AxisKind,
};

/// Two products of a step: the columns of the first are what the second adds up.
pub(crate) struct Pair {
    pub(crate) first: Product,
    second: Product,
    /// The rows of both.
    rows: String,
    /// The loop.
    at: String,
}

impl Pair {
    /// The axis of a product that is neither its rows nor its points.
    fn columns<'p>(&self, product: &'p Product) -> &'p str {
        let [a, b, _] = &product.axes;
        if *a == self.rows { b } else { a }
    }

    /// Where the rows of a product are those of its second factor.
    fn swapped(&self, product: &Product) -> bool {
        product.axes[0] != self.rows
    }
}

impl Generator<'_> {
    /// The products of a step of which the first can be a step ahead, if there are two.
    pub(crate) fn pair(&self) -> Option<Pair> {
        let all = self.products();
        let of = |second: &Product| {
            let points = &second.axes[2];
            let first = all.iter().find(|p| p.value != second.value && p.axes[..2].contains(points))?;
            let rows = first.axes[..2].iter().find(|a| *a != points && second.axes[..2].contains(a))?.clone();
            Some(Pair { first: first.clone(), second: second.clone(), rows, at: over_tiles(points) })
        };
        all.iter().find_map(of)
    }

    /// Both products by warpgroups, copies by a producer's tensor maps, and the first product a step ahead.
    pub(crate) fn draw_skewed(&mut self, pair: &Pair, unit: Unit) {
        self.schedule.target = Target { sm: 90, specific: true };
        self.warps = true;
        let several = unit == Unit::Warpgroup && self.chance(70);
        let rows = if several { 128 } else { 64 };
        let columns = *self.random.pick(&[16, 32, 32, 64]);
        for product in [&pair.first, &pair.second] {
            // Of the other axes a CTA holds all.
            let points = *self.random.pick(&[16, 32, 64]);
            let own = [&product.axes[2], pair.columns(product)].map(str::to_string);
            for axis in self.kernel.axes.iter().filter(|a| own.contains(&a.name)) {
                if let (AxisKind::Whole, Some(dim)) = (axis.kind, axis.extent.dims.keys().next()) {
                    self.propose(directive::Fits { dim: dim.clone(), max: points });
                    self.propose(directive::Tile { axis: axis.name.clone(), size: points });
                }
            }
        }
        self.propose(directive::Tile { axis: pair.rows.clone(), size: rows });
        self.propose(directive::Tile { axis: pair.columns(&pair.first).to_string(), size: columns });
        // The loop over warpgroups has a name, or is the atom's.
        let mut groups = format!("{}.atom", pair.rows);
        if several && self.chance(50) {
            self.cut_tile(&pair.rows, 64);
            groups = format!("d{}", self.fresh);
        }
        for product in [&pair.first, &pair.second] {
            let swapped = pair.swapped(product);
            let core = |n| directive::TensorCore {
                value: product.value.clone(),
                atom: Atom::from_name("wgmma", Some([64, n])).expect("a number of columns"),
                swapped,
            };
            let _ = [64, 32, 16].into_iter().any(|n| self.propose(core(n)));
        }
        let around = over_tiles(&pair.rows);
        for buffer in pair.first.factors.iter().chain(&pair.second.factors) {
            let again = self.chance(15);
            let at = if again || self.varies_with(buffer, &pair.second.axes[2]) { &pair.at } else { &around };
            self.propose(D::Stage(directive::Stage {
                buffer: buffer.clone(),
                at: Some(at.clone()),
                space: Space::Shared,
                transposed: false,
                via: Via::Tma,
                vector: None,
            }));
            let spans: &[u32] = if self.chance(70) { &[128, 64, 32] } else { &[32, 64, 128] };
            let swizzle = |span: &u32| directive::Swizzle { buffer: buffer.clone(), span: *span };
            let _ = spans.iter().any(|span| self.propose(swizzle(span)));
        }
        let stages = 2 + self.random.below(3) as u32;
        self.propose(directive::Pipeline { digit: pair.at.clone(), stages });
        if several {
            self.propose(directive::Bind {
                digit: groups,
                unit: Unit::Warpgroup,
                dim: UnitDim::X,
                xor: None,
            });
        }
        self.propose(directive::Produce { digit: pair.at.clone(), unit, stages: None });
        for product in [&pair.first, &pair.second] {
            for axis in &self.kernel.axes {
                let within = Some(product.value.clone());
                self.propose(directive::Unroll { digit: format!("{}.atom", axis.name), within });
            }
        }
        self.propose(directive::Skew { value: pair.first.value.clone() });
    }

    /// What else products that are a step ahead have beside them, here and there.
    pub(crate) fn beside_skewed(&mut self, pair: &Pair) {
        for product in [&pair.first, &pair.second] {
            if self.chance(50) {
                let value = product.value.clone();
                self.propose(directive::Issue { value, overwrite: true, in_flight: 0 });
            }
        }
        if self.chance(45) {
            self.propose(directive::Arrive { digit: pair.at.clone(), unit: Unit::Thread });
        }
        if self.chance(35) {
            let (serpentine, counter) = self.rounds();
            self.propose(directive::Persistent { ctas: 1, serpentine, counter });
        }
        if self.chance(50) {
            let stages = self.chance(60).then(|| 2 + self.random.below(2) as u32);
            let tiles = |unit| directive::Produce { digit: pair.rows.clone(), unit, stages };
            let _ = self.propose(tiles(Unit::Warpgroup)) || self.propose(tiles(Unit::Warp));
        }
        if self.chance(40) {
            let consumer = *self.random.pick(&[104, 152, 240]);
            self.propose(directive::Registers { producer: 24, consumer });
        }
        if self.chance(30) {
            self.propose(directive::Cluster { axis: pair.rows.clone(), ctas: 2 });
        }
    }

    /// Whether what is read of a tensor varies along an axis.
    fn varies_with(&self, buffer: &str, axis: &str) -> bool {
        let nest = &self.nests[0];
        let of = |access: &&Access| nest.tensor(access.tensor).name == buffer;
        nest.accesses.iter().filter(of).any(|a| a.axes().into_iter().any(|found| nest.axis(found) == axis))
    }
}
