//! A text that grows: a prompt, then token after token.

use super::{
    model::{Cache, Logits, Model, Space},
    sample::{Sampler, top_k},
    spread::{Each, each},
};
use tilewright::{Buffer, Error, Float, Graph, Rank, Stream};
use tilewright_kernels::{Queue, argmax};

/// A text, its cache, and the graphs of a step, if steps are graphs.
pub struct Session<'m, T> {
    model: &'m Model<T>,
    /// One a device.
    streams: &'m [Stream],
    cache: Cache<T>,
    space: Space<T>,
    graphs: Option<Vec<Graph>>,
    sampler: Sampler,
    /// All tokens, on each device: a step reads the one before and writes its own.
    ids: Each<i32>,
}

impl<'m, T: Float> Session<'m, T> {
    /// A text of up to as many tokens as the model has positions. A step is one graph a device, or launches of their own.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(
        model: &'m Model<T>,
        streams: &'m [Stream],
        sampler: Sampler,
        graph: bool,
    ) -> Result<Self, Error> {
        let (cache, space) = (model.cache()?, model.space(1, 1)?);
        // The last token that is chosen needs no position.
        let room = model.positions() + 1;
        let ids = each(model.devices(), |device| Buffer::zeros(device, &[room]))?;
        let graphs = graph.then(|| model.devices().iter().map(Graph::new).collect());
        Ok(Session { model, streams, cache, space, graphs, sampler, ids })
    }

    /// Takes a prompt in one pass and chooses the token behind it; returns the logits of its last `rows` tokens.
    ///
    /// # Errors
    /// [`Error::Slice`] where there are not as many positions.
    pub fn prefill(&mut self, prompt: &[i32], rows: usize) -> Result<Logits<T>, Error> {
        let (from, tokens) = (self.cache.len, prompt.len());
        let mut space = self.model.space(tokens, rows)?;
        for ids in &mut self.ids {
            ids.slice_mut(&[from..from + tokens])?.copy_from(prompt)?;
        }
        self.model.pass(self.streams, &self.ids, tokens, &mut self.cache, &mut space)?;
        choose(self.streams, &mut self.sampler, &space.logits, &mut self.ids, self.cache.len)?;
        Ok(space.logits)
    }

    /// The pass of the last token, and the choice of the next. Returns the logits.
    ///
    /// # Errors
    /// [`Error::Slice`] where there are no more positions.
    pub fn step(&mut self) -> Result<&Logits<T>, Error> {
        let Session { model, streams, cache, space, graphs, sampler, ids } = self;
        let greedy = matches!(sampler, Sampler::Greedy);
        match graphs {
            Some(graphs) => {
                Graph::replay_together(graphs, streams, |on| next(on, model, cache, space, ids, greedy))?;
            }
            None => next(streams, model, cache, space, ids, greedy)?,
        }
        if !greedy {
            choose(streams, sampler, &space.logits, ids, cache.len)?;
        }
        Ok(&space.logits)
    }

    /// All tokens so far; waits for them.
    ///
    /// # Errors
    /// Those of the passes.
    pub fn tokens(&self) -> Result<Vec<i32>, Error> {
        self.ids[0].slice(&[0..self.cache.len + 1])?.to_vec()
    }
}

/// Queues the pass of the last token and, of greedy sampling, the choice of the next.
fn next<T: Float>(
    on: &[impl Queue + Rank],
    model: &Model<T>,
    cache: &mut Cache<T>,
    space: &mut Space<T>,
    ids: &mut Each<i32>,
    greedy: bool,
) -> Result<(), Error> {
    model.pass(on, ids, 1, cache, space)?;
    if greedy {
        choose(on, &mut Sampler::Greedy, &space.logits, ids, cache.len)?;
    }
    Ok(())
}

/// Puts the token that follows from the last row of logits in its place, on each device.
fn choose<T: Float>(
    on: &[impl Queue],
    sampler: &mut Sampler,
    logits: &Logits<T>,
    ids: &mut Each<i32>,
    at: usize,
) -> Result<(), Error> {
    let place = [at..at + 1];
    match sampler {
        Sampler::Greedy => on
            .iter()
            .zip(ids)
            .enumerate()
            .try_for_each(|(d, (on, ids))| argmax(on, &*logits.last(d)?, &mut *ids.slice_mut(&place)?)),
        Sampler::TopK { k, rng } => {
            let id = top_k(&logits.last(0)?.to_vec()?, *k, rng);
            ids.iter_mut().try_for_each(|ids| ids.slice_mut(&place)?.copy_from(&[id]))
        }
    }
}
