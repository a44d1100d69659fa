//! State that a loop carries, and values as long as a whole axis: lanes along an axis that programs share, a point each.
//!
//! | hole | rule |
//! |---|---|
//! | threads | 32, 64 or 128 along the axis that most is contiguous along, or along the innermost |
//! | step | 4, 8 or 16 points of a loop that carries state |
//! | held | whole axes, by `fits` of the size |

use super::{Template, needs};
use crate::{
    candidate::{Candidate, Shape, Text},
    site::Site,
    structure::Role,
};

pub(super) const TEMPLATE: Template = Template {
    name: "recurrence",
    what: "a point a lane, with what a loop carries in its registers",
    applies: |site| {
        let s = site.structure;
        needs(!s.program().is_empty(), "programs share no axis")?;
        needs(s.is_recurrent(), "no loop carries state")
    },
    candidates,
};

fn candidates(site: &Site<'_>) -> Vec<Candidate> {
    let s = site.structure;
    let mut axes = s.program();
    axes.reverse();
    axes.truncate(2);
    let behind = &site.spelling.behind;
    let whole: Vec<_> = s.with_role(Role::Whole).into_iter().filter(|a| !behind.contains(a)).collect();
    let again = behind.iter().fold(Text::default(), |text, axis| text.then(&site.again(*axis)));
    let mut found = Vec::new();
    for c in axes {
        for t in [32, 64, 128] {
            if t > 32 && t >= 2 * site.reach(c, 1 << 40) {
                continue;
            }
            for step in [16, 8, 4] {
                let name = site.name(c);
                let text = site
                    .fits(&whole)
                    .then(&site.steps(step))
                    .then(&again)
                    .with(format!("tile({name} = {t})"))
                    .with(format!("bind({name} -> thread.x)"));
                let bytes = site.element_bytes(c).1;
                found.push(Candidate {
                    template: TEMPLATE.name,
                    holes: format!("{t} threads along {name}, steps of {step}"),
                    target: site.target(),
                    text: site.layouts().then(&text).done(),
                    shape: Shape {
                        threads: t,
                        vector: bytes,
                        lane: Some(c),
                        tile: vec![(c, t)],
                        ..Shape::default()
                    },
                });
            }
        }
    }
    found
}
