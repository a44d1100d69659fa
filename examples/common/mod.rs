//! What the examples share: options, random data, and the frame of a run.

#![allow(dead_code)] // each example uses a part of it

pub mod check;
pub mod data;
pub mod example;
pub mod options;
pub mod output;
pub mod page;
pub mod run;
