//! What the examples share: options, random data, and how a run is reported.

pub mod data;
pub mod example;
pub mod options;
pub mod report;
