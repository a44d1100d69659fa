//! Nothing: see `tests/refusals.rs`.
