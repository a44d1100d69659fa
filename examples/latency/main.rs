//! What a launch costs the host: `cargo run --release --example latency`.
//!
//! Prints a JSON object of medians in microseconds: `driver`, the driver's own call for the same kernel and
//! parameters; `enqueue`, a prepared launch; `host_part`, a prepared launch without the driver's call; `run`, a plain
//! launch and the wait for it; `graph`, one of 20 prepared launches that are replayed as a graph with the same arguments,
//! and `graph_changed`, with other pointers each time; `first`, the first launch of all, with its compilation or its
//! cache. Without a GPU only `host_part` and `first` mean anything, and only they are printed.

use serde_json::json;
use std::{ffi::CString, time::Instant};
use tilewright::{
    Error, Graph, Prepared, Stream,
    interop::cudarc::driver::{CudaContext, result},
    prelude::*,
};

/// x + 1, in place.
#[tile_kernel]
fn increment(x: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(x, [i], load(x, [i]) + 1.0);
}

schedule! {
    simple for increment { tile(i = 128); bind(i -> thread.x); }
}

const ELEMENTS: usize = 1024;
const LAUNCHES: usize = 5000;
/// Launches of a graph.
const TOGETHER: usize = 20;

/// Median microseconds of one of `LAUNCHES` calls, back to back; `drain` is called, not counted, before a queue fills up.
fn median(mut call: impl FnMut(), mut drain: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..LAUNCHES)
        .map(|n| {
            if n % 500 == 0 {
                drain();
            }
            let start = Instant::now();
            call();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    drain();
    times.sort_by(f64::total_cmp);
    times[LAUNCHES / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::auto()?;
    let mut x = Buffer::<f32>::zeros(&device, &[ELEMENTS])?;
    let start = Instant::now();
    let first = increment(&mut x).schedule(simple).run()?;
    let first_us = start.elapsed().as_secs_f64() * 1e6;
    let prepared = simple.prepare(&device, None)?;
    let host_part = median(
        || {
            increment(&mut x).prepared(&prepared).host_part().expect("it fits");
        },
        || {},
    );
    let mut figures = json!({ "device": device.name(), "source": format!("{:?}", first.source), "first": first_us, "host_part": host_part });
    if device.is_gpu() {
        gpu(&device, &prepared, &mut x, &first.ptx, &mut figures)?;
    }
    println!("{figures}");
    Ok(())
}

fn gpu(
    device: &Device,
    prepared: &Prepared<increment>,
    x: &mut Buffer<f32>,
    ptx: &str,
    figures: &mut serde_json::Value,
) -> Result<(), Box<dyn std::error::Error>> {
    let stream = Stream::new(device)?;
    let sync = || stream.sync().expect("the kernels are right");
    let launch = |result: Result<_, Error>| drop(result.expect("it fits"));
    figures["enqueue"] = median(|| launch(increment(x).prepared(prepared).enqueue(&stream)), sync).into();
    figures["run"] = median(|| drop(increment(x).schedule(simple).run().expect("it fits")), || {}).into();
    let mut y = Buffer::<f32>::zeros(device, &[ELEMENTS])?;
    for (name, change) in [("graph", false), ("graph_changed", true)] {
        let (mut graph, mut turn) = (Graph::new(device), false);
        let replay = || {
            turn = change && !turn;
            let x = if turn { &mut y } else { &mut *x };
            let replayed = graph.replay(&stream, |launches| {
                (0..TOGETHER).try_for_each(|_| launches.add(increment(x).prepared(prepared)).map(drop))
            });
            replayed.expect("it fits");
        };
        figures[name] = (median(replay, sync) / TOGETHER as f64).into();
    }

    let context = CudaContext::new(0)?;
    context.bind_to_thread()?;
    let entry = ptx.split(".entry ").nth(1).and_then(|rest| rest.split('(').next()).ok_or("no entry")?.trim();
    let text = CString::new(ptx)?;
    // SAFETY: the text ends with a zero and is a module with that entry.
    let function = unsafe {
        let module = result::module::load_data(text.as_ptr().cast())?;
        result::module::get_function(module, CString::new(entry)?)?
    };
    let theirs = context.new_stream()?;
    let (mut pointer, mut n) = (x.device_pointer_mut()?.ok_or("a GPU's")?, ELEMENTS as i32);
    let mut parameters = [(&raw mut pointer).cast(), (&raw mut n).cast()];
    let (grid, block) = (((ELEMENTS / 128) as u32, 1, 1), (128, 1, 1));
    let driver = median(
        || {
            // SAFETY: the parameters are those of the kernel, and the buffer is as large.
            unsafe { result::launch_kernel(function, grid, block, 0, theirs.cu_stream(), &mut parameters) }
                .expect("it fits");
        },
        || theirs.synchronize().expect("the kernels are right"),
    );
    figures["driver"] = driver.into();
    Ok(())
}
