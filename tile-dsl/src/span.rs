//! Source positions, as opaque numbers: the macro crate keeps the table that turns them into spans.

use serde::{Deserialize, Serialize};

/// Index into the caller's table of source spans; [`SpanId::NONE`] where there is no source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct SpanId(pub u32);

impl SpanId {
    /// No source position (programs built by hand or read back from a byte string).
    pub const NONE: SpanId = SpanId(0);
}
