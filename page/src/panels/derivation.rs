//! The derivation: nests as trees.

use crate::model::{Node, NodeKind, Step};
use tile_dsl::{
    engine::{Derivation, Derived},
    nest::{AccessId, Expr, LoopKind, Nest, Placement, Steps, Stmt},
    op::{CmpOp, RedOp},
};

/// The steps of a derivation.
pub(crate) fn collect(derivation: &Derivation) -> Vec<Step> {
    let last = derivation.steps.len() - 1;
    let step = |(at, derived): (usize, &Derived)| {
        let directive = derived.directive.as_ref();
        let phase = match directive {
            Some(d) => d.kind.phase().to_string(),
            None if at == 0 => "initial".into(),
            None => "defaults".into(),
        };
        debug_assert!(directive.is_some() || at == 0 || at == last);
        Step {
            directive: directive.map(ToString::to_string),
            phase,
            from: directive.and_then(|d| d.inherited.as_deref()).map(super::text::last),
            facts: derived.proof.facts.clone(),
            rules: derived.proof.rules.iter().map(|(name, n)| (name.to_string(), *n)).collect(),
            nest: node(&derived.nest, &derived.nest.body),
            notes: notes(&derived.nest),
        }
    };
    derivation.steps.iter().enumerate().map(step).collect()
}

/// Layouts and facts of a nest, a line each, but the table of names.
fn notes(nest: &Nest) -> Vec<String> {
    let text = nest.to_string();
    let lines = text.lines().filter_map(|line| line.strip_prefix("; "));
    lines.filter(|line| !line.starts_with("names(")).map(str::to_string).collect()
}

fn leaf(name: String) -> Node {
    Node {
        kind: NodeKind::Leaf,
        name,
        at: String::new(),
        steps: None,
        stride: None,
        axis: String::new(),
        inside: Vec::new(),
    }
}

/// A statement as a tree.
pub(crate) fn node(nest: &Nest, stmt: &Stmt) -> Node {
    match stmt {
        Stmt::For { digit, at, body } => {
            let skew = nest.skew.get(digit).map_or(String::new(), |dim| format!(" ^ {dim}"));
            let at = match at {
                LoopKind::Seq => String::new(),
                at => format!("{}{skew}", at.to_string().trim_start_matches('#')),
            };
            let steps = if let Steps::Fixed(n) = digit.steps { Some(n) } else { None };
            Node {
                kind: NodeKind::Loop,
                at,
                steps,
                stride: Some(digit.stride),
                axis: nest.axis(digit.axis).to_string(),
                inside: vec![node(nest, body)],
                ..leaf(nest.digit_name(*digit))
            }
        }
        Stmt::Let { values, first, rest } => {
            let names: Vec<&str> = values.iter().map(|v| nest.value(*v).name.as_str()).collect();
            let shared = values.iter().any(|v| nest.value(*v).placement == Placement::Shared);
            let combined =
                values.iter().find_map(|v| nest.combine.get(v)).map(|level| format!("reduced over {level}"));
            let across =
                values.iter().find_map(|v| nest.across.get(v)).map(|across| format!("over CTAs by {across}"));
            let at = [shared.then(|| "shared".to_string()), combined, across];
            let mut inside = vec![node(nest, first)];
            inside.extend((**rest != Stmt::Skip).then(|| node(nest, rest)));
            Node {
                kind: NodeKind::Let,
                at: at.into_iter().flatten().collect::<Vec<_>>().join(", "),
                inside,
                ..leaf(names.join(", "))
            }
        }
        Stmt::Stage { copy, body } => {
            let info = nest.copy(*copy);
            Node {
                kind: NodeKind::Stage,
                at: info.space.to_string(),
                inside: vec![node(nest, body)],
                ..leaf(nest.copy_name(*copy))
            }
        }
        Stmt::Def { value, expr } | Stmt::Set { value, expr } => {
            leaf(format!("{} = {}", nest.value(*value).name, text(nest, expr)))
        }
        Stmt::Red { value, op, expr } => {
            let (name, expr) = (&nest.value(*value).name, text(nest, expr));
            leaf(match op {
                RedOp::Add => format!("{name} += {expr}"),
                op => format!("{name} = {}({name}, {expr})", op.name()),
            })
        }
        Stmt::Scan { value, expr } => {
            let (value, expr) = (nest.value(*value), text(nest, expr));
            leaf(match value.scan {
                Some((op, axis)) => format!("{} = {}({expr}, {})", value.name, op.scan(), nest.axis(axis)),
                None => format!("{} = {expr}", value.name),
            })
        }
        Stmt::Put { access, expr } => {
            let (by, when, value) = expr.stored();
            let stored = format!("{} = {}", accessed(nest, *access, by), text(nest, value));
            leaf(match when {
                Some(when) => format!("if {}: {stored}", text(nest, when)),
                None => stored,
            })
        }
        Stmt::Skip => leaf("nothing".into()),
    }
}

