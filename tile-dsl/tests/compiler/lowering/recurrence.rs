//! Values that loops carry from tile to tile: evaluator, interpreter of the nest and lowered kernels agree.

use super::{
    agree::{check, programs},
    build::Kernels,
    support,
};
use tile_dsl::tile;

/// Extents, constants in place of names where a test asks for them.
type Sizes<'a> = &'a [&'a [(&'a str, i64)]];

/// Every schedule at every size, in every element type and variant.
fn agree(kernel: &str, schedules: &[&str], sizes: Sizes<'_>) {
    for schedule in schedules {
        for program in programs(kernel, &support::schedule(schedule)) {
            let kernels = Kernels::of(&program);
            for dims in sizes {
                check(&program, &kernels, dims);
            }
        }
    }
}

/// Running maximum and rescaled sum.
const ONLINE: &str = "\
kernel online<T>(x: &[T; M, N], y: &mut [f32; M]) {
    axis i in program_tile(M);
    axis j in tiles(N);
    let mut m = full::<f32>(-inf, [i]);
    let mut l = full::<f32>(0.0, [i]);
    for j {
        let v = load(x, [i, j]).cast::<f32>();
        let top = max(m, max(v, j));
        l = l * exp(m - top) + sum(exp(v - top), j);
        m = top;
    }
    store(y, [i], m + log(l));
}";

const ROWS: Sizes<'static> = &[
    &[("M", 33), ("N", 70)],
    &[("M", 8), ("N", 16)],
    &[("M", 1), ("N", 1)],
    &[("M", 5), ("N", 15)],
    &[("M", 9), ("N", 17)],
    &[("M", 3), ("N", 0)],
];

#[test]
fn log_sum_exp() {
    agree(
        ONLINE,
        &[
            "tile(j = 16)",
            "tile(i = 8, j = 16); bind(i -> thread.x)",
            "tile(j = 5, i = 4); bind(i -> thread.x); unroll(j)",
            "tile(i = 8, j = 16); stage(x at j: shared); bind(i -> thread.x)",
            "tile(i = 8, j = 16); stage(x at j: shared); pipeline(j, 2); bind(i -> thread.x)",
            "tile(i = 8, j = 16); stage(x at j: shared); pipeline(j, 3); bind(i -> thread.x)",
            "tile(i = 4, j = 32); reduce(top.max, l.sum: lane); bind(i -> warp.x, j -> lane.x)",
            "tile(i = 2, j = 64); split(j -> jo, jt: 32); reduce(top.max, l.sum: cta); bind(jt -> thread.x, i -> thread.y)",
            "tile(i = 8, j = 16); split(j.o -> a, b: 3); bind(i -> thread.x)",
            "tile(i = 8, j = 1); bind(i -> thread.x)",
            "fits(N <= 80); tile(i = 8, j = 16); bind(i -> thread.x)",
            "fits(N <= 80); tile(i = 8, j = 16); unroll(j.o); bind(i -> thread.x)",
            "fits(N <= 80); tile(i = 8, j = 128); bind(i -> thread.x)",
            "tile(i = 8, j = 16); stage(v: shared); bind(i -> thread.x)",
            "tile(i = 8, j = 16); recompute(v); fuse(v at j.t); bind(i -> thread.x)",
        ],
        ROWS,
    );
}

/// What is carried depends on how many tiles there are, whatever they hold.
const COUNT: &str = "\
kernel count<T>(x: &[T; M, N], y: &mut [f32; M], z: &mut [T; M]) {
    axis i in program_tile(M);
    axis j in tiles(N);
    let mut tiles = full::<f32>(0.0, [i]);
    let mut tops = full::<T>(1.0, [i]);
    let mut low = full::<T>(5.0, [i]);
    for j {
        tiles = tiles + 1.0;
        let v = load(x, [i, j]);
        let top = max(v, j);
        tops = tops + top;
        low = min(low, min(v, j));
    }
    store(y, [i], tiles);
    store(z, [i], tops * low);
}";

