//! Errors as `rustc` prints them and as they are recorded.

use super::expand::{Error, SOURCE};
use std::fmt::Write;

/// `rustc` trims longer lines.
const WIDEST: usize = 133;

/// The errors of the source file at `path`, or why only `rustc` can draw them.
pub fn render(errors: &[Error], path: &str, source: &str) -> Result<String, String> {
    let lines: Vec<&str> = source.lines().collect();
    let blocks: Result<Vec<String>, String> = errors.iter().map(|error| block(error, path, &lines)).collect();
    Ok(blocks?.join("\n"))
}

fn block(error: &Error, path: &str, lines: &[&str]) -> Result<String, String> {
    let (line, column) = (error.start.line, error.start.column);
    if error.end.line != line {
        return Err(format!("the error at line {line} spans lines"));
    }
    let text = lines[line - 1];
    if text.chars().count() > WIDEST {
        return Err(format!("line {line} has more than {WIDEST} characters"));
    }
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    let (before, marks) = (" ".repeat(column), "^".repeat((error.end.column - column).max(1)));
    // What follows the first line of a message stands below its first letter.
    let message = error.message.replace(SOURCE, &format!("$DIR/{path}"));
    let message = message.replace('\n', &format!("\n{}", " ".repeat("error: ".len())));
    let mut out = String::new();
    writeln!(out, "error: {message}").expect("a string takes text");
    writeln!(out, "{margin}--> {path}:{line}:{}", column + 1).expect("a string takes text");
    writeln!(out, "{margin} |\n{number} | {text}\n{margin} | {before}{marks}").expect("a string takes text");
    Ok(out)
}
