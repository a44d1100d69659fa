//! What goes wrong with devices, memory and streams, in words. What needs a GPU, or two, is skipped, aloud, without.

use tilewright::{Error, PtxCache, Stream, interop, prelude::*};

/// x + 1, in place.
#[tile_kernel]
fn increment(x: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(x, [i], load(x, [i]) + 1.0);
}

schedule! {
    simple for increment { tile(i = 128); bind(i -> thread.x); }
}

fn sim() -> Device {
    Device::sim().with_cache(PtxCache::disabled())
}

/// GPUs of this machine.
fn gpus(wanted: usize) -> Option<Vec<Device>> {
    let all: Vec<Device> = Device::all().unwrap().into_iter().filter(Device::is_gpu).collect();
    if all.len() < wanted {
        eprintln!("skipped: needs {wanted} GPUs, and there are {}", all.len());
        return None;
    }
    Some(all)
}

#[test]
fn a_bad_device_number() {
    let count = Device::all().unwrap().iter().filter(|device| device.is_gpu()).count();
    let expected = match Device::cuda(99).unwrap_err() {
        error @ Error::NoDriver => {
            let text = "no CUDA driver is installed (libcuda was not found): install NVIDIA's driver, or use the simulator (`Device::sim()`)";
            (error, text.to_string())
        }
        error => (error, format!("there is no CUDA device 99: this machine has {count}")),
    };
    assert_eq!(expected.0.to_string(), expected.1);
}

#[test]
fn out_of_memory() {
    let error = sim().check_memory(1 << 35).unwrap_err().to_string();
    assert_eq!(
        error,
        "simulator cannot hold tensors of 34359738368 bytes: 17179869184 bytes are free, and its pool holds 0, of which 0 are in use; raise `capacity` of its `SimOptions` (`Device::sim_with`) for more"
    );
    let device = sim();
    let _taken = Buffer::<f32>::zeros(&device, &[64]).unwrap();
    let error = Buffer::<f32>::zeros(&device, &[1 << 40]).unwrap_err().to_string();
    assert_eq!(
        error,
        "simulator cannot hold tensors of 4398046511104 bytes: 17179868928 bytes are free, and its pool holds 256, of which 256 are in use; raise `capacity` of its `SimOptions` (`Device::sim_with`) for more"
    );
    let Some(gpus) = gpus(1) else { return };
    let error = Buffer::<f32>::zeros(&gpus[0], &[1 << 40]).unwrap_err().to_string();
    let start = format!("{} cannot hold tensors of 4398046511104 bytes: ", gpus[0].name());
    assert!(error.starts_with(&start) && error.ends_with(" are in use"), "{error}");
}

#[test]
fn memory_of_another_device() {
    let mut x = Buffer::<f32>::zeros(&sim(), &[8]).unwrap();
    let error = increment(&mut x).schedule(simple).device(&sim()).run().unwrap_err().to_string();
    assert_eq!(
        error,
        "`x` lives on another simulator, and the launch is on simulator: create the buffer on that device"
    );
    let Some(gpus) = gpus(2) else { return };
    let mut x = Buffer::<f32>::zeros(&gpus[1], &[8]).unwrap();
    let name = gpus[0].name();
    let on = format!("and the launch is on CUDA device 0 ({name}): create the buffer on that device");
    let error = increment(&mut x).schedule(simple).device(&gpus[0]).run().unwrap_err().to_string();
    assert_eq!(error, format!("`x` lives on CUDA device 1 ({}), {on}", gpus[1].name()));
    let pointer = x.device_pointer_mut().unwrap().unwrap();
    // SAFETY: refused before the address is used.
    let error = unsafe { interop::raw_view::<f32>(&gpus[0], pointer, &[8]) }.unwrap_err().to_string();
    assert_eq!(error, format!("`the memory` lives on CUDA device 1, {on}"));
}

/// A `main` that returns an error prints it with `{:?}`.
#[test]
fn what_a_main_returns_is_the_message() {
    let error = Buffer::from_slice(&sim(), &[1.0f32; 5], &[2, 3]).unwrap_err();
    assert_eq!(format!("{error:?}"), "5 elements do not fill a tensor of shape [2, 3]");
}

#[test]
fn a_pitch_that_is_too_small() {
    let shape = interop::Shape { extents: &[4, 4096], strides: Some(&[4095, 1]), layout: Layout::RowMajor };
    // SAFETY: refused before the address means anything.
    let error = unsafe { interop::raw_view::<f32>(&sim(), 4096, shape) }.unwrap_err().to_string();
    assert_eq!(
        error,
        "strides [4095, 1] do not fit a tensor of shape [4, 4096]: dimension 0 needs a stride of at least 4096"
    );
}

#[test]
fn a_stream_of_another_device() {
    let mut x = Buffer::<f32>::zeros(&sim(), &[8]).unwrap();
    let stream = Stream::new(&sim()).unwrap();
    let error = increment(&mut x).schedule(simple).enqueue(&stream).unwrap_err().to_string();
    assert_eq!(
        error,
        "the stream is one of another simulator, and the launch is on simulator: open a stream on that device"
    );
}
