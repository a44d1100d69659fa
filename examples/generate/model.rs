//! The model on one device or several: all that a token goes through is launches of `tilewright-kernels`, and sums between devices.
//!
//! Each device has some heads of attention and some columns of the feed-forward layers, and what a token is between layers is on all of
//! them (Shoeybi et al., "Megatron-LM", arXiv:1909.08053).

use super::{
    config::Config,
    spread::{Each, Share, all_mut, each, part, spread},
    weights::{Failure, Weights},
};
use tilewright::{Buffer, Communicator, Device, Error, Float, Rank, View};
use tilewright_kernels::{
    Queue, attention, embedding, linear, linear_add, merge_heads, norm_linear, norm_swiglu, rope_append,
};

/// The weights of a layer.
struct Layer<T> {
    attention_norm: Each<T>,
    /// Those of queries, keys and values, one below the other.
    qkv: Each<T>,
    output: Each<T>,
    ffn_norm: Each<T>,
    gate: Each<T>,
    up: Each<T>,
    down: Each<T>,
}

/// A model whose weights are on devices.
pub struct Model<T> {
    pub config: Config,
    /// The sizes of what one device has.
    one: Config,
    all: Communicator,
    embedding: Each<T>,
    layers: Vec<Layer<T>>,
    norm: Each<T>,
    /// The weight of the last layer, where it is not the table of embeddings.
    head: Option<Each<T>>,
    /// Cosine and sine of what the pairs of a head turn by, a row a position.
    angles: [Each<f32>; 2],
    /// The numbers from 0 on: positions of tokens, and their places in the cache.
    positions: Each<i32>,
}

/// Keys and values of the tokens so far.
pub struct Cache<T> {
    layers: Vec<[Each<T>; 2]>,
    /// Tokens so far.
    pub len: usize,
}

/// What a pass leaves behind on its way: one for tokens at a time, used again for the next ones.
pub struct Space<T> {
    x: Each<T>,
    qkv: Each<T>,
    q: Each<T>,
    o: Each<T>,
    merged: Each<T>,
    h: Each<T>,
    pub logits: Logits<T>,
}

/// Logits of the last tokens of a pass, a row each. All devices have the last row. Of the others each has the tokens whose outputs it has.
pub struct Logits<T> {
    /// Rows of equal parts, a part a device; there may be room behind the last token.
    each: Each<T>,
    vocab: usize,
}

impl<T: Float> Model<T> {
    /// A model for texts of up to `positions` tokens.
    ///
    /// # Errors
    /// Sizes that are not shared out evenly; those of the weights; [`Error::OutOfMemory`], [`Error::Collective`], [`Error::NoNccl`].
    pub fn new(
        devices: &[Device],
        config: Config,
        weights: &Weights,
        positions: usize,
    ) -> Result<Self, Failure> {
        let one = config.part(devices.len())?;
        let load = |tensors: &[_], share| spread::<T>(devices, weights, tensors, share);
        let layer = |n: usize| -> Result<Layer<T>, Failure> {
            let names = config.layer(n);
            Ok(Layer {
                attention_norm: load(&[names.attention_norm], Share::Whole)?,
                qkv: load(&[names.q, names.k, names.v], Share::Rows)?,
                output: load(&[names.o], Share::Columns)?,
                ffn_norm: load(&[names.ffn_norm], Share::Whole)?,
                gate: load(&[names.gate], Share::Rows)?,
                up: load(&[names.up], Share::Rows)?,
                down: load(&[names.down], Share::Columns)?,
            })
        };
        let half = config.head / 2;
        let table = |of: fn(f64) -> f64| {
            let angle = |n: usize| (n / half) as f64 * config.angle(n % half);
            let data: Vec<f32> = (0..positions * half).map(|n| of(angle(n)) as f32).collect();
            each(devices, |device| Buffer::from_slice(device, &data, &[positions, half]))
        };
        let numbers: Vec<i32> = (0..i32::try_from(positions)?).collect();
        Ok(Model {
            one,
            all: Communicator::new(devices)?,
            embedding: load(&[config.embedding()], Share::Whole)?,
            layers: (0..config.layers).map(layer).collect::<Result<_, _>>()?,
            norm: load(&[config.last_norm()], Share::Whole)?,
            head: (!config.tied).then(|| load(&[config.output()], Share::Rows)).transpose()?,
            angles: [table(f64::cos)?, table(f64::sin)?],
            positions: each(devices, |device| Buffer::from_slice(device, &numbers, &[1, positions]))?,
            config,
        })
    }

