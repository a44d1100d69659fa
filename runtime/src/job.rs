//! Puts a launch on a queue: a call, or the problems of a group as one kernel.

use crate::{
    device::{CudaDevice, CudaQueue, Kind, Wanted},
    error::Error,
    execute::{Call, Placed, Simulated, Step},
    memory::Memory,
    parameters::Parameters,
    problems::{self, Rows},
    queue::{Queue, State},
    tensor_map::Padded,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// What is launched as one kernel: a call, or the problems of a group.
#[derive(Clone, Copy)]
pub(crate) struct Job<'c, 'a> {
    /// At least one; if the kernel is grouped, any number.
    pub(crate) calls: &'c [Call<'c, 'a>],
    /// CTAs of the launch, more than 0.
    pub(crate) ctas: u32,
}

/// What a launch on a GPU consists of.
pub(crate) enum Piece<'p> {
    /// What the host knows, to scratch memory of the launch.
    Write { pointer: u64, bytes: Vec<u8> },
    /// A step of the GPU's.
    Step(Step<&'p mut Parameters>),
}

/// What a launch on a GPU needs beside its tensors.
#[derive(Default)]
pub(crate) struct Needs {
    /// Of each call; empty where the kernel has no tensor maps.
    padded: SmallVec<[Vec<Padded>; 1]>,
    /// Scratch memory: that of each call, then copies to padded rows, call by call; the table of a group last.
    pub(crate) wanted: SmallVec<[Wanted; 4]>,
}

impl<'c, 'a> Job<'c, 'a> {
    /// The first call: the kernel is the same for all.
    pub(crate) fn first(&self) -> &'c Call<'c, 'a> {
        &self.calls[0]
    }

    /// Queues the launch. On the simulator it has ended then. One that is timed is the kernel's alone, no graph of it.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] for scratch memory, [`Error::Simulator`], the driver's.
    pub(crate) fn queue(
        &self,
        kind: &Kind,
        queue: &Arc<Queue>,
        timed: bool,
    ) -> Result<Option<Box<Simulated>>, Error> {
        match (kind, &queue.cuda) {
            (Kind::Sim(_), _) => {
                self.memories().try_for_each(|(memory, writes)| memory.order(queue, writes))?;
                self.simulate(kind)
            }
            (Kind::Cuda(device), Some(cuda)) => self.queue_cuda(device, cuda, queue, timed).map(|()| None),
            (Kind::Cuda(_), None) => unreachable!("the stream was checked to be the device's"),
        }
    }

    /// The memory of each tensor, and whether the launch writes it.
    pub(crate) fn memories(&self) -> impl Iterator<Item = (&'c Arc<Memory>, bool)> {
        self.calls
            .iter()
            .flat_map(|c| c.tensors.iter())
            .map(|(_, argument)| (&argument.raw().memory, argument.is_out()))
    }

    /// Runs the launch, if the device is the simulator.
    ///
    /// # Errors
    /// [`Error::Simulator`].
    pub(crate) fn simulate(&self, kind: &Kind) -> Result<Option<Box<Simulated>>, Error> {
        match kind {
            Kind::Sim(sim) => sim.run(self).map(|ran| Some(Box::new(ran))),
            Kind::Cuda(_) => Ok(None),
        }
    }

    fn queue_cuda(
        &self,
        device: &CudaDevice,
        cuda: &CudaQueue,
        queue: &Arc<Queue>,
        timed: bool,
    ) -> Result<(), Error> {
        self.memories().try_for_each(|(memory, writes)| memory.order(queue, writes))?;
        let first = self.first();
        let ticket = queue.launch(first.plan, first.variant, |state| {
            let State { scratch, parameters, repeated, .. } = state;
            let needs = self.needs();
            let scratch = scratch.reserve(cuda, &needs.wanted)?;
            self.pieces(device, needs, &scratch, parameters, |piece| {
                // SAFETY: the words follow the parameters from which the entry was compiled, and each copy and its tensor are
                // as large as their geometries say. The tensors were checked to be as large as the kernel of a proved
                // schedule reaches; they are freed and overwritten only after this work, which `used` notes below, and no
                // other work writes them meanwhile: they are borrowed, mutably where the kernel writes, and other queues
                // wait, which `order` saw to. What is written lies in pageable memory.
                unsafe {
                    match piece {
                        Piece::Write { pointer, bytes } => cuda.upload(pointer, &bytes),
                        Piece::Step(Step::Clear { pointer, bytes }) => cuda.fill(pointer, 0, bytes),
                        Piece::Step(Step::Kernel { loaded, ctas, parameters }) if timed => {
                            cuda.launch(&loaded, ctas, parameters)
                        }
                        Piece::Step(Step::Kernel { loaded, ctas, parameters }) => {
                            repeated.launch(cuda, loaded, ctas, parameters)
                        }
                    }
                }
            })
        });
        // What was queued before the failure uses the memory too.
        let ticket = ticket.inspect_err(|_| cuda.synchronize().unwrap_or(()))?;
        self.memories().for_each(|(memory, writes)| memory.used(queue, ticket, writes));
        Ok(())
    }

    /// The scratch memory of the launch on a GPU.
    pub(crate) fn needs(&self) -> Needs {
        let compiled = self.first().compiled;
        if compiled.maps.is_empty() && compiled.scratch_buffers() == 0 && compiled.grouped.is_none() {
            return Needs::default();
        }
        let padded: SmallVec<[Vec<Padded>; 1]> =
            self.calls.iter().map(|call| call.padded(call.bases)).collect();
        let mut wanted = SmallVec::new();
        self.calls.iter().for_each(|call| wanted.extend(call.compiled.wanted(call.ctas)));
        for padded in &padded {
            wanted.extend(padded.iter().map(|p| Wanted { bytes: p.bytes, zeroed: p.empty && !p.stored }));
        }
        if let Some(table) = &compiled.grouped {
            wanted.push(Wanted { bytes: problems::bytes(table, self.calls.len()), zeroed: false });
        }
        Needs { padded, wanted }
    }

    /// Calls `f` with all that the launch is on a GPU, in order: copies to padded rows of what maps read, what is
    /// cleared, the table of a group, the kernel, copies back of what it stored by maps. `scratch` has the addresses of what it needs;
    /// `parameters` is room for those of the kernel.
    ///
    /// # Errors
    /// [`Error::TensorMap`], [`Error::TooLarge`]; those of `f`; the driver's.
    pub(crate) fn pieces(
        &self,
        device: &CudaDevice,
        needs: Needs,
        scratch: &[u64],
        parameters: &mut Parameters,
        mut f: impl FnMut(Piece<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let loaded = self.first().loaded.expect("loaded for the GPU");
        let buffers = self.first().compiled.scratch_buffers();
        let (own, mut pads) = scratch.split_at(buffers * self.calls.len());
        let table = self.first().compiled.grouped.as_ref();
        let mut rows = table.map(|table| Rows::new(table, &self.first().compiled.widths));
        let mut padded: SmallVec<[Placed; 1]> = SmallVec::new();
        let mut needed = needs.padded.into_iter();
        for (n, call) in self.calls.iter().enumerate() {
            let needed = needed.next().unwrap_or_default();
            let (here, rest) = pads.split_at(needed.len());
            let placed: Placed = needed.into_iter().zip(here.iter().copied()).collect();
            call.before(device, &placed, &mut |step| f(Piece::Step(step)))?;
            call.parameters(&own[n * buffers..][..buffers], &placed, parameters)?;
            if let Some(rows) = &mut rows {
                rows.push(&parameters.words, |n| parameters.map(n), call.ctas);
            }
            padded.push(placed);
            pads = rest;
        }
        if let Some(rows) = rows {
            let (bytes, words) = rows.finish();
            f(Piece::Write { pointer: pads[0], bytes })?;
            *parameters = Parameters::plain(words(pads[0]).to_vec());
        }
        f(Piece::Step(Step::Kernel { loaded, ctas: self.ctas, parameters }))?;
        let mut step = |step: Step<&mut Parameters>| f(Piece::Step(step));
        self.calls.iter().zip(&padded).try_for_each(|(call, padded)| call.after(device, padded, &mut step))
    }
}
