//! Schedules that nobody wrote: from what a kernel does to its data, a choice among schedule texts.
//!
//! ```text
//! tile IR ─► structure ─► templates ─► candidates ─► model ─► the first that the engine proves
//! ```
//! What comes out is a schedule like any other: proved, printed, read, edited. No part of this crate knows a kernel by name.
//!
//! | module | knows |
//! |---|---|
//! | [`structure`] | what the kernel does to its data |
//! | [`template`] | which schedules suit a structure, a file a class |
//! | [`gpu`], [`model`] | what a candidate takes on a GPU, in closed form |
//! | [`mod@choose`] | the order, and what the engine says |

pub mod candidate;
pub mod choose;
pub mod gpu;
pub mod model;
pub mod site;
pub mod structure;
pub mod template;

pub use candidate::Candidate;
pub use choose::{Chosen, Error, Ranked, Refused, Wanted, choose};
pub use gpu::Gpu;
pub use site::Site;
pub use structure::{Sizes, Structure};
