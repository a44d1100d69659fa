//! What is read from copies in registers.

use super::{context::Cx, env::HeldFragment, error::LowerError};
use crate::{
    kernel::Expr as KExpr,
    nest::{AccessId, ElementIndex},
};

/// What is read at the current point, as it lies in a fragment; `None` where no fragment has it.
pub(super) fn element_index(cx: &Cx<'_>, access: AccessId, height: usize) -> Option<ElementIndex> {
    let loops = cx.env.stack[height..].iter().map(|b| (b.digit, b.at, b.fixed()));
    cx.view.nest.element_index(&cx.view.nest.access(access).index, loops)
}

/// The slots of what is read at the current point, from the innermost fragment of its tensor, if there is one.
pub(super) fn fragment_slots(
    cx: &mut Cx<'_>,
    access: AccessId,
    count: usize,
) -> Result<Option<Vec<KExpr>>, LowerError> {
    let serves = |f: &&HeldFragment| cx.view.nest.serves(f.copy, access);
    let Some(active) = cx.env.fragments.iter().rev().find(serves).cloned() else {
        return Ok(None);
    };
    let index = element_index(cx, access, active.height);
    let Some(slot) = index.and_then(|index| active.layout.slot(&index)) else {
        return Err(LowerError::Malformed(format!(
            "`{}` is read beside its fragment",
            cx.view.nest.copy_name(active.copy)
        )));
    };
    let slots = (0..count as u32).map(|n| KExpr::Slot { frag: active.frag, slot: active.first + slot + n });
    Ok(Some(slots.collect()))
}
