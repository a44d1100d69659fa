//! Roles and tiles: who runs the program of a CTA, and for which of its tiles.
//!
//! ```text
//! roles { threads 0 to T:   the program, a channel's copies left out:
//!                           await full[stage] parity; compute(stage); arrive empty[stage]
//!         threads T to T+P: the loops around the copies alone:
//!                           await empty[stage] parity; expect bytes; copy → stage }
//! ```
//! Both walk the same loops, so the n-th step of one is the n-th of the other. One of the producer's threads does it all.
//! Barriers of the program are those of its own threads.
//! Groups that take tiles in turn (`turns`) are a role each.
//! A persistent CTA takes tile after tile: all roles have the loop over tiles, and channels go on from one to the next.
//! Where tiles are of two sizes (`segment`), the program stands twice behind one branch: `if whole { .. } else { .. }`.

use super::{
    cluster,
    context::Cx,
    control::{self, Span},
    counted,
    digits::StepOrder,
    emit::{Atom, Op},
    error::LowerError,
    freeze,
    grid::{Decoded, Grid},
    limits, lookback, mbarriers, output, private, ring, skew,
    sync::Sync,
    turns, walk,
};
use crate::{
    dtype::DType,
    kernel,
    nest::{Nest, TileSize},
    op::{BinOp, CmpOp},
    plan::{Does, Producer, Producing, Role},
};

/// The whole kernel.
pub(super) fn kernel(cx: &mut Cx<'_>) -> Result<(), LowerError> {
    let (nest, plan) = (cx.view.nest, cx.view.plan);
    cluster::announce(cx);
    let mut roles = Vec::new();
    for Role { threads, registers, does } in &plan.roles {
        let (first, threads) = (threads.start, threads.end - threads.start);
        let body = match does {
            // All threads do the same.
            Does::Compute { group, of, barrier: None } => {
                tiles(cx, *group, *of, &|cx| compute(cx, nest))?;
                output::await_sent(cx);
                return Ok(());
            }
            Does::Compute { group, of, barrier: Some(id) } => {
                (cx.env.tile.group, cx.env.tile.units.first) = (*group, first);
                cx.build.emit.push();
                turns::first_turn(cx)?;
                tiles(cx, *group, *of, &|cx| compute(cx, nest))?;
                output::await_sent(cx);
                let mut body = cx.build.emit.pop();
                among(&mut body, kernel::Group { id: *id, threads });
                cx.build.sync = Sync::default();
                body
            }
            Does::Produce { thread, loops } => {
                cx.build.emit.push();
                cx.env.tile.computes = false;
                tiles(cx, 0, 1, &|cx| produce(cx, loops))?;
                cx.env.tile.computes = true;
                let mut body = vec![kernel::Stmt::One { thread: *thread, body: cx.build.emit.pop() }];
                // Those are of all threads.
                body.append(&mut cx.build.cluster_barriers);
                body
            }
        };
        roles.push(kernel::Role { first, threads, registers: *registers, body });
    }
    cx.build.emit.stmt(kernel::Stmt::Roles(roles));
    if nest.cluster.is_some() && !nest.cluster_reduces() {
        // Others may still copy to this CTA, or arrive at its mbarriers.
        cx.build.emit.stmt(kernel::Stmt::ClusterBarrier);
    }
    Ok(())
}

/// What is done for a tile.
type Body<'f, 'a> = &'f dyn Fn(&mut Cx<'a>) -> Result<(), LowerError>;

/// The tiles of this CTA: one, or one after the other, of which a group takes each `of`-th.
fn tiles<'a>(cx: &mut Cx<'a>, group: u32, of: u32, body: Body<'_, 'a>) -> Result<(), LowerError> {
    let body = |cx: &mut Cx<'a>| {
        body(cx)?;
        output::send_collected(cx)
    };
    // Each of several problems has scratch, and so a counter, of its own: their tiles are taken in rounds.
    if cx.view.plan.tiles.counted && !cx.view.given.grouped {
        let total = total(cx);
        return counted::tiles(cx, total, &|cx, number| {
            let number = place(cx, number);
            tile(cx, Some(number), &body)
        });
    }
    freeze::passes(cx, &|cx| rounds(cx, group, of, &body))
}

/// How many there are for all CTAs.
fn total(cx: &mut Cx<'_>) -> Atom {
    match cx.view.given.grouped {
        true => cx.build.emit.op(Op::Tiles, &[]),
        false => Grid::tiles(&cx.view.plan.tiles, &mut cx.build.emit),
    }
}