/// An access, with the values that are added to its index.
fn accessed(nest: &Nest, access: AccessId, by: &[Expr]) -> String {
    let info = nest.access(access);
    let mut values = by.iter();
    let entries = info.index.iter().enumerate().map(|(dim, form)| {
        let (form, value) = match info.gathered.get(&dim) {
            // Read from a copy that values place.
            Some(gathered) => (&gathered.form, Some(&gathered.value)),
            None => (form, info.by.contains_key(&dim).then(|| values.next()).flatten()),
        };
        let form = nest.print_affine(form);
        match value {
            None => form,
            Some(value) if form == "0" => text(nest, value),
            Some(value) => format!("{} + {form}", text(nest, value)),
        }
    });
    let entries: Vec<String> = entries.collect();
    format!("{}[{}]", nest.tensor(info.tensor).name, entries.join(", "))
}

/// An expression as it is written in mathematics.
fn text(nest: &Nest, expr: &Expr) -> String {
    let inner = |e: &Expr| match e {
        Expr::Bin(op, ..) if infix(op.name()).is_some() => format!("({})", text(nest, e)),
        e => text(nest, e),
    };
    match expr {
        Expr::Load(access) => accessed(nest, *access, &[]),
        Expr::Gather(access, by) => accessed(nest, *access, by),
        Expr::Scatter { value, .. } => text(nest, value),
        Expr::Get(value) => nest.value(*value).name.clone(),
        Expr::Const(c, _) => format!("{c}"),
        Expr::Scalar(s) => nest.kernel.scalars[usize::from(s.0)].name.clone(),
        Expr::Iota(axis) => nest.axis(*axis).to_string(),
        Expr::Edge(axis, edge) => format!("{}({})", edge.name(), nest.axis(*axis)),
        Expr::Dim(extent) => extent.to_string(),
        Expr::Un(op, a) => format!("{}({})", op.name(), text(nest, a)),
        Expr::Bin(op, a, b) => match infix(op.name()) {
            Some(sign) => format!("{} {sign} {}", inner(a), inner(b)),
            None => format!("{}({}, {})", op.name(), text(nest, a), text(nest, b)),
        },
        Expr::Cmp(op, a, b) => format!("{} {} {}", inner(a), compared(*op), inner(b)),
        Expr::Select(c, a, b) => format!("{} ? {} : {}", text(nest, c), inner(a), inner(b)),
        Expr::Cast(to, a) => match inner(a) {
            plain if plain.starts_with('(') => format!("{plain}.{to}"),
            plain => format!("{to}({plain})"),
        },
    }
}

/// The sign of an operator that stands between its operands, given its name in the IR.
fn infix(name: &str) -> Option<&str> {
    match name {
        "*" | "mul" => Some("·"),
        "+" | "add" => Some("+"),
        "-" | "sub" => Some("−"),
        "/" | "div" => Some("/"),
        "%" | "rem" => Some("%"),
        _ => None,
    }
}

fn compared(op: CmpOp) -> &'static str {
    op.name()
}
