//! Pipelines shorter than latency × bandwidth: too few bytes on their way to a multiprocessor.

use crate::{
    Figures, Help, Lint, Rule,
    subject::Subject,
    text::{counted, number},
    trial::Trials,
};
use tile_dsl::{
    directive::{DirectiveKind, Pipeline},
    kernel::Kernel,
    nest::{CopyId, Frame, LoopKind, Nest, leaves},
    schedule::Space,
};

/// The rule.
pub const RULE: Rule = Rule {
    name: "pipeline",
    about: "bytes on their way to a multiprocessor, of the stages that are filled ahead, beside latency × bandwidth",
    look,
};

/// More stages than a pipeline has that are tried.
const MORE: u32 = 4;

/// A ring of copies in shared memory: what is filled ahead while threads compute.
#[derive(Clone, PartialEq)]
struct Ring {
    /// The loop whose steps fill it.
    at: String,
    /// Its copies, by the names of their buffers.
    copies: Vec<String>,
    /// Its stages.
    stages: u32,
}

/// The rings of a nest, each once: copies that stand directly inside of a pipelined loop.
fn rings(nest: &Nest) -> Vec<Ring> {
    let mut found: Vec<Ring> = Vec::new();
    leaves(&nest.body, &mut |path, _| {
        for (n, frame) in path.iter().enumerate() {
            let Frame::For(digit, LoopKind::Pipe(stages)) = frame else { continue };
            let copies =
                path[n + 1..].iter().map_while(|f| if let Frame::Stage(c) = f { Some(*c) } else { None });
            let shared = |c: &CopyId| nest.copy(*c).space == Space::Shared;
            let copies: Vec<String> = copies.filter(shared).map(|c| nest.copy_name(c)).collect();
            let ring = Ring { at: nest.digit_name(*digit), copies, stages: *stages };
            if !ring.copies.is_empty() && !found.contains(&ring) {
                found.push(ring);
            }
        }
    });
    found
}

fn look(subject: &Subject<'_>) -> Vec<Lint> {
    let rings = rings(&subject.program.nest);
    let needed = subject.machine.bytes_in_flight();
    let ctas = f64::from(subject.resident());
    let of = |ring: &Ring| {
        let stage = stage_bytes(&subject.kernel, ring)?;
        let flying = |stages: u32| ctas * f64::from(stages - 1) * stage;
        (flying(ring.stages) < needed).then(|| lint(subject, ring, [stage, flying(ring.stages), needed]))
    };
    rings.iter().filter(|ring| ring.stages > 1).filter_map(of).collect()
}

/// Bytes of one stage, of all copies of a ring.
fn stage_bytes(kernel: &Kernel, ring: &Ring) -> Option<f64> {
    let bytes = |name: &String| kernel.shared.iter().find(|s| s.name == *name).map(|s| s.bytes() as f64);
    let all: Option<f64> = ring.copies.iter().map(bytes).sum();
    all.map(|all| all / f64::from(ring.stages))
}

fn lint(subject: &Subject<'_>, ring: &Ring, [stage, flying, needed]: [f64; 3]) -> Lint {
    let ctas = subject.resident();
    let exact = subject.kernel.persistent.is_some() || subject.registers().exact;
    let help = mended(subject, ring, needed);
    let mut notes = vec![
        format!(
            "{} of {} bytes ahead, {}{} a multiprocessor",
            counted((ring.stages - 1).into(), "stage"),
            number(stage),
            if exact { "" } else { "at most " },
            counted(ctas.into(), "CTA")
        ),
        format!("latency × bandwidth: {}", subject.machine.source),
    ];
    if help.is_none() {
        notes.push(format!("no pipeline of up to {MORE} stages more is legal and reaches it"));
    }
    Lint {
        rule: RULE.name,
        place: ring.at.clone(),
        figures: Figures {
            predicted: flying,
            bound: needed.round(),
            unit: "bytes on their way to a multiprocessor",
        },
        message: format!(
            "the pipeline over `{}` has {} bytes on their way to a multiprocessor; {} cover the latency of device memory at its full bandwidth",
            ring.at,
            number(flying),
            number(needed.round())
        ),
        notes,
        help,
    }
}

/// The fewest stages that are legal and suffice.
fn mended(subject: &Subject<'_>, ring: &Ring, needed: f64) -> Option<Help> {
    let mut trials = Trials::of(subject);
    let stated = subject.program.schedule.directives.iter().find_map(|d| match &d.kind {
        DirectiveKind::Pipeline(p) if p.stages == ring.stages => Some(p.clone()),
        _ => None,
    })?;
    (ring.stages + 1..=ring.stages + MORE).find_map(|stages| {
        let edit = DirectiveKind::Pipeline(Pipeline { stages, ..stated.clone() });
        let old =
            |kind: &DirectiveKind| matches!(kind, DirectiveKind::Pipeline(p) if p.digit == stated.digit);
        let trial = trials.with(std::slice::from_ref(&edit), old)?;
        let stage = stage_bytes(&trial.kernel, &Ring { stages, ..ring.clone() })?;
        let limits = subject.machine.limits()?;
        let shared = trial.kernel.shared_bytes() as u32;
        let fit = limits.each(trial.kernel.threads, subject.registers().each, shared);
        let ctas =
            fit.iter().map(|(n, _)| *n).min().unwrap_or(0).min(subject.kernel.persistent.unwrap_or(u32::MAX));
        let predicted = f64::from(ctas) * f64::from(stages - 1) * stage;
        (predicted >= needed).then(|| Help { directives: edit.to_string(), predicted })
    })
}
