//! One case on every executor: reference evaluator, nest interpreter, simulator on the PTX of each variant.

use crate::{
    case::{Case, Launch},
    data,
    exact::{Incomparable, exact},
    launch, sizes,
    text::reads_back,
};
use std::{
    any::Any,
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt,
    panic::{self, AssertUnwindSafe},
    sync::Once,
};
use tile_dsl::{
    directive::{self, DirectiveKind},
    dtype::DType,
    engine::{self, testing::TYPES},
    kernel::Stmt,
    lower,
    nest::{Access, Across, Arithmetic, interpret},
    op::RedOp,
    program::{Program, Variant},
    tile::evaluate::{Elements, Inputs, Reference, evaluate, reference},
};
use tile_runtime::{Device, PtxCache};

/// Seeds of the order of warps and CTAs that each launch runs under.
pub const SEEDS: [u64; 2] = [0, 0x5eed];

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The compiler or the simulator panicked.
    Panic,
    /// The engine caught itself in a mistake, or called a legal schedule illegal the second time.
    Engine,
    /// A launch without a schedule finds none.
    Unchosen,
    /// Proved, and not lowered.
    Lower,
    /// Lowered, and not made PTX.
    Compile,
    /// Compiled, and not run.
    Launch,
    /// The interpreter of the nest refused, or computed something else than the evaluator.
    Nest,
    /// The simulator found something.
    Finding,
    /// The simulator computed something else than the evaluator.
    Wrong,
    /// Another order of warps gave other bits.
    Order,
    /// The text of the case reads back as something else.
    Text,
}

impl Class {
    /// All of them, in the order of the table.
    pub const ALL: [Class; 11] = [
        Class::Wrong,
        Class::Finding,
        Class::Order,
        Class::Nest,
        Class::Engine,
        Class::Unchosen,
        Class::Lower,
        Class::Compile,
        Class::Launch,
        Class::Panic,
        Class::Text,
    ];
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Panic => "panic",
            Class::Engine => "engine error",
            Class::Unchosen => "no schedule",
            Class::Lower => "lowering error",
            Class::Compile => "codegen error",
            Class::Launch => "launch error",
            Class::Nest => "nest differs",
            Class::Finding => "finding",
            Class::Wrong => "wrong value",
            Class::Order => "order of warps",
            Class::Text => "text",
        })
    }
}

/// A failed check.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Kind.
    pub class: Class,
    /// What happened.
    pub message: String,
    /// The launch, if it came that far.
    pub launch: Option<Launch>,
    /// The variant, if it came that far.
    pub variant: Option<Variant>,
    /// Seed of the simulator, if it came that far.
    pub seed: Option<u64>,
}

impl Failure {
    fn new(class: Class, message: impl fmt::Display) -> Self {
        Failure { class, message: message.to_string(), launch: None, variant: None, seed: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.class)?;
        if let Some(variant) = self.variant {
            write!(f, ", {variant}")?;
        }
        if let Some(seed) = self.seed {
            write!(f, ", simulator seed {seed}")?;
        }
        if let Some(launch) = &self.launch {
            write!(f, ", {launch}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Runs in the simulator.
    pub launches: u64,
    /// Those by variant: exact, aligned, general.
    pub variants: [u64; 3],
    /// Launches of several problems.
    pub groups: u64,
    /// Launches whose results were compared bit for bit.
    pub exact: u64,
    /// Sizes left out because rounding may change results beyond any bound.
    pub incomparable: u64,
    /// Variants left out because they are too long to be compiled often.
    pub long: u64,
}

impl Done {
    /// Adds up.
    pub fn add(&mut self, other: Done) {
        self.launches += other.launches;
        self.groups += other.groups;
        self.exact += other.exact;
        self.incomparable += other.incomparable;
        self.long += other.long;
        for (a, b) in self.variants.iter_mut().zip(other.variants) {
            *a += b;
        }
    }
}

/// The factor γ of the bound on the error: 1 covers every order of summation.
const GAMMA: f64 = 1.0;

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs something that may panic; the message with its place. Panics print nothing from then on.
pub fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        panic::set_hook(Box::new(|info| {
            let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
            PANIC.with(|p| *p.borrow_mut() = format!("{}{place}", text(info.payload())));
        }));
    });
    panic::catch_unwind(AssertUnwindSafe(run)).map_err(|payload| {
        // From another thread, such as one of the simulator's, there is the payload alone.
        let here = PANIC.with(|p| std::mem::take(&mut *p.borrow_mut()));
        if here.is_empty() { text(&*payload) } else { here }
    })
}

fn text(payload: &dyn Any) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| s.to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without text".into())
}

/// Checks a case; stops at the first failure.
pub fn check(case: &Case, most_statements: usize) -> (Done, Option<Failure>) {
    let mut done = Done::default();
    let failure = match caught(|| checked(case, most_statements, &mut done)) {
        Ok(Ok(())) => None,
        Ok(Err(failure)) => Some(failure),
        Err(message) => Some(Failure::new(Class::Panic, message)),
    };
    (done, failure)
}

