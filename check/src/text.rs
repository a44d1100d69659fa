//! Numbers and lists in messages.

use crate::traffic::{Access, Form};

/// A number with at most two decimals.
pub fn number(x: f64) -> String {
    let text = format!("{x:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// `1 CTA`, `2 CTAs`.
pub fn counted(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// What accesses of a form are, before the name of a buffer.
pub fn verb(form: Form) -> &'static str {
    match form {
        Form::Load => "loads of",
        Form::Store => "stores to",
        Form::Atomic => "atomics on",
        Form::Copy => "copies by `cp.async`,",
        Form::LoadMatrices => "`ldmatrix` of",
        Form::StoreMatrices => "`stmatrix` to",
    }
}

/// The first statement of some, and how many others there are.
pub fn statements(accesses: &[&Access]) -> String {
    let first = accesses.first().map_or("", |a| a.text.as_str());
    match accesses.len() {
        0 | 1 => format!("`{first}`"),
        n => format!("`{first}`, and {}", counted(n as u64 - 1, "other statement")),
    }
}
