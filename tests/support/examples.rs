//! The kernels of the examples, and their schedules.

#[path = "../../examples/attention/kernel.rs"]
pub mod attention;
#[path = "../../examples/attention_backward/kernel.rs"]
pub mod attention_backward;
#[path = "../../examples/attention_f8/kernel.rs"]
pub mod attention_f8;
#[path = "../../examples/batched/kernel.rs"]
pub mod batched;
#[path = "../../examples/conv1d/kernel.rs"]
pub mod conv1d;
#[path = "../../examples/conv2d/kernel.rs"]
pub mod conv2d;
#[path = "../../examples/matmul/f8.rs"]
pub mod eight;
#[path = "../../examples/embedding/kernel.rs"]
pub mod embedding;
#[path = "../../examples/embedding_gradient/kernel.rs"]
pub mod embedding_gradient;
#[path = "../../examples/experts/kernel.rs"]
pub mod experts;
#[path = "../../examples/histogram/kernel.rs"]
pub mod histogram;
#[path = "../../examples/kv_append/kernel.rs"]
pub mod kv_append;
#[path = "../../examples/linear/kernel.rs"]
pub mod linear;
#[path = "../../examples/loss/kernel.rs"]
pub mod loss;
#[path = "../../examples/packed_attention/kernel.rs"]
pub mod packed_attention;
#[path = "../../examples/paged_attention/kernel.rs"]
pub mod paged_attention;
#[path = "../../examples/matmul/kernel.rs"]
pub mod product;
#[path = "../../examples/softmax/kernel.rs"]
pub mod softmax;
#[path = "../../examples/triangular/kernel.rs"]
pub mod triangular;
#[path = "../../examples/vector_add/kernel.rs"]
pub mod vector_add;
#[path = "../../examples/windowed_attention/kernel.rs"]
pub mod windowed_attention;

use tilewright::AnySchedule;

/// The schedules of every example.
pub const EVERY: &[&[&dyn AnySchedule]] = &[
    product::SCHEDULES,
    product::BY_SIZE,
    product::TF32,
    eight::F8,
    linear::SCHEDULES,
    vector_add::SCHEDULES,
    softmax::SCHEDULES,
    conv1d::SCHEDULES,
    attention::SCHEDULES,
    attention_backward::SCHEDULES,
    attention_f8::SCHEDULES,
    batched::SCHEDULES,
    conv2d::SCHEDULES,
    embedding::SCHEDULES,
    embedding_gradient::SCHEDULES,
    experts::EVERY,
    histogram::SCHEDULES,
    kv_append::SCHEDULES,
    loss::SCHEDULES,
    packed_attention::SCHEDULES,
    paged_attention::EVERY,
    triangular::SCHEDULES,
    windowed_attention::SCHEDULES,
];
