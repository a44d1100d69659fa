//! Tensors of bools: masks that are loaded, staged, combined, compared, cast and stored, and scalars of all types.

use crate::{products, support};

mod kernels {
    use tilewright::prelude::*;

    /// What a mask keeps.
    #[tile_kernel]
    pub fn masked<T: Float>(x: &Tensor<T, M, N>, keep: &Tensor<bool, M, N>, y: &mut Tensor<T, M, N>) {
        let (i, j) = program_tile(M, N);
        store(y, [i, j], select(load(keep, [i, j]), load(x, [i, j]), 0.0));
    }

    /// All that combines two masks.
    #[tile_kernel]
    pub fn logic(
        a: &Tensor<bool, M, N>,
        b: &Tensor<bool, M, N>,
        y: &mut Tensor<bool, M, N>,
        z: &mut Tensor<bool, M, N>,
    ) {
        let (i, j) = program_tile(M, N);
        let p = load(a, [i, j]);
        let q = load(b, [i, j]);
        store(y, [i, j], (p & !q) | (p == q));
        store(z, [i, j], p != q);
    }

    /// Comparisons as a mask, and stores under one.
    #[tile_kernel]
    pub fn flags(
        x: &Tensor<f32, N>,
        keep: &Tensor<bool, N>,
        y: &mut Tensor<bool, N>,
        z: &mut Tensor<bool, N>,
        w: &mut Tensor<f32, N>,
    ) {
        let i = program_tile(N);
        let v = load(x, [i]);
        store(y, [i], v > 0.0);
        if load(keep, [i]) {
            store(z, [i], full::<bool>(true, [i]));
            store(w, [i], v);
        }
    }

    /// What lies beside a mask is false.
    #[tile_kernel]
    pub fn edges(mask: &Tensor<bool, M, N>, y: &mut Tensor<bool, M, N>) {
        let (i, j) = program_tile(M, N);
        let inside = load(mask, [i, j - 1]) & load(mask, [i, j + 1]);
        store(y, [i, j], load(mask, [i, j]) & !inside);
    }

    /// Elements of a mask that values name, and others set.
    #[tile_kernel]
    pub fn looked_up(
        mask: &Tensor<bool, N>,
        at: &Tensor<i64, S>,
        slot: &Tensor<i32, S>,
        y: &mut Tensor<i32, S>,
        z: &mut Tensor<bool, L>,
    ) {
        let s = program_tile(S);
        let found = load(mask, [load(at, [s])]);
        store(y, [s], select(found, 1i32, 2));
        store(z, [unique(load(slot, [s]))], !found);
    }

    /// How many of a row are true, and whether all are.
    #[tile_kernel]
    pub fn counts(mask: &Tensor<bool, M, N>, y: &mut Tensor<i32, M>, all: &mut Tensor<bool, M>) {
        let i = program_tile(M);
        let n = whole(N);
        let held = load(mask, [i, n]).cast::<i32>();
        store(y, [i], sum(held, n));
        store(all, [i], min(held, n) != 0);
    }

    /// A product of which a mask leaves factors out.
    #[tile_kernel]
    pub fn product<T: Float>(
        a: &Tensor<T, M, K>,
        keep: &Tensor<bool, M, K>,
        b: &Tensor<T, K, N>,
        c: &mut Tensor<f32, M, N>,
    ) {
        let (i, j) = program_tile(M, N);
        let mut acc = zeros::<f32>([i, j]);
        for k in tiles(K) {
            acc = dot(select(load(keep, [i, k]), load(a, [i, k]), 0.0), load(b, [k, j]), acc);
        }
        store(c, [i, j], acc);
    }

    /// A bool of each row that all its elements ask for.
    #[tile_kernel]
    pub fn gated(x: &Tensor<f32, M, N>, keep: &Tensor<bool, M>, y: &mut Tensor<f32, M, N>) {
        let i = program_tile(M);
        let n = whole(N);
        let open = load(keep, [i]) | (sum(load(x, [i, n]), n) > 2.0);
        store(y, [i, n], select(open, load(x, [i, n]), 0.0));
    }

    /// Scalars of each type that has no generic name.
    #[tile_kernel]
    pub fn scalars(
        x: &Tensor<u32, N>,
        first: u32,
        last: i64,
        on: bool,
        y: &mut Tensor<u32, N>,
        z: &mut Tensor<f32, N>,
        w: &mut Tensor<u32, N>,
    ) {
        let i = program_tile(N);
        let v = load(x, [i]);
        let inside = (v >= first) & (v.cast::<i64>() < last) & on;
        store(y, [i], select(inside, v - first, 4294967295));
        store(z, [i], select(inside, 0.5, 0.25) + on.cast::<f32>());
        if on & (v != 3) {
            store(w, [i], load(x, [i + first]) + load(x, [i + last]));
        }
    }

