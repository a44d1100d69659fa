//! How long a candidate takes, in closed form: no launch, no simulator.
//!
//! Of work that moves more than it computes:
//!
//! ```text
//! time = launch + ‖memory, issue, lines, waits‖₃ + combine + rounds + parts
//! memory = bytes / bandwidth · (1 + latency / in flight) · (1 + ½ (tail − 1))
//! ```
//! Of a product, with the rounds of tiles that multiprocessors take:
//!
//! ```text
//! time = launch + start + ‖compute, memory, copies‖₃ + parts
//! compute = Σ rounds ‖r · steps · max(multiply, copy), steps · (step + latency / stages) + first‖₃ + r · epilogue
//! ```
//! `‖..‖₃` is the cube root of the sum of cubes: the largest term, and a little of the others. The constants were fitted to launches on an
//! H100, those of one product to some 1,100 launches of 95 random shapes on an H200; guessed ones choose nearly as well: the terms matter.

use crate::{
    candidate::{Candidate, Cores, Shape},
    site::Site,
    structure::{Access, AxisAt, How, Role},
};
use std::fmt::{self, Display};

/// What a candidate is expected to take.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The parts, microseconds each. The module says how they are combined.
    pub terms: Vec<(&'static str, f64)>,
    /// Microseconds in all.
    pub us: f64,
}

