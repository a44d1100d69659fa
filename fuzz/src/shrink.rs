//! Makes a failing case small: fewer launches, directives, statements and axes, smaller numbers, simpler expressions, as long
//! as it fails in the same way.

mod kernel;

use crate::{
    case::Case,
    check::{Class, Failure, check},
};
use std::time::Instant;
use tile_dsl::{
    directive::{self, DirectiveKind as D},
    engine::testing::repaired,
    schedule::Schedule,
};

/// The smallest case found until `deadline` that fails with the class of `failure`, and its failure.
pub fn shrink(case: &Case, failure: &Failure, most_statements: usize, deadline: Instant) -> (Case, Failure) {
    let mut best = Best { case: case.clone(), failure: failure.clone(), most_statements, deadline };
    if let Some(launch) = &failure.launch {
        best.attempt(Case { launches: vec![launch.clone()], ..case.clone() });
    }
    loop {
        let before = best.case.to_string();
        best.directives();
        best.sizes();
        best.kernel();
        best.numbers();
        if best.case.to_string() == before || Instant::now() > deadline {
            return (best.case, best.failure);
        }
    }
}

struct Best {
    case: Case,
    failure: Failure,
    most_statements: usize,
    deadline: Instant,
}

impl Best {
    /// Takes a candidate that fails in the same way.
    fn attempt(&mut self, candidate: Case) -> bool {
        if Instant::now() > self.deadline || candidate == self.case {
            return false;
        }
        match check(&candidate, self.most_statements).1 {
            Some(failure) if failure.class == self.failure.class && same(&failure, &self.failure) => {
                self.case = candidate;
                self.failure = failure;
                true
            }
            _ => false,
        }
    }

    /// As [`Best::attempt`], with the directives that still apply.
    fn attempt_repaired(&mut self, candidate: Case) -> bool {
        // There the directive that does not apply is the failure.
        if self.failure.class == Class::Engine {
            return self.attempt(candidate);
        }
        let before = self.case.schedule.directives.len();
        match repaired(&candidate.kernel, &candidate.schedule, candidate.dtype) {
            Some(schedule) if schedule.directives.len() <= before => {
                self.attempt(Case { schedule: respanned(schedule), ..candidate })
            }
            _ => false,
        }
    }

    fn directives(&mut self) {
        let mut chunk = self.case.schedule.directives.len().div_ceil(2).max(1);
        loop {
            let mut at = self.case.schedule.directives.len();
            while at > 0 {
                let end = at.min(self.case.schedule.directives.len());
                let start = end.saturating_sub(chunk);
                let mut candidate = self.case.clone();
                candidate.schedule.directives.drain(start..end);
                self.attempt_repaired(candidate);
                at = start;
            }
            if chunk == 1 {
                return;
            }
            chunk = chunk.div_ceil(2);
        }
    }

    fn sizes(&mut self) {
        for l in 0..self.case.launches.len() {
            let names: Vec<String> = self.case.launches[l].dims.keys().cloned().collect();
            for name in names {
                let n = self.case.launches[l].dims[&name];
                for smaller in [1, 2, 3, 4, n / 2, n - 1] {
                    if smaller < n && smaller >= 0 {
                        let mut candidate = self.case.clone();
                        candidate.launches[l].dims.insert(name.clone(), smaller);
                        if self.attempt(candidate) {
                            break;
                        }
                    }
                }
            }
            if self.case.launches[l].special {
                let mut candidate = self.case.clone();
                candidate.launches[l].special = false;
                self.attempt(candidate);
            }
        }
    }

    fn numbers(&mut self) {
        for d in 0..self.case.schedule.directives.len() {
            for smaller in smaller_numbers(&self.case.schedule.directives[d].kind) {
                let mut candidate = self.case.clone();
                candidate.schedule.directives[d].kind = smaller;
                if self.attempt(candidate) {
                    break;
                }
            }
        }
    }

