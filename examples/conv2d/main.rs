//! A two-dimensional convolution as a product: `cargo run --example conv2d -- --schedule all`.

#[path = "../common/mod.rs"]
mod common;
mod kernel;
mod verify;

use clap::Parser;
use common::{
    data::normal,
    example::{Dims, Generic, Typed, run_generic},
    options::{elements, size},
    run::run_all,
};
use kernel::{SCHEDULES, conv2d};
use std::process::ExitCode;
use tile_bench::record::{Record, judge, measure};
use tilewright::{AnySchedule, Buffer, Device, Error, Float};
use verify::Convolution;

/// Convolves random images with random weights under one schedule or all, and verifies the result.
#[derive(Parser)]
#[command(name = "conv2d", version)]
struct Options {
    /// Images×lines×columns of the result×channels×filters [default: 32x56x56x128x256 on a GPU, 2x9x20x40x72 on the simulator]
    #[arg(long, value_name = "BxPxQxCxF")]
    size: Option<Size>,
    /// Lines and columns of a window
    #[arg(long, value_name = "RxS", default_value = "3x3", value_parser = window)]
    window: Window,
    #[command(flatten)]
    typed: Typed,
}

size! {
    /// Sizes of the images and of the result.
    Size { b, p, q, c, f } as "B×P×Q×C×F", "2x9x20x40x72"
}

size! {
    /// Sizes of a window.
    Window { r, s } as "R×S", "3x3"
}

/// A window that has a line and a column at least.
fn window(text: &str) -> Result<Window, String> {
    match text.parse()? {
        Window { r, s } if r > 0 && s > 0 => Ok(Window { r, s }),
        _ => Err("a window has a line and a column at least".into()),
    }
}

impl Options {
    fn size(&self, gpu: bool) -> Size {
        self.size.unwrap_or(match gpu {
            true => Size { b: 32, p: 56, q: 56, c: 128, f: 256 },
            false => Size { b: 2, p: 9, q: 20, c: 40, f: 72 },
        })
    }
}

impl Generic for Options {
    fn typed(&self) -> &Typed {
        &self.typed
    }

    fn dims(&self, gpu: bool) -> Dims {
        let (Size { b, p, q, c, f }, Window { r, s }) = (self.size(gpu), self.window);
        vec![("B", b), ("P", p), ("Q", q), ("C", c), ("F", f), ("R", r), ("S", s)]
    }

    fn run<T: Float>(&self, device: &Device, schedules: &[&'static dyn AnySchedule]) -> Result<bool, Error> {
        let size = self.size(device.is_gpu());
        let (Size { b, p, q, c, f }, Window { r, s }) = (size, self.window);
        let padded = |n: usize, window: usize| n.saturating_add(window - 1);
        let (images, weights, result) = ([b, padded(p, r), padded(q, s), c], [r, s, c, f], [b, p, q, f]);
        let lengths = [elements(&images)?, elements(&weights)?, elements(&result)?];
        let all: u128 = lengths.iter().map(|n| *n as u128).sum();
        device.check_memory(all * size_of::<T>() as u128)?;
        let setup = &self.typed.setup;
        let (x, w) = (normal::<T>(setup.seed, 0, lengths[0]), normal::<T>(setup.seed, 1, lengths[1]));
        let x_in = Buffer::from_slice(device, &x, &images)?;
        let w_in = Buffer::from_slice(device, &w, &weights)?;
        let one = |schedule: &'static dyn AnySchedule| -> Result<Record, Error> {
            let mut y = Buffer::<T>::poisoned(device, &result)?;
            let launch =
                measure(device, || conv2d(&x_in, &w_in, &mut y).schedule_dyn(schedule).timed().run())?;
            let y = y.to_vec()?;
            let convolution = Convolution { size, window: self.window, x: &x, w: &w, y: &y };
            Ok(Record {
                schedule: schedule.name(),
                dtype: T::DTYPE.name(),
                sizes: [size.named(), self.window.named()].concat(),
                flops: 2.0 * lengths[2] as f64 * (r * s * c) as f64,
                verdict: judge(convolution.checks()),
                launch,
                criterion: convolution.criterion(),
            })
        };
        Ok(run_all(setup, schedules, one))
    }
}

fn main() -> ExitCode {
    run_generic::<Options>(SCHEDULES, "tiled")
}
