//! `fragment`: what one step of a loop reads of a tensor is loaded to registers first, each thread what its own
//! steps read.
//!
//! ```text
//! (for at t X)  →  (for at t (stage copy:register X))
//! ```
//! The rule is that of `stage`; the copy is distributed over the threads instead of shared by them, so it needs no
//! barrier, and loops inside may be bound to units.
//!
//! Conditions:
//!
//! - The tensor is read in `X`, and the kernel does not write it.
//! - All its accesses in loops over `at` agree in their coefficients.
//! - Every loop over one of its axes inside `X` has a fixed number of steps, because registers are addressed while compiling.
//! - It is not held in registers there already, nor staged inside.
//!
//! Cost: registers, for each stage of its pipeline.
//! Source: register blocking as a copy of its own (Exo's `stage_mem` into registers; CUTLASS' warp fragments).

use super::prelude::*;
use crate::{
    engine::{
        facts::{Graph, effects, same_reads},
        families::{
            reads::{both, held_already, not_read, one_box, reads, with_copy},
            solve,
            stage::{has_copy, rule},
            with_body,
        },
        language::Node,
        names::{self, Bare},
        phase::Redex,
        rule::enforced,
    },
    machine::{Space, Via},
    nest::{Copy, CopyId, Digit, Frame, LoopKind, Steps, leaves},
};

directive! {
    /// `fragment(a at k.t)`: what the loops inside read of a tensor is loaded to registers first.
    "fragment(a, b at k.t)" in Stage, 0:
    Fragment { buffer: String, at: DigitName } => |s| {
        s.indexed().alike(buffer, "a tensor").mark("at").name(at, "a loop")
    }
}

impl Definition for Fragment {
    fn apply(&self, nest: &Nest, span: SpanId) -> Applied {
        apply(nest, &self.buffer, &self.at, span)
    }

    fn gives(&self) -> Vec<Name> {
        vec![Name::CopyAt(self.at.clone())]
    }

    fn needs(&self) -> Vec<Name> {
        vec![Name::Loop(self.at.clone())]
    }
}

impl Drawn for Fragment {
    fn candidates(_: Kind, generator: &mut Generator<'_>, wish: &Wish<'_>) -> Vec<DirectiveKind> {
        let kernel = generator.kernel;
        let Wish { product, at, .. } = *wish;
        let mut digits = generator.short(16);
        if let Some(product) = product {
            let k = &product.axes[2];
            digits = vec![format!("{k}.atom"), format!("{k}.{}", product.value)];
        }
        // What one step reads is of use in the copies' steps.
        let mut found = vec![];
        let at = if digits.is_empty() {
            at.first().cloned()
        } else {
            Some(generator.random.pick(&digits).clone())
        };
        for t in kernel.tensors.iter().filter(|t| !t.mutable) {
            found.extend(at.iter().map(|at| Fragment { buffer: t.name.clone(), at: at.clone() }.into()));
            found.extend(digits.iter().map(|at| Fragment { buffer: t.name.clone(), at: at.clone() }.into()));
        }
        found
    }
}

fn refuse(message: String) -> Failure {
    Failure::refused(Diagnostic::new(SpanId::NONE, message))
}

