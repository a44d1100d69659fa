//! Derivations are replayed by a checker that shares no code with the rules: those of every schedule pass, and wrong ones do not.

use crate::examples::{EVERY, attention, product, softmax, vector_add};
use rayon::prelude::*;
use tile_dsl::{
    engine::{Certificate, Move, Step, certificate},
    index::Affine,
    machine::{Space, Unit, UnitDim, Via},
    nest::{AccessId, Copy, CopyId, Expr, LoopKind, Nest, Steps, Stmt, ValueId},
    op::RedOp,
    program::Program,
    span::SpanId,
};
use tilewright::{
    AnySchedule, explain,
    lints::proof::{Fault, replay},
    prelude::*,
};

/// The derivation of a schedule with its first element type.
fn of(schedule: &dyn AnySchedule) -> Certificate {
    let dtype = schedule.dtypes().first().copied();
    let program = Program::from_bytes(schedule.program(dtype).unwrap()).unwrap();
    let certificate = explain(schedule, dtype).unwrap_or_else(|e| panic!("{}: {e}", schedule.name()));
    assert_eq!(*certificate.last(), program.nest, "{}: it derives another nest", schedule.name());
    certificate
}

#[test]
fn every_derivation_replays() {
    let all: Vec<&dyn AnySchedule> = EVERY.concat();
    let replayed = all.par_iter().map(|schedule| {
        let name = format!("{}_{}", schedule.kernel(), schedule.name());
        let certificate = of(*schedule);
        assert_eq!(Certificate::from_bytes(&certificate.to_bytes()).unwrap(), certificate, "{name}");
        replay(&certificate).map_err(|wrong| format!("{name}: {wrong}"))
    });
    let (done, wrong): (Vec<_>, Vec<_>) = replayed.collect::<Vec<_>>().into_iter().partition(Result::is_ok);
    let wrong: Vec<String> = wrong.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
    // Each has rewrites, and is run at a size of more than a tile.
    assert!(done.iter().flatten().all(|r| r.elements > 0 && r.rewrites > 0 && r.sizes > 1));
}

#[test]
fn a_derivation_is_printed_step_by_step() {
    let text = of(&vector_add::vectorized).to_string();
    for part in
        ["vectorized of vector_add", "\ntile(i = ", "  by split", "    - (for", "    + (for", "\nwhich is\n"]
    {
        assert!(text.contains(part), "{part:?} in:\n{text}");
    }
    let reason = of(&product::warptile).to_string();
    assert!(reason.contains("because points of `i` at or beyond M are guarded"), "{reason}");
}

/// The checker knows the nest, and nothing of what makes derivations.
#[test]
fn the_checker_uses_nothing_of_the_engine() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("check/src/proof");
    let mut files = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for other in ["engine", "directive", "schedule::", "plan", "lower", "interpret", "footprint"] {
            let named = text.lines().filter(|l| !l.trim_start().starts_with("//")).any(|l| l.contains(other));
            assert!(!named, "it knows `{other}`");
        }
        files += 1;
    }
    assert_eq!(files, 4);
}

// Wrong steps. Each is planted in a derivation that is right, and must be found in that step.

/// Edits the first statement, from the outside in, that `edit` takes.
fn first(stmt: &mut Stmt, edit: &mut dyn FnMut(&mut Stmt) -> bool) -> bool {
    if edit(stmt) {
        return true;
    }
    match stmt {
        Stmt::For { body, .. } | Stmt::Stage { body, .. } => first(body, edit),
        Stmt::Let { first: a, rest: b, .. } => first(a, edit) || first(b, edit),
        _ => false,
    }
}

/// Plants a mistake in the last step of a derivation, in which `edit` must find its place; what the checker says of it.
fn planted(schedule: &dyn AnySchedule, edit: impl FnOnce(&mut Nest) -> bool) -> Fault {
    let mut certificate = of(schedule);
    let step = certificate.moves.iter_mut().rev().find_map(|m| m.steps.last_mut()).unwrap();
    assert!(edit(&mut step.nest), "there is no place for the mistake");
    let at = certificate.steps().count();
    let wrong = replay(&certificate).expect_err("a wrong step");
    assert_eq!(wrong.step, at, "{wrong}");
    wrong.fault
}

/// Plants a mistake in a loop over an axis: the outermost one that `edit` takes.
fn in_loop(
    schedule: &dyn AnySchedule,
    axis: &str,
    mut edit: impl FnMut(&mut Steps, &mut u32, &mut LoopKind) -> bool,
) -> Fault {
    planted(schedule, |nest| {
        let axes: Vec<String> = nest.kernel.axes.iter().map(|a| a.name.clone()).collect();
        first(&mut nest.body, &mut |stmt| match stmt {
            Stmt::For { digit, at, .. } if axes[usize::from(digit.axis.0)] == axis => {
                edit(&mut digit.steps, &mut digit.stride, at)
            }
            _ => false,
        })
    })
}

