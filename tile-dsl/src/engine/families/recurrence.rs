//! `tile` of a loop whose steps see a tile as a whole: it says what the kernel computes.
//!
//! ```text
//! (for a.2 (.. (for a.1.2 X)))  →  (for a.n (.. (for a.1.n X)))      in tiles of n points, where nothing said so yet
//! ```
//! This is no rewrite but the choice of a program: a value carried from tile to tile depends on where tiles end. The
//! evaluator takes the size as an input. So there is no side condition, and no schedule without a size.

use super::{Failure, Proof, with_body};
use crate::{
    diagnostic::{Diagnostic, Edit},
    directive::{self, DirectiveKind},
    index::AxisId,
    nest::{Digit, Nest, Recurrence, Stmt},
    schedule::{Directive, Schedule},
    span::SpanId,
};

/// Gives the tiles of an axis their size.
pub(crate) fn size(nest: &Nest, axis: AxisId, size: u32) -> Result<(Nest, Proof), Failure> {
    let name = nest.axis(axis).to_string();
    let known = nest.recurrences[&axis];
    if known.tile.is_some() {
        return Err(Failure::refused(Diagnostic::new(SpanId::NONE, format!("`{name}` is tiled already")))
            .edit(Edit::remove()));
    }
    let (outer, inner) = (crate::nest::over_tiles(&name), crate::nest::in_tile(&name));
    let (old, new) = ([nest.names[&outer], nest.names[&inner]], nest.names[&name].cut(size));
    let mut sized = with_body(nest, replaced(&nest.body, old, [new.0, new.1]));
    sized.recurrences.insert(axis, Recurrence { tile: Some(size), ..known });
    sized.names.extend([(outer, new.0), (inner, new.1)]);
    let fact = format!("what the kernel computes is defined for tiles of {size} points of `{name}`");
    Ok((sized, Proof { facts: vec![fact], ..Proof::default() }))
}

fn replaced(stmt: &Stmt, old: [Digit; 2], new: [Digit; 2]) -> Stmt {
    let mut again = |stmt: &Stmt| replaced(stmt, old, new);
    match stmt {
        // One tile of one point: its loop is the loop over tiles.
        Stmt::For { digit, body, .. } if *digit == old[1] && new[0] == new[1] => again(body),
        other => match other.map(&mut again) {
            Stmt::For { digit, at, body } => {
                let digit = old.iter().position(|d| *d == digit).map_or(digit, |n| new[n]);
                Stmt::For { digit, at, body }
            }
            same => same,
        },
    }
}

/// Sizes that a help tries.
const SIZES: [u32; 3] = [64, 16, 4];

/// The axes whose tiles the kernel sees and to which no directive gives a size.
pub(crate) fn without_size(nest: &Nest, schedule: &Schedule) -> Vec<(String, Diagnostic)> {
    let sized = |name: &str| {
        let tile = |d: &Directive| match &d.kind {
            DirectiveKind::Tile(directive::Tile { axis, .. }) => axis == name,
            // It says itself that the loop is none to make.
            DirectiveKind::Online(directive::Online { axis, .. }) => axis == name,
            _ => false,
        };
        schedule.directives.iter().any(tile)
    };
    let open = nest.recurrences.iter().map(|(axis, r)| (&nest.kernel.axes[usize::from(axis.0)], r));
    let told = open.filter(|(axis, _)| !sized(&axis.name)).map(|(axis, recurrence)| {
        let name = &axis.name;
        let text = format!(
            "what the loop over `{name}` computes depends on the size of its tiles: give it with `tile({name} = ..)`"
        );
        let tile = |size| Edit::put([directive::Tile { axis: name.clone(), size }]);
        let diagnostic = Diagnostic::new(SpanId::NONE, text)
            .note(axis.span, format!("`{name}` is bound here"))
            .note(recurrence.span, "this depends on where a tile ends")
            .edits(SIZES.map(tile));
        (name.clone(), diagnostic)
    });
    told.collect()
}
