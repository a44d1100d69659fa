//! A schedule text with its holes filled, and what the model has to know of it.

use crate::structure::{AxisAt, Structure};
use std::fmt::{self, Display, Write as _};
use tile_dsl::schedule::Target;

/// What multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    /// Multiply-adds of single lanes.
    Fma,
    /// Tensor cores, by warps.
    Mma,
    /// Tensor cores, by warpgroups.
    Wgmma,
}

/// Numbers of a candidate that the model takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Threads of a CTA.
    pub threads: i64,
    /// Bytes that a lane moves at once.
    pub vector: i64,
    /// Vectors of each stream that a thread has in flight.
    pub flight: i64,
    /// The axis that neighbouring lanes lie along; `None` where copies on chip see to whole lines.
    pub lane: Option<AxisAt>,
    /// Points of an axis that a CTA takes, by axis; 1 of those that are not here.
    pub tile: Vec<(AxisAt, i64)>,
    /// Lanes that a reduction is combined over.
    pub lanes: i64,
    /// Times that the rows of a reduction are read.
    pub passes: i64,
    /// Elements of a row that a thread holds; 0 where rows are not held.
    pub held: i64,
    /// CTAs that share a reduction.
    pub parts: i64,
    /// Bytes of shared memory.
    pub shared: i64,
    /// Bytes of a line that neighbouring lanes ask for.
    pub line: i64,
    /// Stages of copies that run ahead.
    pub stages: i64,
    /// What multiplies, of a product.
    pub cores: Option<Cores>,
    /// Multiply-adds of a thread a step.
    pub each: i64,
    /// CTAs stay and take tile after tile.
    pub stays: bool,
    /// Two groups take turns.
    pub turns: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Shape {
            threads: 128,
            vector: 4,
            flight: 1,
            lane: None,
            tile: Vec::new(),
            lanes: 1,
            passes: 1,
            held: 0,
            parts: 1,
            shared: 0,
            line: 128,
            stages: 1,
            cores: None,
            each: 1,
            stays: false,
            turns: false,
        }
    }
}

impl Shape {
    /// Points of an axis that a CTA takes.
    pub fn tile(&self, axis: AxisAt) -> i64 {
        self.tile.iter().find(|(a, _)| *a == axis).map_or(1, |(_, n)| *n)
    }

    /// Of one product, points of the axis that is summed over in a step; `None` where several products follow one another.
    pub fn step(&self) -> Option<i64> {
        match self.tile[..] {
            [_, _, (_, points)] if self.cores.is_some() => Some(points),
            _ => None,
        }
    }
}

/// A schedule text, from a template.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its template.
    pub template: &'static str,
    /// Which of the template's: the numbers in its holes.
    pub holes: String,
    /// The oldest target that has what it takes.
    pub target: Target,
    /// Directives, each ended by a semicolon.
    pub text: String,
    /// What the model takes.
    pub shape: Shape,
}

impl Candidate {
    /// What it has in common with candidates that differ in numbers alone.
    pub fn family(&self) -> String {
        let words = self.holes.chars().filter(|c| !c.is_ascii_digit());
        let online = if self.text.contains("online(") { " online" } else { "" };
        format!("{}{online} {}", self.template, words.collect::<String>())
    }
}

impl Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.template)?;
        if !self.holes.is_empty() {
            write!(f, " {}", self.holes)?;
        }
        Ok(())
    }
}

/// Directives as they are put together.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Text(String);

impl Text {
    /// With one more directive.
    pub(crate) fn with(mut self, directive: impl Display) -> Self {
        let space = if self.0.is_empty() { "" } else { " " };
        let _ = write!(self.0, "{space}{directive};");
        self
    }

    /// With one more directive where it applies.
    pub(crate) fn when(self, holds: bool, directive: impl Display) -> Self {
        if holds { self.with(directive) } else { self }
    }

    /// With directives that are a text already.
    pub(crate) fn then(mut self, other: &Text) -> Self {
        if !self.0.is_empty() && !other.0.is_empty() {
            self.0.push(' ');
        }
        self.0.push_str(&other.0);
        self
    }

    /// As text.
    pub(crate) fn done(self) -> String {
        self.0
    }
}

/// A name for a part of an axis that nothing else in the kernel has.
pub(crate) fn part(structure: &Structure, axis: AxisAt, suffix: &str) -> String {
    let taken = |n: &str| {
        structure.axes.iter().any(|a| a.name == n)
            || structure.values.iter().any(|v| v.name == n)
            || structure.reductions.iter().any(|r| r.name == n)
            || structure.accesses.iter().any(|a| a.tensor == n)
    };
    let mut name = format!("{}{suffix}", structure.name(axis));
    while taken(&name) {
        name.push('_');
    }
    name
}