#[test]
fn tiles_are_counted() {
    agree(
        COUNT,
        &[
            "tile(j = 4)",
            "tile(i = 8, j = 4); bind(i -> thread.x)",
            "fits(N <= 80); tile(i = 8, j = 4); bind(i -> thread.x)",
            "fits(N <= 80); tile(i = 8, j = 4); unroll(j.o); bind(i -> thread.x)",
            "fits(N <= 80); tile(i = 8, j = 80); bind(i -> thread.x)",
            "tile(j = 8); split(j.o -> a, b, c: 2, 2); bind(i -> thread.x); tile(i = 32)",
        ],
        ROWS,
    );
}

/// The same over an axis of fixed length: one tile or several, whole or not.
#[test]
fn constant_extents() {
    for n in [1, 2, 15, 16, 17] {
        let kernel = COUNT.replace('N', &n.to_string());
        for tile in [1, 2, 4, 16, 17] {
            let plain = format!("tile(i = 8, j = {tile}); bind(i -> thread.x)");
            agree(&kernel, &[&plain, &format!("{plain}; unroll(j.o)")], &[&[("M", 9)]]);
        }
    }
}

/// A variable is what it was when it was bound, and updates happen in their order.
const ORDER: &str = "\
kernel order(x: &[f32; M, N], w: &[f32; M], y: &mut [f32; M], z: &mut [f32; M]) {
    axis i in program_tile(M);
    axis j in tiles(N);
    let mut m = load(w, [i]);
    let mut d = m * 2.0;
    for j {
        let old = m;
        m = max(m, max(load(x, [i, j]), j));
        d = d * 0.5 + m - old;
        m = m - d;
        d = d + old;
    }
    store(y, [i], m);
    store(z, [i], d + m);
}";

#[test]
fn updates_happen_in_order() {
    agree(
        ORDER,
        &[
            "tile(j = 16)",
            "tile(i = 8, j = 8); bind(i -> thread.x)",
            "tile(i = 16, j = 8); split(i -> it, ir: 4); bind(it -> thread.x)",
            "tile(i = 8, j = 32); reduce(m.max: lane); bind(j -> lane.x, i -> warp.x)",
        ],
        // Halves of small integers are exact; fewer tiles than bits.
        ROWS,
    );
}

/// What is carried scales a product that goes on; the products come from a value of the tile.
const SCALED: &str = "\
kernel scaled<T>(x: &[T; M, N], v: &[T; N, D], y: &mut [T; M, D], s: &mut [f32; M, D]) {
    axis i in program_tile(M);
    axis j in tiles(N);
    axis d in whole(D);
    let mut c = full::<f32>(1.0, [i]);
    let mut acc = full::<f32>(0.0, [i, d]);
    let mut own = full::<f32>(1.0, [i, d]);
    let mut plain = full::<f32>(0.0, [i, d]);
    for j {
        let p = load(x, [i, j]).cast::<f32>() - c;
        let u = load(v, [j, d]).cast::<f32>();
        acc = dot(p, u, acc * c);
        own = dot(p * own, u, own);
        plain = dot(load(x, [i, j]), load(v, [j, d]), plain);
        c = c - max(p, j);
        c = select(c > 2.0, 1.0, select(c < -2.0, -1.0, c));
        own = select(own > 3.0, 1.0, select(own < -3.0, 0.0, own));
    }
    store(y, [i, d], acc.cast::<T>());
    store(s, [i, d], own + plain);
}";

#[test]
fn products_go_straight_to_what_is_carried() {
    let sizes: Sizes<'_> = &[
        &[("M", 9), ("N", 30), ("D", 5)],
        &[("M", 8), ("N", 32), ("D", 8)],
        &[("M", 1), ("N", 1), ("D", 1)],
        &[("M", 3), ("N", 7), ("D", 8)],
        &[("M", 3), ("N", 0), ("D", 8)],
        &[("M", 3), ("N", 7), ("D", 0)],
    ];
    agree(
        SCALED,
        &[
            "fits(D <= 8); tile(i = 4, j = 8); bind(i -> thread.x)",
            "fits(D <= 8); tile(i = 4, j = 8); split(d -> dr, dt: 4); stage(p: shared); stage(v at j: shared); \
             bind(i -> thread.y, dt -> thread.x)",
            "fits(D <= 8); tile(i = 4, j = 8); split(d -> dr, dt: 4); stage(p: shared); stage(x, v at j: shared); \
             pipeline(j, 2); bind(i -> thread.y, dt -> thread.x)",
            "fits(D <= 8); tile(i = 4, j = 4, d = 8); bind(i -> thread.y, d -> thread.x)",
        ],
        sizes,
    );
}

