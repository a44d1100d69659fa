//! The e-class analysis: what a statement computes, never how.
//!
//! Every fact is the same for all members of a class; [`Facts::merge`] checks that, so that a rule that
//! changes the meaning of a nest is caught at the first union. Whether something is staged, bound or
//! pipelined is a property of a term and is not here. The one exception is `wrap`, which is allowed because
//! a wrapper is never united with its bare body.

use super::language::{Bits, Node, bit, members};
use crate::{
    index::AxisId,
    nest::{Copy, CopyId, Digit, Expr, LoopKind, Nest, Steps, Stmt, Target, ValueId},
    tile::TensorId,
};
use egg::{Analysis, DidMerge, EGraph, Id};
use std::rc::Rc;

pub(crate) type Graph = EGraph<Node, Facts>;

/// How a name is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Def,
    Red,
    Scan,
    Set,
    Put,
}

impl Kind {
    /// How a leaf statement writes.
    pub fn of(leaf: &Stmt) -> Kind {
        match leaf {
            Stmt::Def { .. } => Kind::Def,
            Stmt::Red { .. } => Kind::Red,
            Stmt::Scan { .. } => Kind::Scan,
            Stmt::Set { .. } => Kind::Set,
            _ => Kind::Put,
        }
    }
}

/// Points of axes bound so far: merged intervals `[low, high)` of strides; `u32::MAX` is "to the end".
pub(crate) type Cover = Vec<(AxisId, u32, u32)>;

/// A name written by a statement and not yet closed by its `let`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Write {
    pub target: Target,
    pub kind: Kind,
    pub cover: Cover,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effects {
    /// Open writes, sorted.
    pub writes: Vec<Write>,
    /// Values read and not bound inside.
    pub values: Bits,
    /// Tensors read, by access.
    pub accesses: Bits,
    /// Axes mentioned by any statement inside, whether a loop inside binds them or not.
    pub mentions: Bits,
    /// The copies directly around this statement (wrapper classes only).
    pub wrap: Bits,
}

/// Analysis data of a class.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Leaf,
    Stmt(Rc<Effects>),
}

/// A leaf statement with its facts.
pub(crate) struct Action {
    pub stmt: Stmt,
    effects: Rc<Effects>,
}

/// The side tables of one phase and what its conditions logged.
pub(crate) struct Facts {
    pub nest: Rc<Nest>,
    /// Leaf statements; [`Node::Do`] indexes this table.
    pub actions: Vec<Action>,
    /// Set when a union joined statements with different facts: a rule is wrong.
    pub unsound: Option<String>,
}

impl Facts {
    pub fn new(nest: Rc<Nest>) -> Self {
        Facts { nest, actions: Vec::new(), unsound: None }
    }

    /// Number of a leaf statement.
    pub fn action(&mut self, stmt: &Stmt) -> u32 {
        if let Some(n) = self.actions.iter().position(|a| a.stmt == *stmt) {
            return n as u32;
        }
        let effects = Rc::new(self.effects(stmt));
        self.actions.push(Action { stmt: stmt.clone(), effects });
        self.actions.len() as u32 - 1
    }

    /// What a leaf statement does.
    fn effects(&self, leaf: &Stmt) -> Effects {
        let Some((target, expr)) = leaf.leaf() else {
            return Effects { writes: Vec::new(), values: 0, accesses: 0, mentions: 0, wrap: 0 };
        };
        let kind = Kind::of(leaf);
        let (values, accesses, iotas) = reads(expr);
        let mut mentions = iotas | target_axes(&self.nest, target);
        members(values).for_each(|v| mentions |= value_axes(&self.nest, ValueId(v)));
        members(accesses).for_each(|a| mentions |= target_axes(&self.nest, Target::Access(access_id(a))));
        let writes = vec![Write { target, kind, cover: Vec::new() }];
        Effects { writes, values, accesses, mentions, wrap: 0 }
    }
}

pub(crate) fn access_id(n: u16) -> crate::nest::AccessId {
    crate::nest::AccessId(n)
}

fn reads(expr: &Expr) -> (Bits, Bits, Bits) {
    let (mut values, mut accesses, mut iotas) = (0, 0, 0);
    expr.visit(&mut |e| match e {
        Expr::Get(v) => values |= bit(v.0),
        Expr::Load(a) | Expr::Gather(a, _) => accesses |= bit(a.0),
        Expr::Iota(a) | Expr::Edge(a, _) => iotas |= bit(a.0),
        _ => {}
    });
    (values, accesses, iotas)
}

/// Axes that a value is indexed by.
pub(crate) fn value_axes(nest: &Nest, value: ValueId) -> Bits {
    nest.value(value).axes.iter().fold(0, |bits, a| bits | bit(a.0))
}

