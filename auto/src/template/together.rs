//! A point of the programs' axes a CTA, its threads along whole axes: for what is held along them, such as sums, and for their reductions.
//!
//! | hole | rule |
//! |---|---|
//! | threads | 32 to 512 along each whole axis that no statement has with another one that threads share |
//! | held | axes that reductions keep, by `fits` of the size; along others, values are computed again |
//! | step | 16, 4 or 1 points of a loop that carries state |

use super::{Template, needs};
use crate::{
    candidate::{Candidate, Shape, Text},
    site::Site,
    structure::{AxisAt, Role},
};

pub(super) const TEMPLATE: Template = Template {
    name: "together",
    what: "threads along whole axes",
    applies: |site| needs(!shared(site).is_empty(), "no whole axis is reduced or stored along"),
    candidates,
};

/// Whole axes that threads share, those that are held first; no two of them in one statement.
fn shared(site: &Site<'_>) -> Vec<AxisAt> {
    let s = site.structure;
    let kept = site.kept();
    let rest = s.with_role(Role::Whole).into_iter().filter(|a| !kept.contains(a));
    let meets = |a: AxisAt, b: AxisAt| {
        s.work.iter().any(|w| w.axes.contains(&a) && w.axes.contains(&b))
            || s.accesses.iter().any(|x| {
                x.points.contains(&a)
                    && x.points.contains(&b)
                    && !x.again_over().contains(&a)
                    && !x.again_over().contains(&b)
            })
    };
    let mut found: Vec<AxisAt> = Vec::new();
    for axis in kept.iter().copied().chain(rest) {
        let useful = (s.axes[axis].reduced || s.axes[axis].stored) && site.extent(axis) > 1;
        if useful && found.iter().all(|other| !meets(axis, *other)) {
            found.push(axis);
        }
    }
    found
}

fn candidates(site: &Site<'_>) -> Vec<Candidate> {
    let s = site.structure;
    let (shared, kept) = (shared(site), site.kept());
    let whole = s.with_role(Role::Whole);
    let longest = shared.iter().map(|a| site.reach(*a, 1 << 40)).max().unwrap_or(1);
    let names: Vec<&str> = s
        .reductions
        .iter()
        .filter(|r| r.over.iter().any(|a| shared.contains(a)))
        .map(|r| r.name.as_str())
        .collect();
    let again = whole.iter().filter(|a| !kept.contains(a));
    let again = again.fold(Text::default(), |text, a| text.then(&site.again(*a)));
    let steps: &[i64] = if s.is_recurrent() { &[16, 4, 1] } else { &[1] };
    let mut found = Vec::new();
    for t in [32, 64, 128, 256, 512] {
        if t > 32 && t >= 2 * longest {
            continue;
        }
        for step in steps {
            let mut text = site.fits(&kept).then(&site.steps(*step)).then(&again);
            let mut binds = Vec::new();
            for axis in &shared {
                let (outer, inner) = (site.part(*axis, "o"), site.part(*axis, "t"));
                text = text.with(format!("split({} -> {outer}, {inner}: {t})", site.name(*axis)));
                binds.push(format!("{inner} -> thread.x"));
            }
            text = text
                .when(!names.is_empty(), format!("reduce({}: cta)", names.join(", ")))
                .with(format!("bind({})", binds.join(", ")));
            let size = if s.is_recurrent() { format!(", steps of {step}") } else { String::new() };
            found.push(Candidate {
                template: TEMPLATE.name,
                holes: format!("{t} threads{size}"),
                target: site.target(),
                text: site.layouts().then(&text).done(),
                shape: Shape {
                    threads: t,
                    vector: site.element_bytes(shared[0]).1,
                    lane: Some(shared[0]),
                    lanes: if names.is_empty() { 1 } else { t },
                    ..Shape::default()
                },
            });
        }
    }
    found
}
