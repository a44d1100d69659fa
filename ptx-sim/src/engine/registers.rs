//! `setmaxnreg`: the registers of a CTA, handed from one warpgroup to another (PTX ISA §9.7.19.5).

use super::{Engine, Flow, Warp};
use crate::findings::FindingKind;

/// Registers of an SM.
const FILE: u32 = 65536;

impl Engine<'_> {
    /// Registers of a thread at the start: `.maxnreg`, or what the block's size leaves where so many blocks share an SM
    /// (`.minnctapersm`).
    pub(super) fn initial_registers(&self) -> u32 {
        let threads = self.env.block.iter().product::<u32>().next_multiple_of(128);
        let ctas = self.k.info.ctas_per_sm.max(1);
        self.k.info.max_registers.unwrap_or((FILE / threads.saturating_mul(ctas)).min(255) & !7)
    }

    pub(super) fn set_max_registers(&mut self, w: &mut Warp, pc: u32, inc: bool, count: u32) -> Flow {
        let have = w.registers;
        if (inc && count < have) || (!inc && count > have) {
            let what = if inc { "asks for fewer registers than" } else { "keeps more registers than" };
            self.find(FindingKind::RegisterBudget, w, pc, 0, 0, || {
                format!("{what} the {have} a thread has: {count}")
            });
            return Flow::Next;
        }
        let free = &mut self.ctas[w.cta as usize].free_registers;
        if !inc {
            *free += 32 * (have - count);
        } else if *free < 32 * (count - have) {
            // Until another warp gives some back.
            w.failed = true;
            return Flow::Again;
        } else {
            *free -= 32 * (count - have);
        }
        w.registers = count;
        self.events += 1;
        Flow::Next
    }

    pub(super) fn describe_registers(&self, w: &Warp, count: u32) -> String {
        let free = self.ctas[w.cta as usize].free_registers;
        format!(
            "`setmaxnreg.inc` waits for {} registers: the warp has {} a thread and the CTA {free} free",
            32 * (count - w.registers),
            w.registers
        )
    }
}
