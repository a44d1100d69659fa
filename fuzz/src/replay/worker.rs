//! The process that launches: a line for what it begins and for what came of it.
//!
//! ```text
//! begin 12 0 exact, launch N = 4; data 7      program 12 of the file, its launch 0
//! equal 12 0                                  the simulator's bits
//! within 12 0                                 within the evaluator's bound, where hardware may differ
//! wrong 12 0 `y` is 1e0 at 3, ..
//! error 12 0 CUDA_ERROR_ILLEGAL_ADDRESS       the last line: the context may be lost
//! end 12 0                                    no more of program 12
//! ```

use crate::{
    case::Launch,
    check::{Expected, caught},
    data,
    export::{Batch, Entry, Error, Expectation, bits, hash},
    launch,
};
use std::io::{self, Write};
use tile_dsl::{
    directive::{self, DirectiveKind},
    nest::Across,
    op::UnOp,
    program::Program,
    tile::{self, Expr, ExprKind, Kernel, evaluate::Elements},
};
use tile_runtime::{Device, PtxCache, aot};

/// What a worker does at a program instead of launching it, for tests of who started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Ends without a word.
    Abort,
    /// Never ends.
    Hang,
    /// Stands for a CUDA error.
    Error,
}

/// Where a worker begins, every how many programs it takes, and what is planted where.
#[derive(Clone, Debug)]
pub struct Share {
    /// The first program.
    pub first: usize,
    /// Every how many it takes.
    pub every: usize,
    /// Numbers of programs, and what happens at their first launch.
    pub planted: Vec<(usize, Planted)>,
}

/// Launches a share of a batch; whether it came to the end.
///
/// # Errors
/// PTX that cannot be read, or a standard output that nobody reads.
pub fn worker(batch: &Batch, share: &Share, device: &Device, out: &mut dyn Write) -> Result<bool, Error> {
    let device = device.clone().with_cache(PtxCache::disabled());
    for (n, entry) in batch.entries.iter().enumerate().skip(share.first).step_by(share.every.max(1)) {
        if !program(n, entry, share, &device, out)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn program(
    n: usize,
    entry: &Entry,
    share: &Share,
    device: &Device,
    out: &mut dyn Write,
) -> Result<bool, Error> {
    let mut say = |what: &str, launch: usize, text: &str| -> io::Result<()> {
        writeln!(out, "{what} {n} {launch} {}", text.replace('\n', "\\n"))?;
        out.flush()
    };
    let told = |result: io::Result<()>| {
        result.map_err(|source| Error::File { path: "the standard output".into(), source })
    };
    aot::provide(&entry.ptx)?;
    let program = match Program::from_bytes(&entry.program) {
        Ok(program) => program,
        Err(e) => {
            told(say("error", 0, &e.to_string()))?;
            return Ok(false);
        }
    };
    for (m, wanted) in entry.launches.iter().enumerate() {
        let launch = Launch { dims: wanted.dims.clone(), data: wanted.data, special: wanted.special };
        told(say("begin", m, &format!("{}, {launch}", wanted.variant)))?;
        match share.planted.iter().find(|(at, _)| *at == n).map(|(_, what)| *what) {
            Some(Planted::Abort) => std::process::abort(),
            Some(Planted::Hang) => loop {
                std::thread::park();
            },
            Some(Planted::Error) => {
                told(say("error", m, "a planted error"))?;
                return Ok(false);
            }
            None => {}
        }
        let outcome = caught(|| one(&program, wanted, &launch, device));
        match outcome.unwrap_or_else(|panic| Err(Fault::Launch(panic))) {
            Ok(true) => told(say("equal", m, ""))?,
            Ok(false) => told(say("within", m, ""))?,
            Err(Fault::Value(message)) => told(say("wrong", m, &message))?,
            Err(Fault::Launch(message)) => {
                told(say("error", m, &message))?;
                return Ok(false);
            }
        }
    }
    told(say("end", 0, ""))?;
    Ok(true)
}

/// What is wrong of a launch.
enum Fault {
    /// Its results.
    Value(String),
    /// The device may be of no more use.
    Launch(String),
}

/// Whether the bits are equal; false for what may differ and lies within the bound.
fn one(program: &Program, wanted: &Expectation, launch: &Launch, device: &Device) -> Result<bool, Fault> {
    let inputs = data::inputs(&program.nest.kernel, launch, program.nest.tiles())
        .ok_or_else(|| Fault::Value("there are no such arguments".into()))?;
    let run = launch::run(program, &inputs, device, wanted.variant);
    let run = run.map_err(|e| Fault::Launch(e.to_string()))?;
    if let Some(finding) = run.findings.first() {
        return Err(Fault::Value(finding.clone()));
    }
    let differs =
        |(name, elements): &(&String, &Elements)| wanted.stored.get(*name) != Some(&hash(&bits(elements)));
    let Some((name, elements)) = run.stored.iter().find(differs) else { return Ok(true) };
    if approximate(program) {
        let expected = Expected::of(program, launch);
        let expected = expected.map_err(|e| Fault::Value(e.message))?;
        let expected = expected.ok_or_else(|| Fault::Value("the results cannot be compared".into()))?;
        return expected.compare(&run.stored).map(|()| false).map_err(Fault::Value);
    }
    // The hash says that they differ; the simulator, where.
    let sim = Device::sim().with_cache(PtxCache::disabled());
    let again = launch::run(program, &inputs, &sim, wanted.variant);
    let again = again.map_err(|e| Fault::Value(format!("`{name}` differs, and the simulator says: {e}")))?;
    let (found, right) = (bits(elements), bits(&again.stored[name]));
    if hash(&right) != wanted.stored.get(name).copied().unwrap_or_default() {
        return Err(Fault::Value(format!(
            "`{name}` is not what the simulator computed when it was exported"
        )));
    }
    let wrong: Vec<usize> = (0..found.len()).filter(|n| found[*n] != right[*n]).collect();
    let at = wrong.first().copied().unwrap_or_default();
    let (a, b) = (f32::from_bits(found[at]), f32::from_bits(right[at]));
    Err(Fault::Value(format!(
        "`{name}` differs in {} of {} elements, first at {at}: {a:e}, and {b:e} on the simulator",
        wrong.len(),
        found.len()
    )))
}

/// Whether hardware and simulator may differ in the last bits.
fn approximate(program: &Program) -> bool {
    let function = |expr: &Expr| {
        let differs = |op: &UnOp| op.row().float.is_some_and(|real| !real.reproducible);
        matches!(&expr.kind, ExprKind::Un(op, _) if differs(op))
    };
    let kernel: &Kernel = &program.nest.kernel;
    let atomic = |d: &DirectiveKind| {
        matches!(d, DirectiveKind::SplitK(directive::SplitK { across: Across::Atomic, .. }))
    };
    let mut some = false;
    tile::expressions(&kernel.body, &mut |expr| some |= function(expr));
    let looks = |d: &DirectiveKind| matches!(d, DirectiveKind::Lookback(_));
    some || program.schedule.directives.iter().any(|d| atomic(&d.kind) || looks(&d.kind))
}