/// Axes that the index of a value or access mentions.
pub(crate) fn target_axes(nest: &Nest, target: Target) -> Bits {
    match target {
        Target::Value(v) => value_axes(nest, v),
        Target::Access(a) => nest.access(a).axes().into_iter().fold(0, |bits, a| bits | bit(a.0)),
    }
}

/// Axes along which steps write elements of their own: a scan along an axis makes one of what all its steps write.
pub(crate) fn own_axes(nest: &Nest, target: Target) -> Bits {
    match target {
        Target::Value(v) => nest.value(v).own_axes().into_iter().fold(0, |bits, a| bits | bit(a.0)),
        Target::Access(_) => target_axes(nest, target),
    }
}

/// Name of what is written, for messages.
pub(crate) fn target_name(nest: &Nest, target: Target) -> &str {
    match target {
        Target::Value(v) => &nest.value(v).name,
        Target::Access(a) => &nest.tensor(nest.access(a).tensor).name,
    }
}

/// Upper bound of an axis known while compiling: its constant extent or a `fits`.
pub(crate) fn bound(nest: &Nest, axis: AxisId) -> Option<u32> {
    let extent = &nest.kernel.axes[usize::from(axis.0)].extent;
    let constant = extent.as_constant().and_then(|n| u32::try_from(n).ok());
    constant.or_else(|| nest.bounds.get(&axis).copied())
}

/// Adds a digit to a cover.
pub(crate) fn cover(nest: &Nest, cover: &mut Cover, digit: Digit) {
    // Steps but the first lie beyond the end: they add nothing.
    if bound(nest, digit.axis).is_some_and(|b| b <= digit.stride) {
        return;
    }
    let high = match digit.steps {
        Steps::Rest => u32::MAX,
        Steps::Fixed(1) => return,
        Steps::Fixed(n) => digit.stride.saturating_mul(n),
    };
    let high = if bound(nest, digit.axis).is_some_and(|b| high >= b) { u32::MAX } else { high };
    cover.push((digit.axis, digit.stride, high));
    cover.sort_unstable();
    let mut merged: Cover = Vec::with_capacity(cover.len());
    for &(axis, low, high) in cover.iter() {
        match merged.last_mut() {
            Some(last) if last.0 == axis && low <= last.2 => last.2 = last.2.max(high),
            _ => merged.push((axis, low, high)),
        }
    }
    *cover = merged;
}

impl Effects {
    /// Whether a tensor or value named by `target` is read (through any access of the tensor).
    pub fn reads(&self, nest: &Nest, target: Target) -> bool {
        match target {
            Target::Value(v) => self.values & bit(v.0) != 0,
            Target::Access(a) => self.reads_tensor(nest, nest.access(a).tensor),
        }
    }

    pub fn reads_tensor(&self, nest: &Nest, tensor: TensorId) -> bool {
        members(self.accesses).any(|a| nest.access(access_id(a)).tensor == tensor)
    }

    /// Whether something is read that a copy is for.
    pub fn reads_copy(&self, copy: &Copy, nest: &Nest) -> bool {
        members(self.accesses).any(|a| copy.serves(nest.access(access_id(a))))
    }

    /// Whether a copy directly around is for the same reads.
    pub fn is_copied(&self, new: &Copy, nest: &Nest) -> bool {
        members(self.wrap).any(|c| same_reads(nest.copy(CopyId(c)), new))
    }

    pub fn writes(&self, nest: &Nest, target: Target) -> bool {
        self.writes.iter().any(|w| same_name(nest, w.target, target))
    }
}

/// Whether two copies are for the same reads.
pub(crate) fn same_reads(a: &Copy, b: &Copy) -> bool {
    a.tensor == b.tensor && a.follows == b.follows
}

/// Whether two targets are the same value, or elements of the same tensor.
pub(crate) fn same_name(nest: &Nest, a: Target, b: Target) -> bool {
    match (a, b) {
        (Target::Access(a), Target::Access(b)) => nest.access(a).tensor == nest.access(b).tensor,
        (a, b) => a == b,
    }
}

impl Analysis<Node> for Facts {
    type Data = Data;

