//! The readers of registers: each statement that computes or reads a value in registers sees it where its threads hold it.

use super::places::Unplaced;
use crate::nest::{Frame, Layout, LoopKind, Nest, Placement, Steps, Target, ValueId, leaves, steps};

/// A statement that needs a value in registers otherwise than its threads hold it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Misread {
    /// The value.
    pub value: ValueId,
    /// What the statement writes.
    pub reader: Target,
    /// Where another statement puts the value.
    pub held: Layout,
    /// Where this one needs it.
    pub needed: Layout,
}

impl Misread {
    /// In words.
    pub fn text(&self, nest: &Nest) -> String {
        let name = |target: Target| match target {
            Target::Value(value) => &nest.value(value).name,
            Target::Access(access) => &nest.tensor(nest.access(access).tensor).name,
        };
        format!(
            "`{}` is held with {}, but `{}` needs it with {}: registers of one thread cannot be read by another",
            nest.value(self.value).name,
            self.held.show(nest),
            name(self.reader),
            self.needed.show(nest)
        )
    }
}

/// What is wrong with the readers of a nest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readers {
    /// Loops at run time that index registers, each value once.
    pub indexed: Vec<Unplaced>,
    /// Statements that see other layouts.
    pub apart: Vec<Misread>,
}

impl Readers {
    /// Those of a nest.
    pub fn of(nest: &Nest) -> Readers {
        let mut readers = Readers::default();
        let mut writers: Vec<(Vec<Frame>, ValueId, Layout)> = Vec::new();
        let held = |v: &ValueId| nest.value(*v).placement == Placement::Register;
        leaves(&nest.body, &mut |path, leaf| {
            if let Some((Target::Value(v), _)) = leaf.leaf()
                && held(&v)
                && let Some(at) = Nest::binder(path, v)
            {
                let own = nest.layouts(&path[at..], leaf, v).into_iter().next();
                writers.extend(own.map(|layout| (path[..at].to_vec(), v, layout)));
            }
        });
        leaves(&nest.body, &mut |path, leaf| {
            let Some((target, expr)) = leaf.leaf() else { return };
            let mut read = expr.values();
            read.iter().copied().filter(held).for_each(|v| readers.index(nest, path, v));
            read.extend(if let Target::Value(v) = target { Some(v) } else { None });
            read.retain(held);
            read.dedup();
            for value in read {
                let Some(at) = Nest::binder(path, value) else { continue };
                for needed in nest.layouts(&path[at..], leaf, value) {
                    let other = writers
                        .iter()
                        .find(|(p, w, held)| *w == value && p[..] == path[..at] && !held.agrees(&needed));
                    let known = |m: &Misread| (m.value, m.reader) == (value, target);
                    if let Some((_, _, held)) = other
                        && !readers.apart.iter().any(known)
                    {
                        readers.apart.push(Misread { value, reader: target, held: held.clone(), needed });
                    }
                }
            }
        });
        readers
    }

    /// Whether a pipelined loop indexes the registers that a statement reads.
    fn index(&mut self, nest: &Nest, path: &[Frame], value: ValueId) {
        if self.indexed.iter().any(|why| why.value() == value) {
            return;
        }
        let Some(at) = Nest::binder(path, value) else { return };
        let axes = &nest.value(value).axes;
        let piped = steps(nest, &path[at..]).into_iter().find(|(digit, kind)| {
            let moves = axes.contains(&digit.axis) && digit.steps != Steps::Fixed(1);
            moves && matches!(kind, LoopKind::Pipe(_))
        });
        self.indexed.extend(piped.map(|step| Unplaced::RunTime(value, step)));
    }
}
