//! `launch`: how a kernel begins that another one runs before.
//!
//! `dependent`: its CTAs may begin before that one has ended, and wait for it before they access global memory (CUDA C++ Programming
//! Guide, programmatic dependent launch). Condition: the target has it.
//! Cost: none; the kernel waits where it would have been launched later.

use super::prelude::*;
use crate::machine::{Start, Target};

directive! {
    /// `launch(dependent)`: how the kernel begins when another one runs before it.
    "launch(dependent)" in Launch, 0:
    Launch { start: Start = Start::Dependent } => |s| {
        s.one_of(start, "start of a kernel", &[Start::Dependent])
    }
}

impl Definition for Launch {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        launch(nest, self.start)
    }

    fn target(&self) -> Option<(String, Target)> {
        (self.start == Start::Dependent).then(|| ("a dependent launch".into(), Target::CLUSTERS))
    }
}

impl Drawn for Launch {
    fn candidates(_: Kind, _: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        vec![Launch { start: Start::Dependent }.into()]
    }
}

/// `launch(start)`.
fn launch(nest: &Nest, start: Start) -> Result<(Nest, Proof), Failure> {
    Ok((Nest { dependent: start == Start::Dependent, ..nest.clone() }, Proof::default()))
}