/// The proved program of a case.
pub fn program(case: &Case) -> Result<Program, Failure> {
    engine::schedule(&case.kernel, &case.schedule, case.dtype)
        .map_err(|wrong| Failure::new(Class::Engine, &wrong[0].message))
}

fn checked(case: &Case, most_statements: usize, done: &mut Done) -> Result<(), Failure> {
    let program = program(case)?;
    reads_back(case).map_err(|e| Failure::new(Class::Text, e))?;
    let device = Device::sim().with_cache(PtxCache::disabled());
    // Here copies complete when they are issued, there when they are waited for: both must give the same.
    let shuffled = Device::sim_early(SEEDS[1]).with_cache(PtxCache::disabled());
    let mut short: BTreeMap<Variant, bool> = BTreeMap::new();
    let mut problems = Vec::new();
    for launch in &case.launches {
        let at = |failure: Failure| Failure { launch: Some(launch.clone()), ..failure };
        if !sizes::admitted(&program, &launch.dims) {
            continue;
        }
        let Some(expected) = Expected::of(&program, launch).map_err(at)? else {
            done.incomparable += 1;
            continue;
        };
        let launch = &expected.launch;
        let at = |failure: Failure| Failure { launch: Some(launch.clone()), ..failure };
        expected.check_nest(&program).map_err(at)?;
        for variant in sizes::variants(&program, &launch.dims) {
            let at = |failure: Failure| at(Failure { variant: Some(variant), ..failure });
            let short = match short.get(&variant) {
                Some(short) => *short,
                None => {
                    let kernel =
                        lower::lower(&program, variant).map_err(|e| at(Failure::new(Class::Lower, e)))?;
                    let is_short = statements(&kernel.body) <= most_statements;
                    done.long += u64::from(!is_short);
                    short.insert(variant, is_short);
                    is_short
                }
            };
            if !short {
                continue;
            }
            let mut first = None;
            for (device, seed) in [&device, &shuffled].into_iter().zip(SEEDS) {
                let at = |failure: Failure| at(Failure { seed: Some(seed), ..failure });
                let run = launch::run(&program, &expected.inputs, device, variant);
                let run = run.map_err(|e| at(Failure::new(class_of(&e), e)))?;
                done.launches += 1;
                done.variants[variant as usize] += 1;
                done.exact += u64::from(expected.exact.values().all(|e| *e));
                if let Some(finding) = run.findings.first() {
                    return Err(at(Failure::new(Class::Finding, finding)));
                }
                expected.compare(&run.stored).map_err(|m| at(Failure::new(Class::Wrong, m)))?;
                let bits: Vec<Vec<u64>> = run.stored.values().map(bits).collect();
                match &first {
                    None => first = Some(bits),
                    Some(other) if *other != bits && !adds_in_any_order(&program) => {
                        let message = format!("seeds {} and {seed} give different bits", SEEDS[0]);
                        return Err(at(Failure::new(Class::Order, message)));
                    }
                    Some(_) => {}
                }
            }
        }
        problems.push(expected);
    }
    // The launches as one. Whose turn it is follows from the case, as its failures have to come again.
    let turn = case.launches.first().is_some_and(|launch| launch.data.is_multiple_of(GROUPED));
    if turn && problems.len() > 1 && short.values().all(|short| *short) {
        check_group(&program, &problems, &shuffled, done)?;
    }
    Ok(())
}

/// Of so many cases one is launched as a group, too.
const GROUPED: u64 = 4;

/// All problems in one launch, in the variant that holds for all of them.
fn check_group(
    program: &Program,
    problems: &[Expected],
    device: &Device,
    done: &mut Done,
) -> Result<(), Failure> {
    let at = |failure: Failure| Failure {
        message: format!("as a group of {}: {}", problems.len(), failure.message),
        ..failure
    };
    let inputs: Vec<&Inputs> = problems.iter().map(|p| &p.inputs).collect();
    let run = launch::run_group(program, &inputs, device);
    let run = run.map_err(|e| at(Failure::new(class_of(&e), e)))?;
    done.launches += 1;
    done.groups += 1;
    if let Some(finding) = run.findings.first() {
        return Err(at(Failure::new(Class::Finding, finding)));
    }
    for (problem, stored) in problems.iter().zip(&run.stored) {
        let failure = |message| Failure {
            launch: Some(problem.launch.clone()),
            variant: run.report.variant,
            ..Failure::new(Class::Wrong, message)
        };
        problem.compare(stored).map_err(|m| at(failure(m)))?;
    }
    Ok(())
}

fn class_of(error: &tile_runtime::Error) -> Class {
    match error {
        tile_runtime::Error::Lower { .. } => Class::Lower,
        tile_runtime::Error::Compile(_) => Class::Compile,
        _ => Class::Launch,
    }
}

