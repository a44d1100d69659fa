//! All that happens to a program, step by step: the nest after each phase of its schedule, the kernel after each pass of
//! the lowering.

use crate::{
    diagnostic::Diagnostic,
    engine,
    lower::{self, Given, LowerError},
    plan::Plan,
    program::{Program, Variant},
};
use std::fmt::Write;

/// Why the steps cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// The schedule does not apply again.
    #[error("{}", .0.message)]
    Schedule(Box<Diagnostic>),
    /// The program cannot be lowered.
    #[error(transparent)]
    Lower(#[from] LowerError),
}

/// The text of a program after each step, under headings. Of a step that only adds lines these are shown, with the line
/// before them.
///
/// # Errors
/// When the program cannot be lowered.
pub fn passes(program: &Program, variant: Variant) -> Result<String, PassError> {
    let mut out = String::new();
    let phases = engine::phases(program).map_err(|d| PassError::Schedule(Box::new(d)))?;
    let mut before = String::new();
    for phase in phases {
        heading(&mut out, "nest", &phase.name, &phase.directives.join("; "));
        let now = phase.nest.to_string();
        out.push_str(if now == before { "unchanged\n" } else { &now });
        before = now;
    }
    before.clear();
    lower::lower_observed(program, variant, &Given::default(), &mut |pass, lowering| {
        heading(&mut out, "kernel", pass.name, pass.what);
        let now = (pass.text)(lowering);
        // The first passes make no statement yet: what each of them leaves is a text of its own.
        match lowering.kernel.body.is_empty() {
            true => out.push_str(&now),
            false => {
                out.push_str(&changes(&before, &now));
                before = now;
            }
        }
    })?;
    Ok(out)
}

/// The text of what a lowering works out of a program before any statement: tiles, roles, boxes, channels, places and sums.
///
/// # Errors
/// When the program cannot be lowered.
pub fn plan(program: &Program) -> Result<String, LowerError> {
    let nest = &program.nest;
    let plan = Plan::of(nest, program.schedule.target);
    let plan = plan.map_err(|why| LowerError::Malformed(why.text(nest)))?;
    Ok(plan.text(nest))
}

fn heading(out: &mut String, ir: &str, name: &str, what: &str) {
    let gap = if out.is_empty() { "" } else { "\n" };
    let colon = if what.is_empty() { "" } else { ": " };
    let _ = writeln!(out, "{gap}== {ir}, {name}{colon}{what}");
}

/// What of a text is new, if lines were only added; else all of it.
fn changes(before: &str, now: &str) -> String {
    if before == now {
        return "unchanged\n".into();
    }
    let mut old = before.lines().peekable();
    let (mut out, mut last, mut new) = (String::new(), None, false);
    for line in now.lines() {
        if old.next_if_eq(&line).is_some() {
            (last, new) = (Some(line), false);
            continue;
        }
        if let Some(last) = last.filter(|_| !new) {
            let _ = writeln!(out, "  {last}");
        }
        let _ = writeln!(out, "+ {line}");
        new = true;
    }
    if old.next().is_some() || before.is_empty() { now.into() } else { out }
}
