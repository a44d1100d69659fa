//! What a CTA does, in order: the statements of the kernel IR that touch memory, compute or synchronise.
//!
//! Between two statements that order threads, those alike stand together: `16× load a` for sixteen loads with others between
//! them. What computes indices is left out.

use super::happened;
use crate::{
    model::{Act, Actions, Events, RoleColumn},
    places::Places,
};
use ptx_sim::Trace;
use std::collections::{BTreeMap, BTreeSet};
use tile_dsl::{
    dtype::DType,
    kernel::{Async, Expr, Group, Kernel, Mem, Param, Rows, Stmt, Var, print},
    op::BinOp,
};

/// Characters of an expression that are shown.
const MOST_TEXT: usize = 60;
/// Definitions that are put in the place of variables, one in the other.
const MOST_DEPTH: u32 = 4;

/// What the walk over the statements knows.
struct View<'k> {
    kernel: &'k Kernel,
    /// What variables are: each is bound once.
    bound: BTreeMap<Var, &'k Expr>,
    /// Counters of loops.
    counters: BTreeSet<Var>,
}

/// The events of a kernel, with its plan as text and what the simulator recorded.
pub(crate) fn collect(kernel: &Kernel, plan: &str, trace: &Trace, places: &Places<'_>) -> Events {
    let (mut bound, mut counters) = (BTreeMap::new(), BTreeSet::new());
    for stmt in &kernel.body {
        stmt.each(&mut |stmt| match stmt {
            Stmt::Let(var, value) => drop(bound.insert(*var, value)),
            Stmt::For { var, .. } => drop(counters.insert(*var)),
            _ => {}
        });
    }
    let view = View { kernel, bound, counters };
    let roles = kernel.body.iter().position(|stmt| matches!(stmt, Stmt::Roles(_)));
    let (before, rest) = kernel.body.split_at(roles.unwrap_or(kernel.body.len()));
    let (parted, after) = rest.split_at(rest.len().min(1));
    let columns = parted.iter().flat_map(|stmt| match stmt {
        Stmt::Roles(roles) => roles.as_slice(),
        _ => &[],
    });
    let column = |role: &tile_dsl::kernel::Role| RoleColumn {
        first: role.first,
        threads: role.threads,
        registers: role.registers,
        does: actions(&view, &role.body),
    };
    const SHOWN: [&str; 6] = ["tiles", "role", "channel", "sum", "product", "store"];
    let shown = |line: &&str| line.split(' ').next().is_some_and(|word| SHOWN.contains(&word));
    Events {
        before: actions(&view, before),
        roles: columns.map(column).collect(),
        after: actions(&view, after),
        plan: plan.lines().filter(shown).map(str::to_string).collect(),
        run: Some(happened::collect(kernel, trace, places)),
    }
}

/// Statements as actions.
fn actions(view: &View<'_>, body: &[Stmt]) -> Actions {
    let mut out: Actions = Vec::new();
    // Where the statements begin that nothing orders.
    let mut first = 0;
    for stmt in body {
        let Some(act) = act(view, stmt) else { continue };
        let orders =
            !matches!(act.kind, "load" | "store" | "copy" | "sum" | "product" | "exchange" | "compute");
        if orders {
            // Loops with the same text that do the same are one.
            if let Some(same) = out.last_mut().filter(|last| last.kind == act.kind && alike(last, &act)) {
                same.count += 1;
            } else {
                out.push(act);
            }
            first = out.len();
            continue;
        }
        match out[first..].iter_mut().find(|known| alike(known, &act)) {
            Some(known) => known.count += act.count,
            None => out.push(act),
        }
    }
    out
}

fn alike(a: &Act, b: &Act) -> bool {
    (a.kind, &a.text, &a.inside) == (b.kind, &b.text, &b.inside)
}

fn plain(kind: &'static str, text: impl Into<String>, names: &[&str]) -> Act {
    let names = names.iter().map(|n| n.to_string()).collect();
    Act { kind, text: text.into(), names, count: 1, inside: Vec::new() }
}

