//! Which schedule for which type, target and size: what the functions of this crate launch.
//!
//! | Rule | Why |
//! |---|---|
//! | rows of up to 1024 elements are a warp's, of up to 8192 a CTA's registers'; longer ones are read again | a row is read once where registers hold it |
//! | eight elements a thread for types of 16 bits, four for f32 | 16 bytes an instruction |
//! | up to 8 rows of x, in f32 up to 16: a warp a row of the weight | such a product is limited by the bytes of the weight |
//! | the same rows behind a norm: each warp works the norm out again | x comes from L2, and a launch costs more |
//! | up to 64 rows, and other products of few tiles: flat tiles, and several CTAs for the depth of one | tiles of 128 by 128 would leave most multiprocessors idle |
//! | what decoding launches: early, on `sm_90` and later | a launch begins while the one before it ends |
//! | one query and more than 256 keys: parts of the keys | a head of keys alone would be one CTA |
//! | few rows of more than 8191 logits: parts of the rows | a row alone would be one CTA |
//! | blocks of experts of 16, 64 or 128 rows: by the slots of an expert | larger blocks read less of the weights, and leave more rows empty |
//! | experts of 256 slots and more: rows are copied into their blocks first | tensor maps have boxes of neighbours, and are faster than single rows |
//! | weights of four bits, up to 32 rows of x: a warp a group of 128 | a scale multiplies a sum, and no weight |
//! | a cache in pages: a part a multiprocessor | more parts have more to join |
//! | more than 8 parts of a sequence: sixteen warps join those of a query | one warp would wait for one part after the other |
//! | `wgmma` on `sm_90` | its instructions run on that architecture alone |
//!
//! Each schedule takes any size, but for those with `fits`, which are chosen within their bounds alone.
//! The simulator runs every target, and gets what an H100 gets.

use crate::kernels::*;
use tilewright::{AnySchedule, DType, Device};

/// A schedule, known when the program runs.
pub type Chosen = &'static dyn AnySchedule;

/// Rows that a warp keeps in registers.
const WARP: usize = 1024;
/// Rows that a CTA keeps in registers.
const CTA: usize = 8192;
/// Rows of x for which a linear layer in f32 runs a warp a row of the weight, and one for tensor cores.
const FEW_ROWS: [usize; 2] = [16, 8];
/// Rows of x for which it has flat tiles.
const FLAT: usize = 64;
/// Tiles from which on at least half of the multiprocessors of an H100 have one.
const HALF: usize = 66;
/// And most of them.
const MOST: usize = 96;

/// Keys that a part of attention has, at least.
const PART: usize = 128;
/// Elements of which a part of a row for [`crate::argmax`] has a multiple.
pub(crate) const ARGMAX_PART: usize = 4096;
/// CTAs that keep an H100 busy with parts of rows.
const BUSY: usize = 528;
/// Those of an H100.
const MULTIPROCESSORS: usize = 132;
/// Elements of a row of which a lane ranks two, at most.
const SHORT: usize = 64;
/// Rows of embeddings from which on four of them a CTA keep the multiprocessors busy.
const MANY_ROWS: usize = 1024;

/// Slots of an expert from which on its products take longer than a copy of their rows.
const MANY_SLOTS: usize = 256;

/// Tiles of a gate and its product up to which it is faster to collect one before it is stored.
const FEW_TILES: usize = 1024;
/// Queries from which on a warpgroup has enough of them.
const SOME_QUERIES: usize = 64;

/// Columns below which 16 CTAs for a tile of them leave most multiprocessors idle.
const FEW_COLUMNS: usize = 2048;

/// Whether elements have 16 bits.
fn half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Eight elements a thread, or four.
fn wide(dtype: DType, four: Chosen, eight: Chosen) -> Chosen {
    if half(dtype) { eight } else { four }
}

/// What decoding launches follows another launch closely: where the target has dependent launches, it begins while that one ends.
fn behind(device: &Device, plain: Chosen, early: Chosen) -> Chosen {
    if device.sm().is_none_or(|sm| sm >= 90) { early } else { plain }
}

