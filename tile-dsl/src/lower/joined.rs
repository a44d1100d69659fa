//! Values that lanes have by twos and products take by fours: the four lanes of a row exchange what they have of them.
//!
//! ```text
//! (let [w] P Q)  →  P; join %0, .., %7 = w[..], .., w[..]; set w.joined[0] = %0; ..; Q     // where `Join` plans it
//! ```
//! Elements beyond the end of what is summed are zero.
//!
//! Where products of the step before are in flight meanwhile (`skew`), they read the words of that step until somebody has waited for
//! them. So the next words have registers of their own, and move behind the wait:
//!
//! ```text
//! join %0, .., %7 = w[..], .., w[..]; set w.joined[0] = %0; ..
//! products wait 0 acc[..] w.joined[..]; products replace w.taken[..] = w.joined[..]
//! ```

use super::{
    build::Holds, context::Cx, control, digits, emit::literal, env::Held, error::LowerError, guard, storage,
};
use crate::{
    dtype::DType,
    kernel::{self, Async, Expr as KExpr, Rows, Var},
    nest::{EXCHANGED, Expr, ValueId},
    plan::Join,
};
use std::collections::BTreeMap;

/// Exchanges what lanes have of a value that is computed, where products take it so.
pub(super) fn join(cx: &mut Cx<'_>, value: ValueId) -> Result<(), LowerError> {
    let plan = cx.view.plan;
    let Held { place, registers, .. } = storage::held(cx, value)?;
    let (place, in_registers) = (*place, registers.is_some());
    let Some(join) = plan.joins.get(value, place.nth).filter(|_| in_registers) else { return Ok(()) };
    let dtype = cx.view.nest.value(value).dtype;
    let mut elements: BTreeMap<u32, KExpr> = BTreeMap::new();
    control::each_element(cx, &place.loops, &mut |cx| {
        let (frag, slot) = storage::slot(cx, value)?;
        let held = KExpr::Slot { frag, slot };
        let digits = digits::digits(cx);
        let end = digits::ragged(cx, join.axis, &digits).then(|| guard::end_of(cx, join.axis));
        let within: Vec<_> = end.into_iter().collect();
        let element = match guard::inside(cx, &within) {
            None => held,
            Some(inside) => {
                let zero = literal(0.0, dtype).expr();
                KExpr::Select(Box::new(inside.expr()), Box::new(held), Box::new(zero))
            }
        };
        elements.insert(slot, element);
        Ok(())
    })?;
    let frag =
        cx.build.fragment(cx.view.nest, Holds::Joined(value, place.set), dtype, join.slots.len() as u32);
    for (first, slots) in (0..).step_by(EXCHANGED).zip(join.slots.chunks(EXCHANGED)) {
        // The last tile may have fewer.
        let twos: Option<Vec<KExpr>> = slots.iter().map(|slot| elements.get(slot).cloned()).collect();
        for (slot, value) in (first..).zip(twos.map(|twos| exchanged(cx, dtype, &twos)).unwrap_or_default()) {
            cx.build.emit.stmt(kernel::Stmt::Set { frag, slot, value });
        }
    }
    if let Some(held) = cx.env.held.get_mut(&value) {
        held.joined = Some((frag, join));
    }
    Ok(())
}

/// Behind the wait for the products that read the words of the step before: puts those of this step in their place.
pub(super) fn take(cx: &mut Cx<'_>, value: ValueId) -> Result<(), LowerError> {
    let places = storage::joined_places(cx, value)?;
    let held = storage::held(cx, value)?;
    let (set, Some((from, join))) = (held.place.set, held.joined) else { return Ok(()) };
    let (nest, holds) = (cx.view.nest, Holds::Taken(value, set));
    let frag = cx.build.fragment(nest, holds, nest.value(value).dtype, join.slots.len() as u32);
    let replace = Async::Replace { frag, slots: places.clone(), by: from, from: places };
    cx.build.emit.stmt(kernel::Stmt::Async(replace));
    if let Some(held) = cx.env.held.get_mut(&value) {
        held.joined = Some((frag, join));
    }
    Ok(())
}

/// The registers that products read where elements of a factor are in them already.
pub(super) fn taken(cx: &Cx<'_>, factor: &Expr, elements: &[KExpr]) -> Result<Option<Rows>, LowerError> {
    let Some((_, own, Join { early: true, .. })) = known(cx, factor)? else { return Ok(None) };
    let slots = elements.iter().map(|element| match element {
        KExpr::Slot { frag, slot } if *frag == own => Some(*slot),
        _ => None,
    });
    Ok(slots.collect::<Option<Vec<u32>>>().map(|slots| Rows::Held { frag: own, slots }))
}

/// Elements of two rows side by side by fours, from those that the four lanes of a row have by twos.
pub(super) fn exchanged(cx: &mut Cx<'_>, dtype: DType, twos: &[KExpr]) -> Vec<KExpr> {
    let dst: Vec<Var> = twos.iter().map(|_| cx.build.emit.var(dtype)).collect();
    cx.build.emit.stmt(kernel::Stmt::JoinTwos { dst: dst.clone(), values: twos.to_vec() });
    dst.into_iter().map(KExpr::Var).collect()
}

/// A factor of which lanes have exchanged what they have.
pub(super) type Known<'a> = (ValueId, u32, &'a Join);

/// Where lanes have exchanged all of a factor, the registers.
pub(super) fn known<'a>(cx: &Cx<'a>, factor: &Expr) -> Result<Option<Known<'a>>, LowerError> {
    let Expr::Get(value) = factor else { return Ok(None) };
    let joined = storage::held(cx, *value)?.joined;
    Ok(joined.map(|(frag, join)| (*value, frag, join)))
}

/// What is in the place of the current element behind the exchange.
pub(super) fn element(cx: &Cx<'_>, (value, frag, join): Known<'_>) -> Result<KExpr, LowerError> {
    let (_, slot) = storage::slot(cx, value)?;
    match join.place(slot) {
        Some(slot) => Ok(KExpr::Slot { frag, slot }),
        None => Err(LowerError::Malformed("an element that no lane has exchanged".into())),
    }
}
