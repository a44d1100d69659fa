//! Wished-for units: loops bound to threads, or to lanes and warps, such that warps are whole and reductions are combined.

use super::super::Generator;
use crate::{
    directive::{self, DirectiveKind as D},
    engine::testing::{Kind, kinds},
    nest::{Level, LoopKind, Steps, loops},
    schedule::{Unit, UnitDim},
};
use std::collections::BTreeSet;

/// What [`Generator::draw_threads`] draws together.
pub(super) const THREADS: &[Kind] = &[
    Kind::ReduceLane,
    Kind::ReduceWarp,
    Kind::ReduceCta,
    Kind::BindWarp,
    Kind::BindLane,
    Kind::BindThread,
    Kind::BindXor,
];

const DIMS: [UnitDim; 3] = [UnitDim::X, UnitDim::Y, UnitDim::Z];

impl Generator<'_> {
    /// All wanted kinds of [`THREADS`], where no atom takes the lanes.
    pub(crate) fn draw_threads(&mut self, set: &BTreeSet<Kind>) {
        let has = |kind| set.contains(&kind);
        let reduces = [Kind::ReduceLane, Kind::ReduceWarp, Kind::ReduceCta].into_iter().filter(|k| has(*k));
        let mut taken: Vec<String> = vec![];
        for (kind, value) in reduces.zip(self.reductions()) {
            let level = match kind {
                Kind::ReduceLane => Level::Lane,
                Kind::ReduceWarp => Level::Warp,
                _ => Level::Cta,
            };
            let unit = match kind {
                Kind::ReduceLane => Unit::Lane,
                Kind::ReduceWarp => Unit::Warp,
                _ if has(Kind::BindThread) => Unit::Thread,
                _ => Unit::Warp,
            };
            let axes = self.nests[0].values.iter().find(|v| v.name == value).map(|v| v.axes.clone());
            let own: Vec<String> =
                axes.unwrap_or_default().iter().map(|a| self.nests[0].axis(*a).to_string()).collect();
            let summed =
                |d: &String| !own.iter().any(|a| d.split('.').next() == Some(a)) && !d.ends_with(".o");
            let digits: Vec<String> = self.around(&value).into_iter().filter(summed).collect();
            self.asked(kind, directive::Reduce { value, level });
            let bind = |digit: &String| {
                D::Bind(directive::Bind { digit: digit.clone(), unit, dim: UnitDim::X, xor: None })
            };
            if let Some(digit) = digits.iter().find(|digit| self.asked(kind, bind(digit))) {
                taken.push(digit.clone());
            }
        }
        if has(Kind::BindLane) {
            let xor = has(Kind::BindXor) && !has(Kind::BindThread) && !has(Kind::BindWarp);
            self.bind_whole(Unit::Lane, 32, &taken, xor);
        }
        if has(Kind::BindWarp) {
            let count = match () {
                () if has(Kind::Registers) => 8,
                () if has(Kind::ProduceWarpgroup) => 4,
                () => 2,
            };
            self.bind_whole(Unit::Warp, count, &taken, false);
        }
        if has(Kind::BindThread) {
            let count = match () {
                () if has(Kind::Registers) => 256,
                () if has(Kind::ProduceWarpgroup) => 128,
                () if has(Kind::ProduceWarp) => 32,
                () => *self.random.pick(&[4, 8, 16, 32]),
            };
            self.bind_whole(Unit::Thread, count, &taken, has(Kind::BindXor));
        }
        if has(Kind::BindXor) && !kinds(&self.schedule).contains(&Kind::BindXor) {
            let unit = match () {
                () if has(Kind::BindThread) => Unit::Thread,
                () if has(Kind::BindWarp) => Unit::Warp,
                () => Unit::Lane,
            };
            let mut digits = self.short(32);
            self.shuffle(&mut digits);
            for digit in digits {
                for dim in [UnitDim::Y, UnitDim::Z] {
                    let bind =
                        D::Bind(directive::Bind { digit: digit.clone(), unit, dim, xor: Some(UnitDim::X) });
                    if self.asked(Kind::BindXor, bind) {
                        return;
                    }
                }
            }
        }
    }

    /// Reductions that are not carried, in random order.
    pub(crate) fn reductions(&mut self) -> Vec<String> {
        let nest = &self.nests[0];
        let values = (0..nest.values.len() as u16).map(crate::nest::ValueId);
        let some = values.filter(|v| nest.value(*v).combined_by().is_some() && !nest.is_carried(*v));
        let mut names: Vec<String> = some.map(|v| nest.value(v).name.clone()).collect();
        self.shuffle(&mut names);
        names
    }

    /// Binds loops to the dimensions of a unit until they are so many, which a loop is split for if need be. With `xor`, several loops,
    /// of which the later ones change places by the first.
    pub(crate) fn bind_whole(&mut self, unit: Unit, count: u32, taken: &[String], xor: bool) {
        let kind = match unit {
            Unit::Lane => Kind::BindLane,
            Unit::Warp => Kind::BindWarp,
            _ => Kind::BindThread,
        };
        let mut left = count;
        for digit in taken {
            // What a reduction has taken of them.
            let steps = self.steps_bound(digit, unit).unwrap_or(1);
            left = if left.is_multiple_of(steps) { left / steps } else { 1 };
        }
        for dim in DIMS {
            if left == 1 {
                return;
            }
            let mut digits = self.digits(true);
            digits.retain(|(d, n)| n.is_some_and(|n| n > 1) && !taken.contains(d));
            if xor && dim == UnitDim::X {
                // The later ones have no fewer steps than the first has coordinates.
                digits.retain(|(_, n)| n.is_some_and(|n| n * n <= left));
            }
            self.shuffle(&mut digits);
            // What is enough comes first, then what is most of it.
            let rest = |n: Option<u32>| {
                n.map_or(u32::MAX, |n| if left.is_multiple_of(n) { left / n } else { u32::MAX })
            };
            digits.sort_by_key(|(_, n)| rest(*n));
            for (digit, steps) in digits.into_iter().take(12) {
                let steps = steps.unwrap_or(1);
                let by = (xor && dim != UnitDim::X).then_some(UnitDim::X);
                let bind = |digit| D::Bind(directive::Bind { digit, unit, dim, xor: by });
                if left.is_multiple_of(steps) {
                    if self.asked(kind, bind(digit)) {
                        left /= steps;
                        break;
                    }
                } else if steps.is_multiple_of(left) {
                    self.fresh += 2;
                    let names = vec![format!("d{}", self.fresh), format!("d{}", self.fresh + 1)];
                    let inner = names[1].clone();
                    let split = D::Split(directive::Split { digit, names, factors: vec![left] });
                    if self.asked(kind, split) && self.asked(kind, bind(inner)) {
                        left = 1;
                        break;
                    }
                }
            }
        }
    }

    /// Steps of a loop that is bound to a unit.
    pub(crate) fn steps_bound(&self, name: &str, unit: Unit) -> Option<u32> {
        let nest = &self.nests[0];
        loops(&nest.body).into_iter().find_map(|(digit, kind)| match (kind, digit.steps) {
            (LoopKind::Unit(of, _), Steps::Fixed(n)) if of == unit && nest.digit_name(digit) == name => {
                Some(n)
            }
            _ => None,
        })
    }
}
