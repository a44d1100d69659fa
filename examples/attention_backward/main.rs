//! The gradients of attention: `cargo run --example attention_backward -- --schedule all`.

#[allow(dead_code)] // some of its schedules are extended
#[path = "../attention/kernel.rs"]
mod attention;
#[path = "../common/mod.rs"]
mod common;
mod kernel;
mod verify;

use clap::{Parser, builder::PossibleValuesParser};
use common::{
    data::normal,
    example::{Dims, Generic, Typed, run_generic},
    options::{elements, size},
    run::run_all,
};
use kernel::{
    SCHEDULES, attention_lse, causal_attention_lse, causal_forward_lanes, causal_key_gradients,
    causal_query_gradients, forward_lanes, key_gradients, query_gradients, row_products, rows_lanes,
};
use std::process::ExitCode;
use tile_bench::record::{Record, judge, measure};
use tilewright::{AnySchedule, Buffer, Device, Error, Float, LaunchReport};
use verify::{Check, Operands, Shape};

/// Computes gradients of attention for random tensors under one schedule or all, and verifies each kernel by itself.
#[derive(Parser)]
#[command(name = "attention_backward", version)]
struct Options {
    /// Batch×heads×queries×keys×head dimension [default: 4x32x4096x4096x64 on a GPU, 1x2x130x192x64 on the simulator]
    #[arg(long, value_name = "BxHxMxNxD")]
    size: Option<Size>,
    /// Run schedules of keys as the whole backward pass: with the products of rows before them, and this schedule of queries after
    /// them, or its causal form. The time is that of the three kernels, and the work that of five products
    #[arg(long, value_name = "QUERIES", value_parser = PossibleValuesParser::new(names_of_queries()))]
    whole: Option<String>,
    #[command(flatten)]
    typed: Typed,
}

size! {
    /// Sizes of one call.
    Size { b, h, m, n, d } as "B×H×M×N×D", "1x2x130x192x64"
}

/// The schedules for all queries.
fn names_of_queries() -> impl Iterator<Item = &'static str> {
    SCHEDULES.iter().filter(|s| s.kernel() == "query_gradients").map(|s| s.name())
}

/// Tensors on the device, and the same on the host.
struct Run<'a, T> {
    device: &'a Device,
    size: Size,
    scale: f32,
    q: &'a [T],
    k: &'a [T],
    v: &'a [T],
    dout: &'a [T],
    /// The same four on the device.
    tensors: [Buffer<T>; 4],
}

/// What the forward pass leaves, on the device and on the host.
struct Forward<T> {
    o: (Buffer<T>, Vec<T>),
    lse: (Buffer<f32>, Vec<f32>),
    delta: (Buffer<f32>, Vec<f32>),
}

/// A run of one kernel.
type Ran = (LaunchReport, Vec<Check>);

