//! Tiles that are collected before they are stored: they have a size, and are complete when the CTA is done with them.

use crate::{
    diagnostic::{Diagnostic, Edit},
    directive::{self, DirectiveKind},
    engine::checks::Context,
    nest::{Across, BOX_BYTES, BOX_POINTS, LoopKind, Step, Steps, loops, of_a_tile},
    plan::{Store, Unstored},
    schedule::{Unit, Via},
    tile::TensorId,
};

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    context.nest.outputs.keys().filter_map(|tensor| of(context, *tensor)).collect()
}

fn of(context: &Context<'_>, tensor: TensorId) -> Option<Diagnostic> {
    let nest = context.nest;
    let name = &nest.tensor(tensor).name;
    let span = nest.outputs[&tensor].span;
    let by = context
        .last(|k| matches!(k, DirectiveKind::Stage(directive::Stage { buffer, .. }) if buffer == name));
    let wrong = |text: String| Some(context.at(by, span, text).edits([Edit::remove()]));
    let store = context.plan.stores().collected(nest, tensor)?;
    let (access, around) = (nest.access(store.access), &store.loops);
    let runs =
        |(d, at): &&Step| matches!(at, LoopKind::Seq | LoopKind::Pipe(_)) && d.steps != Steps::Fixed(1);
    if let Some((digit, _)) = around.iter().find(runs) {
        let loop_ = nest.digit_name(*digit);
        let text = format!(
            "`{name}` is stored in the loop over `{loop_}`, step by step: a tile that is collected first has no loop at run time around it"
        );
        let unroll = (digit.steps != Steps::Rest)
            .then(|| Edit::put([directive::Unroll { digit: loop_, within: Some(name.clone()) }]));
        return Some(context.at(by, span, text).edits(unroll).edits([Edit::remove()]));
    }
    let Some(layout) = &store.tile else {
        return wrong(Unstored::Unbounded(tensor).text(nest));
    };
    let size = u64::from(nest.elem(tensor).bytes());
    let row = layout.extents.get(nest.contiguous(tensor)).copied().unwrap_or(1);
    if row * size % BOX_BYTES != 0 {
        return wrong(format!(
            "a row of the tile of `{name}` has {row} elements of {size} bytes = {} bytes: a tensor map moves multiples of {BOX_BYTES}",
            row * size
        ));
    }
    let first = |f: &crate::nest::Digit| {
        access.index.get(nest.contiguous(tensor)).is_some_and(|i| {
            (i.coefficient(f.axis) * i64::from(f.stride) * size as i64) % BOX_BYTES as i64 != 0
        })
    };
    let grid = loops(&nest.body).into_iter().filter(|(_, at)| matches!(at, LoopKind::Unit(Unit::Block, _)));
    if let Some((digit, _)) = grid.into_iter().find(|(d, _)| first(d)) {
        return wrong(format!(
            "a step of `{}` moves the tile of `{name}` by {} bytes: a tensor map moves multiples of {BOX_BYTES}",
            nest.digit_name(digit),
            u64::from(digit.stride) * size
        ));
    }
    let swizzle = u64::from(nest.outputs[&tensor].swizzle);
    if swizzle > 0 && row * size % swizzle != 0 {
        let by = context.last(
            |k| matches!(k, DirectiveKind::Swizzle(directive::Swizzle { buffer, .. }) if buffer == name),
        );
        let text = format!(
            "a row of the tile of `{name}` is {} bytes long, not a multiple of the swizzle's {swizzle}",
            row * size
        );
        let spans = [64, 32].into_iter().filter(|s| row * size % u64::from(*s) == 0);
        let edits = spans.map(|span| Edit::instead([directive::Swizzle { buffer: name.clone(), span }]));
        return Some(context.at(by, span, text).edits(edits).edits([Edit::remove()]));
    }
    let width = |d: usize, n: u64| if d == layout.contiguous { layout.panel.unwrap_or(n) } else { n };
    let long = layout.extents.iter().enumerate().find(|(d, n)| width(*d, **n) > BOX_POINTS);
    if let Some((d, n)) = long {
        return wrong(format!(
            "dimension {d} of the tile of `{name}` has {n} points: a box of a tensor map has at most {BOX_POINTS}"
        ));
    }
    if let Some(diagnostic) = matrices(context, store, of_a_tile(around.clone())) {
        return Some(diagnostic);
    }
    let stores = match nest.across.values().next()? {
        Across::Workspace => "the last one stores",
        Across::Atomic => "each adds its part",
        Across::Cluster => "each stores its share",
    };
    wrong(format!("CTAs share the sums that `{name}` holds: {stores}, and no tile is collected"))
}

/// Lanes hold what is stored as `stmatrix` takes it.
fn matrices(context: &Context<'_>, store: &Store, inside: Vec<Step>) -> Option<Diagnostic> {
    let nest = context.nest;
    let access = nest.access(store.access);
    let output = &nest.outputs[&access.tensor];
    if !output.matrices {
        return None;
    }
    let name = &nest.tensor(access.tensor).name;
    // A warp that stores nothing would not come to the instruction.
    let several =
        context.plan.dimensions().iter().filter(|((unit, _), (n, _))| *unit != Unit::Lane && *n > 1);
    let replica = several
        .map(|(of, _)| of)
        .find(|(unit, dim)| inside.iter().all(|(_, kind)| *kind != LoopKind::Unit(*unit, *dim)));
    let text = match &store.how {
        Err(why @ Unstored::Matrices(..)) => why.text(nest),
        _ => {
            let (unit, dim) = replica?;
            format!(
                "each {unit} along {unit}.{dim} holds the same elements of `{name}`: `stmatrix` needs one that holds them"
            )
        }
    };
    let of_it = |k: &DirectiveKind| matches!(k, DirectiveKind::Stage(directive::Stage { buffer, .. }) if buffer == name);
    let pairs = inside.iter().filter(|(d, kind)| kind.is_expanded() && d.steps == Steps::Fixed(2));
    let vector = pairs.map(|(d, _)| {
        Edit::put([directive::Vectorize { digit: nest.digit_name(*d), within: Some(name.clone()) }])
    });
    let plain = context.last(of_it).map(|d| match d.kind.clone() {
        DirectiveKind::Stage(directive::Stage { buffer, at, space, transposed, vector, .. }) => {
            let via = Via::Tma;
            Edit::instead([directive::Stage { buffer, at, space, transposed, via, vector }])
        }
        kind => Edit::instead([kind]),
    });
    Some(context.at(context.last(of_it), output.span, text).edits(vector).edits(plain))
}