/// The kernel does: where a product reads what it adds to, it reads what was there before.
#[test]
fn a_product_reads_what_was_there_before() {
    let kernel = support::kernel(SCALED);
    let program =
        &programs(SCALED, &support::schedule("fits(D <= 8); tile(i = 4, j = 8); bind(i -> thread.x)"))[0];
    let nest = program.nest.to_string();
    assert!(nest.contains("(set acc (* (get acc) (get c)))"), "{nest}");
    assert!(nest.contains("(red acc sum (* (get p) (get u)))"), "{nest}");
    assert!(nest.contains("(red own.dot sum"), "{nest}");
    assert!(tile::verify(&kernel).is_empty());
}

/// Loops over tiles in one another: of the outer and of the inner one a tile at a time.
const NESTED: &str = "\
kernel nested(x: &[f32; M, A, B], y: &mut [f32; M], z: &mut [f32; M, A]) {
    axis i in program_tile(M);
    axis a in tiles(A);
    axis b in tiles(B);
    let mut c = full::<f32>(1.0, [i]);
    for a {
        let mut row = full::<f32>(0.0, [i, a]);
        let mut n = full::<f32>(0.0, [i]);
        for b {
            let v = load(x, [i, a, b]);
            row = row * 0.5 + max(v, b);
            n = n + 1.0;
            c = c - sum(sum(v, b), a);
        }
        c = c * 0.5 + n + max(row, a);
        store(z, [i, a], row + c);
    }
    store(y, [i], c);
}";

#[test]
fn loops_in_one_another() {
    agree(
        NESTED,
        &[
            "tile(a = 4, b = 4)",
            "tile(i = 8, a = 2, b = 8); bind(i -> thread.x)",
            "tile(a = 2, b = 8, i = 4); bind(i -> thread.y, a -> thread.x); reduce(c.sum.2, c.max: cta)",
            "tile(i = 8, a = 2, b = 8); stage(x at b: shared); bind(i -> thread.x)",
            "tile(i = 8, a = 2, b = 8); stage(x at b: shared); pipeline(b, 2); bind(i -> thread.x)",
        ],
        &[
            &[("M", 9), ("A", 5), ("B", 9)],
            &[("M", 8), ("A", 4), ("B", 8)],
            &[("M", 1), ("A", 1), ("B", 1)],
            &[("M", 2), ("A", 0), ("B", 3)],
            &[("M", 2), ("A", 3), ("B", 0)],
        ],
    );
}

/// A recurrence inside of a plain loop, and a plain loop inside of a recurrence.
const MIXED: &str = "\
kernel mixed<T>(q: &[T; M, D], k: &[T; N, D], w: &[T; M, A, N], y: &mut [f32; M], z: &mut [f32; M]) {
    axis i in program_tile(M);
    axis j in tiles(N);
    axis d in tiles(D);
    axis a in tiles(A);
    axis n in tiles(N);
    let mut m = full::<f32>(-1.0, [i]);
    for j {
        let mut s = full::<f32>(0.0, [i, j]);
        for d {
            s = dot(load(q, [i, d]), load(k, [j, d]), s);
        }
        m = max(m - 1.0, max(s, j));
    }
    let mut t = full::<f32>(0.0, [i]);
    for a {
        let mut r = full::<f32>(0.0, [i, a]);
        for n {
            r = r * 0.5 + max(load(w, [i, a, n]), n).cast::<f32>();
        }
        t = t + sum(r, a);
    }
    store(y, [i], m);
    store(z, [i], t);
}";