impl Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} us:", self.us)?;
        let some = self.terms.iter().filter(|(_, us)| *us >= 0.05);
        for (n, (name, us)) in some.enumerate() {
            write!(f, "{} {name} {us:.1}", if n == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// The cube root of the sum of cubes.
fn norm(terms: &[f64]) -> f64 {
    terms.iter().map(|x| x.powi(3)).sum::<f64>().cbrt()
}

/// The expectation of a candidate.
pub fn predict(site: &Site<'_>, candidate: &Candidate) -> Prediction {
    match candidate.shape.cores {
        Some(cores) => product(site, &candidate.shape, cores),
        None => memory(site, &candidate.shape),
    }
}

/// CTAs of a launch, those that share a reduction each counted.
fn ctas(site: &Site<'_>, shape: &Shape) -> f64 {
    let along = |a: AxisAt| (site.extent(a) as f64 / shape.tile(a) as f64).ceil();
    site.structure.program().into_iter().map(along).product::<f64>() * shape.parts as f64
}

/// Bytes of the tensors that are accessed, each once: `read` or stored.
fn bytes(site: &Site<'_>, read: bool) -> f64 {
    let mut tensors: Vec<(&str, f64)> = Vec::new();
    for access in site.structure.accesses.iter().filter(|a| (a.how == How::Read) == read) {
        let own = site.structure.points(&access.axes(), site.sizes) * f64::from(access.dtype.bytes());
        match tensors.iter_mut().find(|(name, _)| *name == access.tensor) {
            Some((_, most)) => *most = most.max(own),
            None => tensors.push((&access.tensor, own)),
        }
    }
    tensors.iter().map(|(_, bytes)| bytes).sum()
}

/// Elements that one instruction of an access moves.
fn merged(site: &Site<'_>, shape: &Shape, access: &Access) -> f64 {
    let moved = (shape.vector / i64::from(access.dtype.bytes())).max(1);
    match access.along() {
        Some(axis)
            if shape.lane.is_none_or(|lane| neighbours(site, access, lane)) && is_even(site, axis, shape) =>
        {
            moved as f64
        }
        _ => 1.0,
    }
}

/// Whether neighbouring points of an axis are neighbours in memory, perhaps with a short axis inside.
fn neighbours(site: &Site<'_>, access: &Access, lane: AxisAt) -> bool {
    let (Some(inner), Some(dim)) = (access.along(), access.contiguous()) else { return false };
    let whole = |(axis, factor): &(AxisAt, i64)| *axis == lane && *factor == site.extent(inner);
    inner == lane || dim.terms.iter().any(whole)
}

/// Whether rows along an axis begin where vectors do; otherwise each element is moved by itself.
fn is_even(site: &Site<'_>, axis: AxisAt, shape: &Shape) -> bool {
    let bytes = site.element_bytes(axis).1;
    let short = site.structure.axes[axis].extent.as_constant().is_some();
    short || shape.vector <= bytes || site.extent(axis) * bytes % shape.vector == 0
}

fn memory(site: &Site<'_>, shape: &Shape) -> Prediction {
    let (s, gpu) = (site.structure, site.gpu);
    let ctas = ctas(site, shape);
    let threads = shape.threads as f64;
    let (read, stored) = (bytes(site, true), bytes(site, false));
    let streams = site.streams() as f64;

    // What is in flight: the more, the nearer to the bandwidth.
    let held = shape.held > 0 && shape.shared == 0;
    let element = shape.lane.map_or(4, |c| site.element_bytes(c).1);
    let own = if held { shape.held * element } else { shape.vector * shape.flight };
    let mut flight = own as f64 * streams;
    if !held && shape.shared == 0 {
        // What the assembler keeps in registers.
        flight = (flight.powi(-3) + (64.0 * streams.sqrt()).powi(-3)).powf(-1.0 / 3.0);
    }
    let per_thread = (read.max(stored) / (ctas * threads)).max(1e-3);
    let used = (per_thread / flight).min(1.0);
    let flight = flight.min(per_thread);
    let registers = 24.0 + if held || shape.shared == 0 { flight / 4.0 } else { 0.0 };
    let by_registers = 65536.0 / (registers * threads);
    let by_shared = 227.0 * 1024.0 / (shape.shared as f64).max(1.0);
    let resident = (2048.0 / threads).min(by_registers).min(by_shared).min(32.0).floor().max(1.0);
    let per_sm = ctas / gpu.multiprocessors;
    let rounds = per_sm / resident;
    let mut tail = if rounds > 1.0 { rounds.ceil() / rounds } else { per_sm.ceil() / per_sm };
    for axis in s.program() {
        let tile = shape.tile(axis) as f64;
        let extent = site.extent(axis) as f64;
        tail *= (extent / tile).ceil() * tile / extent;
    }
    let active = resident.min(per_sm);
    let in_flight = (active * threads * flight / 1024.0).max(1e-3);
    let again = (shape.passes - 1).max(0) as f64 * 0.5 * read;
    let parts = if shape.parts > 1 { 8.0 * shape.parts as f64 * stored } else { 0.0 };
    let odd = shape.lane.is_some_and(|c| !is_even(site, c, shape));
    let scattered = (128.0 / shape.line as f64 - 1.0).max(0.0) + if odd { 1.0 } else { 0.0 };
    let moved = (read + stored + again + parts) * (1.0 + 0.3 * scattered);
    let bandwidth = gpu.memory * gpu.reach;
    let dram = moved / bandwidth * (1.0 + gpu.latency_kb / in_flight) * (1.0 + 0.5 * (tail - 1.0).min(8.0));

    // Instructions, and lines that warps ask for.
    let (mut instructions, mut lines) = (0.0, 0.0);
    for work in &s.work {
        let passes =
            if work.axes.iter().any(|a| s.axes[*a].role != Role::Program) { shape.passes } else { 1 };
        instructions +=
            work.operations * s.points(&work.axes, site.sizes) * (1.0 + 0.5 * (passes - 1) as f64);
    }
    let requests = |access: &Access| {
        s.points(&access.points, site.sizes) * shape.passes as f64 / merged(site, shape, access)
    };
    for access in &s.accesses {
        let requests = requests(access);
        instructions += 4.0 * requests;
        let alike =
            shape.lane.is_none_or(|lane| neighbours(site, access, lane) || !access.axes().contains(&lane));
        let width = if alike { (shape.vector as f64 / 4.0).max(1.0) } else { 32.0 };
        lines += requests / 32.0 * width * 32.0 / threads.min(32.0);
    }
    let warps = (threads / 32.0).ceil();
    let idle = (32.0 / threads).max(1.0);
    let busy = gpu.multiprocessors.min(ctas);
    let issued = (4.0 * busy).min(0.25 * ctas.min(resident * gpu.multiprocessors) * warps);
    let issue = instructions / 32.0 * idle / used.max(0.1) / issued / gpu.cycles;
    let lines = lines / busy / gpu.cycles;
    // What is read again and again comes from near by, but one load after the other.
    let again: f64 =
        s.accesses.iter().filter(|a| a.how == How::Read && !a.again_over().is_empty()).map(requests).sum();
    let waits = if shape.shared == 0 { 100.0 * again / (ctas * threads) / gpu.cycles } else { 0.0 };

    let combined = s.reductions.len() as f64 * if shape.lanes > 32 { 2.5 } else { 1.0 };
    let combine = if shape.lanes > 1 { 0.25 * combined * rounds.ceil() } else { 0.0 };
    let start = 0.5 * rounds.ceil() * (256.0 / threads + 0.5).min(1.0);
    let parts = if shape.parts > 1 { 3.0 * (1.0 + (shape.parts as f64).log2() / 8.0) } else { 0.0 };
    let us = gpu.launch + norm(&[dram, issue, lines, waits]) + combine + start + parts;
    let terms = vec![
        ("launch", gpu.launch),
        ("memory", dram),
        ("issue", issue),
        ("lines", lines),
        ("waits", waits),
        ("combine", combine),
        ("rounds", start),
        ("parts", parts),
    ];
    Prediction { terms, us }
}

fn product(site: &Site<'_>, shape: &Shape, cores: Cores) -> Prediction {
    let (s, gpu) = (site.structure, site.gpu);
    let tiles = ctas(site, shape);
    let tile = |n: usize| shape.tile.get(n).map_or((0, 1), |t| *t);
    let ((i, bi), (_, bj)) = (tile(0), tile(1));
    let element =
        s.accesses.iter().find(|a| a.axes().contains(&i)).map_or(4.0, |a| f64::from(a.dtype.bytes()));
    let sums: Vec<_> = s.reductions.iter().filter(|r| r.product.is_some()).collect();
    let (bi, bj) = (bi as f64, bj as f64);
    // Multiply-adds of a tile and what it copies, all steps together.
    let points = |axes: &std::collections::BTreeSet<AxisAt>| {
        axes.iter()
            .map(|a| {
                if s.axes[*a].role == Role::Program { shape.tile(*a) as f64 } else { site.extent(*a) as f64 }
            })
            .product::<f64>()
    };
    let multiplied: f64 = sums.iter().map(|r| points(&(&r.axes | &r.over))).sum::<f64>() / shape.parts as f64;
    let last = &shape.tile[shape.tile.len() - 1];
    let steps = (site.extent(last.0) as f64 / last.1 as f64 / shape.parts as f64).ceil().max(1.0);
    let points_of_step = shape.step().unwrap_or(0) as f64;
    let copied: f64 = s
        .accesses
        .iter()
        .filter(|a| a.how == How::Read && !a.again_over().is_empty())
        .map(|a| points(&a.axes()) * f64::from(a.dtype.bytes()))
        .sum::<f64>()
        / shape.parts as f64;
    let peak = match cores {
        Cores::Fma => 128.0,
        Cores::Mma | Cores::Wgmma => gpu.tensor / 2.0,
    };
    let each = shape.each as f64;
    let rates = Rates::of(cores, shape);
    let share = match cores {
        // Short steps are quicker, by a tenth for 16 points beside 64.
        Cores::Fma => rates.share * each / (each + 8.0) / (1.0 + points_of_step / 400.0),
        Cores::Mma | Cores::Wgmma => rates.share / (1.0 + 16.0 / 3.0 * (bi + bj) / (bi * bj)),
    };
    // What lies between two products of one group runs beside the products of others: with heads of 64, two groups take 9 % longer than
    // three (H200, 2026-11-30).
    let groups = ((shape.threads / 128) as f64 - 1.0).max(1.0);
    let share =
        if cores == Cores::Wgmma && shape.step().is_none() { share * (1.0 - 0.4 / groups) } else { share };
    let mut multiply = multiplied / steps / peak / share;
    let threads = shape.threads as f64;
    // Sums beyond the registers of a thread that does not give up a producer's.
    let computing = threads - if shape.stays { 128.0 } else { 32.0 };
    if cores == Cores::Wgmma && !shape.stays && bi * bj / computing.max(128.0) > 128.0 {
        multiply *= 3.0;
    }
    if cores == Cores::Mma && shape.step().is_none() {
        multiply *= 1.0 + (each + 64.0 - 256.0).max(0.0) / 64.0;
    }
    let registers = match cores {
        Cores::Fma if bi * bj > 16384.0 => 255.0,
        Cores::Fma => 128.0,
        Cores::Mma if bi * bj > 16384.0 => 255.0,
        Cores::Mma => 168.0,
        Cores::Wgmma => 168.0,
    };
    let by_registers = if cores == Cores::Wgmma { 4.0 } else { (65536.0 / (registers * threads)).floor() };
    let by_shared = (227.0 * 1024.0 / (shape.shared as f64 + 1024.0)).floor();
    let resident =
        if shape.stays { 1.0 } else { (2048.0 / threads).floor().min(by_registers).min(by_shared).max(1.0) };
    let each_sm = (tiles / gpu.multiprocessors).ceil();
    let round = |r: f64| {
        // One warp a scheduler hides little.
        let alone = if cores == Cores::Fma { 1.0 + 128.0 / (r * threads) } else { 1.0 };
        let throughput = r * steps * (multiply * alone).max(copied / steps / rates.copy);
        let serial = steps
            * (rates.step
                + rates.atom * points_of_step / 16.0
                + rates.latency / (shape.stages as f64).min(steps).max(1.0))
            + rates.first;
        let epilogue = rates.epilogue * bi * bj * r * if shape.turns { rates.turns } else { 1.0 };
        norm(&[throughput, serial]) + epilogue
    };
    let whole = (each_sm / resident).floor();
    let rest = each_sm - whole * resident;
    let cycles = whole * round(resident) + if rest > 0.0 { round(rest) } else { 0.0 };
    let compute = cycles / gpu.cycles;
    let stored = bytes(site, false);
    let partial =
        if shape.parts > 1 { rates.partial * shape.parts as f64 * 8.0 * stored / element } else { 0.0 };
    let dram = (bytes(site, true) + stored + partial) / (gpu.memory * gpu.reach * rates.reach);
    let parts = if shape.parts > 1 { 1.7 + 0.45 * (shape.parts as f64).log2() } else { 0.0 };
    let copies = tiles * copied / (rates.l2 * gpu.multiprocessors * gpu.cycles);
    let us = gpu.launch + rates.start + norm(&[compute, dram, copies]) + parts;
    let terms = vec![
        ("launch", gpu.launch),
        ("start", rates.start),
        ("compute", compute),
        ("memory", dram),
        ("copies", copies),
        ("parts", parts),
    ];
    Prediction { terms, us }
}

/// Constants of products: those of one, and the general ones, of products that follow one another.
struct Rates {
    /// Of the peak, the most that large tiles reach.
    share: f64,
    /// Cycles of a step that nothing hides, and of each 16 of its points.
    step: f64,
    atom: f64,
    /// Cycles until a step's copy is there.
    latency: f64,
    /// Cycles before the first step multiplies.
    first: f64,
    /// Bytes that a multiprocessor copies in a cycle.
    copy: f64,
    /// Cycles of an element that is stored.
    epilogue: f64,
    /// What of it remains where others multiply meanwhile.
    turns: f64,
    /// Bytes of partial sums, those of memory as the unit.
    partial: f64,
    /// Share of a large copy's bandwidth.
    reach: f64,
    /// Bytes a cycle that L2 has for each multiprocessor, where all ask.
    l2: f64,
    /// Microseconds before a CTA is at work.
    start: f64,
}

impl Rates {
    fn of(cores: Cores, shape: &Shape) -> Self {
        let general = Rates {
            share: 0.85,
            step: 60.0,
            atom: 0.0,
            latency: 900.0,
            first: 900.0,
            copy: 50.0,
            epilogue: 0.06,
            turns: 0.4,
            partial: 1.0,
            reach: 0.9,
            l2: f64::INFINITY,
            start: 0.0,
        };
        let one = Rates {
            copy: 55.0,
            epilogue: 0.11,
            turns: 0.9,
            partial: 2.5,
            reach: 0.8,
            l2: 34.5,
            start: 1.4,
            first: 750.0,
            ..general
        };
        match (cores, shape.step()) {
            (Cores::Fma, Some(_)) => Rates { start: 1.4, partial: 2.5, ..general },
            (Cores::Fma, None) => general,
            (Cores::Mma, Some(_)) => Rates { share: 0.5, step: 0.0, atom: 40.0, latency: 1000.0, ..one },
            (Cores::Mma, None) => Rates { share: 0.6, ..general },
            (Cores::Wgmma, Some(_)) if shape.stays => Rates { share: 1.0, step: 80.0, latency: 380.0, ..one },
            (Cores::Wgmma, Some(_)) => Rates { share: 0.85, step: 80.0, latency: 380.0, ..one },
            (Cores::Wgmma, None) => Rates { share: 0.8, ..general },
        }
    }
}
