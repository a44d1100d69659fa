//! Operands of atoms: staged in shared memory, in rows that `ldmatrix` reads, and zero beyond the end of what is summed;
//! or computed by the lanes that hold them.

use crate::{
    diagnostic::{Diagnostic, Edit},
    directive::{self, DirectiveKind},
    engine::checks::Context,
    index::AxisId,
    nest::{
        AccessId, Atom, CopyId, CopyLayout, Digit, Ends, Expr, Factor, Frame, LoopKind, MATRIX_ROW_BYTES,
        Nest, NoDescriptor, NoMatrices, Placed, Product, Steps, Stmt, ValueId, copy_on, ends, leaves,
    },
    plan::CopyBox,
    schedule::{Directive, Space, Unit, Via},
    tile::AxisKind,
};

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let mut wrong: Vec<Diagnostic> = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        let Some(product) = nest.product(path, leaf) else { return };
        let [m, n, k] = product.digits;
        for factor in product.factors {
            let free = if nest.factor_axes(factor).contains(&m.axis) { m } else { n };
            let found = match factor {
                Factor::Load(access) => match copy_on(nest, path, access) {
                    None => Some(unstaged(context, path, product.atom, access)),
                    Some(copy) if product.atom.row().descriptors => held(context, path, product.atom, access)
                        .or_else(|| undescribed(context, path, product.atom, copy, access, [free, k]))
                        .or_else(|| unrounded(context, product.atom, copy.1, access)),
                    Some((at, copy)) => unreadable(context, path, (at, copy), access, [free, k]),
                },
                Factor::Computed(expr) => in_fragment(context, path, product.atom, expr),
            };
            wrong.extend(found.into_iter().filter(|d| !wrong.contains(d)).collect::<Vec<_>>());
        }
        wrong.extend(beyond(context, path, &product));
        if let Stmt::Red { value, .. } = leaf {
            wrong.extend(left_out(context, path, &product, *value));
        }
    });
    wrong
}

/// An operand in its staged copy.
struct Operand<'c> {
    layout: &'c CopyLayout,
    /// First index of the copy, by dimension.
    low: &'c [i64],
    /// The loops inside the copy, those of the atom left out.
    inside: Vec<Digit>,
}

fn operand<'c>(context: &'c Context<'_>, path: &[Frame], (at, copy): (usize, CopyId)) -> Option<Operand<'c>> {
    let body = context.nest.body.inside(&path[..=at])?;
    let CopyBox { layout, low, .. } = context.boxes.as_ref().ok()?.get(context.nest, copy, body)?;
    let inside = path[at..].iter().filter_map(|f| match f {
        Frame::For(_, LoopKind::Atom(..)) => None,
        Frame::For(d, _) => Some(*d),
        _ => None,
    });
    Some(Operand { layout, low, inside: inside.collect() })
}

/// What an instruction reads from shared memory by itself is not held in registers.
fn held(context: &Context<'_>, path: &[Frame], atom: Atom, factor: AccessId) -> Option<Diagnostic> {
    let nest = context.nest;
    let copy = nest.is_held(path, factor)?;
    let name = nest.copy_name(copy);
    let text =
        format!("`{atom}` reads `{name}` from shared memory by itself: a fragment of it is never read");
    let by = context.last(
        |k| matches!(k, DirectiveKind::Fragment(directive::Fragment { buffer, .. }) if *buffer == name),
    );
    Some(
        context
            .at(by, nest.copy(copy).span, text)
            .note(nest.access(factor).span, format!("`{name}` is read here"))
            .edits([Edit::remove()]),
    )
}

