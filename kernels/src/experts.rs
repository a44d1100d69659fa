//! A mixture of experts: where tokens go, tokens sorted by expert, and the product. The host reads nothing back.

use crate::{Queue, choose, enqueue, kernels, rows::short};
use tilewright::{Buffer, Device, Error, Float};

/// Slots of a part, which are counted together: the text of the kernels has the number.
const PART: usize = 512;

/// Where each token goes: the C experts with the greatest logits, the greatest first, and their weights.
///
/// Of equal logits the first expert counts; −0 is less than +0, and NaN is greatest.
/// A gate is the expert's part of the softmax of its row.
/// With `renormalize` it is the part of the C experts alone: gates of a token add up to 1.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `logits` | S × E, E up to 256 | `T` |
/// | `expert` | S × C, C up to E | `i32` |
/// | `gate` | S × C | `f32` |
///
/// # Errors
/// [Those of all functions](crate#errors); [`Error::Shape`] where rows are longer than 256, or shorter than C.
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, logits: Buffer<f32>, mut expert: Buffer<i32>, mut gate: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::route(&stream, &logits, true, &mut expert, &mut gate)?;
/// # Ok(())
/// # }
/// ```
pub fn route<T: Float>(
    on: &impl Queue,
    logits: &Buffer<T>,
    renormalize: bool,
    expert: &mut Buffer<i32>,
    gate: &mut Buffer<f32>,
) -> Result<(), Error> {
    let [e, c] = short("route", ("logits", logits.shape()), ("expert", expert.shape()))?;
    // Rows are short: both fit an `i32`.
    let among = if renormalize { c } else { e } as i32;
    enqueue(kernels::route::route(logits, expert, gate, among), choose::route(on.device(), e), on)
}

/// Tokens sorted by expert, in blocks of R rows, each of one expert: what [`expert_blocks`] makes, and [`experts`] multiplies.
///
/// | Tensor | Shape | What it has |
/// |---|---|---|
/// | `token` | Z × R | the token of each row, −1 where a block has fewer |
/// | `expert` | Z | the expert of each block, −1 behind the last |
/// | `place` | S × C | the row of each slot, counted through all blocks; −1 where its expert is none |
///
/// Blocks are in order of their experts, and rows of an expert in order of their tokens.
#[derive(Debug)]
pub struct Blocks {
    /// The token of each row.
    pub token: Buffer<i32>,
    /// The expert of each block.
    pub expert: Buffer<i32>,
    /// The row of each slot.
    pub place: Buffer<i32>,
}

impl Blocks {
    /// Room for S tokens with C slots each, which go to any of E experts, in blocks of R rows.
    /// [`choose::block_rows`] has an R.
    ///
    /// # Errors
    /// [`Error::Shape`] for blocks of no rows, and those of an allocation.
    pub fn uninit(
        device: &Device,
        [tokens, slots]: [usize; 2],
        experts: usize,
        rows: usize,
    ) -> Result<Self, Error> {
        if rows == 0 {
            return Err(Error::Shape("blocks of experts have at least one row".into()));
        }
        let blocks = Self::most(tokens.saturating_mul(slots), experts, rows);
        Ok(Blocks {
            token: Buffer::uninit(device, &[blocks, rows])?,
            expert: Buffer::uninit(device, &[blocks])?,
            place: Buffer::uninit(device, &[tokens, slots])?,
        })
    }

    /// The most blocks of so many rows that so many slots can fill: (slots + used · (rows − 1)) / rows, where at most as many experts are
    /// used as there are slots.
    ///
    /// ```
    /// # use tilewright_kernels::Blocks;
    /// // One expert with all slots has 64 blocks; 64 experts with a slot more than whole blocks have the most.
    /// assert_eq!(Blocks::most(8192, 1, 128), 64);
    /// assert_eq!(Blocks::most(8192, 64, 128), 127);
    /// assert_eq!(Blocks::most(2, 64, 128), 2);
    /// ```
    pub fn most(slots: usize, experts: usize, rows: usize) -> usize {
        let rows = rows.max(1);
        slots.saturating_add(experts.min(slots).saturating_mul(rows - 1)) / rows
    }
}