    schedule! {
        pub masked_plain for masked<f32 | f16> { tile(i = 2, j = 16); bind(j -> thread.x, i -> thread.y); }
        pub masked_wide for masked<f32 | f16> {
            tile(i = 2, j = 64);
            split(j -> jt, jv: 4);
            bind(jt -> thread.x, i -> thread.y);
            vectorize(jv);
        }
        pub logic_plain for logic { tile(i = 2, j = 8); bind(j -> thread.x, i -> thread.y); }
        pub logic_wide for logic {
            tile(i = 2, j = 128);
            split(j -> jt, jv: 16);
            bind(jt -> thread.x, i -> thread.y);
            vectorize(jv);
        }
        pub logic_held for logic {
            tile(i = 4, j = 32);
            split(j -> jt, jv: 4);
            bind(jt -> thread.x, i -> thread.y);
            vectorize(jv);
            stage(p: shared);
        }
        pub logic_cached for logic {
            tile(i = 2, j = 128);
            split(j -> jt, jv: 16);
            bind(jt -> thread.x, i -> thread.y);
            vectorize(jv);
            cache(a: evict_first, y: evict_first);
        }
        pub logic_single for logic { tile(i = 2, j = 8); bind(j -> thread.x, i -> thread.y); cache(a: evict_last, y: evict_last); }
        pub logic_collected on sm_90 for logic {
            tile(i = 4, j = 64);
            split(j -> jt, jv: 2);
            bind(jt -> thread.x, i -> thread.y);
            stage(y: shared, tma);
        }
        pub flags_plain for flags { tile(i = 32); bind(i -> thread.x); }
        pub flags_more for flags { tile(i = 64); split(i -> it, iv: 2); bind(it -> thread.x); unroll(iv); }
        pub edges_plain for edges { tile(i = 2, j = 32); bind(j -> thread.x, i -> thread.y); }
        pub looked_up_plain for looked_up { tile(s = 32); bind(s -> thread.x); }
        pub counts_rows for counts { tile(i = 2); recompute(held); fuse(held at n); bind(i -> thread.x); }
        pub counts_lanes for counts {
            fits(N <= 64);
            tile(i = 2);
            split(n -> no, nl: 32);
            bind(i -> warp.x, nl -> lane.x);
            reduce(y.sum, all.min: lane);
        }
        pub product_plain for product<f32 | f16> { tile(i = 8, j = 8, k = 16); bind(i -> thread.y, j -> thread.x); }
        pub product_staged for product<f32 | f16> {
            tile(i = 8, j = 16, k = 16);
            stage(a, keep, b at k: shared);
            pipeline(k, 2);
            bind(i -> thread.y, j -> thread.x);
        }
        pub product_turned for product<f32 | f16> {
            tile(i = 8, j = 16, k = 16);
            stage(keep at k: shared, transposed);
            bind(i -> thread.y, j -> thread.x);
        }
        pub product_async for product<f32 | f16> {
            tile(i = 8, j = 16, k = 16);
            stage(a, keep, b at k: shared, cp_async, vector(16));
            pipeline(k, 3);
            bind(i -> thread.y, j -> thread.x);
        }
        pub product_tma on sm_90 for product<f32 | f16> {
            tile(i = 8, j = 16, k = 16);
            stage(a, keep, b at k: shared, tma);
            pipeline(k, 2);
            bind(i -> thread.y, j -> thread.x);
        }
        pub product_registers for product<f32 | f16> {
            tile(i = 8, j = 16, k = 16);
            fragment(keep at k.t);
            bind(i -> thread.y, j -> thread.x);
        }
        pub product_mma for product<f16> {
            tile(i = 16, j = 16, k = 16);
            split(i -> iw, im: 16);
            tensor_core(acc: mma);
            stage(a, keep, b at k: shared);
            pipeline(k, 2);
            bind(iw -> warp.x);
        }
        pub gated_rows for gated { tile(i = 2); bind(i -> thread.x); }
        pub gated_lanes for gated {
            tile(i = 2);
            split(n -> no, nl: 32);
            bind(i -> warp.x, nl -> lane.x);
            reduce(open.sum: lane);
        }
        pub scalars_plain for scalars { tile(i = 32); bind(i -> thread.x); }
        pub scalars_more for scalars { tile(i = 64); split(i -> it, iv: 2); bind(it -> thread.x); unroll(iv); }
    }
}

use kernels as k;
use support::Case;
use tilewright::{AnySchedule, DType, Kernel, Pinned, Variant, prelude::*};

