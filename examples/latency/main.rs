//! What a launch costs the host: `cargo run --release --example latency`.
//!
//! Prints a JSON object of microseconds, medians of 5,000 calls. What is compared is called in turn, by the hundred, so that
//! clocks are the same for both, and the host waits for the GPU between, so that none waits for room in a queue.
//!
//! | | |
//! |---|---|
//! | `driver` | `cuLaunchKernel` alone, for the same kernel and parameters |
//! | `current` | what each launch asks before: whether the GPU's context is the thread's |
//! | `enqueue` | a prepared launch |
//! | `host_part` | a prepared launch up to its parameters: checks and the choice of the variant |
//! | `run` | a plain launch and the wait for it |
//! | `driver_graph` | `cuGraphLaunch` alone for 20 launches that were captured, by launch |
//! | `graph` | a replay of 20 prepared launches with the same arguments, by launch |
//! | `graph_changed` | the same with another pointer each time |
//! | `driver_graph_gpu`, `graph_gpu` | until the GPU has ended 100 of those replays, by launch: where this is more, the GPU is the limit |
//! | `first` | the first launch of all, with its compilation or its cache |
//!
//! Without a GPU only `host_part` and `first` mean anything, and only they are printed.

mod driver;

use driver::Driver;
use serde_json::json;
use std::time::Instant;
use tilewright::{Error, Graph, Prepared, Stream, prelude::*};

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
const CALLS: usize = 5000;
/// Launches of a graph.
const TOGETHER: usize = 20;

/// Median microseconds of each of some calls: `together` of one, `drain`, `together` of the next.
fn medians<const N: usize>(
    together: usize,
    mut call: impl FnMut(usize),
    mut drain: impl FnMut(),
) -> [f64; N] {
    let mut times: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(CALLS));
    while times[N - 1].len() < CALLS {
        for (which, times) in times.iter_mut().enumerate() {
            for _ in 0..together {
                let start = Instant::now();
                call(which);
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
            drain();
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}

/// Microseconds of a launch, until `drain` returns, of 100 replays.
fn until_done(mut replay: impl FnMut(), drain: impl Fn()) -> f64 {
    let start = Instant::now();
    (0..100).for_each(|_| replay());
    drain();
    start.elapsed().as_secs_f64() * 1e6 / (100 * TOGETHER) as f64
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::auto()?;
    let mut x = Buffer::<f32>::zeros(&device, &[ELEMENTS])?;
    let start = Instant::now();
    let first = increment(&mut x).schedule(simple).run()?;
    let first_us = start.elapsed().as_secs_f64() * 1e6;
    let prepared = simple.prepare(&device, None)?;
    let mut figures =
        json!({ "device": device.name(), "source": format!("{:?}", first.source), "first": first_us });
    if device.is_gpu() {
        gpu(&device, &prepared, &mut x, &first.ptx, &mut figures)?;
    } else {
        let host_part = |_| assert!(increment(&mut x).prepared(&prepared).host_part().is_ok());
        figures["host_part"] = medians::<1>(100, host_part, || {})[0].into();
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
    let mut driver = Driver::new(ptx, x.device_pointer_mut()?.ok_or("a GPU's")?, ELEMENTS)?;
    let launch = |result: Result<_, Error>| drop(result.expect("it fits"));
    let drain = |driver: &Driver| {
        driver.wait();
        stream.sync().expect("the kernels are right");
    };
    {
        let names = ["driver", "current", "enqueue", "host_part", "run"];
        let driver = std::cell::RefCell::new(&mut driver);
        let call = |which| match names[which] {
            "driver" => driver.borrow_mut().launch(),
            "current" => driver.borrow().make_current(),
            "enqueue" => launch(increment(x).prepared(prepared).enqueue(&stream)),
            "host_part" => assert!(increment(x).prepared(prepared).host_part().is_ok()),
            _ => drop(increment(x).schedule(simple).run().expect("it fits")),
        };
        let found = medians::<5>(100, call, || drain(&driver.borrow()));
        names.iter().zip(found).for_each(|(name, us)| figures[*name] = us.into());
    }

    let captured = driver.capture(TOGETHER)?;
    let mut y = Buffer::<f32>::zeros(device, &[ELEMENTS])?;
    let mut graphs = [Graph::new(device), Graph::new(device)];
    let mut turn = false;
    let mut replay = |change: bool| {
        turn = change && !turn;
        let x = if turn { &mut y } else { &mut *x };
        let replayed = graphs[usize::from(change)].replay(&stream, |launches| {
            (0..TOGETHER).try_for_each(|_| launches.add(increment(x).prepared(prepared)).map(drop))
        });
        replayed.expect("it fits");
    };
    let names = ["driver_graph", "graph", "graph_changed"];
    let call = |which| match names[which] {
        "driver_graph" => driver.replay(captured),
        name => replay(name == "graph_changed"),
    };
    let found = medians::<3>(10, call, || drain(&driver));
    names.iter().zip(found).for_each(|(name, us)| figures[*name] = (us / TOGETHER as f64).into());
    figures["driver_graph_gpu"] = until_done(|| driver.replay(captured), || drain(&driver)).into();
    figures["graph_gpu"] = until_done(|| replay(false), || drain(&driver)).into();
    Ok(())
}
