//! Who holds what: the layouts of values and copies.

use crate::model::{CopyView, DigitView, UnitView, ValueView};
use tile_dsl::{
    kernel::Kernel,
    machine::{Space, Unit, UnitDim, Via},
    nest::{
        CopyId, Frame, Layout, LoopKind, Nest, Placement, Steps, Stmt, Target, ValueId, Where, leaves,
        with_paths,
    },
};

/// The units of a CTA that loops are bound to.
pub(crate) fn units(nest: &Nest) -> Vec<UnitView> {
    let view = |(unit, dim, [stride, extent]): (Unit, UnitDim, [u32; 2])| UnitView {
        name: format!("{unit}.{dim}"),
        stride,
        extent,
    };
    nest.unit_dimensions().into_iter().map(view).collect()
}

/// The values of a nest, in the order in which it computes them.
pub(crate) fn values(nest: &Nest) -> Vec<ValueView> {
    let mut seen: Vec<ValueId> = Vec::new();
    let mut views = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        let Some((Target::Value(value), _)) = leaf.leaf() else { return };
        let Some(at) = Nest::binder(path, value).filter(|_| !seen.contains(&value)) else { return };
        seen.push(value);
        let layout = nest.layouts(&path[at..], leaf, value).into_iter().next().unwrap_or_default();
        views.push(view(nest, value, &layout));
    });
    views
}

fn view(nest: &Nest, value: ValueId, layout: &Layout) -> ValueView {
    let info = nest.value(value);
    let shared = info.placement == Placement::Shared;
    let digit = |(digit, at): &(tile_dsl::nest::Digit, Where)| DigitView {
        name: nest.digit_name(*digit),
        axis: nest.axis(digit.axis).to_string(),
        stride: digit.stride,
        steps: if let Steps::Fixed(n) = digit.steps { Some(n) } else { None },
        unit: if let Where::Unit(unit, dim) = at { Some(format!("{unit}.{dim}")) } else { None },
        xor: nest.skew.get(digit).map(ToString::to_string),
    };
    ValueView {
        name: info.name.clone(),
        dtype: info.dtype.to_string(),
        axes: info.axes.iter().map(|a| nest.axis(*a).to_string()).collect(),
        shared,
        registers: if shared { 0 } else { layout.slots() },
        digits: layout.digits().iter().map(digit).collect(),
    }
}

/// The copies in shared memory of a nest, with the places that their buffers have in its kernel.
pub(crate) fn copies(nest: &Nest, kernel: &Kernel) -> Vec<CopyView> {
    let mut seen: Vec<CopyId> = Vec::new();
    let mut views = Vec::new();
    with_paths(&nest.body, &mut |path, stmt| {
        let Stmt::Stage { copy, body } = stmt else { return };
        if seen.contains(copy) || nest.copy(*copy).space != Space::Shared {
            return;
        }
        seen.push(*copy);
        let stages = path.iter().rev().find_map(|frame| match frame {
            Frame::Stage(_) => None,
            Frame::For(_, LoopKind::Pipe(n)) => Some(*n),
            _ => Some(1),
        });
        views.extend(copied(nest, kernel, *copy, body, stages.unwrap_or(1)));
    });
    views
}

fn copied(nest: &Nest, kernel: &Kernel, copy: CopyId, body: &Stmt, stages: u32) -> Option<CopyView> {
    let layout = nest.copy_layout(copy, body)?;
    let (info, access) = (nest.copy(copy), nest.copied_access(copy, body));
    let name = nest.copy_name(copy);
    // Copies of different reads of one tensor have buffers of other names.
    let buffer = kernel.shared.iter().find(|buffer| buffer.name == name)?;
    let dtype = nest.elem(info.tensor);
    Some(CopyView {
        name,
        reads: nest.print_access(access),
        dtype: dtype.to_string(),
        bytes: dtype.bytes(),
        index: access.index.iter().map(|index| nest.print_affine(index)).collect(),
        extents: layout.extents,
        strides: layout.strides,
        row: layout.row,
        panel: layout.panel,
        elements: layout.elems,
        swizzle: info.swizzle,
        stages,
        start: buffer.start,
        moved_by: match info.via {
            Via::Plain => "loads and stores",
            Via::CpAsync => "cp.async",
            Via::Tma | Via::Stmatrix => "tensor map",
        },
    })
}
