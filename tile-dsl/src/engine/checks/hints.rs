//! `cache` beside the instructions that copy: not all of them take a policy of L2.
//!
//! Side condition: no tensor with a policy is copied by `cp.async`. Of `cp.async` with `.L2::cache_hint`, whatever its size, `ptxas` 13.0
//! makes for `sm_90`, where it adds a uniform register to the address in shared memory, `LDGSTS [R+UR], desc[UR1]`: a descriptor is an
//! even pair of registers, and the GPU reports an illegal instruction. The driver assembles code of older targets there, too.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit},
    nest::CopyId,
    schedule::{DirectiveKind, Via},
    span::SpanId,
};

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let copies = (0..).zip(&nest.copies);
    let hinted = copies.filter(|(_, c)| c.via == Via::CpAsync && nest.cache.contains_key(&c.tensor));
    let mut wrong: Vec<Diagnostic> = Vec::new();
    let mut known = Vec::new();
    for (n, copy) in hinted {
        let standing = !nest.bodies(CopyId(n)).is_empty();
        if !standing || known.contains(&copy.tensor) {
            continue;
        }
        known.push(copy.tensor);
        let name = &nest.tensor(copy.tensor).name;
        let by = context.last(|k| matches!(k, DirectiveKind::Cache { tensor, .. } if tensor == name));
        let text = format!(
            "`{name}` is copied by cp.async: with a cache policy, `ptxas` 13.0 makes illegal instructions of some of those copies"
        );
        let plain = context.schedule.directives.iter().rev().find_map(|d| match &d.kind {
            stage @ DirectiveKind::Stage { buffer, at: Some(_), .. } if buffer == name => {
                let mut stage = stage.clone();
                if let DirectiveKind::Stage { via, .. } = &mut stage {
                    *via = Via::Plain;
                }
                Some(Edit::put([stage]).remark("through registers, with the policy"))
            }
            _ => None,
        });
        wrong.push(
            context
                .at(by, SpanId::NONE, text)
                .note(copy.span, format!("`{name}` is staged here"))
                .edits(plain)
                .edits([Edit::instead([])]),
        );
    }
    wrong
}
