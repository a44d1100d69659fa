//! What is multiplied: matrices of the type of the result, rounded or not, or of 8-bit numbers.

use crate::{
    Size,
    common::data::normal,
    f8::matmul_f8,
    kernel::{matmul, matmul_tf32},
    verify::Product,
};
use tile_bench::Record;
use tile_runtime::cublas::Cublas;
use tilewright::{
    AnySchedule, Buffer, DType, Device, Error, Kernel, LaunchReport, Layout, Scheduled,
    prelude::{Float, f8},
    verify::Comparison,
};

/// What a kernel does to factors before it multiplies them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Nothing.
    Own,
    /// They are rounded to tf32.
    Tf32,
    /// They are f8.
    F8,
}

impl Precision {
    /// That of a schedule's kernel.
    pub fn of(schedule: &dyn AnySchedule) -> Self {
        match schedule.kernel() {
            name if name == matmul_tf32::NAME => Precision::Tf32,
            name if name == matmul_f8::NAME => Precision::F8,
            _ => Precision::Own,
        }
    }
}

/// Matrices to multiply, on the host and on a device.
pub trait Problem<T: Float> {
    /// Its extents.
    fn size(&self) -> Size;

    /// The kernel of a schedule.
    fn multiply<'a>(&'a self, schedule: &'static dyn AnySchedule, c: &'a mut Buffer<T>) -> Scheduled<'a>;

    /// Compares C with the exact product of factors in a precision; products may be off by `each` of themselves. The
    /// criterion, in words.
    fn verify(&self, c: &[T], precision: Precision, each: f64) -> (Comparison, String);

    /// Milliseconds of cuBLAS's product.
    ///
    /// # Errors
    /// cuBLAS's.
    fn cublas(&self, cublas: &Cublas, c: &mut Buffer<T>, precision: Precision) -> Result<f64, Error>;
}

/// Lets `run` write a poisoned C under a schedule, and verifies it.
///
/// # Errors
/// The run's.
pub fn record<T: Float>(
    problem: &dyn Problem<T>,
    device: &Device,
    schedule: &'static dyn AnySchedule,
    run: impl FnOnce(&mut Buffer<T>) -> Result<LaunchReport, Error>,
) -> Result<Record, Error> {
    let size = problem.size();
    // Not zeros: an element that no thread writes must not look like a result.
    let mut c = Buffer::<T>::poisoned(device, &[size.m, size.n])?;
    let launch = run(&mut c)?;
    let (verdict, criterion) = problem.verify(&c.to_vec()?, Precision::of(schedule), 0.0);
    Ok(Record {
        schedule: schedule.name(),
        dtype: T::DTYPE.name(),
        sizes: size.named(),
        flops: size.flops(),
        verdict,
        launch,
        criterion,
    })
}

/// Factors, on the host and on a device.
struct Inputs<A> {
    size: Size,
    a_host: Vec<A>,
    b_host: Vec<A>,
    a: Buffer<A>,
    b: Buffer<A>,
}

impl<A: Float> Inputs<A> {
    /// Standard normal matrices, B as `layout` stores it.
    fn random<T: Float>(device: &Device, size: Size, seed: u64, layout: Layout) -> Result<Self, Error> {
        let [a_len, b_len, c_len] = size.elements()?;
        let factors = (a_len as u128 + b_len as u128) * size_of::<A>() as u128;
        device.check_memory(factors + c_len as u128 * size_of::<T>() as u128)?;
        let (a_host, b_host) = (normal::<A>(seed, 0, a_len), normal::<A>(seed, 1, b_len));
        let Size { m, n, k } = size;
        let a = Buffer::from_slice(device, &a_host, &[m, k])?;
        let b = match layout {
            Layout::RowMajor => Buffer::from_slice(device, &b_host, &[k, n])?,
            Layout::ColumnMajor => {
                let columns: Vec<A> =
                    (0..n).flat_map(|j| b_host.iter().skip(j).step_by(n).take(k).copied()).collect();
                Buffer::from_slice_in(device, &columns, &[k, n], layout)?
            }
        };
        Ok(Inputs { size, a_host, b_host, a, b })
    }

