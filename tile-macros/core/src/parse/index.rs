//! Indices: sums of axes with constant factors, and of integer values.

use super::kernel::{Binding, Reader, call, integer, list, source, too_large};
use syn::{BinOp, Expr, UnOp};
use tile_dsl::{
    diagnostic::near,
    dtype::DType,
    index::Affine,
    op,
    span::SpanId,
    tile::{self, ElemType, ExprKind, Form, Index, Operation},
};

const WHOLE: &str = "`unique` is a promise about the whole entry of an index";
const WHOLE_HELP: &str = "put all of the sum into it: `unique(a + 2 * b)`";

impl Reader<'_> {
    /// `[i + r, 2*j - 1]`, `[load(ids, [s]), d]`.
    pub(super) fn index(&mut self, expr: &Expr) -> Option<Vec<Index>> {
        self.within(Some(Operation::Form(Form::Index)), |reader| reader.entries(expr))
    }

    fn entries(&mut self, expr: &Expr) -> Option<Vec<Index>> {
        let Expr::Array(array) = expr else {
            let entries = match expr {
                Expr::Tuple(tuple) => tuple.elems.iter().map(source).collect::<Vec<_>>().join(", "),
                other => source(other),
            };
            let rule = "an index has one expression for each dimension, in brackets";
            return self.mend(expr, rule, expr, format!("[{entries}]"));
        };
        let entries: Vec<_> = array
            .elems
            .iter()
            .map(|item| {
                let mut entry = Index::from(Affine::default());
                self.add(item, 1, &mut entry)?;
                entry.affine.terms.retain(|_, c| *c != 0);
                if entry.unique && !entry.affine.terms.is_empty() {
                    return self.fail(item, WHOLE, WHOLE_HELP);
                }
                // Of several values, it is the entry that one can point at.
                let span = self.spans.of(item);
                if let Some(sum) = entry.value.as_mut().filter(|sum| sum.span == SpanId::NONE) {
                    sum.span = span;
                }
                Some(entry)
            })
            .collect();
        entries.into_iter().collect()
    }

    /// Adds `factor · expr` to an entry.
    fn add(&mut self, expr: &Expr, factor: i64, entry: &mut Index) -> Option<()> {
        match expr {
            Expr::Paren(p) => return self.add(&p.expr, factor, entry),
            Expr::Group(g) => return self.add(&g.expr, factor, entry),
            Expr::Unary(syn::ExprUnary { op: UnOp::Neg(_), expr, .. }) => {
                return self.add(expr, -factor, entry);
            }
            Expr::Binary(b) => match (&b.op, integer(&b.left), integer(&b.right)) {
                (BinOp::Add(_), ..) => {
                    self.add(&b.left, factor, entry)?;
                    return self.add(&b.right, factor, entry);
                }
                (BinOp::Sub(_), ..) => {
                    self.add(&b.left, factor, entry)?;
                    return self.add(&b.right, -factor, entry);
                }
                (BinOp::Mul(_), Some(c), _) => {
                    let factor = self.product(expr, factor, c)?;
                    return self.add(&b.right, factor, entry);
                }
                (BinOp::Mul(_), _, Some(c)) => {
                    let factor = self.product(expr, factor, c)?;
                    return self.add(&b.left, factor, entry);
                }
                _ => {}
            },
            _ => {}
        }
        if let Some(n) = integer(expr) {
            entry.affine.constant += self.product(expr, factor, n)?;
            return Some(());
        }
        if too_large(expr) {
            return self.product(expr, 1, i64::MAX).map(drop);
        }
        if let Some(axis) = self.as_axis(expr) {
            *entry.affine.terms.entry(axis).or_default() += factor;
            return Some(());
        }
        self.known(expr)?;
        let value = match call(expr) {
            Some((name, args)) if name == Form::Unique.name() => {
                let [promised] = args.as_slice() else {
                    return self.fail(expr, "`unique` takes one value", "the form is `unique(v)`");
                };
                if factor != 1 || entry.value.is_some() {
                    return self.fail(expr, WHOLE, WHOLE_HELP);
                }
                entry.unique = true;
                *promised
            }
            _ if entry.unique => {
                return self.fail(expr, WHOLE, WHOLE_HELP);
            }
            _ => expr,
        };
        let span = self.spans.of(value);
        let read = self.expr(value)?;
        // The first value has a place of its own, and a sum that of the entry.
        let span = if entry.value.is_some() { SpanId::NONE } else { span };
        let node = |kind: ExprKind| tile::Expr { kind, span };
        let bin = |op, a: tile::Expr, b: tile::Expr| node(ExprKind::Bin(op, Box::new(a), Box::new(b)));
        let scaled = |value: tile::Expr, by: i64| match by {
            1 => value,
            by => {
                let by = ExprKind::Const { value: by as f64, elem: Some(ElemType::Fixed(DType::I32)) };
                bin(op::BinOp::Mul, value, node(by))
            }
        };
        let sum = match entry.value.take() {
            None => scaled(read, factor),
            Some(sum) if factor < 0 => bin(op::BinOp::Sub, *sum, scaled(read, -factor)),
            Some(sum) => bin(op::BinOp::Add, *sum, scaled(read, factor)),
        };
        entry.value = Some(Box::new(sum));
        Some(())
    }

    /// Reports a name in an index that is not known.
    fn known(&mut self, expr: &Expr) -> Option<()> {
        let Expr::Path(path) = expr else { return Some(()) };
        let Some(name) = path.path.get_ident().map(ToString::to_string) else { return Some(()) };
        match self.lookup(&name) {
            Some(Binding::Broken) => None,
            Some(_) => Some(()),
            None if self.dims().contains(&name) => Some(()),
            None => {
                let message = format!("cannot find axis `{name}` in this kernel");
                let axes = self.axis_names();
                match axes.iter().find(|a| near(a, &name)) {
                    Some(meant) => self.mend(expr, message, expr, meant),
                    None => self.fail(expr, message, &format!("the axes of this kernel are {}", list(&axes))),
                }
            }
        }
    }
}