fn block(kind: &'static str, text: impl Into<String>, inside: Actions) -> Option<Act> {
    (!inside.is_empty()).then(|| Act { inside, ..plain(kind, text, &[]) })
}

fn param(kernel: &Kernel, n: u32) -> &str {
    kernel.params.get(n as usize).map_or("", Param::name)
}

/// The tensor of a parameter: of a map the one that it is of.
fn tensor(kernel: &Kernel, n: u32) -> &str {
    match kernel.params.get(n as usize) {
        Some(Param::TensorMap { tensor, .. }) => param(kernel, *tensor),
        _ => param(kernel, n),
    }
}

fn shared(kernel: &Kernel, n: u32) -> &str {
    kernel.shared.get(n as usize).map_or("", |s| &s.name)
}

fn frag(kernel: &Kernel, n: u32) -> &str {
    kernel.frags.get(n as usize).map_or("", |f| &f.name)
}

fn place(kernel: &Kernel, mem: Mem) -> (&str, &'static str) {
    match mem {
        Mem::Global(n) => (param(kernel, n), "global"),
        Mem::Shared(n) => (shared(kernel, n), "shared"),
    }
}

fn elements(n: usize) -> String {
    if n == 1 { "1 element".into() } else { format!("{n} elements") }
}

/// An expression as text, with what variables are in their place. The counter of a loop is `step`; what would lead too far is left out.
fn short(view: &View<'_>, e: &Expr) -> String {
    let text = print::expr(view.kernel, &resolved(view, e, MOST_DEPTH));
    let text = plain_variables(view, &plain_dims(&text));
    let text = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')).unwrap_or(&text);
    match text.char_indices().nth(MOST_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

/// `step` or `…` for `%12`.
fn plain_variables(view: &View<'_>, text: &str) -> String {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        match part[..end].parse() {
            Ok(n) => out.push_str(if view.counters.contains(&Var(n)) { "step" } else { "…" }),
            // The operator.
            Err(_) => out.push('%'),
        }
        out.push_str(&part[end..]);
    }
    out
}

/// `K` for `dim(K)`.
fn plain_dims(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("dim(") {
        out.push_str(before);
        let (dim, after) = behind.split_once(')').unwrap_or((behind, ""));
        out.push_str(dim);
        rest = after;
    }
    out + rest
}

fn resolved(view: &View<'_>, e: &Expr, depth: u32) -> Expr {
    let inner = |e: &Expr| Box::new(resolved(view, e, depth.saturating_sub(1)));
    match e {
        Expr::Var(var) if depth > 0 => match view.bound.get(var) {
            Some(value) => *inner(value),
            None => e.clone(),
        },
        Expr::Un(op, a) => Expr::Un(*op, inner(a)),
        Expr::Bin(op, a, b) => Expr::Bin(*op, inner(a), inner(b)),
        Expr::Cmp(op, a, b) => Expr::Cmp(*op, inner(a), inner(b)),
        Expr::Select(c, a, b) => Expr::Select(inner(c), inner(a), inner(b)),
        Expr::Cast(ty, a) => Expr::Cast(*ty, inner(a)),
        e => e.clone(),
    }
}

