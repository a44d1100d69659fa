//! Operands of atoms: staged in shared memory, in rows that `ldmatrix` reads, and zero beyond the end of what is summed;
//! or computed by the lanes that hold them.

use crate::{
    diagnostic::{Diagnostic, Edit},
    directive::{self, DirectiveKind},
    engine::checks::Context,
    nest::{AccessId, CopyId, MATRIX_ROW_BYTES, NoDescriptor},
    plan::{Obstacle, Unmultiplied},
    schedule::{Directive, Space, Via},
};

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let mut wrong: Vec<Diagnostic> = Vec::new();
    for found in context.plan.products().unmultiplied().iter().filter_map(|why| unmultiplied(context, *why)) {
        if !wrong.contains(&found) {
            wrong.push(found);
        }
    }
    wrong
}

fn unmultiplied(context: &Context<'_>, wrong: Unmultiplied) -> Option<Diagnostic> {
    let nest = context.nest;
    let text = wrong.text(nest);
    let here = |access: AccessId| nest.access(access).span;
    let copied = |copy: CopyId| nest.copy(copy).span;
    let read = |d: Diagnostic, access, copy| {
        d.note(here(access), format!("`{}` is read here", nest.copy_name(copy)))
    };
    let fragment = |copy: CopyId| {
        let name = nest.copy_name(copy);
        context.last(
            |k| matches!(k, DirectiveKind::Fragment(directive::Fragment { buffer, .. }) if *buffer == name),
        )
    };
    let atom = context.last(|k| matches!(k, DirectiveKind::TensorCore(_)));
    Some(match wrong.why {
        Obstacle::Unstaged(access, _) => {
            let name = name(context, access);
            let diagnostic = context.at(atom, here(access), text);
            diagnostic.note(here(access), format!("`{name}` is read here")).edits(stages(context, wrong))
        }
        Obstacle::Held(access, copy) => {
            let diagnostic = context.at(fragment(copy), copied(copy), text);
            read(diagnostic, access, copy).edits([Edit::remove()])
        }
        Obstacle::Computed(access, copy) => {
            let diagnostic = context.at(fragment(copy), here(access), text);
            read(diagnostic, access, copy).edits([Edit::remove()])
        }
        Obstacle::Described { access, copy, why, row, .. } => {
            let (by, edits) = described(context, access, copy, why, row);
            read(context.at(by, copied(copy), text), access, copy).edits(edits)
        }
        Obstacle::Loaded { access, copy, .. } => {
            let row = MATRIX_ROW_BYTES as u32;
            let pad = nest.copy(copy).pad;
            let even = (!pad.is_multiple_of(row)).then(|| {
                Edit::put([directive::Pad { buffer: nest.copy_name(copy), bytes: pad.next_multiple_of(row) }])
            });
            read(context.at(staged(context, copy), copied(copy), text), access, copy).edits(even)
        }
        Obstacle::Unrounded(access, copy) => {
            let by = staged(context, copy);
            read(context.at(by, copied(copy), text), access, copy).edits(plain(by))
        }
        Obstacle::ReadElsewhere { access, copy, elsewhere } => {
            let diagnostic = context.at(staged(context, copy), copied(copy), text);
            read(diagnostic, access, copy).note(here(elsewhere), "and as it is here")
        }
        Obstacle::Beyond(access, _) => {
            let name = name(context, access);
            context.at(atom, here(access), text).note(here(access), format!("`{name}` is read here"))
        }
        Obstacle::LeftOut(value, digit) => {
            let (axis, name) = (nest.axis(digit.axis), nest.digit_name(digit));
            let by = context
                .last(|k| matches!(k, DirectiveKind::Bind(directive::Bind { digit, .. }) if *digit == name));
            let value = nest.value(value);
            let note = format!("`{}` sums over `{axis}`", value.name);
            context.at(by, value.span, text).note(value.span, note)
        }
        // The checks of boxes and of segments word these; the rule makes factors of every product.
        Obstacle::Unboxed(_) | Obstacle::Columns | Obstacle::Factors(_) => return None,
    })
}

fn name<'c>(context: &Context<'c>, access: AccessId) -> &'c str {
    let nest = context.nest;
    &nest.tensor(nest.access(access).tensor).name
}

/// The directive that stages a copy.
fn staged<'c>(context: &'c Context<'_>, copy: CopyId) -> Option<&'c Directive> {
    let name = context.nest.copy_name(copy);
    context.last(|k| matches!(k, DirectiveKind::Stage(directive::Stage { buffer, .. }) if *buffer == name))
}

/// Ways to stage an operand that is not.
fn stages(context: &Context<'_>, wrong: Unmultiplied) -> Vec<Edit> {
    let Obstacle::Unstaged(access, Some(tile)) = wrong.why else { return Vec::new() };
    let (nest, at) = (context.nest, context.nest.digit_name(tile));
    // Where other reads of the tensor move otherwise, these have a copy of their own.
    let buffers = [name(context, access).to_string(), nest.read_name(nest.access(access))];
    let stage = |buffer| {
        Edit::put([directive::Stage {
            buffer,
            at: Some(at.clone()),
            space: Space::Shared,
            transposed: false,
            via: Via::Plain,
            vector: None,
        }])
    };
    buffers.map(stage).to_vec()
}

/// The directive at fault where no descriptor says how an operand lies, and what mends it.
fn described<'c>(
    context: &'c Context<'_>,
    access: AccessId,
    copy: CopyId,
    why: NoDescriptor,
    row: u64,
) -> (Option<&'c Directive>, Vec<Edit>) {
    let nest = context.nest;
    let (name, tensor) = (nest.copy_name(copy), name(context, access));
    let by = context.last(|k| match k {
        DirectiveKind::Swizzle(directive::Swizzle { buffer, .. }) => {
            why != NoDescriptor::Turned && (*buffer == name || buffer == tensor)
        }
        DirectiveKind::Stage(directive::Stage { buffer, .. }) => {
            matches!(why, NoDescriptor::Plain | NoDescriptor::Turned) && *buffer == name
        }
        _ => false,
    });
    if why == NoDescriptor::Turned {
        return (by, turns(context, by, copy));
    }
    let bytes = row * u64::from(nest.elem(nest.copy(copy).tensor).bytes());
    let spans = [128, 64, 32].into_iter().filter(|span| bytes.is_multiple_of(u64::from(*span)));
    (by, spans.map(|span| Edit::put([directive::Swizzle { buffer: name.clone(), span }])).collect())
}

/// A copy by threads, of as many bytes at once as a row of a matrix has, or as before.
fn plain(by: Option<&Directive>) -> Vec<Edit> {
    let Some(DirectiveKind::Stage(stage)) = by.map(|d| &d.kind) else { return Vec::new() };
    let with = |vector| Edit::put([directive::Stage { via: Via::Plain, vector, ..stage.clone() }]);
    vec![with(stage.vector.or(Some(MATRIX_ROW_BYTES as u32))), with(stage.vector)]
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