/// Why the descriptors of an instruction cannot say where an operand lies.
fn undescribed(
    context: &Context<'_>,
    path: &[Frame],
    atom: Atom,
    (at, copy): (usize, CopyId),
    factor: AccessId,
    [free, k]: [Digit; 2],
) -> Option<Diagnostic> {
    let nest = context.nest;
    let Operand { layout, low, inside } = operand(context, path, (at, copy))?;
    let axes = [free.axis, k.axis];
    let placed = Placed { copy, layout, low };
    let why = nest.descriptor(atom, factor, placed, axes, &inside).err()?;
    let (name, tensor) = (nest.copy_name(copy), name(nest, factor));
    let row = layout.row * u64::from(nest.elem(nest.copy(copy).tensor).bytes());
    let (free, k) = (nest.axis(free.axis), nest.axis(k.axis));
    let text = match why {
        NoDescriptor::Plain => {
            format!("rows of the copy of `{name}` are not swizzled: `{atom}` reads swizzled rows")
        }
        NoDescriptor::Turned => format!(
            "rows of the copy of `{name}` run along `{free}`: `{atom}` reads {} in rows along `{k}` alone",
            nest.elem(nest.copy(copy).tensor)
        ),
        NoDescriptor::Apart => format!(
            "the copy of `{name}` has no neighbouring rows of points of `{free}` or of `{k}`: `{atom}` reads rows along one, row by row along the other"
        ),
        NoDescriptor::Unaligned(by) => format!(
            "tiles of the copy of `{name}` start {by} elements apart, in rows of {}: `{atom}` reads whole groups of eight rows, and whole rows of {} bytes along `{free}`",
            layout.row,
            nest.copy(copy).swizzle
        ),
    };
    let by = context.last(|k| match k {
        DirectiveKind::Swizzle(directive::Swizzle { buffer, .. }) => {
            why != NoDescriptor::Turned && (*buffer == name || buffer == tensor)
        }
        DirectiveKind::Stage(directive::Stage { buffer, .. }) => {
            matches!(why, NoDescriptor::Plain | NoDescriptor::Turned) && *buffer == name
        }
        _ => false,
    });
    let spans = [128, 64, 32].into_iter().filter(|span| row.is_multiple_of(u64::from(*span)));
    let swizzle = spans.map(|span| Edit::put([directive::Swizzle { buffer: name.clone(), span }]));
    let edits = if why == NoDescriptor::Turned { turns(context, by, copy) } else { swizzle.collect() };
    Some(
        context
            .at(by, nest.copy(copy).span, text)
            .note(nest.access(factor).span, format!("`{name}` is read here"))
            .edits(edits),
    )
}

/// The other order of a copy's dimensions: as its tensor lies, of a tensor that lies the other way, or by registers.
fn turns(context: &Context<'_>, by: Option<&Directive>, copy: CopyId) -> Vec<Edit> {
    let Some(DirectiveKind::Stage(directive::Stage { at, space, transposed, via, vector, .. })) =
        by.map(|d| &d.kind)
    else {
        return Vec::new();
    };
    let nest = context.nest;
    let stage = |via| {
        DirectiveKind::Stage(directive::Stage {
            buffer: nest.copy_name(copy),
            at: at.clone(),
            space: *space,
            transposed: !transposed,
            via,
            vector: *vector,
        })
    };
    let of = nest.copy(copy).tensor;
    let turned = nest.column_major.contains(&of);
    let layout = DirectiveKind::Layout(directive::Layout {
        tensor: nest.tensor(of).name.clone(),
        column_major: !turned,
    });
    vec![Edit::put([stage(*via)]), Edit::put([layout, stage(*via)]), Edit::put([stage(Via::Plain)])]
}

