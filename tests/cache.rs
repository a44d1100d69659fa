//! `cache`: which accesses of a kernel carry the policy of their tensor, and that results are right by it.

#[path = "../examples/matmul/kernel.rs"]
#[allow(dead_code, reason = "one kernel and some of its schedules")]
mod product;
#[path = "support/products.rs"]
mod products;

use product::matmul;
use products::{Factors, count, is, numbers, simulators};
use tilewright::{DType, Stage, Variant, emit, prelude::*};

/// Schedules by the ways in which they access tensors, without policies and with them.
mod local {
    use super::product;
    use tilewright::prelude::*;

    #[tile_kernel]
    pub fn scale<T: Float>(x: &Tensor<T, N>, y: &mut Tensor<T, N>) {
        let i = program_tile(N);
        store(y, [i], (load(x, [i]).cast::<f32>() * 2.0f32).cast::<T>());
    }

    #[tile_kernel]
    pub fn narrow(x: &Tensor<f32, N>, y: &mut Tensor<f8, N>) {
        let i = program_tile(N);
        store(y, [i], load(x, [i]).cast::<f8>());
    }

    #[tile_kernel]
    pub fn widen(x: &Tensor<f8, N>, y: &mut Tensor<f32, N>) {
        let i = program_tile(N);
        store(y, [i], load(x, [i]).cast::<f32>());
    }

    schedule! {
        pub elements for scale<f32 | f16 | bf16> {
            tile(i = 128);
            bind(i -> thread.x);
            cache(x: evict_last, y: evict_first);
        }
        pub vectors for scale<f32 | f16 | bf16> {
            tile(i = 512);
            split(i -> it, iv: 4);
            bind(it -> thread.x);
            vectorize(iv);
            cache(x: evict_first, y: evict_first);
        }
        /// What lies behind earlier grids is no constant.
        pub behind on sm_90 = vectors { launch(dependent); }
        pub narrowed on sm_90 for narrow {
            tile(i = 128);
            bind(i -> thread.x);
            cache(y: evict_first);
        }
        pub widened on sm_90 for widen {
            tile(i = 128);
            bind(i -> thread.x);
            cache(x: evict_first);
        }
        pub copied for product::matmul<f32> {
            tile(i = 32, j = 32, k = 8);
            bind(i -> thread.y, j -> thread.x);
            stage(a at k: shared, cp_async);
            stage(b at k: shared);
            cache(b: evict_last);
        }
        pub parts = copied { split_k(k, 2); }
        pub maps on sm_90a for product::matmul<f16 | bf16> = product::stmatrix {
            cache(a: evict_last, c: evict_first);
        }
        pub everywhere on sm_90a for product::matmul<f16 | bf16> = product::cluster {
            cache(a: evict_last, b: evict_last);
        }
    }
}

fn ptx(schedule: &dyn AnySchedule, dtype: Option<DType>, variant: Variant) -> String {
    tilewright::ptx(schedule, dtype, variant).expect("it compiles").text
}

const HINT: &str = ".L2::cache_hint";

/// The lines with an instruction.
fn lines<'a>(ptx: &'a str, what: &str) -> Vec<&'a str> {
    ptx.lines().map(str::trim).filter(|l| l.contains(what)).collect()
}

/// The register that a policy is made in, once, before it is used.
fn register<'a>(ptx: &'a str, policy: &str) -> &'a str {
    let made = lines(ptx, &format!("createpolicy.fractional.L2::{policy}.b64"));
    let [made] = made.as_slice() else { panic!("{policy} is made {} times:\n{ptx}", made.len()) };
    let register = made.split_whitespace().nth(1).expect("a register").trim_end_matches(',');
    assert!(ptx.find(made) < ptx.find(HINT), "{ptx}");
    register
}

