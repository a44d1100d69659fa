//! `let`s: values are given their places, started, computed, brought together, and read.

use super::{
    across, cluster, combine,
    context::Cx,
    control, digits,
    emit::{Atom, literal},
    env::Held,
    error::LowerError,
    freeze, joined, lookback, storage,
};
use crate::{
    kernel,
    nest::{Across, Step, Steps, Stmt, ValueId, writers},
    op::CmpOp,
};

/// What a part of a `let` does.
pub(super) type Part<'f, 'a> = &'f dyn Fn(&mut Cx<'a>) -> Result<(), LowerError>;

/// A `let` of values that `first` computes: `compute` does, `rest` reads them.
pub(super) fn bound<'a>(
    cx: &mut Cx<'a>,
    values: &[ValueId],
    first: &Stmt,
    compute: Part<'_, 'a>,
    rest: Part<'_, 'a>,
) -> Result<(), LowerError> {
    if !values.is_empty() && values.iter().all(|v| cx.env.is_left_out(*v)) {
        compute(cx)?;
        return rest(cx);
    }
    let outer: Vec<_> = values.iter().map(|v| (*v, cx.env.held.get(v).cloned())).collect();
    for value in values {
        storage::hold(cx, *value, first)?;
        combine::spread_partials(cx, *value)?;
        initialise(cx, *value)?;
    }
    match cx.view.plan.maxima.of_let(values) {
        None => compute(cx)?,
        Some(frozen) => freeze::computed(cx, frozen, compute)?,
    }
    for value in values {
        freeze::compare(cx, *value)?;
        zero_sums_of_nothing(cx, *value, first)?;
        combine::combine(cx, *value)?;
    }
    lookback::states(cx, values)?;
    match across::across(cx, values) {
        None => match lookback::is_last(cx, values) {
            None => go_on(cx, values, rest)?,
            Some(last) => control::in_some_ctas(cx, last, |cx| go_on(cx, values, rest))?,
        },
        Some(Across::Workspace) => {
            across::through_workspace(cx, values, |cx| go_on(cx, values, rest))?;
        }
        Some(Across::Cluster) => {
            cluster::through_cluster(cx, values, |cx| go_on(cx, values, rest))?;
        }
        Some(Across::Atomic) => across::add_atomically(cx, values, |cx| go_on(cx, values, rest))?,
    }
    for (value, old) in outer {
        match old {
            Some(old) => cx.env.held.insert(value, old),
            None => cx.env.held.remove(&value),
        };
    }
    Ok(())
}

/// What reads the values, once all threads that read those in shared memory can.
fn go_on<'a>(cx: &mut Cx<'a>, values: &[ValueId], rest: Part<'_, 'a>) -> Result<(), LowerError> {
    for value in values {
        storage::publish(cx, *value)?;
        joined::join(cx, *value)?;
    }
    let published = values.iter().any(|v| cx.env.held.get(v).is_some_and(|h| h.shared.is_some()));
    if published {
        cx.build.barrier();
    }
    rest(cx)
}

/// Reductions and carried state start at the `let`.
pub(super) fn initialise(cx: &mut Cx<'_>, value: ValueId) -> Result<(), LowerError> {
    let v = &cx.view.nest.values[value.0 as usize];
    let Held { place, sum, registers, .. } = storage::held(cx, value)?;
    let (place, combined, registers) = (*place, sum.is_some(), *registers);
    if cx.view.nest.overwrites(value) {
        return Ok(());
    }
    let start = match (v.reduction, v.init) {
        // Partial results start neutral; the initial element joins once, after they combine.
        (Some(op), init) if combined || init.is_none() => f64::from(op.neutral()),
        (_, Some(init)) => init,
        (None, None) => return Ok(()),
        (Some(_), None) => unreachable!("handled above"),
    };
    if let Some(registers) = registers {
        for slot in 0..registers.slots {
            let value = literal(start, v.dtype).expr();
            cx.build.emit.stmt(kernel::Stmt::Set { frag: registers.frag, slot, value });
        }
        return Ok(());
    }
    // In shared memory: each thread starts the elements that it accumulates.
    control::each_element(cx, &place.loops, &mut |cx| {
        storage::store_shared(cx, value, literal(start, v.dtype).expr())
    })
}

/// Sums that the first product overwrites are zero where there is none. Loops that leave tiles out have no such products: a factor of
/// theirs is masked, and asynchronous MMA computes none.
fn zero_sums_of_nothing(cx: &mut Cx<'_>, value: ValueId, first: &Stmt) -> Result<(), LowerError> {
    if !cx.view.nest.overwrites(value) {
        return Ok(());
    }
    let own = &cx.view.nest.value(value).axes;
    let loops: Vec<Step> = writers(cx.view.nest, first, value).into_iter().flatten().collect();
    let open =
        |step: &&Step| digits::run_time(cx, **step).steps == Steps::Rest && !own.contains(&step.0.axis);
    let Some(digit) = loops.iter().find(open).map(|(d, _)| *d) else { return Ok(()) };
    let end = control::end(cx, digit);
    let none = cx.build.emit.cmp(CmpOp::Le, end, Atom::i32(0));
    let Some(registers) = storage::held(cx, value)?.registers else { return Ok(()) };
    let dtype = cx.view.nest.value(value).dtype;
    control::only_if(cx, Some(none), |cx| {
        for slot in 0..registers.slots {
            let value = literal(0.0, dtype).expr();
            cx.build.emit.stmt(kernel::Stmt::Set { frag: registers.frag, slot, value });
        }
    });
    Ok(())
}
