//! Registers of asynchronous products: what other instructions do to them before they are waited for.
//!
//! A product reads its registers until somebody has waited for its group. `ptxas` 13.0 keeps them free of other values until then,
//! unless the program moves the operand of the next product into them behind the wait: it computes that operand in the same
//! registers, before the wait. The program is right, the machine code is not, and no simulator of PTX sees it.
//!
//! ```text
//! QGMMA.64x128x32.F32.E4M3.E4M3 R88, R24, gdesc[UR8], R88, gsb0     reads R24 to R27, adds to R88 to R151
//! MOV R24, R12                                                      one of them, too early
//! WARPGROUP.DEPBAR.LE gsb0, 0x0
//! ```
//! Source: PTX ISA 9.7.16.4 (asynchronous operations of `wgmma`).

use crate::listing::{Instruction, Listing};
use std::collections::{BTreeMap, BTreeSet};

/// Registers of a thread.
type Registers = BTreeSet<u16>;

/// The products of a group: what they read and what they add to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Group {
    reads: Registers,
    sums: Registers,
}

/// What is in flight at an instruction: groups, the oldest first, and the one that is not committed yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Flight {
    groups: Vec<Group>,
    open: Group,
}

/// So many groups are told apart; older ones are one.
const GROUPS: usize = 4;

impl Group {
    fn merge(&mut self, other: &Group) {
        self.reads.extend(&other.reads);
        self.sums.extend(&other.sums);
    }
}

impl Flight {
    fn commit(&mut self) {
        self.groups.push(std::mem::take(&mut self.open));
        if self.groups.len() > GROUPS {
            let oldest = self.groups.remove(0);
            self.groups[0].merge(&oldest);
        }
    }

    /// Adds what may be in flight on another way to the same place.
    fn merge(&mut self, other: &Flight) {
        let missing = other.groups.len().saturating_sub(self.groups.len());
        self.groups.splice(0..0, vec![Group::default(); missing]);
        let from = self.groups.len() - other.groups.len();
        for (own, group) in self.groups[from..].iter_mut().zip(&other.groups) {
            own.merge(group);
        }
        self.open.merge(&other.open);
    }

    fn all(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().chain([&self.open])
    }
}

impl Listing {
    /// Instructions that write a register which a product in flight still reads, or touch one that it adds to, as printed.
    ///
    /// Ways through the code are joined: what may be in flight on one of them counts.
    pub fn touched_in_flight(&self) -> Vec<String> {
        let mut entering: BTreeMap<usize, Flight> = BTreeMap::from([(0, Flight::default())]);
        let mut todo = BTreeSet::from([0]);
        let mut found = BTreeSet::new();
        while let Some(at) = todo.pop_first() {
            let Some(instruction) = self.instructions.get(at) else { continue };
            let mut flight = entering[&at].clone();
            if instruction.touches(&flight) {
                found.insert(at);
            }
            instruction.pass(&mut flight);
            for next in self.successors(at) {
                let known = entering.get(&next);
                let mut joined = known.cloned().unwrap_or_default();
                joined.merge(&flight);
                if known != Some(&joined) {
                    entering.insert(next, joined);
                    todo.insert(next);
                }
            }
        }
        found.into_iter().map(|at| self.instructions[at].text()).collect()
    }
}

impl Instruction {
    /// As it was printed.
    fn text(&self) -> String {
        [&*self.guard, &*self.opcode, &*self.operands].join(" ").trim().to_string()
    }

    /// Whether it is a product of a warpgroup.
    fn is_group(&self) -> bool {
        ["HGMMA", "QGMMA", "IGMMA", "BGMMA"].iter().any(|name| self.is(name))
    }

    /// Whether it writes a register that a product in flight reads, or touches one that it adds to. Products add to the same registers
    /// one behind another.
    fn touches(&self, flight: &Flight) -> bool {
        if self.is_group() {
            let Group { reads, .. } = self.product();
            return flight.all().any(|group| !group.sums.is_disjoint(&reads));
        }
        let (written, read) = self.registers();
        flight.all().any(|group| {
            !group.reads.is_disjoint(&written)
                || !group.sums.is_disjoint(&written)
                || !group.sums.is_disjoint(&read)
        })
    }

    /// What it does to what is in flight.
    fn pass(&self, flight: &mut Flight) {
        if self.is_group() {
            flight.open.merge(&self.product());
            if self.operands.split(',').any(|operand| operand.trim() == "gsb0") {
                flight.commit();
            }
        } else if self.opcode.starts_with("WARPGROUP.DEPBAR") {
            let pending = self.operands.rsplit(',').next().unwrap_or_default().trim();
            let pending = usize::from_str_radix(pending.trim_start_matches("0x"), 16).unwrap_or(0);
            let over = flight.groups.len().saturating_sub(pending);
            flight.groups.drain(..over);
        }
    }

    /// The registers of a product of a warpgroup, whose sums are numbers in f32 or i32, or in f16 by twos.
    fn product(&self) -> Group {
        let operands: Vec<&str> = self.operands.split(',').map(str::trim).collect();
        let columns = self.opcode.split('.').find_map(|part| part.split('x').nth(1)?.parse::<u16>().ok());
        let columns = columns.unwrap_or(0);
        let halves = self.opcode.split('.').nth(2) == Some("F16");
        let sums = if halves { columns / 4 } else { columns / 2 };
        let group = |first: Option<&&str>, count: u16| {
            first.and_then(|text| number(text)).map(|n| (n..n + count).collect()).unwrap_or_default()
        };
        // The factors stand behind the result; a register among them holds rows of the first.
        Group { sums: group(operands.first(), sums), reads: group(operands.get(1), 4) }
    }

