//! The panels: each file collects the data of one.

pub(crate) mod budgets;
pub(crate) mod derivation;
pub(crate) mod events;
pub(crate) mod findings;
pub(crate) mod happened;
pub(crate) mod holds;
pub(crate) mod memory;
pub(crate) mod names;
pub(crate) mod text;
