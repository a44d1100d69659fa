//! Rows of statements of the kernel IR.

use std::mem::discriminant;
use tile_dsl::{
    kernel::{Stmt, parse::parse, print},
    testing,
};
/// A kernel around a statement that has what the examples name.
fn around(statement: &str) -> String {
    format!(
        "kernel k sm_90a threads 256 {{
  param x: tensor f32 align 16
  param y: mut tensor f32 align 16
  param N: dim
  param p: zeroed scratch i32[4]
  param x.map: map x [1: 8, 0: 8] swizzle 0
  param y.map: stored map y [1: 8, 0: 8] swizzle 0
  shared s: f32[64] align 16
  shared h: bf16[64] align 16
  shared full: i32[8] align 8
  frag acc: f32[4]
  {statement}
}}"
    )
}

/// Reads an example, and says what it is, and how it is printed on one line.
fn read(example: &str) -> (Stmt, String) {
    let kernel = parse(&around(example)).unwrap_or_else(|e| panic!("{e}: {example}"));
    let [stmt] = kernel.body.as_slice() else { panic!("one statement: {example}") };
    let text = print::stmt(&kernel, stmt);
    (stmt.clone(), text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn examples_are_of_their_rows_and_print_as_they_stand() {
    for (example, blank) in testing::statements() {
        let (stmt, text) = read(example);
        assert_eq!((discriminant(&stmt), &*text), (discriminant(&blank), example));
    }
    for (example, blank) in testing::operations() {
        let (stmt, text) = read(example);
        let Stmt::Async(operation) = stmt else { panic!("{example} is no such operation") };
        assert_eq!((discriminant(&operation), &*text), (discriminant(&blank), example));
    }
}
