//! Each function against float64, on the simulator: small, odd and empty sizes, every element type, every schedule.

mod ahead;
mod attention;
mod elements;
mod errors;
mod linear;
mod rows;
mod schedules;
mod support;
mod tokens;
mod train;
