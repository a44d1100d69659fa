//! Kernels of a module: which device functions belong to each, and where its variables, parameters and registers lie.
//!
//! A call needs no stack: recursion is refused, so every function of a kernel has one fixed frame (registers, local memory,
//! parameters). Frames of functions that cannot be active at once in a thread overlap. The functions stand before the
//! kernel, callees first, so that lanes which are deeper in calls have lower pcs and run first, and the others wait for
//! them where they return.

use super::{Dec, Mods, Place, Res, Sym, text, wgmma};
use crate::ast::{AstInst, AstModule, Entry, Operand, Space};
use crate::error::ParseError;
use crate::kernel::*;
use crate::op::*;
use crate::types::Ty;
use std::collections::{HashMap, HashSet};

/// A kernel, or what there is to tell about one that is refused.
pub(crate) type Decoded = Result<Kernel, Box<(KernelInfo, ParseError)>>;

/// Decodes every kernel of the module. What is not supported refuses only the kernels that contain or call it.
pub(crate) fn decode(m: &AstModule<'_>) -> (Vec<Decoded>, Vec<GlobalVar>) {
    let mut globals: Vec<GlobalVar> = vec![];
    let mut symbols = HashMap::new();
    for (n, f) in m.funcs.iter().enumerate() {
        symbols.insert(f.name, Sym::Func(n as u32));
    }
    for v in &m.vars {
        if matches!(v.space, Space::Global | Space::Const) {
            symbols.insert(v.name, Sym::Global(globals.len() as u32));
            globals.push(global(v));
        }
    }
    let calls = Calls::new(m);
    let mut kernels = vec![];
    for e in &m.entries {
        let mut info = header(e);
        kernels.push(
            kernel(m, e, &calls, &mut info, &symbols, &mut globals).map_err(|error| Box::new((info, error))),
        );
    }
    // Variables of bodies are placed by now, and initial values can name them.
    let places: HashMap<String, u32> =
        globals.iter().enumerate().map(|(n, g)| (g.name.clone(), n as u32)).collect();
    for v in m.vars.iter().chain(m.entries.iter().chain(&m.funcs).flat_map(|e| &e.vars)) {
        let Some(at) = places.get(v.name) else { continue };
        globals[*at as usize].relocs = (v.relocs.iter())
            .filter_map(|(offset, name, add)| {
                let to = match symbols.get(name) {
                    Some(Sym::Func(n)) => Reloc::Fixed(function_address(*n)),
                    _ => Reloc::Global(*places.get(*name)?),
                };
                Some((*offset as u64, to, *add))
            })
            .collect();
    }
    (kernels, globals)
}

fn global(v: &crate::ast::Var<'_>) -> GlobalVar {
    GlobalVar { name: v.name.to_string(), size: v.size, init: v.init.clone(), relocs: vec![] }
}

fn align_up(x: u32, a: u32) -> u32 {
    x.div_ceil(a.max(1)) * a.max(1)
}

/// What the text before the body says.
fn header(e: &Entry<'_>) -> KernelInfo {
    let (mut params, mut at) = (vec![], 0);
    for p in &e.params {
        at = align_up(at, p.align);
        params.push(ParamInfo { name: p.name.to_string(), size: p.size, align: p.align, offset: at });
        at += p.size;
    }
    KernelInfo {
        name: e.name.to_string(),
        demangled: crate::demangle(e.name),
        params,
        static_shared: 0,
        local_bytes: 0,
        max_threads: e.maxntid,
        required_threads: e.reqntid,
        cluster: e.reqnctapercluster,
        max_registers: e.maxnreg,
        ctas_per_sm: e.minnctapersm.unwrap_or(1),
        instructions: e.body.len() as u32,
    }
}

/// The symbols among an operand and its parts.
fn symbols_of<'m>(o: &Operand<'m>, f: &mut impl FnMut(&'m str)) {
    match o {
        Operand::Sym(s, _) => f(s),
        Operand::Vec(v) | Operand::List(v) => v.iter().for_each(|o| symbols_of(o, f)),
        Operand::Addr(b, _, v) => {
            symbols_of(b, f);
            v.iter().for_each(|o| symbols_of(o, f));
        }
        Operand::Pair(a, b) => {
            symbols_of(a, f);
            symbols_of(b, f);
        }
        _ => {}
    }
}

/// The operand of a `call` that says what is called.
pub(super) fn target<'i, 'm>(i: &'i AstInst<'m>) -> Option<&'i Operand<'m>> {
    i.ops.iter().find(|o| !matches!(o, Operand::List(_)))
}

