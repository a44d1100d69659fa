//! Derivations are replayed by a checker that shares no code with the rules: those of every schedule pass, and wrong ones do not.

#[path = "support/examples.rs"]
mod examples;

use examples::EVERY;
use rayon::prelude::*;
use tile_dsl::{
    engine::{Certificate, certificate},
    program::Program,
};
use tilewright::{AnySchedule, lints::proof::replay};

/// The derivation of a schedule with its first element type.
fn of(schedule: &dyn AnySchedule) -> Certificate {
    let program = Program::from_bytes(schedule.program(schedule.dtypes().first().copied()).unwrap()).unwrap();
    let certificate = certificate(&program).unwrap_or_else(|e| panic!("{}: {e:?}", schedule.name()));
    assert_eq!(*certificate.last(), program.nest, "{}: it derives another nest", schedule.name());
    certificate
}

#[test]
fn every_derivation_replays() {
    let all: Vec<&dyn AnySchedule> = EVERY.concat();
    let replayed = all.par_iter().map(|schedule| {
        let name = format!("{}_{}", schedule.kernel(), schedule.name());
        let certificate = of(*schedule);
        let text = certificate.to_bytes();
        assert_eq!(Certificate::from_bytes(&text).unwrap(), certificate, "{name}");
        let start = std::time::Instant::now();
        let result = replay(&certificate);
        println!("{name}: {:?} {:?}", start.elapsed(), result.as_ref().map(ToString::to_string).map_err(ToString::to_string));
        result.map_err(|wrong| format!("{name}: {wrong}"))
    });
    let (done, wrong): (Vec<_>, Vec<_>) = replayed.collect::<Vec<_>>().into_iter().partition(Result::is_ok);
    let wrong: Vec<String> = wrong.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
    assert!(done.iter().flatten().all(|r| r.elements > 0 && r.rewrites > 0));
}
