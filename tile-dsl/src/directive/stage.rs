//! `stage`: what the steps of a loop read of a tensor is copied to shared memory first; a value is held there; what a CTA stores of a tensor is
//! collected there.
//!
//! ```text
//! stage(a at k: shared)      (for k X)  →  (for k (stage a X))
//! stage(v: shared)           the value v is held in shared memory
//! stage(c: shared, tma)      a tensor map stores the tile of c that the CTA has collected
//! stage(h: shared)           atomic_add(h, ..): a CTA adds to a tile of h of its own, and that to h once
//! ```
//!
//! Where values say what is read, `x[load(at, [i]), k]`, the copy has a row for each point of `i`, and whoever fills it looks the value up.
//! The values are made of axes, numbers and loads of what the kernel does not change. Threads copy such rows, plain or by `cp_async`.
//! Where one value moves all of the copy, `w[load(expert, [z]), k, j]`, a tensor map may copy it, too.
//!
//! Conditions:
//!
//! - The kernel does not write what is copied.
//! - All reads in the loop move alike, or the directive says which: `a[i, k]`.
//! - No loop without a bound runs inside over one of its axes.
//! - Rows suit the instruction (`cp_async`, `tma`) and the vector.
//! - A stored tensor is stored by one statement, and not read.
//! - Where values say what is added to, that dimension has a number for its extent, or `fits` bounds it.
//!
//! Cost: bytes of shared memory, and a barrier a step unless `pipeline` runs the copies ahead.

mod collected;
mod private;

use super::prelude::*;
use crate::{
    engine::families::stage::{self, Request},
    machine::{Space, Target, Via},
};

directive! {
    /// `stage(a at k: shared, ..)` for a tensor, `stage(a[i, k] at k: shared, ..)` for those reads of it that follow an index;
    /// `stage(p: shared)` for a value.
    "stage(a, b at k: shared)" in Stage, 0:
    Stage {
        buffer: String,
        at: Option<DigitName>,
        space: Space = Space::Shared,
        transposed: bool,
        via: Via = Via::Plain,
        vector: Option<u32>
    } => |s| {
        s.indexed().alike(buffer, "a tensor or a value").optional("at", at, "a loop").mark(":");
        s.one_of(space, "memory space", &[Space::Shared]);
        // The first option, after its comma.
        let first = s.here() + 1;
        let (mut cp_async, mut stmatrix) = (*via == Via::CpAsync, *via == Via::Stmatrix);
        let mut tma = stmatrix || *via == Via::Tma;
        s.options(&mut [
            Extra::flag("transposed", transposed),
            Extra::flag("cp_async", &mut cp_async),
            Extra::flag("tma", &mut tma),
            Extra::flag("stmatrix", &mut stmatrix).after("tma", "collects what a tensor map stores"),
            Extra::number("vector(16)", vector),
        ]);
        s.check(first, !(cp_async && tma), || "`cp_async` and `tma` are two ways to make a copy".to_string());
        *via = match (cp_async, tma, stmatrix) {
            (_, true, true) => Via::Stmatrix,
            (_, true, false) => Via::Tma,
            (true, ..) => Via::CpAsync,
            _ => Via::Plain,
        };
    }
}

impl Definition for Stage {
    const CHECK: Option<Check> =
        Some((Shows::Stores, |context| [collected::check(context), private::check(context)].concat()));

    fn apply(&self, nest: &Nest, span: SpanId) -> Applied {
        stage::apply(nest, &Request::of(self, span))
    }

    fn gives(&self) -> Vec<Name> {
        let copies = Name::copies_of(&self.buffer);
        copies.chain(self.at.iter().cloned().map(Name::CopyAt)).collect()
    }

    fn needs(&self) -> Vec<Name> {
        self.at.iter().cloned().map(Name::Loop).collect()
    }

    fn target(&self) -> Option<(String, Target)> {
        matches!(self.via, Via::Tma | Via::Stmatrix).then(|| ("a tensor map".into(), Target::CLUSTERS))
    }
}

impl Drawn for Stage {
    fn kinds(&self, _: &Schedule) -> Vec<Kind> {
        let wide = self.vector.is_some_and(|bytes| bytes > 4);
        let kind = match (self.via, &self.at) {
            (Via::Stmatrix, _) => Kind::CollectMatrices,
            (Via::Tma, None) => Kind::Collect,
            (Via::Tma, Some(_)) => Kind::StageTma,
            (Via::CpAsync, _) if wide => Kind::StageAsyncVector,
            (Via::CpAsync, _) => Kind::StageAsync,
            (Via::Plain, None) => Kind::StageValue,
            (Via::Plain, _) if self.vector.is_some() => Kind::StageVector,
            (Via::Plain, _) => Kind::StagePlain,
        };
        if self.transposed { vec![kind, Kind::StageTransposed] } else { vec![kind] }
    }

    fn beside(kind: Kind) -> &'static [&'static [Kind]] {
        match kind {
            Kind::StageTransposed => &[COPIES],
            Kind::CollectMatrices => &[ATOMS, &[Kind::Unroll]],
            _ => &[],
        }
    }

    fn candidates(kind: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        match kind {
            Kind::StageValue => {
                let values = generator.values();
                let combined = generator.combined();
                let names = values.iter().chain(&combined);
                names.map(|name| crate::engine::checks::stage_value(name)).collect()
            }
            Kind::Collect | Kind::CollectMatrices => {
                let via = if kind == Kind::Collect { Via::Tma } else { Via::Stmatrix };
                if kind == Kind::CollectMatrices {
                    generator.pairs_of_stored(&generator.pairs());
                }
                let stage = |buffer| {
                    Stage { buffer, at: None, space: Space::Shared, transposed: false, via, vector: None }
                        .into()
                };
                generator.stored().into_iter().map(stage).collect()
            }
            _ => {
                vec![]
            }
        }
    }
}