/// Which functions call which.
struct Calls<'m> {
    m: &'m AstModule<'m>,
    by_name: HashMap<&'m str, usize>,
    /// Functions whose address is taken in the module.
    taken: Vec<usize>,
}

impl<'m> Calls<'m> {
    fn new(m: &'m AstModule<'m>) -> Self {
        let by_name: HashMap<&str, usize> = m.funcs.iter().enumerate().map(|(n, f)| (f.name, n)).collect();
        let mut taken: HashSet<usize> = HashSet::new();
        for (_, name, _) in m.vars.iter().flat_map(|v| &v.relocs) {
            taken.extend(by_name.get(name));
        }
        for i in m.entries.iter().chain(&m.funcs).flat_map(|e| &e.body) {
            let called = if i.opcode == "call" { target(i) } else { None };
            for o in i.ops.iter().filter(|o| !called.is_some_and(|c| std::ptr::eq(c, *o))) {
                symbols_of(o, &mut |s| taken.extend(by_name.get(s)));
            }
        }
        // The body must be there and readable: else a call of it is a finding.
        let mut taken: Vec<usize> =
            taken.into_iter().filter(|f| m.funcs[*f].has_body && m.funcs[*f].error.is_none()).collect();
        taken.sort_unstable();
        Calls { m, by_name, taken }
    }

    /// What a body calls, with the place of the call.
    fn callees(&self, e: &'m Entry<'m>) -> Vec<(usize, &'m AstInst<'m>)> {
        let mut list = vec![];
        for i in e.body.iter().filter(|i| i.opcode == "call") {
            match target(i) {
                Some(Operand::Sym(name, _)) if !super::call::is_builtin(name) => {
                    list.extend(self.by_name.get(name).map(|f| (*f, i)));
                }
                Some(Operand::Reg(_)) => list.extend(self.taken.iter().map(|f| (*f, i))),
                _ => {}
            }
        }
        list
    }

    /// Adds to `order` what a body can reach, callees first; `open` are the functions that it was reached through.
    fn reach(&self, e: &'m Entry<'m>, order: &mut Vec<usize>, open: &mut Vec<usize>) -> Res<()> {
        for (f, i) in self.callees(e) {
            let callee = &self.m.funcs[f];
            if let Some(error) = &callee.error {
                return Err(error.clone());
            }
            if open.contains(&f) {
                let how = match target(i) {
                    Some(Operand::Reg(_)) => ", as far as can be told, through a function pointer",
                    _ => "",
                };
                let message = format!("`{}` calls itself{how}: recursion is not supported", callee.name);
                return Err(ParseError::at(i.pos, message));
            }
            if order.contains(&f) || !callee.has_body {
                continue;
            }
            if open.len() > 200 {
                return Err(ParseError::at(i.pos, "calls nest more than 200 deep"));
            }
            open.push(f);
            self.reach(callee, order, open)?;
            open.pop();
            order.push(f);
        }
        Ok(())
    }
}

/// What the frame of one body takes, or where it begins: 32-lane slots, predicates, bytes of local memory.
#[derive(Debug, Clone, Copy, Default)]
struct Frame {
    slots: u32,
    preds: u32,
    local: u32,
}

impl Frame {
    fn map2(self, o: Frame, f: impl Fn(u32, u32) -> u32) -> Frame {
        Frame { slots: f(self.slots, o.slots), preds: f(self.preds, o.preds), local: f(self.local, o.local) }
    }
}

/// Offsets within a frame's local memory.
struct Locals<'m> {
    symbols: HashMap<&'m str, Sym>,
    params: Vec<u32>,
    results: Vec<u32>,
    call_base: u32,
}

fn lay_out<'m>(e: &'m Entry<'m>, local: &mut u32) -> Res<Locals<'m>> {
    let mut l = Locals { symbols: HashMap::new(), params: vec![], results: vec![], call_base: 0 };
    for v in e.vars.iter().filter(|v| v.space == Space::Local) {
        *local = align_up(*local, v.align);
        if v.size > 1 << 20 || *local > 1 << 22 {
            return Err(too_big(e));
        }
        l.symbols.insert(v.name, Sym::Local(*local));
        *local += v.size as u32;
    }
    if e.is_func {
        for (list, places) in [(&e.params, &mut l.params), (&e.results, &mut l.results)] {
            for p in list {
                *local = align_up(*local, p.align.max(4));
                places.push(*local);
                if p.reg.is_none() {
                    l.symbols.insert(p.name, Sym::Local(*local));
                    *local += align_up(p.size, 4);
                }
            }
        }
    }
    *local = align_up(*local, 16);
    l.call_base = *local;
    *local = align_up(*local + e.call_bytes, 16);
    Ok(l)
}

