//! Views: parts of buffers, pitches, transposes, on the simulator, against the same elements without gaps.

use tilewright::{AnySchedule, Error, LaunchReport, PtxCache, Variant, prelude::*};

/// C = A·B.
#[tile_kernel]
fn matmul<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}

/// A matrix of a batch, times two.
#[tile_kernel]
fn twice(x: &Tensor<f32, B, M, N>, y: &mut Tensor<f32, B, M, N>) {
    let (b, i, j) = program_tile(B, M, N);
    store(y, [b, i, j], load(x, [b, i, j]) * 2.0);
}

/// Three neighbours, averaged; what lies outside of x counts as zero.
#[tile_kernel]
fn smooth(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    store(y, [i, j], load(x, [i, j - 1]) + load(x, [i, j]) + load(x, [i, j + 1]));
}

schedule! {
    tiled for matmul<f32 | f16> {
        tile(i = 16, j = 16, k = 16);
        bind(j -> thread.x, i -> thread.y);
        stage(a, b at k: shared);
    }
    /// Sixteen bytes an instruction.
    wide = tiled {
        tile(i = 32, j = 64);
        split(j -> jt, jv: 4);
        split(i -> it, ir: 4);
        bind(jt -> thread.x, it -> thread.y);
        stage(a, b at k: shared, cp_async, vector(16));
        pipeline(k, 2);
        reorder(k, ir, jv);
        vectorize(jv);
        drop(bind(i));
        drop(bind(j));
    }
    by_columns = tiled { layout(b: col); }
    added = tiled<f32> { split_k(k, 2; atomic); }
}

schedule! {
    by_rows for twice {
        tile(b = 1, i = 8, j = 128);
        split(j -> jt, jv: 4);
        bind(jt -> thread.x, i -> thread.y);
        vectorize(jv);
    }
}

schedule! {
    window for smooth { tile(i = 4, j = 32); bind(j -> thread.x, i -> thread.y); }
}

fn device() -> Device {
    Device::sim().with_cache(PtxCache::disabled())
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7) % 11) as f32 - 5.0).collect()
}

/// A buffer of this shape that lies in a larger one, `[pitch]` elements a row and `before` elements after its start;
/// the rest is not a number.
fn inside(
    device: &Device,
    shape: [usize; 2],
    pitch: usize,
    before: usize,
) -> (Buffer<f32>, [std::ops::Range<usize>; 2]) {
    let rows = shape[0] + 1;
    let mut data = vec![f32::NAN; rows * pitch];
    for (n, x) in numbers(shape[0] * shape[1]).into_iter().enumerate() {
        data[n / shape[1] * pitch + before + n % shape[1]] = x;
    }
    let buffer = Buffer::from_slice(device, &data, &[rows, pitch]).unwrap();
    (buffer, [0..shape[0], before..before + shape[1]])
}

/// The product on views of these pitches and offsets: right, with nothing beside it written.
fn product(schedule: &dyn AnySchedule, pitches: [usize; 3], offsets: [usize; 3]) -> LaunchReport {
    let (m, n, k) = (64, 64, 32);
    let device = device();
    let (a, at_a) = inside(&device, [m, k], pitches[0], offsets[0]);
    let (b, at_b) = inside(&device, [k, n], pitches[1], offsets[1]);
    let (mut c, at_c) = inside(&device, [m, n], pitches[2], offsets[2]);
    let before = c.to_vec().unwrap();

    let (dense_a, dense_b) =
        (a.slice(&at_a).unwrap().to_vec().unwrap(), b.slice(&at_b).unwrap().to_vec().unwrap());
    assert_eq!(dense_a, numbers(m * k));
    let dense_a = Buffer::from_slice(&device, &dense_a, &[m, k]).unwrap();
    let dense_b = Buffer::from_slice(&device, &dense_b, &[k, n]).unwrap();
    let mut expected = Buffer::poisoned(&device, &[m, n]).unwrap();
    matmul(&dense_a, &dense_b, &mut expected).schedule_dyn(schedule).run().unwrap();

    let (a, b) = (a.slice(&at_a).unwrap(), b.slice(&at_b).unwrap());
    let mut view = c.slice_mut(&at_c).unwrap();
    let report = matmul(&a, &b, &mut view).schedule_dyn(schedule).run().unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!(view.to_vec().unwrap(), expected.to_vec().unwrap(), "{pitches:?} {offsets:?}");
    let after = c.to_vec().unwrap();
    let pitch = pitches[2];
    for (place, (before, after)) in before.iter().zip(&after).enumerate() {
        let inside = place / pitch < m && at_c[1].contains(&(place % pitch));
        assert!(inside || before.to_bits() == after.to_bits(), "{place} was written");
    }
    report
}

