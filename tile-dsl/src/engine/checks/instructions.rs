//! Registers that one product of a warpgroup takes.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit},
    directive::{self, DirectiveKind},
    nest::{Role, Scope, registers_of_product},
    span::SpanId,
};

/// Each thread has the registers that one product of its warpgroup takes: those are never spilled.
pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let threads = context.computing() + u64::from(nest.producing());
    let resident = u64::from(nest.occupancy.unwrap_or(1)) * threads.max(1);
    let target = context.schedule.target;
    let each = (u64::from(target.resident_registers()) / resident).min(target.registers().into()) / 8 * 8;
    let wrong = context.schedule.directives.iter().find_map(|d| {
        let DirectiveKind::TensorCore(directive::TensorCore { value, atom, swapped }) = &d.kind else { return None };
        if atom.row().scope != Scope::Warpgroup {
            return None;
        }
        let columns = atom.size(Role::N);
        let (sums, n) = (u64::from(columns / 2), u64::from(columns));
        let taken = u64::from(registers_of_product(*atom));
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
