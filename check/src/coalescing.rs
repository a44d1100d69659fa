//! Uncoalesced access of global memory: sectors a request over those that its distinct bytes fill.

use crate::{
    Figures, Help, Lint, Rule,
    subject::Subject,
    text::{number, statements, verb},
    traffic::{Access, Count, Traffic},
    trial::Trials,
};
use tile_dsl::{
    directive::DirectiveKind,
    schedule::{Unit, UnitDim},
};

/// The rule.
pub const RULE: Rule = Rule {
    name: "uncoalesced",
    about: "sectors a request to global memory over those that its distinct bytes fill, from the addresses of the lanes",
    look,
};

/// Sectors over the least that are let pass: rows that begin within a sector cost one more.
const MOST: f64 = 1.5;

fn look(subject: &Subject<'_>) -> Vec<Lint> {
    let groups = subject.accesses(false).into_iter();
    let scattered: Vec<_> = groups.filter(|(_, sum)| sum.units as f64 > MOST * sum.least as f64).collect();
    if scattered.is_empty() {
        return Vec::new();
    }
    let (mended, note) = mended(subject);
    let lint = |(accesses, sum): (Vec<&Access>, Count)| {
        let first = accesses[0];
        let each = |units: u64| units as f64 / sum.requests as f64;
        let figures =
            Figures { predicted: each(sum.units), bound: each(sum.least), unit: "sectors a request" };
        let help = mended.as_ref().and_then(|(directives, traffic)| {
            let then = sectors_each(traffic, first)?;
            (then < figures.predicted).then(|| Help { directives: directives.clone(), predicted: then })
        });
        let note = help.is_none().then(|| note.clone());
        Lint {
            rule: RULE.name,
            place: first.buffer.clone(),
            figures,
            message: format!(
                "{} `{}`, {} bytes a lane, take {} sectors a request; its bytes fill {}",
                verb(first.form),
                first.buffer,
                first.bytes,
                number(figures.predicted),
                number(figures.bound)
            ),
            notes: [Some(statements(&accesses)), note].into_iter().flatten().collect(),
            help,
        }
    };
    scattered.into_iter().map(lint).collect()
}

/// Sectors a request of the accesses of a buffer that are alike.
fn sectors_each(traffic: &Traffic, access: &Access) -> Option<f64> {
    let own =
        traffic.accesses.iter().filter(|a| !a.shared && (&a.buffer, a.form) == (&access.buffer, access.form));
    let (units, requests) = own.fold((0, 0), |(u, r), a| (u + a.count.units, r + a.count.requests));
    (requests > 0).then(|| units as f64 / requests as f64)
}

/// Sectors of all requests.
fn all(traffic: &Traffic) -> u64 {
    traffic.accesses.iter().filter(|a| !a.shared).map(|a| a.count.units).sum()
}

/// Loops bound to x and y of threads, or of lanes, exchanged: the best that needs fewer sectors in all, or why there is none.
fn mended(subject: &Subject<'_>) -> (Option<(String, Traffic)>, String) {
    let mut trials = Trials::of(subject);
    let mut best: Option<(u64, String, Traffic)> = None;
    for unit in [Unit::Thread, Unit::Lane] {
        let mut exchanged = Vec::new();
        for directive in &subject.program.schedule.directives {
            if let DirectiveKind::Bind(bind) = &directive.kind
                && bind.unit == unit
                && bind.xor.is_none()
                && let Some(dim) = other(bind.dim)
            {
                let mut bind = bind.clone();
                bind.dim = dim;
                exchanged.push(bind);
            }
        }
        // One dimension alone has nothing to be exchanged with.
        if [UnitDim::X, UnitDim::Y].iter().any(|dim| exchanged.iter().all(|b| b.dim != *dim)) {
            continue;
        }
        let put: Vec<DirectiveKind> = exchanged.iter().cloned().map(DirectiveKind::Bind).collect();
        let old = |kind: &DirectiveKind| match kind {
            DirectiveKind::Bind(bind) => exchanged.iter().any(|b| b.digit == bind.digit),
            _ => false,
        };
        let Some(trial) = trials.with(&put, old) else { continue };
        let sectors = all(&trial.traffic);
        if sectors < best.as_ref().map_or(all(&subject.traffic), |(most, ..)| *most) {
            let text: Vec<String> = put.iter().map(ToString::to_string).collect();
            best = Some((sectors, text.join("; "), trial.traffic));
        }
    }
    let note = trials.without_gain("exchange of bound loops");
    (best.map(|(_, text, traffic)| (text, traffic)), note)
}

fn other(dim: UnitDim) -> Option<UnitDim> {
    match dim {
        UnitDim::X => Some(UnitDim::Y),
        UnitDim::Y => Some(UnitDim::X),
        UnitDim::Z => None,
    }
}
