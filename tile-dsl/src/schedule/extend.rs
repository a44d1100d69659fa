//! Extension: a parent's directives, with what a child adds, replaces and drops.

use super::{Directive, Key};
use crate::{
    diagnostic::{Diagnostic, list},
    span::SpanId,
};

/// One line of a schedule's body.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Adds a directive, or replaces the parent's of the same key.
    Directive(Directive),
    /// `drop(key)`: removes the parent's directive.
    Drop {
        /// What to remove.
        key: Key,
        /// The `drop` as written.
        span: SpanId,
    },
}

/// The directives of a schedule: its parent's in their order, each replaced in place by the child's of the same key, then the
/// child's new ones in the order written.
///
/// # Errors
/// A key given twice in the child; a `drop` of what the parent does not have.
pub fn extend(parent: &[Directive], own: &[Item]) -> Result<Vec<Directive>, Vec<Diagnostic>> {
    let (all, errors) = extend_without_mistakes(parent, own);
    if errors.is_empty() { Ok(all) } else { Err(errors) }
}

/// As [`extend`], but leaves mistakes out, as the help of each says to: the first of two of one key holds.
pub fn extend_without_mistakes(parent: &[Directive], own: &[Item]) -> (Vec<Directive>, Vec<Diagnostic>) {
    let mut all = parent.to_vec();
    let mut errors = Vec::new();
    let mut added: Vec<(Key, SpanId)> = Vec::new();
    // Drops act on the parent alone, wherever they stand in the child.
    for item in own {
        let Item::Drop { key, span } = item else { continue };
        match all.iter().position(|d| d.key() == *key) {
            Some(at) => {
                all.remove(at);
            }
            None => errors.push(nothing_to_drop(parent, key, *span)),
        }
    }
    for item in own {
        let Item::Directive(directive) = item else { continue };
        let key = directive.key();
        if let Some((_, first)) = added.iter().find(|(k, _)| *k == key) {
            let twice = Diagnostic::new(directive.span, format!("`{key}` is given twice in one schedule"));
            errors.push(twice.note(*first, "given here first").help(format!("remove `{directive}`")));
            continue;
        }
        added.push((key.clone(), directive.span));
        match all.iter_mut().find(|d| d.key() == key) {
            Some(inherited) => *inherited = directive.clone(),
            None => all.push(directive.clone()),
        }
    }
    (all, errors)
}

fn nothing_to_drop(parent: &[Directive], key: &Key, span: SpanId) -> Diagnostic {
    let error = Diagnostic::new(span, format!("there is no `{key}` to drop"));
    let keys: Vec<String> = parent.iter().map(|d| d.key().to_string()).collect();
    let name = &key.directive;
    let error = match keys.as_slice() {
        [] => error.remark("the schedule extends none"),
        _ if parent.iter().all(|d| d.key().directive != *name) => {
            error.remark(format!("the parent has no `{name}`; it has {}", list(&keys)))
        }
        _ => {
            let alike = parent.iter().map(Directive::key).filter(|k| k.directive == *name);
            let alike: Vec<String> = alike.map(|k| k.to_string()).collect();
            error.remark(format!("the parent has {}", list(&alike)))
        }
    };
    error.help(format!("remove `drop({key})`"))
}
