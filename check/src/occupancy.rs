//! Occupancy: shared memory or threads leave room for fewer CTAs than registers do.

use crate::{
    Figures, Lint, Rule,
    subject::Subject,
    text::{counted, number},
};

/// The rule.
pub const RULE: Rule = Rule {
    name: "occupancy",
    about: "CTAs that a multiprocessor holds by shared memory and threads, beside those that registers allow",
    look,
};

fn look(subject: &Subject<'_>) -> Vec<Lint> {
    let Some(limits) = subject.machine.limits() else { return Vec::new() };
    // Persistent CTAs are as many as the schedule asks for.
    if subject.kernel.persistent.is_some() {
        return Vec::new();
    }
    let fit = subject.fit();
    let by_registers = fit.iter().find(|(_, what)| *what == "registers").map_or(u32::MAX, |(n, _)| *n);
    let others = fit.iter().filter(|(_, what)| *what != "registers");
    let Some((ctas, what)) = others.min_by_key(|(n, _)| *n).copied() else { return Vec::new() };
    let warps = subject.kernel.threads.div_ceil(32).max(1);
    // With all its warps a multiprocessor holds no more, whatever they take.
    if ctas >= by_registers || (ctas + 1) * warps > limits.warps {
        return Vec::new();
    }
    let registers = subject.registers();
    let at_most = if registers.exact { "" } else { "at most " };
    let allowed = by_registers.min(limits.warps / warps);
    let mut notes = vec![format!("registers of a thread: {}", registers.source)];
    let bytes = subject.kernel.shared_bytes();
    if what == "shared memory" {
        let most = limits.shared_of_each(ctas + 1);
        notes.push(format!(
            "with {most} bytes of shared memory or less, {} fit",
            counted((ctas + 1).into(), "CTA")
        ));
    }
    vec![Lint {
        rule: RULE.name,
        place: "the CTA".into(),
        figures: Figures { predicted: ctas.into(), bound: allowed.into(), unit: "CTAs a multiprocessor" },
        message: format!(
            "{what} leaves room for {} a multiprocessor ({} of {} warps); registers allow {at_most}{}: a CTA has {bytes} bytes of shared memory and {} threads",
            counted(ctas.into(), "CTA"),
            ctas * warps,
            limits.warps,
            number(allowed.into()),
            subject.kernel.threads
        ),
        notes,
        help: None,
    }]
}
