//! Rust tokens → tile IR and directives.

pub mod binders;
#[cfg(test)]
mod cards;
mod condition;
pub mod directive;
pub mod expr;
mod index;
pub mod kernel;
pub mod limits;
pub mod lists;
pub mod schedule;
pub mod signature;
