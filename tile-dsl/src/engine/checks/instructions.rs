//! Registers that one product of a warpgroup takes.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit},
    directive::{self, DirectiveKind},
    nest::{Role, Scope, registers_of_product, registers_of_thread},
    span::SpanId,
};

/// Each thread has the registers that one product of its warpgroup takes: those are never spilled.
pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let threads = context.computing() + u64::from(nest.producing());
    let (target, ctas) = (context.schedule.target, nest.occupancy.unwrap_or(1));
    let each = registers_of_thread(target, u32::try_from(threads).unwrap_or(u32::MAX), ctas) / 8 * 8;
    let wrong = context.schedule.directives.iter().find_map(|d| {
        let DirectiveKind::TensorCore(directive::TensorCore { value, atom, swapped }) = &d.kind else { return None };
        if atom.row().scope != Scope::Warpgroup {
            return None;
        }
        let columns = atom.size(Role::N);
        let (sums, n) = (columns / 2, columns);
        let taken = registers_of_product(*atom);
        (taken > each).then(|| {
            let text = format!(
                "`{atom}` takes {taken} registers of a thread, {sums} for accumulators of {n} columns and {} for the rest: a CTA of {threads} threads has {each} for each",
                taken - sums
            );
            let fewer = (1..columns).rev().filter(|n| columns.is_multiple_of(*n));
            let fewer = fewer.filter_map(|n| atom.of_columns(n)).map(|atom| {
                Edit::instead([directive::TensorCore { value: value.clone(), atom, swapped: *swapped }])
            });
            context.at(Some(d), SpanId::NONE, text).edits(fewer).edits([Edit::remove()])
        })
    });
    wrong.into_iter().collect()
}
