//! What a kernel writes beside operators and elementwise functions: binders, statements, loads, products.
//!
//! A form is a row of the table: its name, how it is written, and its card, which is the comment above the row. The macro's parser
//! asks the table for names and for how they are called.

use crate::op::RedOp;

/// A form and its card.
macro_rules! forms {
    ($($(#[doc = $doc:literal])* $form:ident = $name:literal, $usage:literal, $call:literal;)*) => {
        /// What a kernel writes beside operators and elementwise functions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Form {
            $($(#[doc = $doc])* $form,)*
        }

        impl Form {
            /// Every form.
            pub const ALL: &[Form] = &[$(Form::$form),*];

            /// The function that it is, or a name for what is no function.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Form::$form => $name,)*
                }
            }

            /// As a kernel writes it, for messages.
            pub const fn usage(self) -> &'static str {
                match self {
                    $(Form::$form => $usage,)*
                }
            }

            /// Whether it is the call of a function that gives a value.
            pub const fn is_call(self) -> bool {
                match self {
                    $(Form::$form => $call,)*
                }
            }

            /// Its card, for the reference of operations.
            pub const fn card(self) -> &'static str {
                match self {
                    $(Form::$form => concat!($($doc, "\n"),*),)*
                }
            }
        }
    };
}

forms! {
    /// `let (i, j) = program_tile(M, N);`: axes of which each program owns one tile.
    ///
    /// ```text
    /// fn doubled(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M, N>) {
    ///     let (i, j) = program_tile(M, N);
    ///     store(y, [i, j], load(x, [i, j]) * 2.0);
    /// }
    /// ```
    /// - Requires: a dim of some tensor for each axis. A kernel has one `program_tile`, before its loops.
    /// - Costs: nothing. Programs run side by side; the schedule says how large a tile is.
    /// - See also: `whole`, `tiles`, `tile`, `bind`.
    ProgramTile = "program_tile", "let (i, j) = program_tile(M, N);", false;

    /// `let n = whole(N);`: an axis that every program has all of.
    ///
    /// ```text
    /// fn normalised(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
    ///     let r = program_tile(R);
    ///     let n = whole(N);
    ///     let v = load(x, [r, n]);
    ///     store(y, [r, n], v / sum(v, n));
    /// }
    /// ```
    /// - Requires: a dim of some tensor, or a number. It is bound outside of loops.
    /// - Costs: a value with this axis is as long as the axis. A schedule that holds it in registers or shared memory bounds the axis by `fits`.
    /// - See also: `program_tile`, `tiles`, `fits`.
    Whole = "whole", "let n = whole(N);", false;

    /// `for k in tiles(K) { .. }`: a loop over the tiles of an axis, in ascending order.
    ///
    /// ```text
    /// fn rows(x: &Tensor<f32, M, K>, y: &mut Tensor<f32, M>) {
    ///     let i = program_tile(M);
    ///     let mut total = zeros::<f32>([i]);
    ///     for k in tiles(K) {
    ///         total += sum(load(x, [i, k]), k);
    ///     }
    ///     store(y, [i], total);
    /// }
    /// ```
    /// - Requires: a dim of some tensor, or a number. A value with the axis does not leave the loop.
    /// - Costs: nothing by itself. With K = 0 the loop has no step. The last tile has the points that are left.
    /// - See also: `assignment`, `whole`, `tile`, `pipeline`.
    Tiles = "tiles", "for k in tiles(K) { .. }", false;

    /// `whole(N).below(hi)` and `tiles(N).below(hi)`: an axis that ends at a point which others say.
    ///
    /// ```text
    /// fn sums_up_to(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    ///     let i = program_tile(N);
    ///     let j = whole(N).below(i + 1);
    ///     store(y, [i], sum(load(x, [j]), j));
    /// }
    /// ```
    /// - Computes: as `between(0, hi)`.
    /// - Requires: what `between` does.
    /// - Costs: what `between` does.
    /// - See also: `between`, `whole`, `tiles`.
    Below = "below", "whole(N).below(hi)", false;

    /// `whole(N).between(lo, hi)` and `tiles(N).between(lo, hi)`: an axis that has the points `lo ≤ j < hi`, for each point of the axes of the two.
    ///
    /// ```text
    /// fn windows(x: &Tensor<f32, N>, first: &Tensor<i32, N>, y: &mut Tensor<f32, N>) {
    ///     let i = program_tile(N);
    ///     let j = whole(N).between(load(first, [i]), i + 1);
    ///     store(y, [i], max(load(x, [j]), j));
    /// }
    /// ```
    /// - Shape: a reduction over the axis has the axes of the limits, too: in the example `i`.
    /// - Computes: reductions, `dot` and stores leave the other points out; so does a loop over `tiles`, in whose tiles without points for a row nothing changes for that row. Points beyond the extent are none. Where `hi ≤ lo` there is no point.
    /// - Requires: limits that are `i32`, made of axes, dims, scalars, operators, and loads from tensors without `&mut`. The accumulator of a `dot` over the axis, what a loop over it carries, and what is stored along it have the axes of the limits.
    /// - Costs: a comparison for each point of a tile that a limit cuts. In a `dot` over the axis one factor is masked, so tensor cores multiply by `mma` and not by `wgmma`. Tiles without points for any of the rows at hand are neither loaded nor computed, if the loop over them stands inside those over the axes of the limits.
    /// - See also: `below`, `whole`, `tiles`, `select`.
    Between = "between", "whole(N).between(lo, hi)", false;

    /// `let x = value;`: a name for a value.
    ///
    /// ```text
    /// fn squared(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    ///     let i = program_tile(N);
    ///     let v = load(x, [i]);
    ///     store(y, [i], v * v);
    /// }
    /// ```
    /// - Shape: the axes of the value, and its element type. Neither is written down.
    /// - Requires: one name. With `mut` a loop can assign to it.
    /// - Costs: nothing. A value stays what it was when it was bound, also after a store to the tensor that it was loaded from.
    /// - See also: `assignment`, `recompute`, `fragment`.
    Let = "let", "let x = ..;", false;

    /// `x = value;` or `x += value;`, in a loop: a value that is carried from tile to tile.
    ///
    /// ```text
    /// fn greatest(x: &Tensor<f32, R, N>, top: &mut Tensor<f32, R>, place: &mut Tensor<f32, R>) {
    ///     let r = program_tile(R);
    ///     let mut best = full::<f32>(f32::NEG_INFINITY, [r]);
    ///     let mut at = zeros::<f32>([r]);
    ///     for n in tiles(N) {
    ///         let v = load(x, [r, n]);
    ///         let m = max(v, n);
    ///         let first = min(select(v == m, n.cast::<f32>(), f32::INFINITY), n);
    ///         at = select(m > best, first, at);
    ///         best = max(best, m);
    ///     }
    ///     store(top, [r], best);
    ///     store(place, [r], at);
    /// }
    /// ```
    /// - Shape: the axes and the element type of the `let mut` that bound the name.
    /// - Computes: `x = x + f`, `max(x, f)`, `min(x, f)` and `x = dot(.., x)` are reductions over all of the axis, if the loop uses `x` nowhere else. Any other update is a recurrence, in the order of the text, as in the example: there the size of a tile is part of what is computed, and the schedule says it.
    /// - Requires: a `let mut` outside of the loop. `+=`, `-=` and the like are short for the operator.
    /// - Costs: a register for each element that a thread holds, for the whole loop. A recurrence cannot be shared out among units along its loop; several values that are carried together are combined together.
    /// - See also: `tiles`, `sum over an axis`, `tile`, `reduce`.
    Assign = "assignment", "x += ..;", false;

    /// `load(x, [i, k])`: the elements of a tensor at an index.
    ///
    /// ```text
    /// fn smoothed(x: &Tensor<f32, { N + 2 }>, w: &Tensor<f32, 3>, y: &mut Tensor<f32, N>) {
    ///     let i = program_tile(N);
    ///     let r = whole(3);
    ///     store(y, [i], sum(load(x, [i + r]) * load(w, [r]), r));
    /// }
    /// ```
    /// - Shape: the axes that the index mentions, and those of values in it.
    /// - Elements: those of the tensor.
    /// - Error: none. Outside of the tensor it reads 0.
    /// - PTX: `ld.global`; by the schedule also `cp.async`, a tensor map (`cp.async.bulk.tensor`), `ld.shared` and `ldmatrix`.
    /// - Requires: an entry for each dimension, see `index`. A tensor that the kernel also stores to is read at the identical index before the store, or where no store goes.
    /// - Costs: an access to global memory, unless `stage` or `fragment` brings the elements nearer. Guards, where the index may leave the tensor.
    /// - See also: `index`, `store`, `stage`, `vectorize`, `cache`.
    Load = "load", "load(x, [i, j])", true;

    /// `store(y, [i, j], value);`: writes elements of a tensor.
    ///
    /// ```text
    /// fn interleaved(x: &Tensor<f32, N>, y: &mut Tensor<f32, { 2 * N }>) {
    ///     let i = program_tile(N);
    ///     store(y, [2 * i], load(x, [i]));
    ///     store(y, [2 * i + 1], 0.0 - load(x, [i]));
    /// }
    /// ```
    /// - Shape: the value has the axes that the index mentions.
    /// - Elements: those of the tensor. A value of another type needs a `cast`.
    /// - PTX: `st.global`; by the schedule also a tensor map, `stmatrix` on the way, or `red.global`.
    /// - Requires: a tensor that is `&mut`. Each element is written once: the index has all axes of `program_tile` and of the loops around it, is inside the tensor for all sizes, and meets no other store.
    /// - Costs: an access to global memory. Neighbouring lanes should store neighbouring elements.
    /// - See also: `index`, `load`, `cast`, `stage`, `exchange`.
    Store = "store", "store(y, [i, j], value)", false;

    /// `atomic_add(y, [i], v)`: adds what points bring to what is there, in any order.
    ///
    /// ```text
    /// fn histogram(x: &Tensor<i32, N>, h: &mut Tensor<i32, B>) {
    ///     let i = program_tile(N);
    ///     atomic_add(h, [load(x, [i])], 1);
    /// }
    /// ```
    /// - Shape: each point of the axes of the index and of the value counts once.
    /// - Elements: `i32`, `u32` and `f32`.
    /// - Error: none for integers, which wrap around. Sums of floats round, in an order that differs each time.
    /// - PTX: `red.relaxed.gpu.global.add`.
    /// - Requires: each axis of `program_tile`, and of the loops around, is in the index or in the value. Nothing else stores to the tensor or loads from it. What it held before counts, too: set it first.
    /// - Costs: a request to L2 for each element; those that meet wait for one another. A point outside of the tensor does nothing.
    /// - See also: `atomic_max`, `store`, `sum over an axis`, `split_k`.
    AtomicAdd = "atomic_add", "atomic_add(y, [i], v)", false;

    /// `atomic_max(y, [i], v)`: the greatest of what is there and of what points bring.
    ///
    /// ```text
    /// fn greatest(x: &Tensor<i32, N>, class: &Tensor<i32, N>, y: &mut Tensor<i32, C>) {
    ///     let i = program_tile(N);
    ///     atomic_max(y, [load(class, [i])], load(x, [i]));
    /// }
    /// ```
    /// - Shape: each point of the axes of the index and of the value counts once.
    /// - Elements: `i32` and `u32`. `order(x)` makes an `i32` of a float that compares alike.
    /// - Error: none.
    /// - PTX: `red.relaxed.gpu.global.max`.
    /// - Requires: each axis of `program_tile`, and of the loops around, is in the index or in the value. Nothing else stores to the tensor or loads from it. What it held before counts, too: set it first.
    /// - Costs: a request to L2 for each element; those that meet wait for one another. A point outside of the tensor does nothing.
    /// - See also: `atomic_add`, `order`, `max over an axis`.
    AtomicMax = "atomic_max", "atomic_max(y, [i], v)", false;

    /// `atomic_min(y, [i], v)`: the least of what is there and of what points bring.
    ///
    /// ```text
    /// fn least(x: &Tensor<i32, N>, class: &Tensor<i32, N>, y: &mut Tensor<i32, C>) {
    ///     let i = program_tile(N);
    ///     atomic_min(y, [load(class, [i])], load(x, [i]));
    /// }
    /// ```
    /// - Shape: each point of the axes of the index and of the value counts once.
    /// - Elements: `i32` and `u32`. `order(x)` makes an `i32` of a float that compares alike.
    /// - Error: none.
    /// - PTX: `red.relaxed.gpu.global.min`.
    /// - Requires: each axis of `program_tile`, and of the loops around, is in the index or in the value. Nothing else stores to the tensor or loads from it. What it held before counts, too: set it first.
    /// - Costs: a request to L2 for each element; those that meet wait for one another. A point outside of the tensor does nothing.
    /// - See also: `atomic_add`, `order`, `min over an axis`.
    AtomicMin = "atomic_min", "atomic_min(y, [i], v)", false;

    /// `if c { store(y, [i], v); }`: writes elements where a condition holds.
    ///
    /// ```text
    /// fn short(x: &Tensor<f32, N>, n: i32, y: &mut Tensor<f32, N>) {
    ///     let i = program_tile(N);
    ///     if i < n {
    ///         store(y, [i], load(x, [i]));
    ///     }
    /// }
    /// ```
    /// - Shape: the condition has no axis that the store lacks.
    /// - Elements: `bool`.
    /// - Error: none. Elements at which the condition does not hold keep what they had.
    /// - PTX: the guard of `st.global`.
    /// - Requires: stores inside and nothing else, and no `else`. To choose between values, use `select`.
    /// - Costs: a predicate. Such a store is neither collected in shared memory nor exchanged between lanes.
    /// - See also: `store`, `select`, `unique`.
    If = "if", "if c { store(y, [i], v); }", false;

    /// `[i + r, 2*j - 1]`, `[load(ids, [s]), d]`: where a load or a store goes, one entry for each dimension.
    ///
    /// ```text
    /// fn embed(ids: &Tensor<i32, S>, table: &Tensor<f32, V, D>, y: &mut Tensor<f32, S, D>) {
    ///     let (s, d) = program_tile(S, D);
    ///     store(y, [s, d], load(table, [load(ids, [s]), d]));
    /// }
    /// ```
    /// - Shape: the axes that the entries mention, and those of the values in them.
    /// - Elements: values in an index are integers. Their sum with the rest wraps around as `i32`, and what no `i32` holds leads outside.
    /// - Error: none. A load outside of the tensor is 0, and a store outside does nothing, so -1 can mean "none".
    /// - Requires: axes with constant factors, and constants; all factors and summands at most 2³¹. An axis alone ranges over the extent of its dimension. A tensor that is stored or read where a value says is not both read and stored, and is stored once.
    /// - Costs: indices have 32 bits. What does not depend on a loop is computed before it. An entry with a value is compared with both ends of its dimension, and what it loads is neither staged nor held in a fragment.
    /// - See also: `load`, `store`, `unique`, `axis as a value`.
    Index = "index", "[i + r, 2*j - 1]", false;

    /// `[unique(v), d]`: a promise about a store: points with different `v` do not meet.
    ///
    /// ```text
    /// fn append(k: &Tensor<f32, S, D>, slot: &Tensor<i32, S>, cache: &mut Tensor<f32, L, D>) {
    ///     let (s, d) = program_tile(S, D);
    ///     store(cache, [unique(load(slot, [s])), d], load(k, [s, d]));
    /// }
    /// ```
    /// - Shape: the axes of the value.
    /// - Elements: `i32`.
    /// - Error: where two points do meet, the element has the value of one of them. The simulator reports a race.
    /// - PTX: none.
    /// - Requires: a store. Points that the other dimensions do not tell apart have distinct values, or values outside of the dimension. Nothing but constants is added to it.
    /// - Costs: nothing.
    /// - See also: `index`, `store`.
    Unique = "unique", "unique(v)", true;

    /// `zeros::<f32>([i, j])`: a tile of zeros.
    ///
    /// ```text
    /// fn columns(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, N>) {
    ///     let j = program_tile(N);
    ///     let mut total = zeros::<f32>([j]);
    ///     for i in tiles(M) {
    ///         total += sum(load(x, [i, j]), i);
    ///     }
    ///     store(y, [j], total);
    /// }
    /// ```
    /// - Shape: the axes in the list, each once.
    /// - Elements: the type between `<` and `>`.
    /// - Error: none.
    /// - PTX: a constant.
    /// - Requires: an element type, and axes in brackets.
    /// - Costs: nothing; a variable that a loop adds to takes registers.
    /// - See also: `full`, `dot`, `assignment`.
    Zeros = "zeros", "zeros::<f32>([i, j])", true;

    /// `full::<f32>(1.0, [i, j])`: a tile of one number.
    ///
    /// ```text
    /// fn peak(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M>) {
    ///     let i = program_tile(M);
    ///     let mut top = full::<f32>(f32::NEG_INFINITY, [i]);
    ///     for j in tiles(N) {
    ///         top = max(top, max(load(x, [i, j]), j));
    ///     }
    ///     store(y, [i], top);
    /// }
    /// ```
    /// - Shape: the axes in the list, each once.
    /// - Elements: the type between `<` and `>`.
    /// - Error: the number is rounded to the type.
    /// - PTX: a constant.
    /// - Requires: a number that is written down, no value. To spread a value, add it to `zeros`.
    /// - Costs: nothing; a variable that a loop changes takes registers.
    /// - See also: `zeros`, `number`.
    Full = "full", "full::<f32>(1.0, [i, j])", true;

    /// `dot(a, b, acc)`: `acc` plus the products of `a` and `b`, summed over the axes that `acc` lacks.
    ///
    /// ```text
    /// fn product(a: &Tensor<f16, M, K>, b: &Tensor<f16, K, N>, c: &mut Tensor<f16, M, N>) {
    ///     let (i, j) = program_tile(M, N);
    ///     let mut acc = zeros::<f32>([i, j]);
    ///     for k in tiles(K) {
    ///         acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    ///     }
    ///     store(c, [i, j], acc.cast::<f16>());
    /// }
    /// ```
    /// - Shape: the axes of `acc`. Each is an axis of `a` or of `b`.
    /// - Elements: `a` and `b` have one floating-point type, and `acc` has that type, or `f32`. Or `a` and `b` are `i8` or `u8`, each its own, and `acc` is `i32`.
    /// - Error: none for integers, whose sums wrap around. Of floats products are exact, additions round in the type of `acc`, and a schedule may add in another order. `dot(a, b, acc, tf32)` rounds `a` and `b` to tf32 first. Two factors of `f8` are added with fewer bits by tensor cores.
    /// - PTX: `fma.rn.f32`, of integers `mad.lo.s32`; by `tensor_core` also `mma.sync` and `wgmma.mma_async`.
    /// - Requires: a summed axis is in both factors, and is none of `program_tile`. At least one axis is summed.
    /// - Costs: a multiplication and an addition for each point of all axes together.
    /// - See also: `sum over an axis`, `mul`, `tf32`, `tensor_core`, `split_k`.
    Dot = "dot", "dot(a, b, acc), or dot(a, b, acc, tf32)", true;

    /// `random(seed, i, w)`: 32 random bits: word `w` of the four that Philox4x32-10 makes of the key (`seed`, 0) and the counter (`i`, 0, 0, 0).
    ///
    /// ```text
    /// fn dropout(x: &Tensor<f32, { 4 * N }>, p: f32, seed: i32, y: &mut Tensor<f32, { 4 * N }>) {
    ///     let i = program_tile(N);
    ///     let w = whole(4);
    ///     let keep = uniform(random(seed, i, w)) >= p;
    ///     store(y, [4 * i + w], select(keep, load(x, [4 * i + w]) / (1.0 - p), 0.0));
    /// }
    /// ```
    /// - Shape: the axes of all three together.
    /// - Elements: the result is `u32`. `seed` and `i` are `i32` or `u32`, of which the bits count. `w` is an integer, of which the last two bits count.
    /// - Error: none. Equal operands give equal bits on every GPU and in every schedule (Salmon et al., SC 2011).
    /// - PTX: `mul.hi.u32`, `mul.lo.u32` and `lop3.b32`, ten times.
    /// - Requires: operands without a reduction in them, as they are read several times: bind it first. Different points need different pairs of `i` and `w`.
    /// - Costs: about 60 instructions for the four words of an `i` together. They are computed once where one thread has all four, as with `vectorize(w)`.
    /// - See also: `uniform`, `xor`.
    Random = "random", "random(seed, i, w)", true;

    /// `argmax(x, j)`: where the greatest element along an axis is, of equal ones the first.
    ///
    /// ```text
    /// fn greedy(x: &Tensor<f32, S, V>, y: &mut Tensor<i32, S>) {
    ///     let s = program_tile(S);
    ///     let n = whole(V);
    ///     store(y, [s], argmax(load(x, [s, n]), n));
    /// }
    /// ```
    /// - Shape: the axes of `x` but the one that is named.
    /// - Elements: `i32`.
    /// - Error: none. The first NaN counts as greatest, and −0 and +0 are equal. Of no elements it is 2³¹ − 1.
    /// - PTX: that of the two reductions below.
    /// - Requires: numbers, and a value that has the axis, with no reduction in it: bind it first. The axis is one of `whole`, or of the loop over `tiles` around it, and none of `program_tile`.
    /// - Costs: two reductions: `argmax(x, j)` is short for `min(select((x == max(x, j)) | !(x == x), j, i32::MAX), j)`, and a schedule names them so: `y.max` and `y.min` where the result is stored to `y`.
    /// - See also: `max over an axis`, `argmin`.
    ArgMax = "argmax", "argmax(x, n)", true;

    /// `argmin(x, j)`: where the smallest element along an axis is, of equal ones the first.
    ///
    /// ```text
    /// fn greedy(x: &Tensor<f32, S, V>, y: &mut Tensor<i32, S>) {
    ///     let s = program_tile(S);
    ///     let n = whole(V);
    ///     store(y, [s], argmin(load(x, [s, n]), n));
    /// }
    /// ```
    /// - Shape: the axes of `x` but the one that is named.
    /// - Elements: `i32`.
    /// - Error: none. The first NaN counts as smallest, and −0 and +0 are equal. Of no elements it is 2³¹ − 1.
    /// - PTX: that of the two reductions below.
    /// - Requires: numbers, and a value that has the axis, with no reduction in it: bind it first. The axis is one of `whole`, or of the loop over `tiles` around it, and none of `program_tile`.
    /// - Costs: two reductions: `argmin(x, j)` is short for `min(select((x == min(x, j)) | !(x == x), j, i32::MAX), j)`, and a schedule names them so: `y.min` and `y.min.2` where the result is stored to `y`.
    /// - See also: `min over an axis`, `argmax`.
    ArgMin = "argmin", "argmin(x, n)", true;

    /// `cumsum(x, j)`: at each point of an axis, the sum of the elements up to it, its own among them.
    ///
    /// ```text
    /// fn running(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
    ///     let r = program_tile(R);
    ///     let n = whole(N);
    ///     store(y, [r, n], cumsum(load(x, [r, n]), n));
    /// }
    /// ```
    /// - Shape: the axes of `x`, the one that is named among them.
    /// - Elements: those of `x`.
    /// - Error: integers wrap around. Floats of 16 and 8 bits are added in `f32`, and each element is rounded once, where it is used. A schedule may add in another order.
    /// - PTX: that of the operator; across lanes `shfl.sync.up`.
    /// - Requires: numbers, and a value that has the axis. The axis is one of `whole`, or of the loop over `tiles` around it, whose tile it then scans. It is none of `program_tile`.
    /// - Costs: an addition for each element, and a register for it. Threads that share the axis out by `bind` each add once more, and exchange their totals as `reduce` says. Longer rows are a loop over `tiles` that carries what is before a tile.
    /// - See also: `sum over an axis`, `cummax`, `reduce`, `fits`.
    CumSum = "cumsum", "cumsum(x, n)", true;

    /// `cummax(x, j)`: at each point of an axis, the greatest of the elements up to it. It is NaN from the first NaN on.
    ///
    /// ```text
    /// cummax(a, j)
    /// ```
    /// - Shape: the axes of `x`, the one that is named among them.
    /// - Elements: those of `x`.
    /// - Error: none.
    /// - PTX: that of the operator; across lanes `shfl.sync.up`.
    /// - Requires: what `cumsum` does.
    /// - Costs: what `cumsum` does.
    /// - See also: `max over an axis`, `cumsum`, `cummin`.
    CumMax = "cummax", "cummax(x, n)", true;

    /// `cummin(x, j)`: at each point of an axis, the smallest of the elements up to it. It is NaN from the first NaN on.
    ///
    /// ```text
    /// cummin(a, j)
    /// ```
    /// - Shape: the axes of `x`, the one that is named among them.
    /// - Elements: those of `x`.
    /// - Error: none.
    /// - PTX: that of the operator; across lanes `shfl.sync.up`.
    /// - Requires: what `cumsum` does.
    /// - Costs: what `cumsum` does.
    /// - See also: `min over an axis`, `cumsum`, `cummax`.
    CumMin = "cummin", "cummin(x, n)", true;

    /// `select(condition, a, b)`: `a` where the condition holds, `b` elsewhere.
    ///
    /// ```text
    /// select(j <= i, a, f32::NEG_INFINITY)
    /// ```
    /// - Shape: the axes of all three together.
    /// - Elements: those of `a` and `b`, which have one type.
    /// - Error: none.
    /// - PTX: `selp`.
    /// - Requires: a condition, which is what a comparison gives. A kernel has no `match`, and an `if` for stores alone.
    /// - Costs: both sides may be computed. An instruction for each element.
    /// - See also: `lt`, `and`, `max of two values`.
    Select = "select", "select(condition, a, b)", true;

    /// `x.cast::<T>()`: the elements in another type.
    ///
    /// ```text
    /// a.cast::<bf16>().cast::<f32>()
    /// ```
    /// - Shape: the axes of `x`.
    /// - Elements: any to any, but no numbers to `bool`: compare them. What is true becomes 1.
    /// - Error: floats round to nearest even; `f8` rounds what lies beyond ±448 to ±448. A float becomes an integer by truncation, within the range of its type, and NaN becomes 0. An integer becomes another one by its low bits.
    /// - PTX: `cvt`.
    /// - Requires: one type: `f32`, `f16`, `bf16`, `f8`, `i32`, `u32`, `i8`, `u8`, `i64`, or the generic parameter; of a bool also `bool`. `f8` needs `sm_89`.
    /// - Costs: an instruction or two for each element.
    /// - See also: `tf32`, `axis as a value`, `select`.
    Cast = "cast", "x.cast::<f32>()", false;

    /// `j`: the index of each point of an axis.
    ///
    /// ```text
    /// a * j.cast::<f32>()
    /// ```
    /// - Shape: the axis.
    /// - Elements: `i32`.
    /// - Error: none.
    /// - PTX: integer arithmetic on indices that the loops have anyway.
    /// - Requires: the axis is in scope.
    /// - Costs: an addition or nothing.
    /// - See also: `dim as a value`, `cast`, `index`.
    Axis = "axis as a value", "j", false;

    /// `N`: the extent of a dim.
    ///
    /// ```text
    /// a / N.cast::<f32>()
    /// ```
    /// - Shape: no axes: one element, the same in the whole program.
    /// - Elements: `i32`.
    /// - Error: none.
    /// - PTX: a parameter of the kernel.
    /// - Requires: the dim of some tensor.
    /// - Costs: a register.
    /// - See also: `axis as a value`, `cast`, `fits`.
    Dim = "dim as a value", "N", false;

    /// `0.5`: a literal, or a constant of Rust.
    ///
    /// ```text
    /// min(a, f32::MAX) * 0.5
    /// ```
    /// - Shape: no axes.
    /// - Elements: the type of the other operand, or that of the suffix: `0.5f32`, `2i32`. `true` and `false` are `bool`.
    /// - Constants: `INFINITY`, `NEG_INFINITY`, `MAX`, `MIN`, `MIN_POSITIVE` and `EPSILON` of `f32`; `MAX` and `MIN` of `i32`, `u32`, `i8` and `u8`.
    /// - Error: the number is rounded to the type.
    /// - PTX: a constant.
    /// - Requires: a type that follows from the context. Constants from outside of the kernel are not visible in it.
    /// - Costs: nothing.
    /// - See also: `full`, `scalar`.
    Number = "number", "0.5", false;

    /// `alpha`: an argument that is passed by value.
    ///
    /// ```text
    /// fn scaled(alpha: f32, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    ///     let i = program_tile(N);
    ///     store(y, [i], alpha * load(x, [i]));
    /// }
    /// ```
    /// - Shape: no axes: one element, the same in the whole program.
    /// - Elements: `f32`, `i32`, `u32`, `i64`, `bool`, or the generic parameter.
    /// - Error: none.
    /// - PTX: a parameter of the kernel.
    /// - Requires: a parameter of the function.
    /// - Costs: a register.
    /// - See also: `number`, `dim as a value`.
    Scalar = "scalar", "alpha", false;
}

impl Form {
    /// The function with a form of its own that has this name.
    pub fn called(name: &str) -> Option<Form> {
        Self::ALL.iter().copied().find(|form| form.is_call() && form.name() == name)
    }

    /// The statement that combines elements by an operator.
    pub fn of_atomic(op: RedOp) -> Form {
        match op {
            RedOp::Add => Form::AtomicAdd,
            RedOp::Max => Form::AtomicMax,
            RedOp::Min => Form::AtomicMin,
        }
    }

    /// The scan by an operator.
    pub fn of_scan(op: RedOp) -> Form {
        match op {
            RedOp::Add => Form::CumSum,
            RedOp::Max => Form::CumMax,
            RedOp::Min => Form::CumMin,
        }
    }
}
