//! Indices: those of whole tiles and the counters of loops have 32 bits at some size at least.

use super::Context;
use crate::{
    assume::{indices_beyond, slack_of},
    diagnostic::Diagnostic,
    directive::DirectiveKind,
    index::AxisId,
    nest::{Steps, loops},
};

/// Where 32 bits with a sign end.
const END: i64 = 1 << 31;

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let counters = counters(context);
    if !counters.is_empty() {
        return counters;
    }
    let beyond = indices_beyond(context.nest).into_iter();
    let wrong = beyond.filter_map(|(name, last)| {
        let nest = context.nest;
        let access = nest.accesses.iter().find(|a| nest.tensor(a.tensor).name == name)?;
        let by = context.last(|k| matches!(k, DirectiveKind::Tile(_)));
        let text = format!(
            "the index of `{name}` reaches {last} in one tile: indices have 32 bits, and no launch could use this schedule"
        );
        let diagnostic = context.at(by, access.span, text);
        Some(diagnostic.note(access.span, format!("`{name}` is accessed here")).edits(context.smaller_tiles(last.unsigned_abs() >> 31, |_| true)))
    });
    wrong.collect()
}

/// A loop's counter goes from step to step up to the last point that its loops reach, and beyond that by the steps that are filled
/// ahead.
fn counters(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let mut wrong = Vec::new();
    for (n, axis) in nest.kernel.axes.iter().enumerate() {
        let id = AxisId(n as u16);
        let reach = loops(&nest.body).into_iter().filter(|(d, _)| d.axis == id).map(|(d, _)| match d.steps {
            Steps::Fixed(steps) => i64::from(d.stride) * i64::from(steps),
            Steps::Rest => 0,
        });
        let points = axis.extent.as_constant().unwrap_or(0);
        let beyond = reach.max().unwrap_or(0).max(points.saturating_add(slack_of(nest, id)));
        if beyond < END {
            continue;
        }
        let name = &axis.name;
        let text = format!(
            "the loops over `{name}` count up to {beyond} points, with the steps beyond its end: indices have 32 bits"
        );
        let by = context.cuts(id);
        let bounds = context.smaller_bounds(2).into_iter().take(1);
        let shrink = beyond.unsigned_abs().div_ceil(END.unsigned_abs() - 1);
        let edits = context.smaller_tiles(shrink, |a| a == name).into_iter().chain(bounds);
        wrong.push(
            context.at(by, axis.span, text).note(axis.span, format!("`{name}` is bound here")).edits(edits),
        );
    }
    wrong
}