#[test]
fn plain_loops_and_recurrences() {
    agree(
        MIXED,
        &[
            "tile(j = 4, n = 4)",
            "tile(i = 8, j = 4, d = 4, n = 4); bind(i -> thread.x)",
            "tile(i = 8, j = 4, d = 4, n = 8, a = 2); stage(q, k at d: shared); pipeline(d, 2); bind(i -> thread.x)",
            "tile(i = 8, j = 4, d = 8, n = 8); stage(k at d: shared); bind(i -> thread.y, j -> thread.x); reduce(m.max: cta)",
        ],
        &[
            &[("M", 9), ("N", 9), ("D", 7), ("A", 3)],
            &[("M", 8), ("N", 8), ("D", 8), ("A", 2)],
            &[("M", 1), ("N", 1), ("D", 1), ("A", 1)],
            &[("M", 2), ("N", 0), ("D", 3), ("A", 2)],
            &[("M", 2), ("N", 3), ("D", 0), ("A", 0)],
        ],
    );
}

/// Elements are stored tile by tile, each with what came before its tile.
const SCAN: &str = "\
kernel scan<T>(x: &[T; M, N], y: &mut [T; M, N], l: &mut [T; M]) {
    axis i in program_tile(M);
    axis j in tiles(N);
    let mut c = full::<f32>(0.0, [i]);
    for j {
        let v = load(x, [i, j]);
        store(y, [i, j], (v.cast::<f32>() + c).cast::<T>());
        c = c * 0.5 + max(v, j).cast::<f32>();
    }
    store(l, [i], c.cast::<T>());
}";

#[test]
fn stores_in_a_recurrence() {
    agree(
        SCAN,
        &[
            "tile(j = 4)",
            "tile(i = 8, j = 4); bind(i -> thread.x)",
            "tile(i = 2, j = 32); reduce(c.max: lane); bind(i -> warp.x, j -> lane.x)",
            "tile(i = 4, j = 8); reduce(c.max: cta); bind(i -> thread.y, j -> thread.x); stage(x at j: shared); pipeline(j, 2)",
        ],
        ROWS,
    );
}

/// Two loops carry one variable, one after the other; and a value without axes is carried by each program.
const TWICE: &str = "\
kernel twice<T>(x: &[T; M, N], w: &[T; N], y: &mut [f32; M]) {
    axis i in program_tile(M);
    axis j in tiles(N);
    axis k in tiles(N);
    let mut m = full::<f32>(0.0, [i]);
    let mut g = full::<f32>(1.0, []);
    for j {
        m = m * 0.5 + max(load(x, [i, j]), j).cast::<f32>();
        g = g * 0.5 + max(load(w, [j]), j).cast::<f32>();
    }
    for k {
        m = m + g * max(load(x, [i, k]), k).cast::<f32>();
        m = m * 0.5;
    }
    store(y, [i], m + g);
}";

#[test]
fn one_variable_in_two_loops() {
    agree(
        TWICE,
        &[
            "tile(j = 4, k = 8)",
            "tile(i = 8, j = 4, k = 16); bind(i -> thread.x)",
            "tile(j = 4, k = 16); stage(x at k: shared); pipeline(k, 2)",
        ],
        ROWS,
    );
}

/// A loop that carries a value ends the kernel: nothing reads the value after it.
const PREFIX: &str = "\
kernel prefix<T>(x: &[T; M, N], y: &mut [T; M, N]) {
    axis i in program_tile(M);
    axis j in tiles(N);
    let mut c = full::<f32>(0.0, [i]);
    for j {
        store(y, [i, j], (load(x, [i, j]).cast::<f32>() + c).cast::<T>());
        c = c + sum(load(x, [i, j]).cast::<f32>(), j);
    }
}";

/// The same inside of another loop, whose steps end with it; what starts is not a literal, and there are two of them.
const INNER_PREFIX: &str = "\
kernel inner(x: &[f32; M, A, N], w: &[f32; M], y: &mut [f32; M, A, N]) {
    axis i in program_tile(M);
    axis a in tiles(A);
    axis j in tiles(N);
    for a {
        let mut c = load(w, [i]) * 2.0;
        let mut d = full::<f32>(1.0, [i, a]);
        for j {
            store(y, [i, a, j], load(x, [i, a, j]) + c * d);
            c = c * 0.5 + max(max(load(x, [i, a, j]), j), a);
            d = d - max(load(x, [i, a, j]), j);
        }
    }
}";