/// What an instruction rounds nothing of is rounded on its way to shared memory, by the threads that copy it, and is read
/// by no one else.
fn unrounded(context: &Context<'_>, atom: Atom, copy: CopyId, factor: AccessId) -> Option<Diagnostic> {
    let nest = context.nest;
    if !nest.rounds_copy(copy) {
        return None;
    }
    let (info, name) = (nest.copy(copy), nest.copy_name(copy));
    let by = context
        .last(|k| matches!(k, DirectiveKind::Stage(directive::Stage { buffer, .. }) if *buffer == name));
    let read = |d: Diagnostic| d.note(nest.access(factor).span, format!("`{name}` is read here"));
    let who = match info.via {
        Via::Plain => None,
        Via::CpAsync => Some("`cp.async` copies bits as they are"),
        Via::Tma | Via::Stmatrix => Some("how a tensor map rounds is not documented"),
    };
    if let (Some(who), Some(DirectiveKind::Stage(directive::Stage { at, space, transposed, vector, .. }))) =
        (who, by.map(|d| &d.kind))
    {
        let text =
            format!("`{atom}` truncates f32 to tf32, the kernel asks for `{name}` to be rounded, and {who}");
        let stage = |vector| {
            let (buffer, at) = (name.to_string(), at.clone());
            DirectiveKind::Stage(directive::Stage {
                buffer,
                at,
                space: *space,
                transposed: *transposed,
                via: Via::Plain,
                vector,
            })
        };
        let wide = vector.or(Some(MATRIX_ROW_BYTES as u32));
        let edits = [Edit::put([stage(wide)]), Edit::put([stage(*vector)])];
        return Some(read(context.at(by, info.span, text)).edits(edits));
    }
    let mut other = None;
    leaves(&nest.body, &mut |path, leaf| {
        let Some((target, expr)) = leaf.leaf() else { return };
        let product = nest.product(path, leaf).filter(|p| p.atom.row().descriptors && p.atom.row().rounded);
        let as_it_is = expr.accesses().into_iter().find(|a| {
            let here = nest.serves(copy, *a) && path.contains(&Frame::Stage(copy));
            here && product.is_none_or(|p| !p.factors.contains(&Factor::Load(*a)))
        });
        if let (Some(access), None) = (as_it_is, other) {
            other = Some((access, target));
        }
    });
    let (access, _) = other?;
    let text =
        format!("the copy of `{name}` is rounded to tf32 for `{atom}`, and another read needs it unrounded");
    Some(read(context.at(by, info.span, text)).note(nest.access(access).span, "and as it is here"))
}

fn name(nest: &Nest, access: AccessId) -> &str {
    &nest.tensor(nest.access(access).tensor).name
}

fn unstaged(context: &Context<'_>, path: &[Frame], atom: Atom, factor: AccessId) -> Diagnostic {
    let nest = context.nest;
    let name = name(nest, factor);
    let text = format!("`{name}` is read from global memory: `{atom}` takes its operands from shared memory");
    let by = context.last(|k| matches!(k, DirectiveKind::TensorCore(_)));
    let span = nest.access(factor).span;
    let axes = nest.access_axes(factor);
    // The tile loops inside of the CTA.
    let tile = path.iter().rev().find_map(|f| match f {
        Frame::For(d, LoopKind::Seq | LoopKind::Pipe(_))
            if d.steps == Steps::Rest
                && axes.contains(&d.axis)
                && nest.kernel.axes[usize::from(d.axis.0)].kind != AxisKind::Program =>
        {
            Some(nest.digit_name(*d))
        }
        _ => None,
    });
    // Where other reads of the tensor move otherwise, these have a copy of their own.
    let buffers = [name.to_string(), nest.read_name(nest.access(factor))];
    let stage = tile.into_iter().flat_map(|at| {
        buffers.clone().map(|buffer| {
            DirectiveKind::Stage(directive::Stage {
                buffer,
                at: Some(at.clone()),
                space: Space::Shared,
                transposed: false,
                via: Via::Plain,
                vector: None,
            })
        })
    });
    context
        .at(by, span, text)
        .note(span, format!("`{name}` is read here"))
        .edits(stage.map(|stage| Edit::put([stage])))
}

/// What a lane computes with is not held for it: a fragment has what `ldmatrix` reads.
fn in_fragment(context: &Context<'_>, path: &[Frame], atom: Atom, expr: &Expr) -> Option<Diagnostic> {
    let nest = context.nest;
    let held = |access: AccessId| nest.is_held(path, access).map(|copy| (access, copy));
    let (access, copy) = expr.accesses().into_iter().find_map(held)?;
    let (name, span) = (nest.copy_name(copy), nest.access(access).span);
    let text = format!(
        "a factor of `{atom}` is computed from `{name}`: `fragment` holds factors that are loaded, not computed"
    );
    let by = context.last(
        |k| matches!(k, DirectiveKind::Fragment(directive::Fragment { buffer, .. }) if *buffer == name),
    );
    Some(context.at(by, span, text).note(span, format!("`{name}` is read here")).edits([Edit::remove()]))
}

