//! What a CTA does, in order.

use serde::Serialize;

/// What a CTA does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Events {
    /// What all threads do before they part; everything, where all do the same.
    pub before: Actions,
    /// What the roles do, beside one another; empty where all threads do the same.
    pub roles: Vec<RoleColumn>,
    /// What all threads do after.
    pub after: Actions,
    /// Lines of the plan on channels, roles, sums and stores.
    pub plan: Vec<String>,
    /// The order in which the simulator ran the first CTA.
    pub run: Option<Run>,
}

/// Statements one after the other.
pub type Actions = Vec<Act>;

/// A statement, or several alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Act {
    /// Its kind: `load`, `store`, `copy`, `wait`, `arrive`, `barrier`, `product`, `sum`, `exchange`, `loop`, `if`, `one`.
    pub kind: &'static str,
    /// In words.
    pub text: String,
    /// Buffers that it touches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// How many alike.
    pub count: u32,
    /// Statements inside.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inside: Actions,
}

/// The threads of a role, and what they do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoleColumn {
    /// First thread.
    pub first: u32,
    /// Threads.
    pub threads: u32,
    /// Registers that each takes, where it says so.
    pub registers: Option<u32>,
    /// What they do.
    pub does: Actions,
}

/// What happened in the first CTA.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Events in order, those alike of one warp together.
    pub events: Vec<Happened>,
    /// Events of the run that are not in `events`.
    pub left_out: u64,
    /// Stages of channels whose mbarriers tell when they are full and free.
    pub stages: Vec<RingStage>,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Happened {
    /// The warp; none for a copy that completes by itself.
    pub warp: Option<u32>,
    /// Kind, as in [`Act::kind`]; `landed` for bytes that have come.
    pub kind: &'static str,
    /// In words.
    pub text: String,
    /// Buffers that it touches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Line of the PTX of the first.
    pub line: u32,
    /// How many alike.
    pub count: u32,
}

/// A stage of a channel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RingStage {
    /// Buffer of the mbarriers, and the stage: `full[2]`.
    pub name: String,
    /// Changes of its state: position in [`Run::events`], and `filling`, `full` or `free` from there on.
    pub changes: Vec<(usize, &'static str)>,
}
