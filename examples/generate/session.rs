//! A text that grows: a prompt, then token after token.

use super::{
    model::{Cache, Model, Space},
    sample::{Sampler, top_k},
};
use tilewright::{Buffer, Error, Float, Graph, Stream};
use tilewright_kernels::{Queue, argmax};

/// A text, its cache, and the graph of a step, if steps are graphs.
pub struct Session<'m, T> {
    model: &'m Model<T>,
    stream: &'m Stream,
    cache: Cache<T>,
    space: Space<T>,
    graph: Option<Graph>,
    sampler: Sampler,
    /// All tokens, on the device: each step reads the one before and writes its own.
    ids: Buffer<i32>,
}

impl<'m, T: Float> Session<'m, T> {
    /// A text of up to as many tokens as the model has positions. A step is one graph, or launches of their own.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(
        model: &'m Model<T>,
        stream: &'m Stream,
        sampler: Sampler,
        graph: bool,
    ) -> Result<Self, Error> {
        let (cache, space) = (model.cache()?, model.space(1, 1)?);
        let device = stream.device();
        // The last token that is chosen needs no position.
        let ids = Buffer::zeros(device, &[model.positions() + 1])?;
        let graph = graph.then(|| Graph::new(device));
        Ok(Session { model, stream, cache, space, graph, sampler, ids })
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

    /// The pass of the last token, and the choice of the next. Returns the logits.
    ///
    /// # Errors
    /// [`Error::Slice`] where there are no more positions.
    pub fn step(&mut self) -> Result<&Buffer<T>, Error> {
        let Session { model, stream, cache, space, graph, sampler, ids } = self;
        let greedy = matches!(sampler, Sampler::Greedy);
        match graph {
            Some(graph) => {
                graph.replay(stream, |launches| next(launches, model, cache, space, ids, greedy))?;
            }
            None => next(*stream, model, cache, space, ids, greedy)?,
        }
        if !greedy {
            choose(*stream, sampler, &space.logits, ids, cache.len)?;
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

/// Queues the pass of the last token and, of greedy sampling, the choice of the next.
fn next<T: Float>(
    on: &impl Queue,
    model: &Model<T>,
    cache: &mut Cache<T>,
    space: &mut Space<T>,
    ids: &mut Buffer<i32>,
    greedy: bool,
) -> Result<(), Error> {
    let at = cache.len;
    model.pass(on, &*ids.slice(&[at..at + 1])?, cache, space)?;
    if greedy {
        argmax(on, &space.logits, &mut *ids.slice_mut(&[at + 1..at + 2])?)?;
    }
    Ok(())
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