    fn product<'a, T: Float>(&'a self, c: &'a [T], each: f64) -> Product<'a, A, T> {
        let Size { m, n, k } = self.size;
        Product { each, ..Product::new([m, n, k], &self.a_host, &self.b_host, c) }
    }
}

/// C = A·B.
struct Same<T>(Inputs<T>);

impl<T: Float> Problem<T> for Same<T> {
    fn size(&self) -> Size {
        self.0.size
    }

    fn multiply<'a>(&'a self, schedule: &'static dyn AnySchedule, c: &'a mut Buffer<T>) -> Scheduled<'a> {
        match Precision::of(schedule) {
            Precision::Tf32 => matmul_tf32(&self.0.a, &self.0.b, c).schedule_dyn(schedule),
            _ => matmul(&self.0.a, &self.0.b, c).schedule_dyn(schedule),
        }
    }

    fn verify(&self, c: &[T], precision: Precision, each: f64) -> (Comparison, String) {
        let product = self.0.product(c, each);
        // Exact of 16-bit numbers, as `to_f64` is of all.
        let tf32: fn(&T) -> f64 = |x| f64::from(tile_dsl::op::tf32(x.to_f64() as f32));
        let factor = if precision == Precision::Tf32 { tf32 } else { product.factor };
        let product = Product { factor, ..product };
        (product.verify(), product.criterion())
    }

    fn cublas(&self, cublas: &Cublas, c: &mut Buffer<T>, precision: Precision) -> Result<f64, Error> {
        match precision == Precision::Tf32 && T::DTYPE == DType::F32 {
            true => cublas.gemm_tf32(&self.0.a, &self.0.b, c),
            false => cublas.gemm(&self.0.a, &self.0.b, c),
        }
    }
}

/// C = (A·B)·[`SCALE`], of 8-bit numbers; B lies in columns.
struct Eight(Inputs<f8>);

/// Scale of a product of 8-bit numbers: half of each factor.
const SCALE: f32 = 0.25;

impl<T: Float> Problem<T> for Eight {
    fn size(&self) -> Size {
        self.0.size
    }

    fn multiply<'a>(&'a self, schedule: &'static dyn AnySchedule, c: &'a mut Buffer<T>) -> Scheduled<'a> {
        matmul_f8(&self.0.a, &self.0.b, c, SCALE).schedule_dyn(schedule)
    }

    fn verify(&self, c: &[T], _: Precision, each: f64) -> (Comparison, String) {
        let factor: fn(&f8) -> f64 = |x| 0.5 * x.to_f64();
        let product = Product { factor, ..self.0.product(c, each) };
        (product.verify(), product.criterion())
    }

    fn cublas(&self, cublas: &Cublas, c: &mut Buffer<T>, _: Precision) -> Result<f64, Error> {
        cublas.gemm_f8(&self.0.a, &self.0.b, SCALE, c)
    }
}

/// What schedules multiply, by what their kernels take.
pub struct Problems<T> {
    same: Option<Same<T>>,
    eight: Option<Eight>,
}

/// Random matrices for the chosen schedules.
///
/// # Errors
/// When there is no room for them.
pub fn problems<T: Float>(
    device: &Device,
    chosen: &[&'static dyn AnySchedule],
    size: Size,
    seed: u64,
) -> Result<Problems<T>, Error> {
    let of = |eight: bool| chosen.iter().any(|s| (Precision::of(*s) == Precision::F8) == eight);
    let same = || Inputs::random::<T>(device, size, seed, Layout::RowMajor).map(Same);
    let eight = || Inputs::random::<T>(device, size, seed, Layout::ColumnMajor).map(Eight);
    Ok(Problems { same: of(false).then(same).transpose()?, eight: of(true).then(eight).transpose()? })
}

impl<T: Float> Problems<T> {
    /// That of a schedule.
    ///
    /// # Panics
    /// For one that was not chosen.
    pub fn of(&self, schedule: &dyn AnySchedule) -> &dyn Problem<T> {
        match Precision::of(schedule) {
            Precision::F8 => self.eight.as_ref().expect("its factors were made"),
            _ => self.same.as_ref().expect("its factors were made"),
        }
    }
}
