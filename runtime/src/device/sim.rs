//! The simulator as a device.

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

    /// Runs a kernel on copies of the tensors. `arguments` gets the address of each tensor, in order, and returns
    /// the bytes of each parameter.
    pub(crate) fn run(
        &self,
        ptx: &Ptx,
        grid: u32,
        tensors: Vec<SimTensor<'_>>,
        arguments: impl FnOnce(&[u64]) -> Vec<Vec<u8>>,
    ) -> Result<Outcome, Error> {
        let refused =
            |reason: &dyn ToString| Error::Simulator { entry: ptx.entry.clone(), reason: reason.to_string() };
        let module = self.module(ptx).map_err(|e| refused(&e))?;
        let mut memory = Memory::with_capacity(CAPACITY);
        let mut addresses = Vec::new();
        for tensor in &tensors {
            let data = match &tensor.data {
                SimData::Read(data) => data,
                SimData::Write(data) => data.as_slice(),
            };
            let address = memory.alloc(tensor.name, data.len() as u64).map_err(|_| Error::OutOfMemory {
                device: "the simulator".into(),
                bytes: data.len() as u128,
                free: memory.capacity() - memory.used(),
            })?;
            memory.write(address, data).map_err(|e| refused(&e))?;
            addresses.push(address);
        }
        let launch = Launch {
            kernel: ptx.entry.clone(),
            grid: [grid, 1, 1],
            block: [ptx.threads, 1, 1],
            dynamic_shared: ptx.dynamic_shared,
            params: arguments(&addresses),
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
