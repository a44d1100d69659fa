//! A machine that writes down which instructions the code of an operator is made of.

use std::collections::BTreeMap;
use tile_dsl::op::functions::{Function, Machine, Reg};

/// The instructions, by how often each is used.
#[derive(Default)]
pub struct Recorder {
    made: BTreeMap<&'static str, usize>,
    values: usize,
}

impl Recorder {
    fn value(&mut self) -> Reg {
        self.values += 1;
        Reg(self.values)
    }

    fn make(&mut self, instruction: &'static str) -> Reg {
        *self.made.entry(instruction).or_default() += 1;
        self.value()
    }

    /// The instructions of some code on so many operands.
    pub fn of(operands: usize, code: impl FnOnce(&mut dyn Machine, &[Reg]) -> Reg) -> Recorder {
        let mut recorder = Recorder::default();
        let operands: Vec<Reg> = (0..operands).map(|_| recorder.value()).collect();
        code(&mut recorder, &operands);
        recorder
    }

    /// `` `ex2.approx.f32` ``, or a list with numbers.
    pub fn text(&self) -> String {
        let all: usize = self.made.values().sum();
        let one = |(name, n): (&&str, &usize)| match n {
            1 => format!("`{name}`"),
            n => format!("{n} × `{name}`"),
        };
        let list = self.made.iter().map(one).collect::<Vec<_>>().join(", ");
        if all > 1 { format!("{all} instructions: {list}") } else { list }
    }
}

impl Machine for Recorder {
    fn narrow(&self) -> bool {
        false
    }
    fn float(&mut self, _: f64) -> Reg {
        self.value()
    }
    fn int(&mut self, _: u32) -> Reg {
        self.value()
    }
    fn neg(&mut self, _: Reg) -> Reg {
        self.make("neg.f32")
    }
    fn add(&mut self, _: Reg, _: Reg) -> Reg {
        self.make("add.rn.f32")
    }
    fn sub(&mut self, _: Reg, _: Reg) -> Reg {
        self.make("sub.rn.f32")
    }
    fn mul(&mut self, _: Reg, _: Reg) -> Reg {
        self.make("mul.rn.f32")
    }
    fn div(&mut self, _: Reg, _: Reg) -> Reg {
        self.make("div.rn.f32")
    }
    fn fma(&mut self, _: Reg, _: Reg, _: Reg) -> Reg {
        self.make("fma.rn.f32")
    }
    fn call(&mut self, function: Function, _: &[Reg]) -> Reg {
        self.make(match function {
            Function::Abs => "abs.f32",
            Function::Sqrt => "sqrt.rn.f32",
            Function::CopySign => "copysign.f32",
            Function::Max => "max.f32",
            Function::Min => "min.f32",
            Function::Maximum => "max.NaN.f32",
            Function::Minimum => "min.NaN.f32",
            Function::Ex2 => "ex2.approx.ftz.f32",
            Function::Rsqrt => "rsqrt.approx.f32",
            Function::Tf32 => "cvt.rna.tf32.f32",
        })
    }
    fn bits(&mut self, _: Reg) -> Reg {
        self.value()
    }
    fn of_bits(&mut self, _: Reg) -> Reg {
        self.value()
    }
    fn of_int(&mut self, _: Reg) -> Reg {
        self.make("cvt.rn.f32.s32")
    }
    fn int_add(&mut self, _: Reg, _: Reg) -> Reg {
        self.make("add.s32")
    }
    fn int_sub(&mut self, _: Reg, _: Reg) -> Reg {
        self.make("sub.s32")
    }
    fn int_and(&mut self, _: Reg, _: Reg) -> Reg {
        self.make("and.b32")
    }
    fn int_shl(&mut self, _: Reg, _: Reg) -> Reg {
        self.make("shl.b32")
    }
    fn int_eq(&mut self, _: Reg, _: Reg) -> Reg {
        self.make("setp.eq.s32")
    }
    fn less(&mut self, _: Reg, _: Reg) -> Reg {
        self.make("setp.lt.f32")
    }
    fn equal(&mut self, _: Reg, _: Reg) -> Reg {
        self.make("setp.eq.f32")
    }
    fn select(&mut self, _: Reg, _: Reg, _: Reg) -> Reg {
        self.make("selp.f32")
    }
}