    fn kernel(&mut self) {
        let mut n = 0;
        // The number of changes varies as the kernel does.
        while let Some(changed) = kernel::change(&self.case.kernel, n) {
            if Instant::now() > self.deadline {
                return;
            }
            let took = changed.is_some_and(|kernel| {
                let dtype = self.case.dtype.filter(|_| kernel.generic.is_some());
                let mut candidate = Case { kernel, dtype, ..self.case.clone() };
                candidate.schedule.dtypes = dtype.into_iter().collect();
                for launch in &mut candidate.launches {
                    launch.dims.retain(|dim, _| {
                        let tensors = candidate.kernel.tensors.iter().flat_map(|t| &t.dims);
                        tensors.into_iter().any(|extent| extent.dims.contains_key(dim))
                    });
                }
                self.attempt_repaired(candidate)
            });
            if !took {
                n += 1;
            }
        }
    }
}

/// Failures with the same cause as far as their text tells: messages without numbers and names of values.
fn same(a: &Failure, b: &Failure) -> bool {
    match a.class {
        Class::Wrong | Class::Order | Class::Nest => true,
        Class::Finding => kind(&a.message) == kind(&b.message),
        _ => signature(a) == signature(b),
    }
}

fn kind(message: &str) -> &str {
    message.split(':').next().unwrap_or_default()
}

/// The message without numbers, quoted names and terms, which differ from case to case.
pub fn signature(failure: &Failure) -> String {
    // Printed terms come last.
    let message = failure.message.lines().next().unwrap_or_default();
    let message = message.split(": (").next().unwrap_or_default();
    let message = message.split(" Effects").next().unwrap_or_default();
    let quoted: Vec<&str> = message.split('`').collect();
    let plain: Vec<&str> = quoted.iter().step_by(2).copied().collect();
    let digits: String =
        plain.join("`..`").chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let mut text = String::new();
    for c in digits.chars() {
        if c != '0' || !text.ends_with('0') {
            text.push(c);
        }
    }
    text
}

fn respanned(mut schedule: Schedule) -> Schedule {
    for (n, directive) in schedule.directives.iter_mut().enumerate() {
        directive.span = tile_dsl::span::SpanId(n as u32 + 1);
    }
    schedule
}

fn less(n: u32) -> Vec<u32> {
    let mut all: Vec<u32> =
        [1, 2, 3, 4, n / 2, n.saturating_sub(1)].into_iter().filter(|m| *m < n && *m > 0).collect();
    all.dedup();
    all
}

fn smaller_numbers(kind: &D) -> Vec<D> {
    match kind {
        D::Fits(directive::Fits { dim, max }) => {
            less(*max).into_iter().map(|max| D::Fits(directive::Fits { dim: dim.clone(), max })).collect()
        }
        D::Tile(directive::Tile { axis, size }) => less(*size)
            .into_iter()
            .map(|size| D::Tile(directive::Tile { axis: axis.clone(), size }))
            .collect(),
        D::Split(directive::Split { digit, names, factors }) => (0..factors.len())
            .flat_map(|f| less(factors[f]).into_iter().map(move |n| (f, n)))
            .map(|(f, n)| {
                let mut factors = factors.clone();
                factors[f] = n;
                D::Split(directive::Split { digit: digit.clone(), names: names.clone(), factors })
            })
            .collect(),
        D::Reorder(directive::Reorder { digits, within }) if digits.len() > 2 => (0..digits.len())
            .map(|skip| {
                let mut digits = digits.clone();
                digits.remove(skip);
                D::Reorder(directive::Reorder { digits, within: within.clone() })
            })
            .collect(),
        D::Pipeline(directive::Pipeline { digit, stages }) => less(*stages)
            .into_iter()
            .map(|stages| D::Pipeline(directive::Pipeline { digit: digit.clone(), stages }))
            .collect(),
        D::SplitK(directive::SplitK { digit, parts, across }) => less(*parts)
            .into_iter()
            .map(|parts| D::SplitK(directive::SplitK { digit: digit.clone(), parts, across: *across }))
            .collect(),
        D::Stage(directive::Stage { buffer, at, space, transposed, via, vector }) => {
            let plain = tile_dsl::schedule::Via::Plain;
            let stage = |transposed, via, vector| {
                D::Stage(directive::Stage {
                    buffer: buffer.clone(),
                    at: at.clone(),
                    space: *space,
                    transposed,
                    via,
                    vector,
                })
            };
            [
                stage(false, plain, None),
                stage(false, *via, *vector),
                stage(*transposed, plain, *vector),
                stage(*transposed, *via, None),
            ]
            .into_iter()
            .filter(|s| s != kind)
            .collect()
        }
        _ => vec![],
    }
}