#[test]
fn loads_and_stores_carry_the_policy() {
    let text = ptx(&local::elements, Some(DType::F32), Variant::General);
    let (last, first) = (register(&text, "evict_last"), register(&text, "evict_first"));
    let (loads, stores) = (lines(&text, "ld.global"), lines(&text, "st.global"));
    assert!(loads.len() == 1 && stores.len() == 1, "{text}");
    assert!(loads[0].contains("ld.global.nc.L2::cache_hint.b32") && loads[0].ends_with(&format!("{last};")));
    assert!(stores[0].contains("st.global.L2::cache_hint.b32") && stores[0].ends_with(&format!("{first};")));

    for (dtype, words) in [(DType::F32, ".v4.b32"), (DType::F16, ".v2.b32")] {
        let text = ptx(&local::vectors, Some(dtype), Variant::Exact);
        let first = register(&text, "evict_first");
        assert_eq!(count(&text, "createpolicy"), 1);
        for access in lines(&text, HINT) {
            assert!(access.contains(words) && access.ends_with(&format!("{first};")), "{access}");
        }
        assert_eq!(count(&text, HINT), 2, "{text}");
    }
    let text = ptx(&local::behind, Some(DType::F32), Variant::Exact);
    assert_eq!((count(&text, "ld.global.L2::cache_hint"), count(&text, ".nc")), (1, 0), "{text}");

    let text = ptx(&local::narrowed, None, Variant::General);
    assert_eq!((count(&text, "st.global.L2::cache_hint.b8"), count(&text, HINT)), (1, 1), "{text}");
    let text = ptx(&local::widened, None, Variant::General);
    assert_eq!((count(&text, "ld.global.nc.L2::cache_hint.b8"), count(&text, HINT)), (1, 1), "{text}");
}

#[test]
fn copies_carry_the_policy() {
    for variant in [Variant::Exact, Variant::General] {
        let text = ptx(&local::copied, Some(DType::F32), variant);
        let last = register(&text, "evict_last");
        let hinted = lines(&text, "ld.global.nc.L2::cache_hint");
        assert!(!hinted.is_empty() && hinted.iter().all(|l| l.ends_with(&format!("{last};"))), "{text}");
        // Copies of A go without one, and nothing else has one.
        assert!(count(&text, "cp.async.ca.shared.global [") > 0, "{text}");
        assert_eq!(count(&text, HINT), hinted.len());
    }
    // Parts of sums that CTAs exchange are no tensor's.
    let text = ptx(&local::parts, Some(DType::F32), Variant::Exact);
    assert_eq!(count(&text, HINT), count(&text, "ld.global.nc.L2::cache_hint"));
}

#[test]
fn tensor_maps_carry_the_policy() {
    let text = ptx(&local::maps, Some(DType::BF16), Variant::Exact);
    let (last, first) = (register(&text, "evict_last"), register(&text, "evict_first"));
    let stores = lines(&text, "cp.async.bulk.tensor.2d.global.shared::cta");
    assert!(!stores.is_empty());
    assert!(stores.iter().all(|l| l.contains(HINT) && l.ends_with(&format!("{first};"))), "{stores:?}");
    let loads = lines(&text, "cp.async.bulk.tensor.2d.shared::cluster");
    let hinted = loads.iter().filter(|l| l.contains(HINT) && l.ends_with(&format!("{last};"))).count();
    // Boxes of A, and of B without one.
    assert!(0 < hinted && hinted < loads.len(), "{loads:?}");
    assert_eq!(count(&text, HINT), hinted + stores.len());

    let text = ptx(&local::everywhere, Some(DType::BF16), Variant::Exact);
    let copies = lines(&text, "cp.async.bulk.tensor.2d.shared::cluster");
    assert!(copies.iter().all(|l| l.contains(HINT)), "{copies:?}");
    assert!(copies.iter().any(|l| l.contains(".multicast::cluster.L2::cache_hint")), "{copies:?}");
}

