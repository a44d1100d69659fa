//! What a kernel takes of a multiprocessor: from the kernel IR and the counts of the run.

use crate::model::{Budgets, Fragment, GridFactor, Limit, Rates, ResourceTime, Roofline, SharedBuffer};
use ptx_sim::{Counters, InstClass};
use tile_dsl::{
    kernel::{Async, Kernel, Stmt},
    nest::Atom,
    program::Program,
};
use tile_runtime::{
    LaunchReport,
    roofline::{Gpu, Work, times},
};
use tile_sass::Limits;

/// The GPU whose rates are in the repository.
const GPU: (&str, Gpu, u32) = ("NVIDIA H200", Gpu::H200, 90);
/// Registers that a thread can have.
const MOST_REGISTERS: u32 = 255;

/// The budgets of a kernel.
pub(crate) fn collect(
    program: &Program,
    kernel: &Kernel,
    report: &LaunchReport,
    counters: &Counters,
) -> Budgets {
    let (gpu_name, gpu, sm) = GPU;
    let (threads, shared_bytes) = (report.threads, report.shared_bytes);
    let driver = report.resources.map(|r| (r.registers, "says the driver".to_string()));
    let registers = by_role(kernel).or(driver);
    let limits = Limits::of(&kernel.target.to_string());
    // The assembler may give the registers of one value to another later: no more is certain than that the largest has its own.
    let values = kernel.frags.iter().map(|f| (f.slots * f.dtype.bytes()).div_ceil(4)).max().unwrap_or(0);
    let known = registers.as_ref().map_or(values, |r| r.0);
    let each = limits.map(|limits| {
        let each = limits.each(threads, known, shared_bytes).into_iter();
        each.map(|(ctas, resource)| Limit { resource: resource.into(), ctas }).collect::<Vec<_>>()
    });
    let least = each.iter().flatten().map(|l| l.ctas).min().unwrap_or(0);
    let allowed = limits.filter(|_| least > 0).and_then(|limits| {
        let fits = |r: &u32| {
            limits
                .each(threads, *r, shared_bytes)
                .iter()
                .any(|(ctas, what)| *what == "registers" && *ctas >= least)
        };
        // With the most registers that there are, nothing is to be said.
        (1..=MOST_REGISTERS).rev().find(fits).filter(|most| *most < MOST_REGISTERS)
    });
    let ctas = (counters.ctas as f64).max(1.0);
    let tensors = tensor_bytes(program, report);
    let issued = counters.instructions.warp as f64 / ctas;
    let each_gpu = gpu.multiprocessors / ctas;
    let work = Work::counted(counters).times(1.0 / ctas);
    let cycles = |(resource, seconds): (&str, f64)| ResourceTime {
        resource: resource.into(),
        cycles: seconds * gpu.clock_hz,
    };
    let mut resources: Vec<ResourceTime> =
        times(&gpu, &work, issued, tensors as f64 * each_gpu).into_iter().map(cycles).collect();
    let atom = atom(kernel);
    let rate = atom.and_then(|a| a.row().rate(sm));
    if let Some(rate) = rate {
        let cycles = tensor_flops(counters) as f64 / 2.0 / ctas / f64::from(rate);
        resources.insert(0, ResourceTime { resource: "tensor cores".into(), cycles });
    }
    let (peak, peak_of) = match (atom, rate) {
        (Some(atom), Some(rate)) => (f64::from(rate), format!("tensor cores, {}", atom.label())),
        (Some(_), None) => (0.0, String::new()),
        (None, _) => (gpu.fma_lanes, "multiply-adds of f32".into()),
    };
    let sectors =
        counters.global_load.sectors + counters.global_store.sectors + counters.global_atomic.sectors;
    let roofline = (peak > 0.0 && counters.flops > 0 && sectors > 0 && tensors > 0).then(|| Roofline {
        flops: counters.flops,
        bytes_moved: sectors * super::memory::SECTOR,
        bytes_least: tensors,
        peak: 2.0 * peak * gpu.multiprocessors * gpu.clock_hz,
        peak_of,
        bandwidth: gpu.dram,
    });
    Budgets {
        threads,
        shared_bytes,
        shared: kernel
            .shared
            .iter()
            .map(|s| SharedBuffer {
                name: s.name.clone(),
                dtype: s.dtype.to_string(),
                elements: s.elems,
                start: s.start,
                bytes: s.bytes(),
            })
            .collect(),
        fragments: kernel
            .frags
            .iter()
            .map(|f| Fragment { name: f.name.clone(), dtype: f.dtype.to_string(), elements: f.slots })
            .collect(),
        registers_of_values: values,
        registers,
        wanted: kernel.min_ctas,
        limits: each.unwrap_or_default(),
        registers_allowed: allowed,
        grid: kernel
            .grid
            .iter()
            .map(|axis| GridFactor {
                extent: axis.extent.to_string(),
                dims: axis.extent.dims.clone(),
                constant: axis.extent.constant,
                tile: axis.tile,
                period: axis.period,
            })
            .collect(),
        persistent: kernel.persistent,
        cluster: kernel.cluster,
        times: resources,
        roofline,
        gpu: Rates { name: gpu_name, multiprocessors: gpu.multiprocessors as u32, clock_hz: gpu.clock_hz },
    }
}

/// Registers of a thread on average, where each role takes its own number.
fn by_role(kernel: &Kernel) -> Option<(u32, String)> {
    let roles = kernel.body.iter().find_map(|stmt| match stmt {
        Stmt::Roles(roles) => Some(roles),
        _ => None,
    })?;
    let mut all = 0;
    let mut each: Vec<String> = Vec::new();
    for role in roles {
        all += role.threads * role.registers?;
        each.push(role.registers?.to_string());
    }
    let average = all.div_ceil(kernel.threads.max(1));
    Some((average, format!("on average, says the schedule: {} by role", each.join(", "))))
}

/// The instruction of the tensor cores that a kernel multiplies with.
fn atom(kernel: &Kernel) -> Option<Atom> {
    let mut found = None;
    for stmt in &kernel.body {
        stmt.each(&mut |stmt| match stmt {
            Stmt::Mma { atom, .. } | Stmt::Async(Async::Multiply { atom, .. }) => {
                found = found.or(Some(*atom))
            }
            _ => {}
        });
    }
    found
}

/// Operations of tensor cores: all but those of lanes.
fn tensor_flops(counters: &Counters) -> u64 {
    let lanes = 2 * counters.class(InstClass::Fma).thread + counters.class(InstClass::Float).thread;
    counters.flops.saturating_sub(lanes)
}

/// Bytes of the tensors, each element once; 0 where their extents are not known.
fn tensor_bytes(program: &Program, report: &LaunchReport) -> u64 {
    let nest = &program.nest;
    let bytes = |(n, tensor): (usize, &tile_dsl::tile::Tensor)| -> Option<u64> {
        let elements = tensor.dims.iter().try_fold(1u64, |product, extent| {
            product.checked_mul(u64::try_from(extent.eval(&report.dims)?).ok()?)
        })?;
        let size = nest.elem(tile_dsl::tile::TensorId(n as u16)).bytes();
        elements.checked_mul(size.into())
    };
    let all: Option<u64> = nest.kernel.tensors.iter().enumerate().map(bytes).sum();
    all.unwrap_or(0)
}
