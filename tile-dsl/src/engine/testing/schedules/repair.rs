//! What the final checks object to leaves a schedule, until none is left.

use super::{Generator, TYPICAL, dtypes, work::work};
use crate::{
    directive::{self, DirectiveKind},
    dtype::DType,
    engine::prove,
    nest,
    schedule::Schedule,
    tile::Kernel,
};

impl Generator<'_> {
    /// Drops directives that the final checks object to, until none is left or the schedule is hopeless.
    pub(crate) fn repair(mut self) -> Option<Schedule> {
        for _ in 0..12 {
            let proved: Result<Vec<_>, _> =
                dtypes(self.kernel).into_iter().map(|t| prove(self.kernel, &self.schedule, t)).collect();
            let span = match proved {
                Ok(nests) => {
                    let quick =
                        nests.iter().all(|(nest, _)| work(nest, self.extents, TYPICAL) <= self.most_work);
                    return quick.then_some(self.schedule);
                }
                Err(wrong) => wrong[0].span,
            };
            let at = self.schedule.directives.iter().position(|d| d.span == span)?;
            without(self.kernel, &mut self.schedule, at)?;
        }
        None
    }
}

/// Takes a directive away, or makes it smaller where there must be one; nothing if it is as small as can be.
pub(super) fn without(kernel: &Kernel, schedule: &mut Schedule, at: usize) -> Option<()> {
    if let DirectiveKind::Tile(directive::Tile { axis, size }) = &mut schedule.directives[at].kind {
        let dtype = kernel.generic.as_ref().map(|_| DType::F32);
        let nest = nest::initial(&kernel.instantiate(dtype)).ok()?;
        if nest.recurrences.keys().any(|a| nest.axis(*a) == axis) {
            *size /= 2;
            return (*size > 0).then_some(());
        }
    }
    schedule.directives.remove(at);
    Some(())
}
