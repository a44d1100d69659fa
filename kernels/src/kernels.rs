//! What the functions launch: kernels and their schedules, in the language of `tilewright`.
//!
//! The functions of this crate need none of it.
//! Reach for it to prepare launches, or to time schedules against each other; [`choose`](crate::choose) has the schedule that a function
//! takes.
//!
//! # Ahead of time
//!
//! An application without LLVM has its kernels compiled by its build script:
//!
//! ```no_run
//! use tilewright::DType;
//! use tilewright_kernels::kernels::{bundle, embedding, linear, norm};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let groups = [embedding::SCHEDULES, linear::SCHEDULES, norm::SCHEDULES];
//! let bundle = bundle(&groups, &[DType::BF16]).ok_or("no schedule takes bf16")?;
//! bundle.machine_code(&["sm_90a"]).write(std::env::var("OUT_DIR")?.as_ref())?;
//! # Ok(())
//! # }
//! ```
//!
//! The application depends on this crate without `jit`, includes `bundle.rs` from `OUT_DIR`, and calls its `provide()` before the first
//! launch.

pub mod adamw;
pub mod attention;
pub mod blocks;
pub mod columns;
pub mod decode;
pub mod dropout;
pub mod embedding;
pub mod experts;
pub mod fused;
pub mod gated;
pub mod greedy;
pub mod heads;
pub mod histogram;
pub mod kv_append;
pub mod linear;
pub mod loss;
pub mod norm;
pub mod packed;
pub mod paged;
pub mod pointwise;
pub mod quantized;
pub mod rope;
pub mod route;
pub mod scaled;
pub mod scan;
pub mod scatter;
pub mod softmax;

use tilewright::{AnySchedule, DType, aot::Bundle};

/// Schedules of a module.
pub type Group = &'static [&'static dyn AnySchedule];

/// Schedules of all modules.
pub const ALL: [Group; 27] = [
    adamw::SCHEDULES,
    attention::SCHEDULES,
    blocks::SCHEDULES,
    columns::SCHEDULES,
    decode::SCHEDULES,
    dropout::SCHEDULES,
    embedding::SCHEDULES,
    experts::SCHEDULES,
    fused::SCHEDULES,
    gated::SCHEDULES,
    greedy::SCHEDULES,
    heads::SCHEDULES,
    histogram::SCHEDULES,
    kv_append::SCHEDULES,
    linear::SCHEDULES,
    loss::SCHEDULES,
    norm::SCHEDULES,
    packed::SCHEDULES,
    paged::SCHEDULES,
    pointwise::SCHEDULES,
    quantized::SCHEDULES,
    rope::SCHEDULES,
    route::SCHEDULES,
    scaled::SCHEDULES,
    scan::SCHEDULES,
    scatter::SCHEDULES,
    softmax::SCHEDULES,
];

/// Lists of tensors that may have gaps together where a function is called as its documentation says.
fn gaps(kernel: &str) -> &'static [&'static [&'static str]] {
    match kernel {
        "rope" => &[&["a", "b"]],
        // Of one token, one head of keys has no gap to another.
        "rope_append" => &[
            &["qa", "qb", "ka", "kb", "va", "vb", "q_a", "q_b", "k_a", "k_b", "v_a", "v_b"],
            &["qa", "qb", "q_a", "q_b", "k_a", "k_b", "v_a", "v_b"],
        ],
        "swiglu" => &[&["gate", "up"]],
        "attention" | "causal_attention" | "attention_parts" => &[&["k", "v"]],
        _ => &[],
    }
}

/// Schedules to be compiled ahead of time, each for those of the types that it admits: `None` where there is none.
///
/// Halves of heads, the halves of `swiglu` and keys and values in a cache have strides of their own; their kernels are compiled for that,
/// too.
pub fn bundle(groups: &[Group], dtypes: &[DType]) -> Option<Bundle<'static>> {
    let one = |schedule: &&'static dyn AnySchedule| {
        let admitted: Vec<DType> =
            dtypes.iter().copied().filter(|dtype| schedule.admits(Some(*dtype))).collect();
        if admitted.is_empty() {
            return None;
        }
        let bundle = Bundle::of("", *schedule).dtypes(&admitted);
        Some(gaps(schedule.kernel()).iter().fold(bundle, |bundle, tensors| bundle.gaps(tensors)))
    };
    groups.iter().copied().flatten().filter_map(one).reduce(Bundle::and)
}
