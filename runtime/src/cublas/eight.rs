//! Products of 8-bit factors, by cuBLASLt: cuBLAS itself has none.

use super::Cublas;
use crate::{buffer::Buffer, element::Float, error::Error, geometry::Layout, timing};
use cudarc::cublaslt::{
    result::{self, CublasError},
    sys,
};
use std::ffi::c_void;
use tile_dsl::f8::f8;

result_type!(sys);

/// Words of memory that a product may use: 32 MB, as NVIDIA recommends for Hopper.
const WORKSPACE: usize = 8 << 20;

/// What a product is described by; freed with the value.
struct Described {
    handle: sys::cublasLtHandle_t,
    product: sys::cublasLtMatmulDesc_t,
    preference: sys::cublasLtMatmulPreference_t,
    /// Of the first factor, the second and the result.
    layouts: Vec<sys::cublasLtMatrixLayout_t>,
}

impl Drop for Described {
    fn drop(&mut self) {
        // SAFETY: each was made once, and is destroyed here alone. A failure leaves it to the end of the process.
        unsafe {
            for layout in &self.layouts {
                let _ = result::destroy_matrix_layout(*layout);
            }
            if !self.preference.is_null() {
                let _ = result::destroy_matmul_pref(self.preference);
            }
            if !self.product.is_null() {
                let _ = result::destroy_matmul_desc(self.product);
            }
            let _ = result::destroy_handle(self.handle);
        }
    }
}

impl Described {
    /// D = Aᵀ·B for column-major A `[k, rows]`, B `[k, columns]` and D `[rows, columns]`: the one form that 8-bit factors
    /// have. Sums are not moved to f32 registers on their way, which is what `wgmma` by itself does, too.
    fn new([rows, columns, k]: [usize; 3], to: sys::cudaDataType_t) -> Result<Self, Error> {
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        let handle = result::create_handle().map_err(failed("starting cuBLASLt"))?;
        let (product, preference) = (std::ptr::null_mut(), std::ptr::null_mut());
        let mut all = Described { handle, product, preference, layouts: Vec::new() };
        let what = "describing a product to cuBLASLt";
        all.product = result::create_matmul_desc(
            sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            sys::cudaDataType_t::CUDA_R_32F,
        )
        .map_err(failed(what))?;
        let turned = cudarc::cublas::sys::cublasOperation_t::CUBLAS_OP_T;
        let fast = 1i8;
        // SAFETY: the descriptor is live, and each value has the type of its attribute.
        unsafe {
            let set = |attribute, value: *const c_void, bytes| {
                result::set_matmul_desc_attribute(all.product, attribute, value, bytes).map_err(failed(what))
            };
            let operation = std::ptr::from_ref(&turned).cast();
            set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, operation, size_of_val(&turned))?;
            set(Attribute::CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::ptr::from_ref(&fast).cast(), 1)?;
        }
        let eight = sys::cudaDataType_t::CUDA_R_8F_E4M3;
        for (ty, rows, columns) in [(eight, k, rows), (eight, k, columns), (to, rows, columns)] {
            let (tall, wide) = (rows as u64, columns as u64);
            let layout = result::create_matrix_layout(ty, tall, wide, rows.max(1) as i64);
            all.layouts.push(layout.map_err(failed(what))?);
        }
        all.preference = result::create_matmul_pref().map_err(failed(what))?;
        let bytes = WORKSPACE * size_of::<i32>();
        // SAFETY: as above.
        unsafe {
            result::set_matmul_pref_attribute(
                all.preference,
                sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                std::ptr::from_ref(&bytes).cast(),
                size_of_val(&bytes),
            )
            .map_err(failed(what))?;
        }
        Ok(all)
    }
}

