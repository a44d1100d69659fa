//! What the examples share: options, random data, and how a run is measured and reported.

#![allow(dead_code)] // each example uses a part of it

pub mod data;
pub mod example;
pub mod figures;
pub mod machine;
pub mod monitor;
pub mod options;
pub mod peak;
pub mod report;
pub mod stats;
pub mod table;
