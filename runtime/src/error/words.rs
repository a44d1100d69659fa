//! Parts of messages.

use crate::geometry::Layout;
use tile_dsl::{dtype::DType, schedule::Target};

/// ` for f32 with strides of their own in a, b`.
pub(super) fn what_for(dtype: &Option<DType>, gaps: &[String], grouped: bool) -> String {
    let mut text = dtype.map_or_else(String::new, |dtype| format!(" for {dtype}"));
    if !gaps.is_empty() {
        text += &format!(" with strides of their own in {}", gaps.join(", "));
    }
    if grouped {
        text += " for several problems in one launch";
    }
    text
}

pub(super) fn dtype(dtype: &Option<DType>) -> &'static str {
    dtype.map_or("no element type", DType::name)
}

pub(super) fn target_name(target: Target) -> String {
    format!("sm_{}{}", target.sm, if target.specific { "a" } else { "" })
}

pub(super) fn list(dtypes: &[DType]) -> String {
    match dtypes {
        [] => "none: its kernel is not generic".into(),
        some => some.iter().map(|d| d.name()).collect::<Vec<_>>().join(", "),
    }
}

pub(super) fn layout_advice(expected: Layout) -> &'static str {
    match expected {
        Layout::RowMajor => "pass it row-major, or choose a schedule with `layout(..: col)`",
        Layout::ColumnMajor => "create it with `Buffer::from_slice_in(.., Layout::ColumnMajor)`",
    }
}

/// How a device gets more memory.
pub(super) fn more_memory(device: &str) -> &'static str {
    match device {
        "simulator" => "; raise `capacity` of its `SimOptions` (`Device::sim_with`) for more",
        _ => "",
    }
}
