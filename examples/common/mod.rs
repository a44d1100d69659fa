//! What the examples share: options, random data, and the frame of a run.

#![allow(dead_code)] // each example uses a part of it

pub mod auto;
pub mod check;
pub mod data;
pub mod example;
pub mod explain;
pub mod options;
pub mod output;
#[cfg_attr(not(feature = "page"), path = "no_page.rs")]
pub mod page;
pub mod run;
