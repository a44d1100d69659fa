//! Parts of a reduction held by several CTAs meet once a launch: no loop at run time stands around its `let`.

use super::{Context, registers::lets};
use crate::{
    diagnostic::Diagnostic,
    nest::{LoopKind, Steps},
    schedule::DirectiveKind,
};

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let mut wrong: Vec<Diagnostic> = Vec::new();
    lets(nest, &mut |v, outside, _| {
        if !nest.across.contains_key(&v) || !wrong.is_empty() {
            return;
        }
        let around =
            outside.iter().find(|(d, at)| !matches!(at, LoopKind::Unit(..)) && d.steps != Steps::Fixed(1));
        if let Some((digit, _)) = around {
            let (name, digit) = (&nest.value(v).name, nest.digit_name(*digit));
            let text = format!(
                "`{name}` is computed inside the loop over `{digit}`: the CTAs that hold parts of it would have to meet once a step, and they meet once a launch"
            );
            let split = context.last(|k| matches!(k, DirectiveKind::SplitK { .. }));
            wrong.push(
                context
                    .at(split, nest.value(v).span, text)
                    .note(nest.value(v).span, format!("`{name}` is computed here")),
            );
        }
    });
    wrong
}