fn act(view: &View<'_>, stmt: &Stmt) -> Option<Act> {
    let kernel = view.kernel;
    Some(match stmt {
        Stmt::Load { dst, mem, guard, .. } => {
            let (name, space) = place(kernel, *mem);
            let guarded = if guard.is_some() { ", guarded" } else { "" };
            plain("load", format!("load {} of {space} {name}{guarded}", elements(dst.len())), &[name])
        }
        Stmt::Store { mem, values, guard, .. } => {
            let (name, space) = place(kernel, *mem);
            let guarded = if guard.is_some() { ", guarded" } else { "" };
            plain("store", format!("store {} to {space} {name}{guarded}", elements(values.len())), &[name])
        }
        Stmt::Set { frag: n, value, .. } => {
            let name = frag(kernel, *n);
            let counts = kernel.frags.get(*n as usize).is_some_and(|f| f.dtype == DType::I32);
            match value {
                _ if counts => plain("compute", format!("count in {name}"), &[name]),
                Expr::Fma(..) => plain("sum", format!("multiply-add into {name}"), &[name]),
                Expr::Bin(BinOp::Add, ..) => plain("sum", format!("add to {name}"), &[name]),
                Expr::Float(..) | Expr::Int(..) => {
                    plain("compute", format!("begin {name} with a constant"), &[name])
                }
                _ => plain("compute", format!("compute {name}"), &[name]),
            }
        }
        Stmt::For { start, end, step, body, .. } => {
            let steps = match (start, end, step) {
                (Expr::Int(start, _), Expr::Int(end, _), Expr::Int(step, _)) if *step > 0 => {
                    format!("{} times", ((end - start).max(0) + step - 1) / step)
                }
                _ => {
                    let [start, end, step] = [start, end, step].map(|e| short(view, e));
                    format!("from {start} to {end} by {step}")
                }
            };
            return block("loop", steps, actions(view, body));
        }
        Stmt::While { cond, body } => {
            return block("loop", format!("while {}", short(view, cond)), actions(view, body));
        }
        Stmt::Take { .. } => plain("compute", "take the number of the next tile", &[]),
        Stmt::Alike { shared: n, .. } => {
            let name = shared(kernel, *n);
            plain("load", format!("load the number of the next tile from shared {name}"), &[name])
        }
        Stmt::If { cond, then, otherwise } => {
            let (then, otherwise) = (actions(view, then), actions(view, otherwise));
            let mut inside = then;
            if !otherwise.is_empty() {
                inside.extend(block("if", "otherwise", otherwise));
            }
            return block("if", format!("where {}", short(view, cond)), inside);
        }
        Stmt::CopyAsync { shared: to, global, elems, .. } => {
            let (from, to) = (param(kernel, *global), shared(kernel, *to));
            plain(
                "copy",
                format!("begin to copy {} of {from} to shared {to}", elements(*elems as usize)),
                &[from, to],
            )
        }
        Stmt::CommitGroup => plain("commit", "these copies are a group", &[]),
        Stmt::WaitGroup(n) => plain("wait", pending("groups of copies", *n), &[]),
        Stmt::Barrier => plain("barrier", "barrier of all threads", &[]),
        Stmt::GroupBarrier(Group { id, threads }) => {
            plain("barrier", format!("barrier {id} of {threads} threads"), &[])
        }
        Stmt::ClusterBarrier => plain("barrier", "barrier of the cluster", &[]),
        Stmt::ClusterArrive => plain("arrive", "arrive at the barrier of the cluster", &[]),
        Stmt::ClusterWait => plain("wait", "wait for all threads of the cluster", &[]),
        Stmt::StorePeer { shared: to, values, .. } => {
            let to = shared(kernel, *to);
            plain("store", format!("store {} to shared {to} of another CTA", elements(values.len())), &[to])
        }
        Stmt::WarpBarrier => plain("barrier", "barrier of the lanes of a warp", &[]),
        Stmt::GridDependency => plain("wait", "wait for earlier grids", &[]),
        Stmt::One { thread, body } => {
            return block("one", format!("one lane of warp {}", thread / 32), actions(view, body));
        }
        Stmt::Shuffle { mask, .. } => plain("exchange", format!("exchange with lane ^ {mask}"), &[]),
        Stmt::ShuffleUp { by, .. } => plain("exchange", format!("take from lane - {by}"), &[]),
        Stmt::ShuffleLast { mask, .. } => plain("exchange", format!("take from lane | {mask}"), &[]),
        Stmt::LoadMatrices { dst, shared: from, .. } => {
            let from = shared(kernel, *from);
            plain("load", format!("load matrices of {} from shared {from}", elements(dst.len())), &[from])
        }
        Stmt::StoreMatrices { shared: to, values, .. } => {
            let to = shared(kernel, *to);
            plain("store", format!("store matrices of {} to shared {to}", elements(values.len())), &[to])
        }
        Stmt::ExchangeMatrices { .. } | Stmt::TransposeMatrix { .. } => {
            plain("exchange", "lanes exchange matrices", &[])
        }
        Stmt::JoinTwos { .. } => plain("exchange", "four lanes exchange pairs", &[]),
        Stmt::Mma { atom, frag: n, .. } => {
            let name = frag(kernel, *n);
            plain("product", format!("{} into {name}", atom.label()), &[name])
        }
        Stmt::Combine { op, mem, values, .. } => {
            let (name, space) = place(kernel, *mem);
            plain(
                "store",
                format!("{} of {} with {space} {name}, atomic", op.name(), elements(values.len())),
                &[name],
            )
        }
        Stmt::Arrive { parts, .. } => {
            plain("arrive", format!("count arrivals of {} CTAs", short(view, parts)), &[])
        }
        Stmt::LookBack { op, .. } => {
            plain("wait", format!("look back: wait for the {} of the steps before", op.name()), &[])
        }
        Stmt::Roles(roles) => {
            let all = roles.iter().flat_map(|role| {
                let threads = format!("threads {}–{}", role.first, role.first + role.threads - 1);
                block("if", threads, actions(view, &role.body))
            });
            return block("if", "roles", all.collect());
        }
        Stmt::Async(operation) => return asynchronous(kernel, operation),
        Stmt::Let(..) | Stmt::Problem { .. } | Stmt::Live(_) => return None,
    })
}

