//! NVIDIA's cuBLAS, to compare with: loaded when first used, absent on most machines.

/// A function from a type of which sums in f32 are rounded to it, floats of 16 and 32 bits, to what a library of cuBLAS
/// calls it; each library has an enum of its own for the same numbers.
macro_rules! result_type {
    ($sys:ident) => {
        fn result_type(dtype: tile_dsl::dtype::DType) -> Option<$sys::cudaDataType_t> {
            use $sys::cudaDataType_t as Type;
            let code = dtype.format().cublas.filter(|_| dtype.is_float())?;
            [Type::CUDA_R_32F, Type::CUDA_R_16F, Type::CUDA_R_16BF].into_iter().find(|ty| *ty as u32 == code)
        }
    };
}

mod eight;

use crate::{
    buffer::Buffer,
    device::{Device, Kind},
    element::{Element, Float},
    error::Error,
    geometry::{Geometry, Layout},
    memory::Storage,
    timing::{self, Before},
};
use cudarc::cublas::{
    result::{self, CublasError},
    sys,
};
use std::{cell::Cell, ffi::c_void, time::Duration};

result_type!(sys);

/// cuBLAS on a device.
///
/// The arithmetic is that of the default math mode: f32 products are IEEE f32 (TF32 is another mode, and off); f16
/// and bf16 run on tensor cores and accumulate in f32.
pub struct Cublas {
    device: Device,
    handle: sys::cublasHandle_t,
    version: i32,
    rest: Cell<Duration>,
}

