//! Rust tokens → tile IR and directives.

#[cfg(test)]
mod cards;
pub mod directive;
pub mod expr;
mod index;
pub mod kernel;
pub mod lists;
pub mod schedule;
pub mod signature;
