//! Threads that do nothing but copy, and what the roles of a CTA are given.

use super::Nest;
use crate::schedule::{Target, Unit};

/// Threads of a warp.
pub(crate) const WARP: u32 = 32;
/// Threads of a warpgroup.
pub(crate) const WARPGROUP: u32 = 4 * WARP;

impl Nest {
    /// Threads that copy beside those that compute.
    pub fn producing(&self) -> u32 {
        match self.producer {
            None => 0,
            Some(Unit::Warpgroup) => WARPGROUP,
            Some(_) => WARP,
        }
    }
}

/// Registers that each thread of a CTA of so many starts with, where its roles share them out; `None` where each
/// thread has as many as one can address, and the assembler may give fewer.
///
/// Source: PTX ISA 9.7.19.5 (`setmaxnreg`: registers come by eights); the CTA has its SM to itself.
pub fn registers_at_launch(target: Target, threads: u32) -> Option<u32> {
    let each = target.resident_registers() / threads.max(1);
    (each <= target.registers()).then_some(each / 8 * 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_cta_shares_nothing_out() {
        let target = Target { sm: 90, specific: true };
        let each = [128, 256, 288, 384, 512, 1024].map(|threads| registers_at_launch(target, threads));
        assert_eq!(each, [None, None, Some(224), Some(168), Some(128), Some(64)]);
    }
}
