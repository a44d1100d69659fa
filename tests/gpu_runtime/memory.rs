//! Memory: the pool, copies, what other libraries own.

use super::kernels::*;
use tilewright::{
    DType, Pinned,
    dlpack::{self, DLDevice},
    interop::{
        self,
        cudarc::driver::{CudaContext, DevicePtrMut},
    },
    prelude::*,
};

/// A buffer that is dropped goes back to the pool behind the kernels that use it, and the host goes on.
#[test]
fn freed_memory_is_reused_after_its_users() {
    let Some(gpu) = gpu() else { return };
    let product = wide.prepare(&gpu, DType::F32).unwrap();
    let streams: Vec<Stream> = (0..3).map(|_| Stream::new(&gpu).unwrap()).collect();
    let n = 2048;
    let before = gpu.memory().unwrap();
    {
        let b = Buffer::from_slice(&gpu, &vec![1.0f32; n * n], &[n, n]).unwrap();
        let mut all: Vec<_> = (0..8).map(|_| Buffer::<f32>::poisoned(&gpu, &[n, n]).unwrap()).collect();
        for (round, c) in all.iter_mut().enumerate() {
            let a = Buffer::from_slice(&gpu, &vec![round as f32; n * n], &[n, n]).unwrap();
            // Read by two streams, and dropped while both are at it; the next round's takes its place.
            matmul(&a, &b, c).prepared(&product).enqueue(&streams[round % 3]).unwrap();
            let mut other = Buffer::<f32>::uninit(&gpu, &[n, n]).unwrap();
            matmul(&a, &b, &mut other).prepared(&product).enqueue(&streams[(round + 1) % 3]).unwrap();
        }
        for (round, c) in all.iter().enumerate() {
            assert!(c.to_vec().unwrap().iter().all(|x| *x == (round * n) as f32), "round {round}");
        }
    }
    streams.iter().for_each(|stream| stream.sync().unwrap());
    let pooled = gpu.memory().unwrap();
    assert!(pooled.reserved >= before.reserved + (9 * n * n * 4) as u64, "what is freed is kept: {pooled:?}");
    gpu.trim().unwrap();
    let after = gpu.memory().unwrap();
    assert_eq!(after.in_use, before.in_use);
    assert!(after.reserved < pooled.reserved, "{after:?} {pooled:?}");
    gpu.check_memory(after.available().into()).unwrap();
    gpu.keep(0).unwrap();
    drop(Buffer::<f32>::zeros(&gpu, &[n, n]).unwrap());
    Stream::default_of(&gpu).sync().unwrap();
    gpu.trim().unwrap();
    assert_eq!(gpu.memory().unwrap().in_use, before.in_use);
}

#[test]
fn pinned_copies_follow_kernels_and_are_followed() {
    let Some(gpu) = gpu() else { return };
    let kernel = by_rows.prepare(&gpu, None).unwrap();
    let streams: Vec<Stream> = (0..3).map(|_| Stream::new(&gpu).unwrap()).collect();
    let (rows, columns) = (512, 4096);
    let mut x = Buffer::<f32>::zeros(&gpu, &[rows, columns]).unwrap();
    let mut read = Vec::new();
    for round in 0..12 {
        let data = Pinned::from_slice(&gpu, &vec![round as f32; rows * columns]).unwrap();
        let sent = x.copy_from_pinned(data, &streams[round % 3]).unwrap();
        increment(&mut x).prepared(&kernel).enqueue(&streams[(round + 1) % 3]).unwrap();
        let room = Pinned::zeros(&gpu, rows * columns).unwrap();
        read.push(x.copy_to_pinned(room, &streams[(round + 2) % 3]).unwrap());
        if round % 2 == 0 {
            assert_eq!(sent.wait().unwrap()[0], round as f32);
        }
        // Else it is dropped, which waits.
    }
    for (round, copying) in read.into_iter().enumerate() {
        let data = copying.wait().unwrap();
        assert!(data.iter().all(|x| *x == round as f32 + 1.0), "round {round}");
    }
    let mut part = x.slice_mut(&[3..7, 1..1001]).unwrap();
    let data = Pinned::from_slice(&gpu, &numbers(4000)).unwrap();
    let copying = part.copy_from_pinned(data, &streams[0]).unwrap();
    assert_eq!(part.to_vec().unwrap(), numbers(4000));
    assert!(copying.is_done().unwrap());
}

#[test]
fn memory_of_cudarc_is_used_in_place() {
    let Some(gpu) = gpu() else { return };
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let mut slice = stream.clone_htod(&numbers(8 * 1024)).unwrap();
    {
        // SAFETY: the view is dropped before the slice is used again.
        let mut x = unsafe { interop::cuda_view_mut(&gpu, &mut slice, &[8, 1024]) }.unwrap();
        increment(&mut x).schedule(by_rows).enqueue(&Stream::new(&gpu).unwrap()).unwrap();
    }
    let expected: Vec<f32> = numbers(8 * 1024).iter().map(|x| x + 1.0).collect();
    assert_eq!(stream.clone_dtoh(&slice).unwrap(), expected);
    {
        // SAFETY: as above.
        let x = unsafe { interop::cuda_view::<f32, _>(&gpu, &slice, &[4, 2048]) }.unwrap();
        assert_eq!(x.to_vec().unwrap(), expected);
        // SAFETY: as above.
        let error = unsafe { interop::cuda_view::<f32, _>(&gpu, &slice, &[9, 1024]) }.unwrap_err();
        assert_eq!(error.to_string(), "8192 elements do not fill a tensor of shape [9, 1024]");
    }
    let mut owned = interop::cuda_buffer(&gpu, slice, &[8, 1024]).unwrap();
    increment(&mut owned).schedule(by_rows).run().unwrap();
    let pointer = owned.device_pointer().unwrap().unwrap();
    // SAFETY: `owned` outlives the view, and is not used meanwhile.
    let again = unsafe { interop::raw_view::<f32>(&gpu, pointer, &[8, 1024]) }.unwrap();
    assert_eq!(again.device_pointer().unwrap(), Some(pointer));
    assert!(again.to_vec().unwrap().iter().zip(&expected).all(|(found, x)| *found == x + 1.0));
    let shape = interop::Shape { extents: &[8, 1000], strides: Some(&[1024, 1]), layout: Layout::RowMajor };
    // SAFETY: as above.
    let part = unsafe { interop::raw_view::<f32>(&gpu, pointer, shape) }.unwrap();
    assert_eq!(part.to_vec().unwrap()[1000], expected[1024] + 1.0);
}