impl<T: Float> Run<'_, T> {
    fn queries(&self) -> [usize; 4] {
        [self.size.b, self.size.h, self.size.m, self.size.d]
    }

    fn keys(&self) -> [usize; 4] {
        [self.size.b, self.size.h, self.size.n, self.size.d]
    }

    fn operands<'b>(&'b self, causal: bool, lse: &'b [f32], delta: &'b [f32]) -> Operands<'b, T> {
        let Size { b, h, m, n, d } = self.size;
        let &Run { q, k, v, dout, scale, .. } = self;
        Operands { size: Shape { b, h, m, n, d }, scale, causal, q, k, v, dout, lse, delta }
    }

    /// The forward pass under a schedule.
    fn forward(&self, schedule: &dyn AnySchedule) -> Result<Ran, Error> {
        let mut o = Buffer::<T>::poisoned(self.device, &self.queries())?;
        let mut lse = Buffer::<f32>::poisoned(self.device, &self.queries()[..3])?;
        let [q, k, v, _] = &self.tensors;
        let causal = schedule.kernel() == "causal_attention_lse";
        let report = measure(self.device, || match causal {
            true => causal_attention_lse(q, k, v, &mut o, &mut lse, self.scale)
                .schedule_dyn(schedule)
                .timed()
                .run(),
            false => {
                attention_lse(q, k, v, &mut o, &mut lse, self.scale).schedule_dyn(schedule).timed().run()
            }
        })?;
        let checks = self.operands(causal, &[], &[]).forward(&o.to_vec()?, &lse.to_vec()?);
        Ok((report, checks))
    }

    /// What the other kernels take of it.
    fn left(&self, causal: bool) -> Result<Forward<T>, Error> {
        let mut o = Buffer::<T>::poisoned(self.device, &self.queries())?;
        let mut lse = Buffer::<f32>::poisoned(self.device, &self.queries()[..3])?;
        let [q, k, v, _] = &self.tensors;
        match causal {
            true => causal_attention_lse(q, k, v, &mut o, &mut lse, self.scale)
                .schedule(causal_forward_lanes)
                .run()?,
            false => attention_lse(q, k, v, &mut o, &mut lse, self.scale).schedule(forward_lanes).run()?,
        };
        let (on_host, logarithms) = (o.to_vec()?, lse.to_vec()?);
        let row = |(o, dout): (&[T], &[T])| {
            o.iter().zip(dout).map(|(a, b)| a.to_f64() * b.to_f64()).sum::<f64>() as f32
        };
        let d = self.size.d.max(1);
        let mut delta: Vec<f32> = on_host.chunks(d).zip(self.dout.chunks(d)).map(row).collect();
        delta.resize(logarithms.len(), 0.0);
        let rows = Buffer::from_slice(self.device, &delta, &self.queries()[..3])?;
        Ok(Forward { o: (o, on_host), lse: (lse, logarithms), delta: (rows, delta) })
    }

    /// The products of rows under a schedule.
    fn rows(&self, schedule: &dyn AnySchedule, given: &Forward<T>) -> Result<Ran, Error> {
        let mut delta = Buffer::<f32>::poisoned(self.device, &self.queries()[..3])?;
        let report = measure(self.device, || {
            row_products(&given.o.0, &self.tensors[3], &mut delta).schedule_dyn(schedule).timed().run()
        })?;
        let checks = self.operands(false, &[], &[]).rows(&given.o.1, &delta.to_vec()?);
        Ok((report, checks))
    }

    /// The gradients of keys and values under a schedule.
    fn key_gradients(
        &self,
        schedule: &dyn AnySchedule,
        causal: bool,
        given: &Forward<T>,
    ) -> Result<Ran, Error> {
        let mut dk = Buffer::<T>::poisoned(self.device, &self.keys())?;
        let mut dv = Buffer::<T>::poisoned(self.device, &self.keys())?;
        let ([q, k, v, dout], lse, delta) = (&self.tensors, &given.lse.0, &given.delta.0);
        let report = measure(self.device, || match causal {
            true => causal_key_gradients(q, k, v, dout, lse, delta, &mut dk, &mut dv, self.scale)
                .schedule_dyn(schedule)
                .timed()
                .run(),
            false => key_gradients(q, k, v, dout, lse, delta, &mut dk, &mut dv, self.scale)
                .schedule_dyn(schedule)
                .timed()
                .run(),
        })?;
        let operands = self.operands(causal, &given.lse.1, &given.delta.1);
        Ok((report, operands.keys(&dk.to_vec()?, &dv.to_vec()?)))
    }

    /// The gradient of queries under a schedule.
    fn query_gradients(
        &self,
        schedule: &dyn AnySchedule,
        causal: bool,
        given: &Forward<T>,
    ) -> Result<Ran, Error> {
        let mut dq = Buffer::<T>::poisoned(self.device, &self.queries())?;
        let ([q, k, v, dout], lse, delta) = (&self.tensors, &given.lse.0, &given.delta.0);
        let report = measure(self.device, || match causal {
            true => causal_query_gradients(q, k, v, dout, lse, delta, &mut dq, self.scale)
                .schedule_dyn(schedule)
                .timed()
                .run(),
            false => query_gradients(q, k, v, dout, lse, delta, &mut dq, self.scale)
                .schedule_dyn(schedule)
                .timed()
                .run(),
        })?;
        let operands = self.operands(causal, &given.lse.1, &given.delta.1);
        Ok((report, operands.queries(&dq.to_vec()?)))
    }

    /// The three kernels of the backward pass, under a schedule of keys and one of queries.
    fn whole(
        &self,
        schedule: &dyn AnySchedule,
        queries: &str,
        causal: bool,
        given: &Forward<T>,
    ) -> Result<Ran, Error> {
        let name = if causal { format!("causal_{queries}") } else { queries.into() };
        let none = || Error::Tune { what: format!("there is no schedule `{name}`") };
        let other = SCHEDULES.iter().find(|s| s.name() == name).ok_or_else(none)?;
        let (mut report, mut checks) = self.rows(&rows_lanes, given)?;
        for (next, more) in
            [self.key_gradients(schedule, causal, given)?, self.query_gradients(*other, causal, given)?]
        {
            let time = report.time_ms.zip(next.time_ms).map(|(a, b)| a + b);
            let findings = [report.findings, next.findings].concat();
            report = LaunchReport { time_ms: time, findings, counters: None, ..next };
            checks.extend(more);
        }
        Ok((report, checks))
    }
}

