//! `docs/operations.md` is what the rows of forms and operators say: the comment above each, and what follows from the row.

use super::{anchor, compare, machine::Recorder, quoted, read};
use std::fmt::Write;
use tile_dsl::{
    dtype::DType,
    op::{BinOp, Makes},
    schedule::rows,
    tile::{Form, Operation},
};

const HEAD: &str = "\
# Tile operations

A card for each operation that the text of a kernel can use: an example, what it computes, what it requires and costs.
[What a kernel means](semantics.md) has what they share: rounding, NaN, integers, sums, loops.
`cargo test -p tile-dsl --test reference` compares this page with the tables in `tile-dsl/src/op` and `tile-dsl/src/tile/form.rs`,
and with `TILEWRIGHT_BLESS=1` writes it. Another test compiles each example.

An example that is no `fn` stands for `EXAMPLE` in this kernel:

";

/// The facts of a card that follow from a row.
#[derive(Default)]
struct Facts {
    shape: &'static str,
    elements: String,
    error: Option<String>,
    code: String,
}

/// The element types that an operator takes.
fn elements(float: bool, int: bool, truth: bool) -> String {
    let floats = DType::names_of_floats(", ");
    let kinds = [(float, &*floats), (int, "i32, u32"), (truth, "bool")];
    kinds.iter().filter(|(takes, _)| *takes).map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
}

/// How far a result is off.
fn error(steps: u64, ulps: f64, least: f64) -> String {
    let flushed = if least > 0.0 { " Results below 2⁻¹²⁶ are 0." } else { "" };
    match steps {
        0 => "none.".into(),
        1 => "correctly rounded: half a unit in the last place.".into(),
        _ => format!(
            "at most {ulps} units in the last place of an `f32`.{flushed} Bounds of results count {steps} roundings."
        ),
    }
}

fn facts(operation: Operation) -> Option<Facts> {
    let both = "the axes of both operands together.";
    Some(match operation {
        Operation::Form(_) => return None,
        Operation::Un(op) => {
            let row = op.row();
            let code = row.float.map(|real| Recorder::of(1, |m, x| (real.code)(m, x[0])).text());
            Facts {
                shape: "the axes of the operand.",
                elements: match row.makes {
                    Some(Makes::Key(_)) => format!("{}; the result is `i32`", elements(true, false, false)),
                    Some(Makes::Fraction(_)) => "u32; the result is `f32`".into(),
                    None => elements(row.float.is_some(), row.int.is_some(), row.truth.is_some()),
                },
                error: Some(
                    row.float.map_or("none.".into(), |real| error(real.steps, real.ulps, real.least)),
                ),
                code: code.unwrap_or_else(|| match row.makes {
                    Some(Makes::Key(_)) => {
                        "`shr.s32`, `and.b32`, `xor.b32`, `setp.nan.f32`, `selp.b32`".into()
                    }
                    Some(Makes::Fraction(_)) => "`shr.u32`, `cvt.rn.f32.u32`, `mul.rn.f32`".into(),
                    None => "`not.pred`, `not.b32`".into(),
                }),
            }
        }
        Operation::Bin(op) => {
            let row = op.row();
            let code = row.float.map(|real| Recorder::of(2, |m, x| (real.code)(m, x[0], x[1])).text());
            let other = match (row.truth, row.int) {
                (Some(_), Some(_)) => format!("`{name}.pred`, `{name}.b32`", name = op.name()),
                _ if op.shifts() => {
                    format!("`{}.{}`", op.name(), if op == BinOp::Shl { "b32" } else { "s32" })
                }
                _ => "`rem.s32`".into(),
            };
            Facts {
                shape: both,
                elements: elements(row.float.is_some(), row.int.is_some(), row.truth.is_some()),
                error: Some(row.float.map_or("none.".into(), |real| error(real.steps, 0.5, 0.0))),
                code: code.unwrap_or(other),
            }
        }
        Operation::Cmp(op) => Facts {
            shape: both,
            elements: format!("{}; the result is `bool`", elements(true, true, !op.row().ordered)),
            error: Some("none.".into()),
            code: "`setp`".into(),
        },
        Operation::Reduce(op) => {
            let real = op.combine().row().float.expect("reductions combine floats");
            let code = Recorder::of(2, |m, x| (real.code)(m, x[0], x[1])).text();
            Facts {
                shape: "the axes of `x` without the one that is named.",
                elements: format!("{}; those of `x`", elements(true, false, false)),
                error: (!op.rounds()).then(|| "none.".into()),
                code: format!("{code} for each element; `shfl.sync` or shared memory between units"),
            }
        }
    })
}

