//! `stage(..: shared, tma)`: what a tensor map can describe of a copy.
//!
//! Source: PTX ISA 5.5 (tensors, boxes, swizzling modes), CUDA driver API, `cuTensorMapEncodeTiled`.

use super::{
    Failure,
    stage::{Request, aligned_start, refuse},
};
use crate::{
    diagnostic::Edit,
    nest::{BOX_BYTES, CopyId, MAP_DIMENSIONS, Nest, Stmt},
    schedule::Via,
};

/// A tensor map can describe the box: it moves it as it lies in memory, in rows of whole 16 bytes.
pub(crate) fn check(
    nest: &Nest,
    request: &Request<'_>,
    (copy, body): (CopyId, &Stmt),
    turned: bool,
) -> Result<(), Failure> {
    let (name, info) = (request.buffer, nest.copy(copy));
    let dims = nest.footprint(copy, body);
    let size = u64::from(nest.elem(info.tensor).bytes());
    let otherwise =
        |via, transposed, vector| Edit::instead([Request { via, transposed, vector, ..*request }.kind()]);
    if request.vector.is_some() {
        return Err(refuse(format!("vector(..) of `{name}`: a tensor map moves the whole box at once"))
            .edit(otherwise(Via::Tma, request.transposed, None)));
    }
    if dims.is_empty() || dims.len() > MAP_DIMENSIONS {
        return Err(refuse(format!(
            "`{name}` has {} dimensions: a tensor map has 1 to {MAP_DIMENSIONS}",
            dims.len()
        ))
        .edit(otherwise(Via::CpAsync, request.transposed, Some(4))));
    }
    if turned {
        return Err(refuse(format!(
            "a tensor map moves rows of `{name}` as they lie in memory: {}",
            if request.transposed {
                "the copy cannot be transposed"
            } else {
                "its first dimension is contiguous there"
            }
        ))
        .edit(otherwise(Via::Tma, !request.transposed, None))
        .edit(otherwise(Via::Plain, request.transposed, None)));
    }
    let contiguous = nest.contiguous(info.tensor);
    let row = dims[contiguous].extent.unwrap_or(0);
    if !(row * size).is_multiple_of(BOX_BYTES) {
        return Err(refuse(format!(
            "a row of the copy of `{name}` has {row} elements of {size} bytes = {} bytes: a tensor map moves multiples of {BOX_BYTES}",
            row * size
        ))
        .edit(otherwise(Via::Plain, request.transposed, None)));
    }
    if let Some(length) = nest.tensor(info.tensor).dims[contiguous].as_constant()
        && length.unsigned_abs() * size % BOX_BYTES != 0
        && dims.len() > 1
    {
        return Err(refuse(format!(
            "rows of `{name}` are {} bytes apart, no multiple of the {BOX_BYTES} of a tensor map: no launch could use it",
            length.unsigned_abs() * size
        ))
        .edit(otherwise(Via::Plain, request.transposed, None)));
    }
    // The hardware takes the first coordinate of a box in multiples of 16 bytes. How long its sides are, the complete
    // schedule shows.
    aligned_start(nest, copy, (contiguous, dims[contiguous].low), (BOX_BYTES / size) as i64, request)
}