/// By the length of a row.
fn by_length(length: usize, warp: Chosen, cta: Chosen, long: Chosen) -> Chosen {
    match length {
        n if n <= WARP => warp,
        n if n <= CTA => cta,
        _ => long,
    }
}

/// For [`crate::embedding`]: so many rows.
pub fn embedding(device: &Device, dtype: DType, rows: usize) -> Chosen {
    match rows {
        1 => behind(device, &embedding::row, &embedding::row_early),
        _ if rows < MANY_ROWS => &embedding::row,
        _ => wide(dtype, &embedding::row, &embedding::rows),
    }
}

/// For [`crate::kv_append`].
pub fn kv_append(dtype: DType) -> Chosen {
    wide(dtype, &kv_append::heads, &kv_append::wide)
}

/// For [`crate::rms_norm`]: rows of so many elements.
pub fn rms_norm(dtype: DType, length: usize) -> Chosen {
    by_length(length, &norm::rms_warp, wide(dtype, &norm::rms_cta, &norm::rms_cta_8), &norm::rms_long)
}

/// For [`crate::layer_norm`]: rows of so many elements.
pub fn layer_norm(dtype: DType, length: usize) -> Chosen {
    by_length(length, &norm::layer_warp, wide(dtype, &norm::layer_cta, &norm::layer_cta_8), &norm::layer_long)
}

/// For [`crate::softmax`]: rows of so many elements.
pub fn softmax(length: usize) -> Chosen {
    by_length(length, &softmax::warp, &softmax::cta, &softmax::long)
}

/// For [`crate::rope`].
pub fn rope() -> Chosen {
    &rope::halves
}

/// For [`crate::rope_interleaved`].
pub fn rope_interleaved() -> Chosen {
    &rope::neighbours
}

/// For [`crate::silu`].
pub fn silu(dtype: DType) -> Chosen {
    wide(dtype, &pointwise::silu_4, &pointwise::silu_8)
}

/// For [`crate::gelu`].
pub fn gelu(dtype: DType) -> Chosen {
    wide(dtype, &pointwise::gelu_4, &pointwise::gelu_8)
}

/// For [`crate::gelu_tanh`].
pub fn gelu_tanh(dtype: DType) -> Chosen {
    wide(dtype, &pointwise::gelu_tanh_4, &pointwise::gelu_tanh_8)
}

/// For [`crate::swiglu`].
pub fn swiglu(dtype: DType) -> Chosen {
    wide(dtype, &gated::swiglu_4, &gated::swiglu_8)
}

/// For [`crate::add`].
pub fn add(dtype: DType) -> Chosen {
    wide(dtype, &gated::add_4, &gated::add_8)
}

/// For [`crate::transpose`].
pub fn transpose(dtype: DType) -> Chosen {
    wide(dtype, &columns::turned_4, &columns::turned_8)
}

/// For [`crate::column_sum`]: so many columns.
pub fn column_sum(dtype: DType, columns: usize) -> Chosen {
    match columns {
        0..FEW_COLUMNS => wide(dtype, &columns::columns_4, &columns::columns_8_few),
        _ => wide(dtype, &columns::columns_4, &columns::columns_8),
    }
}

/// For [`crate::cross_entropy`].
pub fn cross_entropy(dtype: DType) -> Chosen {
    wide(dtype, &loss::large, &loss::small)
}

/// For [`crate::argmax`].
pub fn argmax() -> Chosen {
    &greedy::long
}

/// For [`crate::argmax`]: parts of each row, of so many rows of so many elements. One is for a single launch.
pub fn argmax_parts(rows: usize, length: usize) -> usize {
    (length / ARGMAX_PART).min(BUSY / rows.max(1)).max(1)
}

/// For [`crate::argmax`] in parts: the parts, and what joins them.
pub fn argmax_in_parts(device: &Device) -> [Chosen; 2] {
    [
        behind(device, &greedy::parts, &greedy::parts_early),
        behind(device, &greedy::joined, &greedy::joined_early),
    ]
}

