//! Kernel and schedule as text.

use crate::model::{Head, Line, Text};
use tile_dsl::{engine::Derivation, program::Program, schedule::Schedule, tile};
use tile_runtime::LaunchReport;

/// What the page shows, and of which run.
pub(crate) fn head(program: &Program, doc: &str, report: Option<&LaunchReport>) -> Head {
    let about = doc.split("\n\n").next().unwrap_or("").split_whitespace().collect::<Vec<_>>().join(" ");
    Head {
        kernel: program.nest.kernel.name.clone(),
        schedule: program.schedule.name.clone(),
        about,
        dtype: program.dtype.map(|d| d.name().to_string()),
        target: program.schedule.target.to_string(),
        variant: report.and_then(|r| r.variant).map(|v| v.to_string()),
        assumptions: report.map(|r| r.assumptions.to_vec()).unwrap_or_default(),
        dims: report.map(|r| r.dims.clone()).unwrap_or_default(),
        ctas: report.map_or(0, |r| r.ctas.into()),
        threads: report.map_or(0, |r| r.threads),
    }
}

/// The last name of a path: `blocktile_2d` of `kernels::blocktile_2d`.
pub(crate) fn last(path: &str) -> String {
    path.rsplit("::").next().unwrap_or(path).trim().to_string()
}

/// The text of a kernel and of what a schedule says.
pub(crate) fn collect(kernel: &tile::Kernel, schedule: &Schedule, derivation: &Derivation) -> Text {
    let failed = derivation.failed.as_ref().map(|(at, _)| *at);
    let order = schedule.in_order();
    let line = |(at, directive): (usize, &&tile_dsl::schedule::Directive)| Line {
        text: directive.to_string(),
        phase: directive.kind.phase().to_string(),
        from: directive.inherited.as_deref().map(last),
        // Step 0 is the kernel as it is.
        step: Some(at + 1).filter(|step| *step < derivation.steps.len()),
        refused: failed == Some(at),
    };
    let mut parents: Vec<String> = Vec::new();
    for directive in &schedule.directives {
        if let Some(parent) = directive.inherited.as_deref().map(last)
            && !parents.contains(&parent)
        {
            parents.push(parent);
        }
    }
    Text {
        kernel: kernel.to_string().lines().map(str::to_string).collect(),
        directives: order.iter().enumerate().map(line).collect(),
        parents,
    }
}
