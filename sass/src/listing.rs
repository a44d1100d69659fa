//! Reads what `nvdisasm -c` prints, and finds the loop that a kernel spends its time in.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

/// One machine instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Guard, such as `@!P0`; empty if there is none.
    pub guard: String,
    /// Opcode with its modifiers: `LDG.E.128`.
    pub opcode: String,
    /// Operands as printed.
    pub operands: String,
}

/// The instructions of one function, with the places that its labels name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// In the order of their addresses.
    pub instructions: Vec<Instruction>,
    labels: HashMap<String, usize>,
}

impl Instruction {
    /// Reads `/*0720*/ @!P0 BRA `(.L_x_0) ;`; `None` for a line that holds no instruction.
    fn parse(line: &str) -> Option<Self> {
        let (address, rest) = line.trim().strip_prefix("/*")?.split_once("*/")?;
        u64::from_str_radix(address, 16).ok()?;
        let text = rest.split_once(';')?.0.trim();
        let (guard, text) = match text.split_once(char::is_whitespace) {
            Some((guard, rest)) if guard.starts_with('@') => (guard, rest.trim()),
            _ => ("", text),
        };
        let (opcode, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let own = |s: &str| s.trim().to_string();
        (!opcode.is_empty()).then(|| Instruction {
            guard: own(guard),
            opcode: own(opcode),
            operands: own(operands),
        })
    }

    /// Whether the first part of the opcode is this one.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.opcode.split('.').next() == Some(name)
    }

    /// Whether it multiplies and adds floating-point numbers on CUDA cores. `HFMA2 R, -RZ, RZ, ..` moves a constant.
    pub fn is_fma(&self) -> bool {
        self.is("FFMA")
            || self.is("FFMA2")
            || self.is("DFMA")
            || self.is("HFMA2") && !self.operands.contains("-RZ, RZ")
    }

    /// Whether it is a product on tensor cores.
    pub fn is_matrix(&self) -> bool {
        ["HMMA", "HGMMA", "QGMMA", "IMMA", "IGMMA", "DMMA"].iter().any(|m| self.is(m))
    }

    /// What a memory access moves a lane: `None` for other instructions.
    fn access(&self) -> Option<(Kind, u32)> {
        let kind = match self.opcode.split('.').next()? {
            "LDG" => Kind::GlobalLoad,
            "STG" => Kind::GlobalStore,
            "LDGSTS" => Kind::Copy,
            "LDS" => Kind::SharedLoad,
            "LDSM" => Kind::Matrices,
            "STS" => Kind::SharedStore,
            "LDL" => Kind::LocalLoad,
            "STL" => Kind::LocalStore,
            _ => return None,
        };
        let bits = self.opcode.split('.').find_map(|part| match part {
            "U8" | "S8" => Some(8),
            "U16" | "S16" => Some(16),
            "64" => Some(64),
            "128" => Some(128),
            // 8×8 matrices, a word of each.
            "1" | "2" | "4" if kind == Kind::Matrices => part.parse::<u32>().ok().map(|n| 32 * n),
            _ => None,
        });
        Some((kind, bits.unwrap_or(32)))
    }

    /// The label that a branch goes to.
    fn target(&self) -> Option<&str> {
        let inside = self.is("BRA").then(|| self.operands.split_once("`("))??.1;
        inside.split_once(')').map(|(label, _)| label)
    }
}

/// A kind of memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    GlobalLoad,
    GlobalStore,
    Copy,
    SharedLoad,
    Matrices,
    SharedStore,
    LocalLoad,
    LocalStore,
}

/// Accesses of one kind and width.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Width {
    /// `LDG`, `STG`, `LDGSTS`, `LDS`, `LDSM`, `STS`, `LDL`, `STL`.
    pub kind: &'static str,
    /// Bits a lane.
    pub bits: u32,
    /// Instructions.
    pub count: usize,
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}×{}", self.kind, self.bits, self.count)
    }
}

