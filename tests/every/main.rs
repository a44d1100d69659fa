//! What must hold of every kernel of the examples under every schedule. One program, as the macros prove all of them for it.
//!
//! | module | |
//! |---|---|
//! | [`agreement`], [`attention_backward`] | the evaluator of the text, the interpreter of the nest and the simulator agree |
//! | [`proofs`] | derivations are replayed |
//! | [`lints`] | what is predicted is what the simulator counts |
//! | [`goldens`] | the code is what is recorded |
//! | [`resources`] | so is the machine code, where there is an assembler |

#[path = "../support/examples.rs"]
mod examples;
#[path = "../support/flights.rs"]
mod flights;
#[path = "../support/random.rs"]
mod random;
#[path = "../support/mod.rs"]
mod support;

mod agreement;
mod attention_backward;
mod goldens;
mod lints;
mod proofs;
mod resources;