/// Finds where the tile of a number is; its number among those of its problem.
fn place(cx: &mut Cx<'_>, mut number: Atom) -> Atom {
    if cx.view.given.grouped {
        // What the extents of another problem gave is of no use here.
        cx.build.pitches.clear();
        cx.env.tile.number = Some(number);
        number = cx.build.emit.problem(number);
    }
    if cx.view.plan.tiles.segment.is_none() {
        cx.env.tile.grid = Grid::of(&cx.view.plan.tiles, &mut cx.build.emit, Some(number));
    }
    number
}

/// Those that lie as far apart as there are CTAs.
fn rounds<'a>(cx: &mut Cx<'a>, group: u32, of: u32, body: Body<'_, 'a>) -> Result<(), LowerError> {
    if cx.view.plan.tiles.persistent.is_none() {
        let number = cx.env.tile.in_problem;
        return lookback::tile(cx, |cx| tile(cx, number, body));
    }
    let (cta, ctas) = (cx.build.emit.op(Op::Cta, &[]), cx.build.emit.op(Op::Ctas, &[]));
    let others = cx.build.emit.bin(BinOp::Mul, ctas, Atom::i32(group.into()));
    let serpentine = cx.view.plan.tiles.serpentine_rounds;
    let start = if serpentine { others } else { cx.build.emit.add(cta, others) };
    let step = cx.build.emit.bin(BinOp::Mul, ctas, Atom::i32(of.into()));
    let total = total(cx);
    cx.build.emit.push();
    let var = cx.build.emit.var(DType::I32);
    let mut number = Atom::Var(var);
    let mut exists = None;
    if serpentine {
        let own = in_round(cx, number, [cta, ctas]);
        let left = cx.build.emit.bin(BinOp::Sub, total, number);
        exists = Some(cx.build.emit.cmp(CmpOp::Lt, own, left));
        number = cx.build.emit.add(number, own);
    }
    let number = place(cx, number);
    if !cx.view.nest.alternate.is_empty() {
        let before = match serpentine {
            true => Atom::Var(var),
            false => cx.build.emit.bin(BinOp::Sub, Atom::Var(var), cta),
        };
        let before = cx.build.emit.bin(BinOp::Div, before, ctas);
        let odd = cx.build.emit.bin(BinOp::Rem, before, Atom::i32(2));
        cx.env.tile.odd = Some(cx.build.emit.cmp(CmpOp::Eq, odd, Atom::i32(1)));
    }
    cx.env.tile.counter = Some(Atom::Var(var));
    cx.build.sync.enter();
    let before = cx.build.sync.clone();
    let mut some = serpentine;
    control::only_if(cx, exists, |cx| {
        let has_to = freeze::has_to(cx)?;
        some |= has_to.is_some();
        control::only_if(cx, has_to, |cx| tile(cx, Some(number), body))
    })?;
    // Not all steps have a tile.
    if some {
        cx.build.sync.or(before);
        cx.build.emit.forget_loads(|_| true);
    }
    if cx.build.sync.leave(false) {
        cx.build.emit_barrier();
    }
    (cx.env.tile.odd, cx.env.tile.counter) = (None, None);
    let body = cx.build.emit.pop();
    let (start, end, step) = (start.expr(), total.expr(), step.expr());
    cx.build.emit.stmt(kernel::Stmt::For { var, start, end, step, body });
    cx.build.emit.forget_loads(|_| true);
    Ok(())
}

/// Which tile of the round that begins with `first` this CTA takes: rounds are taken forwards and backwards in turn. The CTAs of a cluster
/// keep their order.
fn in_round(cx: &mut Cx<'_>, first: Atom, [cta, ctas]: [Atom; 2]) -> Atom {
    let cluster = i64::from(cx.view.nest.cluster_ctas());
    let rank = cx.build.emit.bin(BinOp::Rem, cta, Atom::i32(cluster));
    let own = cx.build.emit.bin(BinOp::Sub, cta, rank);
    let last = cx.build.emit.add(ctas, Atom::i32(-cluster));
    let back = cx.build.emit.bin(BinOp::Sub, last, own);
    let back = cx.build.emit.add(back, rank);
    let round = cx.build.emit.bin(BinOp::Div, first, ctas);
    let odd = cx.build.emit.bin(BinOp::Rem, round, Atom::i32(2));
    let odd = cx.build.emit.cmp(CmpOp::Eq, odd, Atom::i32(1));
    cx.build.emit.op(Op::Select, &[odd, back, cta])
}

