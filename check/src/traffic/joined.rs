//! Loads that LLVM joins: neighbours in a straight piece of code become one instruction.

use super::{Count, Form, Walk, cost::Request, value::Lanes};
use tile_dsl::kernel::{Mem, Stmt};

/// Bytes that a lane loads at once at most.
const WIDEST: u32 = 16;

/// A load that LLVM may join with its neighbours.
pub(super) struct Together<'a> {
    pub stmt: &'a Stmt,
    pub mem: Mem,
    pub at: Lanes,
    pub lanes: u32,
    pub bytes: u32,
}

impl<'a> Walk<'a, '_> {
    /// Counts the loads of a straight piece of code: neighbours by one instruction, of 16 bytes at most, where all lanes are aligned to it.
    pub(super) fn join(&mut self) {
        let mut left = std::mem::take(&mut self.together);
        while let Some(first) = left.first() {
            let apart = |other: &Together<'_>| {
                let alike = (other.mem, other.lanes, other.bytes) == (first.mem, first.lanes, first.bytes);
                if alike { other.at.apart(&first.at, first.lanes) } else { None }
            };
            let found: Vec<Option<i64>> = left.iter().map(apart).collect();
            let mut chain: Vec<(i64, Together<'_>)> = Vec::new();
            let mut others = Vec::new();
            for (load, distance) in left.into_iter().zip(found) {
                match distance {
                    Some(distance) => chain.push((distance, load)),
                    None => others.push(load),
                }
            }
            left = others;
            chain.sort_by_key(|(distance, _)| *distance);
            let mut at = 0;
            while at < chain.len() {
                let n = joined(&chain[at..]);
                let (_, load) = &chain[at];
                let bytes = n as u32 * load.bytes;
                let request = Request { at: &load.at, lanes: load.lanes, bytes };
                let (units, least) = request.wavefronts(true);
                let count = Count { requests: 1, units, least, bytes: request.asked() };
                let (stmt, mem) = (load.stmt, load.mem);
                self.count(stmt, (mem, Form::Load), bytes, count);
                at += n;
            }
        }
    }
}

/// How many loads at the start of a chain, in the order of their distances, are one instruction.
fn joined(chain: &[(i64, Together<'_>)]) -> usize {
    let (start, first) = &chain[0];
    let each = i64::from(first.bytes);
    let beside = (0i64..).zip(chain).take_while(|(n, (distance, _))| *distance == start + n * each).count();
    let aligned = |n: usize| first.at.multiples_of(n as i64 * each, first.lanes);
    [16, 8, 4, 2]
        .into_iter()
        .find(|n| *n <= beside && *n as u32 * first.bytes <= WIDEST && aligned(*n))
        .unwrap_or(1)
}

/// Whether loads on either side of a statement stand in one straight piece of code.
pub(super) fn computes(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Let(..) | Stmt::Set { .. } | Stmt::Load { guard: None, .. })
}