fn pending(of: &str, n: u32) -> String {
    match n {
        0 => format!("wait for all {of}"),
        n => format!("wait for all {of} but the last {n}"),
    }
}

fn asynchronous(kernel: &Kernel, operation: &Async) -> Option<Act> {
    Some(match operation {
        Async::Init { barrier, stages, arrivals } => {
            let name = shared(kernel, *barrier);
            plain("init", format!("{stages} mbarriers {name} of {arrivals} arrivals"), &[name])
        }
        Async::Arrive { barrier, bytes, cta, .. } => {
            let name = shared(kernel, *barrier);
            let bytes = bytes.map_or(String::new(), |n| format!(", {n} bytes will come"));
            let other = if cta.is_some() { " of another CTA" } else { "" };
            plain("arrive", format!("arrive at {name}{other}{bytes}"), &[name])
        }
        Async::Wait { barrier, .. } => {
            let name = shared(kernel, *barrier);
            plain("wait", format!("wait for {name}"), &[name])
        }
        Async::Look { barrier, .. } => {
            let name = shared(kernel, *barrier);
            plain("look", format!("look at {name}"), &[name])
        }
        Async::Copy { map, shared: to, everywhere, .. } => {
            let (from, to) = (tensor(kernel, *map), shared(kernel, *to));
            let all = if *everywhere { " of every CTA of the cluster" } else { "" };
            plain("copy", format!("begin to copy a box of {from} to shared {to}{all}"), &[from, to])
        }
        Async::Store { map, shared: from, .. } => {
            let (to, from) = (tensor(kernel, *map), shared(kernel, *from));
            plain("copy", format!("begin to store a box of shared {from} to {to}"), &[from, to])
        }
        Async::CommitStores => plain("commit", "these stores are a group", &[]),
        Async::WaitStores { pending: n } => plain("wait", pending("groups of stores", *n), &[]),
        Async::AwaitWritten => plain("wait", "wait until all stores are written", &[]),
        Async::Multiply { atom, frag: n, a, b, .. } => {
            let (name, b) = (frag(kernel, *n), shared(kernel, b.shared));
            let a = match a {
                Rows::Shared(tile) => shared(kernel, tile.shared),
                Rows::Held { frag: n, .. } => frag(kernel, *n),
            };
            plain("product", format!("begin {} of {a} and {b} into {name}", atom.label()), &[name, a, b])
        }
        Async::Commit => plain("commit", "these products are a group", &[]),
        Async::WaitProducts { pending: n, .. } => plain("wait", pending("groups of products", *n), &[]),
        Async::ProxyFence => plain("fence", "stores are seen by copies and products", &[]),
        Async::Fence { .. }
        | Async::Replace { .. }
        | Async::AcquireMap { .. }
        | Async::PrefetchMap { .. } => return None,
    })
}
