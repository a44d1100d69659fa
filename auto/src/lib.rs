//! Schedules that nobody wrote: from what a kernel does to its data, a choice among schedule texts.
//!
//! ```text
//! tile IR ─► spellings ─► structure ─► templates ─► candidates ─► model ─► the first that the engine proves
//! ```
//! What comes out is a schedule like any other: proved, printed, read, edited. No part of this crate knows a kernel by name.
//!
//! | module | knows |
//! |---|---|
//! | [`structure`] | what the kernel does to its data |
//! | [`spelling`] | how it can be spelled: as written, or with an axis in one loop |
//! | [`template`] | which schedules suit a structure, a file a class |
//! | [`gpu`], [`model`] | what a candidate takes on a GPU, in closed form |
//! | [`mod@choose`] | the order, and what the engine says |

/// What decides a choice beside kernel, sizes and GPU: the sources of the templates and the model.
pub const VERSION: &str = concat!("tile-auto ", env!("CARGO_PKG_VERSION"), " ", env!("SOURCE_FINGERPRINT"));

pub mod candidate;
pub mod choose;
pub mod gpu;
pub mod model;
pub mod site;
pub mod spelling;
pub mod structure;
pub mod template;

pub use candidate::Candidate;
pub use choose::{Chosen, Error, Ranked, Refused, Several, Wanted, choose, several};
pub use gpu::Gpu;
pub use site::Site;
pub use spelling::Spelling;
pub use structure::{Sizes, Structure};