#[test]
fn pitches_and_offsets_choose_the_variant() {
    let cases = [
        ([32, 64, 64], [0, 0, 0], Variant::Exact),
        // Rows that keep sixteen bytes keep the vectors.
        ([36, 68, 100], [4, 0, 8], Variant::Exact),
        ([33, 64, 64], [0, 0, 0], Variant::General),
        ([36, 68, 68], [0, 1, 0], Variant::General),
        ([32, 64, 67], [0, 0, 3], Variant::General),
        ([35, 71, 73], [1, 2, 3], Variant::General),
    ];
    for (pitches, offsets, variant) in cases {
        let report = product(&wide, pitches, offsets);
        assert_eq!(report.variant, Some(variant), "{pitches:?} {offsets:?}");
        assert_eq!(product(&tiled, pitches, offsets).variant, Some(Variant::Exact), "it has no vectors");
        product(&added, pitches, offsets);
    }
    let assumptions = product(&wide, [36, 68, 100], [0, 0, 0]).assumptions;
    for expected in ["a.stride0 % 4 == 0", "b.stride0 % 4 == 0", "c.stride0 % 4 == 0", "K % 16 == 0"] {
        assert!(assumptions.iter().any(|a| a == expected), "{expected}: {assumptions:?}");
    }
}

#[test]
fn a_transposed_view_is_column_major() {
    let device = device();
    let a = Buffer::from_slice(&device, &numbers(3 * 4), &[3, 4]).unwrap();
    // Bᵀ is stored row-major, 5×4.
    let b = Buffer::from_slice(&device, &numbers(5 * 4), &[5, 4]).unwrap();
    let mut c = Buffer::poisoned(&device, &[3, 5]).unwrap();
    let report = matmul(&a, &b.transposed(), &mut c).schedule(by_columns).run().unwrap();
    assert!(report.findings.is_empty());
    let (x, y) = (a.to_vec().unwrap(), b.to_vec().unwrap());
    let expected: Vec<f32> =
        (0..15).map(|n| (0..4).map(|k| x[n / 5 * 4 + k] * y[n % 5 * 4 + k]).sum()).collect();
    assert_eq!(c.to_vec().unwrap(), expected);

    let error = matmul(&a, &b.transposed(), &mut c).schedule(tiled).run().unwrap_err().to_string();
    assert_eq!(
        error,
        "`b` of shape [4, 5] is column-major, and schedule `tiled` was proved for a row-major `b`: \
         pass it row-major, or choose a schedule with `layout(..: col)`"
    );
    // The same with a pitch.
    let (b, at) = inside(&device, [5, 4], 7, 2);
    let report = matmul(&a, &b.slice(&at).unwrap().transposed(), &mut c).schedule(by_columns).run().unwrap();
    assert!(report.ptx.contains("_strided"), "{}", report.ptx);
    assert_eq!(c.to_vec().unwrap(), expected);
    let mut turned = Buffer::from_slice(&device, &[0.0f32; 15], &[5, 3]).unwrap();
    let zeros = Buffer::zeros(&device, &[4, 5]).unwrap();
    let error = matmul(&a, &zeros, &mut turned.transposed_mut()).schedule(tiled).run().unwrap_err();
    assert!(matches!(&error, Error::LayoutMismatch { name, .. } if name == "c"), "{error}");
}

