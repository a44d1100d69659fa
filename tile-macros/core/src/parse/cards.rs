//! The examples of the cards in `docs/operations.md`: each is a kernel, and has the operation that its card is about.

use super::kernel::kernel;
use crate::{report::Report, spans::Spans};
use std::collections::BTreeSet;
use tile_dsl::{
    op::{BinOp, CmpOp, RedOp, UnOp},
    tile::{Expr, ExprKind, Form, Kernel, Operation, Stmt, expressions, statements},
};

/// The kernel of a text, if it has no mistake.
fn read(text: &str) -> Result<Kernel, String> {
    let item: syn::ItemFn = syn::parse_str(text).map_err(|error| error.to_string())?;
    let (mut spans, mut report) = (Spans::default(), Report::default());
    let kernel = kernel(&item, &mut spans, &mut report);
    let errors = report.errors(&spans, crate::spans::Range::of(&item));
    kernel.ok_or_else(|| errors.to_string())
}

/// What a kernel uses.
fn operations(kernel: &Kernel) -> BTreeSet<Operation> {
    let mut found: BTreeSet<Operation> =
        kernel.axes.iter().map(|axis| Operation::of_axis(axis.kind)).collect();
    let limits = kernel.axes.iter().filter(|axis| !axis.limits.is_none());
    found.extend(limits.map(|axis| Operation::Form(axis.limits.form())));
    statements(&kernel.body, &mut |stmt| {
        found.insert(Operation::of_statement(stmt));
        if let Stmt::Store { index, .. } = stmt {
            found.insert(Operation::Form(Form::Index));
            found.extend(index.iter().any(|entry| entry.unique).then_some(Operation::Form(Form::Unique)));
        }
    });
    expressions(&kernel.body, &mut |expr| {
        found.extend(Operation::of(expr));
        found.extend(place_of_extreme(expr));
    });
    found
}

/// What is short for a least place of an extreme.
fn place_of_extreme(expr: &Expr) -> Option<Operation> {
    let ExprKind::Reduce(RedOp::Min, place, _) = &expr.kind else { return None };
    let ExprKind::Select(found, _, _) = &place.kind else { return None };
    let is = |wanted: RedOp| found.any(&|e| matches!(&e.kind, ExprKind::Reduce(op, ..) if *op == wanted));
    let form = [(RedOp::Max, Form::ArgMax), (RedOp::Min, Form::ArgMin)];
    form.into_iter().find(|(op, _)| is(*op)).map(|(_, form)| Operation::Form(form))
}

#[test]
fn each_example_has_what_its_card_is_about() {
    let mut wrong = Vec::new();
    for operation in Operation::all() {
        match read(&operation.kernel()) {
            Ok(kernel) if operations(&kernel).contains(&operation) => {}
            Ok(_) => wrong.push(format!("{}: the example is without it", operation.title())),
            Err(errors) => wrong.push(format!("{}: {errors}", operation.title())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read("fn example(x: &mut Tensor<f32, N>) { let i = program_tile(N); }").is_err(), "it can fail");
}

/// What the parser makes is in the list of operations, whose tables have a card for each row.
#[test]
fn each_operation_has_one_card() {
    let all = Operation::all();
    let distinct: BTreeSet<String> = all.iter().map(|operation| operation.place()).collect();
    assert_eq!(distinct.len(), all.len());
    let named = BinOp::ALL.iter().filter(|op| op.random_word().is_none()).count();
    let rows = Form::ALL.len() + UnOp::ALL.len() + named + CmpOp::ALL.len() + RedOp::ALL.len();
    assert_eq!(all.len(), rows);
    // A kernel that uses most of the language uses nothing else.
    let used: BTreeSet<Operation> = all
        .iter()
        .filter_map(|operation| read(&operation.kernel()).ok())
        .flat_map(|k| operations(&k))
        .collect();
    assert_eq!(used, all.into_iter().collect());
}

/// A mistake names the card of its operation, once.
#[test]
fn mistakes_name_the_card() {
    let body = |body: &str| {
        let text = format!(
            "fn f(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M>) {{ let i = program_tile(M); let n = whole(N); {body} }}"
        );
        read(&text).expect_err(body)
    };
    for (text, card) in [
        ("store(y, [i], load(x));", "load"),
        ("store(y, [i], load(x, [n > i, n]));", "index"),
        ("store(y, [i], dot(load(x, [i, n]), load(x, [i, n]), zeros::<f16>([i])));", "dot"),
        ("store(y, [i], load(x, [i, n]));", "store"),
        ("store(y, [i], sum(load(x, [i, n]), i));", "sum-over-an-axis"),
        ("store(y, [i], exp(n));", "exp"),
        ("store(y, [i], sum(load(x, [i, n]) + n, n));", "add"),
        ("store(y, [i], zeros([i]));", "zeros"),
        ("let m = whole(Q); store(y, [i], sum(load(x, [i, n]), n));", "whole"),
        ("while true {} store(y, [i], sum(load(x, [i, n]), n));", "tiles"),
    ] {
        let errors = body(text);
        assert_eq!(errors.matches("see docs/operations.md#").count(), 1, "{text}: {errors}");
        assert!(errors.contains(&format!("see docs/operations.md#{card}\"")), "{text}: {errors}");
    }
    for text in
        ["store(y, [i], sum(load(x, [i, n]), n) * z);", "store(y, [i], sigmoid(sum(load(x, [i, n]), n)));"]
    {
        assert!(!body(text).contains("see docs/"), "{text}: no card fits");
    }
}
