//! Schedules of attention under which products have their first operand in registers while threads compute the next one, in many
//! shapes, drawn from a seed.

use crate::examples::{attention::attention, attention_f8::attention_f8};
use tile_dsl::{
    engine::{self, testing::Random},
    program::Program,
    schedule::{Schedule, Target, extend, parse},
    tile::Kernel,
};
use tilewright::DType;

/// So many that are legal, each with its text.
pub fn flights(seed: u64, count: usize) -> Vec<(String, Program)> {
    let kernels = [attention::KERNEL, attention_f8::KERNEL];
    let kernels = kernels.map(|bytes| Kernel::from_bytes(bytes).expect("an embedded kernel"));
    let mut random = Random::new(seed);
    let mut found = Vec::new();
    for n in 0..20 * count {
        let eights = n % 2 == 1;
        let text = flight(&mut random, eights);
        let kernel = &kernels[usize::from(eights)];
        let schedule = Schedule {
            name: format!("flight{n}"),
            kernel: kernel.name.clone(),
            dtypes: vec![],
            target: Target { sm: 90, specific: true },
            directives: extend(&[], &parse(&text).unwrap_or_else(|e| panic!("{e} of {text}")))
                .expect("no parent"),
        };
        let dtype = *random.pick(&[DType::F16, DType::BF16]);
        if let Ok(program) = engine::schedule(kernel, &schedule, Some(dtype)) {
            found.push((format!("{} of {dtype}: {text}", kernel.name), program));
        }
        if found.len() == count {
            return found;
        }
    }
    panic!("{} of {count} are legal", found.len());
}

fn flight(random: &mut Random, eights: bool) -> String {
    let some = |random: &mut Random, text: &str| match random.below(2) {
        0 => text.to_string(),
        _ => String::new(),
    };
    let (warpgroups, bytes) = (1 + random.below(3), if eights { 1 } else { 2 });
    let keys = *random.pick(&[32, 64, 96, 128, 160]);
    let head = *random.pick(&[64, 128]);
    // Of eight bits, values are as long as keys are many.
    let span = |elements: u32| [128, 64, 32].into_iter().find(|s| (bytes * elements).is_multiple_of(*s));
    let spans = [head, head, if eights { keys } else { head }].map(|n| span(n).unwrap_or(32));
    let mut text = format!(
        "fits(D <= {head}); tile(i = {}, j = {keys}); split(i -> iw, im: 64); \
         tensor_core(s: wgmma(64, {keys})); tensor_core(acc: wgmma(64, {head})); \
         stage(q at i: shared, tma); stage(k, v at j: shared, tma); swizzle(q: {}, k: {}, v: {}); \
         pipeline(j, {}); produce(j: warpgroup); unroll(d.atom in s); bind(iw -> warpgroup.x); skew(s); ",
        64 * warpgroups,
        spans[0],
        spans[1],
        spans[2],
        2 + random.below(2),
    );
    text += ["registers(24, 240); ", "registers(24, 240); ", "registers(32, 160); "][warpgroups - 1];
    text += &some(random, "issue(s: overwrite); ");
    text += &some(random, "unroll(j.acc); ");
    text += &some(random, "freeze(m); ");
    text += &some(random, "persistent(1); ");
    text += &some(random, "produce(i: warpgroup, stages(2)); ");
    text += &some(random, "vectorize(e.pair in o); ");
    text
}