fn check<K: Kernel>(case: &Case, schedules: &[&dyn AnySchedule]) {
    for schedule in schedules {
        case.check_nest(*schedule);
        case.check_kernel(*schedule);
        case.check_simulator::<K>(*schedule);
    }
}

/// Some bools: so many, and others for other seeds.
fn bools(n: i64, seed: i64) -> Vec<f64> {
    (0..n).map(|i| f64::from((i * 5 + i / 3 + seed) % 7 % 2 == 0)).collect()
}

#[test]
fn masks_choose() {
    for dtype in [DType::F32, DType::F16] {
        for (m, n) in [(1, 1), (3, 37), (2, 64), (5, 192)] {
            let dims = [("M", m), ("N", n)];
            let case = Case::with(k::masked::KERNEL, Some(dtype), &dims, &[("keep", bools(m * n, 1))]);
            check::<k::masked>(&case, &[&k::masked_plain, &k::masked_wide]);
        }
    }
}

#[test]
fn masks_are_combined() {
    for (m, n) in [(0, 5), (1, 1), (3, 37), (2, 128), (5, 144), (4, 260)] {
        let dims = [("M", m), ("N", n)];
        let given = [("a", bools(m * n, 1)), ("b", bools(m * n, 4))];
        let case = Case::with(k::logic::KERNEL, None, &dims, &given);
        check::<k::logic>(
            &case,
            &[&k::logic_plain, &k::logic_wide, &k::logic_held, &k::logic_cached, &k::logic_single],
        );
        case.check_nest(&k::logic_collected);
        case.check_simulator::<k::logic>(&k::logic_collected);
    }
}

#[test]
fn comparisons_are_stored() {
    for n in [1, 37, 64, 200] {
        let case =
            Case::with(k::flags::KERNEL, None, &[("N", n)], &[("keep", bools(n, 2)), ("z", bools(n, 5))]);
        check::<k::flags>(&case, &[&k::flags_plain, &k::flags_more]);
    }
}

#[test]
fn beside_a_mask_is_false() {
    for (m, n) in [(1, 1), (3, 31), (2, 32), (2, 65)] {
        let dims = [("M", m), ("N", n)];
        // All true, so that what is false lies outside.
        let case = Case::with(k::edges::KERNEL, None, &dims, &[("mask", vec![1.0; (m * n) as usize])]);
        check::<k::edges>(&case, &[&k::edges_plain]);
    }
    for (n, s) in [(11, 29), (40, 64)] {
        let far = [-1, n, 1 << 40, i64::from(i32::MIN)];
        let at = (0..s).map(|i| if i % 3 == 2 { far[(i / 3 % 4) as usize] } else { i * 3 % n } as f64);
        let slot = (0..s).map(|i| if i % 5 == 4 { -1 - i } else { i * 2 % (2 * s + 1) } as f64);
        let given = [("mask", vec![1.0; n as usize]), ("at", at.collect()), ("slot", slot.collect())];
        let dims = [("N", n), ("S", s), ("L", s + 9)];
        let case = Case::with(k::looked_up::KERNEL, None, &dims, &given);
        check::<k::looked_up>(&case, &[&k::looked_up_plain]);
    }
}

#[test]
fn bools_are_counted() {
    for (m, n) in [(1, 1), (5, 40), (4, 64)] {
        let dims = [("M", m), ("N", n)];
        let mut mask = bools(m * n, 3);
        mask[..n as usize].fill(1.0);
        let case = Case::with(k::counts::KERNEL, None, &dims, &[("mask", mask)]);
        check::<k::counts>(&case, &[&k::counts_rows, &k::counts_lanes]);
    }
}

#[test]
fn masks_are_staged() {
    let sizes = [(1, 1, 1), (9, 17, 33), (8, 16, 64), (16, 32, 48)];
    for (dtype, (m, n, depth)) in [DType::F32, DType::F16].into_iter().flat_map(|d| sizes.map(|s| (d, s))) {
        let dims = [("M", m), ("N", n), ("K", depth)];
        let case = Case::with(k::product::KERNEL, Some(dtype), &dims, &[("keep", bools(m * depth, 1))]);
        check::<k::product>(
            &case,
            &[
                &k::product_plain,
                &k::product_staged,
                &k::product_turned,
                &k::product_async,
                &k::product_registers,
            ],
        );
        case.check_nest(&k::product_tma);
        case.check_simulator::<k::product>(&k::product_tma);
        if dtype == DType::F16 {
            case.check_nest(&k::product_mma);
            case.check_simulator::<k::product>(&k::product_mma);
        }
    }
}

#[test]
fn a_bool_goes_to_a_row() {
    for (m, n) in [(1, 1), (5, 40), (4, 64)] {
        let case = Case::with(k::gated::KERNEL, None, &[("M", m), ("N", n)], &[("keep", bools(m, 1))]);
        check::<k::gated>(&case, &[&k::gated_rows, &k::gated_lanes]);
    }
}