/// What a kernel writes.
fn form(operation: Operation) -> String {
    let first = operation.card().lines().next().expect("a card has a first line").trim();
    let form =
        first.split_once("`: ").or_else(|| first.split_once("`, ")).expect("a form, then what it is").0;
    form.trim_start_matches('`').to_string()
}

/// The names of a line `See also`, as links.
fn links(line: &str) -> String {
    let names = quoted(line).map(|name| {
        if Operation::all().iter().any(|operation| operation.title() == name) {
            return format!("[{name}](#{})", anchor(name));
        }
        assert!(rows().iter().any(|row| row.name() == name), "`{name}` is no operation and no directive");
        format!("[`{name}`](directives.md#{})", anchor(name))
    });
    names.collect::<Vec<_>>().join(", ")
}

/// One card as the page has it.
fn card(operation: Operation) -> String {
    let title = operation.title();
    let first = operation.card().lines().next().expect("a card has a first line").trim().to_string();
    let mut out = format!("## {title}\n\n```rust\n{}\n```\n\n{first}\n\n", operation.example().trim_end());
    if let Some(Facts { shape, elements, error, code }) = facts(operation) {
        let error = error.map_or(String::new(), |error| format!("- Error: {error}\n"));
        let _ = write!(out, "- Shape: {shape}\n- Elements: {elements}.\n{error}- PTX: {code}.\n");
    }
    let items = operation.card().lines().filter_map(|line| line.trim().strip_prefix("- "));
    for item in items {
        let _ = match item.strip_prefix("See also: ") {
            Some(names) => writeln!(out, "- See also: {}.", links(names)),
            None => writeln!(out, "- {item}"),
        };
    }
    out.push('\n');
    out
}

#[test]
fn the_page_is_what_the_tables_say() {
    let mut page = format!("{HEAD}```rust\n{}\n```\n\n| in a kernel | card |\n|---|---|\n", Operation::FRAME);
    for operation in Operation::all() {
        let (form, title) = (form(operation).replace('|', "\\|"), operation.title());
        let _ = writeln!(page, "| `{form}` | [{title}](#{}) |", anchor(&title));
    }
    page.push('\n');
    page.extend(Operation::all().into_iter().map(card));
    compare("docs/operations.md", &page);
}

/// A card has an example, what it requires and costs, and what to see; one of a value its type, error and code.
#[test]
fn cards_are_complete() {
    for operation in Operation::all() {
        let text = card(operation);
        let statement = matches!(
            operation,
            Operation::Form(Form::ProgramTile | Form::Whole | Form::Tiles | Form::Let | Form::Assign)
                | Operation::Form(Form::Store | Form::Index | Form::Below | Form::Between)
        );
        let parts = ["- Requires: ", "- Costs: ", "- See also: "].iter();
        let value = ["- Shape: ", "- Elements: ", "- Error: ", "- PTX: "].iter().filter(|_| !statement);
        for part in parts.chain(value) {
            assert_eq!(text.matches(part).count(), 1, "{}: {part}\n{text}", operation.title());
        }
        assert!(!operation.example().trim().is_empty());
    }
}

/// What editors complete in a kernel has a card.
#[test]
fn functions_of_the_language_have_cards() {
    let source = read("src/dsl.rs");
    let mut hidden = false;
    let mut found = 0;
    for line in source.lines().map(str::trim) {
        hidden |= line == "#[doc(hidden)]";
        let Some(rest) = line.strip_prefix("pub fn ") else { continue };
        let name = rest.split(['(', '<']).next().expect("a name");
        if !std::mem::take(&mut hidden) {
            let titled = |operation: &Operation| {
                let title = operation.title();
                title == name || title.strip_prefix(name).is_some_and(|rest| rest.starts_with(' '))
            };
            assert!(Operation::all().iter().any(titled), "`{name}` has no card");
            found += 1;
        }
    }
    assert!(found > 15, "{found} functions");
}
