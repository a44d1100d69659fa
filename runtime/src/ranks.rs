//! Processes that work together, a rank each: how they find each other, and the connections between them.
//!
//! Rank 0, or who made an [`Id`], serves the rendezvous: a thread that waits for all ranks and then tells each where the others are
//! (`rendezvous`). Each comes to it as a client (`meet`). Then every two ranks connect (`mesh`), and the connections stay for as long
//! as the communicator (`links`): they carry the messages of simulated ranks, and for all ranks they tell who is gone.

mod frame;
mod health;
mod id;
mod links;
mod meet;
mod mesh;
mod rendezvous;
mod text;
#[cfg(feature = "nccl")]
mod watch;
mod wire;
mod world;

pub(crate) use health::Health;
pub use id::Id;
pub(crate) use links::Links;
pub use world::World;

/// Ranks of one communicator: every two of them are connected.
pub(crate) const MOST: usize = 1024;