#[test]
fn a_loop_that_carries_ends_the_kernel() {
    agree(
        PREFIX,
        &[
            "tile(j = 4)",
            "tile(i = 8, j = 4); bind(i -> thread.x)",
            "fits(N <= 80); tile(i = 8, j = 16); unroll(j.o); bind(i -> thread.x)",
            "tile(i = 2, j = 32); reduce(c.sum: lane); bind(i -> warp.x, j -> lane.x)",
            "tile(i = 4, j = 8); reduce(c.sum: cta); bind(i -> thread.y, j -> thread.x); stage(x at j: shared); pipeline(j, 2)",
            "tile(i = 8, j = 8); split(i.t -> io, ii: 4); split(j.o -> a, b: 3); bind(io -> thread.x)",
            "tile(i = 8, j = 16); stage(x at j: shared, cp_async, vector(16)); pipeline(j, 3); bind(i -> thread.x); persistent(1)",
        ],
        ROWS,
    );
    agree(
        INNER_PREFIX,
        &[
            "tile(j = 4, a = 1)",
            "tile(i = 8, j = 4, a = 2); bind(i -> thread.x)",
            "tile(i = 8, j = 4, a = 2); stage(x at j: shared); pipeline(j, 2); bind(i -> thread.y, a -> thread.x); reduce(c.max.2: cta)",
        ],
        &[
            &[("M", 9), ("A", 5), ("N", 9)],
            &[("M", 8), ("A", 4), ("N", 8)],
            &[("M", 2), ("A", 0), ("N", 3)],
            &[("M", 2), ("A", 3), ("N", 0)],
        ],
    );
}

/// Linear attention: each tile reads the products summed up in the tiles before, and only then adds its own.
const LINEAR: &str = "\
kernel linear<T>(q: &[T; H, N, D], k: &[T; H, N, D], v: &[T; H, N, E], o: &mut [f32; H, N, E], last: &mut [f32; H, D, E]) {
    axis h in program_tile(H);
    axis n in tiles(N);
    axis d in whole(D);
    axis e in whole(E);
    let mut st = full::<f32>(0.0, [h, d, e]);
    for n {
        store(o, [h, n, e], dot(load(q, [h, n, d]), st.cast::<T>(), full::<f32>(0.0, [h, n, e])));
        st = dot(load(k, [h, n, d]), load(v, [h, n, e]), st);
    }
    store(last, [h, d, e], st);
}";

#[test]
fn a_sum_of_products_that_its_loop_reads() {
    let sizes: Sizes<'_> = &[
        &[("H", 2), ("N", 11), ("D", 4), ("E", 5)],
        &[("H", 1), ("N", 16), ("D", 8), ("E", 8)],
        &[("H", 2), ("N", 1), ("D", 1), ("E", 1)],
        &[("H", 2), ("N", 0), ("D", 3), ("E", 2)],
    ];
    agree(
        LINEAR,
        &[
            "fits(E <= 8, D <= 8); tile(h = 1, n = 8); bind(e -> thread.x)",
            "fits(E <= 8, D <= 8); tile(h = 2, n = 4); bind(h -> thread.y, e -> thread.x); unroll(d)",
            "fits(E <= 8, D <= 8); tile(h = 1, n = 4); bind(d -> thread.x); reduce(o.dot: cta)",
            "fits(E <= 8, D <= 8); tile(h = 1, n = 8); stage(k, v at n: shared); pipeline(n, 2); bind(e -> thread.x)",
            "fits(E <= 8, D <= 8); tile(h = 1, n = 8); split(n.o -> no, ni: 2); split(n.t -> ns, nt: 4); bind(e -> thread.x)",
        ],
        sizes,
    );
    // Without the last state nothing stands after the loop.
    let without =
        LINEAR.replace("    store(last, [h, d, e], st);\n", "").replace(", last: &mut [f32; H, D, E]", "");
    agree(&without, &["fits(E <= 8, D <= 8); tile(h = 1, n = 8); bind(e -> thread.x)"], sizes);
}