#[test]
fn a_batch_may_have_a_stride_of_its_own() {
    let device = device();
    let shape = [3, 10, 20];
    let whole = Buffer::from_slice(&device, &numbers(3 * 12 * 24), &[3, 12, 24]).unwrap();
    let x = whole.slice(&[0..3, 1..11, 4..24]).unwrap();
    let mut out = Buffer::<f32>::poisoned(&device, &[6, 10, 20]).unwrap();
    // Every other matrix cannot be sliced; the second half of the batch can.
    let mut y = out.slice_mut(&[3..6, 0..10, 0..20]).unwrap();
    let report = twice(&x, &mut y).schedule(by_rows).run().unwrap();
    assert_eq!(report.variant, Some(Variant::Aligned), "{:?}", report.assumptions);
    let expected: Vec<f32> = x.to_vec().unwrap().iter().map(|x| 2.0 * x).collect();
    assert_eq!(y.to_vec().unwrap(), expected);
    assert_eq!(report.dims["B"], 3);
    assert!(out.slice(&[0..3, 0..10, 0..20]).unwrap().to_vec().unwrap().iter().all(|x| x.is_nan()));

    let odd = whole.slice(&[0..3, 1..11, 3..23]).unwrap();
    let mut y = Buffer::<f32>::poisoned(&device, &shape).unwrap();
    let report = twice(&odd, &mut y).schedule(by_rows).run().unwrap();
    assert_eq!(report.variant, Some(Variant::General));
    let expected: Vec<f32> = odd.to_vec().unwrap().iter().map(|x| 2.0 * x).collect();
    assert_eq!(y.to_vec().unwrap(), expected);
}

#[test]
fn what_lies_outside_a_view_reads_as_zero() {
    let device = device();
    // The neighbours in memory of the view's first and last column are not zero.
    let (x, at) = inside(&device, [6, 40], 50, 5);
    let x = x.slice(&at).unwrap();
    let mut y = Buffer::zeros_pitched(&device, &[6, 40], 44).unwrap();
    let report = smooth(&x, &mut y).schedule(window).run().unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let x = x.to_vec().unwrap();
    for (n, y) in y.to_vec().unwrap().into_iter().enumerate() {
        let row = &x[n / 40 * 40..][..40];
        let near = |at: Option<usize>| at.and_then(|at| row.get(at)).copied().unwrap_or(0.0);
        assert_eq!(y, near((n % 40).checked_sub(1)) + row[n % 40] + near(Some(n % 40 + 1)), "{n}");
    }
}

#[test]
fn halves_of_a_buffer_are_written_at_once() {
    let device = device();
    let x = Buffer::from_slice(&device, &numbers(2 * 10 * 20), &[2, 10, 20]).unwrap();
    let mut y = Buffer::poisoned(&device, &[2, 10, 20]).unwrap();
    let stream = Stream::new(&device).unwrap();
    for dim in 0..3 {
        let at = y.shape()[dim] / 2;
        let ranges = |low: usize, high: usize| {
            let mut ranges = [0..2, 0..10, 0..20];
            ranges[dim] = low..high;
            ranges
        };
        let (mut first, mut second) = y.split_at_mut(dim, at).unwrap();
        let end = x.shape()[dim];
        twice(&x.slice(&ranges(0, at)).unwrap(), &mut first).schedule(by_rows).enqueue(&stream).unwrap();
        twice(&x.slice(&ranges(at, end)).unwrap(), &mut second).schedule(by_rows).enqueue(&stream).unwrap();
        let expected: Vec<f32> = x.to_vec().unwrap().iter().map(|x| 2.0 * x).collect();
        assert_eq!(y.to_vec().unwrap(), expected, "{dim}");
        y.copy_from(&[f32::NAN; 400]).unwrap();
    }
    let error = y.split_at_mut(3, 0).unwrap_err().to_string();
    assert_eq!(error, "the slice [0..2, 0..10, 0..20, 0..0] leaves a tensor of shape [2, 10, 20]");
}

#[test]
fn views_write_where_they_look() {
    let device = device();
    let mut x = Buffer::from_slice(&device, &numbers(12), &[3, 4]).unwrap();
    x.slice_mut(&[1..3, 1..3]).unwrap().copy_from(&[70.0, 71.0, 72.0, 73.0]).unwrap();
    let mut expected = numbers(12);
    (expected[5], expected[6], expected[9], expected[10]) = (70.0, 71.0, 72.0, 73.0);
    assert_eq!(x.to_vec().unwrap(), expected);
    assert_eq!(x.reshaped(&[2, 6]).unwrap().to_vec().unwrap(), expected);
    x.reshaped_mut(&[12]).unwrap().copy_from(&numbers(12)).unwrap();
    assert_eq!(x.to_vec().unwrap(), numbers(12));

    let message = |result: Result<tilewright::View<'_, f32>, Error>| result.unwrap_err().to_string();
    assert_eq!(message(x.reshaped(&[5])), "12 elements do not fill a tensor of shape [5]");
    assert_eq!(
        message(x.slice(&[0..3, 0..2]).unwrap().reshaped(&[6])),
        "a tensor of shape [3, 2] with strides [4, 1] has gaps, and another shape needs one without"
    );
    assert_eq!(message(x.slice(&[0..4, 0..2])), "the slice [0..4, 0..2] leaves a tensor of shape [3, 4]");
    assert_eq!(
        Buffer::<f32>::zeros_pitched(&device, &[3, 4], 3).unwrap_err().to_string(),
        "strides [3, 1] do not fit a tensor of shape [3, 4]: dimension 0 needs a stride of at least 4"
    );
}

