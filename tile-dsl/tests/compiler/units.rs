//! Parts of the compiler, each for itself.

mod atom;
mod cover;
// Conditions can be switched off where debug assertions are.
#[cfg(debug_assertions)]
mod engine;
mod extend;
mod f8;
mod facts;
mod floats;
mod fragment;
mod grid;
mod layout;
mod operators;
mod overlaid;
mod place;
mod roles;
mod schedule;
mod segment;
mod statements;
mod sums;
mod table;
mod target;
