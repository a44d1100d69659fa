//! Generated Rust.

pub mod export;
pub mod kernel;
pub mod skeleton;