fn adds_in_any_order(program: &Program) -> bool {
    let atomic = |d: &DirectiveKind| {
        matches!(d, DirectiveKind::SplitK(directive::SplitK { across: Across::Atomic, .. }))
    };
    // Of integers and of extremes the order does not matter.
    let rounds = |a: &Access| {
        let added = a.combines.as_ref().is_some_and(|(op, _)| *op == RedOp::Add);
        added && program.nest.elem(a.tensor).is_float()
    };
    let looks = |d: &DirectiveKind| matches!(d, DirectiveKind::Lookback(_));
    program.schedule.directives.iter().any(|d| atomic(&d.kind) || looks(&d.kind))
        || program.nest.accesses.iter().any(rounds)
}

fn bits(elements: &Elements) -> Vec<u64> {
    elements.to_f64().into_iter().map(f64::to_bits).collect()
}

/// Statements of the kernel IR, nested ones included: what codegen takes its time for.
pub fn statements(body: &[Stmt]) -> usize {
    body.iter()
        .map(|stmt| match stmt {
            Stmt::For { body, .. } => 1 + statements(body),
            Stmt::If { then, otherwise, .. } => 1 + statements(then) + statements(otherwise),
            _ => 1,
        })
        .sum()
}

/// What a launch must compute.
pub struct Expected {
    /// The launch; without special numbers where results round.
    pub launch: Launch,
    /// Arguments.
    pub inputs: Inputs,
    /// Tensors whose elements are exact.
    pub exact: BTreeMap<String, bool>,
    reference: BTreeMap<String, Reference>,
    values: BTreeMap<String, Elements>,
}

impl Expected {
    /// Evaluates; nothing where results cannot be compared.
    ///
    /// # Errors
    /// Arguments that the evaluator does not take.
    pub fn of(program: &Program, launch: &Launch) -> Result<Option<Expected>, Failure> {
        let kernel = &program.nest.kernel;
        let mut launch = launch.clone();
        let multiplies_within_limits = crate::program::multiplies_within_limits(kernel);
        launch.special &= !multiplies_within_limits;
        let exact = loop {
            let Some(inputs) = data::inputs(kernel, &launch, program.nest.tiles()) else { return Ok(None) };
            match exact(kernel, &inputs) {
                // NaN and infinities make bounds on the error meaningless.
                Ok(exact) if launch.special && !exact.values().all(|e| *e) => launch.special = false,
                Ok(exact) => break exact,
                Err(Incomparable::Discontinuous | Incomparable::Overflow) => return Ok(None),
            }
        };
        let inputs = data::inputs(kernel, &launch, program.nest.tiles()).expect("checked above");
        let wrong = |e| Failure::new(Class::Nest, format!("the evaluator says: {e}"));
        let reference = reference(kernel, &inputs).map_err(wrong)?;
        let values = evaluate(kernel, &inputs).map_err(wrong)?;
        // A quotient may be NaN where a limit leaves a point out, and what that does is not defined.
        if multiplies_within_limits && reference.values().any(|r| r.values.iter().any(|x| x.is_nan())) {
            return Ok(None);
        }
        Ok(Some(Expected { launch, inputs, exact, reference, values }))
    }

    /// The nest's interpreter agrees.
    fn check_nest(&self, program: &Program) -> Result<(), Failure> {
        let fail = |message: String| Failure::new(Class::Nest, message);
        let found = interpret(&program.nest, &self.inputs, Arithmetic::Exact, self.launch.data)
            .map_err(|e| fail(e.to_string()))?;
        let found: BTreeMap<String, Elements> = self
            .values
            .iter()
            .map(|(name, e)| (name.clone(), Elements::from_f64(e.dtype(), found[name].clone())))
            .collect();
        self.compare(&found).map_err(fail)
    }

    /// Compares what was stored with what should have been.
    ///
    /// # Errors
    /// The first tensor that differs, with its first or worst element.
    pub fn compare(&self, found: &BTreeMap<String, Elements>) -> Result<(), String> {
        for (name, found) in found {
            let (reference, values) = (&self.reference[name], &self.values[name]);
            if !self.exact.get(name).copied().unwrap_or(true) {
                let comparison = reference.compare(found, GAMMA);
                if !comparison.verified() {
                    let at = comparison.worst.unwrap_or_default();
                    return Err(format!(
                        "`{name}` is {} times its bound off at {at} of {}: {} instead of {}",
                        comparison.error_bound_ratio,
                        found.len(),
                        found.to_f64()[at],
                        reference.values[at]
                    ));
                }
                continue;
            }
            let (found, values) = (found.to_f64(), values.to_f64());
            let same = |(a, b): &(&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
            let wrong: BTreeSet<usize> =
                found.iter().zip(&values).enumerate().filter(|(_, p)| !same(p)).map(|(n, _)| n).collect();
            if let Some(at) = wrong.first() {
                return Err(format!(
                    "`{name}` is wrong in {} of {} elements, first at {at}: {} instead of {}",
                    wrong.len(),
                    found.len(),
                    found[*at],
                    values[*at]
                ));
            }
        }
        Ok(())
    }
}

/// The element types a kernel is tried with.
pub fn dtypes(generic: bool) -> Vec<Option<DType>> {
    if generic { TYPES.map(Some).to_vec() } else { vec![None] }
}
