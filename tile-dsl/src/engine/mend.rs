//! What to offer for a mistake: the edits that it proposes are tried in turn, and the first that holds is the help.
//!
//! An edit holds if, for every element type, the mistake is gone and no other has come. Directives that fail cannot
//! know that, so they propose, cheaply, and the number of trials for a schedule is bounded: a failing schedule costs
//! little more than a legal one.

use super::{
    depends::renamed,
    prover::{Mistake, Outcome, Prover, Wrong},
};
use crate::{
    diagnostic::{Diagnostic, Edit, list, replace},
    directive::DirectiveKind,
    dtype::DType,
    schedule::{Directive, Item, Key, Schedule, parse},
    span::SpanId,
};
use std::collections::BTreeSet;

/// Trials that the help for one schedule is worth, all its mistakes and element types together.
pub const MOST_TRIALS: u32 = 8;

/// Gathers the mistakes of all element types, each once, and finds help for them.
pub(super) fn mistakes(
    prover: &mut Prover,
    schedule: &Schedule,
    dtypes: &[Option<DType>],
    outcomes: Vec<Outcome>,
    trials: u32,
) -> Vec<Mistake> {
    let mut found: Vec<Mistake> = Vec::new();
    let failed: Vec<Option<Wrong>> = outcomes.into_iter().map(Result::err).collect();
    for (wrong, dtype) in failed.iter().zip(dtypes) {
        for diagnostic in wrong.iter().flat_map(|wrong| &wrong.diagnostics) {
            match found.iter_mut().find(|(d, _)| alike(d, diagnostic)) {
                Some((_, dtypes)) => dtypes.extend(dtype),
                None => found.push((diagnostic.clone(), dtype.iter().copied().collect())),
            }
        }
    }
    let most = prover.tried() + trials;
    for (diagnostic, _) in &mut found {
        let edits = std::mem::take(&mut diagnostic.edits);
        if diagnostic.help.is_some() {
            continue;
        }
        let mut step = None;
        for edit in &edits {
            match tried(prover, schedule, dtypes, &failed, diagnostic, edit, most) {
                Trial::Mends => {
                    diagnostic.help = Some(text(edit, schedule, diagnostic.span));
                    break;
                }
                Trial::Step if step.is_none() => step = Some(text(edit, schedule, diagnostic.span)),
                Trial::Step | Trial::No => {}
            }
        }
        if let (None, Some(step)) = (&diagnostic.help, step) {
            let remark = format!("first step, after which other errors show: {step}");
            *diagnostic = diagnostic.clone().remark(remark);
        }
    }
    found
}

/// Whether two diagnostics are the same mistake.
fn alike(a: &Diagnostic, b: &Diagnostic) -> bool {
    (a.span, &a.message, &a.notes) == (b.span, &b.message, &b.notes)
}

/// What an edit does.
#[derive(Clone, Copy, PartialEq)]
enum Trial {
    /// The mistake is gone and no other has come.
    Mends,
    /// The mistake is gone and all directives apply, so that what the complete schedule shows comes up.
    Step,
    /// It does not help, or nobody knows.
    No,
}

/// Tries an edit, while trials last.
fn tried(
    prover: &mut Prover,
    schedule: &Schedule,
    dtypes: &[Option<DType>],
    failed: &[Option<Wrong>],
    mistake: &Diagnostic,
    edit: &Edit,
    most: u32,
) -> Trial {
    let Some(other) = edited(schedule, edit, mistake.span) else { return Trial::No };
    // Element types that fail first: most edits that do not hold show it there.
    let mut order: Vec<usize> = (0..dtypes.len()).collect();
    order.sort_by_key(|n| failed[*n].is_none());
    let mut result = Trial::Mends;
    for n in order {
        if prover.tried() >= most {
            return Trial::No;
        }
        let Err(left) = prover.attempt(&other, dtypes[n]) else { continue };
        let same = |old: &Diagnostic, d: &Diagnostic| (old.span, &old.message) == (d.span, &d.message);
        let known = |d: &Diagnostic| {
            failed[n].as_ref().is_some_and(|wrong| wrong.diagnostics.iter().any(|old| same(old, d)))
        };
        if left.diagnostics.iter().any(|d| same(mistake, d)) {
            return Trial::No;
        }
        if left.diagnostics.iter().all(known) {
            continue;
        }
        if !left.applied || failed[n].as_ref().is_none_or(|wrong| wrong.applied) {
            return Trial::No;
        }
        result = Trial::Step;
    }
    result
}

