//! Schedules for tensor cores, where a kernel sums products that they multiply.

use super::Generator;
use crate::{
    directive::tensor_core,
    directive::{self, DirectiveKind as D},
    index::AxisId,
    nest::{Atom, Stmt, leaves},
    schedule::{Space, Via},
};

/// A sum of products that an atom could multiply.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub(crate) value: String,
    /// What copies of the factors that are loads are called.
    pub(crate) factors: Vec<String>,
    /// The axes of the atom: rows, columns, points of the sum.
    pub(crate) axes: [String; 3],
    /// The other axes that it is summed over.
    windows: Vec<String>,
}

impl Product {
    /// The loop over tiles of the sum.
    pub(crate) fn steps(&self) -> String {
        crate::nest::over_tiles(&self.axes[2])
    }
}

impl Generator<'_> {
    /// The sums whose products an atom could multiply.
    pub(crate) fn products(&self) -> Vec<Product> {
        let nest = &self.nests[0];
        let mut found = Vec::new();
        leaves(&nest.body, &mut |_, leaf| {
            let Stmt::Red { value, expr, .. } = leaf else { return };
            let Ok(factors) = nest.factors(expr) else { return };
            let types = factors.map(|f| nest.factor_dtype(f));
            let multiplies = |atom: &Atom| {
                let row = atom.row();
                row.rounded == nest.rounds(expr) && types.iter().all(|t| row.multiplies(*t))
            };
            let info = nest.value(*value);
            let Some(own) = Atom::all().find(multiplies).and_then(|a| tensor_core::axes(nest, *value, a))
            else {
                return;
            };
            let axes = factors.map(|f| nest.factor_axes(f));
            let loads = factors.into_iter().filter_map(|f| f.element()).map(|access| {
                let access = nest.access(access);
                let one = nest.buffers(access.tensor).len() == 1 || !access.by.is_empty();
                if one { nest.tensor(access.tensor).name.clone() } else { nest.read_name(access) }
            });
            let windows =
                axes[0].intersection(&axes[1]).filter(|a| !info.axes.contains(a) && !own.contains(a));
            let name = |a: AxisId| nest.axis(a).to_string();
            found.push(Product {
                value: info.name.clone(),
                factors: loads.collect(),
                axes: own.map(name),
                windows: windows.copied().map(name).collect(),
            });
        });
        found
    }

    /// Tiles that atoms divide, mostly; copies in rows of 16 bytes, mostly.
    pub(crate) fn wild_matrix(&mut self, product: &Product, busy: usize) {
        self.warps = true;
        self.wild_assumptions();
        let all = self.products();
        let taken = |axis: &str| all.iter().any(|p| p.axes.iter().any(|a| a == axis));
        // Now and then, what no atom divides.
        let odd = self.chance(15);
        for axis in &self.kernel.axes {
            let size = match taken(&axis.name) {
                true if odd => *self.random.pick(&[16, 32, 8, 17]),
                true => *self.random.pick(&[16, 16, 16, 32, 32, 48]),
                false if self.chance(40) => *self.random.pick(&[1, 2, 2, 3, 4]),
                false => continue,
            };
            self.propose(directive::Tile { axis: axis.name.clone(), size });
        }
        self.size_recurrences(&[1, 2, 4]);
        for axis in self.kernel.axes.iter().filter(|a| taken(&a.name)) {
            if self.chance(25) {
                let factor = if odd { 8 } else { 16 };
                self.cut_tile(&axis.name, factor);
            }
        }
        if self.chance(20) {
            self.wild_places(busy);
        }
        let swapped = self.chance(20);
        self.propose(directive::TensorCore { value: product.value.clone(), atom: Atom::MMA, swapped });
        let others = all.into_iter().filter(|other| other.value != product.value);
        let mut products = vec![product.clone()];
        for other in others {
            if self.chance(85) {
                let swapped = self.chance(20);
                self.propose(directive::TensorCore { value: other.value.clone(), atom: Atom::MMA, swapped });
            }
            products.push(other);
        }
        self.windows_outside(product);
        self.wild_orders(busy);
        for product in &products {
            self.wild_operands(product);
        }
        self.wild_shares(product, 25);
        self.wild_units(busy);
        self.wild_expansion(busy);
    }

    /// Now and then, CTAs share the tiles of the sum.
    pub(crate) fn wild_shares(&mut self, product: &Product, percent: usize) {
        if self.chance(percent) {
            let parts = *self.random.pick(&[2, 2, 3, 4, 8]);
            let across = self.meeting();
            self.propose(directive::SplitK { digit: product.steps(), parts, across });
        }
    }

    /// Splits the tile of an axis.
    pub(crate) fn cut_tile(&mut self, axis: &str, factor: u32) {
        self.fresh += 2;
        let names = vec![format!("d{}", self.fresh), format!("d{}", self.fresh + 1)];
        self.propose(directive::Split { digit: crate::nest::in_tile(axis), names, factors: vec![factor] });
    }

    /// Steps of a window around the tiles of the sum, mostly: a copy is then of one step.
    pub(crate) fn windows_outside(&mut self, product: &Product) {
        if !product.windows.is_empty() && self.chance(80) {
            let digits = product.windows.iter().cloned().chain([product.steps()]).collect();
            self.propose(directive::Reorder { digits, within: Some(product.value.clone()) });
        }
    }

    /// Copies of the factors of a product, and pipelines over them.
    pub(crate) fn wild_operands(&mut self, product: &Product) {
        let k = product.axes[2].clone();
        let at = if self.chance(95) { crate::nest::over_tiles(&k) } else { k.clone() };
        let maps = self.takes_maps();
        for buffer in &product.factors {
            let transposed = self.chance(30);
            let stage = |at: &str, (via, vector), transposed| {
                D::Stage(directive::Stage {
                    buffer: buffer.clone(),
                    at: Some(at.to_string()),
                    space: Space::Shared,
                    transposed,
                    via,
                    vector,
                })
            };
            let plain = |at: &str| stage(at, (Via::Plain, None), transposed);
            let first = match maps {
                true => [false, true].into_iter().any(|t| self.propose(stage(&at, (Via::Tma, None), t))),
                false => {
                    let via = *self.random.pick(&[Via::Plain, Via::CpAsync]);
                    let vector = *self.random.pick(&[None, None, Some(4), Some(8), Some(16)]);
                    self.propose(stage(&at, (via, vector), transposed))
                }
            };
            let axes: Vec<String> =
                self.kernel.axes.iter().map(|a| crate::nest::over_tiles(&a.name)).collect();
            // Where the axis is not tiled, at the tiles of another.
            let staged =
                first || self.propose(plain(&at)) || axes.iter().any(|axis| self.propose(plain(axis)));
            if staged {
                match self.random.below(4) {
                    0 => {
                        self.propose(directive::Pad { buffer: buffer.clone(), bytes: 16 });
                    }
                    1 => {
                        let span = 32 << self.random.below(3);
                        self.propose(directive::Swizzle { buffer: buffer.clone(), span });
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
                    self.propose(directive::Fragment { buffer: buffer.clone(), at: atoms.clone() });
                }
            }
        }
        for (digit, held) in [(at, false), (atoms, true)] {
            if self.chance(50) {
                let stages = 2 + self.random.below(3) as u32;
                let piped = self.propose(directive::Pipeline { digit: digit.clone(), stages });
                if piped && maps && self.chance(50) {
                    self.wild_producer(&digit);
                }
                if piped && held && self.chance(50) {
                    self.interleave(digit);
                }
            }
        }
    }
}
