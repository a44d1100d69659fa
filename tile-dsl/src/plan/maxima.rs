//! Running maxima that stay as the first step of their loop leaves them (`freeze`).

use crate::nest::{Frozen, Nest, Unfrozen, ValueId};
use std::fmt;

/// Those of a nest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Maxima {
    /// In the order of the values.
    pub all: Vec<Frozen>,
    /// Why others cannot stay that are to.
    pub unfrozen: Vec<Unfrozen>,
}

impl Maxima {
    /// Those of a nest.
    pub fn of(nest: &Nest) -> Maxima {
        let mut maxima = Maxima::default();
        for found in nest.frozen_maxima() {
            match found {
                Ok(frozen) => maxima.all.push(frozen),
                Err(why) => maxima.unfrozen.push(why),
            }
        }
        maxima
    }

    /// That of a `let` of these values, if it has one.
    pub fn of_let(&self, values: &[ValueId]) -> Option<&Frozen> {
        self.all.iter().find(|frozen| values.contains(&frozen.value))
    }

    /// Whether a producer is told which tiles are computed again.
    pub fn are_told(&self) -> bool {
        self.all.iter().any(|frozen| frozen.produced)
    }

    pub(super) fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        let names = |values: &[ValueId]| {
            let names: Vec<&str> = values.iter().map(|v| &*nest.value(*v).name).collect();
            names.join(", ")
        };
        for Frozen { digit, value, unused, sums, narrow, .. } in &self.all {
            let (own, at) = (names(&[*value]), nest.digit_name(*digit));
            let (unused, sums) = (names(unused), names(sums));
            writeln!(out, "frozen {own} in `{at}`: without {unused}; again unless {sums} are finite")?;
            for (sum, dtype) in narrow {
                writeln!(out, "frozen {own}: again unless {} are {dtype}", names(&[*sum]))?;
            }
        }
        Ok(())
    }
}
