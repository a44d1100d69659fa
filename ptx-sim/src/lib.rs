//! Executes PTX text on the CPU, warp by warp, and reports counters and findings.