fn too_big(e: &Entry<'_>) -> ParseError {
    let what = if e.is_func { "function" } else { "kernel" };
    ParseError { line: 1, column: 1, message: format!("{what} `{}` declares too much memory", e.name) }
}

fn kernel<'m>(
    m: &'m AstModule<'m>,
    e: &'m Entry<'m>,
    calls: &Calls<'m>,
    info: &mut KernelInfo,
    module_syms: &HashMap<&'m str, Sym>,
    globals: &mut Vec<GlobalVar>,
) -> Res<Kernel> {
    if let Some(error) = &e.error {
        return Err(error.clone());
    }
    let mut order = vec![];
    calls.reach(e, &mut order, &mut vec![])?;
    // The kernel is the last.
    let bodies: Vec<&Entry<'m>> = order.iter().map(|f| &m.funcs[*f]).chain([e]).collect();

    let mut symbols = module_syms.clone();
    let (shared_vars, static_shared, dynamic) = shared(m, e, &bodies, &mut symbols)?;
    for v in bodies.iter().flat_map(|b| &b.vars) {
        if matches!(v.space, Space::Global | Space::Const) {
            symbols.insert(v.name, Sym::Global(globals.len() as u32));
            globals.push(global(v));
        }
    }

    // Frames: of each body, and where they begin.
    let mut sizes = vec![];
    for b in &bodies {
        let mut f = Frame::default();
        lay_out(b, &mut f.local)?;
        for t in &b.reg_types {
            match t {
                Ty::Pred => f.preds += 1,
                t => f.slots += t.slots(),
            }
        }
        // The return address.
        f.slots += b.is_func as u32;
        sizes.push(f);
    }
    let mut bases = vec![Frame::default(); bodies.len()];
    for (n, b) in bodies.iter().enumerate().rev() {
        let end = bases[n].map2(sizes[n], |a, b| a + b);
        for (f, _) in calls.callees(b) {
            if let Some(k) = order.iter().position(|o| *o == f) {
                bases[k] = bases[k].map2(end, u32::max);
            }
        }
    }
    let whole = bases
        .iter()
        .zip(&sizes)
        .fold(Frame::default(), |w, (b, s)| w.map2(b.map2(*s, |a, b| a + b), u32::max));

    let mut d = Dec {
        entry: e,
        sm: m.sm,
        suffix: m.suffix,
        places: vec![],
        symbols: HashMap::new(),
        call_base: 0,
        base: 0,
        func: None,
        funcs: vec![],
        func_ids: HashMap::new(),
        consts: HashMap::new(),
        const_list: vec![],
        n_slots: whole.slots,
        n_preds: whole.preds,
        carry: None,
        sequential: false,
        out: vec![],
        sites: vec![],
        class: InstClass::Other,
        flops: 0,
        named: bodies.iter().flat_map(|b| &b.body).any(|i| i.opcode == "wgmma").then(Vec::new),
    };
    let mut layouts = vec![];
    let mut at = 0;
    for (n, b) in bodies.iter().enumerate() {
        let base = bases[n];
        let (mut slot, mut pred, mut local) = (base.slots, base.preds, base.local);
        let mut places = vec![];
        for t in &b.reg_types {
            places.push(match t {
                Ty::Pred => {
                    pred += 1;
                    Place::Pred(pred - 1)
                }
                t => {
                    slot += t.slots();
                    Place::Slot(slot - t.slots())
                }
            });
        }
        let layout = lay_out(b, &mut local)?;
        if b.is_func {
            let formals = |list: &[crate::ast::Param<'_>], offsets: &[u32]| -> Res<Vec<Passed>> {
                (list.iter().zip(offsets))
                    .map(|(p, at)| match p.reg.map(|r| places[r.0 as usize]) {
                        None => Ok(Passed::Local { at: *at, bytes: p.size }),
                        Some(Place::Slot(slot)) => Ok(Passed::Reg { slot, bytes: p.size }),
                        Some(Place::Pred(_)) => Err(ParseError {
                            line: 1,
                            column: 1,
                            message: format!("function `{}`: predicates cannot be passed", b.name),
                        }),
                    })
                    .collect()
            };
            let id = order[n];
            d.func_ids.insert(id as u32, n as u32);
            d.funcs.push(Func {
                name: crate::demangle(b.name),
                entry: at,
                address: function_address(id as u32),
                ret: slot,
                params: formals(&b.params, &layout.params)?,
                results: formals(&b.results, &layout.results)?,
            });
        }
        at += b.body.len() as u32 + 1;
        layouts.push((places, layout));
    }
    for (n, (b, (places, layout))) in bodies.iter().zip(layouts).enumerate() {
        d.entry = b;
        d.places = places;
        d.call_base = layout.call_base;
        d.base = d.out.len() as u32;
        d.func = b.is_func.then_some(n as u32);
        d.symbols = symbols.clone();
        d.symbols.extend(layout.symbols);
        if !b.is_func {
            for p in &info.params {
                let name = b.params.iter().find(|q| q.name == p.name).map_or("", |q| q.name);
                d.symbols.insert(name, Sym::Param(p.offset));
            }
        }
        for i in &b.body {
            d.inst(i)?;
        }
        // Falling off the end is a return.
        let op = if b.is_func { Op::Ret(n as u32) } else { Op::Exit };
        d.out.push(Inst { op, guard: PSrc::TRUE });
        if let Some(named) = &mut d.named {
            named.push(vec![]);
        }
        let (line, col) = b.body.last().map_or((1, 1), |i| (i.pos.line, i.pos.col));
        let class = InstClass::Control;
        d.sites.push(Site { line, col, loc: None, class, text: "ret".into(), flops: 0 });
    }
    let (wg_next, wg_touch) = wgmma::touches(&d.out, &d.named);
    info.static_shared = static_shared;
    info.local_bytes = align_up(whole.local, 4);
    info.instructions = bodies.iter().map(|b| b.body.len() as u32).sum();
    Ok(Kernel {
        info: info.clone(),
        entry: d.base,
        funcs: d.funcs,
        n_slots: d.n_slots,
        n_preds: d.n_preds,
        consts: d.const_list,
        shared_vars,
        dynamic,
        asynchronous: d.out.iter().any(|i| i.op.is_asynchronous()),
        granule: d.out.iter().map(|i| i.op.granule()).min().unwrap_or(16).trailing_zeros(),
        wg_next,
        wg_touch,
        sequential: d.sequential,
        insts: d.out,
        sites: d.sites,
    })
}

