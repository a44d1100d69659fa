//! Clock and power of a GPU while it works, by `nvidia-smi`, which comes with the driver.

use crate::stats::{median, quantile};
use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

/// Milliseconds between samples.
const PERIOD: u32 = 20;

/// One line of `nvidia-smi`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Clock of the multiprocessors.
    pub sm_clock_mhz: f64,
    /// Power of the board.
    pub power_w: Option<f64>,
    /// Version of the driver.
    pub driver: String,
}

impl Sample {
    /// Reads `1980, 412.53, 580.159.04`; power may be `[N/A]`.
    pub fn parse(line: &str) -> Option<Sample> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [clock, power, driver] = fields[..] else { return None };
        Some(Sample {
            sm_clock_mhz: clock.parse().ok()?,
            power_w: power.parse().ok(),
            driver: driver.to_string(),
        })
    }
}

/// What a stretch of samples says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Median clock of the multiprocessors.
    pub sm_clock_mhz: Option<f64>,
    /// Lowest and highest clock.
    pub range_mhz: Option<(f64, f64)>,
    /// Median power.
    pub power_w: Option<f64>,
    /// Version of the driver.
    pub driver: Option<String>,
}

impl Summary {
    /// Summarises samples.
    pub fn of(samples: &[Sample]) -> Self {
        let clocks: Vec<f64> = samples.iter().map(|s| s.sm_clock_mhz).collect();
        let power: Vec<f64> = samples.iter().filter_map(|s| s.power_w).collect();
        Summary {
            sm_clock_mhz: median(&clocks),
            range_mhz: quantile(&clocks, 0.0).zip(quantile(&clocks, 1.0)),
            power_w: median(&power),
            driver: samples.last().map(|s| s.driver.clone()),
        }
    }
}

/// A running `nvidia-smi`, stopped with the value.
#[derive(Debug)]
pub struct Monitor {
    child: Child,
    samples: Receiver<(Instant, Sample)>,
}

impl Monitor {
    /// Starts sampling; `None` where there is no `nvidia-smi`.
    pub fn start(pci_bus_id: &str) -> Option<Self> {
        let mut child = Command::new("nvidia-smi")
            .args(["-i", pci_bus_id, "--format=csv,noheader,nounits"])
            .args(["--query-gpu=clocks.sm,power.draw,driver_version", "-lms", &PERIOD.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let output = BufReader::new(child.stdout.take().expect("piped above"));
        let (send, samples) = channel();
        std::thread::spawn(move || {
            for sample in output.lines().map_while(Result::ok).filter_map(|line| Sample::parse(&line)) {
                if send.send((Instant::now(), sample)).is_err() {
                    break;
                }
            }
        });
        Some(Monitor { child, samples })
    }

    /// What was sampled since `start`; if nothing was yet, the next sample.
    pub fn since(&self, start: Instant) -> Summary {
        let mut samples: Vec<Sample> =
            self.samples.try_iter().filter(|(at, _)| *at >= start).map(|(_, s)| s).collect();
        if samples.is_empty() {
            samples.extend(self.samples.recv_timeout(Duration::from_secs(2)).ok().map(|(_, s)| s));
        }
        Summary::of(&samples)
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
