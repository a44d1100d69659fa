//! What statements are to a count of requests.

use tile_dsl::{
    dtype::DType,
    kernel::{Async, Stmt},
};

/// Whether addresses and conditions are of this type; others are elements.
pub(super) fn is_index(ty: DType) -> bool {
    matches!(ty, DType::I32 | DType::I64 | DType::Bool)
}

/// Whether a statement asks something of memory, or decides on what others ask.
pub(super) fn is_request(stmt: &Stmt) -> bool {
    matches!(
        stmt,
        Stmt::Load { .. }
            | Stmt::Alike { .. }
            | Stmt::Store { .. }
            | Stmt::Combine { .. }
            | Stmt::StorePeer { .. }
            | Stmt::CopyAsync { .. }
            | Stmt::LoadMatrices { .. }
            | Stmt::StoreMatrices { .. }
            | Stmt::Arrive { .. }
            | Stmt::Async(Async::Copy { .. } | Async::Store { .. } | Async::Multiply { .. })
    )
}

/// The first line of a statement's text.
pub(super) fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_string()
}
