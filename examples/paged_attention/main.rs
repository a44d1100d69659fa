//! Attention of one query a sequence to a cache in pages: `cargo run --example paged_attention -- --schedule all`.

#[path = "../common/mod.rs"]
mod common;
mod kernel;
#[path = "../attention/verify.rs"]
mod verify;

use clap::{Parser, builder::PossibleValuesParser};
use common::{
    data::{normal, permutation, uniform},
    example::{Dims, Generic, Typed, run_generic},
    options::{elements, size},
    run::run_all,
};
use kernel::{JOINS, SCHEDULES, combine, parts};
use std::process::ExitCode;
use tile_bench::{
    record::{Record, judge},
    stats::median,
};
use tilewright::{AnySchedule, Buffer, Device, Error, Float, Launch, Stream};
use tilewright_kernels::{choose, silu};
use verify::{Attention, Shape};

/// Decodes a step of random sequences under one schedule or all, and verifies the result.
#[derive(Parser)]
#[command(name = "paged_attention", version)]
struct Options {
    /// Sequences × heads of the cache × queries a head × tokens × length of a head [default: 16x8x4x16384x128 on a GPU, 2x3x4x70x64
    /// on the simulator]
    #[arg(long, value_name = "BxGxRxNxD")]
    size: Option<Size>,
    /// Parts of a sequence [default: those that the kernel library takes on a GPU, 3 on the simulator]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    parts: Option<u32>,
    /// The schedule that joins the parts [default: the one that the kernel library takes]
    #[arg(long, value_parser = PossibleValuesParser::new(JOINS.iter().map(|schedule| schedule.name())))]
    join: Option<String>,
    /// Tokens that a sequence has at least, of random lengths; the first has all [default: seven eighths]
    #[arg(long, value_name = "TOKENS")]
    shortest: Option<usize>,
    #[command(flatten)]
    typed: Typed,
}

size! {
    /// Sizes of one call.
    Size { b, g, r, n, d } as "B×G×R×N×D", "2x3x4x70x64"
}

/// Tokens of a page.
const PAGE: usize = 16;
/// Steps of which the time is the median.
const STEPS: usize = 20;
/// Numbers that are moved to fill L2 with others' data.
const OTHERS: usize = 1 << 26;

/// A step of decoding.
struct Step<'a, T> {
    q: &'a Buffer<T>,
    k: &'a Buffer<T>,
    v: &'a Buffer<T>,
    pages: &'a Buffer<i32>,
    len: &'a Buffer<i32>,
    scale: f32,
    each: i32,
}

impl<T: Float> Step<'_, T> {
    fn parts<'b>(&'b self, [most, weight, sums]: [&'b mut Buffer<f32>; 3]) -> Launch<'b, parts> {
        let Step { q, k, v, pages, len, scale, each } = *self;
        parts(q, k, v, pages, len, most, weight, sums, scale, each)
    }
}

/// Milliseconds from the first launch of a step to the end of the last one, where L2 has nothing of the step's data before: the median of
/// several steps. The GPU is at work while the host queues them.
fn isolated<R>(
    device: &Device,
    mut step: impl FnMut(&Stream) -> Result<R, Error>,
) -> Result<Option<f64>, Error> {
    let stream = Stream::default_of(device);
    let (others, mut moved) = (Buffer::<f32>::zeros(device, &[OTHERS])?, Buffer::zeros(device, &[OTHERS])?);
    let times = (0..STEPS).map(|_| {
        silu(&stream, &others, &mut moved)?;
        let start = stream.timestamp()?;
        step(&stream)?;
        stream.timestamp()?.ms_since(&start)
    });
    let times = times.collect::<Result<Option<Vec<f64>>, Error>>()?;
    Ok(times.and_then(|times| median(&times)))
}

impl Options {
    fn size(&self, gpu: bool) -> Size {
        self.size.unwrap_or(match gpu {
            true => Size { b: 16, g: 8, r: 4, n: 16384, d: 128 },
            false => Size { b: 2, g: 3, r: 4, n: 70, d: 64 },
        })
    }

    fn parts(&self, gpu: bool) -> usize {
        let Size { b, g, n, .. } = self.size(gpu);
        let chosen = || if gpu { choose::paged_parts(b, g, n) } else { 3 };
        self.parts.map_or_else(chosen, |parts| parts as usize)
    }
}

impl Generic for Options {
    fn typed(&self) -> &Typed {
        &self.typed
    }

    fn dims(&self, gpu: bool) -> Dims {
        let Size { b, g, r, n, d } = self.size(gpu);
        let l = n.div_ceil(PAGE);
        vec![("B", b), ("G", g), ("R", r), ("D", d), ("L", l), ("P", b * l + 1), ("C", self.parts(gpu))]
    }