    /// The registers that it writes and that it reads. Where it takes several side by side, its opcode says how many.
    fn registers(&self) -> (Registers, Registers) {
        const WRITES_NONE: [&str; 17] = [
            "ISETP", "FSETP", "HSETP2", "DSETP", "FCHK", "PLOP3", "R2P", "SYNCS", "BRA", "EXIT", "BAR",
            "RED", "ST", "STS", "STG", "STL", "R2UR",
        ];
        let (mut written, mut read) = (Registers::new(), Registers::new());
        let wide = self.width();
        let mut first = !WRITES_NONE.iter().any(|name| self.is(name));
        for operand in self.operands.split(',').map(str::trim) {
            let plain = operand.trim_start_matches(['-', '~', '!', '|']);
            let predicate = ["P", "UP"].iter().any(|name| {
                plain
                    .strip_prefix(name)
                    .is_some_and(|rest| rest == "T" || rest.bytes().all(|b| b.is_ascii_digit()))
            });
            if first && predicate {
                continue;
            }
            let own = plain.starts_with('R').then(|| number(plain)).flatten();
            match own {
                Some(n) if first => written.extend(n..n + wide),
                Some(n) => read.extend(n..n + wide),
                None => read.extend(inside(plain)),
            }
            first = false;
        }
        (written, read)
    }

    /// Registers side by side that it may take.
    fn width(&self) -> u16 {
        let parts = || self.opcode.split('.');
        if parts().any(|part| part == "128") || self.is("LDSM") && parts().any(|part| part == "4") {
            4
        } else if parts().any(|part| part == "64" || part == "WIDE")
            || self.is("LDSM") && parts().any(|part| part == "2")
        {
            2
        } else {
            1
        }
    }
}

/// The number of a register: 12 of `R12.reuse`.
fn number(text: &str) -> Option<u16> {
    let digits = text.strip_prefix('R')?;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// The registers of an address or a descriptor: 2 and 3 of `desc[UR4][R2.64+0x10]`.
fn inside(text: &str) -> Vec<u16> {
    let mut all = Vec::new();
    for part in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '.') {
        let Some(n) = number(part) else { continue };
        all.push(n);
        all.extend(part.ends_with(".64").then_some(n + 1));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &[&str]) -> Vec<String> {
        let line = |(n, text): (usize, &&str)| match text.strip_suffix(':') {
            Some(_) => format!("{text}\n"),
            None => format!("/*{:04x}*/ {text} ;\n", n * 16),
        };
        let text: String = lines.iter().enumerate().map(line).collect();
        Listing::parse(&text).touched_in_flight()
    }

    const PRODUCT: &str = "QGMMA.64x128x32.F32.E4M3.E4M3 R88, R24, gdesc[UR8], R88, gsb0";
    const WAIT: &str = "WARPGROUP.DEPBAR.LE gsb0, 0x0";

    #[test]
    fn a_register_that_is_read_in_flight_is_written_behind_the_wait() {
        assert_eq!(found(&[PRODUCT, "MOV R24, R12", WAIT]), ["MOV R24, R12"]);
        assert_eq!(found(&[PRODUCT, "LDS.128 R20, [R2]", WAIT]), [""; 0]);
        assert_eq!(found(&[PRODUCT, "LDS.128 R24, [R2]", WAIT]).len(), 1);
        assert_eq!(found(&[PRODUCT, WAIT, "MOV R24, R12"]), [""; 0]);
        assert_eq!(found(&[PRODUCT, "MOV R12, R24", "STS [R24], R27", WAIT]), [""; 0]);
        assert_eq!(found(&[PRODUCT, "SHFL.BFLY PT, R27, R12, 0x1, 0x1f", WAIT]).len(), 1);
        assert_eq!(found(&[PRODUCT, "ISETP.NE.AND P0, PT, R24, RZ, PT", WAIT]), [""; 0]);
    }

    #[test]
    fn sums_in_flight_are_not_touched() {
        for touching in ["FADD R1, R151, R2", "FADD R88, R1, R2", "STG.E.64 desc[UR4][R2.64], R150"] {
            assert_eq!(found(&[PRODUCT, touching, WAIT]).len(), 1, "{touching}");
            assert_eq!(found(&[PRODUCT, WAIT, touching]), [""; 0]);
        }
        assert_eq!(found(&[PRODUCT, PRODUCT, "FADD R1, R152, R2", WAIT]), [""; 0]);
        assert_eq!(found(&[PRODUCT, "HGMMA.64x64x16.F32.BF16 R24, R90, gdesc[UR4], R24, gsb0"]).len(), 1);
    }

    #[test]
    fn a_wait_leaves_the_youngest_groups_in_flight() {
        let young = "HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], !UPT, gsb0";
        let old = "HGMMA.64x64x16.F32.BF16 R56, R4, gdesc[UR4], R56, gsb0";
        let wait = "WARPGROUP.DEPBAR.LE gsb0, 0x1";
        assert_eq!(found(&[old, young, wait, "MOV R4, R5", "MOV R24, R5"]), ["MOV R24, R5"]);
        assert_eq!(found(&[young, old, wait, "MOV R4, R5", "MOV R24, R5"]), ["MOV R4, R5"]);
    }

    #[test]
    fn what_a_step_leaves_in_flight_reaches_the_next_one() {
        let steps = [".L_1:", "MOV R24, R12", WAIT, PRODUCT, "@P0 BRA `(.L_1)", WAIT, "MOV R25, R12", "EXIT"];
        assert_eq!(found(&steps), ["MOV R24, R12"]);
    }
}
