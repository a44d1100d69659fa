//! Asynchronous MMA: products that follow one another are a group, begun by a fence and waited for at its
//! end.
//!
//! ```text
//! wgmma acc += ..; wgmma acc += ..          →  products fence acc; wgmma ..; wgmma ..; products commit; products wait 0 acc
//! set p[0] = ..; wgmma acc += p[0] x ..      →  set p[0] = ..; products fence acc p; wgmma ..; products commit; products wait 0 acc p
//! ```
//! Groups that the walk has committed it waits for itself (`in_flight`, `skew`). Where another group follows at once, the one
//! fence stands before both, and so does what fills their registers:
//!
//! ```text
//! wgmma s ..; commit; set p[0] = ..; wgmma acc += p[0] x ..; commit
//! →  set p[0] = ..; products fence s acc p; wgmma s ..; products commit; wgmma acc += ..; products commit
//! ```
//! Only pure statements that do not read the accumulators stand between the products of a group.
//! Those that fill registers of operands come before its fence.
//! Source: PTX ISA 9.7.16.4 (asynchronous operations of `wgmma`).

use super::{error::LowerError, lowering::Lowering};
use crate::kernel::{Async, Expr, Rows, Stmt};
use std::collections::{BTreeMap, BTreeSet};

/// Registers that belong to products, by fragment.
type Held = BTreeMap<u32, BTreeSet<u32>>;

/// Groups the products of a kernel.
pub(super) fn group(lowering: &mut Lowering<'_>) -> Result<(), LowerError> {
    block(&mut lowering.kernel.body);
    Ok(())
}

fn block(stmts: &mut Vec<Stmt>) {
    for stmt in stmts.iter_mut() {
        stmt.blocks_mut().into_iter().for_each(block);
    }
    if !stmts.iter().any(is_product) {
        return;
    }
    let mut out = Vec::with_capacity(stmts.len() + 3);
    let mut rest = std::mem::take(stmts).into_iter().peekable();
    while let Some(stmt) = rest.next() {
        if !is_product(&stmt) {
            out.push(stmt);
            continue;
        }
        let mut held = Held::new();
        // What fills operands, with all that stands before it, and what is left.
        let (mut filled, mut run) = (Vec::new(), Vec::new());
        // Behind the last product, nothing of the run is left in it.
        let mut after = Vec::new();
        let mut next = Some(stmt);
        while let Some(stmt) = next.take() {
            if let Stmt::Async(Async::Multiply { frag, slots, a, .. }) = &stmt {
                held.entry(*frag).or_default().extend(slots);
                if let Rows::Held { frag, slots } = a {
                    held.entry(*frag).or_default().extend(slots);
                }
                run.append(&mut after);
                run.push(stmt);
            } else if matches!(stmt, Stmt::Set { .. }) {
                run.append(&mut after);
                let (products, pure) = run.into_iter().partition(|s| is_product(s) || is_commit(s));
                run = products;
                filled.extend::<Vec<Stmt>>(pure);
                filled.push(stmt);
            } else {
                after.push(stmt);
            }
            next = rest.next_if(|s| is_product(s) || is_commit(s) || is_apart(s, &held));
        }
        let results: Vec<(u32, Vec<u32>)> =
            held.into_iter().map(|(frag, slots)| (frag, slots.into_iter().collect())).collect();
        out.append(&mut filled);
        out.push(Stmt::Async(Async::Fence { results: results.clone() }));
        let committed = run.last().into_iter().chain(&after).any(is_commit);
        out.append(&mut run);
        // A group that the walk has committed it waits for, too.
        if !committed {
            out.push(Stmt::Async(Async::Commit));
            out.push(Stmt::Async(Async::WaitProducts { pending: 0, results }));
        }
        out.append(&mut after);
    }
    *stmts = out;
}

fn is_commit(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Async(Async::Commit))
}

fn is_product(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Async(Async::Multiply { .. }))
}

/// Whether a statement neither reads nor writes registers of products, nor changes what they read: it may stand among them, and before
/// them.
fn is_apart(stmt: &Stmt, held: &Held) -> bool {
    match stmt {
        Stmt::Let(_, value) => !reads(value, held),
        Stmt::Set { frag, value, .. } => !held.contains_key(frag) && !reads(value, held),
        Stmt::JoinTwos { values, .. } => values.iter().all(|e| !reads(e, held)),
        Stmt::Load { offset, guard, .. } => {
            [Some(offset), guard.as_ref()].into_iter().flatten().all(|e| !reads(e, held))
        }
        _ => false,
    }
}

/// Whether a value depends on registers of products.
fn reads(value: &Expr, held: &Held) -> bool {
    let mut found = false;
    value.each(&mut |e| {
        found |= matches!(e, Expr::Slot { frag, .. } if held.contains_key(frag));
    });
    found
}