/// What `cudarc` queues on a stream and what is launched on it here are in order, without a wait of the host.
#[test]
fn launches_go_on_a_stream_of_cudarc() {
    let Some(gpu) = gpu() else { return };
    let theirs = CudaContext::new(0).unwrap().new_stream().unwrap();
    let stream = Stream::from_cuda(&gpu, theirs.clone()).unwrap();
    assert!(stream.cuda_stream().is_some_and(|stream| std::sync::Arc::ptr_eq(&stream, &theirs)));
    let data = numbers(256 * 4096);
    let mut slice = theirs.clone_htod(&data).unwrap();
    let pointer = slice.device_ptr_mut(&theirs).0;
    // SAFETY: the slice outlives the view, which is not used while others use it.
    let mut x = unsafe { interop::raw_view_mut::<f32>(&gpu, pointer, &[256, 4096]) }.unwrap();
    for _ in 0..20 {
        increment(&mut x).schedule(by_rows).enqueue(&stream).unwrap();
    }
    let after: Vec<f32> = data.iter().map(|x| x + 20.0).collect();
    assert_eq!(theirs.clone_dtoh(&slice).unwrap(), after);
    // Our own streams follow the buffer, as they do among each other.
    increment(&mut x).schedule(by_rows).enqueue(&Stream::new(&gpu).unwrap()).unwrap();
    increment(&mut x).schedule(by_rows).enqueue(&stream).unwrap();
    assert!(x.to_vec().unwrap().iter().zip(&data).all(|(found, x)| *found == x + 22.0));
    let error = Stream::from_cuda(&Device::sim(), theirs).unwrap_err().to_string();
    assert_eq!(
        error,
        "the stream is one of CUDA device 0, and the launch is on simulator: open a stream on that device"
    );
}

#[test]
fn a_tensor_goes_out_by_dlpack_and_comes_back() {
    let Some(gpu) = gpu() else { return };
    let stream = Stream::new(&gpu).unwrap();
    let before = gpu.memory().unwrap().in_use;
    let mut x = Buffer::from_slice(&gpu, &numbers(8 * 1024), &[8, 1024]).unwrap();
    increment(&mut x).schedule(by_rows).enqueue(&stream).unwrap();
    let pointer = x.device_pointer().unwrap().unwrap();
    let tensor = x.into_dlpack().unwrap();
    // SAFETY: the tensor lives until it is taken.
    let (data, place) = unsafe { (tensor.as_ref().dl_tensor.data as u64, tensor.as_ref().dl_tensor.device) };
    assert_eq!((data, place), (pointer, DLDevice { device_type: dlpack::CUDA, device_id: 0 }));
    // SAFETY: it is taken once, and no one else uses it.
    let mut back: Buffer<f32> = unsafe { dlpack::from_dlpack(&stream, tensor) }.unwrap();
    assert_eq!(back.device_pointer().unwrap(), Some(pointer));
    increment(&mut back).schedule(by_rows).enqueue(&Stream::new(&gpu).unwrap()).unwrap();
    assert!(back.to_vec().unwrap().iter().zip(numbers(8 * 1024)).all(|(found, x)| *found == x + 2.0));
    drop(back);
    gpu.trim().unwrap();
    assert_eq!(gpu.memory().unwrap().in_use, before, "the deleter was called");
}

#[test]
fn buffers_are_copied_between_devices_in_order() {
    let Some(first) = gpu() else { return };
    let kernel = by_rows.prepare(&first, None).unwrap();
    let stream = Stream::new(&first).unwrap();
    // To itself, to another GPU if there is one, and to the simulator.
    let mut devices = Device::all().unwrap();
    devices.push(Device::sim());
    for device in devices {
        let theirs = Stream::new(&device).unwrap();
        let mut x = Buffer::<f32>::zeros(&first, &[64, 1000]).unwrap();
        let mut y = Buffer::<f32>::poisoned(&device, &[64, 1002]).unwrap();
        for round in 1..=20 {
            increment(&mut x).prepared(&kernel).enqueue(&stream).unwrap();
            let mut part = y.slice_mut(&[0..64, 2..1002]).unwrap();
            part.copy_from_buffer(&x, if round % 2 == 0 { &stream } else { &theirs }).unwrap();
        }
        // Overwritten while the copy may still be at work.
        increment(&mut x).prepared(&kernel).enqueue(&stream).unwrap();
        let y = y.to_vec().unwrap();
        let right = |(n, y): (usize, &f32)| if n % 1002 < 2 { y.is_nan() } else { *y == 20.0 };
        assert!(y.iter().enumerate().all(right), "{}", device.name());
        let mut back = Buffer::<f32>::poisoned(&first, &[64, 1000]).unwrap();
        back.copy_from_buffer(&x, &stream).unwrap();
        assert!(back.to_vec().unwrap().iter().all(|x| *x == 21.0));
    }
}
