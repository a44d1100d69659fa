//! The compiler core: tile IR, schedules, rewrite engine, nest IR, kernel IR, reference evaluator, diagnostics.