fn unreadable(
    context: &Context<'_>,
    path: &[Frame],
    (at, copy): (usize, CopyId),
    factor: AccessId,
    [free, k]: [Digit; 2],
) -> Option<Diagnostic> {
    let nest = context.nest;
    let Operand { layout, low, inside } = operand(context, path, (at, copy))?;
    let why = nest.matrices(factor, layout, low, [free.axis, k.axis], &inside).err()?;
    let name = nest.copy_name(copy);
    let row = MATRIX_ROW_BYTES;
    let text = match why {
        NoMatrices::Apart => format!(
            "the copy of `{name}` is contiguous along neither `{}` nor `{}`: `ldmatrix` reads rows of {row} bytes",
            nest.axis(free.axis),
            nest.axis(k.axis)
        ),
        NoMatrices::Unaligned(by) => format!(
            "rows of the copy of `{name}` lie {by} elements apart: `ldmatrix` reads rows of {row} bytes at multiples of {row}"
        ),
    };
    let stage = context
        .last(|k| matches!(k, DirectiveKind::Stage(directive::Stage { buffer, .. }) if *buffer == name));
    let pad = nest.copy(copy).pad;
    let even = (!pad.is_multiple_of(row as u32)).then(|| {
        Edit::put([directive::Pad { buffer: name.clone(), bytes: pad.next_multiple_of(row as u32) }])
    });
    Some(
        context
            .at(stage, nest.copy(copy).span, text)
            .note(nest.access(factor).span, format!("`{name}` is read here"))
            .edits(even),
    )
}

/// Whether the loops on a path may go beyond the end of an axis.
fn oversteps(nest: &Nest, path: &[Frame], axis: AxisId) -> bool {
    let digits = path.iter().filter_map(|f| f.step().map(|(d, _)| d));
    ends(nest, axis, &digits.collect::<Vec<_>>()) != Ends::Always
}

/// An atom is left out in steps of another axis that do not exist, and then by all warps.
fn left_out(
    context: &Context<'_>,
    path: &[Frame],
    product: &Product<'_>,
    value: ValueId,
) -> Option<Diagnostic> {
    let nest = context.nest;
    let summed = |axis: AxisId| {
        let of_it = |f: &Factor<'_>| nest.factor_axes(*f).contains(&axis);
        axis != product.digits[2].axis
            && !nest.value(value).axes.contains(&axis)
            && product.factors.iter().any(of_it)
    };
    let digit = path.iter().find_map(|f| match f {
        Frame::For(d, LoopKind::Unit(unit, _)) if *unit != Unit::Block && summed(d.axis) => Some(*d),
        _ => None,
    })?;
    if !oversteps(nest, path, digit.axis) {
        return None;
    }
    let (axis, name) = (nest.axis(digit.axis), nest.digit_name(digit));
    let extent = &nest.kernel.axes[usize::from(digit.axis.0)].extent;
    let text = format!(
        "steps of `{axis}` beyond {extent} do not exist: some warps would leave out an `{}` that others execute",
        product.atom
    );
    let by =
        context.last(|k| matches!(k, DirectiveKind::Bind(directive::Bind { digit, .. }) if *digit == name));
    let span = nest.value(value).span;
    Some(context.at(by, span, text).note(span, format!("`{}` sums over `{axis}`", nest.value(value).name)))
}

/// Where tiles reach beyond the end of what is summed, both factors are zero there.
fn beyond(context: &Context<'_>, path: &[Frame], product: &Product<'_>) -> Option<Diagnostic> {
    let nest = context.nest;
    let axis = product.digits[2].axis;
    let extent = &nest.kernel.axes[usize::from(axis.0)].extent;
    if !oversteps(nest, path, axis) {
        return None;
    }
    // What is computed is left out there.
    let factor = product.factors.into_iter().find_map(|f| match f {
        Factor::Load(access) if !nest.ends_with(access, axis) => Some(access),
        _ => None,
    })?;
    let (name, axis) = (name(nest, factor), nest.axis(axis));
    let span = nest.access(factor).span;
    let text = format!(
        "`{name}` does not end where `{axis}` does: `{}` would add what lies beyond {extent}",
        product.atom
    );
    let by = context.last(|k| matches!(k, DirectiveKind::TensorCore(_)));
    Some(context.at(by, span, text).note(span, format!("`{name}` is read here")))
}
