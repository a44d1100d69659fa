//! A Rust-embedded tile DSL that compiles to PTX.
