//! Calls of device functions (PTX ISA §9.7.12.5), and the functions that the CUDA runtime provides.

use super::module::target;
use super::{Dec, Mods, Place, Res, Sym};
use crate::ast::{AstInst, Operand};
use crate::kernel::Passed;
use crate::op::*;
use crate::types::Ty;

/// What a function of the CUDA runtime takes and returns, in bytes.
const BUILTINS: [(&str, &[u32], u32); 2] = [
    // format, packed arguments
    ("vprintf", &[8, 8], 4),
    // message, file, line, function, size of a character
    ("__assertfail", &[8, 8, 4, 8, 8], 0),
];

pub(super) fn is_builtin(name: &str) -> bool {
    BUILTINS.iter().any(|b| b.0 == name)
}

fn bytes(p: &Passed) -> u32 {
    match *p {
        Passed::Local { bytes, .. } | Passed::Reg { bytes, .. } => bytes,
    }
}

impl<'m> Dec<'m> {
    /// `call{.uni} (results), target, (arguments), prototype`; all but the target may be left out.
    pub(super) fn call(&mut self, i: &'m AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        self.class = InstClass::Control;
        m.take("uni");
        let Some(to) = target(i) else { return self.err(i, "expected a function") };
        let at = i.ops.iter().position(|o| std::ptr::eq(o, to)).unwrap_or(0);
        let list = |o: Option<&Operand<'m>>| match o {
            Some(Operand::List(v)) => v.clone(),
            _ => vec![],
        };
        let results = self.passed(i, &list(i.ops[..at].first()), true)?;
        let args = self.passed(i, &list(i.ops.get(at + 1)), false)?;
        let name = match to {
            Operand::Reg(r) => {
                let slot = self.reg_slot(i, *r, Ty::U64)?;
                return Ok(Op::Call(Box::new(Call { target: Target::Indirect(slot), args, results })));
            }
            Operand::Sym(name, 0) => *name,
            _ => return self.err(i, "expected a function's name or a 64-bit register"),
        };
        let fits = |have: &[Passed], want: &[u32]| {
            have.len() == want.len() && have.iter().zip(want).all(|(h, w)| bytes(h) == *w)
        };
        if let Some((_, params, result)) = BUILTINS.iter().find(|b| b.0 == name) {
            let results_fit = results.is_empty() || fits(&results, &[*result]);
            if !fits(&args, params) || !results_fit {
                return self.err(i, format_args!("`{name}` of the CUDA runtime has other parameters"));
            }
            return Ok(match name {
                "vprintf" => Op::Printf(Box::new(Printf {
                    format: args[0],
                    args: args[1],
                    result: results.first().copied(),
                })),
                _ => Op::AssertFail(Box::new([args[0], args[1], args[2], args[3]])),
            });
        }
        let Sym::Func(id) = self.symbol(i, name)? else {
            return self.err(i, format_args!("`{name}` is not a function"));
        };
        let Some(func) = self.func_ids.get(&id).copied() else {
            return self
                .err(i, format_args!("function `{name}` is only declared: its body is in another module"));
        };
        let f = &self.funcs[func as usize];
        let sizes = |list: &[Passed]| list.iter().map(bytes).collect::<Vec<_>>();
        if !fits(&args, &sizes(&f.params)) || !(results.is_empty() || fits(&results, &sizes(&f.results))) {
            return self.err(i, format_args!("`{name}` is declared with other parameters or results"));
        }
        Ok(Op::Call(Box::new(Call { target: Target::Direct(func), args, results })))
    }

    fn passed(&mut self, i: &AstInst<'m>, list: &[Operand<'m>], result: bool) -> Res<Vec<Passed>> {
        let mut out = vec![];
        for o in list {
            out.push(match o {
                Operand::CallParam(p, 0) => {
                    let (at, bytes) = self.entry.call_params[*p as usize];
                    Passed::Local { at: self.call_base + at, bytes }
                }
                Operand::Reg(r) => match self.places[r.0 as usize] {
                    Place::Slot(slot) => {
                        Passed::Reg { slot, bytes: self.entry.reg_types[r.0 as usize].bytes() }
                    }
                    Place::Pred(_) => return self.err(i, "predicates cannot be passed"),
                },
                // A constant has the size of the parameter, which is a register's: 4 bytes or, beyond them, 8.
                Operand::Int(v) if !result => {
                    let wide = u32::try_from(*v).is_err() && i32::try_from(*v as i64).is_err();
                    Passed::Reg { slot: self.imm(*v, 1 + wide as u32), bytes: 4 << wide as u32 }
                }
                _ => return self.err(i, "expected `.param` variables or registers between the parentheses"),
            });
        }
        Ok(out)
    }
}
