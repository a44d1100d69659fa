//! `alternate`: for every second tile of a CTA the steps of a produced loop run backwards, so that what the last tile left in L2 is read first.
//!
//! It rewrites no statement. Condition: the loop has a producer. That its steps are those of reductions alone, the complete schedule
//! shows.
//! Cost: an index that runs both ways.

use super::prelude::*;
use crate::{
    engine::{families::assume::refuse, names},
    machine::Unit,
    nest::{Digit, Frame, Stmt, Target, ValueId, leaves, loops},
};
use std::collections::BTreeSet;

directive! {
    /// `alternate(k)`: the steps of a produced loop run backwards for every second tile of a CTA.
    "alternate(k)" in Launch, 1:
    Alternate { digit: DigitName } => |s| s.each(digit, "a pipelined loop")
}

impl Definition for Alternate {
    const CHECK: Option<Check> = Some((Shows::Turns, check));

    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        alternate(nest, &self.digit)
    }
}

impl Drawn for Alternate {
    const ORDERS: bool = true;

    fn beside(_: Kind) -> &'static [&'static [Kind]] {
        &[PRODUCERS, &[Kind::Persistent]]
    }

    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        generator.produced().into_iter().map(|digit| Alternate { digit }.into()).collect()
    }
}

/// `alternate(digit)`. Its steps are those of reductions alone, which the complete schedule shows.
fn alternate(nest: &Nest, name: &str) -> Result<(Nest, Proof), Failure> {
    let digit = names::existing(nest, name, names::Bare::Tile)?;
    if !nest.produced.contains(&digit) {
        let text = format!("`{name}` has no producer: its copies are made in the order of its steps");
        let produce = DirectiveKind::Produce(directive::Produce {
            digit: name.to_string(),
            unit: Unit::Warp,
            stages: None,
        });
        return Err(refuse(text).edit(Edit::put([produce])).edit(Edit::remove()));
    }
    let mut nest = nest.clone();
    nest.alternate.insert(digit);
    Ok((nest, Proof::default()))
}

/// Loops that run backwards for every second tile: a CTA has a second one, and nothing goes from step to step but sums.
fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    context.nest.alternate.iter().filter_map(|digit| backwards(context, *digit)).collect()
}

fn backwards(context: &Context<'_>, digit: Digit) -> Option<Diagnostic> {
    let nest = context.nest;
    let name = nest.digit_name(digit);
    let by = context.last(
        |k| matches!(k, DirectiveKind::Alternate(directive::Alternate { digit: d }) if context.is(d, digit)),
    );
    let at = |text: String| context.at(by, SpanId::NONE, text);
    if nest.persistent.is_none() {
        let text = format!("`{name}` runs backwards for every second tile, and a CTA has one tile");
        let persistent = Edit::put([directive::Persistent { ctas: 1, serpentine: false, counter: false }]);
        return Some(at(text).edits([persistent, Edit::remove()]));
    }
    if loops(&nest.body).into_iter().any(|(d, at)| d == digit && nest.is_produced_tile(d, at)) {
        let text = format!("`{name}` is a loop over tiles that CTAs have: which come first `order` says");
        return Some(at(text).edits([Edit::remove()]));
    }
    let value = nest.value(carried_by(nest, digit)?);
    let text =
        format!("steps of `{name}` cannot run backwards: `{}` is carried from each to the next", value.name);
    let note = format!("`{}` is carried here", value.name);
    Some(at(text).note(value.span, note).edits([Edit::remove()]))
}

/// A value that goes from each step of a loop to the next: one that starts outside, and that a step sets, or reads
/// and adds to.
fn carried_by(nest: &Nest, digit: Digit) -> Option<ValueId> {
    let (mut set, mut added, mut read) = (Vec::new(), Vec::new(), BTreeSet::new());
    leaves(&nest.body, &mut |path, leaf| {
        let Some(at) = path.iter().position(|f| matches!(f, Frame::For(d, _) if *d == digit)) else {
            return;
        };
        let (target, expr) = leaf.leaf().expect("a leaf");
        read.extend(expr.values());
        match (leaf, target) {
            (Stmt::Set { .. } | Stmt::Red { .. }, Target::Value(v))
                if path[..at].iter().any(|f| matches!(f, Frame::First(vs) if vs.contains(&v))) =>
            {
                let writes = if matches!(leaf, Stmt::Set { .. }) { &mut set } else { &mut added };
                writes.push(v);
            }
            _ => {}
        }
    });
    set.into_iter().chain(added.into_iter().filter(|v| read.contains(v))).next()
}
