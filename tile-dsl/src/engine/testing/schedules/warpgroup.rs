//! Schedules for Hopper: products of warpgroups, tensor maps, producers, collected tiles.

use super::{Generator, matrix::Product};
use crate::{
    nest::Atom,
    schedule::{DirectiveKind as D, Space, Target, Unit, UnitDim, Via},
    tile::AxisKind,
};

impl Generator<'_> {
    /// Tiles that atoms divide, mostly; copies by tensor maps, mostly.
    pub(super) fn wild_warpgroup(&mut self, product: &Product, busy: usize) {
        self.schedule.target = Target { sm: 90, specific: true };
        self.warps = true;
        self.wild_assumptions();
        let columns = *self.random.pick(&[8, 16, 32, 64, 64, 128]);
        let mut rows = true;
        for axis in &self.kernel.axes {
            let size = if product.summed.contains(&axis.name) {
                *self.random.pick(&[16, 32, 64, 64, 128, 48])
            } else if axis.kind == AxisKind::Program && std::mem::take(&mut rows) {
                *self.random.pick(&[64, 64, 128, 192])
            } else {
                columns * *self.random.pick(&[1, 1, 2, 4])
            };
            self.propose(D::Tile { axis: axis.name.clone(), size });
        }
        for axis in &self.kernel.axes {
            if self.chance(30) {
                self.fresh += 2;
                let names = vec![format!("d{}", self.fresh), format!("d{}", self.fresh + 1)];
                let factors = vec![*self.random.pick(&[64, columns, 16, 32])];
                self.propose(D::Split { digit: format!("{}.t", axis.name), names, factors });
            }
        }
        let eights = (columns / 8) as u8;
        self.propose(D::TensorCore { value: product.value.clone(), atom: Atom::Wgmma(eights) });
        self.wild_orders(busy);
        let Some(k) = product.summed.first().map(|k| format!("{k}.o")) else { return };
        for buffer in &product.factors {
            let how = *self.random.pick(&[
                (Via::Tma, None),
                (Via::Tma, None),
                (Via::Tma, None),
                (Via::CpAsync, Some(16)),
                (Via::Plain, None),
            ]);
            for transposed in [false, true] {
                let stage = |(via, vector)| D::Stage {
                    buffer: buffer.clone(),
                    at: Some(k.clone()),
                    space: Space::Shared,
                    transposed,
                    via,
                    vector,
                };
                if self.propose(stage(how)) || self.propose(stage((Via::Plain, None))) {
                    break;
                }
            }
            let first = self.random.below(3);
            (0..3)
                .any(|n| self.propose(D::Swizzle { buffer: buffer.clone(), span: 32 << ((first + n) % 3) }));
        }
        if self.chance(65) {
            let stages = 2 + self.random.below(3) as u32;
            self.propose(D::Pipeline { digit: k.clone(), stages });
        }
        for tensor in self.kernel.tensors.iter().filter(|t| t.mutable) {
            if self.chance(40) {
                let buffer = tensor.name.clone();
                let stage = D::Stage {
                    buffer: buffer.clone(),
                    at: None,
                    space: Space::Shared,
                    transposed: false,
                    via: Via::Tma,
                    vector: None,
                };
                if self.propose(stage) && self.chance(60) {
                    let span = 32 << self.random.below(3);
                    self.propose(D::Swizzle { buffer, span });
                }
            }
        }
        for _ in 0..self.random.below(busy + 2) {
            let digits = self.digits(true);
            if digits.is_empty() {
                break;
            }
            let digit = self.random.pick(&digits).0.clone();
            let dim = *self.random.pick(&[UnitDim::X, UnitDim::Y, UnitDim::Z]);
            self.propose(D::Bind { digit, unit: Unit::Warpgroup, dim, xor: None });
        }
        if self.chance(50) {
            let unit = *self.random.pick(&[Unit::Warp, Unit::Warpgroup]);
            self.propose(D::Produce { digit: k, unit });
            if unit == Unit::Warpgroup && self.chance(50) {
                let consumer = *self.random.pick(&[104, 168, 240]);
                self.propose(D::Registers { producer: 24, consumer });
            }
        }
        self.wild_expansion(busy);
    }
}