/// For [`crate::top_k`]: rows of so many elements.
pub fn top_k(device: &Device, length: usize) -> Chosen {
    match length {
        _ if length <= SHORT => behind(device, &route::top_lanes, &route::top_lanes_early),
        _ => behind(device, &route::top_long, &route::top_long_early),
    }
}

/// For [`crate::route`]: so many experts.
pub fn route(device: &Device, experts: usize) -> Chosen {
    match experts {
        _ if experts <= SHORT => behind(device, &route::route_lanes, &route::route_lanes_early),
        _ => behind(device, &route::route_long, &route::route_long_early),
    }
}

/// For [`crate::Blocks`]: rows of a block where so many slots go to so many experts.
pub fn block_rows(slots: usize, experts: usize) -> usize {
    match slots.div_ceil(experts.max(1)) {
        0..=16 => 16,
        17..=64 => 64,
        _ => 128,
    }
}

/// For [`crate::expert_blocks`]: what counts, what ends the blocks of each expert, what empties them, what fills them.
pub fn expert_blocks(device: &Device) -> [Chosen; 4] {
    [
        behind(device, &blocks::before_lanes, &blocks::before_lanes_early),
        behind(device, &blocks::ends_lanes, &blocks::ends_lanes_early),
        behind(device, &blocks::empty_lanes, &blocks::empty_lanes_early),
        behind(device, &blocks::fill_threads, &blocks::fill_threads_early),
    ]
}

/// Whether [`crate::experts`] copies rows into their blocks first, so that the product has them by tensor maps, and then by which schedule
/// it multiplies: so many slots to so many experts, blocks of so many rows, of K elements times N columns.
pub fn experts_in_blocks(
    device: &Device,
    dtype: DType,
    [slots, experts, rows]: [usize; 3],
    [k, n]: [usize; 2],
) -> Option<Chosen> {
    let hopper = device.sm().is_none_or(|sm| sm == 90);
    // A tensor map takes rows of whole 16 bytes; others would be copied first.
    let mapped = k.is_multiple_of(8) && n.is_multiple_of(8);
    let many = slots >= experts.saturating_mul(MANY_SLOTS);
    (half(dtype) && hopper && mapped && many && rows.is_multiple_of(128)).then_some(&experts::in_blocks)
}

/// For [`crate::experts`]: blocks of so many rows. The first is for the products, the second for the sums.
pub fn experts(device: &Device, dtype: DType, rows: usize) -> [Chosen; 2] {
    let hopper = device.sm().is_none_or(|sm| sm == 90);
    let products: Chosen = match rows {
        _ if !half(dtype) => &experts::tiled,
        0..=16 => behind(device, &experts::mma, &experts::mma_early),
        _ if !hopper => &experts::mma_64,
        17..=64 => &experts::wgmma,
        _ => &experts::two_warpgroups,
    };
    [products, behind(device, &experts::sums, &experts::sums_early)]
}

/// For [`crate::histogram`] of so many bins.
pub fn histogram(bins: usize) -> Chosen {
    match bins {
        0..=1024 => &histogram::shared,
        1025..=8192 => &histogram::shared_many,
        _ => &histogram::vectorized,
    }
}

/// For [`crate::embedding_gradient`].
pub fn embedding_gradient() -> Chosen {
    &scatter::added
}

/// For [`crate::scatter_rows`]: so many rows.
pub fn scatter_rows(dtype: DType, rows: usize) -> Chosen {
    match rows {
        _ if rows < MANY_ROWS => &scatter::rows,
        _ => wide(dtype, &scatter::rows, &scatter::rows_wide),
    }
}

/// For [`crate::paged_attention`]: parts of the tokens, of so many sequences with so many heads of keys.
pub fn paged_parts(sequences: usize, heads: usize, tokens: usize) -> usize {
    // As `mapped` has it: two heads a CTA, and two CTAs a multiprocessor. The CTAs of `mma_one` and `lanes`, with one head and with four, are
    // as many as fit at a time, too.
    let ctas = sequences.saturating_mul(heads.div_ceil(2)).max(1);
    (tokens / PART).min(2 * MULTIPROCESSORS / ctas).max(1)
}

