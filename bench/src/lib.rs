//! Times, verifies and reports an application's kernels, and chooses among their schedules.
//!
//! | question | answer |
//! |---|---|
//! | Which of these is faster? | [`Rounds`]: contenders take turns, [`stats`] has the median, [`Figures`] the rates |
//! | Was the GPU at its clock? | [`monitor`] |
//! | How fast can it be? | [`peak`] of the GPU, [`roofline`] of a launch from the simulator's counts |
//! | What did the assembler make of it? | [`Machine`]: registers, spills, occupancy, the hot loop |
//! | Is the result right, and how do I show it? | [`Record`], as a line of JSON or of a [`table`](record::table) |
//! | Which schedule for which size? | [`choose`], and [`products`] where warpgroups multiply |
//!
//! ```
//! use tile_bench::{Rounds, stats::median};
//!
//! // Milliseconds of two contenders; an application launches its kernels here, `.cold().run()?.time_ms`.
//! let milliseconds = [2.0, 1.0];
//! let played = Rounds::new(20).play(2, |n| Ok::<_, std::convert::Infallible>(Some(milliseconds[n])));
//! let Ok(played) = played;
//! assert_eq!((median(&played.times[0]), median(&played.times[1])), (Some(2.0), Some(1.0)));
//! ```

pub mod choose;
pub mod figures;
pub mod machine;
pub mod monitor;
pub mod peak;
pub mod products;
pub mod record;
mod rounds;

pub use figures::Figures;
pub use machine::Machine;
pub use monitor::Monitor;
pub use record::Record;
pub use rounds::{Played, Rounds};
pub use tile_runtime::{roofline, stats, table};
