//! Schedules with lists: several configurations, of which a [`Tuner`](crate::Tuner) finds the fastest.

use crate::schedule::{AnySchedule, Kernel};
use std::fmt;
use tile_dsl::dtype::DType;

/// A schedule with lists, written with `schedule!`: `tile(i = [64, 128]); pipeline(k, [2, 3])` has four configurations.
/// Each was proved while `rustc` ran, and those that do not apply were dropped.
///
/// It is no [`Schedule`](crate::Schedule), for a launch runs one configuration: the one that a
/// [`Tuner`](crate::Tuner) finds, or one of [`Space::configurations`], or a schedule that extends this one by numbers.
pub trait Space: Copy + Send + Sync + 'static {
    /// The kernel it schedules.
    type Kernel: Kernel;
    /// Name as written.
    const NAME: &'static str;
    /// Doc comment as written, lines joined by newlines; empty if there is none.
    const DOC: &'static str;
    /// Element types of the kernel's generic parameter that it admits; empty for a kernel without one.
    const DTYPES: &'static [DType];
    #[doc(hidden)]
    const CONFIGURATIONS: &'static [Configuration];
    #[doc(hidden)]
    const DROPPED: &'static [Dropped];

    /// What is legal for some element type. The numbers of the list whose directive applies last change fastest.
    fn configurations(self) -> &'static [Configuration] {
        Self::CONFIGURATIONS
    }

    /// What is not legal, with the reason, by configuration and element type.
    fn dropped(self) -> &'static [Dropped] {
        Self::DROPPED
    }
}

/// One configuration of a [`Space`]: a schedule known only when the program runs.
#[derive(Clone, Copy)]
pub struct Configuration {
    kernel: &'static str,
    name: &'static str,
    text: &'static str,
    doc: &'static str,
    dtypes: &'static [DType],
    program: fn(Option<DType>) -> Option<&'static [u8]>,
}

impl Configuration {
    /// Called by what `schedule!` generates.
    #[doc(hidden)]
    pub const fn new(
        kernel: &'static str,
        name: &'static str,
        text: &'static str,
        doc: &'static str,
        dtypes: &'static [DType],
        program: fn(Option<DType>) -> Option<&'static [u8]>,
    ) -> Self {
        Configuration { kernel, name, text, doc, dtypes, program }
    }

    /// The directives that have lists, with the numbers of this configuration: `tile(i = 64); pipeline(k, 3)`.
    pub fn text(&self) -> &'static str {
        self.text
    }
}

impl AnySchedule for Configuration {
    fn kernel(&self) -> &'static str {
        self.kernel
    }
    /// As it could be written: `tuned { tile(i = 64); pipeline(k, 3); }`.
    fn name(&self) -> &'static str {
        self.name
    }
    fn doc(&self) -> &'static str {
        self.doc
    }
    fn dtypes(&self) -> &'static [DType] {
        self.dtypes
    }
    fn program(&self, dtype: Option<DType>) -> Option<&'static [u8]> {
        (self.program)(dtype)
    }
}

impl fmt::Debug for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A configuration that is not legal for an element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Its directives that have lists: `tile(i = 64); pipeline(k, 3)`.
    pub configuration: &'static str,
    /// The element type; `None` for a kernel without a generic parameter.
    pub dtype: Option<DType>,
    /// Which condition failed, with the numbers in it.
    pub reason: &'static str,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.configuration)?;
        if let Some(dtype) = self.dtype {
            write!(f, " for {dtype}")?;
        }
        write!(f, ": {}", self.reason)
    }
}
