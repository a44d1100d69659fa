//! Stores: guarded by the extents, done by one replica, and merged into vectors under `#vec`.

use super::{
    context::Cx,
    error::LowerError,
    exchange, expr, guard, loads, output,
    store::{self, StoredPlace},
};
use crate::{
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
        Some(Ok(_)) => {}
        _ => return Err(LowerError::Malformed("no store is planned here".into())),
    }
    let replica = guard::replica_guard(cx, &[]);
    cx.env.owner = replica;
    let value = expr::value(cx, expr);
    cx.env.owner = None;
    let value = value?.expr();
    let lanes = loads::global_lanes(cx, id)?;
    let StoredPlace { mem, base, constant, ty, guard } = store::stored_place(cx, id, lanes, replica)?;
    let dtype = cx.view.nest.elem(cx.view.nest.access(id).tensor);
    store::store_lanes(cx, mem, (base, constant, ty), value, dtype, guard, lanes);
    Ok(())
}
