//! The resource report of a kernel.

use crate::{
    listing::HotLoop,
    occupancy::{Limits, Occupancy},
};
use std::fmt;

/// What `ptxas -v` says of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PtxasLog {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of a thread's stack in local memory.
    pub stack: u32,
    /// Bytes stored by spilling, a thread.
    pub spill_stores: u32,
    /// Bytes loaded by spilling, a thread.
    pub spill_loads: u32,
    /// Bytes of shared memory that the module declares itself.
    pub shared: u32,
    /// Remarks with a code, such as C7511 (too few registers, wgmma serialised).
    pub remarks: Vec<String>,
}

impl PtxasLog {
    /// Reads a log; numbers that it does not hold are 0.
    pub fn parse(log: &str) -> Self {
        let before = |text: &str| -> u32 {
            log.lines()
                .find_map(|line| {
                    line.split_once(text).and_then(|(b, _)| b.rsplit([' ', ',']).next()?.parse().ok())
                })
                .unwrap_or(0)
        };
        let coded = |line: &&str| {
            line.split(|c: char| !c.is_ascii_alphanumeric())
                .any(|w| w.len() == 5 && w.starts_with("C7") && w[1..].chars().all(|c| c.is_ascii_digit()))
        };
        PtxasLog {
            registers: before(" registers"),
            stack: before(" bytes stack frame"),
            spill_stores: before(" bytes spill stores"),
            spill_loads: before(" bytes spill loads"),
            shared: before(" bytes smem"),
            remarks: log.lines().filter(coded).map(|l| l.trim().to_string()).collect(),
        }
    }
}

/// Registers, spills, shared memory, occupancy and hot loop of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Resources {
    /// Architecture it was assembled for.
    pub arch: String,
    /// Threads of a CTA.
    pub threads: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes that a thread spills: the larger of stored and loaded.
    pub spills: u32,
    /// Bytes of shared memory of a CTA.
    pub shared: u32,
    /// What is resident on a multiprocessor; `None` for an unknown architecture.
    pub occupancy: Option<Occupancy>,
    /// The loop with most of the work.
    pub hot: HotLoop,
    /// `ptxas`' remarks.
    pub remarks: Vec<String>,
}

impl Resources {
    /// Puts a report together; `dynamic_shared` is what a launch provides beyond what the module declares.
    pub fn new(arch: &str, log: &PtxasLog, hot: HotLoop, threads: u32, dynamic_shared: u32) -> Self {
        let shared = log.shared + dynamic_shared;
        Resources {
            arch: arch.into(),
            threads,
            registers: log.registers,
            spills: log.spill_stores.max(log.spill_loads),
            shared,
            occupancy: Limits::of(arch).map(|l| l.occupancy(threads, log.registers, shared)),
            hot,
            remarks: log.remarks.clone(),
        }
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "assembled for    {}", self.arch)?;
        writeln!(f, "threads a CTA    {}", self.threads)?;
        writeln!(f, "registers        {} a thread", self.registers)?;
        writeln!(f, "spills           {} bytes a thread", self.spills)?;
        writeln!(f, "shared memory    {} bytes a CTA", self.shared)?;
        match self.occupancy {
            Some(o) => writeln!(
                f,
                "occupancy        {} CTAs a multiprocessor, {} of {} warps; {} limit it",
                o.ctas, o.warps, o.of_warps, o.limit
            )?,
            None => writeln!(f, "occupancy        unknown for {}", self.arch)?,
        }
        let hot = &self.hot;
        let what = if hot.is_loop { "hot loop        " } else { "no loop         " };
        writeln!(
            f,
            "{what} {} instructions, {} FMA ({:.1} %), {} of these reuse an operand",
            hot.instructions,
            hot.fma,
            100.0 * hot.fma_share(),
            hot.reused
        )?;
        if hot.matrix > 0 {
            writeln!(f, "tensor cores     {} instructions in it", hot.matrix)?;
        }
        let widths: Vec<_> = hot.widths.iter().map(ToString::to_string).collect();
        writeln!(
            f,
            "its accesses     {}",
            if widths.is_empty() { "none".into() } else { widths.join(", ") }
        )?;
        self.remarks.iter().try_for_each(|r| writeln!(f, "remark           {r}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90'
ptxas info    : Function properties for k
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 191 registers, used 1 barriers, 12416 bytes smem, 392 bytes cmem[0]
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas info    : Compile time = 101.231 ms";

    #[test]
    fn logs_are_read() {
        let log = PtxasLog::parse(LOG);
        assert_eq!((log.registers, log.stack, log.spill_stores, log.spill_loads), (191, 16, 8, 12));
        assert_eq!(log.shared, 12416);
        assert_eq!(log.remarks.len(), 1);
        assert!(log.remarks[0].contains("C7511"));
        assert_eq!(PtxasLog::parse("nothing"), PtxasLog::default());
    }

    #[test]
    fn the_report_adds_dynamic_shared_memory_and_says_what_limits_occupancy() {
        let hot = crate::Listing::parse("/*0000*/ FFMA R1, R2, R3, R1 ;").hot_loop();
        let resources = Resources::new("sm_90", &PtxasLog::parse(LOG), hot, 128, 100_000);
        assert_eq!((resources.spills, resources.shared), (12, 112_416));
        let text = resources.to_string();
        for part in ["191 a thread", "2 CTAs a multiprocessor, 8 of 64 warps", "1 FMA (100.0 %)", "C7511"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