#[test]
fn kernels_say_the_policy_and_their_text_reads_back() {
    let text = emit(&local::maps, Some(DType::BF16), Variant::Exact, Stage::Kernel).expect("it lowers");
    let said = |name: &str, policy: &str| {
        let of = |l: &&str| l.trim_start().starts_with(&format!("param {name}: "));
        text.lines().find(of).is_some_and(|l| l.ends_with(policy))
    };
    assert!(said("a", " cache evict_last") && said("c", " cache evict_first"), "{text}");
    assert!(!said("b", "evict_first") && !said("b", "evict_last"), "{text}");
    let again = tile_dsl::kernel::parse::parse(&text).expect("it reads back");
    assert_eq!(again.to_string(), text);
    assert_eq!(tile_dsl::kernel::verify::verify(&again), Ok(()));
    let text = emit(&local::maps, Some(DType::BF16), Variant::Exact, Stage::Nest).expect("it applies");
    assert!(text.contains("; cache(a: evict_last, c: evict_first)"), "{text}");
}

#[test]
fn elements_are_right_by_a_policy() {
    for (seed, device) in simulators(0..1) {
        for n in [1, 127, 512, 1029] {
            let values = numbers(n, seed as usize);
            let doubled: Vec<f32> = values.iter().map(|v| v * 2.0).collect();
            for schedule in [&local::elements as &dyn AnySchedule, &local::vectors, &local::behind] {
                let what = format!("{} of {n}", schedule.name());
                let x = Buffer::from_slice(&device, &values, &[n]).expect("room");
                let mut y = Buffer::<f32>::poisoned(&device, &[n]).expect("room");
                let report = local::scale(&x, &mut y).schedule_dyn(schedule).run().expect("it runs");
                assert!(report.findings.is_empty(), "{what}: {}", report.findings[0]);
                assert_eq!(y.to_vec().expect("read back"), doubled, "{what}");

                let halves: Vec<f16> = values.iter().copied().map(f16::from_f32).collect();
                let x = Buffer::from_slice(&device, &halves, &[n]).expect("room");
                let mut y = Buffer::<f16>::poisoned(&device, &[n]).expect("room");
                local::scale(&x, &mut y).schedule_dyn(schedule).run().expect("it runs");
                let found: Vec<f32> = y.to_vec().expect("read back").into_iter().map(f16::to_f32).collect();
                assert_eq!(found, doubled, "{what}, f16");
            }
            let x = Buffer::from_slice(&device, &values, &[n]).expect("room");
            let mut y = Buffer::<f8>::poisoned(&device, &[n]).expect("room");
            local::narrow(&x, &mut y).schedule(local::narrowed).run().expect("it runs");
            let mut z = Buffer::<f32>::poisoned(&device, &[n]).expect("room");
            local::widen(&y, &mut z).schedule(local::widened).run().expect("it runs");
            assert_eq!(z.to_vec().expect("read back"), values, "f8, {n}");
        }
    }
}

#[test]
fn products_are_right_by_a_policy() {
    for (seed, device) in simulators(0..1) {
        for size in [[128, 256, 64], [130, 257, 72]] {
            let factors = Factors::new(size, numbers);
            let (a, b) = factors.buffers(&device, bf16::from_f32, Layout::RowMajor);
            for schedule in [&local::maps as &dyn AnySchedule, &local::everywhere] {
                let what = format!("{}, seed {seed}", schedule.name());
                let right = |i, j, found| is(found, bf16::from_f32(factors.sum(i, j)));
                factors.check(&device, &what, |c| matmul(&a, &b, c).schedule_dyn(schedule).run(), right);
            }
        }
        let factors = Factors::new([33, 40, 27], numbers);
        let (a, b) = factors.buffers(&device, |x| x, Layout::RowMajor);
        for schedule in [&local::copied as &dyn AnySchedule, &local::parts] {
            let what = format!("{}, seed {seed}", schedule.name());
            let right = |i, j, found| is(found, factors.sum(i, j));
            factors.check(&device, &what, |c| matmul(&a, &b, c).schedule_dyn(schedule).run(), right);
        }
    }
}