    /// Where it is.
    pub fn devices(&self) -> &[Device] {
        self.all.devices()
    }

    /// The longest text, in tokens.
    pub fn positions(&self) -> usize {
        self.positions[0].shape()[1]
    }

    /// An empty cache with room for as many tokens as the model has positions.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn cache(&self) -> Result<Cache<T>, Error> {
        let Config { kv_heads, head, layers, .. } = self.one;
        let shape = [1, kv_heads, self.positions(), head];
        let one = || each(self.devices(), |device| Buffer::zeros(device, &shape));
        let layers = (0..layers).map(|_| Ok([one()?, one()?])).collect::<Result<_, Error>>()?;
        Ok(Cache { layers, len: 0 })
    }

    /// Room for a pass of `tokens`, of which the last `rows` have logits.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn space(&self, tokens: usize, rows: usize) -> Result<Space<T>, Error> {
        let Config { hidden, ffn, heads, kv_heads, head, vocab, .. } = self.one;
        let devices = self.devices();
        let room = |shape: &[usize]| each(devices, |device| Buffer::uninit(device, shape));
        let whole = part(vocab, 0, devices.len()).len() * devices.len();
        Ok(Space {
            x: room(&[tokens, hidden])?,
            qkv: room(&[1, tokens, heads + 2 * kv_heads, head])?,
            q: room(&[1, heads, tokens, head])?,
            o: room(&[1, heads, tokens, head])?,
            merged: room(&[1, tokens, heads, head])?,
            h: room(&[tokens, ffn])?,
            logits: Logits { each: room(&[rows, whole])?, vocab },
        })
    }

    /// A pass: the next `tokens` of `ids` go behind those of the cache. It is the same for a whole prompt and for one token. `on` and `ids`
    /// have one a device.
    ///
    /// # Errors
    /// [`Error::Slice`] where the cache is full, [`Error::Shape`] where the room is for another number of tokens.
    pub fn pass(
        &self,
        on: &[impl Queue + Rank],
        ids: &Each<i32>,
        tokens: usize,
        cache: &mut Cache<T>,
        space: &mut Space<T>,
    ) -> Result<(), Error> {
        let Config { heads, kv_heads, head, eps, .. } = self.one;
        let (start, seen) = (cache.len, cache.len + tokens);
        let (wide, scale) = (heads * head, 1.0 / (head as f32).sqrt());
        let [cos, sin] = &self.angles;

        for (d, on) in on.iter().enumerate() {
            embedding(on, &*ids[d].slice(&[start..seen])?, &self.embedding[d], &mut space.x[d])?;
        }
        for (layer, [keys, values]) in self.layers.iter().zip(&mut cache.layers) {
            for (d, on) in on.iter().enumerate() {
                let (x, q, o) = (&mut space.x[d], &mut space.q[d], &mut space.o[d]);
                let mut qkv = space.qkv[d].reshaped_mut(&[tokens, (heads + 2 * kv_heads) * head])?;
                norm_linear(on, x, &layer.attention_norm[d], eps, &layer.qkv[d], &mut qkv)?;
                let at = self.positions[d].slice(&[0..1, start..seen])?;
                let (keys, values) = (&mut keys[d], &mut values[d]);
                rope_append(on, &space.qkv[d], &at, &at, [&cos[d], &sin[d]], q, [keys, values])?;

                let part = [0..1, 0..kv_heads, 0..seen, 0..head];
                let (keys, values) = (keys.slice(&part)?, values.slice(&part)?);
                attention(on, q, &keys, &values, scale, true, o)?;

                // Heads of one token lie side by side already.
                if tokens > 1 {
                    merge_heads(on, o, &mut space.merged[d])?;
                }
                let o = if tokens > 1 { &space.merged[d] } else { o };
                add_part(on, d, &*o.reshaped(&[tokens, wide])?, &layer.output[d], x)?;
            }
            self.all.all_reduce(&mut all_mut(&mut space.x), on)?;
            for (d, on) in on.iter().enumerate() {
                let (x, h) = (&mut space.x[d], &mut space.h[d]);
                norm_swiglu(on, x, &layer.ffn_norm[d], eps, &layer.gate[d], &layer.up[d], h)?;
                add_part(on, d, h, &layer.down[d], x)?;
            }
            self.all.all_reduce(&mut all_mut(&mut space.x), on)?;
        }
        self.logits(on, tokens, space)?;
        cache.len = seen;
        Ok(())
    }

    /// The last layer: each device multiplies by some rows of the weight, and all get the last row of logits.
    fn logits(&self, on: &[impl Queue + Rank], tokens: usize, space: &mut Space<T>) -> Result<(), Error> {
        let Config { hidden, vocab, eps, .. } = self.config;
        let each = &mut space.logits.each;
        let (rows, whole) = (each[0].shape()[0], each[0].shape()[1]);
        for (d, on) in on.iter().enumerate() {
            let mine = part(vocab, d, self.devices().len());
            let head = match &self.head {
                Some(head) => head[d].slice(&[0..mine.len(), 0..hidden])?,
                None => self.embedding[d].slice(&[mine.clone(), 0..hidden])?,
            };
            let last = space.x[d].slice(&[tokens - rows..tokens, 0..hidden])?;
            norm_linear(on, &last, &self.norm[d], eps, &head, &mut *each[d].slice_mut(&[0..rows, mine])?)?;
        }
        let last = |buffer| Buffer::slice_mut(buffer, &[rows - 1..rows, 0..whole]);
        let mut last = each.iter_mut().map(last).collect::<Result<Vec<_>, _>>()?;
        self.all.all_gather(&mut last.iter_mut().map(|row| &mut **row).collect::<Vec<_>>(), on)
    }
}