/// Sorts slots by expert, in blocks of R rows: four launches, and the same result each time.
///
/// A slot whose expert is none of the `experts`, such as −1, goes nowhere.
/// Scratch has a number for each expert and each 512 slots.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `expert` | S × C | `i32` |
/// | `blocks` | those of [`Blocks`] | `i32` |
///
/// # Errors
/// [Those of all functions](crate#errors); [`Error::Shape`] where `blocks` has too few.
///
/// ```no_run
/// # use tilewright::{Buffer, Device, Error, Stream};
/// # use tilewright_kernels::{Blocks, choose, expert_blocks};
/// # fn f(device: &Device, stream: &Stream, expert: Buffer<i32>) -> Result<(), Error> {
/// // 4096 tokens go to 2 of 64 experts each.
/// let mut blocks = Blocks::uninit(device, [4096, 2], 64, choose::block_rows(8192, 64))?;
/// expert_blocks(stream, &expert, 64, &mut blocks)?;
/// # Ok(())
/// # }
/// ```
pub fn expert_blocks(
    on: &impl Queue,
    expert: &Buffer<i32>,
    experts: usize,
    blocks: &mut Blocks,
) -> Result<(), Error> {
    let (&[_, c], &[z, r]) = (expert.shape(), blocks.token.shape()) else {
        return Err(Error::Shape(format!(
            "`expert` and `token` of expert_blocks have two dimensions each, and their shapes are {:?} and {:?}",
            expert.shape(),
            blocks.token.shape()
        )));
    };
    let slots: usize = expert.shape().iter().product();
    let most = Blocks::most(slots, experts, r);
    if z < most || blocks.place.shape() != expert.shape() {
        return Err(Error::Shape(format!(
            "`expert` of shape {:?} with {experts} experts needs {most} blocks of {r} rows and as many places, and `token` has shape {:?} and `place` {:?}",
            expert.shape(),
            blocks.token.shape(),
            blocks.place.shape()
        )));
    }
    let parts = slots.div_ceil(PART);
    let mut before = Buffer::<i32>::uninit(on.device(), &[parts + 1, experts])?;
    let mut end = Buffer::<i32>::uninit(on.device(), &[experts])?;
    let at = expert.reshaped(&[slots])?;
    // As many rows and slots as there are fit an `i32`: launches check that.
    let [rows, top] = [r, c.max(1)].map(|n| i32::try_from(n).unwrap_or(i32::MAX));
    let [counting, ending, emptying, filling] = choose::expert_blocks(on.device());
    enqueue(kernels::blocks::slots_before(&at, &mut before), counting, on)?;
    let count = before.slice(&[parts..parts + 1, 0..experts])?;
    let count = count.reshaped(&[experts])?;
    enqueue(kernels::blocks::block_ends(&count, &mut end, rows), ending, on)?;
    let launch = kernels::blocks::empty_blocks(&end, &mut blocks.expert, &mut blocks.token);
    enqueue(launch, emptying, on)?;
    let mut token = blocks.token.reshaped_mut(&[z * r])?;
    let mut place = blocks.place.reshaped_mut(&[slots])?;
    let launch = kernels::blocks::fill_blocks(&at, &before, &end, &mut token, &mut place, rows, top);
    enqueue(launch, filling, on)
}

/// A mixture of experts: `y[s] = Σ gate[s, c] · x[s] · w[expert[s, c]]`, over the C slots of each token.
///
/// Rows of a block are gathered and multiplied by the matrix of their expert; a second launch adds up the rows of each token.
/// A block without an expert computes nothing.
/// Scratch has a number in `f32` for each row of the blocks and each column.
/// With many slots an expert it has each row of x once more for each block that it stands in: `f16` and `bf16` on Hopper.
/// Tensor cores multiply `f16` and `bf16`.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x` | S × K | `T` |
/// | `w` | E × K × N | `T` |
/// | `gate` | S × C | `f32` |
/// | `blocks` | what [`expert_blocks`] has made of S × C slots | `i32` |
/// | `y` | S × N | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # use tilewright_kernels::{Blocks, expert_blocks, experts, route};
/// # fn f(stream: &Stream, logits: Buffer<f32>, x: Buffer<f32>, w: Buffer<f32>, mut blocks: Blocks, mut expert: Buffer<i32>, mut gate: Buffer<f32>, mut y: Buffer<f32>) -> Result<(), Error> {
/// route(&stream, &logits, true, &mut expert, &mut gate)?;
/// expert_blocks(&stream, &expert, w.shape()[0], &mut blocks)?;
/// experts(&stream, &x, &w, &gate, &blocks, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn experts<T: Float>(
    on: &impl Queue,
    x: &Buffer<T>,
    w: &Buffer<T>,
    gate: &Buffer<f32>,
    blocks: &Blocks,
    y: &mut Buffer<T>,
) -> Result<(), Error> {
    let (&[e, _, n], &[z, r]) = (w.shape(), blocks.token.shape()) else {
        return Err(Error::Shape(format!(
            "`w` of experts has experts, rows and columns, and its shape is {:?}; `token` has blocks and rows, and its shape is {:?}",
            w.shape(),
            blocks.token.shape()
        )));
    };
    let mut row = Buffer::<f32>::uninit(on.device(), &[z, r, 1, n])?;
    let [first, second] = choose::experts(on.device(), T::DTYPE, r);
    let (k, slots) = (x.shape().last().copied().unwrap_or(0), gate.shape().iter().product());
    match choose::experts_in_blocks(on.device(), T::DTYPE, [slots, e, r], [k, n]) {
        Some(in_blocks) => {
            let mut own = Buffer::<T>::uninit(on.device(), &[z * r, k])?;
            let token = blocks.token.reshaped(&[z * r])?;
            let rows = choose::embedding(on.device(), T::DTYPE, z * r);
            enqueue(kernels::embedding::embedding(&token, x, &mut own), rows, on)?;
            let own = own.reshaped(&[z, r, k])?;
            enqueue(kernels::experts::block_rows(&own, w, &blocks.expert, &mut row), in_blocks, on)?;
        }
        None => {
            enqueue(kernels::experts::expert_rows(x, w, &blocks.token, &blocks.expert, &mut row), first, on)?
        }
    }
    let row = row.reshaped(&[z * r, n])?;
    enqueue(kernels::experts::expert_sums(&row, &blocks.place, gate, y), second, on)
}
