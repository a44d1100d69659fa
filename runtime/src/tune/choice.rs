//! What a tuner found.

use super::L2;
use crate::{
    space::{Configuration, Dropped},
    table::aligned,
};
use std::fmt;
use tile_dsl::{dtype::DType, program::Variant};

/// The configurations of a space, the fastest first, for one device and class of shapes. Prints as a table.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Kernel.
    pub kernel: &'static str,
    /// The schedule with lists.
    pub space: &'static str,
    /// Element type of the generic parameter.
    pub dtype: Option<DType>,
    /// Name of the device.
    pub device: String,
    /// Values of the named dims of the launch that was tuned.
    pub dims: Vec<(String, i64)>,
    /// What the L2 cache held.
    pub l2: L2,
    /// Where the times are from.
    pub origin: Origin,
    /// All that could run, the fastest first; never empty.
    pub ranked: Vec<Ranked>,
    /// What could not run here, with the reason.
    pub failed: Vec<(&'static Configuration, String)>,
    /// What was dropped while compiling, for this element type.
    pub dropped: Vec<Dropped>,
    /// What went wrong without stopping the tuner, such as a cache that cannot be written.
    pub warnings: Vec<String>,
}

/// Where the times of a [`Choice`] are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Measured now.
    Measured,
    /// Measured earlier, for this device and a launch of the same class, and kept on disk.
    Cache,
    /// Predicted from the simulator's counts, as there is no GPU: the least that the busiest resource of an H200 takes.
    Predicted,
}

/// How a configuration did.
#[derive(Clone, Copy, Debug)]
pub struct Ranked {
    /// The configuration.
    pub configuration: &'static Configuration,
    /// Variant that the launch runs.
    pub variant: Variant,
    /// Microseconds: the median of what was measured, or the prediction.
    pub us: f64,
    /// Launches that were timed. The slower a configuration, the earlier it dropped out.
    pub launches: u32,
    /// The resource that takes longest, of a prediction.
    pub bound: Option<&'static str>,
}

impl Choice {
    /// The fastest.
    pub fn best(&self) -> &'static Configuration {
        self.ranked[0].configuration
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} under {}", self.kernel, self.space)?;
        if let Some(dtype) = self.dtype {
            write!(f, " · {dtype}")?;
        }
        for (name, value) in &self.dims {
            write!(f, " · {name} = {value}")?;
        }
        let measured = match self.l2 {
            L2::Cold => "medians, L2 cache emptied before each launch",
            L2::Warm => "medians, each launch right after the same",
        };
        match self.origin {
            Origin::Measured => writeln!(f, " · {} · {measured}", self.device)?,
            Origin::Cache => {
                writeln!(f, " · {} · {measured} · measured earlier, from the cache", self.device)?
            }
            Origin::Predicted => {
                writeln!(f, "\nprediction, not a measurement: counted by the simulator, at an H200's rates")?;
            }
        }
        let predicted = self.origin == Origin::Predicted;
        let head = ["configuration", "variant", if predicted { "predicted µs" } else { "µs" }, "of the best"];
        let last = if predicted { "bound by" } else { "launches" };
        let mut rows = vec![head.into_iter().chain([last]).map(String::from).collect::<Vec<_>>()];
        let best = self.ranked[0].us;
        for r in &self.ranked {
            rows.push(vec![
                r.configuration.text().into(),
                r.variant.to_string(),
                format!("{:.2}", r.us),
                format!("{:.3}", r.us / best),
                r.bound.map_or_else(|| r.launches.to_string(), String::from),
            ]);
        }
        f.write_str(&aligned(&rows, 2))?;
        for (configuration, why) in &self.failed {
            writeln!(f, "cannot run here: {}: {why}", configuration.text())?;
        }
        self.dropped.iter().try_for_each(|dropped| writeln!(f, "dropped while compiling: {dropped}"))?;
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))
    }
}
