//! What buffers take of a device's memory, and copies to and from the host's, on the simulator.

use tilewright::{Error, Graph, MemoryUse, Pinned, prelude::*};

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
