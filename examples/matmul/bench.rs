//! `--bench`: schedules against each other and against cuBLAS.
//!
//! All contenders multiply the same matrices in one process. After a verified first launch and some more to warm up, they
//! take turns, one launch each a round, so that clock and temperature are the same for all; each launch is timed by CUDA
//! events and finds none of its data in the L2 cache. A figure is the median of its launches. Back to back, they run at the clock
//! that the GPU's power allows for all of them together; after a rest (`--rest`) each at its own.

use crate::{
    Size,
    problem::{Precision, Problem, problems, record},
};
use serde_json::{Map, Value, json};
use std::time::Duration;
use tile_bench::{
    Figures, Monitor, Record, Rounds,
    figures::{HEADER, percent, row, tflops},
    monitor::Summary,
    peak::{fma_per_cycle, peak_flops, tf32_per_cycle},
    stats::{median, quantile},
    table::aligned,
};
use tile_runtime::cublas::Cublas;
use tilewright::{AnySchedule, Buffer, DType, Device, Error, GpuInfo, prelude::Float};

/// Rounds of launches that tell which of a few schedules is the fastest.
const ROUNDS: Rounds = Rounds { warm_up: 1, least: 5, most: 50, lasting: Duration::from_millis(60) };

/// The schedule whose launches take least in the median, of those that multiply matrices of their own type; `None` if none
/// was timed. They take turns, as under `--bench`.
///
/// # Errors
/// The driver's, and where there is no room for the matrices.
pub fn fastest<T: Float>(
    device: &Device,
    schedules: &[&'static dyn AnySchedule],
    size: Size,
    seed: u64,
) -> Result<Option<&'static dyn AnySchedule>, Error> {
    let problems = problems::<T>(device, schedules, size, seed)?;
    let mut c = Buffer::<T>::poisoned(device, &[size.m, size.n])?;
    let played = ROUNDS.play(schedules.len(), |turn| {
        let schedule = schedules[turn];
        Ok::<_, Error>(problems.of(schedule).multiply(schedule, &mut c).cold().run()?.time_ms)
    })?;
    let timed = schedules.iter().zip(&played.times);
    let medians = timed.filter_map(|(schedule, times)| Some((*schedule, median(times)?)));
    Ok(medians.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(schedule, _)| schedule))
}

/// A GPU to measure on.
pub struct Bench {
    device: Device,
    gpu: GpuInfo,
    cublas: Result<Cublas, Error>,
    monitor: Option<Monitor>,
    launches: usize,
    /// How often as long as a launch the GPU rests before it.
    rest: u32,
}

/// A schedule, measured.
struct Measured {
    record: Record,
    /// Milliseconds of each launch.
    times: Vec<f64>,
}

/// What one size gave.
pub struct Report {
    /// Of the factors.
    precision: Precision,
    measured: Vec<Measured>,
    /// Milliseconds of each of cuBLAS's launches.
    cublas: Vec<f64>,
    cublas_verified: bool,
    clocks: Summary,
    /// Whether every schedule's product, and cuBLAS's, was right.
    pub verified: bool,
}

impl Bench {
    /// Opens cuBLAS, if there is one, and starts to watch the clocks.
    ///
    /// # Errors
    /// [`Error::NoDriver`] on the simulator, which has no time to measure.
    pub fn open(device: &Device, launches: usize, rest: u32) -> Result<Self, Error> {
        let gpu = device.gpu()?.ok_or(Error::NoDriver)?;
        let monitor = Monitor::start(&gpu.pci_bus_id);
        Ok(Bench { device: device.clone(), gpu, cublas: Cublas::open(device), monitor, launches, rest })
    }

