//! Sums along a whole axis that others along it depend on, beside a product: one loop over tiles of that axis carries them (`online`).
//!
//! | hole | rule |
//! |---|---|
//! | threads | 32, 64 or 128 along the axis that most is contiguous along, or along the innermost |
//! | step | 16 or 4 points of the axis |
//! | held | the other whole axes, by `fits` of the size |

use super::{Template, needs};
use crate::{
    candidate::{Candidate, Shape},
    site::Site,
    structure::{AxisAt, Role},
};

pub(super) const TEMPLATE: Template = Template {
    name: "online",
    what: "a point a lane, and one loop over tiles of an axis that is summed over again and again",
    applies: |site| {
        let s = site.structure;
        needs(!s.program().is_empty(), "programs share no axis")?;
        needs(!s.is_recurrent(), "a loop carries state already")?;
        needs(!again(site).is_empty(), "no axis is reduced twice, beside a product")
    },
    candidates,
};

/// Whole axes that two values are reduced along, where there is a product.
fn again(site: &Site<'_>) -> Vec<AxisAt> {
    let s = site.structure;
    let twice = |axis: &AxisAt| s.reductions.iter().filter(|r| r.over.contains(axis)).count() > 1;
    let whole = s.with_role(Role::Whole);
    let products = s.reductions.iter().any(|r| r.product.is_some());
    whole.into_iter().filter(|axis| products && twice(axis)).collect()
}

fn candidates(site: &Site<'_>) -> Vec<Candidate> {
    let s = site.structure;
    let mut axes = s.program();
    axes.reverse();
    axes.truncate(2);
    let mut found = Vec::new();
    for along in again(site) {
        let others: Vec<AxisAt> = s.with_role(Role::Whole).into_iter().filter(|a| *a != along).collect();
        for c in &axes {
            for t in [32, 64, 128] {
                if t > 32 && t >= 2 * site.reach(*c, 1 << 40) {
                    continue;
                }
                for step in [16, 4] {
                    let (name, tiles) = (site.name(*c), site.name(along));
                    let text = site
                        .fits(&others)
                        .with(format!("online({tiles} = {step})"))
                        .with(format!("tile({name} = {t})"))
                        .with(format!("bind({name} -> thread.x)"));
                    found.push(Candidate {
                        template: TEMPLATE.name,
                        holes: format!("{t} threads along {name}, tiles of {step} along {tiles}"),
                        target: site.target(),
                        text: site.layouts().then(&text).done(),
                        shape: Shape {
                            threads: t,
                            vector: site.element_bytes(*c).1,
                            lane: Some(*c),
                            tile: vec![(*c, t)],
                            ..Shape::default()
                        },
                    });
                }
            }
        }
    }
    found
}
