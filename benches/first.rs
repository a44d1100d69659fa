//! What the first launch of a kernel takes in a process that finds it in the cache on disk.
//!
//! `cargo bench --bench first` starts processes that launch one schedule each and prints medians in microseconds:
//! `ready`, the first launch without the device's part: the program decoded, the kernel found, on a GPU loaded; `run`, that and the
//! first launch on the device, where the simulator reads the PTX; `again`, the second. What it takes to open the device is not in it.
//!
//! `cargo bench --bench first -- 5 naive best` starts five processes of each of these schedules. On a GPU the kernel is loaded as
//! machine code where there is `ptxas`; with `TILEWRIGHT_PTXAS=/none` and `CUDA_CACHE_DISABLE=1` the driver compiles the PTX.

use std::{env, path::PathBuf, process::Command, time::Instant};
use tilewright::{AnySchedule, DType, Element, Float, prelude::*};

#[path = "../examples/matmul/kernel.rs"]
#[allow(missing_docs, dead_code, reason = "an example's")]
mod kernel;

use kernel::matmul;

/// Processes of a schedule, by default.
const PROCESSES: usize = 21;
/// Schedules, by default.
const NAMES: [&str; 6] = ["naive", "best", "mma_best", "producer_consumer", "tma_store", "cluster"];
const COLUMNS: [&str; 3] = ["ready", "run", "again"];

fn main() {
    let variable = "FIRST_LAUNCH_OF";
    if let Ok(name) = env::var(variable) {
        let times = launch(&name);
        println!("{}", times.map(|us| us.to_string()).join(" "));
        return;
    }
    // Beside the options of `cargo bench`.
    let (mut processes, mut names) = (PROCESSES, Vec::new());
    for argument in env::args().skip(1).filter(|argument| !argument.starts_with('-')) {
        match argument.parse() {
            Ok(number) => processes = number,
            Err(_) => names.push(argument),
        }
    }
    if names.is_empty() {
        names = NAMES.map(String::from).to_vec();
    }
    // A build without a compiler finds its kernels in the cache that is named.
    let temporary = tempfile::tempdir().expect("room on the disk");
    let named = env::var_os("TILEWRIGHT_CACHE_DIR").filter(|folder| !folder.is_empty());
    let folder = named.map_or_else(|| temporary.path().to_path_buf(), PathBuf::from);
    println!("{:18}{}", "µs", COLUMNS.map(|name| format!("{name:>10}")).concat());
    for name in &names {
        let start = || {
            let mut child = Command::new(env::current_exe().expect("this program"));
            let output = child.env(variable, name).env("TILEWRIGHT_CACHE_DIR", &folder).output();
            let output = output.expect("it starts");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let text = String::from_utf8(output.stdout).expect("numbers");
            text.split_whitespace().map(|us| us.parse().expect("a number")).collect::<Vec<f64>>()
        };
        // Fills the cache.
        start();
        let times: Vec<Vec<f64>> = (0..processes.max(1)).map(|_| start()).collect();
        let median = |column: usize| {
            let mut column: Vec<f64> = times.iter().map(|times| times[column]).collect();
            column.sort_by(f64::total_cmp);
            column[column.len() / 2]
        };
        println!("{name:18}{}", [0, 1, 2].map(|n| format!("{:10.0}", median(n))).concat());
    }
}

/// The times of one process.
fn launch(name: &str) -> [f64; 3] {
    let device = Device::auto().expect("a device");
    let mut all = kernel::SCHEDULES.iter().copied();
    let schedule = all.find(|schedule| schedule.name() == name).expect("a schedule of the example");
    match schedule.dtypes().contains(&DType::F32) {
        true => times::<f32>(&device, schedule),
        false => times::<bf16>(&device, schedule),
    }
}

fn times<T: Element + Float>(device: &Device, schedule: &'static dyn AnySchedule) -> [f64; 3] {
    let square = || Buffer::<T>::zeros(device, &[256, 256]).expect("room");
    let (a, b, mut c) = (square(), square(), square());
    let start = Instant::now();
    let since = || start.elapsed().as_secs_f64() * 1e6;
    matmul(&a, &b, &mut c).schedule_dyn(schedule).host_part().expect("it fits");
    let ready = since();
    matmul(&a, &b, &mut c).schedule_dyn(schedule).run().expect("it fits");
    let run = since();
    matmul(&a, &b, &mut c).schedule_dyn(schedule).run().expect("it fits");
    [ready, run, since() - run]
}
