//! The simulator as a device.

use super::scratch::Wanted;
use crate::{error::Error, execute::Outcome};
use backend_ptx::Ptx;
use ptx_sim::{Launch, Memory, Module};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Bytes that the tensors of one launch may take.
pub(crate) const CAPACITY: u64 = 16 << 30;

/// The simulator with the modules it has parsed.
#[derive(Debug, Default)]
pub(crate) struct SimDevice {
    seed: u64,
    /// Parsed modules by the text of their PTX.
    parsed: Mutex<HashMap<String, Arc<Module>>>,
}

/// A tensor of a launch.
pub(crate) struct SimTensor<'a> {
    /// Name of the parameter, for reports.
    pub(crate) name: &'a str,
    /// Its contents.
    pub(crate) data: SimData<'a>,
}

/// Contents of a tensor; what may be written comes back.
pub(crate) enum SimData<'a> {
    Read(&'a [u8]),
    Write(&'a mut Vec<u8>),
}

impl SimDevice {
    pub(crate) fn new(seed: u64) -> Self {
        SimDevice { seed, parsed: Mutex::default() }
    }

    /// Runs a kernel on copies of the tensors. `arguments` gets the addresses of the tensors and of the scratch
    /// buffers, in order, and returns the bytes of each parameter.
    pub(crate) fn run(
        &self,
        ptx: &Ptx,
        grid: u32,
        tensors: Vec<SimTensor<'_>>,
        scratch: &[Wanted],
        arguments: impl FnOnce(&[u64], &[u64]) -> Vec<Vec<u8>>,
    ) -> Result<Outcome, Error> {
        let refused =
            |reason: &dyn ToString| Error::Simulator { entry: ptx.entry.clone(), reason: reason.to_string() };
        let module = self.module(ptx).map_err(|e| refused(&e))?;
        let mut memory = Memory::with_capacity(CAPACITY);
        let mut place = |name: &str, data: &[u8]| {
            let address = memory.alloc(name, data.len() as u64).map_err(|_| Error::OutOfMemory {
                device: "the simulator".into(),
                bytes: data.len() as u128,
                free: memory.capacity() - memory.used(),
            })?;
            memory.write(address, data).map_err(|e| refused(&e))?;
            Ok(address)
        };
        let addresses = tensors
            .iter()
            .map(|tensor| match &tensor.data {
                SimData::Read(data) => place(tensor.name, data),
                SimData::Write(data) => place(tensor.name, data),
            })
            .collect::<Result<Vec<u64>, Error>>()?;
        // Without a value: not a number, so that it is seen.
        let scratch = scratch
            .iter()
            .map(|wanted| {
                place("scratch", &vec![if wanted.zeroed { 0 } else { 0xff }; wanted.bytes as usize])
            })
            .collect::<Result<Vec<u64>, Error>>()?;
        let launch = Launch {
            kernel: ptx.entry.clone(),
            grid: [grid, 1, 1],
            block: [ptx.threads, 1, 1],
            dynamic_shared: ptx.dynamic_shared,
            params: arguments(&addresses, &scratch),
            seed: self.seed,
            ..Launch::default()
        };
        let report = ptx_sim::launch(&module, &mut memory, &launch).map_err(|e| refused(&e))?;
        for (tensor, address) in tensors.into_iter().zip(addresses) {
            if let SimData::Write(data) = tensor.data {
                memory.read(address, data).map_err(|e| refused(&e))?;
            }
        }
        Ok(Outcome { counters: Some(report.counters), findings: report.findings, ..Outcome::default() })
    }

    fn module(&self, ptx: &Ptx) -> Result<Arc<Module>, ptx_sim::ParseError> {
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = parsed.get(&ptx.text) {
            return Ok(module.clone());
        }
        let module = Arc::new(Module::parse(&ptx.text)?);
        parsed.insert(ptx.text.clone(), module.clone());
        Ok(module)
    }
}
