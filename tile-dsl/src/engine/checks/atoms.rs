//! Operands of atoms: staged in shared memory, in rows that `ldmatrix` reads, and zero beyond the end of what is summed.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit},
    nest::{
        AccessId, At, Atom, CopyId, Digit, Frame, MATRIX_ROW_BYTES, Nest, NoMatrices, Role, Steps, Stmt,
        copy_on, leaves,
    },
    schedule::{DirectiveKind, Space, Via},
    tile::AxisKind,
};

/// The statement of an atom: its product, and the digits of m, n and k.
struct Product {
    atom: Atom,
    factors: [AccessId; 2],
    digits: [Digit; 3],
}

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let mut wrong: Vec<Diagnostic> = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        let Some(product) = product(nest, path, leaf) else { return };
        let [m, n, k] = product.digits;
        for factor in product.factors {
            let free = if nest.access_axes(factor).contains(&m.axis) { m } else { n };
            let found = match copy_on(nest, path, factor) {
                None => Some(unstaged(context, path, product.atom, factor)),
                Some((at, copy)) => unreadable(context, path, (at, copy), factor, [free, k]),
            };
            wrong.extend(found.into_iter().filter(|d| !wrong.contains(d)).collect::<Vec<_>>());
        }
        wrong.extend(beyond(context, path, &product));
    });
    wrong
}

fn product(nest: &Nest, path: &[Frame], leaf: &Stmt) -> Option<Product> {
    let Stmt::Red { expr, .. } = leaf else { return None };
    let digit = |role| {
        path.iter().find_map(|f| match f {
            Frame::For(d, At::Atom(atom, r)) if *r == role => Some((*d, *atom)),
            _ => None,
        })
    };
    let ((m, atom), (n, _), (k, _)) = (digit(Role::M)?, digit(Role::N)?, digit(Role::K)?);
    Some(Product { atom, factors: nest.factors(expr).ok()?, digits: [m, n, k] })
}

fn name(nest: &Nest, access: AccessId) -> &str {
    &nest.tensor(nest.access(access).tensor).name
}

fn unstaged(context: &Context<'_>, path: &[Frame], atom: Atom, factor: AccessId) -> Diagnostic {
    let nest = context.nest;
    let name = name(nest, factor);
    let text = format!("`{name}` is read from global memory: `{atom}` takes its operands from shared memory");
    let by = context.last(|k| matches!(k, DirectiveKind::TensorCore { .. }));
    let span = nest.access(factor).span;
    let axes = nest.access_axes(factor);
    // The tile loops inside of the CTA.
    let tile = path.iter().rev().find_map(|f| match f {
        Frame::For(d, At::Seq | At::Pipe(_))
            if d.steps == Steps::Rest
                && axes.contains(&d.axis)
                && nest.kernel.axes[usize::from(d.axis.0)].kind != AxisKind::Program =>
        {
            Some(nest.digit_name(*d))
        }
        _ => None,
    });
    let stage = tile.map(|at| DirectiveKind::Stage {
        buffer: name.to_string(),
        at: Some(at),
        space: Space::Shared,
        transposed: false,
        via: Via::Plain,
        vector: None,
    });
    context
        .at(by, span, text)
        .note(span, format!("`{name}` is read here"))
        .edits(stage.map(|stage| Edit::put([stage])))
}

fn unreadable(
    context: &Context<'_>,
    path: &[Frame],
    (at, copy): (usize, CopyId),
    factor: AccessId,
    [free, k]: [Digit; 2],
) -> Option<Diagnostic> {
    let nest = context.nest;
    let body = nest.body.inside(&path[..=at])?;
    let layout = nest.copy_layout(copy, body)?;
    let low: Vec<i64> = nest.footprint(nest.copy(copy).tensor, body).iter().map(|d| d.low).collect();
    let inside: Vec<Digit> = path[at..]
        .iter()
        .filter_map(|f| match f {
            Frame::For(_, At::Atom(..)) => None,
            Frame::For(d, _) => Some(*d),
            _ => None,
        })
        .collect();
    let why = nest.matrices(factor, &layout, &low, [free.axis, k.axis], &inside).err()?;
    let name = name(nest, factor);
    let row = MATRIX_ROW_BYTES;
    let text = match why {
        NoMatrices::Apart => format!(
            "the copy of `{name}` has neither its points of `{}` nor those of `{}` side by side: `ldmatrix` reads rows of {row} bytes",
            nest.axis(free.axis),
            nest.axis(k.axis)
        ),
        NoMatrices::Unaligned(by) => format!(
            "rows of the copy of `{name}` lie {by} elements apart: `ldmatrix` reads rows of {row} bytes at multiples of {row}"
        ),
    };
    let stage = context.last(|k| matches!(k, DirectiveKind::Stage { buffer, .. } if buffer == name));
    let pad = nest.copy(copy).pad;
    let even = (!pad.is_multiple_of(row as u32)).then(|| {
        Edit::put([DirectiveKind::Pad { buffer: name.to_string(), bytes: pad.next_multiple_of(row as u32) }])
    });
    Some(
        context
            .at(stage, nest.copy(copy).span, text)
            .note(nest.access(factor).span, format!("`{name}` is read here"))
            .edits(even),
    )
}

/// Where tiles reach beyond the end of what is summed, both factors are zero there.
fn beyond(context: &Context<'_>, path: &[Frame], product: &Product) -> Option<Diagnostic> {
    let nest = context.nest;
    let axis = product.digits[2].axis;
    let digits = path.iter().filter_map(|f| if let Frame::For(d, _) = f { Some(*d) } else { None });
    let mut points = 1;
    for digit in digits.filter(|d| d.axis == axis) {
        match digit.steps {
            Steps::Rest => points = i64::from(digit.stride).max(points),
            Steps::Fixed(n) => points += i64::from(digit.stride) * (i64::from(n) - 1),
        }
    }
    let extent = &nest.kernel.axes[usize::from(axis.0)].extent;
    if extent.as_constant().is_some_and(|n| n % points == 0) {
        return None;
    }
    let factor = product.factors.into_iter().find(|f| !nest.ends_with(*f, axis))?;
    let (name, axis) = (name(nest, factor), nest.axis(axis));
    let span = nest.access(factor).span;
    let text = format!(
        "`{name}` does not end where `{axis}` does: `{}` would add what lies beyond {extent}",
        product.atom
    );
    let by = context.last(|k| matches!(k, DirectiveKind::TensorCore { .. }));
    Some(context.at(by, span, text).note(span, format!("`{name}` is read here")))
}
