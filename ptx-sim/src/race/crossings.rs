//! Which clusters touched each granule of global memory, where no order between clusters is possible.
//!
//! Paged: a tensor takes as much as is touched of it.

use super::Budget;
use super::global::{Access, Readers};
use crate::findings::RaceKind;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Granules a page; a multiple of the rows in which they are added.
const PAGE: usize = 4096;

/// `PAGE` granules, each three sets of clusters of 21 bits: weak writers, strong writers, readers. None, if there was no
/// memory for them.
type Page = OnceLock<Box<[AtomicU64]>>;

/// Which clusters touched each granule.
#[derive(Debug)]
pub(crate) struct Crossings {
    /// By allocation.
    allocs: Vec<OnceLock<Box<[Page]>>>,
    sizes: Vec<u64>,
    shift: u32,
    budget: Arc<Budget>,
}

/// More than one cluster.
const MANY: u64 = (1 << 21) - 1;

/// A set of clusters: 0, one, or [`MANY`].
fn with(set: u64, unit: u64) -> u64 {
    if set == 0 || set == unit { unit } else { MANY }
}

/// Clusters whose accesses to one place are unordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Crossing {
    pub kind: RaceKind,
    /// Offset in the allocation, and how many granules race.
    pub at: u64,
    pub places: u64,
}

impl Crossings {
    pub fn new(sizes: Vec<u64>, shift: u32, budget: Arc<Budget>) -> Self {
        let allocs = sizes.iter().map(|_| OnceLock::new()).collect();
        Crossings { allocs, sizes, shift, budget }
    }

    /// Adds what one cluster did to the granules from `first` on; `both(k)`: it wrote them weakly and strongly.
    pub(super) fn add_row(
        &self,
        alloc: usize,
        first: usize,
        unit: u32,
        (writes, readers): (&[Access], &[Readers]),
        both: impl Fn(usize) -> bool,
    ) {
        let pages = self.allocs[alloc].get_or_init(|| {
            let granules = (self.sizes[alloc] >> self.shift) as usize + 1;
            self.budget.cells_with(granules.div_ceil(PAGE), Page::new)
        });
        let Some(page) = pages.get(first / PAGE) else { return };
        let page = page.get_or_init(|| self.budget.cells_with(PAGE, || AtomicU64::new(0)));
        let unit = unit as u64 % (MANY - 1) + 1;
        for (slot, (k, r)) in page.iter().skip(first % PAGE).zip(readers.iter().enumerate()) {
            let w = writes.get(k).copied().unwrap_or_default();
            let (written, read) = (w.cta != 0, r.any());
            if !written && !read {
                continue;
            }
            let (weak, strong) = (written && (w.is_weak() || both(k)), written && !w.is_weak());
            let join = |old: u64| {
                let (w, s, r) = (old & MANY, old >> 21 & MANY, old >> 42 & MANY);
                let w = if weak { with(w, unit) } else { w };
                let s = if strong { with(s, unit) } else { s };
                let r = if read { with(r, unit) } else { r };
                w | s << 21 | r << 42
            };
            let old = slot.load(Relaxed);
            if join(old) != old {
                let _ = slot.fetch_update(Relaxed, Relaxed, |o| Some(join(o)));
            }
        }
    }

    /// By allocation, the first place where clusters race.
    pub fn races(&self) -> Vec<(usize, Crossing)> {
        let mut out = vec![];
        for (alloc, pages) in self.allocs.iter().enumerate() {
            let touched = pages.get().into_iter().flatten().enumerate();
            let slots = touched.filter_map(|(n, p)| Some((n, p.get()?)));
            let mut first: Option<Crossing> = None;
            for (g, v) in slots.flat_map(|(n, p)| p.iter().enumerate().map(move |(k, v)| (n * PAGE + k, v))) {
                let v = v.load(Relaxed);
                let (w, s, r) = (v & MANY, v >> 21 & MANY, v >> 42 & MANY);
                let apart = |a: u64, b: u64| a != 0 && b != 0 && !(a == b && a != MANY);
                let kind = if apart(w, w) || apart(w, s) {
                    RaceKind::WriteWrite
                } else if apart(w, r) || apart(s, r) {
                    RaceKind::ReadAfterWrite
                } else {
                    continue;
                };
                match &mut first {
                    Some(f) => f.places += 1,
                    None => first = Some(Crossing { kind, at: (g as u64) << self.shift, places: 1 }),
                }
            }
            out.extend(first.map(|f| (alloc, f)));
        }
        out
    }
}
