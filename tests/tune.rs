//! Schedules with lists: their configurations, and the choice among them.

use tilewright::{DType, Origin, Progress, PtxCache, Tuner, Variant, prelude::*};

/// C = A·B.
#[tile_kernel]
pub fn matmul<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}

schedule! {
    /// Six configurations, two of which need more threads than a CTA has.
    pub tuned for matmul<f32 | f16> {
        tile(i = [8, 16, 64], j = 32, k = 16);
        bind(j -> thread.x, i -> thread.y);
        stage(a, b at k: shared, cp_async, vector([4, 16]));
        pipeline(k, 2);
    }
    /// One list is a number now, and another is new.
    pub narrowed = tuned<f32> { tile(i = 8); pipeline(k, [2, 3]); }
    /// A configuration by name.
    pub chosen = tuned { tile(i = 8); stage(a, b at k: shared, cp_async, vector(16)); }
}

fn device() -> Device {
    Device::sim().with_cache(PtxCache::disabled())
}

fn texts(space: impl Space) -> Vec<&'static str> {
    space.configurations().iter().map(|c| c.text()).collect()
}

#[test]
fn lists_make_the_product_of_configurations() {
    let stages = |bytes| {
        format!(
            "stage(a at k: shared, cp_async, vector({bytes})); stage(b at k: shared, cp_async, vector({bytes}))"
        )
    };
    assert_eq!(
        texts(tuned),
        [
            format!("tile(i = 8); {}", stages(4)),
            format!("tile(i = 8); {}", stages(16)),
            format!("tile(i = 16); {}", stages(4)),
            format!("tile(i = 16); {}", stages(16)),
        ]
    );
    let first = tuned.configurations()[0];
    assert_eq!(first.name(), format!("tuned {{ {}; }}", first.text()));
    assert_eq!((first.kernel(), first.dtypes()), ("matmul", &[DType::F32, DType::F16][..]));
}

#[test]
fn what_is_not_legal_is_dropped_with_the_reason() {
    let dropped: Vec<String> = tuned.dropped().iter().map(ToString::to_string).collect();
    assert_eq!(dropped.len(), 4, "two configurations, two element types");
    assert_eq!(
        dropped[1],
        "tile(i = 64); stage(a at k: shared, cp_async, vector(4)); stage(b at k: shared, cp_async, vector(4)) for f16: \
         2048 threads, but a CTA has at most 1024: thread.x = 32 (`j.t`), thread.y = 64 (`i.t`)"
    );
    assert_eq!(narrowed.dropped(), []);
}

#[test]
fn extending_a_space_replaces_lists() {
    let stages = texts(narrowed);
    assert_eq!(stages.len(), 4);
    assert!(stages[1].ends_with("vector(4)); pipeline(k, 3)"), "{stages:?}");
    assert_eq!(<chosen as Schedule>::DTYPES, [DType::F32, DType::F16]);
}

#[test]
fn configurations_run() {
    let device = device();
    let a = Buffer::from_slice(&device, &[1.0f32; 20 * 24], &[20, 24]).unwrap();
    let b = Buffer::from_slice(&device, &[2.0f32; 24 * 36], &[24, 36]).unwrap();
    for configuration in tuned.configurations() {
        let mut c = Buffer::<f32>::poisoned(&device, &[20, 36]).unwrap();
        let report = matmul(&a, &b, &mut c).schedule_dyn(configuration).run().unwrap();
        assert_eq!(c.to_vec().unwrap(), [48.0; 20 * 36]);
        assert_eq!(&*report.schedule, configuration.name());
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
}

/// y·factor, in place.
#[tile_kernel]
fn scale(factor: f32, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], factor * load(y, [i]));
}

schedule! {
    scaled for scale { tile(i = [64, 32, 4096]); bind(i -> thread.x); }
    bounded = scaled { fits(N <= 100); }
}

#[test]
fn without_a_gpu_the_ranking_is_a_prediction() {
    let device = device();
    let a = Buffer::from_slice(&device, &[1.0f32; 64 * 32], &[64, 32]).unwrap();
    let b = Buffer::from_slice(&device, &[1.0f32; 32 * 64], &[32, 64]).unwrap();
    let mut c = Buffer::from_slice(&device, &[7.0f32; 64 * 64], &[64, 64]).unwrap();
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = seen.clone();
    let tuner = Tuner::new().watch(move |progress| told.lock().unwrap().push(progress));
    let choice = tuner.tune(matmul(&a, &b, &mut c), tuned).unwrap();
    assert_eq!(choice.origin, Origin::Predicted);
    assert_eq!((choice.ranked.len(), choice.dropped.len(), choice.failed.len()), (4, 2, 0));
    assert!(choice.ranked.is_sorted_by(|a, b| a.us <= b.us), "{choice}");
    assert!(choice.ranked.iter().all(|r| r.us > 0.0 && r.bound.is_some() && r.variant == Variant::Exact));
    assert_eq!(seen.lock().unwrap()[3..], [Progress::Simulating { done: 3, of: 4 }, Progress::Done]);
    assert_eq!(c.to_vec().unwrap(), [7.0; 64 * 64], "what the kernel writes is put back");
    let table = choice.to_string();
    for text in [
        "matmul under tuned · f32 · M = 64 · K = 32 · N = 64\nprediction, not a measurement: ",
        "configuration",
        "predicted µs",
        "dropped while compiling: tile(i = 64); stage(",
    ] {
        assert!(table.contains(text), "no `{text}` in\n{table}");
    }
    matmul(&a, &b, &mut c).schedule_dyn(choice.best()).run().unwrap();
    assert_eq!(c.to_vec().unwrap(), [32.0; 64 * 64]);
}

#[test]
fn arguments_in_place_are_put_back() {
    let device = device();
    let mut y = Buffer::from_slice(&device, &[3.0f32; 70], &[70]).unwrap();
    let choice = Tuner::new().tune(scale(2.0, &mut y), scaled).unwrap();
    assert_eq!(choice.ranked.len(), 2);
    assert_eq!(y.to_vec().unwrap(), [3.0; 70]);
}

#[test]
fn a_tuner_says_why_it_cannot() {
    let device = device();
    let mut y = Buffer::from_slice(&device, &[3.0f32; 170], &[170]).unwrap();
    assert_eq!(
        Tuner::new().tune(scale(2.0, &mut y), bounded).unwrap_err().to_string(),
        "schedule `bounded { tile(i = 64); }` holds whole rows on chip under the assertion N <= 100, and here N = 170: use a schedule without `fits(N <= 100)`"
    );
    let mut empty = Buffer::<f32>::zeros(&device, &[0]).unwrap();
    assert_eq!(
        Tuner::new().tune(scale(2.0, &mut empty), scaled).unwrap_err().to_string(),
        "there is nothing to compute, so `scale` cannot be tuned: pass tensors with elements"
    );
    let half = Buffer::<f16>::zeros(&device, &[4, 4]).unwrap();
    let mut out = Buffer::<f16>::zeros(&device, &[4, 4]).unwrap();
    assert_eq!(
        Tuner::new().tune(matmul(&half, &half, &mut out), narrowed).unwrap_err().to_string(),
        "schedule `narrowed` does not admit f16; it admits f32"
    );
}