impl Cublas {
    /// Opens cuBLAS.
    ///
    /// # Errors
    /// [`Error::NoCublas`] when the library is not there; [`Error::Cuda`] when it does not start, or when
    /// `NVIDIA_TF32_OVERRIDE` would turn TF32 on behind our back; [`Error::NoDriver`] on the simulator.
    pub fn open(device: &Device) -> Result<Self, Error> {
        let Kind::Cuda(cuda) = device.kind() else { return Err(Error::NoDriver) };
        // SAFETY: looks for the library and nothing more. Without this, the first call would panic.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::NoCublas);
        }
        if std::env::var_os("NVIDIA_TF32_OVERRIDE").is_some_and(|v| v == "1") {
            let code = "NVIDIA_TF32_OVERRIDE=1, which makes f32 products TF32: unset it".into();
            return Err(Error::Cuda { what: "starting cuBLAS", code });
        }
        cuda.bind()?;
        let handle = result::create_handle().map_err(failed("starting cuBLAS"))?;
        let mut cublas = Cublas { device: device.clone(), handle, version: 0, rest: Cell::default() };
        // SAFETY: the handle is live, and the version is one integer.
        unsafe {
            sys::cublasGetVersion_v2(handle, &mut cublas.version)
                .result()
                .map_err(failed("asking for cuBLAS's version"))?;
            if let Some(queue) = &device.inner.queue.cuda {
                sys::cublasSetStream_v2(handle, queue.stream.cu_stream().cast())
                    .result()
                    .map_err(failed("giving cuBLAS a stream"))?;
            }
            sys::cublasSetMathMode(handle, sys::cublasMath_t::CUBLAS_DEFAULT_MATH)
                .result()
                .map_err(failed("setting cuBLAS's math mode"))?;
        }
        Ok(cublas)
    }

    /// Version: `13.1.0`.
    pub fn version(&self) -> String {
        version(self.version)
    }

    /// The GPU does nothing for so long before each product from now on, beside what is overwritten.
    pub fn rest(&self, rest: Duration) {
        self.rest.set(rest);
    }

    /// What comes before a product.
    fn before(&self) -> Before {
        Before::Evict { rest: self.rest.get() }
    }

    /// C = A·B for row-major A `[m, k]`, B `[k, n]`, C `[m, n]`, accumulated in f32; overwrites the L2 cache first and
    /// returns the milliseconds of the product alone.
    ///
    /// # Errors
    /// [`Error::Shape`] when the shapes do not fit, [`Error::DeviceMismatch`], or what cuBLAS says.
    pub fn gemm<T: Float>(&self, a: &Buffer<T>, b: &Buffer<T>, c: &mut Buffer<T>) -> Result<f64, Error> {
        self.product(a, b, c, sys::cublasComputeType_t::CUBLAS_COMPUTE_32F)
    }

    /// As [`Cublas::gemm`], with factors rounded to tf32.
    ///
    /// # Errors
    /// As [`Cublas::gemm`].
    pub fn gemm_tf32<T: Float>(&self, a: &Buffer<T>, b: &Buffer<T>, c: &mut Buffer<T>) -> Result<f64, Error> {
        self.product(a, b, c, sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32)
    }

    fn product<T: Float>(
        &self,
        a: &Buffer<T>,
        b: &Buffer<T>,
        c: &mut Buffer<T>,
        compute: sys::cublasComputeType_t,
    ) -> Result<f64, Error> {
        let [m, n, k] = extents(a.shape(), b.shape(), c.shape())?;
        let int = |what: &str, x: usize| {
            i32::try_from(x).map_err(|_| Error::TooLarge {
                what: what.into(),
                value: x as i128,
                max: i32::MAX.into(),
            })
        };
        let (m, n, k) = (int("m", m)?, int("n", n)?, int("k", k)?);
        let dtype = result_type(T::DTYPE).ok_or_else(|| {
            Error::Shape(format!("cuBLAS has no product of {} with an f32 accumulator", T::DTYPE))
        })?;
        let row_major = Layout::RowMajor;
        let (pa, pb) = (self.pointer("a", a, row_major)?, self.pointer("b", b, row_major)?);
        let pc = self.pointer("c", c, row_major)?;
        let (alpha, beta) = (1f32, 0f32);
        let scalar = |x: &f32| std::ptr::from_ref(x).cast::<c_void>();
        // cuBLAS thinks in columns: row-major C = A·B is column-major Cᵀ = Bᵀ·Aᵀ, and nothing is transposed.
        // SAFETY: the shapes were checked against each other and the buffers, which live on this device and are
        // borrowed for the call; the call waits for the result. The handle works on the device's own stream.
        for raw in [&a.raw, &b.raw, &c.raw] {
            raw.memory.wait(true)?;
        }
        let ms = timing::timed(&self.device, &self.device.inner.queue, self.before(), || unsafe {
            sys::cublasGemmEx(
                self.handle,
                sys::cublasOperation_t::CUBLAS_OP_N,
                sys::cublasOperation_t::CUBLAS_OP_N,
                n,
                m,
                k,
                scalar(&alpha),
                pb as *const c_void,
                dtype,
                n.max(1),
                pa as *const c_void,
                dtype,
                k.max(1),
                scalar(&beta),
                pc as *mut c_void,
                dtype,
                n.max(1),
                compute,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
            .result()
            .map_err(failed("cuBLAS's product"))
        })?;
        Ok(ms.1.unwrap_or_default())
    }

    fn pointer<T: Element>(&self, name: &str, buffer: &Buffer<T>, layout: Layout) -> Result<u64, Error> {
        let raw = &buffer.raw;
        if raw.geometry
            != (Geometry { offset: raw.geometry.offset, ..Geometry::dense(buffer.shape(), layout) })
        {
            let (shape, strides) = (buffer.shape().to_vec(), buffer.strides().to_vec());
            let what = match layout {
                Layout::RowMajor => "the product by cuBLAS, row-major,",
                Layout::ColumnMajor => "the product by cuBLAS, column-major,",
            };
            return Err(Error::Gaps { shape, strides, what });
        }
        match &raw.memory.storage {
            Storage::Cuda(_) if buffer.device().same_as(&self.device) => Ok(raw.address()),
            _ => Err(Error::DeviceMismatch {
                name: name.into(),
                found: buffer.device().name(),
                expected: self.device.name(),
            }),
        }
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once. A failure leaves it to the end of the process.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

/// M, N and K of C = A·B.
fn extents(a: &[usize], b: &[usize], c: &[usize]) -> Result<[usize; 3], Error> {
    let (&[m, k], &[k_b, n], &[m_c, n_c]) = (a, b, c) else {
        return Err(Error::Shape("cuBLAS multiplies matrices, and these are not".into()));
    };
    if (k, m, n) != (k_b, m_c, n_c) {
        return Err(Error::Shape(format!("A·B = C does not hold for shapes {:?}", (a, b, c))));
    }
    Ok([m, n, k])
}

fn failed(what: &'static str) -> impl Fn(CublasError) -> Error {
    move |e| Error::Cuda { what, code: format!("{:?}", e.0) }
}

/// cuBLAS counts 10000 a major version since 12, 1000 before.
fn version(number: i32) -> String {
    let major = if number >= 100_000 { 10_000 } else { 1_000 };
    format!("{}.{}.{}", number / major, number % major / 100, number % 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tile_dsl::dtype::DType;

    #[test]
    fn codes_of_types_are_those_of_the_library() {
        use sys::cudaDataType_t as Type;
        for (dtype, ty, rounded_to) in [
            (DType::F32, Type::CUDA_R_32F, true),
            (DType::F16, Type::CUDA_R_16F, true),
            (DType::BF16, Type::CUDA_R_16BF, true),
            (DType::F8, Type::CUDA_R_8F_E4M3, false),
            (DType::I32, Type::CUDA_R_32I, false),
            (DType::U32, Type::CUDA_R_32U, false),
            (DType::I8, Type::CUDA_R_8I, false),
            (DType::U8, Type::CUDA_R_8U, false),
            (DType::I64, Type::CUDA_R_64I, false),
        ] {
            assert_eq!(dtype.format().cublas, Some(ty as u32), "{dtype}");
            assert_eq!(result_type(dtype), rounded_to.then_some(ty), "{dtype}");
        }
    }

    #[test]
    fn versions_read_as_nvidia_writes_them() {
        assert_eq!(version(130_100), "13.1.0");
        assert_eq!(version(120_804), "12.8.4");
        assert_eq!(version(11_603), "11.6.3");
    }

    #[test]
    fn the_simulator_has_no_cublas() {
        assert!(matches!(Cublas::open(&Device::sim()), Err(Error::NoDriver)));
    }

    #[test]
    fn products_agree_with_a_sum_by_hand() {
        let Ok(device) = Device::cuda(0) else {
            eprintln!("skipped: no GPU");
            return;
        };
        let cublas = match Cublas::open(&device) {
            Ok(cublas) => cublas,
            Err(Error::NoCublas) => {
                eprintln!("skipped: no cuBLAS");
                return;
            }
            Err(other) => panic!("{other}"),
        };
        let a = Buffer::from_slice(&device, &[1f32, 2., 3., 4., 5., 6.], &[2, 3]).unwrap();
        let b = Buffer::from_slice(&device, &[1f32, 0., 2., 0., 1., 3., 1., 1., 1.], &[3, 3]).unwrap();
        let mut c = Buffer::<f32>::poisoned(&device, &[2, 3]).unwrap();
        assert!(cublas.gemm(&a, &b, &mut c).unwrap() > 0.0);
        assert_eq!(c.to_vec().unwrap(), [4., 5., 11., 10., 11., 29.]);
    }
}
