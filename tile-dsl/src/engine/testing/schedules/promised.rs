//! Names that a directive promises: each loop that it makes can be named, also where it has one step.

use crate::{
    engine::{
        families::tensor_core,
        names::{Bare, existing},
    },
    index::AxisId,
    nest::{Nest, ValueId},
    schedule::DirectiveKind as D,
};

/// A loop that a directive makes and that others cannot name.
pub(super) fn missing(before: &Nest, after: &Nest, kind: &D) -> Option<String> {
    let nameable = |name: &String| existing(after, name, Bare::InTile).is_ok();
    match kind {
        D::Tile { axis, .. } => {
            [format!("{axis}.o"), format!("{axis}.t")].into_iter().find(|name| !nameable(name))
        }
        D::Split { names, .. } => names.iter().find(|name| !nameable(name)).cloned(),
        D::TensorCore { value, atom, .. } => {
            let id = before.values.iter().position(|v| v.name == *value)?;
            let axes = tensor_core::axes(before, ValueId(id as u16), *atom)?;
            // Where another instruction takes another number of points, the loop is called after the value.
            let names = |axis: AxisId| {
                let axis = before.axis(axis);
                [format!("{axis}.{value}"), format!("{axis}.atom")]
            };
            axes.into_iter().map(names).find(|names| !names.iter().any(nameable)).map(|[_, atoms]| atoms)
        }
        _ => None,
    }
}
