//! What every kernel has: an element a thread along one axis, or one thread a CTA. Simple before fast.
//!
//! | hole | rule |
//! |---|---|
//! | threads | 256, 128 or 32 along the axis that programs share and most is contiguous along; none |
//! | values as long as an axis | left as they are; computed again where they are read; held, by `fits` of the size, in registers or in shared memory |
//! | step | 16, 4 or 1 points of a loop that carries state |

use super::Template;
use crate::{
    candidate::{Candidate, Shape, Text},
    site::Site,
    structure::{AxisAt, Role},
};
use std::collections::BTreeSet;

pub(super) const TEMPLATE: Template =
    Template { name: "plain", what: "an element a thread", applies: |_| Ok(()), candidates };

fn candidates(site: &Site<'_>) -> Vec<Candidate> {
    let s = site.structure;
    let c = s.lane_axis(true, site.sizes);
    let long: Vec<_> = (0..s.axes.len()).filter(|a| s.long_values().any(|v| v.axes.contains(a))).collect();
    let long: Vec<_> = long.into_iter().filter(|a| s.axes[*a].role != Role::Program).collect();
    let again: Vec<Text> = long.iter().map(|axis| site.again_along(&long, *axis)).collect();
    let held = site.fits(&s.with_role(Role::Whole));
    // What is too much for registers.
    let along = |axes: &BTreeSet<AxisAt>| axes.iter().any(|a| s.axes[*a].role == Role::Whole);
    let values = s.long_values().filter(|v| v.readers > 0).map(|v| (&v.name, &v.axes));
    let kept = s.reductions.iter().map(|r| (&r.name, &r.axes));
    let shared = values
        .chain(kept)
        .filter(|(_, axes)| along(axes))
        .fold(held.clone(), |text, (name, _)| text.with(format!("stage({name}: shared)")));
    let holds = !held.clone().done().is_empty();
    let none = Text::default();
    let kept = site.kept();
    let mut values = Vec::new();
    if kept.is_empty() && long.iter().all(|a| s.axes[*a].role != Role::Whole) {
        values.push(("", &none));
    }
    if kept.is_empty() {
        values.extend(again.iter().map(|again| (", values again", again)));
    }
    if (holds && (!long.is_empty() || !kept.is_empty())) || values.is_empty() {
        values.push((", values held", &held));
    }
    if shared != held {
        values.push((", values in shared memory", &shared));
    }
    let steps: &[i64] = if s.is_recurrent() { &[16, 4, 1] } else { &[1] };
    let mut found = Vec::new();
    for t in [256, 128, 32, 1] {
        let axis = c.filter(|_| t > 1);
        if t > 1 && axis.is_none() || axis.is_some_and(|c| t > 32 && t >= 2 * site.reach(c, 1 << 40)) {
            continue;
        }
        for (how, values) in &values {
            for step in steps {
                let mut text = Text::default().then(values).then(&site.steps(*step));
                if let Some(c) = axis {
                    let name = site.name(c);
                    text = text.with(format!("tile({name} = {t})")).with(format!("bind({name} -> thread.x)"));
                }
                let size = if s.is_recurrent() { format!(", steps of {step}") } else { String::new() };
                found.push(Candidate {
                    template: TEMPLATE.name,
                    holes: format!("{t} threads{how}{size}"),
                    target: site.target(),
                    text: site.layouts().then(&text).done(),
                    shape: Shape {
                        threads: t,
                        vector: axis.map_or(4, |c| site.element_bytes(c).1),
                        lane: axis,
                        tile: axis.map(|c| (c, t)).into_iter().collect(),
                        ..Shape::default()
                    },
                });
            }
        }
    }
    found
}