#[test]
fn memory_of_others_is_a_gpus() {
    let device = device();
    // SAFETY: refused before the address means anything.
    let error = unsafe { tilewright::interop::raw_view::<f32>(&device, 4096, &[4]) }.unwrap_err();
    assert_eq!(error.to_string(), "simulator cannot use memory of a GPU: open that GPU with `Device::cuda`");
    assert_eq!(Buffer::<f32>::zeros(&device, &[4]).unwrap().device_pointer().unwrap(), None);
    assert!(Stream::new(&device).unwrap().cuda_stream().is_none());
}

#[test]
fn threads_write_parts_of_one_buffer() {
    let device = device();
    let x = Buffer::from_slice(&device, &numbers(400), &[2, 10, 20]).unwrap();
    let mut y = Buffer::poisoned(&device, &[2, 10, 20]).unwrap();
    for _ in 0..4 {
        let (mut left, mut right) = y.split_at_mut(2, 10).unwrap();
        let (from_left, from_right) = (x.slice(&[0..2, 0..10, 0..10]), x.slice(&[0..2, 0..10, 10..20]));
        let (from_left, from_right) = (from_left.unwrap(), from_right.unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| twice(&from_left, &mut left).schedule(by_rows).run().unwrap());
            scope.spawn(|| twice(&from_right, &mut right).schedule(by_rows).run().unwrap());
        });
        let expected: Vec<f32> = x.to_vec().unwrap().iter().map(|x| 2.0 * x).collect();
        assert_eq!(y.to_vec().unwrap(), expected);
        y.copy_from(&[f32::NAN; 400]).unwrap();
    }
}

#[test]
fn buffers_are_copied_between_devices_and_views() {
    let (here, there) = (device(), device());
    let stream = Stream::new(&here).unwrap();
    let source = Buffer::from_slice(&there, &numbers(12), &[3, 4]).unwrap();
    let mut whole = Buffer::<f32>::zeros(&here, &[4, 6]).unwrap();
    let mut part = whole.slice_mut(&[1..4, 1..5]).unwrap();
    part.copy_from_buffer(&source, &stream).unwrap();
    drop(part);
    let expected: Vec<f32> = (0..24)
        .map(|n| match (n / 6, n % 6) {
            (row @ 1.., column @ 1..5) => numbers(12)[(row - 1) * 4 + column - 1],
            _ => 0.0,
        })
        .collect();
    assert_eq!(whole.to_vec().unwrap(), expected);
    // Parts of one buffer, too.
    let (left, mut right) = whole.split_at_mut(1, 3).unwrap();
    right.copy_from_buffer(&left, &stream).unwrap();
    drop((left, right));
    let copied = whole.to_vec().unwrap();
    assert!((0..24).filter(|n| n % 6 >= 3).all(|n| copied[n] == expected[n - 3]));

    let mut other = Buffer::<f32>::zeros(&here, &[4, 3]).unwrap();
    let error = other.copy_from_buffer(&source, &stream).unwrap_err().to_string();
    assert_eq!(
        error,
        "a row-major tensor of shape [3, 4] cannot be copied to a row-major one of shape [4, 3]"
    );
    let mut other = Buffer::<f32>::zeros(&here, &[3, 4]).unwrap();
    let error = other.copy_from_buffer(&source, &Stream::new(&device()).unwrap()).unwrap_err().to_string();
    assert_eq!(
        error,
        "the stream is one of another simulator, and the launch is on simulator: open a stream on that device"
    );
}