/// The instructions of a hot loop, counted.
#[derive(Clone, Debug, PartialEq)]
pub struct HotLoop {
    /// Whether there is a loop at all; if not, the counts are of the whole kernel.
    pub is_loop: bool,
    /// Instructions.
    pub instructions: usize,
    /// Of these, fused multiply-adds on CUDA cores.
    pub fma: usize,
    /// Of the fused multiply-adds, those that take an operand from the register reuse cache.
    pub reused: usize,
    /// Of the instructions, products on tensor cores.
    pub matrix: usize,
    /// Memory accesses by kind and width.
    pub widths: Vec<Width>,
}

impl HotLoop {
    fn of(instructions: &[Instruction], is_loop: bool) -> Self {
        let mut widths = BTreeMap::new();
        for access in instructions.iter().filter_map(Instruction::access) {
            *widths.entry(access).or_insert(0) += 1;
        }
        let count = |f: fn(&Instruction) -> bool| instructions.iter().filter(|i| f(i)).count();
        HotLoop {
            is_loop,
            instructions: instructions.len(),
            fma: count(Instruction::is_fma),
            reused: count(|i| i.is_fma() && i.operands.contains(".reuse")),
            matrix: count(Instruction::is_matrix),
            widths: widths
                .into_iter()
                .map(|((kind, bits), count)| {
                    let kind = match kind {
                        Kind::GlobalLoad => "LDG",
                        Kind::GlobalStore => "STG",
                        Kind::Copy => "LDGSTS",
                        Kind::SharedLoad => "LDS",
                        Kind::Matrices => "LDSM",
                        Kind::SharedStore => "STS",
                        Kind::LocalLoad => "LDL",
                        Kind::LocalStore => "STL",
                    };
                    Width { kind, bits, count }
                })
                .collect(),
        }
    }

    /// Share of the instructions that multiply and add.
    pub fn fma_share(&self) -> f64 {
        self.fma as f64 / self.instructions.max(1) as f64
    }

    /// Bits a lane of the widest access of a kind; 0 if there is none.
    pub fn widest(&self, kind: &str) -> u32 {
        self.widths.iter().filter(|w| w.kind == kind).map(|w| w.bits).max().unwrap_or(0)
    }
}

impl Listing {
    /// Reads a listing. Lines that hold neither an instruction nor a label are passed over; `NOP`s behind the code too.
    pub fn parse(text: &str) -> Self {
        let mut listing = Listing::default();
        for line in text.lines() {
            if let Some(instruction) = Instruction::parse(line) {
                if !instruction.is("NOP") {
                    listing.instructions.push(instruction);
                }
            } else if let Some(label) = line.trim().strip_suffix(':') {
                listing.labels.insert(label.to_string(), listing.instructions.len());
            }
        }
        listing
    }

    /// The instructions that may follow one. Threads that diverged meet at the instruction behind their `BSYNC`.
    pub(crate) fn successors(&self, at: usize) -> Vec<usize> {
        let Some(instruction) = self.instructions.get(at) else { return Vec::new() };
        let label = |text: &str| {
            let inside = text.split_once("`(")?.1;
            self.labels.get(inside.split_once(')')?.0).copied()
        };
        let always = instruction.guard.is_empty() && !instruction.operands.contains(", `(");
        let ends = always && ["BRA", "EXIT", "RET"].iter().any(|name| instruction.is(name));
        let mut next = if ends { vec![] } else { vec![at + 1] };
        if instruction.is("BRA") {
            next.extend(label(&instruction.operands));
        }
        next
    }

    /// Loops as ranges of instructions: from the target of a backward branch to the branch.
    fn loops(&self) -> Vec<(usize, usize)> {
        let back = |(at, i): (usize, &Instruction)| {
            let start = *self.labels.get(i.target()?)?;
            (start <= at).then_some((start, at + 1))
        };
        self.instructions.iter().enumerate().filter_map(back).collect()
    }

