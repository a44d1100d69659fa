//! What buffers take of a device's memory, and copies to and from the host's, on the simulator.

use half::f16;
use tilewright::{Error, Graph, MemoryUse, Pinned, PtxCache, SimOptions, prelude::*};

#[test]
fn memory_after_is_memory_before() {
    let device = Device::sim();
    let taken = |device: &Device| device.memory().unwrap().in_use;
    let before = device.memory().unwrap();
    assert_eq!(before, MemoryUse { in_use: 0, reserved: 0, free: 16 << 30 });
    {
        let x = Buffer::<f32>::zeros(&device, &[10, 10]).unwrap();
        let y = Buffer::from_slice(&device, &[half::f16::ONE; 3], &[3]).unwrap();
        assert_eq!(taken(&device), 406);
        assert_eq!(taken(&device.clone()), 406, "a clone is the same device");
        assert_eq!(taken(&Device::sim()), 0, "another one is not");
        let z = Buffer::<f32>::uninit(&device, &[5]).unwrap();
        assert_eq!(taken(&device), 426);
        assert!(z.to_vec().unwrap().iter().all(|z| z.is_nan()), "it shows that nothing was written");
        drop(z);
        let part = x.slice(&[0..2, 0..10]).unwrap();
        assert_eq!(taken(&device), 406, "a view takes nothing");
        drop((part, y));
        assert_eq!(device.memory().unwrap().available(), (16 << 30) - 400);
        assert!(matches!(device.check_memory((16 << 30) - 399), Err(Error::OutOfMemory { .. })));
        device.check_memory((16 << 30) - 400).unwrap();
        assert!(matches!(Buffer::<f32>::zeros(&device, &[4 << 30]), Err(Error::OutOfMemory { .. })));
        assert_eq!(taken(&device), 400, "what did not fit takes nothing");
    }
    device.trim().unwrap();
    device.keep(0).unwrap();
    assert_eq!(device.memory().unwrap(), before);
}

/// x + 1, in place.
#[tile_kernel]
fn increment(x: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    store(x, [i, j], load(x, [i, j]) + 1.0);
}

schedule! {
    rows for increment { tile(i = 1, j = 32); bind(j -> thread.x); }
}

#[test]
fn pinned_memory_comes_and_goes() {
    let device = Device::sim();
    let (one, other) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let mut x = Buffer::<f32>::zeros(&device, &[3, 5]).unwrap();
    let mut data = Pinned::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    data[3] = 7.0;
    // A view: the gaps stay.
    let copying = x.slice_mut(&[1..3, 2..4]).unwrap().copy_from_pinned(data, &one).unwrap();
    increment(&mut x).schedule(rows).enqueue(&other).unwrap();
    assert!(copying.is_done().unwrap());
    let data = copying.wait().unwrap();
    let data = x.slice(&[1..3, 2..4]).unwrap().copy_to_pinned(data, &other).unwrap().wait().unwrap();
    assert_eq!(data[..], [2.0, 3.0, 4.0, 8.0]);
    let expected = [1., 1., 1., 1., 1., 1., 1., 2., 3., 1., 1., 1., 4., 8., 1.];
    assert_eq!(x.to_vec().unwrap(), expected);
    // By columns, in the order in which the layout stores them.
    let all = Pinned::zeros(&device, 15).unwrap();
    assert_eq!(x.transposed().copy_to_pinned(all, &one).unwrap().wait().unwrap()[..], expected);
    let nothing = Pinned::<f32>::zeros(&device, 0).unwrap();
    let mut empty = Buffer::<f32>::zeros(&device, &[0, 4]).unwrap();
    assert!(empty.copy_from_pinned(nothing, &one).unwrap().wait().unwrap().is_empty());
}

#[test]
fn copies_that_do_not_fit_are_refused() {
    let device = Device::sim();
    let stream = Stream::new(&device).unwrap();
    let mut x = Buffer::<f32>::zeros(&device, &[2, 3]).unwrap();
    let pinned = |length| Pinned::<f32>::zeros(&device, length).unwrap();
    let text = |result: Result<tilewright::Copying<f32>, Error>| result.unwrap_err().to_string();
    let length = "5 elements do not fill a tensor of shape [2, 3]";
    assert_eq!(text(x.copy_from_pinned(pinned(5), &stream)), length);
    assert_eq!(text(x.copy_to_pinned(pinned(5), &stream)), length);
    let theirs = Stream::new(&Device::sim()).unwrap();
    let mismatch = "the stream is one of another simulator, and the launch is on simulator: open a stream on that device";
    assert_eq!(text(x.copy_to_pinned(pinned(6), &theirs)), mismatch);
    let mut graph = Graph::new(&device);
    let recorded = graph.replay(&stream, |launches| {
        launches.add(increment(&mut x).schedule(rows))?;
        x.copy_to_pinned(pinned(6), &stream).map(drop)
    });
    assert!(matches!(recorded, Err(Error::Recorded)));
}

