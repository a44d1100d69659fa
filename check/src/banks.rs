//! Bank conflicts of shared memory: wavefronts a request over one a phase, and the padding or swizzle that needs fewest.

use crate::{
    Figures, Help, Lint, Rule,
    subject::Subject,
    text::{number, statements, verb},
    traffic::{Access, Count, Traffic},
    trial::{Trial, Trials},
};
use tile_dsl::directive::{DirectiveKind, Pad, Swizzle};

/// The rule.
pub const RULE: Rule = Rule {
    name: "bank-conflicts",
    about: "wavefronts a request to shared memory over those that its width needs, from the addresses of the lanes",
    look,
};

/// Bytes of padding, and spans of a swizzle, that are tried.
const PADS: [u32; 6] = [2, 4, 8, 16, 32, 64];
const SPANS: [u32; 3] = [32, 64, 128];

fn look(subject: &Subject<'_>) -> Vec<Lint> {
    let groups = subject.accesses(true);
    let conflicts = groups.into_iter().filter(|(_, sum)| sum.units > sum.least);
    conflicts.map(|(accesses, sum)| lint(subject, &accesses, sum)).collect()
}

fn lint(subject: &Subject<'_>, accesses: &[&Access], sum: Count) -> Lint {
    let first = accesses[0];
    let each = |units: u64| units as f64 / sum.requests as f64;
    let figures =
        Figures { predicted: each(sum.units), bound: each(sum.least), unit: "wavefronts a request" };
    let (help, note) = mended(subject, first, sum);
    Lint {
        rule: RULE.name,
        place: first.buffer.clone(),
        figures,
        message: format!(
            "{} shared `{}`, {} bytes a lane, take {} wavefronts a request; {} would do",
            verb(first.form),
            first.buffer,
            first.bytes,
            number(figures.predicted),
            number(figures.bound)
        ),
        notes: [Some(statements(accesses)), note].into_iter().flatten().collect(),
        help,
    }
}

/// The wavefronts of all requests to shared memory.
fn all(traffic: &Traffic) -> u64 {
    traffic.accesses.iter().filter(|a| a.shared).map(|a| a.count.units).sum()
}

/// The best edit; or why there is none.
fn mended(subject: &Subject<'_>, access: &Access, sum: Count) -> (Option<Help>, Option<String>) {
    let buffer = access.buffer.clone();
    let of = |kind: &DirectiveKind| match kind {
        DirectiveKind::Pad(p) => p.buffer == buffer,
        DirectiveKind::Swizzle(s) => s.buffer == buffer,
        _ => false,
    };
    let pads = PADS.map(|bytes| DirectiveKind::Pad(Pad { buffer: buffer.clone(), bytes }));
    let spans = SPANS.map(|span| DirectiveKind::Swizzle(Swizzle { buffer: buffer.clone(), span }));
    let mut trials = Trials::of(subject);
    // Fewest wavefronts in all, then fewest bytes: what is tried first wins where both are the same.
    let mut best: Option<(u64, u64, Help)> = None;
    for edit in spans.into_iter().chain(pads) {
        let Some(Trial { kernel, traffic }) = trials.with(std::slice::from_ref(&edit), of) else { continue };
        let (wavefronts, bytes) = (all(&traffic), kernel.shared_bytes());
        let better = best.as_ref().is_none_or(|(w, b, _)| (wavefronts, bytes) < (*w, *b));
        let own = traffic.accesses.iter().filter(|a| a.shared && a.buffer == buffer && a.form == access.form);
        let (units, requests) = own.fold((0, 0), |(u, r), a| (u + a.count.units, r + a.count.requests));
        let gains = wavefronts < all(&subject.traffic) && units * sum.requests < sum.units * requests;
        if better && gains {
            let predicted = units as f64 / requests as f64;
            best = Some((wavefronts, bytes, Help { directives: edit.to_string(), predicted }));
        }
    }
    match best {
        Some((_, bytes, help)) => {
            let more = bytes as i64 - subject.kernel.shared_bytes() as i64;
            let note =
                (more > 0).then(|| format!("`{}` takes {more} bytes of shared memory more", help.directives));
            (Some(help), note)
        }
        None => (None, Some(trials.without_gain("`pad` or `swizzle`"))),
    }
}