impl Cublas {
    /// C = (A·B)·`scale` for row-major A `[m, k]`, column-major B `[k, n]` and row-major C `[m, n]`, k a multiple of 16;
    /// overwrites the L2 cache first and returns the milliseconds of the product alone.
    ///
    /// # Errors
    /// [`Error::NoCublas`] without cuBLASLt, [`Error::Shape`] when the shapes do not fit or C is of 8-bit numbers, or what
    /// cuBLASLt says.
    pub fn gemm_f8<T: Float>(
        &self,
        a: &Buffer<f8>,
        b: &Buffer<f8>,
        scale: f32,
        c: &mut Buffer<T>,
    ) -> Result<f64, Error> {
        let [m, n, k] = super::extents(a.shape(), b.shape(), c.shape())?;
        let to = result_type(T::DTYPE).ok_or_else(|| {
            Error::Shape(format!("a product of f8 is not rounded to {} by cuBLASLt", T::DTYPE))
        })?;
        // SAFETY: looks for the library and nothing more.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::NoCublas);
        }
        let pa = self.pointer("a", a, Layout::RowMajor)?;
        let pb = self.pointer("b", b, Layout::ColumnMajor)?;
        let pc = self.pointer("c", c, Layout::RowMajor)?;
        let workspace = Buffer::<i32>::poisoned(&self.device, &[WORKSPACE])?;
        let at = self.pointer("workspace", &workspace, Layout::RowMajor)?;
        // Row-major C is column-major Cᵀ = Bᵀ·Aᵀ: B's columns are the first factor, A's rows the second one.
        let described = Described::new([n, m, k], to)?;
        let [first, second, third] = described.layouts[..] else { unreachable!("three were made") };
        // SAFETY: all that was described is live.
        let found = unsafe {
            result::get_matmul_algo_heuristic(
                described.handle,
                described.product,
                first,
                second,
                third,
                third,
                described.preference,
            )
        };
        let found = found.map_err(failed("cuBLASLt's choice of an algorithm"))?;
        for raw in [&a.raw, &b.raw, &c.raw, &workspace.raw] {
            raw.memory.wait(true)?;
        }
        let stream = self.device.inner.queue.cuda.as_ref();
        let stream = stream.map_or(std::ptr::null_mut(), |queue| queue.stream.cu_stream());
        let (alpha, beta) = (scale, 0f32);
        let scalar = |x: &f32| std::ptr::from_ref(x).cast::<c_void>();
        let timed = timing::timed(&self.device, &self.device.inner.queue, self.before(), || {
            // SAFETY: the shapes were checked against each other and the buffers, which live on this device and are borrowed
            // for the call; the call waits for the result.
            unsafe {
                result::matmul(
                    described.handle,
                    described.product,
                    scalar(&alpha),
                    scalar(&beta),
                    pb as *const c_void,
                    first,
                    pa as *const c_void,
                    second,
                    pc as *const c_void,
                    third,
                    pc as *mut c_void,
                    third,
                    &found.algo,
                    at as *mut c_void,
                    WORKSPACE * size_of::<i32>(),
                    stream.cast(),
                )
            }
            .map_err(failed("cuBLASLt's product"))
        })?;
        Ok(timed.1.unwrap_or_default())
    }
}

fn failed(what: &'static str) -> impl Fn(CublasError) -> Error {
    move |e| Error::Cuda { what, code: format!("{:?}", e.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    #[test]
    fn products_of_8_bit_numbers_agree_with_a_sum_by_hand() {
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
        let (m, n, k) = (32, 48, 64);
        let numbers = |count: usize, seed: usize| -> Vec<f8> {
            (0..count).map(|at| f8::from_f32(((at * 7 + seed) % 5) as f32 - 2.0)).collect()
        };
        let (rows, columns) = (numbers(m * k, 1), numbers(k * n, 3));
        let a = Buffer::from_slice(&device, &rows, &[m, k]).unwrap();
        let b = Buffer::from_slice_in(&device, &columns, &[k, n], Layout::ColumnMajor).unwrap();
        let mut c = Buffer::<half::bf16>::poisoned(&device, &[m, n]).unwrap();
        assert!(cublas.gemm_f8(&a, &b, 0.5, &mut c).unwrap() > 0.0);
        for (at, found) in c.to_vec().unwrap().into_iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let sum: f32 = (0..k).map(|l| rows[i * k + l].to_f32() * columns[j * k + l].to_f32()).sum();
            assert_eq!(found.to_f32(), half::bf16::from_f32(0.5 * sum).to_f32(), "C[{i}, {j}]");
        }
    }
}
