//! Rust tokens → tile IR and directives.

pub mod expr;
pub mod kernel;
