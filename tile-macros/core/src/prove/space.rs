//! Schedules with lists: each configuration is proved by itself, and those that do not apply are left out, with the reason.

use super::{Proved, Prover};
use crate::parse::{
    lists::{Lists, MOST},
    schedule::Entry,
};
use std::collections::BTreeSet;
use tile_dsl::{
    diagnostic::Diagnostic, dtype::DType, engine::Mistake, program::Program, schedule::Schedule, span::SpanId,
};

/// The configurations of a schedule.
#[derive(Default)]
pub struct Space {
    /// Those that are legal for some element type that the schedule admits, with a program for each.
    pub configurations: Vec<Configuration>,
    /// Those that are not, for which element type, and why.
    pub dropped: Vec<Dropped>,
}

/// A number for each list.
pub struct Configuration {
    /// Its directives that have lists, as text.
    pub text: String,
    /// By element type.
    pub programs: Vec<(Option<DType>, Program)>,
}

/// A configuration that is not legal for an element type.
pub struct Dropped {
    pub text: String,
    pub dtype: Option<DType>,
    pub reason: String,
}

impl Prover<'_> {
    /// Proves all configurations for each element type; whether there is a type for which none is legal.
    pub(super) fn prove_space(
        &mut self,
        entry: &Entry,
        key: &str,
        proved: &mut Proved,
        inherited: &BTreeSet<SpanId>,
        parent_failed: bool,
    ) -> bool {
        let (schedule, space) = (&proved.schedule, proved.space.insert(Space::default()));
        let lists = self.lists.of(&schedule.directives);
        let lengths: Vec<String> = lists.iter().map(|(_, length)| length.to_string()).collect();
        let count =
            lists.iter().try_fold(1usize, |n, (_, length)| n.checked_mul(*length)).unwrap_or(usize::MAX);
        if count > MOST {
            let message = format!(
                "`{}` has {} = {count} configurations, and {MOST} are the most",
                entry.name,
                lengths.join(" · ")
            );
            let why = "each is proved while rustc runs, for each element type: shorten a list, or replace one by a number";
            let span = self.spans.of(&entry.name);
            self.report.push(Diagnostic::new(span, message).remark(why));
            return true;
        }
        let Some(Some(prover)) = self.kernels.get_mut(key) else { return false };
        let dtypes: Vec<Option<DType>> = match schedule.dtypes.as_slice() {
            [] => vec![None],
            dtypes => dtypes.iter().copied().map(Some).collect(),
        };
        // The mistakes of the first configuration, by element type.
        let mut first: Vec<Vec<Mistake>> = vec![Vec::new(); dtypes.len()];
        for picked in Lists::configurations(&lists) {
            let (directives, text) = self.lists.pick(&schedule.directives, &picked);
            let name = format!("{} {{ {text}; }}", schedule.name);
            let schedule = Schedule { name, directives, ..schedule.clone() };
            let mut configuration = Configuration { text, programs: Vec::new() };
            for (dtype, first) in dtypes.iter().zip(&mut first) {
                match prover.prove(&schedule, &[*dtype], 0) {
                    Ok(mut proofs) => {
                        let (nest, _) = proofs.remove(0);
                        let program = Program { schedule: schedule.clone(), dtype: *dtype, nest };
                        configuration.programs.push((*dtype, program));
                    }
                    Err(mistakes) => {
                        let reason = mistakes.first().map(|(d, _)| d.message.clone()).unwrap_or_default();
                        space.dropped.push(Dropped {
                            text: configuration.text.clone(),
                            dtype: *dtype,
                            reason,
                        });
                        if first.is_empty() {
                            *first = mistakes;
                        }
                    }
                }
            }
            if !configuration.programs.is_empty() {
                space.configurations.push(configuration);
            }
        }
        // One report of what is the same for several element types.
        let mut wrong: Vec<Mistake> = Vec::new();
        for (dtype, mistakes) in dtypes.iter().zip(first) {
            let legal = |c: &Configuration| c.programs.iter().any(|(d, _)| d == dtype);
            if space.configurations.iter().any(legal) {
                continue;
            }
            let dropped: Vec<&Dropped> = space.dropped.iter().filter(|d| d.dtype == *dtype).collect();
            let remarks = none_legal(&dropped);
            for (diagnostic, dtypes) in mistakes {
                // A help is an edit of what is written, and there are lists.
                let bare = Diagnostic { help: None, ..diagnostic };
                let diagnostic = remarks.iter().fold(bare, |d, text| d.remark(text));
                match wrong.iter_mut().find(|(known, _)| *known == diagnostic) {
                    Some((_, known)) => known.extend(dtypes),
                    None => wrong.push((diagnostic, dtypes)),
                }
            }
        }
        let failed = !wrong.is_empty();
        self.mistakes(entry, key, wrong, inherited, parent_failed);
        failed
    }
}

/// What to say beside the mistakes of the first configuration: whose they are, and two other reasons.
fn none_legal(dropped: &[&Dropped]) -> Vec<String> {
    let Some(first) = dropped.first() else { return Vec::new() };
    let mut remarks =
        vec![format!("this is `{}`; none of the {} configurations is legal", first.text, dropped.len())];
    let mut seen = vec![&first.reason];
    for other in dropped {
        if !seen.contains(&&other.reason) && seen.len() < 3 {
            seen.push(&other.reason);
            remarks.push(format!("`{}`: {}", other.text, other.reason));
        }
    }
    remarks
}