/// The directive at fault.
fn at_fault(schedule: &Schedule, span: SpanId) -> Option<usize> {
    schedule.directives.iter().position(|d| d.span == span && span != SpanId::NONE)
}

/// The directives that an edit adds; nothing if one cannot be written.
fn added(edit: &Edit) -> Option<Vec<DirectiveKind>> {
    let items = parse(&edit.put.join("; ")).ok()?.into_iter();
    let kind = |item| if let Item::Directive(directive) = item { Some(directive.kind) } else { None };
    items.map(kind).collect()
}

/// The schedule after an edit; `None` if it changes nothing.
fn edited(schedule: &Schedule, edit: &Edit, span: SpanId) -> Option<Schedule> {
    let mut other = schedule.clone();
    if let Some((from, to)) = &edit.rename {
        for directive in other.directives.iter_mut().filter(|d| d.inherited.is_none()) {
            directive.kind = renamed(&directive.kind, from, to);
        }
        let keys: BTreeSet<Key> = other.directives.iter().map(Directive::key).collect();
        let changes = keys.len() == other.directives.len() && other != *schedule;
        return changes.then_some(other);
    }
    let mut place = None;
    if edit.instead {
        let at = at_fault(schedule, span)?;
        other.directives.remove(at);
        place = Some(at);
    }
    for kind in added(edit)? {
        let added = Directive { kind, span: SpanId::NONE, inherited: None };
        let key = added.key();
        match other.directives.iter_mut().find(|d| d.key() == key) {
            Some(old) => old.kind = added.kind,
            None => match &mut place {
                Some(at) => {
                    other.directives.insert(*at, added);
                    *at += 1;
                }
                None => other.directives.push(added),
            },
        }
    }
    (other.directives != schedule.directives).then_some(other)
}

/// An edit in words that say what to type: ``replace `tile(i = 64)` by `tile(i = 16)` ``, ``add `reduce(s: cta)` ``,
/// ``remove `unroll(k)` ``. What a schedule inherits it replaces by adding a directive of the same key.
fn text(edit: &Edit, schedule: &Schedule, span: SpanId) -> String {
    if let Some((from, to)) = &edit.rename {
        let own = schedule.directives.iter().filter(|d| d.inherited.is_none());
        let changed = own.map(|d| (d, renamed(&d.kind, from, to))).filter(|(d, kind)| d.kind != *kind);
        return changed.map(|(d, kind)| replace(d, kind)).collect::<Vec<_>>().join("; ");
    }
    let fault = at_fault(schedule, span).map(|n| &schedule.directives[n]).filter(|_| edit.instead);
    let same_key = |kind: &DirectiveKind| {
        let key = Directive { kind: kind.clone(), span: SpanId::NONE, inherited: None }.key();
        schedule.directives.iter().find(|d| d.key() == key)
    };
    let (mut clauses, mut new, mut in_place) = (Vec::new(), Vec::new(), Vec::new());
    let put = added(edit).unwrap_or_default();
    for kind in &put {
        match same_key(kind) {
            Some(old) if old.inherited.is_none() && fault != Some(old) => {
                if old.kind != *kind {
                    clauses.push(replace(old, kind));
                }
            }
            None if fault.is_some_and(|f| f.inherited.is_none()) => in_place.push(kind.to_string()),
            Some(old) if fault == Some(old) && old.inherited.is_none() => in_place.push(kind.to_string()),
            _ => new.push(kind.to_string()),
        }
    }
    if let Some(fault) = fault {
        let replaced = put.iter().any(|kind| same_key(kind) == Some(fault));
        match (&fault.inherited, in_place.is_empty()) {
            (None, true) => clauses.insert(0, format!("remove `{fault}`")),
            (None, false) => clauses.insert(0, format!("replace `{fault}` by {}", list(&in_place))),
            (Some(_), _) if !replaced => new.insert(0, format!("drop({})", fault.key())),
            (Some(_), _) => {}
        }
    }
    if !new.is_empty() {
        clauses.push(format!("add {}", list(&new)));
    }
    let text = clauses.join("; ");
    match &edit.remark {
        Some(remark) => format!("{text} ({remark})"),
        None => text,
    }
}
