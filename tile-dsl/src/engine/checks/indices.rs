//! Indices: of whole tiles, the greatest has 32 bits at some size at least.

use super::Context;
use crate::{assume::indices_beyond, diagnostic::Diagnostic, schedule::DirectiveKind};

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let beyond = indices_beyond(context.nest).into_iter();
    let wrong = beyond.filter_map(|(name, last)| {
        let nest = context.nest;
        let access = nest.accesses.iter().find(|a| nest.tensor(a.tensor).name == name)?;
        let by = context.last(|k| matches!(k, DirectiveKind::Tile { .. }));
        let text = format!(
            "the index of `{name}` reaches {last} in one tile: indices have 32 bits, and no launch could use this schedule"
        );
        let diagnostic = context.at(by, access.span, text);
        Some(diagnostic.note(access.span, format!("`{name}` is accessed here")).edits(context.smaller_tiles(last.unsigned_abs() >> 31, |_| true)))
    });
    wrong.collect()
}