type SharedVars = (Vec<(String, u32, u32)>, u32, (u32, Option<String>));

/// Shared memory: what the bodies mention, in order of declaration.
fn shared<'m>(
    m: &'m AstModule<'m>,
    e: &'m Entry<'m>,
    bodies: &[&'m Entry<'m>],
    symbols: &mut HashMap<&'m str, Sym>,
) -> Res<SharedVars> {
    let mut mentioned: HashSet<&str> = HashSet::new();
    for o in bodies.iter().flat_map(|b| &b.body).flat_map(|i| &i.ops) {
        symbols_of(o, &mut |s| {
            mentioned.insert(s);
        });
    }
    let (mut off, mut vars, mut dynamic) = (0u32, vec![], (None, 1u32));
    let own = bodies.iter().flat_map(|b| &b.vars);
    for v in m.vars.iter().filter(|v| mentioned.contains(v.name)).chain(own) {
        if v.space != Space::Shared {
            continue;
        }
        if v.size == 0 {
            dynamic = (Some(crate::demangle::variable(v.name)), dynamic.1.max(v.align));
            symbols.insert(v.name, Sym::Shared(u32::MAX));
            continue;
        }
        off = align_up(off, v.align);
        if v.size > 1 << 23 {
            return Err(too_big(e));
        }
        symbols.insert(v.name, Sym::Shared(SHARED_BASE + off));
        vars.push((crate::demangle::variable(v.name), off, v.size as u32));
        off += v.size as u32;
        if off > 1 << 23 {
            return Err(too_big(e));
        }
    }
    // SHARED_BASE is aligned to 1024; stricter requests are met relative to it.
    let dyn_off = align_up(off, dynamic.1);
    for s in symbols.values_mut() {
        if let Sym::Shared(a @ u32::MAX) = s {
            *a = SHARED_BASE + dyn_off;
        }
    }
    Ok((vars, off, (dyn_off, dynamic.0)))
}

impl<'m> Dec<'m> {
    fn inst(&mut self, i: &'m AstInst<'m>) -> Res<()> {
        let guard = match i.guard {
            None => PSrc::TRUE,
            Some((r, neg)) => PSrc::new(self.pred_of(i, r)?, neg),
        };
        self.class = InstClass::Other;
        self.flops = 0;
        let mut m = Mods::new(i);
        let op = self.op(i, &mut m)?;
        m.finish()?;
        self.name_registers(i);
        self.sites.push(Site {
            line: i.pos.line,
            col: i.pos.col,
            loc: i.loc,
            class: self.class,
            text: text(i),
            flops: self.flops,
        });
        self.out.push(Inst { op, guard });
        Ok(())
    }
}