    fn make(graph: &mut Graph, node: &Node, _: Id) -> Data {
        let stmt = |id: Id| effects(graph, id).clone();
        let nest = &graph.analysis.nest;
        Data::Stmt(match node {
            Node::Digit(_) | Node::LoopKind(_) | Node::Values(_) | Node::Copy(_) => return Data::Leaf,
            Node::Do(n) => graph.analysis.actions[*n as usize].effects.clone(),
            Node::For([d, _, body]) => {
                let digit = digit(graph, *d);
                let mut body = Effects::clone(&stmt(*body));
                body.writes.iter_mut().for_each(|w| cover(nest, &mut w.cover, digit));
                // What two statements cover may become alike, and change places.
                body.writes.sort_unstable();
                body.writes.dedup();
                body.wrap = 0;
                Rc::new(body)
            }
            Node::Let([vs, first, rest]) => {
                let vs = values(graph, *vs);
                let (p, q) = (stmt(*first), stmt(*rest));
                let open = |w: &&Write| !matches!(w.target, Target::Value(v) if vs & bit(v.0) != 0);
                let mut writes: Vec<Write> =
                    p.writes.iter().filter(open).chain(q.writes.iter().filter(open)).cloned().collect();
                writes.sort_unstable();
                writes.dedup();
                Rc::new(Effects {
                    writes,
                    values: (p.values | q.values) & !vs,
                    accesses: p.accesses | q.accesses,
                    mentions: p.mentions | q.mentions,
                    wrap: 0,
                })
            }
            Node::Stage([copy, body]) => {
                let body = stmt(*body);
                let wrap = body.wrap | bit(self::copy(graph, *copy).0);
                Rc::new(Effects { wrap, ..Effects::clone(&body) })
            }
        })
    }

    fn merge(&mut self, a: &mut Data, b: Data) -> DidMerge {
        if let (Data::Stmt(a), Data::Stmt(b)) = (a, b)
            && *a != b
            && self.unsound.is_none()
        {
            self.unsound = Some(difference(&self.nest, a, &b));
        }
        DidMerge(false, false)
    }
}

/// What two statements that should do the same do differently.
fn difference(nest: &Nest, a: &Effects, b: &Effects) -> String {
    let points = |write: &Write| -> Vec<String> {
        let interval = |(axis, low, high): &(AxisId, u32, u32)| match *high {
            u32::MAX => format!("`{}` from {low}", nest.axis(*axis)),
            high => format!("`{}` from {low} to {high}", nest.axis(*axis)),
        };
        write.cover.iter().map(interval).collect()
    };
    let of = |all: &[Write], target: Target| -> String {
        let covers: Vec<String> =
            all.iter().filter(|w| w.target == target).map(|w| points(w).join(", ")).collect();
        covers.join("; ")
    };
    for write in &a.writes {
        let name = target_name(nest, write.target);
        if b.writes.iter().all(|w| w.target != write.target) {
            return format!("it writes `{name}` before and not after");
        }
        if !b.writes.contains(write) {
            let (before, after) = (of(&a.writes, write.target), of(&b.writes, write.target));
            return format!("it writes `{name}` over {before} before, and over {after} after");
        }
    }
    if let Some(write) = b.writes.iter().find(|w| !a.writes.contains(w)) {
        return format!("it writes `{}` after and not before", target_name(nest, write.target));
    }
    let names = |values: Bits| -> Vec<&str> {
        members(values).map(|v| nest.value(ValueId(v)).name.as_str()).collect()
    };
    if a.values != b.values {
        let (before, after) = (names(a.values).join(", "), names(b.values).join(", "));
        return format!("it reads {before} before, and {after} after");
    }
    if a.accesses != b.accesses {
        let tensors = |of: Bits| -> String {
            members(of).map(|n| nest.print_access(nest.access(access_id(n)))).collect::<Vec<_>>().join(", ")
        };
        return format!("it reads {} before, and {} after", tensors(a.accesses), tensors(b.accesses));
    }
    let axes = |of: Bits| members(of).map(|n| nest.axis(AxisId(n))).collect::<Vec<_>>().join(", ");
    if a.mentions != b.mentions {
        return format!("it mentions {} before, and {} after", axes(a.mentions), axes(b.mentions));
    }
    "its copies are others".to_string()
}

/// Facts of a statement class.
pub(crate) fn effects(graph: &Graph, id: Id) -> &Rc<Effects> {
    match &graph[id].data {
        Data::Stmt(e) => e,
        Data::Leaf => unreachable!("the grammar puts a statement here"),
    }
}

macro_rules! leaf {
    ($name:ident, $variant:ident, $type:ty) => {
        /// The leaf in a class.
        pub(crate) fn $name(graph: &Graph, id: Id) -> $type {
            match graph[id].nodes[0] {
                Node::$variant(x) => x,
                _ => unreachable!("the grammar puts this leaf here"),
            }
        }
    };
}
leaf!(digit, Digit, Digit);
leaf!(at, LoopKind, LoopKind);
leaf!(values, Values, Bits);
leaf!(copy, Copy, crate::nest::CopyId);
