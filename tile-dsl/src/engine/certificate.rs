//! The derivation of a proved program as data: every nest on the way from the kernel to it, and what made each of the one before.
//!
//! ```text
//! Certificate ::= nest of the kernel, Move*     ; a move is a directive; the last one is the defaults
//! Move        ::= directive, Step*, facts       ; facts are what its conditions have found, a sentence each
//! Step        ::= rule, nest                    ; one rewrite of the e-graph, or what the directive does without one
//! ```
//! `tile_check::proof` replays it without the rules.

use super::{
    apply, defaults,
    explain::{Chain, recording},
};
use crate::{
    diagnostic::Diagnostic,
    nest::{self, Nest},
    program::{DecodeError, Program, decode, encode},
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The derivation of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// Name of the schedule.
    pub schedule: String,
    /// The kernel as it is written.
    pub first: Nest,
    /// The directives in the order in which they apply, then the defaults.
    pub moves: Vec<Move>,
}

/// What a directive made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// The directive as written; `defaults` for what no directive says.
    pub directive: String,
    /// In order; none if the nest is as it was.
    pub steps: Vec<Step>,
    /// What its conditions have found, a sentence each.
    pub facts: Vec<String>,
}

/// A nest made of the one before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The rule of the e-graph, with whether it was applied from its left side to its right side; none for what the directive
    /// does by itself: it adds facts and tables, or cuts and marks loops.
    pub rule: Option<(String, bool)>,
    /// The nest.
    pub nest: Nest,
}

/// The derivation of a program, with the explanations of its e-graphs.
///
/// # Errors
/// The directive that does not apply; none for a program of this version.
pub fn certificate(program: &Program) -> Result<Certificate, Diagnostic> {
    let first = nest::initial(program.nest.source())?;
    let mut nest = first.clone();
    let mut moves = Vec::new();
    for directive in program.schedule.in_order() {
        let (result, chains) = recording(|| apply(directive, &nest));
        let (next, proof) = result.map_err(|f| *f.diagnostic)?;
        moves.push(Move::new(directive.kind.to_string(), &nest, chains, &next, proof.facts));
        nest = next;
    }
    let (result, chains) = recording(|| defaults::apply(&nest));
    let last = result.map_err(|f| *f.diagnostic)?;
    moves.push(Move::new("defaults".into(), &nest, chains, &last, Vec::new()));
    Ok(Certificate { schedule: program.schedule.name.clone(), first, moves })
}

impl Move {
    fn new(directive: String, before: &Nest, chains: Vec<Chain>, after: &Nest, facts: Vec<String>) -> Self {
        let mut steps: Vec<Step> = Vec::new();
        let mut push = |rule, nest: Nest| {
            if steps.last().map_or(before, |step| &step.nest) != &nest {
                steps.push(Step { rule, nest });
            }
        };
        for chain in chains {
            push(None, chain.start.clone());
            for rewrite in chain.rewrites {
                push(
                    Some((rewrite.rule, rewrite.forward)),
                    Nest { body: rewrite.term, ..chain.start.clone() },
                );
            }
        }
        push(None, after.clone());
        Move { directive, steps, facts }
    }
}

impl Certificate {
    /// Encodes the certificate.
    pub fn to_bytes(&self) -> Vec<u8> {
        encode(self)
    }

    /// Decodes what [`Certificate::to_bytes`] made.
    ///
    /// # Errors
    /// Another version, or damaged bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(bytes)
    }

    /// The nest that it ends with: the program's.
    pub fn last(&self) -> &Nest {
        self.moves.iter().rev().find_map(|m| m.steps.last()).map_or(&self.first, |step| &step.nest)
    }

    /// Every nest after the first, with the move that it belongs to.
    pub fn steps(&self) -> impl Iterator<Item = (&Move, &Step)> {
        self.moves.iter().flat_map(|m| m.steps.iter().map(move |step| (m, step)))
    }
}

/// The kernel's nest, then for each directive what its conditions have found, its rewrites with the lines that they change, and the
/// facts that it adds. Loops have the names that the directive gives them.
impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} of {}", self.schedule, self.first.kernel.name)?;
        let first = shown(&self.first, &self.first);
        write!(f, "\n{first}")?;
        let mut last = &self.first;
        for Move { directive, steps, facts } in &self.moves {
            writeln!(f, "\n{directive}")?;
            facts.iter().try_for_each(|fact| writeln!(f, "    because {fact}"))?;
            let names = steps.last().map_or(last, |step| &step.nest);
            for Step { rule, nest } in steps {
                let changed = changes(&shown(last, names), &shown(nest, names));
                last = nest;
                match rule {
                    // It has named loops.
                    None if changed.is_empty() => continue,
                    Some((rule, true)) => writeln!(f, "  by {rule}")?,
                    Some((rule, false)) => writeln!(f, "  by {rule}, from right to left")?,
                    None => writeln!(f, "  by itself")?,
                }
                f.write_str(&changed)?;
            }
        }
        write!(f, "\nwhich is\n{}", shown(last, last))
    }
}

/// A nest with the names that another one has for its loops: the term and the facts, without names and layouts.
fn shown(nest: &Nest, names: &Nest) -> String {
    let text = Nest { names: names.names.clone(), ..nest.clone() }.to_string();
    let is_shown = |line: &&str| {
        let fact = line.strip_prefix("; ").map(|fact| fact.split('(').next().unwrap_or_default());
        fact.is_none_or(|word| word != "names" && word.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
    };
    text.lines().filter(is_shown).map(|line| format!("{line}\n")).collect()
}

/// The lines in which two texts differ, without those that both begin or end with.
fn changes(before: &str, after: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| pairs.take_while(|(x, y)| x == y).count();
    let start = same(&mut a.iter().zip(&b));
    let shorter = a.len().min(b.len());
    let end = same(&mut a.iter().rev().zip(b.iter().rev())).min(shorter - start);
    let mut out = String::new();
    for (mark, lines) in [('-', &a[start..a.len() - end]), ('+', &b[start..b.len() - end])] {
        lines.iter().for_each(|line| out += &format!("    {mark} {line}\n"));
    }
    out
}
