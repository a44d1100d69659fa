//! Private tiles have a size.

use crate::{
    diagnostic::{Diagnostic, Edit},
    directive::{self, DirectiveKind},
    engine::checks::Context,
    plan::Unstored,
    tile::TensorId,
};

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    context.nest.private.keys().filter_map(|tensor| of(context, *tensor)).collect()
}

fn of(context: &Context<'_>, tensor: TensorId) -> Option<Diagnostic> {
    let nest = context.nest;
    let store = context.plan.stores().collected(nest, tensor)?;
    let Err(why @ Unstored::Endless(_, dim)) = store.how else { return None };
    let (of, name) = (nest.tensor(tensor), &nest.tensor(tensor).name);
    let by = context
        .last(|k| matches!(k, DirectiveKind::Stage(directive::Stage { buffer, .. }) if buffer == name));
    let access = nest.access(store.access);
    let wrong = context.at(by, nest.private[&tensor], why.text(nest)).note(access.span, "combined here");
    // Each dim of it is as long as launches make it.
    let fits = |max: u32| {
        let dims = of.dims[dim].dims.keys();
        Edit::put(dims.map(|dim| directive::Fits { dim: dim.clone(), max }))
    };
    let bounds = if access.by.contains_key(&dim) { [1024, 64].map(fits).to_vec() } else { Vec::new() };
    Some(wrong.edits(bounds).edits([Edit::remove()]))
}
