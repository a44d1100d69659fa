//! Targets and the budgets that follow from them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A GPU target; budgets follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Target {
    /// Compute capability times ten: 80, 86, 89, 90.
    pub sm: u32,
    /// Architecture-specific features (`sm_90a`).
    pub specific: bool,
}

impl Target {
    /// Where a schedule names no target: `sm_80`, the oldest supported.
    pub const DEFAULT: Target = Target { sm: 80, specific: false };

    /// The oldest whose CTAs form clusters.
    pub const CLUSTERS: Target = Target { sm: 90, specific: false };

    /// The one whose warpgroups multiply, and share registers out.
    pub const WARPGROUPS: Target = Target { sm: 90, specific: true };

    /// Parses `sm_80`, `sm_86`, `sm_89`, `sm_90`, `sm_90a`.
    pub fn parse(text: &str) -> Option<Target> {
        let digits = text.strip_prefix("sm_")?;
        let (digits, specific) = digits.strip_suffix('a').map_or((digits, false), |d| (d, true));
        let sm = digits.parse().ok()?;
        (matches!(sm, 80 | 86 | 87 | 89 | 90) && (!specific || sm >= 90)).then_some(Target { sm, specific })
    }

    /// Shared memory that one CTA may use, in bytes (CUDA C++ Programming Guide, table of technical specifications).
    pub const fn shared_bytes(self) -> u32 {
        let kib = match self.sm {
            86 | 89 => 99,
            90.. => 227,
            _ => 163,
        };
        kib * 1024
    }

    /// Threads of one CTA.
    pub const fn threads(self) -> u32 {
        1024
    }

    /// Threads that an SM holds at once.
    pub const fn resident_threads(self) -> u32 {
        match self.sm {
            86 | 87 | 89 => 1536,
            _ => 2048,
        }
    }

    /// CTAs that an SM holds at once.
    pub const fn resident_ctas(self) -> u32 {
        match self.sm {
            86 | 87 => 16,
            89 => 24,
            _ => 32,
        }
    }

    /// CTAs of so many threads and bytes of shared memory that an SM holds at once, as far as registers do. It keeps 1 KB for
    /// each.
    pub fn resident(self, threads: u64, shared: u64) -> u64 {
        let by_threads = u64::from(self.resident_threads()) / threads.clamp(1, 1 << 16).next_multiple_of(32);
        let by_shared = (u64::from(self.shared_bytes()) + 1024) / shared.saturating_add(1024);
        by_threads.min(by_shared).min(self.resident_ctas().into())
    }

    /// 32-bit registers of an SM.
    pub const fn resident_registers(self) -> u32 {
        65_536
    }

    /// 32-bit registers of one thread.
    pub const fn registers(self) -> u32 {
        255
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.sm, if self.specific { "a" } else { "" })
    }
}
