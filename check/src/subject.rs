//! What the rules look at: a program for some sizes, its kernel IR and what that asks of memory.

use crate::{
    CheckError, Machine,
    traffic::{Access, Count, Form, Launch, Traffic, TrafficError, traffic},
};
use std::collections::BTreeMap;
use tile_dsl::{
    kernel::{Kernel, Stmt},
    lower::{Strided, assumptions, chosen, lower, promises},
    program::{Program, Variant},
};

/// Launches of so few CTAs are looked at as a whole. Of others the first stands for all.
const FEW: u64 = 8;
/// Alignment of buffers that a launch allocates.
const ALIGNMENT: u64 = 256;

/// A program for some sizes.
pub struct Subject<'a> {
    pub program: &'a Program,
    pub dims: &'a BTreeMap<String, i64>,
    pub machine: Machine,
    pub variant: Variant,
    pub kernel: Kernel,
    /// Tiles of the launch.
    pub tiles: u64,
    /// Its CTAs: those of persistent ones that are resident.
    pub ctas: u64,
    pub traffic: Traffic,
}

/// The registers of a thread, as far as they are known before the assembler has run.
pub struct Registers {
    pub each: u32,
    /// Whether the schedule says it; otherwise no more is known than that there are at least so many.
    pub exact: bool,
    /// Where the number is from.
    pub source: String,
}

impl<'a> Subject<'a> {
    pub fn of(
        program: &'a Program,
        dims: &'a BTreeMap<String, i64>,
        machine: Machine,
    ) -> Result<Self, CheckError> {
        let extents = program.nest.kernel.axes.iter().flat_map(|axis| axis.extent.dims.keys());
        let tensors = program.nest.kernel.tensors.iter().flat_map(|t| &t.dims);
        let all = extents.chain(tensors.flat_map(|extent| extent.dims.keys()));
        let mut missing: Vec<String> = all.filter(|dim| !dims.contains_key(*dim)).cloned().collect();
        missing.sort();
        missing.dedup();
        if !missing.is_empty() {
            return Err(CheckError::Sizes(missing));
        }
        if let Some(broken) = promises(&program.nest).iter().find(|p| !p.assumption.holds(dims, &[])) {
            let (schedule, directive) = (program.schedule.name.clone(), broken.directive.clone());
            return Err(CheckError::Promise { schedule, directive });
        }
        let bases = vec![ALIGNMENT; program.nest.kernel.tensors.len()];
        let variants = [Variant::Exact, Variant::Aligned, Variant::General];
        let variant = chosen(program, &variants, &Strided::new())
            .into_iter()
            .find(|v| assumptions(program, *v).iter().all(|a| a.holds(dims, &bases)))
            .ok_or(CheckError::Variant)?;
        let kernel = lower(program, variant)?;
        let tiles = kernel.ctas(dims).ok_or(CheckError::Variant)?;
        let resident = kernel.persistent.map_or(u64::MAX, |n| u64::from(n) * machine.multiprocessors());
        let ctas = tiles.min(resident);
        let traffic = looked_at(&kernel, dims, ctas)?;
        Ok(Subject { program, dims, machine, variant, kernel, tiles, ctas, traffic })
    }

    /// What another kernel of the same launch asks.
    pub fn traffic_of(&self, kernel: &Kernel) -> Option<Traffic> {
        looked_at(kernel, self.dims, self.ctas).ok()
    }

    /// The accesses in global or shared memory, by buffer, form and bytes of a lane, with their sum.
    pub fn accesses(&self, shared: bool) -> Vec<(Vec<&Access>, Count)> {
        let mut groups: BTreeMap<(&str, Form, u32), (Vec<&Access>, Count)> = BTreeMap::new();
        for access in self.traffic.accesses.iter().filter(|a| a.shared == shared) {
            let key = (access.buffer.as_str(), access.form, access.bytes);
            let (all, sum) = groups.entry(key).or_default();
            all.push(access);
            sum.add(access.count);
        }
        groups.into_values().collect()
    }

    /// Registers of a thread.
    pub fn registers(&self) -> Registers {
        if let Some(each) = by_role(&self.kernel) {
            let source = "the average of what `registers(..)` gives its roles".into();
            return Registers { each, exact: true, source };
        }
        // The assembler may give the registers of one value to another later: no more is certain than that the largest has its own.
        let values = self.kernel.frags.iter().map(|f| (f.slots * f.dtype.bytes()).div_ceil(4));
        let each = values.max().unwrap_or(0);
        let source = format!("its largest value alone fills {each}; the assembler decides on the others");
        Registers { each, exact: false, source }
    }

    /// CTAs that fit on a multiprocessor by each resource; by registers at most so many.
    pub fn fit(&self) -> Vec<(u32, &'static str)> {
        let Some(limits) = self.machine.limits() else { return Vec::new() };
        let (registers, shared) = (self.registers().each, self.kernel.shared_bytes() as u32);
        limits.each(self.kernel.threads, registers, shared).to_vec()
    }

    /// CTAs on a multiprocessor: what persistent ones ask for, else at most so many.
    pub fn resident(&self) -> u32 {
        let fit = self.fit().into_iter().map(|(ctas, _)| ctas).min().unwrap_or(1);
        self.kernel.persistent.unwrap_or(fit).max(1)
    }
}

/// The requests of a launch, or of its first CTA.
fn looked_at(kernel: &Kernel, dims: &BTreeMap<String, i64>, ctas: u64) -> Result<Traffic, TrafficError> {
    let of_cluster = u64::from(kernel.cluster.unwrap_or(1));
    let some = if ctas <= FEW { ctas } else { of_cluster.min(ctas) };
    traffic(kernel, &Launch { dims, ctas, looked_at: 0..some })
}

/// Registers of a thread on average, where each role takes its own number.
fn by_role(kernel: &Kernel) -> Option<u32> {
    let roles = kernel.body.iter().find_map(|stmt| match stmt {
        Stmt::Roles(roles) => Some(roles),
        _ => None,
    })?;
    let mut all = 0;
    for role in roles {
        all += role.threads * role.registers?;
    }
    Some(all.div_ceil(kernel.threads.max(1)))
}