#[test]
fn a_loop_that_is_lost_is_found() {
    let fault = planted(&product::warptile, |nest| {
        first(&mut nest.body, &mut |stmt| {
            let inner = match stmt {
                Stmt::For { digit, body, .. } if digit.axis.0 == 2 && digit.steps == Steps::Rest => {
                    body.clone()
                }
                _ => return false,
            };
            *stmt = *inner;
            true
        })
    });
    assert!(matches!(fault, Fault::Different(_)), "{fault}");
}

#[test]
fn points_that_are_summed_twice_are_found() {
    let fault = in_loop(&product::warptile, "k", |steps, _, _| match steps {
        Steps::Fixed(n) => {
            *n += 1;
            true
        }
        Steps::Rest => false,
    });
    assert!(matches!(fault, Fault::Different(_)), "{fault}");
}

#[test]
fn tiles_that_are_left_out_are_found() {
    let fault = in_loop(&product::warptile, "i", |_, stride, _| {
        *stride *= 2;
        true
    });
    assert!(matches!(fault, Fault::Missing(_)), "{fault}");
}

#[test]
fn a_value_that_is_read_too_early_is_found() {
    let fault = planted(&softmax::short, |nest| {
        let defined = |stmt: &Stmt| {
            let mut leaf = stmt;
            while let Stmt::For { body, .. } = leaf {
                leaf = body;
            }
            matches!(leaf, Stmt::Def { .. })
        };
        first(&mut nest.body, &mut |stmt| match stmt {
            Stmt::Let { first, rest, .. } if defined(first) => {
                std::mem::swap(first, rest);
                true
            }
            _ => false,
        })
    });
    assert!(matches!(fault, Fault::Unset(_)), "{fault}");
}

#[test]
fn a_sum_that_starts_anew_in_each_step_is_found() {
    let fault = planted(&product::naive, |nest| {
        first(&mut nest.body, &mut |stmt| {
            let Stmt::Let { first: sum, .. } = stmt else { return false };
            // The loop over k leaves the inside of the `let` for the outside.
            let mut around = None;
            first(sum, &mut |inner| {
                let Stmt::For { digit, at, body } = inner.clone() else { return false };
                if digit.axis.0 != 2 {
                    return false;
                }
                around = Some((digit, at));
                *inner = *body;
                true
            });
            let Some((digit, at)) = around else { return false };
            *stmt = Stmt::For { digit, at, body: Box::new(stmt.clone()) };
            true
        })
    });
    // Without points of k nothing is stored.
    assert!(matches!(fault, Fault::Different(_) | Fault::Missing(_)), "{fault}");
}

#[test]
fn parts_that_never_come_together_are_found() {
    let fault = in_loop(&product::naive, "k", |_, _, at| {
        *at = LoopKind::Unit(Unit::Warp, UnitDim::X);
        true
    });
    assert!(matches!(fault, Fault::Parts(_)), "{fault}");
}

#[test]
fn lanes_that_take_steps_in_order_are_found() {
    let fault = in_loop(&attention::naive, "j", |_, _, at| {
        *at = LoopKind::Vec;
        true
    });
    assert!(matches!(fault, Fault::AtOnce(_)), "{fault}");
}

#[test]
fn state_that_is_walked_backwards_is_found() {
    let fault = in_loop(&attention::naive, "j", |_, _, at| {
        *at = LoopKind::Serpentine;
        true
    });
    assert!(matches!(fault, Fault::Different(_)), "{fault}");
}

/// Edits the index of the access that a nest stores through.
fn store_to(nest: &mut Nest, edit: impl FnOnce(&mut Vec<Affine>)) -> bool {
    let mut stored: Option<AccessId> = None;
    first(&mut nest.body, &mut |stmt| match stmt {
        Stmt::Put { access, .. } => {
            stored = Some(*access);
            true
        }
        _ => false,
    });
    stored.map(|access| edit(&mut nest.accesses[usize::from(access.0)].index)).is_some()
}

#[test]
fn a_result_that_is_turned_is_found() {
    let fault = planted(&product::warptile, |nest| store_to(nest, |index| index.reverse()));
    assert!(matches!(fault, Fault::Outside(_) | Fault::Different(_) | Fault::Missing(_)), "{fault}");
}

#[test]
fn threads_that_store_to_one_element_are_found() {
    let fault = planted(&vector_add::scalar, |nest| store_to(nest, |index| index[0] = Affine::default()));
    assert!(matches!(fault, Fault::AtOnce(_)), "{fault}");
}

#[test]
fn another_reduction_is_found() {
    let fault = planted(&product::warptile, |nest| {
        first(&mut nest.body, &mut |stmt| match stmt {
            Stmt::Red { op, .. } => {
                *op = RedOp::Max;
                true
            }
            _ => false,
        })
    });
    assert!(matches!(fault, Fault::Different(_)), "{fault}");
}

