//! The kernels of a plan on a device: compiled and loaded when a launch first needs them.

use crate::{
    compile::{self, Compiled},
    device::{Device, Kind, Loaded},
    error::Error,
    machine,
    memory::lock,
    plan::{Gaps, Plan},
    report::PtxSource,
    row_copy,
    tensor_map::MapShape,
};
use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock},
};
use tile_dsl::{program::Variant, tile::ElemType};

/// The kernels of one plan.
pub(crate) struct Kernels {
    pub(crate) plan: Arc<Plan>,
    /// For one problem, without gaps in any tensor.
    dense: [OnceLock<Arc<Ready>>; 3],
    /// All others.
    others: Mutex<HashMap<(Variant, Gaps, bool), Arc<Ready>>>,
}

/// A kernel that can run.
pub(crate) struct Ready {
    pub(crate) compiled: Arc<Compiled>,
    /// `None` on the simulator.
    pub(crate) loaded: Option<Loaded>,
}

/// Where a kernel came from, and what went wrong meanwhile without stopping it.
pub(crate) struct Origin {
    pub(crate) source: PtxSource,
    pub(crate) warnings: Vec<String>,
}

impl Kernels {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        Kernels { plan, dense: Default::default(), others: Mutex::default() }
    }

    /// The kernel of a variant for tensors with these gaps, of several problems or of one, on the one device that these kernels
    /// are for.
    ///
    /// # Errors
    /// What the compiler or the driver says.
    pub(crate) fn ready(
        &self,
        device: &Device,
        variant: Variant,
        (gaps, grouped): (&Gaps, bool),
    ) -> Result<(Cow<'_, Arc<Ready>>, Origin), Error> {
        let known = || Origin { source: PtxSource::Memory, warnings: Vec::new() };
        if gaps.is_empty() && !grouped {
            let slot = &self.dense[variant as usize];
            if let Some(ready) = slot.get() {
                // Borrowed: threads that launch the same kernel do not meet at its count of references.
                return Ok((Cow::Borrowed(ready), known()));
            }
            let (ready, origin) = self.make(device, variant, (gaps, grouped))?;
            return Ok((Cow::Borrowed(slot.get_or_init(|| ready)), origin));
        }
        let key = (variant, gaps.clone(), grouped);
        if let Some(ready) = lock(&self.others).get(&key) {
            return Ok((Cow::Owned(ready.clone()), known()));
        }
        let (ready, origin) = self.make(device, variant, (gaps, grouped))?;
        Ok((Cow::Owned(lock(&self.others).entry(key).or_insert(ready).clone()), origin))
    }

    /// Loads the kernels that copy tensors to padded rows, which a launch of this one needs where no tensor map addresses a tensor.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn load_row_copies(&self, device: &Device, compiled: &Compiled) -> Result<(), Error> {
        let Kind::Cuda(cuda) = device.kind() else { return Ok(()) };
        let element = |map: &MapShape| match self.plan.tensors[map.tensor].elem {
            ElemType::Fixed(dtype) => Some(dtype),
            ElemType::Generic => self.plan.dtype(),
        };
        let narrowest = compiled.maps.iter().filter_map(element).map(|dtype| dtype.bytes()).min();
        for granule in narrowest.into_iter().flat_map(row_copy::granules) {
            cuda.row_copy(granule, &device.cache)?;
        }
        Ok(())
    }

    fn make(
        &self,
        device: &Device,
        variant: Variant,
        given: (&Gaps, bool),
    ) -> Result<(Arc<Ready>, Origin), Error> {
        let mut warnings = Vec::new();
        let (compiled, source) = compile::compile(&device.cache, &self.plan, variant, given, &mut warnings)?;
        let loaded = match device.kind() {
            Kind::Sim(_) => None,
            Kind::Cuda(cuda) => {
                let target = self.plan.program.schedule.target;
                let architecture = match target.specific {
                    true => format!("sm_{}a", target.sm),
                    false => format!("sm_{}", cuda.sm()),
                };
                let kept = || machine::kept(&device.cache, &compiled.ptx, &architecture, &mut warnings);
                Some(cuda.load(&compiled, kept)?)
            }
        };
        Ok((Arc::new(Ready { compiled, loaded }), Origin { source, warnings }))
    }
}
