//! Which bytes a tensor copy moves: the pieces of a tile, or of an im2col window (PTX ISA §5.5.3, §5.5.4).

use super::Chunk;
use crate::kernel::SHARED_BASE;
use crate::tensor_map::{Im2col, TensorElement, TensorMap};
use crate::types::Ty;

/// The type of a map's elements.
pub(super) fn element_ty(map: &TensorMap) -> Ty {
    use TensorElement as E;
    match map.element {
        E::U8 => Ty::U8,
        E::U16 => Ty::U16,
        E::U32 => Ty::U32,
        E::I32 => Ty::S32,
        E::U64 => Ty::U64,
        E::I64 => Ty::S64,
        E::F16 => Ty::F16,
        E::BF16 => Ty::BF16,
        E::F32 => Ty::F32,
        E::F64 => Ty::F64,
    }
}

/// Why the hardware stops a kernel at this copy (recorded as illegal instructions on an H200).
pub(super) fn refusal(map: &TensorMap, coords: &[i64], store: bool, reduce: bool) -> Option<String> {
    if coords[0] * map.element.bytes() as i64 % 16 != 0 {
        return Some(format!(
            "the first coordinate, {}, is not at a multiple of 16 bytes of the tensor's row",
            coords[0]
        ));
    }
    if reduce && map.element.bytes() < 4 && !matches!(map.element, TensorElement::F16 | TensorElement::BF16) {
        return Some(format!("tensor reductions do not know elements of type {:?}", map.element));
    }
    if store && coords.iter().any(|c| *c < 0) {
        return Some("a tensor store starts at a negative coordinate".into());
    }
    let window = map.im2col.as_ref()?;
    for (d, (low, up)) in window.lower.iter().zip(&window.upper).enumerate() {
        let (first, last) = (*low as i64, map.dims[d + 1] as i64 - 1 + *up as i64);
        let at = coords[d + 1];
        if !(first..=last).contains(&at) {
            return Some(format!(
                "coordinate {} of the window, {at}, is outside its box from {first} to {last}",
                d + 1
            ));
        }
        if store && (first < 0 || last >= map.dims[d + 1] as i64) {
            return Some(format!(
                "the box of an im2col store, from {first} to {last}, leaves dimension {} of the tensor",
                d + 1
            ));
        }
    }
    None
}

/// The pieces of a copy: rows of elements in shared memory from byte `off`, 16-byte units permuted by the swizzle of the
/// absolute address, elements outside the tensor filled.
pub(super) fn chunks(map: &TensorMap, coords: &[i64], offsets: &[i64], off: u32) -> Vec<Chunk> {
    let rows = match &map.im2col {
        None => positions(map, coords),
        Some(window) => pixels(map, window, coords, offsets),
    };
    let mut out = vec![];
    for (row, at) in rows.iter().enumerate() {
        put_row(map, coords[0], at, off + row as u32 * map.pitch(), &mut out);
    }
    out
}

/// Positions of the rows of a tile in all dimensions but the first.
fn positions(map: &TensorMap, coords: &[i64]) -> Vec<Vec<i64>> {
    let rows = (1..map.dims.len()).map(|d| map.copied(d)).product();
    let position = |mut rest: u32| {
        let of = |d: usize| {
            let n = rest % map.copied(d);
            rest /= map.copied(d);
            coords[d] + (n * map.steps[d]) as i64
        };
        (1..map.dims.len()).map(of).collect()
    };
    (0..rows).map(position).collect()
}

/// Positions of an im2col window in all dimensions but the first.
fn pixels(map: &TensorMap, window: &Im2col, coords: &[i64], offsets: &[i64]) -> Vec<Vec<i64>> {
    let n = window.lower.len();
    let mut at = coords[1..].to_vec();
    let mut out = vec![];
    for _ in 0..window.pixels {
        let mut here = at.clone();
        for (h, o) in here.iter_mut().zip(offsets) {
            *h += o;
        }
        out.push(here);
        for d in 0..=n {
            at[d] += map.steps[d + 1] as i64;
            if d == n || at[d] <= map.dims[d + 1] as i64 - 1 + window.upper[d] as i64 {
                break;
            }
            at[d] = window.lower[d] as i64;
        }
    }
    out
}

/// One row that starts at `first` in dimension 0 and stays at `outer` in the others.
fn put_row(map: &TensorMap, first: i64, outer: &[i64], to: u32, out: &mut Vec<Chunk>) {
    let (es, n) = (map.element.bytes(), map.row());
    let fill = Some(if map.nan_fill { NAN_FILL } else { 0 });
    let (mut inside, mut base) = (true, map.address);
    for (d, c) in outer.iter().enumerate() {
        inside &= *c >= 0 && (*c as u64) < map.dims[d + 1];
        base = base.wrapping_add((*c as u64).wrapping_mul(map.strides[d]));
    }
    let ok = |x: u32| inside && (0..map.dims[0] as i64).contains(&(first + x as i64));
    let mut x = 0;
    while x < n {
        let linear = to + x * es;
        let room = (16 - linear % 16) / es;
        let state = ok(x);
        // As many elements as stay in the unit and in the same state.
        let mut len = 1;
        while len < room.max(1) && x + len < n && ok(x + len) == state {
            len += 1;
        }
        let shared = map.swizzle.apply(linear + SHARED_BASE) - SHARED_BASE;
        let global = if state { base + (first + x as i64) as u64 * es as u64 } else { 0 };
        out.push(Chunk { global, shared, n: (len * es) as u8, fill: if state { None } else { fill } });
        x += len;
    }
}

/// What a map with `nan_fill` puts outside the tensor, in every two bytes.
const NAN_FILL: u16 = 0x7ff7;
