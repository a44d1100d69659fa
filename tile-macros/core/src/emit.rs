//! Generated Rust.

pub mod export;
pub mod kernel;
pub mod schedule;
pub mod skeleton;
pub mod space;
