//! The stores: how elements that a CTA stores leave it.

use crate::{
    nest::{
        AccessId, CopyLayout, ExchangedMatrices, Frame, Nest, NoExchange, NoStoredMatrices, StoredMatrices,
        Target, leaves, of_a_tile,
    },
    tile::TensorId,
};
use std::fmt;

/// How elements that are stored leave a CTA.
#[derive(Clone, Debug)]
pub(crate) enum StorePath {
    /// Each from its thread, or as many as a vector has.
    Elements,
    /// Four lanes exchange what they hold of a row, and each stores eight elements. In variants without vectors, as
    /// [`StorePath::Elements`].
    Exchanged(ExchangedMatrices),
    /// Through shared memory, as boxes of a tensor map.
    Collected(Collected),
}

/// A tile that is collected in shared memory before it is stored.
#[derive(Clone, Debug)]
pub(crate) struct Collected {
    /// How it lies there.
    pub layout: CopyLayout,
    /// Span of its swizzle in bytes, 0 without one.
    pub swizzle: u32,
    /// How lanes hold it, where they put it there by matrices.
    pub matrices: Option<StoredMatrices>,
}

/// Why a tensor cannot be stored as its directives ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unstored {
    /// A tile of it has no size.
    Unbounded(TensorId),
    /// Lanes hold no matrices as `stmatrix` takes them.
    Matrices(TensorId, NoStoredMatrices),
    /// Lanes hold no matrices that they can exchange.
    Exchange(TensorId, NoExchange),
}

impl Unstored {
    /// In words. Schedules of which it holds are refused before, with what mends them.
    pub fn text(self, nest: &Nest) -> String {
        let name = |tensor| nest.tensor(tensor).name.clone();
        match self {
            Unstored::Unbounded(tensor) => format!("a tile of `{}` has no size", name(tensor)),
            Unstored::Matrices(tensor, why) => {
                format!("lanes hold no matrices of `{}`: {why:?}", name(tensor))
            }
            Unstored::Exchange(tensor, why) => {
                format!("lanes exchange no matrices of `{}`: {why:?}", name(tensor))
            }
        }
    }
}

/// The stores of a nest, in program order.
#[derive(Clone, Debug)]
pub(crate) struct Stores(Vec<(AccessId, Result<StorePath, Unstored>)>);

impl Stores {
    /// Those of a nest; each with the reason where it is not possible.
    pub fn of(nest: &Nest) -> Stores {
        let mut stores = Vec::new();
        leaves(&nest.body, &mut |path, leaf| {
            if let Some((Target::Access(access), _)) = leaf.leaf() {
                stores.push((access, how(nest, access, path)));
            }
        });
        Stores(stores)
    }

    /// How an access stores, or why it cannot as directives ask for; `None` for one that stores nothing.
    pub fn get(&self, access: AccessId) -> Option<&Result<StorePath, Unstored>> {
        self.0.iter().find(|(of, _)| *of == access).map(|(_, how)| how)
    }

    /// The stores of a tensor, in program order.
    pub fn of_tensor<'s>(
        &'s self,
        nest: &'s Nest,
        tensor: TensorId,
    ) -> impl Iterator<Item = &'s Result<StorePath, Unstored>> {
        let of_it = self.0.iter().filter(move |(access, _)| nest.access(*access).tensor == tensor);
        of_it.map(|(_, how)| how)
    }

    /// The first reason for which one is not possible.
    pub fn unstored(&self) -> Option<Unstored> {
        self.0.iter().find_map(|(_, how)| how.as_ref().err().copied())
    }

    pub(super) fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        self.0.iter().try_for_each(|(access, how)| {
            let name = &nest.tensor(nest.access(*access).tensor).name;
            let how = how.as_ref().map_err(|_| fmt::Error)?;
            writeln!(out, "store {name}: {}", how.text(nest))
        })
    }
}

impl StorePath {
    fn text(&self, nest: &Nest) -> String {
        match self {
            StorePath::Elements => "by elements".into(),
            StorePath::Exchanged(how) => {
                let four = |(digit, taken): &(_, u32)| format!("{taken} of {}", nest.digit_name(*digit));
                let fours: Vec<String> = how.fours.iter().map(four).collect();
                let transposed = if how.matrices.transposed { ", transposed" } else { "" };
                format!("lanes exchange matrices, {}{transposed}", fours.join(" × "))
            }
            StorePath::Collected(Collected { layout, swizzle, matrices }) => {
                let extents: Vec<String> = layout.extents.iter().map(u64::to_string).collect();
                let swizzle = if *swizzle > 0 { format!(", swizzle {swizzle}") } else { String::new() };
                let by = match matrices {
                    None => "",
                    Some(StoredMatrices { transposed: false, .. }) => " by matrices",
                    Some(StoredMatrices { transposed: true, .. }) => " by matrices, transposed",
                };
                format!("{} collected{by}{swizzle}", extents.join("×"))
            }
        }
    }
}

/// How an access stores that stands at the end of a path.
fn how(nest: &Nest, access: AccessId, path: &[Frame]) -> Result<StorePath, Unstored> {
    let of = nest.access(access);
    let tensor = of.tensor;
    let loops: Vec<_> = path.iter().filter_map(Frame::step).collect();
    if let Some(output) = nest.outputs.get(&tensor) {
        let layout = nest.output_layout(tensor).ok_or(Unstored::Unbounded(tensor))?;
        let inside = of_a_tile(loops);
        let matrices = || nest.stored_matrices(of, &inside).map_err(|why| Unstored::Matrices(tensor, why));
        let matrices = if output.matrices { Some(matrices()?) } else { None };
        return Ok(StorePath::Collected(Collected { layout, swizzle: output.swizzle, matrices }));
    }
    if nest.exchanged.contains_key(&tensor) {
        let how = nest.exchanged_matrices(of, &loops).map_err(|why| Unstored::Exchange(tensor, why))?;
        return Ok(StorePath::Exchanged(how));
    }
    Ok(StorePath::Elements)
}