/// Parts of a sequence that a warp goes through one after the other sooner than sixteen warps bring theirs together.
const FEW: usize = 8;

/// For [`crate::paged_attention`], of heads of so many elements in so many parts: the parts, and what joins them.
pub fn paged_attention(device: &Device, dtype: DType, d: usize, parts: usize) -> [Chosen; 2] {
    // A tensor map takes rows of whole 16 bytes; of others the cache would be copied first.
    let early: Chosen = if d.is_multiple_of(8) { &paged::mapped } else { &paged::mma_one_early };
    let first = wide(dtype, &paged::lanes, behind(device, &paged::mma_one, early));
    let [plain, early]: [Chosen; 2] = match parts {
        0..=FEW => [&paged::together, &paged::together_early],
        _ => [&paged::spread, &paged::spread_early],
    };
    [first, behind(device, plain, early)]
}

/// For [`crate::dropout`].
pub fn dropout(dtype: DType) -> Chosen {
    wide(dtype, &dropout::four, &dropout::eight)
}

/// For [`crate::adamw`].
pub fn adamw() -> Chosen {
    &adamw::four
}

/// How a matrix product runs.
enum Product {
    Row,
    Rows,
    TiledSplit,
    Tiled,
    Flat,
    Wgmma,
    Mma,
}

/// Of rows of x and of the weight, and their length.
fn product(device: &Device, dtype: DType, [m, n, k]: [usize; 3]) -> Product {
    // A tensor map takes rows of whole 16 bytes; others would be copied first.
    let hopper = device.sm().is_none_or(|sm| sm == 90) && k.is_multiple_of(8);
    let tiles = |columns: usize| m.div_ceil(128).saturating_mul(n.div_ceil(columns));
    match m {
        0 | 1 => Product::Row,
        _ if few(dtype, m) => Product::Rows,
        _ if !half(dtype) && tiles(128) < HALF => Product::TiledSplit,
        _ if !half(dtype) => Product::Tiled,
        _ if m <= FLAT || tiles(128) < HALF => Product::Flat,
        _ if hopper && tiles(256) >= MOST => Product::Wgmma,
        _ => Product::Mma,
    }
}

/// For [`crate::linear`]: rows of x and of the weight, and their length. The first is for the layer without a bias, the second for that
/// with one.
pub fn linear(device: &Device, dtype: DType, size: [usize; 3]) -> [Chosen; 2] {
    match product(device, dtype, size) {
        Product::Row if half(dtype) => [&linear::row_wide, &linear::row_wide_bias],
        Product::Row => [&linear::row, &linear::row_bias],
        Product::Rows => [&linear::rows, &linear::rows_bias],
        Product::TiledSplit => [&linear::tiled_split, &linear::tiled_split_bias],
        Product::Tiled => [&linear::tiled, &linear::tiled_bias],
        Product::Flat => [&linear::mma_flat, &linear::mma_flat_bias],
        Product::Wgmma => [&linear::wgmma, &linear::wgmma_bias],
        Product::Mma => [&linear::mma, &linear::mma_bias],
    }
}

/// For [`crate::linear_i8`]: rows of x and of the weight, and their length.
pub fn linear_i8(device: &Device, [m, n, k]: [usize; 3]) -> Chosen {
    // A tensor map takes rows of whole 16 bytes; others would be copied first.
    let hopper = device.sm().is_none_or(|sm| sm == 90) && k.is_multiple_of(16);
    let tiles = |columns: usize| m.div_ceil(128).saturating_mul(n.div_ceil(columns));
    match m {
        0 | 1 => &quantized::row,
        _ if m <= FEW_ROWS[1] => &quantized::rows,
        _ if m <= FLAT || tiles(128) < HALF => &quantized::mma_flat,
        _ if hopper && tiles(256) >= MOST => &quantized::wgmma,
        _ => &quantized::mma,
    }
}