    fn run<T: Float>(&self, device: &Device, schedules: &[&'static dyn AnySchedule]) -> Result<bool, Error> {
        let size = self.size(device.is_gpu());
        let Size { b, g, r, n, d } = size;
        let (c, l) = (self.parts(device.is_gpu()), n.div_ceil(PAGE));
        // One page more than there are sequences for.
        let (of_page, pages) = (PAGE * g * d, b * l + 1);
        let lengths = [elements(&[b, g, r, d])?, elements(&[pages, of_page])?];
        device.check_memory((lengths[0] + 2 * lengths[1]) as u128 * size_of::<T>() as u128)?;
        let setup = &self.typed.setup;
        let (q, k, v) = (
            normal::<T>(setup.seed, 0, lengths[0]),
            normal::<T>(setup.seed, 1, lengths[1]),
            normal::<T>(setup.seed, 2, lengths[1]),
        );
        let mut page = permutation(setup.seed, 3, pages);
        page.truncate(b * l);
        let shortest = self.shortest.unwrap_or(n - n / 8).min(n);
        let less = uniform(setup.seed, 4, b, 0..=i32::try_from(n - shortest).unwrap_or(i32::MAX));
        let len: Vec<i32> = less
            .iter()
            .enumerate()
            .map(|(n_th, less)| n as i32 - if n_th == 0 { 0 } else { *less })
            .collect();
        let q_in = Buffer::from_slice(device, &q, &[b, g, r, d])?;
        let k_in = Buffer::from_slice(device, &k, &[pages, PAGE, g, d])?;
        let v_in = Buffer::from_slice(device, &v, &[pages, PAGE, g, d])?;
        let pages_in = Buffer::from_slice(device, &page, &[b, l])?;
        let len_in = Buffer::from_slice(device, &len, &[b])?;
        let scale = 1.0 / (d.max(1) as f32).sqrt();
        let each = n.div_ceil(c).next_multiple_of(PAGE) as i32;
        let step = Step { q: &q_in, k: &k_in, v: &v_in, pages: &pages_in, len: &len_in, scale, each };
        let [_, chosen] = choose::paged_attention(device, T::DTYPE, d, c);
        let named = JOINS.iter().find(|schedule| self.join.as_deref() == Some(schedule.name()));
        let rest = *named.unwrap_or(&chosen);
        let one = |schedule: &'static dyn AnySchedule| -> Result<Record, Error> {
            let mut most = Buffer::<f32>::poisoned(device, &[b, c, g, r])?;
            let mut weight = Buffer::<f32>::poisoned(device, &[b, c, g, r])?;
            let mut sums = Buffer::<f32>::poisoned(device, &[b, c, g, r, d])?;
            let mut o = Buffer::<T>::poisoned(device, &[b, g, r, d])?;
            let mut launch = step.parts([&mut most, &mut weight, &mut sums]).schedule_dyn(schedule).run()?;
            let joined = combine(&most, &weight, &sums, &mut o).schedule_dyn(rest).run()?;
            launch.findings.extend(joined.findings);
            if device.is_gpu() {
                launch.time_ms = isolated(device, |stream| {
                    step.parts([&mut most, &mut weight, &mut sums]).schedule_dyn(schedule).enqueue(stream)?;
                    combine(&most, &weight, &sums, &mut o).schedule_dyn(rest).enqueue(stream)
                })?;
            }
            let o = o.to_vec()?;
            let (mut checks, mut criterion) = (Vec::new(), String::new());
            for (n_th, len) in len.iter().enumerate() {
                // Keys and values of a sequence, a head one behind the other.
                let dense = |of: &[T]| {
                    let row = |head: usize, at: usize| {
                        let page = page[n_th * l + at / PAGE] as usize;
                        &of[page * of_page + (at % PAGE * g + head) * d..][..d]
                    };
                    (0..g)
                        .flat_map(|head| (0..*len as usize).map(move |at| (head, at)))
                        .flat_map(|(head, at)| row(head, at))
                        .copied()
                        .collect::<Vec<T>>()
                };
                let (own, seen) = (g * r * d, |_: usize| 0..*len as usize);
                let result = Attention {
                    size: Shape { b: 1, h: g, m: r, n: *len as usize, d },
                    scale,
                    q: &q[n_th * own..][..own],
                    k: &dense(&k),
                    v: &dense(&v),
                    o: &o[n_th * own..][..own],
                    seen: &seen,
                };
                checks.extend(result.checks());
                criterion = result.criterion();
            }
            let tokens: usize = len.iter().map(|len| *len as usize).sum();
            Ok(Record {
                schedule: schedule.name(),
                dtype: T::DTYPE.name(),
                sizes: size.named(),
                flops: 4.0 * (g * r * d) as f64 * tokens as f64,
                verdict: judge(checks),
                launch,
                criterion,
            })
        };
        Ok(run_all(setup, schedules, one))
    }
}

fn main() -> ExitCode {
    run_generic::<Options>(SCHEDULES, "mma")
}