/// The tile of this number, or of this CTA's. Of two sizes, each has a program of its own.
fn tile<'a>(cx: &mut Cx<'a>, number: Option<Atom>, body: Body<'_, 'a>) -> Result<(), LowerError> {
    if cx.view.plan.tiles.segment.is_none() {
        return body(cx);
    }
    let number = number.unwrap_or_else(|| cx.build.emit.op(Op::Cta, &[]));
    let (is_whole, place) = Decoded::of_two_sizes(&cx.view.plan.tiles, &mut cx.build.emit, number);
    let before = cx.build.sync.clone();
    let then = of_size(cx, TileSize::Whole, &place, body)?;
    let after = std::mem::replace(&mut cx.build.sync, before);
    let otherwise = of_size(cx, TileSize::Last, &place, body)?;
    cx.build.sync.or(after);
    cx.build.emit.stmt(kernel::Stmt::If { cond: is_whole.expr(), then, otherwise });
    cx.build.emit.forget_loads(|_| true);
    Ok(())
}

/// The program for a tile of a size.
fn of_size<'a>(
    cx: &mut Cx<'a>,
    size: TileSize,
    place: &Decoded,
    body: Body<'_, 'a>,
) -> Result<Vec<kernel::Stmt>, LowerError> {
    cx.build.emit.push();
    cx.env.tile.size = size;
    cx.env.tile.grid = place.grid(&cx.view.plan.tiles, &mut cx.build.emit, size);
    body(cx)?;
    cx.env.tile.size = TileSize::Whole;
    Ok(cx.build.emit.pop())
}

/// A tile.
fn compute(cx: &mut Cx<'_>, nest: &Nest) -> Result<(), LowerError> {
    private::begin(cx)?;
    walk::stmt(cx, &nest.body)?;
    private::end(cx)
}

/// The loops of a producer.
fn produce(cx: &mut Cx<'_>, loops: &[Producing]) -> Result<(), LowerError> {
    loops.iter().try_for_each(|step| match step {
        Producing::Around { digit, at, inside } => {
            control::each_step(cx, (*digit, *at), StepOrder::Scheduled, limits::span, &mut |cx| {
                produce(cx, inside)
            })
        }
        Producing::Frozen { value, inside } => {
            let frozen = cx.view.plan.maxima.of_let(&[*value]);
            let frozen = frozen.ok_or_else(|| LowerError::Malformed("a maximum that stays".into()))?;
            freeze::copied(cx, frozen, &|cx| produce(cx, inside))
        }
        Producing::Tile { copies, body, inside } => {
            let channels = cx.view.plan.channels.get(None, copies, body).iter();
            for channel in channels.filter(|channel| matches!(channel.producer, Producer::Role(_))) {
                let flow = ring::open(cx, channel, body)?;
                mbarriers::fill_next(cx, &flow)?;
            }
            produce(cx, inside)
        }
        Producing::Ring { digit, stages, copies, body, inside } => {
            let channel = match ring::channels(cx, (*digit, *stages), copies, body)? {
                [ahead, behind] => {
                    return skew::produce(cx, *digit, [ahead, behind], body, &|cx| produce(cx, inside));
                }
                channels => &channels[0],
            };
            let ring = ring::ring(cx, *digit, channel, body)?;
            // Those that copy mask nothing, and all steps are alike.
            let span = Span { whole: None, ..ring.span };
            let frozen = cx.env.frozen.take();
            let copied = control::run_loop(cx, (*digit, ring.at()), span, true, |cx| {
                mbarriers::fill_next(cx, &ring.flow)?;
                // Loops inside may have copies of their own.
                produce(cx, inside)
            });
            cx.env.frozen = frozen;
            copied
        }
    })
}

/// Barriers of a program become those of its own threads.
fn among(stmts: &mut [kernel::Stmt], threads: kernel::Group) {
    for stmt in stmts {
        match stmt {
            kernel::Stmt::Barrier => *stmt = kernel::Stmt::GroupBarrier(threads),
            kernel::Stmt::Arrive { group, .. } => *group = Some(threads),
            other => other.blocks_mut().into_iter().for_each(|block| among(block, threads)),
        }
    }
}