/// Adds a device's part of a product to what went around it, which the first device brings: a sum over the devices makes it whole.
fn add_part<T: Float>(
    on: &impl Queue,
    device: usize,
    x: &Buffer<T>,
    weight: &Buffer<T>,
    y: &mut Buffer<T>,
) -> Result<(), Error> {
    match device {
        0 => linear_add(on, x, weight, y),
        _ => linear(on, x, weight, None, y),
    }
}

impl<T: Float> Logits<T> {
    /// All of them, row by row.
    ///
    /// # Errors
    /// Those of the pass.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let (devices, width) = (self.each.len(), self.each[0].shape()[1]);
        let read = self.each.iter().map(Buffer::to_vec).collect::<Result<Vec<_>, _>>()?;
        let parts = (0..self.each[0].shape()[0]).flat_map(|row| (0..devices).map(move |d| (row * width, d)));
        let part = |(row, d): (usize, usize)| {
            let columns = part(self.vocab, d, devices);
            &read[d][row + columns.start..row + columns.end]
        };
        Ok(parts.flat_map(part).copied().collect())
    }

    /// The last row, as a device has it.
    ///
    /// # Errors
    /// None.
    pub fn last(&self, device: usize) -> Result<View<'_, T>, Error> {
        let rows = self.each[device].shape()[0];
        self.each[device].slice(&[rows - 1..rows, 0..self.vocab])
    }
}
