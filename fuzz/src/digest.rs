//! A line for each kernel that programs lower to: what two builds of the compiler are compared by.

use crate::{
    case::Case,
    check::{caught, program},
    make::{Id, make},
};
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use tile_dsl::{
    lower::{self, Given},
    program::{Program, Variant},
    tile::TensorId,
};
use tile_runtime::{Stage, emit_given};

/// A hash of a text (FNV-1a, 64 bits): the same on every machine.
pub fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The variants of a program that a launch may run, in each form: its name, and what is given.
pub fn forms(program: &Program) -> Vec<(String, Variant, Given)> {
    let all: lower::Strided = (0..program.nest.kernel.tensors.len()).map(|t| TensorId(t as u16)).collect();
    let forms = [
        ("", Given::default()),
        (" grouped", Given { grouped: true, ..Given::default() }),
        (" strided", Given { strided: all.clone(), grouped: false }),
        (" strided grouped", Given { strided: all, grouped: true }),
    ];
    let mut found = Vec::new();
    for (form, given) in forms {
        let variants = [Variant::Exact, Variant::Aligned, Variant::General];
        for variant in lower::chosen(program, &variants, &given.strided) {
            found.push((format!("{variant}{form}"), variant, given.clone()));
        }
    }
    found
}

/// A line for each variant and form that a launch may run: its name, the form, a hash of the text of a stage or what went wrong.
pub fn lines(name: &str, program: &Program, stage: Stage) -> Vec<String> {
    let line = |(form, variant, given): (String, Variant, Given)| {
        let text = match caught(|| emit_given(program, variant, &given, stage)) {
            Ok(Ok(text)) => format!("{:016x}", hash(&text)),
            Ok(Err(error)) => format!("error: {error}"),
            Err(message) => format!("panic: {message}"),
        };
        format!("{name} {form} {text}")
    };
    forms(program).into_iter().map(line).collect()
}

/// The lines of a case; one that says why, where it is no program.
pub fn of_case(name: &str, case: &Case, stage: Stage) -> Vec<String> {
    match program(case) {
        Ok(program) => lines(name, &program, stage),
        Err(failure) => vec![format!("{name} refused: {}", failure.message)],
    }
}

/// The lines of so many random cases, made on so many threads, in the order of the cases. Equal seeds give equal cases, as long as the
/// engine and the generators are the same.
pub fn of_random(seed: u64, count: u64, jobs: usize, stage: Stage) -> Vec<String> {
    let next = AtomicU64::new(0);
    let found: Mutex<Vec<(u64, Vec<String>)>> = Mutex::default();
    let work = || loop {
        let n = next.fetch_add(1, Relaxed);
        if n >= count {
            return;
        }
        let lines = of_id(Id::numbered(seed, n), stage);
        found.lock().unwrap_or_else(PoisonError::into_inner).push((n, lines));
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            // Kernels nest deeply where everything is unrolled.
            let thread = std::thread::Builder::new().stack_size(256 << 20);
            thread.spawn_scoped(scope, work).expect("a thread");
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable();
    found.into_iter().flat_map(|(_, lines)| lines).collect()
}

fn of_id(id: Id, stage: Stage) -> Vec<String> {
    match caught(|| make(id, 1)) {
        Err(message) => vec![format!("{id} panic: {message}")],
        Ok(made) => match made.case {
            None => vec![format!("{id} no schedule")],
            Some(case) => of_case(&id.to_string(), &case, stage),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_follow_from_the_text_and_the_form_alone() {
        let first = of_random(3, 6, 2, Stage::Kernel);
        assert_eq!(first, of_random(3, 6, 1, Stage::Kernel));
        assert!(first.iter().any(|line| line.contains(" general strided grouped ")), "{first:?}");
        assert!(!first.iter().any(|line| line.contains("error") || line.contains("panic")), "{first:?}");
        assert_ne!(first, of_random(4, 6, 1, Stage::Kernel));
        assert_ne!(first, of_random(3, 6, 1, Stage::Nest), "another stage, other hashes");
    }
}
