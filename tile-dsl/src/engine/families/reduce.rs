//! `reduce`: partial results of a reduction, spread over units, are combined when its `let` ends.
//!
//! ```text
//! (let [v] P Q)  with level(v) = none  →  level(v) = lane | warp | cta
//! ```
//! Side condition: `v` is a reduction that no loop carries, and no other level is set. That some loop over one of its reduced axes
//! is bound to that unit is checked when the schedule is complete; `bind` needs the level before.
//! After the combination every unit of the level holds the result.
//! Source: butterfly all-reduce; `shfl.sync.bfly` (PTX ISA 9.7.9.6).

use super::{Failure, Proof, bind};
use crate::{
    diagnostic::{Diagnostic, Edit},
    engine::names,
    nest::{Level, Nest, ValueId},
    schedule::DirectiveKind,
    span::SpanId,
};

/// `reduce(value: level)`.
pub(in crate::engine) fn apply(nest: &Nest, value: &str, level: Level) -> Result<(Nest, Proof), Failure> {
    let id = names::value(nest, value)?;
    let combines = |id: ValueId| nest.value(id).reduction.is_some() && !nest.is_carried(id);
    if nest.is_carried(id) {
        let text = format!("`{value}` is carried from tile to tile: units cannot each carry a part of it");
        return Err(Failure::refused(Diagnostic::new(SpanId::NONE, text))
            .note(nest.value(id).span, format!("`{value}` starts here"))
            .edit(Edit::instead([])));
    }
    if !combines(id) {
        let text = format!("`{value}` is not a reduction: there are no parts of it to combine");
        let ids = (0..nest.values.len() as u16).map(ValueId).filter(|id| combines(*id));
        let reductions: Vec<String> = ids.map(|id| nest.value(id).name.clone()).collect();
        let failure = Failure::refused(Diagnostic::new(SpanId::NONE, text))
            .note(nest.value(id).span, format!("`{value}` is defined here"));
        return Err(match reductions.as_slice() {
            [] => failure,
            names => {
                let reduce = |value: &String| DirectiveKind::Reduce { value: value.clone(), level };
                failure
                    .remark(format!("the reductions are {}", names::list(names)))
                    .edits(names.iter().map(|v| Edit::instead([reduce(v)])))
                    .edit(Edit::instead([]))
            }
        });
    }
    let mut nest = nest.clone();
    nest.combine.insert(id, level);
    if let Some(text) = bind::uncombined(&nest, id) {
        let whole = DirectiveKind::Reduce { value: value.to_string(), level: Level::Cta };
        return Err(Failure::refused(Diagnostic::new(SpanId::NONE, text))
            .note(nest.value(id).span, format!("`{value}` is computed here"))
            .edit(Edit::instead([whole])));
    }
    let fact = format!("parts of `{value}` are combined across the {level}");
    Ok((nest, Proof { facts: vec![fact], ..Proof::default() }))
}
