//! Schedules for tensor cores, where a kernel sums products that they multiply.

use super::Generator;
use crate::{
    nest::{Atom, Factor, Stmt, leaves},
    schedule::{DirectiveKind as D, Space, Via},
};

/// A sum of products: the value, its factors' tensors, the axes that it is summed over.
#[derive(Clone, Debug)]
pub(super) struct Product {
    pub(super) value: String,
    pub(super) factors: Vec<String>,
    pub(super) summed: Vec<String>,
}

impl Generator<'_> {
    /// The sums whose products an atom could multiply.
    pub(super) fn products(&self) -> Vec<Product> {
        let nest = &self.nests[0];
        let mut found = Vec::new();
        leaves(&nest.body, &mut |_, leaf| {
            let Stmt::Red { value, expr, .. } = leaf else { return };
            let Ok(factors) = nest.factors(expr) else { return };
            let types = factors.map(|f| nest.factor_dtype(f));
            let multiplies = |atom: &Atom| {
                let row = atom.row();
                row.rounded == nest.rounds(expr) && types.iter().all(|t| row.operands.contains(t))
            };
            if !Atom::all().any(|a| multiplies(&a)) {
                return;
            }
            let info = nest.value(*value);
            let axes = factors.map(|f| nest.factor_axes(f));
            let loads = factors.into_iter().filter_map(|f| match f {
                Factor::Load(access) => Some(nest.tensor(nest.access(access).tensor).name.clone()),
                Factor::Computed(_) => None,
            });
            let summed = axes[0].intersection(&axes[1]).filter(|a| !info.axes.contains(a));
            found.push(Product {
                value: info.name.clone(),
                factors: loads.collect(),
                summed: summed.map(|a| nest.axis(*a).to_string()).collect(),
            });
        });
        found
    }

    /// Tiles that atoms divide, mostly; copies in rows of 16 bytes, mostly.
    pub(super) fn wild_matrix(&mut self, product: &Product, busy: usize) {
        self.warps = true;
        self.wild_assumptions();
        for axis in &self.kernel.axes {
            let size = *self.random.pick(&[16, 16, 16, 16, 32, 32, 32, 48, 8, 17]);
            self.propose(D::Tile { axis: axis.name.clone(), size });
        }
        for axis in &self.kernel.axes {
            if self.chance(25) {
                self.fresh += 2;
                let names = vec![format!("d{}", self.fresh), format!("d{}", self.fresh + 1)];
                let factors = vec![*self.random.pick(&[8, 16, 16, 16])];
                self.propose(D::Split { digit: format!("{}.t", axis.name), names, factors });
            }
        }
        if self.chance(20) {
            self.wild_places(busy);
        }
        self.propose(D::TensorCore { value: product.value.clone(), atom: Atom::Mma });
        let others = self.products().into_iter().filter(|other| other.value != product.value);
        let mut products = vec![product.clone()];
        for other in others {
            if self.chance(85) {
                self.propose(D::TensorCore { value: other.value.clone(), atom: Atom::Mma });
            }
            products.push(other);
        }
        self.wild_orders(busy);
        for product in &products {
            self.wild_operands(product);
        }
        self.wild_units(busy);
        self.wild_expansion(busy);
    }

    /// Copies of the factors of a product, and pipelines over them.
    fn wild_operands(&mut self, product: &Product) {
        let Some(k) = product.summed.first().cloned() else { return };
        let at = if self.chance(95) { format!("{k}.o") } else { k.clone() };
        for buffer in &product.factors {
            let plain = |at: &str, transposed| D::Stage {
                buffer: buffer.clone(),
                at: Some(at.to_string()),
                space: Space::Shared,
                transposed,
                via: Via::Plain,
                vector: None,
            };
            let transposed = self.chance(30);
            let mut kind = plain(&at, transposed);
            if let D::Stage { via, vector, .. } = &mut kind {
                *via = *self.random.pick(&[Via::Plain, Via::CpAsync]);
                *vector = *self.random.pick(&[None, None, Some(4), Some(8), Some(16)]);
            }
            let axes: Vec<String> = self.kernel.axes.iter().map(|a| format!("{}.o", a.name)).collect();
            // Where the axis is not tiled, at the tiles of another.
            let staged = self.propose(kind)
                || self.propose(plain(&at, transposed))
                || axes.iter().any(|axis| self.propose(plain(axis, transposed)));
            if staged {
                match self.random.below(4) {
                    0 => {
                        self.propose(D::Pad { buffer: buffer.clone(), bytes: 16 });
                    }
                    1 => {
                        let span = 32 << self.random.below(3);
                        self.propose(D::Swizzle { buffer: buffer.clone(), span });
                    }
                    2 => self.wild_layout(buffer),
                    _ => {}
                }
            }
        }
        let atoms = match self.chance(50) {
            true => format!("{k}.atom"),
            false => format!("{k}.{}", product.value),
        };
        if self.chance(40) {
            for buffer in &product.factors {
                if self.chance(85) {
                    self.propose(D::Fragment { buffer: buffer.clone(), at: atoms.clone() });
                }
            }
        }
        for digit in [at, atoms] {
            if self.chance(50) {
                let stages = 2 + self.random.below(3) as u32;
                self.propose(D::Pipeline { digit, stages });
            }
        }
    }
}
