//! Asynchronous MMA: products that follow one another are a group, begun by a fence and waited for at its
//! end.
//!
//! ```text
//! wgmma acc += ..; wgmma acc += ..   →   products fence acc; wgmma ..; wgmma ..; products commit; products wait 0 acc
//! ```
//! Where the pipeline has a wait of its own behind them (`in_flight`), that is the wait.
//! Only pure statements that do not read the accumulators stand between the products of a group.
//! Source: PTX ISA 9.7.16.4 (asynchronous operations of `wgmma`).

use super::{error::LowerError, lowering::Lowering};
use crate::kernel::{Async, Expr, Stmt};
use std::collections::{BTreeMap, BTreeSet};

type Accumulators = BTreeMap<u32, BTreeSet<u32>>;

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
    // Products that stay in flight: the pipeline says where they are waited for.
    let awaited = stmts.iter().any(|s| matches!(s, Stmt::Async(Async::WaitProducts { .. })));
    let mut out = Vec::with_capacity(stmts.len() + 3);
    let mut rest = std::mem::take(stmts).into_iter().peekable();
    while let Some(stmt) = rest.next() {
        if !is_product(&stmt) {
            out.push(stmt);
            continue;
        }
        let mut held = Accumulators::new();
        let mut run = Vec::new();
        // Behind the last product, nothing of the run is left in it.
        let mut after = Vec::new();
        let mut next = Some(stmt);
        while let Some(stmt) = next.take() {
            if let Stmt::Async(Async::Multiply { frag, slots, .. }) = &stmt {
                held.entry(*frag).or_default().extend(slots);
                run.append(&mut after);
                run.push(stmt);
            } else {
                after.push(stmt);
            }
            let goes_on =
                |s: &Stmt| is_product(s) || matches!(s, Stmt::Let(_, value) if !reads(value, &held));
            next = rest.next_if(goes_on);
        }
        let results: Vec<(u32, Vec<u32>)> =
            held.into_iter().map(|(frag, slots)| (frag, slots.into_iter().collect())).collect();
        out.push(Stmt::Async(Async::Fence { results: results.clone() }));
        out.append(&mut run);
        out.push(Stmt::Async(Async::Commit));
        if !awaited {
            out.push(Stmt::Async(Async::WaitProducts { pending: 0, results }));
        }
        out.append(&mut after);
    }
    *stmts = out;
}

fn is_product(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Async(Async::Multiply { .. }))
}

/// Whether a value depends on accumulators.
fn reads(value: &Expr, held: &Accumulators) -> bool {
    let mut found = false;
    value.each(&mut |e| {
        found |= matches!(e, Expr::Slot { frag, .. } if held.contains_key(frag));
    });
    found
}