#[test]
fn scalars_of_all_types() {
    for n in [1, 37, 128] {
        for (first, last, on) in [(2.0, 9.0, 1.0), (0.0, -3.0, 1.0), (1.0, 4_294_967_296.0, 0.0)] {
            let x = (0..n).map(|i| (i * 7 % 13) as f64).collect();
            let case = Case::with(k::scalars::KERNEL, None, &[("N", n)], &[("x", x)]);
            let case = case.scalar("first", first).scalar("last", last).scalar("on", on);
            check::<k::scalars>(&case, &[&k::scalars_plain, &k::scalars_more]);
        }
    }
}

/// Numbers that a float would round.
#[test]
fn scalars_are_passed_whole() {
    let device = Device::sim();
    let x = Buffer::from_slice(&device, &[u32::MAX, 4_294_967_289, 3], &[3]).unwrap();
    let (mut y, mut w) =
        (Buffer::<u32>::zeros(&device, &[3]).unwrap(), Buffer::<u32>::zeros(&device, &[3]).unwrap());
    let mut z = Buffer::<f32>::zeros(&device, &[3]).unwrap();
    let launched = k::scalars(&x, 4_294_967_288, (1 << 32) - 1, true, &mut y, &mut z, &mut w);
    launched.schedule(k::scalars_plain).run().unwrap();
    assert_eq!(y.to_vec().unwrap(), [u32::MAX, 1, u32::MAX]);
    assert_eq!(z.to_vec().unwrap(), [1.25, 1.5, 1.25]);
}

/// The bytes of bools are others' when they come, and 0 and 1 when a kernel stored them.
#[test]
fn any_byte_comes_in_and_two_go_out() {
    let device = Device::sim();
    for variant in [Variant::Exact, Variant::General] {
        let bytes: Vec<u8> = (0..512).map(|n| (n * 67 % 256) as u8).collect();
        let of = |bytes: &[u8]| Buffer::from_slice(&device, bytes, &[4, 128]).unwrap().into_bools();
        let (a, b) = (of(&bytes), of(&bytes.iter().rev().map(|b| b & 3).collect::<Vec<_>>()));
        let truth = |mask: &Buffer<bool>| mask.to_vec().unwrap();
        assert_eq!(truth(&a), bytes.iter().map(|b| *b != 0).collect::<Vec<_>>());
        for schedule in schedules![
            k::logic_plain,
            k::logic_wide,
            k::logic_held,
            k::logic_cached,
            k::logic_single,
            k::logic_collected
        ] {
            let mut y = Buffer::<bool>::poisoned(&device, &[4, 128]).unwrap();
            let mut z = Buffer::<bool>::poisoned(&device, &[4, 128]).unwrap();
            k::logic(&a, &b, &mut y, &mut z).schedule_dyn(*schedule).variant(variant).run().unwrap();
            let pairs = truth(&a).into_iter().zip(truth(&b));
            let wanted =
                |f: fn(bool, bool) -> bool| pairs.clone().map(|(p, q)| f(p, q).into()).collect::<Vec<u8>>();
            let name = schedule.name();
            let stored = [y, z].map(|mask| mask.into_bytes().to_vec().unwrap());
            assert_eq!(stored, [wanted(|p, q| p & !q | (p == q)), wanted(|p, q| p ^ q)], "{name}, {variant}");
        }
    }
}

#[test]
fn pinned_bools_are_settled() {
    let device = Device::sim();
    let stream = Stream::new(&device).unwrap();
    let foreign = Buffer::from_slice(&device, &[0u8, 1, 2, 255], &[4]).unwrap().into_bools();
    let pinned = Pinned::<bool>::zeros(&device, 4).unwrap();
    let pinned = foreign.copy_to_pinned(pinned, &stream).unwrap().wait().unwrap();
    assert_eq!(pinned[..], [false, true, true, true]);
    let mut back = Buffer::<bool>::poisoned(&device, &[4]).unwrap();
    back.copy_from_pinned(pinned, &stream).unwrap().wait().unwrap();
    assert_eq!(back.into_bytes().to_vec().unwrap(), [0, 1, 1, 1]);
}

/// Sixteen bools are sixteen bytes: one instruction.
#[test]
fn sixteen_bools_are_one_access() {
    let ptx = tilewright::ptx(&k::logic_wide, None, Variant::Exact).unwrap().text;
    let accesses = |what: &str| products::count(&ptx, what);
    assert_eq!([accesses("ld.global"), accesses("st.global")], [2, 2], "{ptx}");
    assert_eq!(accesses(".v4."), 4, "{ptx}");
}
