//! `cache` of a tensor: the eviction priority in L2 of what the kernel accesses of it.
//!
//! No statement is rewritten: the same elements are loaded and stored, with a hint (PTX ISA, "createpolicy").
//!
//! Conditions: the kernel accesses the tensor, by loads, stores and copies, which take the hint. What CTAs add to it
//! atomically (`split_k(k, n; atomic)`) goes without one.
//! Cost: none; other lines leave L2 earlier or later.

use super::prelude::*;
use crate::{
    engine::{families::output, names},
    machine::{Evict, Via},
    nest::{AccessId, Across, CopyId, Frame, Target, ValueId, leaves},
    tile::TensorId,
};

directive! {
    /// `cache(c: evict_first)`: how soon L2 gives up what the kernel has accessed of a tensor.
    "cache(c: evict_first)" in Expand, 0:
    Cache { tensor: String, evict: Evict = Evict::First } => |s| {
        s.each(tensor, "a tensor").mark(":").one_of(evict, "cache hint", &Evict::NAMED.map(|(_, evict)| evict))
    }
}

impl Definition for Cache {
    const CHECK: Option<Check> = Some((Shows::Policies, check));

    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        apply(nest, &self.tensor, self.evict)
    }
}

impl Drawn for Cache {
    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        let kernel = generator.kernel;
        let (_, evict) = *generator.random.pick(&Evict::NAMED);
        kernel.tensors.iter().map(|t| Cache { tensor: t.name.clone(), evict }.into()).collect()
    }
}

fn refuse(text: String) -> Failure {
    Failure::refused(Diagnostic::new(SpanId::NONE, text)).edit(Edit::remove())
}

/// `cache(tensor: policy)`.
fn apply(nest: &Nest, name: &str, evict: Evict) -> Result<(Nest, Proof), Failure> {
    let Some(tensor) = names::tensor(nest, name) else {
        let known: Vec<String> = nest.kernel.tensors.iter().map(|t| t.name.clone()).collect();
        let Some(value) = nest.values.iter().find(|v| v.name == name) else {
            return Err(names::unknown("tensor", name, known));
        };
        let text =
            format!("`{name}` is a value of the kernel, in registers or shared memory: L2 holds tensors");
        let remark = format!("the tensors are {}", names::list(&known));
        return Err(refuse(text).remark(remark).note(value.span, format!("`{name}` is computed here")));
    };
    if let Some(access) = added(nest, tensor) {
        let text = format!("`{name}` is combined atomically: such operations take no cache policy");
        return Err(refuse(text).note(nest.access(access).span, "combined here"));
    }
    let (stores, read) = output::accesses(nest, tensor);
    if stores.is_empty() && read.is_none() {
        let text = format!("the kernel does not access `{name}`: there is nothing to keep in L2");
        return Err(refuse(text).note(nest.tensor(tensor).span, "declared here"));
    }
    let mut nest = nest.clone();
    nest.cache.insert(tensor, evict);
    let fact = format!(
        "L2 evicts what is accessed of `{name}` {}",
        match evict {
            Evict::First => "before other lines",
            Evict::Last => "after other lines",
        }
    );
    Ok((nest, Proof { facts: vec![fact], ..Proof::default() }))
}

/// Where a tensor is combined with instead of stored to: as the kernel says, or behind a reduction whose parts meet that way.
fn added(nest: &Nest, tensor: TensorId) -> Option<AccessId> {
    let mut found = None;
    leaves(&nest.body, &mut |path, leaf| {
        let Some((Target::Access(access), _)) = leaf.leaf() else { return };
        let adds = |v: &ValueId| nest.across.get(v) == Some(&Across::Atomic);
        let meets = |f: &Frame| matches!(f, Frame::Rest(values) if values.iter().any(adds));
        let combines = nest.access(access).combines.is_some();
        if nest.access(access).tensor == tensor && (combines || path.iter().any(meets)) {
            found = found.or(Some(access));
        }
    });
    found
}

/// No tensor with a policy is copied by `cp.async`. Of `cp.async` with `.L2::cache_hint`, whatever its size, `ptxas` 13.0
/// makes for `sm_90`, where it adds a uniform register to the address in shared memory, `LDGSTS [R+UR], desc[UR1]`: a descriptor is an
/// even pair of registers, and the GPU reports an illegal instruction. The driver assembles code of older targets there, too.
fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let copies = (0..).zip(&nest.copies);
    let hinted = copies.filter(|(_, c)| c.via == Via::CpAsync && nest.cache.contains_key(&c.tensor));
    let mut wrong: Vec<Diagnostic> = Vec::new();
    let mut known = Vec::new();
    for (n, copy) in hinted {
        let standing = !nest.bodies(CopyId(n)).is_empty();
        if !standing || known.contains(&copy.tensor) {
            continue;
        }
        known.push(copy.tensor);
        let name = &nest.tensor(copy.tensor).name;
        let by = context
            .last(|k| matches!(k, DirectiveKind::Cache(directive::Cache { tensor, .. }) if tensor == name));
        let text = format!(
            "`{name}` is copied by cp.async: with a cache policy, `ptxas` 13.0 makes illegal instructions of some of those copies"
        );
        let plain = context.schedule.directives.iter().rev().find_map(|d| match &d.kind {
            stage @ DirectiveKind::Stage(directive::Stage { buffer, at: Some(_), .. }) if buffer == name => {
                let mut stage = stage.clone();
                if let DirectiveKind::Stage(directive::Stage { via, .. }) = &mut stage {
                    *via = Via::Plain;
                }
                Some(Edit::put([stage]).remark("through registers, with the policy"))
            }
            _ => None,
        });
        wrong.push(
            context
                .at(by, SpanId::NONE, text)
                .note(copy.span, format!("`{name}` is staged here"))
                .edits(plain)
                .edits([Edit::remove()]),
        );
    }
    wrong
}