/// `fragment(buffer at loop)`.
fn apply(nest: &Nest, buffer: &str, at_name: &str, span: SpanId) -> Result<(Nest, Proof), Failure> {
    let Some((tensor, follows)) = names::reads(nest, buffer)? else {
        let known = nest.kernel.tensors.iter().map(|t| t.name.clone()).collect();
        return Err(names::unknown("tensor", buffer, known));
    };
    let info = nest.tensor(tensor);
    if info.mutable && enforced("fragment: not written") {
        let text = format!("`{buffer}` is stored to by the kernel: a copy of it would go stale");
        return Err(refuse(text).note(info.span, format!("`{buffer}` is `&mut` here")));
    }
    let at = names::existing(nest, at_name, Bare::InTile)?;
    let new = Copy {
        tensor,
        follows,
        space: Space::Register,
        transposed: false,
        via: Via::Plain,
        vector: None,
        pad: 0,
        swizzle: 0,
        span,
    };
    let named = |buffer| DirectiveKind::Fragment(directive::Fragment { buffer, at: at_name.to_string() });
    if !reads(&nest.body, nest, &new) {
        return Err(not_read(nest, buffer, &new, named));
    }
    one_box(nest, &new, at, named)?;
    held_already(nest, buffer, &new, at)?;
    staged_inside(nest, buffer, &new, at)?;
    let (nest, copy) = with_copy(nest, new.clone())?;
    let redex = |graph: &Graph, node: &Node, below: &[&Node]| match (node, below) {
        (Node::For([_, _, body]), [Node::Digit(d), _, top]) if *d == at => {
            let read = effects(graph, *body).reads_copy(&new, &graph.analysis.nest);
            if read && !has_copy(graph, top, &new) { Redex::Hard } else { Redex::No }
        }
        _ => Redex::No,
    };
    let absent = || {
        let failure = Failure::refused(Diagnostic::new(
            SpanId::NONE,
            format!("`{buffer}` is not read inside the loop over `{at_name}`, or is copied there already"),
        ));
        nest.copies
            .iter()
            .filter(|c| same_reads(c, &new) && c.span != span)
            .fold(failure, |failure, c| failure.note(c.span, format!("`{buffer}` is staged here")))
    };
    let (body, mut proof) = solve(&nest, &[rule(copy, at)], &redex, absent, || {
        Failure::unmet(format!("`{buffer}` could not be loaded at `{at_name}`"))
    })?;
    let held = with_body(&nest, body);
    if let Some(digit) = unbounded(&held, copy) {
        let axis = held.axis(digit.axis);
        return Err(refuse(format!(
            "one step of `{at_name}` reads `{buffer}` over all of `{axis}`, which has no bound: registers cannot hold it"
        ))
        .note(held.copied_accesses(copy).first().map_or(SpanId::NONE, |a| a.span), "it is read here")
        .remark(format!("tile `{axis}`, or load it in a loop further inside")));
    }
    proof.facts.push(format!("one step of `{at_name}` reads a fixed number of elements of `{buffer}`"));
    Ok((held, proof))
}

/// A loop without a fixed number of steps over one of the tensor's axes, inside the copy.
fn unbounded(nest: &Nest, copy: CopyId) -> Option<Digit> {
    moving(nest, copy, |digit, _| digit.steps == Steps::Rest)
}

/// The first loop inside a copy that is of a kind and moves what is read from it.
fn moving(nest: &Nest, copy: CopyId, kind: impl Fn(Digit, LoopKind) -> bool) -> Option<Digit> {
    let mut found = None;
    leaves(&nest.body, &mut |path, leaf| {
        let Some(inside) = path.iter().position(|f| *f == Frame::Stage(copy)) else { return };
        for access in leaf.leaf().expect("a leaf").1.accesses() {
            if !nest.serves(copy, access) {
                continue;
            }
            let access = nest.access(access);
            found = found.or(path[inside..].iter().find_map(|f| match f {
                Frame::For(d, at) if kind(*d, *at) => {
                    access.index.iter().any(|i| i.coefficient(d.axis) != 0).then_some(*d)
                }
                _ => None,
            }));
        }
    });
    found
}

/// The copy that a fragment reads stands around it, not inside.
fn staged_inside(nest: &Nest, buffer: &str, new: &Copy, at: Digit) -> Result<(), Failure> {
    let mut inside = None;
    leaves(&nest.body, &mut |path, leaf| {
        let accesses = leaf.leaf().expect("a leaf").1.accesses();
        let Some(outer) = path.iter().position(|f| matches!(f, Frame::For(d, _) if *d == at)) else { return };
        inside = inside.or(path[outer..].iter().find_map(|f| match f {
            Frame::Stage(c) if both(nest, new, *c, &accesses) => Some(*c),
            _ => None,
        }));
    });
    match inside {
        Some(c) => Err(refuse(format!(
            "`{buffer}` is staged at this loop or further inside: load it to registers inside of that"
        ))
        .note(nest.copy(c).span, "staged here")),
        None => Ok(()),
    }
}
