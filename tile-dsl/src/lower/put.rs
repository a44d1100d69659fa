//! Stores: guarded by the extents, done by one replica, and merged into vectors under `#vec`.

use super::{
    context::Cx,
    error::LowerError,
    exchange, expr,
    gather::{self, Place},
    guard, loads, output, private, store,
};
use crate::{
    kernel::Expr as KExpr,
    nest::{AccessId, Expr},
    plan::StorePath,
    program::Variant,
};

pub(super) fn put(cx: &mut Cx<'_>, id: AccessId, expr: &Expr) -> Result<(), LowerError> {
    let plan = cx.view.plan;
    match plan.stores.get(id) {
        Some(Ok(StorePath::Collected(how))) => return output::collect(cx, id, how, expr),
        // Without vectors, lanes store what they hold.
        Some(Ok(StorePath::Exchanged(how))) if cx.view.variant != Variant::General => {
            return exchange::exchange(cx, id, how, expr);
        }
        Some(Ok(StorePath::Private(tile))) => {
            let replica = guard::replica_guard(cx, &[]);
            let (place, value) = element(cx, id, expr)?;
            return private::combine(cx, id, tile, (place, value), replica);
        }
        Some(Ok(_)) => {}
        _ => return Err(LowerError::Malformed("no store is planned here".into())),
    }
    let replica = guard::replica_guard(cx, &[]);
    cx.env.owner = replica;
    let element = element(cx, id, expr);
    cx.env.owner = None;
    let (place, value) = element?;
    let lanes = loads::global_lanes(cx, id)?;
    let place = store::stored_place(cx, id, place, lanes, replica)?;
    let dtype = cx.view.nest.elem(cx.view.nest.access(id).tensor);
    store::store_lanes(cx, &place, value, dtype, lanes);
    Ok(())
}

/// Where an element is stored at the current point, and the element.
fn element(cx: &mut Cx<'_>, id: AccessId, expr: &Expr) -> Result<(Place, KExpr), LowerError> {
    let (by, when, value) = expr.stored();
    let by = by.iter().map(|value| expr::named(cx, value)).collect::<Result<Vec<_>, _>>()?;
    let mut place = gather::place(cx, id, &by)?;
    if let Some(when) = when {
        let when = expr::named(cx, when)?;
        place.guard = cx.build.emit.and(place.guard, Some(when));
    }
    Ok((place, expr::value(cx, value)?.expr()))
}