/// Sums that are read before and after they grow, by one that is carried, too; from a literal and from what is loaded.
const READ: &str = "\
kernel read(x: &[f32; M, N], w: &[f32; N], s: &[f32; M], z: &mut [f32; M], y: &mut [f32; M]) {
    axis i in program_tile(M);
    axis j in tiles(N);
    let mut t = full::<f32>(0.0, [i]);
    let mut u = full::<f32>(0.0, [i]);
    let mut p = load(s, [i]);
    for j {
        u = u * 0.5 + t;
        t = dot(load(x, [i, j]), load(w, [j]), t);
        u = u - t + p;
        p = dot(load(x, [i, j]), load(w, [j]), p);
    }
    store(z, [i], u);
    store(y, [i], t + p);
}";

#[test]
fn sums_that_are_read_while_they_grow() {
    agree(
        READ,
        &[
            "tile(j = 8)",
            "tile(i = 8, j = 8); bind(i -> thread.x)",
            "tile(i = 8, j = 8); stage(x, w at j: shared); pipeline(j, 2); bind(i -> thread.x)",
            "fits(N <= 80); tile(i = 8, j = 16); unroll(j.o); bind(i -> thread.x)",
        ],
        &[&[("M", 9), ("N", 20)], &[("M", 8), ("N", 16)], &[("M", 1), ("N", 1)], &[("M", 3), ("N", 0)]],
    );
}

/// The same in loops in one another: inside of a tile the sum is a plain one.
const READ_INSIDE: &str = "\
kernel sums(x: &[f32; R, M, N], w: &[f32; M, N], s: &[f32; R], z: &mut [f32; R, M, N]) {
    axis r in program_tile(R);
    axis m in tiles(M);
    axis n in tiles(N);
    let mut t = load(s, [r]);
    for m {
        for n {
            store(z, [r, m, n], load(x, [r, m, n]) + t);
            t = dot(load(x, [r, m, n]), load(w, [m, n]), t);
        }
    }
}";

#[test]
fn a_tile_of_a_sum_is_a_plain_sum() {
    agree(
        READ_INSIDE,
        &[
            "tile(r = 4, m = 2, n = 4); bind(r -> thread.x)",
            "tile(r = 4, m = 2, n = 4); reorder(n.t, m.t); bind(r -> thread.x)",
        ],
        &[&[("R", 5), ("M", 5), ("N", 9)], &[("R", 4), ("M", 4), ("N", 8)], &[("R", 1), ("M", 0), ("N", 3)]],
    );
}

/// Two products into one sum that nothing reads between them are a plain reduction, in any order and by any threads.
const TWO_PRODUCTS: &str = "\
kernel two(x: &[f32; M, N], v: &[f32; N], w: &[f32; N], y: &mut [f32; M]) {
    axis i in program_tile(M);
    axis j in tiles(N);
    let mut t = full::<f32>(0.0, [i]);
    for j {
        t = dot(load(x, [i, j]), load(w, [j]), t);
        t = dot(load(x, [i, j]), load(v, [j]), t);
    }
    store(y, [i], t);
}";

#[test]
fn two_products_into_one_sum() {
    agree(
        TWO_PRODUCTS,
        &[
            "tile(j = 8, i = 8); bind(i -> thread.x)",
            "tile(j = 32, i = 2); reduce(t: lane); bind(j -> lane.x, i -> warp.x)",
        ],
        ROWS,
    );
}

/// On tensor cores the state lies where the product that reads it has its operand, or is shared out by plain loops.
#[test]
fn state_of_one_product_is_an_operand_of_another() {
    agree(
        &LINEAR.replace("cast::<T>", "cast::<f16>").replace("<T>", "").replace("[T;", "[f16;"),
        &[
            "fits(E <= 16, D <= 16); tile(h = 1, n = 16); stage(k, v, q at n: shared); \
             tensor_core(st: mma; swapped); tensor_core(o.dot: mma)",
            "fits(E <= 16, D <= 16); tile(h = 1, n = 32); stage(k, v, q at n: shared, vector(16)); pipeline(n, 2); \
             tensor_core(st: mma; swapped); tensor_core(o.dot: mma)",
            "fits(E <= 16, D <= 16); tile(h = 1, n = 16); stage(k, v at n: shared); tensor_core(st: mma)",
        ],
        &[
            &[("H", 2), ("N", 35), ("D", 16), ("E", 8)],
            &[("H", 2), ("N", 32), ("D", 11), ("E", 7)],
            &[("H", 1), ("N", 1), ("D", 1), ("E", 1)],
        ],
    );
}