    /// The innermost loop with the most multiply-adds (of equals, with the most instructions); of a kernel without loops,
    /// all of it. The endless branch behind a kernel's end is no loop.
    pub fn hot_loop(&self) -> HotLoop {
        let loops: Vec<_> = self.loops().into_iter().filter(|(start, end)| end - start > 1).collect();
        let innermost = loops.iter().filter(|(start, end)| {
            !loops.iter().any(|(s, e)| (s, e) != (start, end) && s >= start && e <= end)
        });
        let work = |&&(start, end): &&(usize, usize)| {
            let of = &self.instructions[start..end];
            (of.iter().filter(|i| i.is_fma() || i.is_matrix()).count(), end - start)
        };
        match innermost.max_by_key(work) {
            Some(&(start, end)) => HotLoop::of(&self.instructions[start..end], true),
            None => HotLoop::of(&self.instructions, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_read_with_guard_opcode_and_operands() {
        let i = Instruction::parse("        /*0720*/              @!P0 BRA `(.L_x_0) ;").unwrap();
        assert_eq!((i.guard.as_str(), i.opcode.as_str(), i.target()), ("@!P0", "BRA", Some(".L_x_0")));
        let i = Instruction::parse("/*98a0*/ LDS.U.128 R4, [R7+UR4+0x10] ;  &req={0}").unwrap();
        assert_eq!((i.access(), i.operands.as_str()), (Some((Kind::SharedLoad, 128)), "R4, [R7+UR4+0x10]"));
        for line in [".L_x_1:", "\t.align\t128", "        /* 0x0000000000007918 */", ""] {
            assert_eq!(Instruction::parse(line), None, "{line}");
        }
    }

    #[test]
    fn widths_come_from_the_modifiers() {
        let bits = |text: &str| Instruction::parse(&format!("/*0000*/ {text} R1, [R2] ;")).unwrap().access();
        assert_eq!(bits("LDG.E.128.CONSTANT"), Some((Kind::GlobalLoad, 128)));
        assert_eq!(bits("LDG.E.U16"), Some((Kind::GlobalLoad, 16)));
        assert_eq!(bits("STS"), Some((Kind::SharedStore, 32)));
        assert_eq!(bits("LDGSTS.E.BYPASS.128"), Some((Kind::Copy, 128)));
        assert_eq!(bits("LDSM.16.MT88.4"), Some((Kind::Matrices, 128)));
        assert_eq!(bits("STL.64"), Some((Kind::LocalStore, 64)));
        assert_eq!(bits("MOV"), None);
    }

    #[test]
    fn a_constant_moved_by_hfma2_is_no_multiply_add() {
        let fma = |text: &str| Instruction::parse(&format!("/*0000*/ {text} ;")).unwrap().is_fma();
        assert!(!fma("HFMA2.MMA R5, -RZ, RZ, 0, 5.9604644775390625e-08"));
        assert!(fma("HFMA2.MMA R5, R4, R3, R5"));
        assert!(fma("FFMA R5, R4.reuse, R3, R5"));
        assert!(!fma("FADD R5, R4, R3"));
    }

    #[test]
    fn the_hot_loop_is_the_innermost_with_the_most_multiply_adds() {
        let text = "
.text.k:
 /*0000*/ S2R R0, SR_TID.X ;
.L_1:
 /*0010*/ LDG.E.128 R4, [R2] ;
.L_2:
 /*0020*/ LDS.128 R8, [R6] ;
 /*0030*/ FFMA R1, R8.reuse, R9, R1 ;
 /*0040*/ FFMA R2, R8, R10, R2 ;
 /*0050*/ @P0 BRA `(.L_2) ;
 /*0060*/ @P1 BRA `(.L_1) ;
.L_3:
 /*0070*/ STG.E R1, [R2] ;
 /*0080*/ @P1 BRA `(.L_3) ;
 /*0090*/ EXIT ;
.L_4:
 /*00a0*/ BRA `(.L_4);
 /*00b0*/ NOP;
";
        let hot = Listing::parse(text).hot_loop();
        assert_eq!((hot.is_loop, hot.instructions, hot.fma, hot.reused), (true, 4, 2, 1));
        assert_eq!(hot.widths, [Width { kind: "LDS", bits: 128, count: 1 }]);
        assert_eq!((hot.widest("LDS"), hot.widest("LDG")), (128, 0));
        assert_eq!(hot.fma_share(), 0.5);
    }

    #[test]
    fn a_kernel_without_loops_is_counted_whole() {
        let hot = Listing::parse("/*0000*/ LDG.E R1, [R2] ;\n/*0010*/ EXIT ;\n.L:\n/*0020*/ BRA `(.L) ;")
            .hot_loop();
        assert_eq!((hot.is_loop, hot.instructions), (false, 3));
        assert_eq!(Listing::parse("").hot_loop().fma_share(), 0.0);
    }
}
