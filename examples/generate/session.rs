//! A text under way: a prompt, then token after token.

use super::{
    model::{Cache, Model, Space},
    sample::{Sampler, top_k},
};
use tilewright::{Buffer, Error, Float, Graph, Stream};
use tilewright_kernels::{Queue, argmax};

/// A text, its cache, and the graph of a step.
pub struct Session<'m, T> {
    model: &'m Model<T>,
    stream: &'m Stream,
    cache: Cache<T>,
    space: Space<T>,
    graph: Graph,
    sampler: Sampler,
    /// All tokens, on the device: each step reads the one before and writes its own.
    ids: Buffer<i32>,
}

impl<'m, T: Float> Session<'m, T> {
    /// A text of up to as many tokens as the model has positions.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(model: &'m Model<T>, stream: &'m Stream, sampler: Sampler) -> Result<Self, Error> {
        let (cache, space) = (model.cache()?, model.space(1, 1)?);
        let device = stream.device();
        // The last token that is chosen needs no position.
        let ids = Buffer::zeros(device, &[model.positions() + 1])?;
        Ok(Session { model, stream, cache, space, graph: Graph::new(device), sampler, ids })
    }

    /// Takes a prompt in one pass and chooses the token behind it; returns the logits of its last `rows` tokens.
    ///
    /// # Errors
    /// [`Error::Slice`] where there are not as many positions.
    pub fn prefill(&mut self, prompt: &[i32], rows: usize) -> Result<Buffer<T>, Error> {
        let (from, tokens) = (self.cache.len, prompt.len());
        let mut space = self.model.space(tokens, rows)?;
        self.ids.slice_mut(&[from..from + tokens])?.copy_from(prompt)?;
        let ids = self.ids.slice(&[from..from + tokens])?;
        self.model.pass(self.stream, &ids, &mut self.cache, &mut space)?;
        let last = space.logits.slice(&[rows - 1..rows, 0..self.model.config.vocab])?;
        choose(self.stream, &mut self.sampler, &last, &mut self.ids, self.cache.len)?;
        Ok(space.logits)
    }

    /// The pass of the last token, and the choice of the next: launches of one graph. Returns the logits.
    ///
    /// # Errors
    /// [`Error::Slice`] where there are no more positions.
    pub fn step(&mut self) -> Result<&Buffer<T>, Error> {
        let Session { model, stream, cache, space, graph, sampler, ids } = self;
        let at = cache.len;
        graph.replay(stream, |launches| {
            model.pass(launches, &*ids.slice(&[at..at + 1])?, cache, space)?;
            match sampler {
                Sampler::Greedy => argmax(launches, &space.logits, &mut *ids.slice_mut(&[at + 1..at + 2])?),
                Sampler::TopK { .. } => Ok(()),
            }
        })?;
        if matches!(sampler, Sampler::TopK { .. }) {
            choose(*stream, sampler, &space.logits, ids, at + 1)?;
        }
        Ok(&space.logits)
    }

    /// All tokens so far; waits for them.
    ///
    /// # Errors
    /// Those of the passes.
    pub fn tokens(&self) -> Result<Vec<i32>, Error> {
        self.ids.slice(&[0..self.cache.len + 1])?.to_vec()
    }
}

/// Puts the token that follows from a row of logits in its place.
fn choose<T: Float>(
    on: &impl Queue,
    sampler: &mut Sampler,
    logits: &Buffer<T>,
    ids: &mut Buffer<i32>,
    at: usize,
) -> Result<(), Error> {
    let mut id = ids.slice_mut(&[at..at + 1])?;
    match sampler {
        Sampler::Greedy => argmax(on, logits, &mut id),
        Sampler::TopK { k, rng } => id.copy_from(&[top_k(&logits.to_vec()?, *k, rng)]),
    }
}