    /// Measures schedules at one size. One that cannot run is reported on stderr and left out.
    ///
    /// # Errors
    /// The driver's, or cuBLAS's.
    pub fn measure<T: Float>(
        &self,
        problem: &dyn Problem<T>,
        schedules: &[&'static dyn AnySchedule],
    ) -> Result<Report, Error> {
        let shape = [problem.size().m, problem.size().n];
        let mut verified = true;
        let mut contenders = Vec::new();
        for &schedule in schedules {
            let once = |c: &mut Buffer<T>| problem.multiply(schedule, c).cold().run();
            match record(problem, &self.device, schedule, once) {
                Ok(record) => {
                    verified &= record.verdict.verified();
                    contenders.push((schedule, record));
                }
                Err(error) => {
                    verified = false;
                    eprintln!("error: {}: {error}", schedule.name());
                }
            }
        }
        // Poisoned for the check of cuBLAS; after that, everyone writes the same numbers into it.
        let mut c = Buffer::<T>::poisoned(&self.device, &shape)?;
        let mut cublas_verified = true;
        let precision = schedules.first().map_or(Precision::Own, |s| Precision::of(*s));
        let gemm = |cublas: &Cublas, c: &mut Buffer<T>| problem.cublas(cublas, c, precision);
        let rest = |ms: f64| Duration::from_secs_f64(f64::from(self.rest) * ms / 1e3);
        if let Ok(cublas) = &self.cublas {
            gemm(cublas, &mut c)?;
            cublas.rest(Duration::ZERO);
            cublas.rest(rest(gemm(cublas, &mut c)?));
            // How cuBLAS rounds to tf32 is not said: each factor is off by an ulp of it at most.
            let each = if precision == Precision::Tf32 { 2.0 * 2f64.powi(-10) } else { 0.0 };
            cublas_verified = problem.verify(&c.to_vec()?, Precision::Own, each).0.verified();
        }

        // The GPU was idle while products were verified. cuBLAS, if there is one, is the first of a round.
        let first = usize::from(self.cublas.is_ok());
        let mut played =
            Rounds::new(self.launches).play(first + contenders.len(), |turn| match &self.cublas {
                Ok(cublas) if turn == 0 => gemm(cublas, &mut c).map(Some),
                _ => {
                    let (schedule, record) = &contenders[turn - first];
                    let rest = rest(record.launch.time_ms.unwrap_or_default());
                    Ok(problem.multiply(*schedule, &mut c).cold_after(rest).run()?.time_ms)
                }
            })?;
        let clocks = self.monitor.as_ref().map(|m| m.since(played.start)).unwrap_or_default();
        let cublas_times: Vec<f64> = played.times.drain(..first).flatten().collect();
        let mut measured: Vec<Measured> = Vec::new();
        for ((_, mut record), times) in contenders.into_iter().zip(played.times) {
            record.launch.time_ms = median(&times);
            measured.push(Measured { record, times });
        }
        verified &= cublas_verified;
        Ok(Report { precision, measured, cublas: cublas_times, cublas_verified, clocks, verified })
    }

    fn peak<T: Float>(&self, report: &Report) -> Option<f64> {
        let fma = match (report.precision, T::DTYPE) {
            (Precision::Tf32, DType::F32) => tf32_per_cycle(self.gpu.sm),
            (Precision::F8, _) => fma_per_cycle(self.gpu.sm, DType::F8),
            (_, dtype) => fma_per_cycle(self.gpu.sm, dtype),
        };
        peak_flops(&self.gpu, fma)
    }

    /// One JSON object a schedule; unknown values are null.
    pub fn to_json<T: Float>(&self, report: &Report, size: Size) -> Vec<Value> {
        let with = |(i, m): (usize, &Measured)| {
            let mut object = match m.record.to_json() {
                Value::Object(object) => object,
                _ => Map::new(),
            };
            let figures = Figures {
                times: &m.times,
                cublas: &report.cublas,
                previous: i.checked_sub(1).map(|p| &report.measured[p].times[..]),
                flops: size.flops(),
                peak: self.peak::<T>(report),
            };
            let resources = m.record.launch.resources;
            let about = [
                ("registers", json!(resources.map(|r| r.registers))),
                ("spills", json!(resources.map(|r| r.local_bytes))),
                ("shared_bytes", json!(m.record.launch.shared_bytes)),
                ("ctas_per_sm", json!(resources.map(|r| r.ctas_per_multiprocessor))),
                ("clusters", json!(resources.and_then(|r| r.clusters))),
                ("sm", json!(self.gpu.sm)),
                ("multiprocessors", json!(self.gpu.multiprocessors)),
                ("max_clock_mhz", json!(self.gpu.max_clock_mhz)),
                ("sm_clock_mhz", json!(report.clocks.sm_clock_mhz)),
                ("power_w", json!(report.clocks.power_w)),
                ("cublas", json!(self.cublas.as_ref().ok().map(Cublas::version))),
                ("driver", json!(report.clocks.driver)),
                ("distribution", json!("standard normal")),
                ("l2", json!("overwritten before each launch")),
                ("rest", json!(self.rest)),
            ];
            let entries = figures.json().into_iter().chain(about);
            object.extend(entries.map(|(key, value)| (key.to_string(), value)));
            Value::Object(object)
        };
        report.measured.iter().enumerate().map(with).collect()
    }

    /// A readable table with what it was measured on and how.
    pub fn to_table<T: Float>(&self, report: &Report, size: Size) -> String {
        let lines = self.to_json::<T>(report, size);
        let (name, clocks) = (&self.gpu.name, &report.clocks);
        let (major, minor) = self.gpu.cuda_version;
        let driver = clocks.driver.as_deref().map(|d| format!("driver {d}, ")).unwrap_or_default();
        let cublas = match &self.cublas {
            Ok(cublas) => format!("cuBLAS {}", cublas.version()),
            Err(error) => format!("no comparison: {error}"),
        };
        let clock = match (clocks.sm_clock_mhz, clocks.range_mhz) {
            (Some(clock), Some((low, high))) => format!("SM clock {clock:.0} MHz ({low:.0} to {high:.0})"),
            _ => "SM clock unknown (no nvidia-smi)".into(),
        };
        let mut text = format!("{name} · {driver}CUDA {major}.{minor} · {cublas}\n");
        text += &format!(
            "{}×{}×{} {} · standard normal data · median of at least {} launches in turn, L2 ({} MB) overwritten before each{}\n",
            size.m,
            size.n,
            size.k,
            T::DTYPE,
            self.launches,
            self.gpu.l2_bytes >> 20,
            match self.rest {
                0 => String::new(),
                times => format!(", after a rest of {times} times its length"),
            }
        );
        let watts = clocks.power_w.map(|w| format!(", {w:.0} W")).unwrap_or_default();
        text += &format!("{clock} of at most {:.0}{watts}\n", self.gpu.max_clock_mhz);
        let mut rows = vec![HEADER.map(String::from).to_vec()];
        if let Some(ms) = median(&report.cublas) {
            let rate = tflops(size.flops(), ms);
            let share = self.peak::<T>(report).map(|peak| percent(rate, peak));
            rows.push(row(&json!({ "schedule": "cuBLAS", "verified": report.cublas_verified, "time_ms": ms, "tflops": rate,
                "ratio": 1.0, "percent_of_peak": share,
                "time_ms_quartiles": [quantile(&report.cublas, 0.25), quantile(&report.cublas, 0.75)] })));
        }
        rows.extend(lines.iter().map(row));
        text + &aligned(&rows, 3)
    }
}
