//! What follows a reduction that the CTAs of a cluster share: which part of it each of them runs.
//!
//! ```text
//! (let [v] P (for d#unroll n·m X))   CTA r of n: parts of v at steps r·m .. r·m + m of d, and X for these
//! (let [v] P Q)                      CTA 0: all parts of v, and Q
//! ```
//! The first where a loop over one digit `d` of the reduction is around all that follows, and its steps mean nothing to one
//! another: each CTA then adds up, computes and stores a share of the elements. Of several such loops it is the one that
//! leaves the longest pieces of the rows that are stored, and of those alike the outermost.

use super::{
    Across, Digit, Expr, Frame, LoopKind, Nest, Placement, Steps, Stmt, Target, ValueId, leaves, own_loops,
};
use crate::index::AxisId;
use std::collections::BTreeSet;

/// A statement behind the reduction: the frames from there inward, those around, and itself.
struct Reader<'n> {
    around: Vec<Frame>,
    path: Vec<Frame>,
    leaf: &'n Stmt,
}

impl Nest {
    /// Whether the CTAs of the cluster hold parts of a reduction.
    pub fn cluster_reduces(&self) -> bool {
        self.across.values().any(|across| *across == Across::Cluster)
    }

    /// The digit whose steps the CTAs of a cluster share out behind the reduction that they hold parts of. `None` where the
    /// first of them goes on alone.
    pub fn share(&self) -> Option<Digit> {
        if !self.cluster_reduces() {
            return None;
        }
        let readers = self.readers();
        let (first, others) = readers.split_first()?;
        let around = |d: &Digit, r: &Reader<'_>| r.path.iter().any(|f| self.shareable(f) == Some(*d));
        let digits = first.path.iter().filter_map(|f| self.shareable(f)).filter(|d| {
            others.iter().all(|r| around(d, r))
                && self.splits_reduction(*d)
                && self.stores_once(&readers, d.axis)
                && readers.iter().all(|r| self.is_independent(r, *d))
        });
        // The last of the longest is the outermost.
        let digits: Vec<Digit> = digits.collect();
        digits.into_iter().rev().max_by_key(|d| self.pieces(&readers, *d))
    }

    /// Elements of the shortest piece of a stored row that a CTA has, without end where rows stay whole.
    fn pieces(&self, readers: &[Reader<'_>], digit: Digit) -> u64 {
        let piece = |r: &Reader<'_>| {
            let Stmt::Put { access, .. } = r.leaf else { return None };
            let access = self.access(*access);
            let along = access.index.get(self.contiguous(access.tensor))?.coefficient(digit.axis);
            let Steps::Fixed(steps) = digit.steps else { return None };
            let own = u64::from(digit.stride) * u64::from(steps / self.cluster_ctas());
            (along != 0).then(|| own.saturating_mul(along.unsigned_abs()))
        };
        readers.iter().filter_map(piece).min().unwrap_or(u64::MAX)
    }

    /// The digit of an expanded loop whose steps come apart into as many shares as there are CTAs.
    fn shareable(&self, frame: &Frame) -> Option<Digit> {
        match frame {
            Frame::For(digit, LoopKind::Unroll | LoopKind::Serpentine) => match digit.steps {
                Steps::Fixed(n) if n.is_multiple_of(self.cluster_ctas()) => Some(*digit),
                _ => None,
            },
            _ => None,
        }
    }

    /// The statements behind the reduction.
    fn readers(&self) -> Vec<Reader<'_>> {
        let mut found = Vec::new();
        let shared = |vs: &[ValueId]| vs.iter().any(|v| self.across.contains_key(v));
        leaves(&self.body, &mut |path, leaf| {
            if let Some(at) = path.iter().position(|f| matches!(f, Frame::Rest(vs) if shared(vs))) {
                let (around, path) = (path[..at].to_vec(), path[at + 1..].to_vec());
                found.push(Reader { around, path, leaf });
            }
        });
        found
    }

    /// Whether each thread holds the steps of a digit of the reductions in registers, as far as they have its axis.
    fn splits_reduction(&self, digit: Digit) -> bool {
        let mut held = false;
        let wanted = |(d, at): &(Digit, LoopKind)| *d == digit && !matches!(at, LoopKind::Unit(..));
        let ok = self.across.keys().filter(|v| self.value(**v).axes.contains(&digit.axis)).all(|v| {
            let own = self.first_of(*v).is_some_and(|f| own_loops(self, *v, f).iter().any(wanted));
            held |= own;
            own
        });
        ok && held
    }

    /// The part of a value's `let` that computes it.
    fn first_of(&self, value: ValueId) -> Option<&Stmt> {
        self.lets().into_iter().find(|(v, _)| *v == value).map(|(_, first)| first)
    }

    /// Each tensor is stored by one statement that moves along the axis, and what is stored is not read: no element is
    /// touched by two CTAs.
    fn stores_once(&self, readers: &[Reader<'_>], axis: AxisId) -> bool {
        let mut stored = BTreeSet::new();
        let once = readers.iter().all(|r| match r.leaf {
            Stmt::Put { access, .. } => {
                let access = self.access(*access);
                stored.insert(access.tensor) && access.index.iter().any(|i| i.coefficient(axis) != 0)
            }
            _ => true,
        });
        once && !self.accesses.iter().enumerate().any(|(n, a)| {
            let read = |r: &Reader<'_>| {
                let accesses = r.leaf.leaf().map(|(_, e)| e.accesses()).unwrap_or_default();
                accesses.iter().any(|id| usize::from(id.0) == n)
            };
            stored.contains(&a.tensor) && readers.iter().any(read)
        })
    }

    /// Whether the steps of a digit mean nothing to one another in a statement, and nothing in it is addressed while
    /// compiling but the parts of the reduction.
    fn is_independent(&self, reader: &Reader<'_>, digit: Digit) -> bool {
        let Reader { around, path, leaf } = reader;
        let Some((target, expr)) = leaf.leaf() else { return false };
        let plain = |f: &Frame| !matches!(f, Frame::Stage(_) | Frame::For(_, LoopKind::Atom(..)));
        let own = |f: &Frame| matches!(f, Frame::For(d, _) if *d == digit);
        let Some(here) = path.iter().position(own) else { return false };
        let inside = |v: ValueId| {
            let bound = path.iter().position(|f| binds(f, v));
            bound.map(|at| at > here)
        };
        // What is computed has the axis, or ends with the step.
        let computes = match target {
            Target::Value(v) => inside(v) == Some(true) || !self.value(v).is_parted_by(digit.axis),
            Target::Access(_) => true,
        };
        // Registers that other statements fill hold all steps.
        let held = |v: ValueId| {
            let value = self.value(v);
            let known = self.across.contains_key(&v) || inside(v).is_some();
            known || value.placement == Placement::Shared || !value.axes.contains(&digit.axis)
        };
        let fragment = |e: &Expr| e.accesses().iter().any(|a| self.is_held(around, *a).is_some());
        path.iter().all(plain) && computes && expr.values().into_iter().all(held) && !fragment(expr)
    }
}

fn binds(frame: &Frame, value: ValueId) -> bool {
    matches!(frame, Frame::First(vs) | Frame::Rest(vs) if vs.contains(&value))
}
