//! What `ptxas` makes of PTX: registers, spills, occupancy, and the instructions of the hot loop.
//!
//! NVIDIA's tools are run where they are found; reading what they print needs none of them, and nothing here needs a
//! GPU. Of the crates of this workspace it depends on none.
//!
//! ```no_run
//! # fn main() -> Result<(), tile_sass::Error> {
//! # let ptx = "";
//! let assembly = tile_sass::Tools::find()?.assemble(ptx, &tile_sass::Options::default())?;
//! let resources = assembly.resources(256, 0);
//! println!("{resources}");
//! # Ok(())
//! # }
//! ```

mod in_flight;
mod listing;
mod occupancy;
mod resources;
mod tools;

pub use listing::{HotLoop, Instruction, Listing, Width};
pub use occupancy::{Limits, Occupancy};
pub use resources::{PtxasLog, Resources};
pub use tools::{Assembly, Error, Options, Tools};
