//! What to look at first: what the simulator found wrong, then rules over its counts.

use crate::model::{AccessView, Budgets, Finding, Level, Memory};
use ptx_sim::{Access, FindingKind};
use tile_runtime::LaunchReport;

/// The findings of a run, the worst first.
pub(crate) fn collect(report: &LaunchReport, memory: &Memory, budgets: &Budgets) -> Vec<Finding> {
    let mut found: Vec<Finding> = report.findings.iter().map(|f| wrong(f, memory)).collect();
    found.extend(memory.accesses.iter().enumerate().filter_map(|(n, access)| slow(n, access, memory)));
    found.extend(resident(budgets));
    found.extend(report.warnings.iter().map(|warning| note(warning.clone(), String::new(), "budgets")));
    if report.findings.is_empty() {
        found.push(Finding {
            level: Level::Good,
            ..note(
                "No race, no access out of bounds, no barrier missed".into(),
                format!("The simulator ran {} CTAs and checked each access.", report.ctas),
                "events",
            )
        });
    }
    let conflicts = memory.totals.conflicts;
    if memory.totals.wavefronts > 0 && conflicts == 0 {
        found.push(Finding {
            level: Level::Good,
            ..note(
                "No bank conflict".into(),
                format!("{} requests to shared memory.", memory.totals.shared_requests),
                "memory",
            )
        });
    }
    found.sort_by_key(|f| f.level);
    found
}

fn note(text: String, why: String, panel: &'static str) -> Finding {
    Finding { level: Level::Note, text, why, lines: Vec::new(), source: None, panel, access: None }
}

/// What the simulator calls wrong.
fn wrong(f: &ptx_sim::Finding, memory: &Memory) -> Finding {
    let access = memory.accesses.iter().position(|a| a.lines.contains(&f.line));
    let [x, y, z] = f.cta;
    let times = if f.count > 1 { format!(", {} times", f.count) } else { String::new() };
    let why = format!("`{}` in CTA ({x}, {y}, {z}), warp {}, lane {}{times}.", f.instruction, f.warp, f.lane);
    let panel = match f.kind {
        FindingKind::Deadlock
        | FindingKind::BarrierCount
        | FindingKind::Mbarrier
        | FindingKind::ClusterBarrier
        | FindingKind::DivergentAligned => "events",
        _ => "memory",
    };
    Finding {
        level: Level::Wrong,
        text: f.message.clone(),
        why,
        lines: vec![f.line],
        source: f.source.as_ref().map(|s| format!("{}:{}:{}", s.file, s.line, s.column)),
        panel,
        access,
    }
}

/// An access that costs more than its bytes need.
fn slow(n: usize, access: &AccessView, memory: &Memory) -> Option<Finding> {
    let counted = access.counted;
    if counted.requests == 0 || counted.units <= counted.least {
        return None;
    }
    let each = |units: u64| number(units as f64 / counted.requests as f64);
    let verb = match access.access {
        Access::Load => "Loads of",
        Access::Store => "Stores to",
        Access::Atomic => "Atomics on",
    };
    let (unit, space, all) = match access.shared {
        true => ("wavefronts", "shared ", memory.totals.wavefronts),
        false => ("sectors", "", memory.totals.sectors),
    };
    let more = counted.units - counted.least;
    let share = 100.0 * more as f64 / all as f64;
    let cause = match access.shared {
        true => "lanes ask for different words of one bank",
        false => "sectors of 32 bytes are fetched for a part of their bytes",
    };
    Some(Finding {
        // Less than a hundredth of the traffic is to know, not to mend.
        level: if share >= 1.0 { Level::Slow } else { Level::Note },
        text: format!(
            "{verb} {space}`{}` take {} {unit} a request; its bytes need {}",
            access.buffer,
            each(counted.units),
            each(counted.least)
        ),
        why: format!("{cause}: {more} of all {all} {unit} ({share:.1} %) are more than needed."),
        lines: access.lines.clone(),
        source: None,
        panel: "memory",
        access: Some(n),
    })
}

/// How many CTAs a multiprocessor holds, and why no more.
fn resident(budgets: &Budgets) -> Option<Finding> {
    let least = budgets.limits.iter().map(|l| l.ctas).min()?;
    let limits: Vec<&str> =
        budgets.limits.iter().filter(|l| l.ctas == least).map(|l| l.resource.as_str()).collect();
    let values = budgets.registers_of_values;
    let registers = match (&budgets.registers, budgets.registers_allowed) {
        (Some((n, of)), _) => format!(" Registers of a thread: {n} {of}."),
        (None, Some(n)) => {
            format!(
                " More than {n} registers a thread would allow fewer; its largest value alone fills {values}."
            )
        }
        (None, None) => String::new(),
    };
    let wanted = budgets.wanted.map_or(String::new(), |n| format!(" The schedule asks for room for {n}."));
    let ctas = if least == 1 { "1 CTA".to_string() } else { format!("{least} CTAs") };
    Some(note(
        format!("A multiprocessor holds at most {ctas} at a time, limited by {}", limits.join(" and ")),
        format!(
            "{} threads and {} bytes of shared memory a CTA.{registers}{wanted}",
            budgets.threads, budgets.shared_bytes
        ),
        "budgets",
    ))
}

/// A number with at most two decimals.
fn number(x: f64) -> String {
    let text = format!("{x:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}
