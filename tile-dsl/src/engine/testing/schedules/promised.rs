//! Names that a directive promises: each loop that it makes can be named, also where it has one step.

use crate::{
    directive::{self, DirectiveKind as D, tensor_core},
    engine::names::{Bare, existing, in_tile, of_atoms, over_tiles},
    index::AxisId,
    nest::{Nest, Steps, ValueId, loops},
};

/// A loop that a directive makes and that others cannot name.
pub(super) fn missing(before: &Nest, after: &Nest, kind: &D) -> Option<String> {
    let nameable = |name: &String| existing(after, name, Bare::InTile).is_ok();
    match kind {
        D::Tile(directive::Tile { axis, .. }) => {
            let id = before.kernel.axes.iter().position(|a| a.name == *axis).map(|n| AxisId(n as u16))?;
            // Nothing is done over an axis that no statement with an effect has.
            loops(&before.body).iter().find(|(d, _)| d.axis == id)?;
            // What a kernel does once a tile has no loop in it.
            let inside = !before.recurrences.contains_key(&id);
            let names = [Some(over_tiles(axis)), inside.then(|| in_tile(axis))];
            names.into_iter().flatten().find(|name| !nameable(name))
        }
        D::Split(directive::Split { digit, names, .. }) => {
            // One step has no parts.
            let whole = existing(before, digit, Bare::InTile).ok()?;
            let parted = whole.steps != Steps::Fixed(1);
            names.iter().find(|name| parted && !nameable(name)).cloned()
        }
        D::TensorCore(directive::TensorCore { value, atom, .. }) => {
            let id = before.values.iter().position(|v| v.name == *value)?;
            let axes = tensor_core::axes(before, ValueId(id as u16), *atom)?;
            // Where another instruction takes another number of points, the loop is called after the value.
            let names = |axis: AxisId| {
                let axis = before.axis(axis);
                [format!("{axis}.{value}"), of_atoms(axis)]
            };
            axes.into_iter().map(names).find(|names| !names.iter().any(nameable)).map(|[_, atoms]| atoms)
        }
        _ => None,
    }
}