/// From so many elements on, a row is worth more than one CTA where there are fewer rows than a GPU has CTAs at once. Not measured.
const LONG: usize = 16 * 1024;
const FEW_LONG: usize = 256;

/// For [`crate::cumsum`] and [`crate::compact`]: rows and their length.
pub fn scan([rows, length]: [usize; 2]) -> [Chosen; 2] {
    // Short rows leave most threads of a CTA idle, and few rows most CTAs. Where one becomes the other is not measured.
    match length {
        0..=64 if rows > length => [&scan::serial, &scan::compact_serial],
        LONG.. if rows < FEW_LONG => [&scan::long, &scan::compact_long],
        _ => [&scan::rows, &scan::compact_rows],
    }
}

/// For [`crate::linear_i4`], which has two kernels: for few rows a scale multiplies the sum of its group, otherwise each weight.
pub enum Packed {
    /// Of [`packed::linear_i4`](fn@packed::linear_i4).
    Weights(Chosen),
    /// Of [`packed::linear_i4_groups`](fn@packed::linear_i4_groups).
    Groups(Chosen),
}

/// For [`crate::linear_i4`]: rows of x. Between 33 and 256 of them other tiles were not measured.
pub fn linear_i4(device: &Device, dtype: DType, m: usize) -> Packed {
    let hopper = device.sm().is_none_or(|sm| sm == 90);
    match m {
        _ if !half(dtype) => Packed::Groups(&packed::plain_groups),
        0..=8 => Packed::Groups(&packed::few),
        9..=16 => Packed::Groups(&packed::few_16),
        17..=32 => Packed::Groups(&packed::few_32),
        _ if !hopper => Packed::Weights(&packed::mma),
        33..=128 => Packed::Weights(&packed::wgmma_flat),
        _ => Packed::Weights(&packed::wgmma),
    }
}

/// For [`crate::linear_f8`]: rows of x.
pub fn linear_f8(device: &Device, dtype: DType, m: usize) -> Chosen {
    match m {
        _ if device.sm().is_some_and(|sm| sm != 90) => &scaled::plain,
        0..=64 => &scaled::wgmma_flat,
        _ if half(dtype) => &scaled::wgmma_narrow,
        _ => &scaled::wgmma,
    }
}

/// Whether a linear layer runs a warp a row of the weight: so many rows of x.
fn few(dtype: DType, m: usize) -> bool {
    m <= FEW_ROWS[usize::from(half(dtype))]
}

/// For [`crate::norm_linear`]: rows of x. `None` where the norm is a launch of its own.
pub fn norm_linear(device: &Device, dtype: DType, m: usize) -> Option<Chosen> {
    let [plain, early]: [Chosen; 2] = match (m, half(dtype)) {
        (0 | 1, true) => [&fused::norm_row_wide, &fused::norm_row_wide_early],
        (0 | 1, false) => [&fused::norm_row, &fused::norm_row_early],
        _ if few(dtype, m) => [&fused::norm_rows, &fused::norm_rows_early],
        _ => return None,
    };
    Some(behind(device, plain, early))
}

/// For [`crate::norm_swiglu`]: rows of x. `None` where norm, products and gate are launches of their own.
pub fn norm_swiglu(device: &Device, dtype: DType, m: usize) -> Option<Chosen> {
    let [plain, early]: [Chosen; 2] = match (m, half(dtype)) {
        (0 | 1, true) => [&fused::swiglu_row_wide, &fused::swiglu_row_wide_early],
        (0 | 1, false) => [&fused::swiglu_row, &fused::swiglu_row_early],
        _ if few(dtype, m) => [&fused::swiglu_rows, &fused::swiglu_rows_early],
        _ => return None,
    };
    Some(behind(device, plain, early))
}