/// x + 1 in 16 bits, in place.
#[tile_kernel]
fn step(x: &mut Tensor<f16, M, N>) {
    let (i, j) = program_tile(M, N);
    store(x, [i, j], load(x, [i, j]) + 1.0);
}

schedule! {
    lines for step { tile(i = 1, j = 32); bind(j -> thread.x); }
}

/// Two rows of 2³¹ elements and some; of 8.6 GB, nearly all zero, which take no memory.
fn rows_apart(device: &Device, stride: usize) -> Buffer<f16> {
    Buffer::zeros(device, &[2, stride]).unwrap()
}

/// Most bytes that this process has had in memory, in all.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|l| l.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

#[test]
fn a_view_costs_what_it_touches() {
    let device = Device::sim().with_cache(PtxCache::disabled());
    let before = resident();
    let stride = i32::MAX as usize;
    let mut x = rows_apart(&device, stride);
    let seven = Pinned::from_slice(&device, &[f16::from_f32(7.0)]).unwrap();
    let stream = Stream::new(&device).unwrap();
    x.slice_mut(&[1..2, 5..6]).unwrap().copy_from_pinned(seven, &stream).unwrap().wait().unwrap();
    // The longest stride that a launch takes; another one is refused.
    let report = step(&mut x.slice_mut(&[0..2, 0..40]).unwrap()).schedule(lines).run().unwrap();
    assert!(report.findings.is_empty(), "{}", report.findings[0]);
    let mut expected = vec![f16::ONE; 80];
    expected[45] = f16::from_f32(8.0);
    assert_eq!(x.slice(&[0..2, 0..40]).unwrap().to_vec().unwrap(), expected);
    assert_eq!(x.slice(&[0..2, 40..48]).unwrap().to_vec().unwrap(), [f16::ZERO; 16], "beside the view");
    if let (Some(before), Some(after)) = (before, resident()) {
        assert!(after - before < 512 << 20, "{} MiB", (after - before) >> 20);
    }
    drop(x);
    let mut x = rows_apart(&device, stride + 1);
    let e = step(&mut x.slice_mut(&[0..2, 0..40]).unwrap()).schedule(lines).run().unwrap_err();
    assert_eq!(
        e.to_string(),
        "a stride of `x` = 2147483648 is more than 2147483647, the largest that a launch supports"
    );
    // A dimension of one index has no stride.
    step(&mut x.slice_mut(&[1..2, 0..40]).unwrap()).schedule(lines).run().unwrap();
}

#[test]
fn a_launch_says_which_limit_it_passes() {
    let with = |options: SimOptions| Device::sim_with(options).with_cache(PtxCache::disabled());
    let go = |options: SimOptions| {
        let mut x = Buffer::from_slice(&with(options), &vec![1.0f32; 1 << 16], &[256, 256]).unwrap();
        increment(&mut x).schedule(rows).run().map(|_| ())
    };
    let limited = |host_memory, race_check| SimOptions {
        host_memory: Some(host_memory),
        race_check,
        ..SimOptions::default()
    };
    // The tensor has 256 KiB, copied twice since it is written.
    let e = go(limited(400 << 10, true)).unwrap_err().to_string();
    assert!(e.contains("copies of what its tensors hold need more than 409600 bytes of host memory"), "{e}");
    assert!(e.ends_with("raise `host_memory` of the `SimOptions` (`Device::sim_with`)"), "{e}");
    let e = go(limited(600 << 10, true)).unwrap_err().to_string();
    assert!(e.contains("the race checks need more than 90112 bytes of host memory"), "{e}");
    assert!(e.ends_with("or leave the checks out (`race_check: false`)"), "{e}");
    go(limited(600 << 10, false)).unwrap();
    go(limited(64 << 20, true)).unwrap();
    // Room for buffers is a limit of its own.
    let small = with(SimOptions { capacity: 1000, ..SimOptions::default() });
    let e = Buffer::<f32>::zeros(&small, &[256]).unwrap_err().to_string();
    assert!(e.ends_with("raise `capacity` of its `SimOptions` (`Device::sim_with`) for more"), "{e}");
}
