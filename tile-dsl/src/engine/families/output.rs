//! `stage` of a tensor that the kernel stores to: what a CTA stores of it is collected in shared memory, and a tensor map
//! takes it from there.
//!
//! No statement is rewritten: each element is stored by the statement that stored it before, only later, and once.
//!
//! Side conditions: one statement stores to the tensor, as the parts that several store are no whole boxes up to its end; nothing reads it; each of its dimensions is indexed by an axis of
//! its own that ends where the tensor does, so that the hardware leaves out what the statement would have. So the tensor is
//! stored as a whole, and no one needs what it held before; launches count on that (`stored` of a tensor map). That rows of the tile are whole
//! 16 bytes, and start at multiples of them, that the tile has a size, and is stored as a whole, the complete schedule shows.

use super::{Failure, Proof, stage::Request};
use crate::{
    diagnostic::{Diagnostic, Edit},
    directive,
    nest::{AccessId, Frame, MAP_DIMENSIONS, Nest, Output, Target, leaves},
    schedule::Via,
    span::SpanId,
    tile::TensorId,
};
use std::collections::BTreeSet;

fn refuse(text: String) -> Failure {
    Failure::refused(Diagnostic::new(SpanId::NONE, text))
}

/// Where a tensor is stored to, and the first place where it is read.
pub(crate) fn accesses(nest: &Nest, tensor: TensorId) -> (Vec<AccessId>, Option<AccessId>) {
    let mut stores = Vec::new();
    let mut read = None;
    leaves(&nest.body, &mut |_: &[Frame], leaf| {
        let (target, expr) = leaf.leaf().expect("a leaf");
        if let Target::Access(a) = target
            && nest.access(a).tensor == tensor
        {
            stores.push(a);
        }
        read = read.or_else(|| expr.accesses().into_iter().find(|a| nest.access(*a).tensor == tensor));
    });
    (stores, read)
}

/// What is stored together is stored where forms alone say, at all points.
pub(crate) fn by_forms(nest: &Nest, access: AccessId) -> Result<(), Failure> {
    let info = nest.access(access);
    let Some(why) = info.decided_by() else { return Ok(()) };
    let name = &nest.tensor(info.tensor).name;
    Err(refuse(format!("`{name}` is stored {why}: each element is stored by itself"))
        .note(info.span, "stored here")
        .edit(Edit::remove()))
}

/// `stage(tensor: shared, tma)` for a tensor that is stored to.
pub(crate) fn apply(nest: &Nest, request: &Request<'_>, tensor: TensorId) -> Result<(Nest, Proof), Failure> {
    let (name, info) = (request.buffer, nest.tensor(tensor));
    let (stores, read) = accesses(nest, tensor);
    let plain = || {
        Edit::instead([
            Request { at: None, via: Via::Tma, transposed: false, vector: None, ..*request }.kind()
        ])
    };
    if !matches!(request.via, Via::Tma | Via::Stmatrix) || request.transposed || request.vector.is_some() {
        return Err(refuse(format!(
            "a tile of `{name}` that is collected in shared memory is stored by a tensor map"
        ))
        .edit(plain())
        .edit(Edit::remove()));
    }
    if let Some(read) = read {
        return Err(refuse(format!(
            "`{name}` is read, too: a read would not see elements that wait in shared memory"
        ))
        .note(nest.access(read).span, format!("`{name}` is read here"))
        .edit(Edit::remove()));
    }
    let [access] = stores.as_slice() else {
        // Their elements never meet, so none stores the whole tensor.
        let failure = refuse(format!(
            "{} statements store to `{name}`, each a part of it: a tensor map stores boxes of the whole tensor, up to its end",
            stores.len()
        ));
        let noted = stores.iter().fold(failure, |f, a| f.note(nest.access(*a).span, "one stores here"));
        let exchange = Edit::instead([directive::Exchange { tensor: name.to_string() }]);
        return Err(noted.edit(exchange.remark("lanes store each part")).edit(Edit::remove()));
    };
    by_forms(nest, *access)?;
    let rank = info.dims.len();
    if !(1..=MAP_DIMENSIONS).contains(&rank) {
        return Err(refuse(format!(
            "`{name}` has {rank} dimensions: a tensor map has 1 to {MAP_DIMENSIONS}"
        ))
        .edit(Edit::remove()));
    }
    let mut axes = BTreeSet::new();
    for (index, extent) in nest.access(*access).index.iter().zip(&info.dims) {
        let own = index.as_axis().is_none_or(|a| axes.insert(a));
        if !own {
            return Err(refuse(format!(
                "`{name}` is stored along a diagonal, at `{}` of several dimensions: a tensor map stores whole boxes",
                nest.print_affine(index)
            ))
            .note(nest.access(*access).span, "stored here")
            .edit(Edit::remove()));
        }
        let whole = index.as_axis().is_some_and(|a| nest.kernel.axes[usize::from(a.0)].extent == *extent);
        if !whole {
            return Err(refuse(format!(
                "`{name}` is stored at `{}`: a tensor map stores up to the end of the tensor, {extent}",
                nest.print_affine(index)
            ))
            .note(nest.access(*access).span, "stored here")
            .edit(Edit::remove()));
        }
    }
    let mut nest = nest.clone();
    nest.outputs
        .insert(tensor, Output { swizzle: 0, matrices: request.via == Via::Stmatrix, span: request.span });
    let fact = format!("what a CTA stores of `{name}` is collected in shared memory");
    Ok((nest, Proof { facts: vec![fact], ..Proof::default() }))
}