/// For [`crate::linear_add`]: rows of x and of the weight, and their length.
pub fn linear_add(device: &Device, dtype: DType, size: [usize; 3]) -> Chosen {
    match product(device, dtype, size) {
        Product::Row if half(dtype) => behind(device, &fused::add_row_wide, &fused::add_row_wide_early),
        Product::Row => behind(device, &fused::add_row, &fused::add_row_early),
        Product::Rows => behind(device, &fused::add_rows, &fused::add_rows_early),
        Product::TiledSplit => &fused::add_tiled_split,
        Product::Tiled => &fused::add_tiled,
        Product::Flat => &fused::add_mma_flat,
        Product::Wgmma => &fused::add_wgmma,
        Product::Mma => &fused::add_mma,
    }
}

/// For [`crate::norm_swiglu`] of many rows, where one launch makes both products: rows of x and of a weight, and their length.
pub fn swiglu_products(device: &Device, dtype: DType, size: [usize; 3]) -> Option<Chosen> {
    match product(device, dtype, size) {
        Product::Wgmma if size[0].div_ceil(128) * size[1].div_ceil(128) > FEW_TILES => {
            Some(&fused::swiglu_wgmma_many)
        }
        Product::Wgmma => Some(&fused::swiglu_wgmma),
        _ => None,
    }
}

/// For [`crate::norm_swiglu`] of more rows: rows of x and of a weight, and their length.
pub fn linear_gated(device: &Device, dtype: DType, size: [usize; 3]) -> Chosen {
    match product(device, dtype, size) {
        Product::TiledSplit => &fused::gated_tiled_split,
        Product::Flat => &fused::gated_mma_flat,
        Product::Mma => &fused::gated_mma,
        // Few rows have the norm in one launch with both products, and by `wgmma` both products are one launch.
        Product::Wgmma | Product::Tiled | Product::Row | Product::Rows => {
            wide(dtype, &fused::gated_tiled, &fused::gated_mma_flat)
        }
    }
}

/// For [`crate::rope_append`].
pub fn rope_append(device: &Device) -> Chosen {
    behind(device, &heads::halves, &heads::halves_early)
}

/// For [`crate::merge_heads`].
pub fn merge_heads(dtype: DType) -> Chosen {
    wide(dtype, &heads::merge_4, &heads::merge_8)
}

/// For [`crate::attention`]: heads of so many queries, of so many elements. The first is for attention to all keys, the second for the causal
/// one.
pub fn attention(device: &Device, dtype: DType, [queries, head]: [usize; 2]) -> [Chosen; 2] {
    // A tensor map takes rows of whole 16 bytes; others would be copied first.
    let hopper = device.sm().is_none_or(|sm| sm == 90) && head.is_multiple_of(8);
    match (half(dtype), head) {
        (false, _) => [&attention::lanes, &attention::causal_lanes],
        (true, 0..=64) if hopper && queries >= SOME_QUERIES => {
            [&attention::wgmma_narrow, &attention::causal_wgmma_narrow]
        }
        (true, _) if hopper && queries >= SOME_QUERIES => [&attention::wgmma, &attention::causal_wgmma],
        (true, 0..=64) => [&attention::mma_narrow, &attention::causal_narrow],
        (true, _) => [&attention::mma, &attention::causal_mma],
    }
}

/// For [`crate::attention`] of one query: parts of the keys, of so many heads of keys in all. One is for a single launch.
pub fn parts(heads: usize, keys: usize) -> usize {
    (keys / PART).min(BUSY.div_ceil(heads.max(1))).max(1)
}

/// For [`crate::attention`] of one query in parts, of heads of so many elements: the parts, and what joins them.
pub fn decode(device: &Device, dtype: DType, head: usize) -> [Chosen; 2] {
    let [plain, early]: [Chosen; 2] = match (half(dtype), head) {
        (false, _) => [&decode::parts_lanes, &decode::parts_lanes_early],
        (true, 0..=64) => [&decode::parts_narrow, &decode::parts_narrow_early],
        (true, _) => [&decode::parts_mma, &decode::parts_mma_early],
    };
    [behind(device, plain, early), behind(device, &decode::joined, &decode::joined_early)]
}