#[test]
fn an_initial_value_that_is_lost_is_found() {
    let fault = planted(&attention::naive, |nest| {
        let started = nest.values.iter_mut().find(|v| v.init.is_some());
        started.map(|value| value.init = None).is_some()
    });
    assert!(matches!(fault, Fault::Different(_) | Fault::Unset(_)), "{fault}");
}

#[test]
fn a_rounding_that_is_left_out_is_found() {
    let fault = planted(&product::wgmma_best, |nest| {
        first(&mut nest.body, &mut |stmt| {
            let Stmt::Put { expr, .. } = stmt else { return false };
            let Expr::Cast(_, inner) = expr.clone() else { return false };
            *expr = *inner;
            true
        })
    });
    assert!(matches!(fault, Fault::Different(_)), "{fault}");
}

/// Rotates pairs of neighbours in place.
#[tile_kernel]
fn rotate(x: &Tensor<f32, N>, y: &mut Tensor<f32, { 2 * N }>) {
    let i = program_tile(N);
    let a = load(y, [2 * i]);
    let b = load(y, [2 * i + 1]);
    store(y, [2 * i], a * load(x, [i]) - b);
    store(y, [2 * i + 1], b + a);
}

schedule! {
    pairs for rotate { tile(i = 8); bind(i -> thread.x); }
}

/// `y[2i] = x[i]; y[2i + 1] = y[2i]`, and the same from a copy of `y` that was made before.
#[test]
fn a_copy_that_is_too_old_is_found() {
    let right = of(&pairs);
    assert!(replay(&right).is_ok(), "in place");
    let mut nest = right.first.clone();
    let access = |tensor: &str, constant: i64| {
        let found = nest.accesses.iter().position(|a| {
            nest.tensor(a.tensor).name == tensor && a.index.iter().all(|index| index.constant == constant)
        });
        AccessId(found.unwrap() as u16)
    };
    let put = |access, from| Box::new(Stmt::Put { access, expr: Expr::Load(from) });
    let (even, odd, x) = (access("y", 0), access("y", 1), access("x", 0));
    let tensor = nest.access(even).tensor;
    let Stmt::For { body, .. } = &mut nest.body else { panic!("{nest}") };
    **body = Stmt::Let { values: Vec::<ValueId>::new(), first: put(even, x), rest: put(odd, even) };
    let first = nest.clone();
    let (follows, vector, span) = (None, None, SpanId::NONE);
    let (space, via) = (Space::Shared, Via::Plain);
    let copy = Copy { tensor, follows, space, transposed: false, via, vector, pad: 0, swizzle: 0, span };
    nest.copies.push(copy);
    let inner = std::mem::replace(&mut nest.body, Stmt::Skip);
    nest.body = Stmt::Stage { copy: CopyId(nest.copies.len() as u16 - 1), body: Box::new(inner) };
    let steps = vec![Step { rule: None, nest }];
    let moves = vec![Move { directive: "stage(y: shared)".into(), steps, facts: vec![] }];
    let wrong = replay(&Certificate { schedule: "stale".into(), first, moves }).expect_err("a wrong step");
    assert_eq!(wrong.step, 1);
    assert!(matches!(wrong.fault, Fault::Different(_)), "{wrong}");
    assert!(wrong.to_string().contains("`stage(y: shared)`, by itself"), "{wrong}");
}

/// Random programs under random schedules.
#[test]
fn random_derivations_replay() {
    let count = std::env::var("TILEWRIGHT_CASES").map_or(40, |n| n.parse().expect("a number of cases"));
    let replayed: Vec<Result<usize, String>> = (0..count)
        .into_par_iter()
        .map(|n| {
            let id = tile_fuzz::make::Id::numbered(23, n);
            let Some(case) = tile_fuzz::make::make(id, 1).case else { return Ok(0) };
            let kernel = case.kernel.instantiate(case.dtype);
            let program = tile_dsl::engine::schedule(&case.kernel, &case.schedule, case.dtype);
            let certificate = certificate(&program.map_err(|e| format!("{id}: {e:?}"))?)
                .map_err(|e| format!("{id}: {e:?}"))?;
            assert_eq!(certificate.first.kernel, kernel);
            replay(&certificate).map(|r| r.rewrites).map_err(|wrong| format!("{id}: {wrong}"))
        })
        .collect();
    let wrong: Vec<&String> = replayed.iter().filter_map(|r| r.as_ref().err()).collect();
    assert!(wrong.is_empty(), "{} of {count}:\n{wrong:#?}", wrong.len());
    let with_rewrites = replayed.iter().flatten().filter(|rewrites| **rewrites > 0).count() as u64;
    assert!(with_rewrites * 2 > count, "{with_rewrites} of {count} have rewrites");
}
