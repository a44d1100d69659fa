//! Scans: the elements that the first part of a `let` has computed become what each has with all before it.

use super::{Machine, Neutral};
use crate::nest::ValueId;

impl<S: Neutral> Machine<'_, S> {
    /// What the first part of a `let` has left of a scan becomes the scan, in ascending order along its axis.
    pub(super) fn scan(&mut self, value: ValueId) {
        let Some((op, axis)) = self.nest.value(value).scan else { return };
        let store = &mut self.values[usize::from(value.0)];
        let behind = store.axes.iter().skip_while(|a| **a != axis).skip(1);
        let stride: usize = behind.map(|a| self.extents[usize::from(a.0)] as usize).product();
        let mut places = std::mem::take(&mut store.scanned);
        places.sort_unstable();
        places.dedup();
        let line = stride * self.extents[usize::from(axis.0)] as usize;
        for at in places {
            // That of the point before, where it is of the same line and of this `let`: of a tile's first point it is not.
            let before = at.checked_sub(stride).filter(|b| b / line == at / line);
            let Some((_, before)) = before.map(|b| store.data[b]).filter(|(g, _)| *g == store.generation)
            else {
                continue;
            };
            let (generation, element) = store.data[at];
            let scanned = S::bin(op.combine(), store.dtype, before, element, false);
            store.data[at] = (generation, scanned);
        }
    }
}
