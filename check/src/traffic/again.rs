//! Which tiles a CTA computes again: words in shared memory that are counted up alone, by ones.

use super::value::Value;
use std::collections::{BTreeMap, BTreeSet};
use tile_dsl::kernel::{Expr, Kernel, Mem, Stmt};

/// The words of a CTA.
pub(super) struct Again {
    buffers: BTreeSet<u32>,
    /// How often each was counted up: buffer and place.
    words: BTreeMap<(u32, i64), i64>,
}

impl Again {
    /// Those of a kernel, before its first tile.
    pub fn of(kernel: &Kernel) -> Again {
        let (mut buffers, mut others) = (BTreeSet::new(), BTreeSet::new());
        for stmt in &kernel.body {
            stmt.each(&mut |stmt| {
                if let Stmt::Combine { mem: Mem::Shared(buffer), values, .. } = stmt {
                    let by_one = matches!(&values[..], [Expr::Int(1, _)]);
                    let found = if by_one { &mut buffers } else { &mut others };
                    found.insert(*buffer);
                }
            });
        }
        Again { buffers: &buffers - &others, words: BTreeMap::new() }
    }

    /// Whether a buffer holds such words.
    pub fn has(&self, buffer: u32) -> bool {
        self.buffers.contains(&buffer)
    }

    /// Whether a statement counts one up.
    pub fn is_mark(&self, stmt: &Stmt) -> bool {
        matches!(stmt, Stmt::Combine { mem: Mem::Shared(buffer), .. } if self.has(*buffer))
    }

    /// The word at a place is counted up.
    pub fn mark(&mut self, buffer: u32, at: &Value) {
        if let Some(at) = at.alike().filter(|_| self.has(buffer)) {
            *self.words.entry((buffer, at)).or_default() += 1;
        }
    }

    /// The word at a place.
    pub fn marks(&self, buffer: u32, at: &Value) -> Value {
        let word = at.alike().and_then(|at| self.words.get(&(buffer, at)));
        Value::same(word.copied().unwrap_or(0))
    }
}
