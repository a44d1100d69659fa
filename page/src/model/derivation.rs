//! The derivation: the nest after each directive.

use serde::Serialize;

/// A directive with what it made of the nest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The directive as written; `initial` and `defaults` have none.
    pub directive: Option<String>,
    /// Its phase, or `initial`, `defaults`.
    pub phase: String,
    /// The schedule that says it, if it is inherited.
    pub from: Option<String>,
    /// The facts that its conditions used, a sentence each.
    pub facts: Vec<String>,
    /// Rewrite rules, with how often each applied.
    pub rules: Vec<(String, u32)>,
    /// The nest after it.
    pub nest: Node,
    /// What holds of the nest beside its loops: layouts and facts, a line each.
    pub notes: Vec<String>,
}

/// A statement of a nest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// The loop, the values, the copy, or the statement as text.
    pub name: String,
    /// How the loop runs, where and how the copy is made: `lane.x`, `unroll`, `shared`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub at: String,
    /// Steps of a loop; absent where they follow from the extent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Points that a step of a loop moves along its axis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stride: Option<u32>,
    /// The axis of a loop.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub axis: String,
    /// Statements inside.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<Node>,
}

/// Kinds of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// A loop.
    Loop,
    /// Values: the first part computes them, the second reads them.
    Let,
    /// A copy on chip.
    Stage,
    /// A statement without parts.
    Leaf,
}

/// Why a schedule is refused.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refusal {
    /// The directive at fault, if it is one.
    pub directive: Option<String>,
    /// Its place among the directives in order.
    pub at: Option<usize>,
    /// All directives applied: the complete schedule shows the mistake.
    pub complete: bool,
    /// The mistakes, the first of them at `directive`.
    pub mistakes: Vec<Mistake>,
    /// Names in the directive and the messages: what to highlight.
    pub names: Vec<String>,
}

/// A mistake.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mistake {
    /// Which condition failed, with its numbers.
    pub message: String,
    /// What is involved.
    pub notes: Vec<String>,
    /// An edit that the engine has tried and that holds.
    pub help: Option<String>,
}
