//! What the fuzzer counts directives as: by name, and by the option where it chooses other instructions.

use crate::{directive::Kind, schedule::Schedule};
use std::{collections::BTreeSet, fmt, str::FromStr};

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Kind::ALL.iter().find(|kind| kind.name() == text);
        found.copied().ok_or_else(|| format!("`{text}` is no kind of directive, such as `produce-warp`"))
    }
}

/// The kinds that a schedule has.
pub fn kinds(schedule: &Schedule) -> BTreeSet<Kind> {
    schedule.directives.iter().flat_map(|d| d.kind.kinds(schedule)).collect()
}
