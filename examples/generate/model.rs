//! The model on a device: all that a token goes through is launches of `tilewright-kernels`.

use super::{
    config::Config,
    weights::{Failure, Weights},
};
use tilewright::{Buffer, Device, Error, Float};
use tilewright_kernels::{
    Queue, attention, embedding, linear_add, merge_heads, norm_linear, norm_swiglu, rope_append,
};

/// The weights of a layer.
struct Layer<T> {
    attention_norm: Buffer<T>,
    /// Those of queries, keys and values, one below the other.
    qkv: Buffer<T>,
    output: Buffer<T>,
    ffn_norm: Buffer<T>,
    gate: Buffer<T>,
    up: Buffer<T>,
    down: Buffer<T>,
}

/// A model whose weights are on a device.
pub struct Model<T> {
    pub config: Config,
    device: Device,
    embedding: Buffer<T>,
    layers: Vec<Layer<T>>,
    norm: Buffer<T>,
    /// The weight of the last layer, where it is not the table of embeddings.
    head: Option<Buffer<T>>,
    /// Cosine and sine of what the pairs of a head turn by, a row a position.
    angles: [Buffer<f32>; 2],
    /// The numbers from 0 on: positions of tokens, and their places in the cache.
    positions: Buffer<i32>,
}

/// Keys and values of the tokens so far.
pub struct Cache<T> {
    layers: Vec<[Buffer<T>; 2]>,
    /// Tokens so far.
    pub len: usize,
}

/// What a pass leaves behind on its way: one for tokens at a time, used again for the next ones.
pub struct Space<T> {
    x: Buffer<T>,
    qkv: Buffer<T>,
    q: Buffer<T>,
    o: Buffer<T>,
    merged: Buffer<T>,
    h: Buffer<T>,
    /// Of the last tokens of the pass, a row each.
    pub logits: Buffer<T>,
}

impl<T: Float> Model<T> {
    /// A model for texts of up to `positions` tokens.
    ///
    /// # Errors
    /// Those of the weights; [`Error::OutOfMemory`].
    pub fn new(
        device: &Device,
        config: Config,
        weights: &Weights,
        positions: usize,
    ) -> Result<Self, Failure> {
        let load = |named: (String, Vec<usize>)| -> Result<Buffer<T>, Failure> {
            Ok(Buffer::from_slice(device, &weights.read::<T>(&named)?, &named.1)?)
        };
        let layer = |n: usize| -> Result<Layer<T>, Failure> {
            let names = config.layer(n);
            let mut qkv = weights.read::<T>(&names.q)?;
            qkv.extend(weights.read::<T>(&names.k)?);
            qkv.extend(weights.read::<T>(&names.v)?);
            let rows = qkv.len() / config.hidden;
            Ok(Layer {
                attention_norm: load(names.attention_norm)?,
                qkv: Buffer::from_slice(device, &qkv, &[rows, config.hidden])?,
                output: load(names.o)?,
                ffn_norm: load(names.ffn_norm)?,
                gate: load(names.gate)?,
                up: load(names.up)?,
                down: load(names.down)?,
            })
        };
        let half = config.head / 2;
        let table = |of: fn(f64) -> f64| {
            let angle = |n: usize| (n / half) as f64 * config.angle(n % half);
            let data: Vec<f32> = (0..positions * half).map(|n| of(angle(n)) as f32).collect();
            Buffer::from_slice(device, &data, &[positions, half])
        };
        let numbers: Vec<i32> = (0..i32::try_from(positions)?).collect();
        Ok(Model {
            device: device.clone(),
            embedding: load(config.embedding())?,
            layers: (0..config.layers).map(layer).collect::<Result<_, _>>()?,
            norm: load(config.last_norm())?,
            head: (!config.tied).then(|| load(config.output())).transpose()?,
            angles: [table(f64::cos)?, table(f64::sin)?],
            positions: Buffer::from_slice(device, &numbers, &[1, positions])?,
            config,
        })
    }

    /// The longest text, in tokens.
    pub fn positions(&self) -> usize {
        self.positions.shape()[1]
    }

    /// An empty cache with room for as many tokens as the model has positions.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn cache(&self) -> Result<Cache<T>, Error> {
        let Config { kv_heads, head, layers, .. } = self.config;
        let one = || Buffer::zeros(&self.device, &[1, kv_heads, self.positions(), head]);
        let layers = (0..layers).map(|_| Ok([one()?, one()?])).collect::<Result<_, Error>>()?;
        Ok(Cache { layers, len: 0 })
    }

    /// Room for a pass of `tokens`, of which the last `rows` have logits.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn space(&self, tokens: usize, rows: usize) -> Result<Space<T>, Error> {
        let Config { hidden, ffn, heads, kv_heads, head, vocab, .. } = self.config;
        let room = |shape: &[usize]| Buffer::uninit(&self.device, shape);
        Ok(Space {
            x: room(&[tokens, hidden])?,
            qkv: room(&[1, tokens, heads + 2 * kv_heads, head])?,
            q: room(&[1, heads, tokens, head])?,
            o: room(&[1, heads, tokens, head])?,
            merged: room(&[1, tokens, heads, head])?,
            h: room(&[tokens, ffn])?,
            logits: room(&[rows, vocab])?,
        })
    }

    /// A pass: the tokens `ids` go behind those of the cache. It is the same for a whole prompt and for one token.
    ///
    /// # Errors
    /// [`Error::Slice`] where the cache is full, [`Error::Shape`] where the room is for another number of tokens.
    pub fn pass(
        &self,
        on: &impl Queue,
        ids: &Buffer<i32>,
        cache: &mut Cache<T>,
        space: &mut Space<T>,
    ) -> Result<(), Error> {
        let Config { hidden, heads, kv_heads, head, eps, .. } = self.config;
        let (tokens, start) = (ids.shape()[0], cache.len);
        let seen = start + tokens;
        let (wide, scale) = (heads * head, 1.0 / (head as f32).sqrt());
        let [cos, sin] = &self.angles;
        let at = self.positions.slice(&[0..1, start..seen])?;

        embedding(on, ids, &self.embedding, &mut space.x)?;
        for (layer, [keys, values]) in self.layers.iter().zip(&mut cache.layers) {
            let x = &mut space.x;
            let mut qkv = space.qkv.reshaped_mut(&[tokens, (heads + 2 * kv_heads) * head])?;
            norm_linear(on, x, &layer.attention_norm, eps, &layer.qkv, &mut qkv)?;
            rope_append(on, &space.qkv, &at, &at, [cos, sin], &mut space.q, [keys, values])?;

            let part = [0..1, 0..kv_heads, 0..seen, 0..head];
            let (keys, values) = (keys.slice(&part)?, values.slice(&part)?);
            attention(on, &space.q, &keys, &values, scale, true, &mut space.o)?;

            // Heads of one token lie side by side already.
            if tokens > 1 {
                merge_heads(on, &space.o, &mut space.merged)?;
            }
            let o = if tokens > 1 { &space.merged } else { &space.o };
            linear_add(on, &*o.reshaped(&[tokens, wide])?, &layer.output, x)?;
            norm_swiglu(on, x, &layer.ffn_norm, eps, &layer.gate, &layer.up, &mut space.h)?;
            linear_add(on, &space.h, &layer.down, x)?;
        }
        let rows = space.logits.shape()[0];
        let last = space.x.slice(&[tokens - rows..tokens, 0..hidden])?;
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        norm_linear(on, &last, &self.norm, eps, head, &mut space.logits)?;
        cache.len = seen;
        Ok(())
    }
}