impl Options {
    fn size(&self, gpu: bool) -> Size {
        self.size.unwrap_or(match gpu {
            true => Size { b: 4, h: 32, m: 4096, n: 4096, d: 64 },
            false => Size { b: 1, h: 2, m: 130, n: 192, d: 64 },
        })
    }
}

impl Generic for Options {
    fn typed(&self) -> &Typed {
        &self.typed
    }

    fn dims(&self, gpu: bool) -> Dims {
        let Size { b, h, m, n, d } = self.size(gpu);
        vec![("B", b), ("H", h), ("M", m), ("N", n), ("D", d)]
    }

    fn run<T: Float>(&self, device: &Device, schedules: &[&'static dyn AnySchedule]) -> Result<bool, Error> {
        let size = self.size(device.is_gpu());
        let shape = |rows: usize| [size.b, size.h, rows, size.d];
        let (queries, keys) = (elements(&shape(size.m))?, elements(&shape(size.n))?);
        device.check_memory((4 * queries as u128 + 4 * keys as u128) * size_of::<T>() as u128)?;
        let setup = &self.typed.setup;
        let data = |stream, len| normal::<T>(setup.seed, stream, len);
        let (q, k, v, dout) = (data(0, queries), data(1, keys), data(2, keys), data(3, queries));
        let tensors = [
            Buffer::from_slice(device, &q, &shape(size.m))?,
            Buffer::from_slice(device, &k, &shape(size.n))?,
            Buffer::from_slice(device, &v, &shape(size.n))?,
            Buffer::from_slice(device, &dout, &shape(size.m))?,
        ];
        let scale = 1.0 / (size.d.max(1) as f32).sqrt();
        let run = Run { device, size, scale, q: &q, k: &k, v: &v, dout: &dout, tensors };
        let given = [run.left(false)?, run.left(true)?];
        let one = |schedule: &'static dyn AnySchedule| -> Result<Record, Error> {
            let kernel = schedule.kernel();
            let causal = kernel.starts_with("causal_");
            let given = &given[usize::from(causal)];
            let operands = run.operands(causal, &given.lse.1, &given.delta.1);
            // Of two flops a multiply-add: so many for each element of a head of a pair.
            let pairs = (operands.pairs() * size.d) as f64;
            let (flops, (launch, checks)) = match kernel.trim_start_matches("causal_") {
                "attention_lse" => (4.0 * pairs, run.forward(schedule)?),
                "row_products" => (2.0 * queries as f64, run.rows(schedule, given)?),
                "key_gradients" => match &self.whole {
                    Some(queries) => (10.0 * pairs, run.whole(schedule, queries, causal, given)?),
                    None => (8.0 * pairs, run.key_gradients(schedule, causal, given)?),
                },
                _ => (6.0 * pairs, run.query_gradients(schedule, causal, given)?),
            };
            Ok(Record {
                schedule: schedule.name(),
                dtype: T::DTYPE.name(),
                sizes: size.named(),
                flops,
                verdict: judge(checks),
                launch,
                criterion: operands.criterion(),
            })
        };
        Ok(run_all(setup, schedules, one))
    }
}

fn main() -> ExitCode {
    run_generic::<Options>(SCHEDULES, "keys_naive")
}
