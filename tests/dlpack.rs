//! Tensors of other libraries in place, on the simulator, whose memory is the host's.

use std::{
    ffi::c_void,
    ptr::{NonNull, null_mut},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tilewright::{
    PtxCache, Variant,
    dlpack::{self, DLDataType, DLDevice, DLManagedTensor, DLTensor, from_dlpack},
    prelude::*,
};

/// x + 1, in place.
#[tile_kernel]
fn increment(x: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    store(x, [i, j], load(x, [i, j]) + 1.0);
}

schedule! {
    rows for increment {
        tile(i = 1, j = 128);
        split(j -> jt, jv: 4);
        bind(jt -> thread.x);
        vectorize(jv);
    }
}

/// What a producer keeps of a tensor.
struct Owner {
    tensor: DLManagedTensor,
    shape: Vec<i64>,
    strides: Vec<i64>,
    data: Vec<u64>,
    deleted: Arc<AtomicUsize>,
}

unsafe extern "C" fn delete(tensor: *mut DLManagedTensor) {
    // SAFETY: called once by the consumer, with what `produce` made.
    let owner = unsafe { Box::from_raw((*tensor).manager_ctx.cast::<Owner>()) };
    owner.deleted.fetch_add(1, Ordering::Relaxed);
}

/// A tensor of another library, of so many bytes of zeros; how often it was deleted.
struct Produced {
    tensor: NonNull<DLManagedTensor>,
    deleted: Arc<AtomicUsize>,
}

impl Produced {
    fn new(bytes: usize, shape: &[i64], strides: Option<&[i64]>) -> Self {
        let deleted = Arc::new(AtomicUsize::new(0));
        let dl_tensor = DLTensor {
            data: null_mut(),
            device: DLDevice { device_type: dlpack::CPU, device_id: 0 },
            ndim: shape.len() as i32,
            dtype: DLDataType::of::<f32>().unwrap(),
            shape: null_mut(),
            strides: null_mut(),
            byte_offset: 0,
        };
        let owner = Box::into_raw(Box::new(Owner {
            tensor: DLManagedTensor { dl_tensor, manager_ctx: null_mut(), deleter: Some(delete) },
            shape: shape.to_vec(),
            strides: strides.unwrap_or_default().to_vec(),
            // As well aligned as libraries have it.
            data: vec![0; bytes.div_ceil(8) + 8],
            deleted: deleted.clone(),
        }));
        // SAFETY: it was just made.
        unsafe {
            let skew = (*owner).data.as_ptr().cast::<u8>().align_offset(64);
            let tensor = &mut (*owner).tensor;
            tensor.manager_ctx = owner.cast::<c_void>();
            tensor.dl_tensor.data = (*owner).data.as_mut_ptr().cast::<c_void>().byte_add(skew);
            tensor.dl_tensor.shape = (*owner).shape.as_mut_ptr();
            if strides.is_some() {
                tensor.dl_tensor.strides = (*owner).strides.as_mut_ptr();
            }
            Produced { tensor: NonNull::from(tensor), deleted }
        }
    }

    /// With something else said of it.
    fn with(mut self, change: impl FnOnce(&mut DLTensor)) -> Self {
        // SAFETY: no one else has it yet.
        change(unsafe { &mut self.tensor.as_mut().dl_tensor });
        self
    }

    fn deleted(&self) -> usize {
        self.deleted.load(Ordering::Relaxed)
    }

    /// Why it is not taken; it is deleted then as its producer would.
    fn refused<T: Element>(self, stream: &Stream) -> String {
        // SAFETY: it lives, and is not taken.
        let error = unsafe { from_dlpack::<T>(stream, self.tensor) }.unwrap_err();
        assert_eq!(self.deleted(), 0, "it is still the producer's: {error}");
        // SAFETY: no one else deletes it.
        unsafe { delete(self.tensor.as_ptr()) };
        error.to_string()
    }
}

fn stream() -> Stream {
    Stream::new(&Device::sim().with_cache(PtxCache::disabled())).unwrap()
}

#[test]
fn a_tensor_is_used_in_place_and_deleted_once() {
    let stream = stream();
    // Rows of 4096 columns, 4100 apart; then one element further on.
    for (offset, variant) in [(0, Variant::Exact), (4, Variant::General)] {
        let produced = Produced::new(2 * 4100 * 4, &[2, 4096], Some(&[4100, 1]));
        let produced = produced.with(|tensor| tensor.byte_offset = offset);
        // SAFETY: it lives, is taken once, and is not used meanwhile.
        let mut x: Buffer<f32> = unsafe { from_dlpack(&stream, produced.tensor) }.unwrap();
        assert_eq!((x.shape(), x.strides()), (&[2, 4096][..], &[4100, 1][..]));
        let report = increment(&mut x).schedule(rows).device(stream.device()).run().unwrap();
        assert_eq!(report.variant, Some(variant));
        let launched = increment(&mut x.slice_mut(&[1..2, 0..4096]).unwrap()).schedule(rows).enqueue(&stream);
        assert_eq!(launched.unwrap().variant, Some(variant));
        assert_eq!(produced.deleted(), 0);
        // SAFETY: the tensor lives, and nothing is under way.
        let data = unsafe {
            let start = produced.tensor.as_ref().dl_tensor.data.cast::<f32>();
            std::slice::from_raw_parts(start, 2 * 4100).to_vec()
        };
        let first = offset as usize / 4;
        let expected = |n: usize| match (n / 4100, n % 4100) {
            (row, column) if (first..first + 4096).contains(&column) => row as f32 + 1.0,
            _ => 0.0,
        };
        assert_eq!((0..data.len()).find(|n| data[*n] != expected(*n)), None, "offset {offset}");
        assert_eq!(x.to_vec().unwrap(), [vec![1.0; 4096], vec![2.0; 4096]].concat());
        drop(x);
        assert_eq!(produced.deleted(), 1);
    }
}

#[test]
fn layouts_are_what_the_strides_say() {
    let stream = stream();
    let taken = |shape: &[i64], strides: Option<&[i64]>| {
        let produced = Produced::new(4096, shape, strides);
        // SAFETY: it lives, is taken once, and is not used meanwhile.
        let x: Buffer<f32> = unsafe { from_dlpack(&stream, produced.tensor) }.unwrap();
        assert_eq!(x.to_vec().unwrap().len(), shape.iter().product::<i64>() as usize);
        (x.layout(), x.strides().to_vec())
    };
    assert_eq!(taken(&[2, 3], None), (Layout::RowMajor, vec![3, 1]));
    assert_eq!(taken(&[2, 3], Some(&[1, 2])), (Layout::ColumnMajor, vec![1, 2]));
    assert_eq!(taken(&[2, 3], Some(&[1, 7])), (Layout::ColumnMajor, vec![1, 7]));
    assert_eq!(taken(&[5, 1], Some(&[1, 9])), (Layout::RowMajor, vec![1, 1]));
    assert_eq!(taken(&[1, 5], Some(&[0, 1])), (Layout::RowMajor, vec![5, 1]));
    assert_eq!(taken(&[2, 1, 3], Some(&[20, 0, 1])), (Layout::RowMajor, vec![20, 3, 1]));
    assert_eq!(taken(&[0, 3], Some(&[1, 1])).0, Layout::RowMajor);
}

#[test]
fn a_buffer_goes_out_and_comes_back() {
    let stream = stream();
    let device = stream.device().clone();
    let x = Buffer::from_slice_in(&device, &[1, 2, 3, 4, 5, 6], &[2, 3], Layout::ColumnMajor).unwrap();
    let tensor = x.into_dlpack().unwrap();
    // SAFETY: the tensor lives until it is taken, and what it points to until the buffer is gone.
    unsafe {
        let DLTensor { data, device: place, ndim, dtype, shape, strides, byte_offset } =
            &tensor.as_ref().dl_tensor;
        let numbers = |of: *mut i64| std::slice::from_raw_parts(of, 2).to_vec();
        assert_eq!((*ndim, numbers(*shape), numbers(*strides)), (2, vec![2, 3], vec![1, 2]));
        assert_eq!((*dtype, *byte_offset), (DLDataType { code: 0, bits: 32, lanes: 1 }, 0));
        assert_eq!(*place, DLDevice { device_type: 1, device_id: 0 });
        assert_eq!(std::slice::from_raw_parts(data.cast::<i32>(), 6), [1, 2, 3, 4, 5, 6]);
        let before = *data;
        let back: Buffer<i32> = from_dlpack(&stream, tensor).unwrap();
        assert_eq!(back.to_vec().unwrap(), [1, 2, 3, 4, 5, 6]);
        let again = back.into_dlpack().unwrap();
        assert_eq!(again.as_ref().dl_tensor.data, before);
        assert_eq!(device.memory().unwrap().in_use, 24);
        (again.as_ref().deleter.unwrap())(again.as_ptr());
    }
    assert_eq!(device.memory().unwrap().in_use, 0, "each deleter was called");
    let data_types =
        [DLDataType::of::<f32>(), DLDataType::of::<f16>(), DLDataType::of::<bf16>()].map(Result::unwrap);
    assert_eq!(data_types.map(|t| (t.code, t.bits)), [(2, 32), (2, 16), (4, 16)]);
}

/// What is not in a mask, in place.
#[tile_kernel]
fn inverse(mask: &mut Tensor<bool, N>) {
    let i = program_tile(N);
    store(mask, [i], !load(mask, [i]));
}

schedule! {
    wide for inverse {
        tile(i = 64);
        split(i -> it, iv: 16);
        bind(it -> thread.x);
        vectorize(iv);
    }
}

#[test]
fn masks_of_any_bytes_come_in() {
    let stream = stream();
    for n in [64, 70] {
        let bytes = |i: usize| [0, 1, 2, 255, 0][i % 5];
        let produced = Produced::new(n, &[n as i64], None).with(|tensor| {
            tensor.dtype = DLDataType { code: dlpack::BOOL, bits: 8, lanes: 1 };
            // SAFETY: so many bytes are there, and no one else uses them.
            (0..n).for_each(|i| unsafe { *tensor.data.cast::<u8>().add(i) = bytes(i) });
        });
        // SAFETY: it lives, is taken once, and is not used meanwhile.
        let mut mask: Buffer<bool> = unsafe { from_dlpack(&stream, produced.tensor) }.unwrap();
        assert_eq!(mask.to_vec().unwrap(), (0..n).map(|i| bytes(i) != 0).collect::<Vec<_>>());
        inverse(&mut mask).schedule(wide).device(stream.device()).run().unwrap();
        let tensor = mask.into_dlpack().unwrap();
        // SAFETY: the tensor lives until its deleter is called.
        unsafe {
            let found = &tensor.as_ref().dl_tensor;
            assert_eq!(found.dtype, DLDataType { code: 6, bits: 8, lanes: 1 });
            let stored = std::slice::from_raw_parts(found.data.cast::<u8>(), n);
            assert_eq!(stored, (0..n).map(|i| u8::from(bytes(i) == 0)).collect::<Vec<_>>());
            (tensor.as_ref().deleter.unwrap())(tensor.as_ptr());
        }
        assert_eq!(produced.deleted(), 1);
    }
}

#[test]
fn eight_bit_elements_have_no_code() {
    let stream = stream();
    let wanted = "the DLPack tensor would have elements of f8, for which DLPack 0.8 has no code";
    assert_eq!(Produced::new(4096, &[2, 3], None).refused::<f8>(&stream), wanted);
    let buffer = Buffer::from_slice(stream.device(), &[f8::ONE], &[1]).unwrap();
    assert_eq!(buffer.into_dlpack().unwrap_err().to_string(), wanted);
}

#[test]
fn what_no_buffer_can_be_is_refused() {
    let stream = stream();
    let plain = || Produced::new(4096, &[2, 3], None);
    assert_eq!(
        plain().refused::<f16>(&stream),
        "the DLPack tensor has elements of float32, and a buffer of float16 was asked for"
    );
    assert_eq!(
        plain().with(|t| t.dtype = DLDataType { code: 4, bits: 16, lanes: 4 }).refused::<bf16>(&stream),
        "the DLPack tensor has elements of bfloat16 in vectors of 4, and a buffer of bfloat16 was asked for"
    );
    assert_eq!(
        plain().with(|t| t.device.device_type = dlpack::CUDA).refused::<f32>(&stream),
        "`the tensor` lives on CUDA device 0, and the launch is on simulator: create the buffer on that device"
    );
    assert_eq!(
        plain().with(|t| t.device.device_type = 10).refused::<f32>(&stream),
        "`the tensor` lives on a device of DLPack's type 10, and the launch is on simulator: create the buffer on that device"
    );
    assert_eq!(
        Produced::new(64, &[1; 7], None).refused::<f32>(&stream),
        "the DLPack tensor has 7 dimensions, and kernels take at most 6"
    );
    assert_eq!(
        Produced::new(64, &[2, -1], None).refused::<f32>(&stream),
        "the DLPack tensor has extent -1 in dimension 1"
    );
    assert_eq!(
        Produced::new(64, &[2, 3], Some(&[-3, 1])).refused::<f32>(&stream),
        "the DLPack tensor has stride -3 in dimension 0"
    );
    assert_eq!(
        Produced::new(64, &[2, 3], Some(&[0, 1])).refused::<f32>(&stream),
        "strides [0, 1] do not fit a tensor of shape [2, 3]: dimension 0 needs a stride of at least 3"
    );
    assert_eq!(
        Produced::new(64, &[2, 3], Some(&[6, 2])).refused::<f32>(&stream),
        "strides [6, 2] do not fit a tensor of shape [2, 3]: dimension 1, its contiguous one, needs stride 1"
    );
    let told = |code, bits| move |t: &mut DLTensor| t.dtype = DLDataType { code, bits, lanes: 1 };
    assert_eq!(
        plain().with(told(1, 8)).refused::<bool>(&stream),
        "the DLPack tensor has elements of uint8, and a buffer of bool was asked for"
    );
    assert_eq!(
        plain().with(told(6, 32)).refused::<bool>(&stream),
        "the DLPack tensor has elements of bool32, and a buffer of bool was asked for"
    );
    let odd = plain().with(|t| t.byte_offset = 2);
    // SAFETY: it lives.
    let address = unsafe { odd.tensor.as_ref().dl_tensor.data as u64 } + 2;
    assert_eq!(
        odd.refused::<f32>(&stream),
        format!("the DLPack tensor has its first element at {address:#x}, no multiple of 4 bytes")
    );
    assert_eq!(
        plain().with(|t| t.data = null_mut()).refused::<f32>(&stream),
        "the DLPack tensor has elements and no memory"
    );
    assert_eq!(
        plain().with(|t| t.byte_offset = u64::MAX).refused::<f32>(&stream),
        "the DLPack tensor has an offset beyond all addresses"
    );
    assert_eq!(
        Produced::new(64, &[i64::MAX, 8], None).refused::<f32>(&stream),
        "a tensor of shape [9223372036854775807, 8] has more bytes than can be addressed"
    );
    let Ok(gpu) = Device::cuda(0) else { return };
    let error = plain().refused::<f32>(&Stream::new(&gpu).unwrap());
    assert!(
        error.starts_with("`the tensor` lives on the host, and the launch is on CUDA device 0"),
        "{error}"
    );
}
