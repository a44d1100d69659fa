//! Standard output whose reader may leave: `matmul --emit ptx | head` ends quietly, not with a panic.

use std::{
    fmt::Display,
    io::{ErrorKind, Write, stdout},
    process::exit,
};

/// Prints a line. Where nobody reads any more, the program has nothing left to do.
///
/// # Panics
/// When standard output cannot be written to for another reason.
pub fn line(text: impl Display) {
    match writeln!(stdout(), "{text}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => exit(0),
        written => written.expect("standard output can be written to"),
    }
}
