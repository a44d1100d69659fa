//! `reduce`: partial results of a reduction, or of a scan, spread over units, are combined when the first part of its `let` ends.
//!
//! ```text
//! (let [v] P Q)  with level(v) = none  →  level(v) = lane | warp | cta
//! ```
//! Conditions:
//!
//! - `v` is a reduction that no loop carries, or a scan, and has no other level.
//! - Some loop over one of its reduced axes, or over the scanned one, is bound to that unit in the complete schedule. `bind` needs the level before.
//!
//! | level | combines | by |
//! |---|---|---|
//! | `lane` | what the lanes of a warp hold | shuffles |
//! | `warp` | what the warps of a CTA hold, each lane's part with those of the same lane in other warps | shared memory |
//! | `cta` | what its threads, or its lanes and warps, hold | both |
//!
//! Then every unit of the level holds the result of a reduction. Of a scan it holds the elements that it had before, each with what is
//! before it.
//! Cost: shuffles, and for `warp` and `cta` a barrier and bytes of shared memory.
//! Source: butterfly all-reduce; scans by Kogge and Stone; `shfl.sync.bfly` and `shfl.sync.up` (PTX ISA 9.7.9.6).

use super::prelude::*;
use crate::{
    engine::{families::bind, names},
    nest::{Level, ValueId},
};

directive! {
    /// `reduce(s: lane)`: how partial results of a bound reduction combine.
    "reduce(s: lane)" in Bind, 0:
    Reduce { value: String, level: Level = Level::Lane } => |s| {
        s.alike(value, "a value").mark(":").one_of(level, "level", &[Level::Lane, Level::Warp, Level::Cta])
    }
}

impl Definition for Reduce {
    const CHECK: Option<Check> = Some((Shows::Reductions, check));

    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        apply(nest, &self.value, self.level)
    }
}

impl Drawn for Reduce {
    fn kinds(&self, _: &Schedule) -> Vec<Kind> {
        vec![match self.level {
            Level::Lane => Kind::ReduceLane,
            Level::Warp => Kind::ReduceWarp,
            Level::Cta => Kind::ReduceCta,
        }]
    }

    fn beside(kind: Kind) -> &'static [&'static [Kind]] {
        match kind {
            Kind::ReduceLane => &[&[Kind::BindLane, Kind::Mma, Kind::Wgmma]],
            Kind::ReduceWarp => &[&[Kind::BindWarp]],
            _ => &[&[Kind::BindThread, Kind::BindWarp]],
        }
    }

    fn candidates(kind: Kind, generator: &mut Generator<'_>, wish: &Wish<'_>) -> Vec<DirectiveKind> {
        // Beside an atom: other statements' loops.
        let level = match kind {
            Kind::ReduceLane => Level::Lane,
            Kind::ReduceWarp => Level::Warp,
            _ => Level::Cta,
        };
        let values = generator.nests[0].values.iter().filter(|v| v.combined_by().is_some());
        let values = values.filter(|v| wish.product.is_none_or(|p| p.value != v.name));
        values.map(|v| Reduce { value: v.name.clone(), level }.into()).collect()
    }
}

/// `reduce(value: level)`.
fn apply(nest: &Nest, value: &str, level: Level) -> Result<(Nest, Proof), Failure> {
    let id = names::value(nest, value)?;
    let combines = |id: ValueId| nest.value(id).combined_by().is_some() && !nest.is_carried(id);
    if nest.is_carried(id) {
        let text = format!("`{value}` is carried from tile to tile: units cannot each carry a part of it");
        return Err(Failure::refused(Diagnostic::new(SpanId::NONE, text))
            .note(nest.value(id).span, format!("`{value}` starts here"))
            .edit(Edit::remove()));
    }
    if !combines(id) {
        let text = format!("`{value}` is not a reduction: there are no parts of it to combine");
        let ids = (0..nest.values.len() as u16).map(ValueId).filter(|id| combines(*id));
        let reductions: Vec<String> = ids.map(|id| nest.value(id).name.clone()).collect();
        let failure = Failure::refused(Diagnostic::new(SpanId::NONE, text))
            .note(nest.value(id).span, format!("`{value}` is defined here"));
        return Err(match reductions.as_slice() {
            [] => failure,
            names => {
                let reduce =
                    |value: &String| DirectiveKind::Reduce(directive::Reduce { value: value.clone(), level });
                failure
                    .remark(format!("the reductions are {}", names::list(names)))
                    .edits(names.iter().map(|v| Edit::instead([reduce(v)])))
                    .edit(Edit::remove())
            }
        });
    }
    let mut nest = nest.clone();
    nest.combine.insert(id, level);
    if let Some(text) = bind::uncombined(&nest, id) {
        let whole = DirectiveKind::Reduce(directive::Reduce { value: value.to_string(), level: Level::Cta });
        return Err(Failure::refused(Diagnostic::new(SpanId::NONE, text))
            .note(nest.value(id).span, format!("`{value}` is computed here"))
            .edit(Edit::instead([whole])));
    }
    let units = match level {
        Level::Lane => "lanes of a warp",
        Level::Warp => "warps of a CTA",
        Level::Cta => "threads of a CTA",
    };
    let fact = format!("parts of `{value}` are combined across the {units}");
    Ok((nest, Proof { facts: vec![fact], ..Proof::default() }))
}

/// `reduce(v: ..)` has something to combine.
fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    nest.combine
        .iter()
        .filter(|(v, _)| !context.plan.sums().has_parts(**v))
        .map(|(v, level)| {
            let value = nest.value(*v);
            let over = if value.scan.is_some() { "scanned along" } else { "reduced over" };
            let text = format!(
                "`reduce({}: {level})` has nothing to combine: no loop over an axis that `{}` is {over} is bound",
                value.name, value.name
            );
            let reduce =
                context.last(|k| matches!(k, DirectiveKind::Reduce(directive::Reduce { value: name, .. }) if *name == value.name));
            context
                .at(reduce, value.span, text)
                .note(value.span, format!("`{}` is computed here", value.name))
                .edits([Edit::remove()])
        })
        .collect()
}
