//! The operations of a kernel's text: one list over the tables of forms and operators, each with its card.
//!
//! The cards are the page `docs/operations.md`. A message about an operation names its card there.

use super::{AxisKind, Expr, ExprKind, Form, Stmt};
use crate::op::{BinOp, CmpOp, RedOp, UnOp, binary};

/// An operation that a kernel's text can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// A binder, a statement, a load, a product.
    Form(Form),
    /// An operator of one operand.
    Un(UnOp),
    /// An operator of two operands.
    Bin(BinOp),
    /// A comparison.
    Cmp(CmpOp),
    /// A reduction over an axis.
    Reduce(RedOp),
}

/// Whether kernels write what it is a part of.
fn is_part(op: BinOp) -> bool {
    matches!(op.row().form, binary::Form::Part(_))
}

impl Operation {
    /// Every operation, in the order of the page.
    pub fn all() -> Vec<Operation> {
        let forms = Form::ALL.iter().copied().map(Operation::Form);
        forms
            .chain(RedOp::ALL.iter().copied().map(Operation::Reduce))
            .chain(BinOp::ALL.iter().copied().filter(|op| !is_part(*op)).map(Operation::Bin))
            .chain(UnOp::ALL.iter().copied().map(Operation::Un))
            .chain(CmpOp::ALL.iter().copied().map(Operation::Cmp))
            .collect()
    }

    /// What an expression is.
    pub fn of(expr: &Expr) -> Option<Operation> {
        Some(match &expr.kind {
            ExprKind::Load { .. } => Operation::Form(Form::Load),
            ExprKind::Full { value, .. } if *value == 0.0 => Operation::Form(Form::Zeros),
            ExprKind::Full { .. } => Operation::Form(Form::Full),
            ExprKind::Iota(_) => Operation::Form(Form::Axis),
            ExprKind::Dim(_) => Operation::Form(Form::Dim),
            // What limits mean; nobody writes it.
            ExprKind::Edge(..) => return None,
            ExprKind::Const { .. } => Operation::Form(Form::Number),
            ExprKind::Scalar(_) => Operation::Form(Form::Scalar),
            // A name, which is no operation.
            ExprKind::Var(_) => return None,
            ExprKind::Un(op, _) => Operation::Un(*op),
            ExprKind::Bin(op, ..) if op.random_word().is_some() => Operation::Form(Form::Random),
            ExprKind::Bin(op, ..) => Operation::Bin(*op),
            ExprKind::Cmp(op, ..) => Operation::Cmp(*op),
            ExprKind::Select(..) => Operation::Form(Form::Select),
            ExprKind::Cast(..) => Operation::Form(Form::Cast),
            ExprKind::Reduce(op, ..) => Operation::Reduce(*op),
            ExprKind::Scan(op, ..) => Operation::Form(Form::of_scan(*op)),
            ExprKind::Dot(..) => Operation::Form(Form::Dot),
        })
    }

    /// What a statement is.
    pub fn of_statement(stmt: &Stmt) -> Operation {
        Operation::Form(match stmt {
            Stmt::Let { .. } => Form::Let,
            Stmt::Assign { .. } => Form::Assign,
            Stmt::For { .. } => Form::Tiles,
            Stmt::Store { combine: Some(op), .. } => Form::of_atomic(*op),
            Stmt::Store { when: Some(_), .. } => Form::If,
            Stmt::Store { .. } => Form::Store,
        })
    }

    /// What binds an axis.
    pub fn of_axis(kind: AxisKind) -> Operation {
        Operation::Form(match kind {
            AxisKind::Program => Form::ProgramTile,
            AxisKind::Tiles => Form::Tiles,
            AxisKind::Whole => Form::Whole,
        })
    }

    /// The heading of its card.
    pub fn title(self) -> String {
        match self {
            Operation::Form(form) => form.name().to_string(),
            Operation::Un(op) => op.name().to_string(),
            Operation::Bin(op) if op.row().symbols.is_empty() => format!("{} of two values", op.name()),
            Operation::Bin(op) => format!("{op:?}").to_lowercase(),
            Operation::Cmp(op) => format!("{op:?}").to_lowercase(),
            Operation::Reduce(op) => format!("{} over an axis", op.name()),
        }
    }

    /// The comment above its row.
    pub const fn card(self) -> &'static str {
        match self {
            Operation::Form(form) => form.card(),
            Operation::Un(op) => op.card(),
            Operation::Bin(op) => op.card(),
            Operation::Cmp(op) => op.card(),
            Operation::Reduce(op) => op.card(),
        }
    }

    /// Where its card is, from the root of the repository.
    pub fn place(self) -> String {
        format!("docs/operations.md#{}", self.title().replace(' ', "-"))
    }

    /// The example of its card: a kernel, or a value of the tiles `a` and `b`.
    ///
    /// # Panics
    /// If the card has none, which a test excludes.
    pub fn example(self) -> String {
        let example = self.card().split("```text\n").nth(1).and_then(|rest| rest.split(" ```").next());
        let lines = example.expect("a card has an example").lines();
        lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n")
    }

    /// The example as a whole kernel: a value is stored by the kernel that [`Operation::FRAME`] shows.
    pub fn kernel(self) -> String {
        let example = self.example();
        match example.starts_with("fn ") {
            true => example,
            false => Self::FRAME.replace("EXAMPLE", &example),
        }
    }

    /// The kernel that examples stand in which are one value.
    pub const FRAME: &str = "\
fn example(x: &Tensor<f32, M, N>, y: &Tensor<f32, M, N>, out: &mut Tensor<f32, M, N>, alpha: f32) {
    let i = program_tile(M);
    let j = whole(N);
    let a = load(x, [i, j]);
    let b = load(y, [i, j]);
    store(out, [i, j], EXAMPLE);
}";
}
