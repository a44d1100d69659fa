//! What NVIDIA's assembler makes of a schedule.

use serde_json::{Value, json};
use tile_dsl::{dtype::DType, program::Variant};
use tile_runtime::{AnySchedule, Ptx};
use tile_sass::{Options, Resources, Tools};

/// Machine code of a schedule, and what it takes.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Name of the schedule.
    pub schedule: &'static str,
    /// Element type of the kernel's generic parameter.
    pub dtype: Option<DType>,
    /// Name of the kernel.
    pub entry: String,
    /// The listing.
    pub sass: String,
    /// What it takes, and its hot loop.
    pub resources: Resources,
}

impl Machine {
    /// Assembles a variant for an architecture, by default the schedule's target.
    ///
    /// # Errors
    /// When it cannot be compiled, or ptxas or nvdisasm is missing or refuses it.
    pub fn of(
        schedule: &dyn AnySchedule,
        dtype: Option<DType>,
        variant: Variant,
        arch: Option<String>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        Self::made_of(schedule, dtype, &tile_runtime::ptx(schedule, dtype, variant)?, arch)
    }

    /// The same of the kernel for several problems in one launch.
    ///
    /// # Errors
    /// As [`Machine::of`].
    pub fn grouped(
        schedule: &dyn AnySchedule,
        dtype: Option<DType>,
        variant: Variant,
        arch: Option<String>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        Self::made_of(schedule, dtype, &tile_runtime::ptx_grouped(schedule, dtype, variant)?, arch)
    }

    /// Assembles PTX that a schedule was compiled to.
    ///
    /// # Errors
    /// When ptxas or nvdisasm is missing or refuses it.
    pub fn made_of(
        schedule: &dyn AnySchedule,
        dtype: Option<DType>,
        ptx: &Ptx,
        arch: Option<String>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let assembly = Tools::find()?.assemble(&ptx.text, &Options { arch, level: None })?;
        let resources = assembly.resources(ptx.threads, ptx.dynamic_shared);
        Ok(Machine {
            schedule: schedule.name(),
            dtype,
            entry: ptx.entry.clone(),
            sass: assembly.sass,
            resources,
        })
    }

    /// One JSON object.
    pub fn to_json(&self) -> Value {
        let r = &self.resources;
        let widths: Vec<Value> = r
            .hot
            .widths
            .iter()
            .map(|w| json!({ "access": w.kind, "bits": w.bits, "count": w.count }))
            .collect();
        json!({
            "schedule": self.schedule,
            "dtype": self.dtype.map(|d| d.name()),
            "arch": r.arch,
            "threads": r.threads,
            "registers": r.registers,
            "spills": r.spills,
            "shared_bytes": r.shared,
            "ctas_per_sm": r.occupancy.map(|o| o.ctas),
            "hot_loop_instructions": r.hot.instructions,
            "hot_loop_fma": r.hot.fma,
            "hot_loop_fma_reused": r.hot.reused,
            "fma_share": r.hot.fma_share(),
            "hot_loop_accesses": widths,
            "remarks": r.remarks,
        })
    }
}
