//! The machine as every station sees it: targets with their budgets, the units that loops are bound to, memory spaces,
//! the ways to move a copy, cache policies, orders of tiles. It knows no other module.

mod target;
mod words;

pub use target::Target;
pub use words::{Across, Evict, Level, Order, Space, Start, Unit, UnitDim, Via};
