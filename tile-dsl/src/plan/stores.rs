//! The stores: how elements that a CTA stores leave it.

use crate::{
    nest::{
        AccessId, CopyLayout, ExchangedMatrices, Frame, LANES_OF_ROW, MATRIX_ROWS, Nest, NoExchange,
        NoStoredMatrices, PrivateTile, Step, StoredMatrices, Target, leaves, of_a_tile,
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
    /// Combined with a tile of the CTA's own in shared memory, which is combined with the tensor once.
    Private(PrivateTile),
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
    /// A tile that a CTA has to itself has no bound in this dimension.
    Endless(TensorId, usize),
}

impl Unstored {
    /// In words.
    pub fn text(self, nest: &Nest) -> String {
        let name = |tensor| nest.tensor(tensor).name.clone();
        match self {
            Unstored::Unbounded(tensor) => format!("a tile of `{}` has no size", name(tensor)),
            Unstored::Matrices(tensor, why) => not_stored(nest, &name(tensor), why),
            Unstored::Exchange(tensor, why) => not_exchanged(nest, &name(tensor), why),
            Unstored::Endless(tensor, dim) => format!(
                "the part of `{}` that a CTA has to itself has no size: dimension {dim}, `{}`, has no bound",
                name(tensor),
                nest.tensor(tensor).dims[dim]
            ),
        }
    }
}

/// Why `stmatrix` does not store what lanes hold.
fn not_stored(nest: &Nest, name: &str, why: NoStoredMatrices) -> String {
    match why {
        NoStoredMatrices::Size(bytes) => {
            format!("elements of `{name}` have {bytes} bytes: `stmatrix` stores those of 2")
        }
        NoStoredMatrices::Lanes => format!(
            "lanes do not hold `{name}` in the layout that `stmatrix` stores: eight rows of four lanes, each with a vector of two elements of a row"
        ),
        NoStoredMatrices::Unaligned(digit, by) => format!(
            "a step of `{}` moves what lanes hold of `{name}` by {by} elements of a row: `stmatrix` stores rows of {MATRIX_ROWS}",
            nest.digit_name(digit)
        ),
    }
}

/// Why lanes do not exchange what they hold.
fn not_exchanged(nest: &Nest, name: &str, why: NoExchange) -> String {
    match why {
        NoExchange::Matrices(NoStoredMatrices::Size(bytes)) => {
            format!("elements of `{name}` have {bytes} bytes: lanes exchange pairs of those of 2")
        }
        NoExchange::Matrices(NoStoredMatrices::Lanes) => format!(
            "lanes do not hold `{name}` in the layout of accumulators of `mma` and `wgmma`: eight rows of four lanes, each with a vector of two elements of a row"
        ),
        NoExchange::Matrices(NoStoredMatrices::Unaligned(digit, by)) => format!(
            "a step of `{}` moves what lanes hold of `{name}` by {by} elements of a row: lanes exchange rows of {MATRIX_ROWS}",
            nest.digit_name(digit)
        ),
        NoExchange::Fours => format!(
            "no unrolled loop covers {LANES_OF_ROW} · {MATRIX_ROWS} elements of a row of `{name}`: {LANES_OF_ROW} lanes exchange as many"
        ),
        NoExchange::Columns => format!(
            "lanes hold columns of `{name}`, and no unrolled loops of 2 by 2 steps, or of {LANES_OF_ROW}, go over them: {LANES_OF_ROW} lanes exchange {LANES_OF_ROW} matrices"
        ),
        NoExchange::Between(digit) => format!(
            "`{}` runs inside of the loop over what lanes exchange of `{name}`: a lane holds no more than one step of it",
            nest.digit_name(digit)
        ),
        NoExchange::Ends(axis, points) => format!(
            "`{}` has {points} points, no multiple of {MATRIX_ROWS}: a lane would store beyond the end",
            nest.axis(axis)
        ),
        NoExchange::Starts(off) => {
            format!("rows of `{name}` are stored {off} elements off: lanes store vectors of {MATRIX_ROWS}")
        }
    }
}

/// A store of a tensor.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    /// What it stores.
    pub access: AccessId,
    /// The loops around it, outermost first.
    pub loops: Vec<Step>,
    /// How a tile that is collected lies in shared memory; `None` where it has no size.
    pub tile: Option<CopyLayout>,
    /// How it leaves a CTA, or why it cannot as directives ask for.
    pub how: Result<StorePath, Unstored>,
}

/// The stores of a nest, in program order.
#[derive(Clone, Debug)]
pub(crate) struct Stores(Vec<Store>);

impl Stores {
    /// Those of a nest; each with the reason where it is not possible.
    pub fn of(nest: &Nest) -> Stores {
        let mut stores = Vec::new();
        leaves(&nest.body, &mut |path, leaf| {
            if let Some((Target::Access(access), _)) = leaf.leaf() {
                let loops: Vec<Step> = path.iter().filter_map(Frame::step).collect();
                let tile = nest.output_layout(access, &loops);
                let how = how(nest, access, &loops, tile.as_ref());
                stores.push(Store { access, loops, tile, how });
            }
        });
        Stores(stores)
    }

    /// How an access stores, or why it cannot as directives ask for; `None` for one that stores nothing.
    pub fn get(&self, access: AccessId) -> Option<&Result<StorePath, Unstored>> {
        self.0.iter().find(|store| store.access == access).map(|store| &store.how)
    }

    /// The stores of a tensor, in program order.
    pub fn of_tensor<'s>(&'s self, nest: &'s Nest, tensor: TensorId) -> impl Iterator<Item = &'s Store> {
        self.0.iter().filter(move |store| nest.access(store.access).tensor == tensor)
    }

    /// The one store of a tensor that is collected, or that combines with a private tile.
    pub fn collected<'s>(&'s self, nest: &'s Nest, tensor: TensorId) -> Option<&'s Store> {
        self.of_tensor(nest, tensor).last()
    }

    /// The first reason for which one is not possible.
    pub fn unstored(&self) -> Option<Unstored> {
        self.0.iter().find_map(|store| store.how.as_ref().err().copied())
    }

    pub(super) fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        self.0.iter().try_for_each(|Store { access, how, .. }| {
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
            StorePath::Private(tile) => {
                let extents: Vec<String> = tile.dims.iter().map(|dim| dim.extent.to_string()).collect();
                format!("{} combined by the CTA first", extents.join("×"))
            }
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

/// How an access stores inside of some loops; the tile that it is collected in.
fn how(
    nest: &Nest,
    access: AccessId,
    loops: &[Step],
    tile: Option<&CopyLayout>,
) -> Result<StorePath, Unstored> {
    let of = nest.access(access);
    let tensor = of.tensor;
    if let Some(output) = nest.outputs.get(&tensor) {
        let layout = tile.ok_or(Unstored::Unbounded(tensor))?.clone();
        let inside = of_a_tile(loops.to_vec());
        let matrices = || nest.stored_matrices(of, &inside).map_err(|why| Unstored::Matrices(tensor, why));
        let matrices = if output.matrices { Some(matrices()?) } else { None };
        return Ok(StorePath::Collected(Collected { layout, swizzle: output.swizzle, matrices }));
    }
    if nest.private.contains_key(&tensor) {
        let tile = nest.private_tile(of, loops).map_err(|dim| Unstored::Endless(tensor, dim))?;
        return Ok(StorePath::Private(tile));
    }
    if nest.exchanged.contains_key(&tensor) {
        let how = nest.exchanged_matrices(of, loops).map_err(|why| Unstored::Exchange(tensor, why))?;
        return Ok(StorePath::Exchanged(how));
    }
    Ok(StorePath::Elements)
}
