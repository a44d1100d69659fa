//! How many CTAs fit on a multiprocessor.

/// What a multiprocessor has (CUDA C++ Programming Guide, "Compute Capabilities", table of technical specifications;
/// allocation granularities as in NVIDIA's occupancy calculator).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Resident warps.
    pub warps: u32,
    /// Resident CTAs.
    pub ctas: u32,
    /// 32-bit registers.
    pub registers: u32,
    /// Bytes of shared memory for all CTAs.
    pub shared: u32,
}

/// Bytes of shared memory that the system keeps of each CTA.
const RESERVED_SHARED: u32 = 1024;
/// Bytes in which shared memory is given out.
const SHARED_UNIT: u32 = 128;
/// Registers in which a warp's are given out.
const REGISTER_UNIT: u32 = 256;

impl Limits {
    /// Of an architecture such as `sm_90a`; `None` for one older than sm_80 or unknown.
    pub fn of(arch: &str) -> Option<Self> {
        let digits = arch.strip_prefix("sm_")?.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let (warps, ctas, shared_kb) = match digits.parse().ok()? {
            80u32 => (64, 32, 164),
            86 => (48, 16, 100),
            87 => (48, 16, 164),
            89 => (48, 24, 100),
            90 | 100 | 103 => (64, 32, 228),
            120 | 121 => (48, 24, 100),
            _ => return None,
        };
        Some(Limits { warps, ctas, registers: 65536, shared: shared_kb * 1024 })
    }

    /// CTAs of a kernel for which there is enough of each resource.
    pub fn each(&self, threads: u32, registers: u32, shared: u32) -> [(u32, &'static str); 4] {
        let warps = threads.div_ceil(32).max(1);
        let of_a_warp = (registers.max(1) * 32).next_multiple_of(REGISTER_UNIT);
        // Each of the four schedulers has a quarter of the registers for its warps.
        let by_registers = self.registers / 4 / of_a_warp * 4 / warps;
        let by_shared = self.shared / (shared + RESERVED_SHARED).next_multiple_of(SHARED_UNIT);
        [
            (self.warps / warps, "warps"),
            (by_registers, "registers"),
            (by_shared, "shared memory"),
            (self.ctas, "CTAs"),
        ]
    }

    /// The most bytes of shared memory of a CTA of which so many fit.
    pub fn shared_of_each(&self, ctas: u32) -> u32 {
        (self.shared / ctas.max(1) / SHARED_UNIT * SHARED_UNIT).saturating_sub(RESERVED_SHARED)
    }

    /// CTAs of a kernel that are resident at once; 0 when not even one fits.
    pub fn occupancy(&self, threads: u32, registers: u32, shared: u32) -> Occupancy {
        let warps = threads.div_ceil(32).max(1);
        let each = self.each(threads, registers, shared);
        let (ctas, limit) = each.into_iter().min_by_key(|(n, _)| *n).expect("four limits");
        Occupancy { ctas, warps: ctas * warps, of_warps: self.warps, limit }
    }
}

/// What is resident on a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// CTAs.
    pub ctas: u32,
    /// Their warps.
    pub warps: u32,
    /// The most there can be.
    pub of_warps: u32,
    /// What there is not enough of for more.
    pub limit: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(arch: &str, threads: u32, registers: u32, shared: u32) -> (u32, &'static str) {
        let o = Limits::of(arch).unwrap().occupancy(threads, registers, shared);
        (o.ctas, o.limit)
    }

    #[test]
    fn each_limit_binds() {
        assert_eq!(on("sm_90", 1024, 32, 0), (2, "warps"));
        assert_eq!(on("sm_90", 256, 232, 0), (1, "registers"));
        assert_eq!(on("sm_90", 256, 126, 32 * 1024), (2, "registers"));
        assert_eq!(on("sm_90a", 128, 32, 72 * 1024), (3, "shared memory"));
        assert_eq!(on("sm_80", 32, 16, 0), (32, "CTAs"));
        assert_eq!(on("sm_86", 128, 32, 49 * 1024), (2, "shared memory"));
    }

    #[test]
    fn registers_are_given_out_by_scheduler() {
        // 168 registers: 5376 a warp, three a scheduler, so twelve warps: three CTAs of four.
        assert_eq!(on("sm_90", 128, 168, 0), (3, "registers"));
        // 8 warps of 168 registers: twelve fit, so one CTA.
        assert_eq!(on("sm_90", 256, 168, 0), (1, "registers"));
    }

    #[test]
    fn as_many_bytes_as_leave_room() {
        let limits = Limits::of("sm_90").unwrap();
        for ctas in 1..=32 {
            let most = limits.shared_of_each(ctas);
            let fit = |shared| limits.each(32, 16, shared)[2].0;
            assert!(fit(most) >= ctas && fit(most + 1) < ctas, "{ctas}: {most}");
        }
    }

    #[test]
    fn unknown_architectures_have_no_limits() {
        assert!(["sm_70", "sm_999", "compute_90", ""].iter().all(|a| Limits::of(a).is_none()));
        assert_eq!(on("sm_90", 1024, 255, 0).0, 0);
    }
}
