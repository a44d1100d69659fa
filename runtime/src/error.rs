//! Everything that can go wrong between a kernel call and its result.

mod words;

use crate::{geometry::Layout, schedule::AnySchedule, usage::MemoryUse};
use std::{fmt, ops::Range};
use tile_dsl::{dtype::DType, lower::Promise, program::Variant, schedule::Target};
use words::{dtype, layout_advice, list, more_memory, target_name, what_for};

/// An error of the runtime. The message says what to do; `docs/errors.md` has a card for each. Nothing has been written to any buffer when one of them
/// is returned, but for [`Error::Cuda`] during a launch.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A slice does not fill the tensor made from it.
    ///
    /// What to do: pass as many elements as the shape has.
    #[error("{elements} elements do not fill a tensor of shape {shape:?}")]
    DataLength {
        /// Shape asked for.
        shape: Vec<usize>,
        /// Elements given.
        elements: usize,
    },
    /// More elements than can be addressed.
    ///
    /// What to do: check the shape: a product of its numbers passes 64 bits.
    #[error("a tensor of shape {shape:?} has more bytes than can be addressed")]
    SizeOverflow {
        /// Shape asked for.
        shape: Vec<usize>,
    },
    /// A tensor that the hardware cannot address through a tensor map.
    ///
    /// What to do: pass a tensor that begins at a multiple of 16 bytes, with strides that are multiples of 16 bytes and below 2⁴⁰; or choose a schedule without `tma`.
    #[error("no tensor map of `{name}`: {what}")]
    TensorMap {
        /// The tensor.
        name: String,
        /// Why.
        what: String,
    },
    /// Strides that no tensor of the shape can have.
    ///
    /// What to do: give each dimension a stride of at least what the dimensions inside of it take.
    #[error("strides {strides:?} do not fit a tensor of shape {shape:?}: {what}")]
    Strides {
        /// Strides asked for, in elements.
        strides: Vec<usize>,
        /// Shape asked for.
        shape: Vec<usize>,
        /// What a fitting one needs.
        what: String,
    },
    /// A slice of what is not there.
    ///
    /// What to do: keep each range within `0..extent` of its dimension.
    #[error("the slice {ranges:?} leaves a tensor of shape {shape:?}")]
    Slice {
        /// Indices asked for, a range for each dimension.
        ranges: Vec<Range<usize>>,
        /// Shape of the tensor.
        shape: Vec<usize>,
    },
    /// A tensor with gaps where one without is needed.
    ///
    /// What to do: copy the view to a buffer of its own, or pass the whole tensor.
    #[error("a tensor of shape {shape:?} with strides {strides:?} has gaps, and {what} needs one without")]
    Gaps {
        /// Its shape.
        shape: Vec<usize>,
        /// Its strides in elements.
        strides: Vec<usize>,
        /// What was attempted.
        what: &'static str,
    },
    /// The device's memory does not suffice.
    ///
    /// What to do: drop buffers that are no longer used, use smaller ones, or give back what the pool holds by `Device::trim`.
    #[error(
        "{device} cannot hold tensors of {bytes} bytes: {} bytes are free, and its pool holds {}, of which {} are in use{}",
        .memory.free,
        .memory.reserved,
        .memory.in_use,
        more_memory(.device)
    )]
    OutOfMemory {
        /// The device.
        device: String,
        /// Bytes asked for.
        bytes: u128,
        /// How much of the device's memory is taken.
        memory: MemoryUse,
    },

    /// No CUDA driver.
    ///
    /// What to do: install NVIDIA's driver, or open `Device::sim()`. `cargo run --bin doctor` says what was looked for.
    #[error(
        "no CUDA driver is installed (libcuda was not found): install NVIDIA's driver, or use the simulator (`Device::sim()`)"
    )]
    NoDriver,
    /// A driver, but no such GPU.
    ///
    /// What to do: ask for a lower ordinal, or for `Device::auto()`. `CUDA_VISIBLE_DEVICES` hides GPUs.
    #[error("there is no CUDA device {ordinal}: this machine has {count}")]
    NoDevice {
        /// Ordinal asked for.
        ordinal: usize,
        /// Devices present.
        count: usize,
    },
    /// The GPU is older than the schedule's target.
    ///
    /// What to do: choose a schedule that names an older target after `on`, or the simulator.
    #[error(
        "schedule `{schedule}` needs {}, and {device} is sm_{sm}: choose a schedule for an older target, or the simulator",
        target_name(*.target)
    )]
    DeviceTooOld {
        /// The schedule.
        schedule: String,
        /// Its target.
        target: Target,
        /// The device.
        device: String,
        /// Compute capability of the device times ten.
        sm: u32,
    },
    /// The driver refused the PTX.
    ///
    /// What to do: read the log. A driver that is too old for the PTX says so there: update it. Anything else is a mistake of the compiler: report it.
    #[error("the driver rejects the PTX of `{entry}` ({code}). Its log:\n{log}")]
    PtxRejected {
        /// The kernel's entry.
        entry: String,
        /// CUDA's name for the error.
        code: String,
        /// What the driver's compiler said.
        log: String,
    },
    /// Another error of the CUDA driver.
    ///
    /// What to do: look the name up in the documentation of the driver. An illegal address or instruction is a mistake of the compiler, or of foreign memory that was passed in.
    #[error("CUDA: {what} failed with {code}")]
    Cuda {
        /// What was attempted.
        what: &'static str,
        /// CUDA's name and description of the error.
        code: String,
    },
    /// Work that was queued earlier failed on the device, which can do nothing more in this process.
    ///
    /// What to do: start a new process. Run the launches that are named on the simulator, which finds where one goes wrong.
    #[error("{} failed on the GPU with {code}; the process can use that GPU no more", pending(.launches))]
    Asynchronous {
        /// Launches that had not ended for certain, oldest first: kernel, schedule, variant.
        launches: Vec<String>,
        /// CUDA's name and description of the error.
        code: String,
    },
    /// Memory of a GPU, offered to the simulator.
    ///
    /// What to do: open that GPU by `Device::cuda`, and launch there.
    #[error("{device} cannot use memory of a GPU: open that GPU with `Device::cuda`")]
    ForeignMemory {
        /// The device.
        device: String,
    },
    /// A tensor of another library that no buffer can be.
    ///
    /// What to do: export a tensor of the element type that is asked for on the device of the stream, at an address that is aligned for it. `f8` has no code in DLPack 0.8.
    #[error("the DLPack tensor {what}")]
    Dlpack {
        /// What is wrong with it.
        what: String,
    },
    /// A stream of another device than the launch.
    ///
    /// What to do: open the stream by `Stream::new` on the device of the launch.
    #[error("the stream is one of {found}, and the launch is on {expected}: open a stream on that device")]
    StreamMismatch {
        /// Device of the stream.
        found: String,
        /// Device of the launch.
        expected: String,
    },
    /// A buffer was read, or passed to another launch, while a graph records launches on it.
    ///
    /// What to do: use the buffer after the replay that records the launch.
    #[error(
        "the buffer is used by a launch that a graph is recording: use it after the replay that records it"
    )]
    Recorded,
    /// cuBLAS is not installed, or not where libraries are looked for.
    ///
    /// What to do: install cuBLAS and name its folder in `LD_LIBRARY_PATH`. It is needed for comparisons only.
    #[cfg(feature = "cublas")]
    #[error(
        "cuBLAS was not found: install the CUDA toolkit's cuBLAS and name its folder in LD_LIBRARY_PATH (there must be a libcublas.so or libcublas.so.12)"
    )]
    NoCublas,
    /// No NCCL for a collective between GPUs.
    ///
    /// What to do: enable the feature `nccl` and install libnccl.so.2; name its folder in `LD_LIBRARY_PATH`.
    #[error("no NCCL: {why}")]
    NoNccl {
        /// What is missing.
        why: &'static str,
    },
    /// Devices, buffers, streams or recorders of a collective that do not belong together.
    ///
    /// What to do: give each device of the communicator one buffer and one stream, or all recorders of one replay, in its order.
    #[error("a collective: {what}")]
    Collective {
        /// What is wrong.
        what: String,
    },
    /// A variable of the environment by which ranks are told who they are is missing, or cannot be.
    ///
    /// What to do: start the processes by torchrun, or set `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `MASTER_ADDR` and `MASTER_PORT` as it does.
    #[error("{name} {what}")]
    Variable {
        /// Its name.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// Ranks did not meet.
    ///
    /// What to do: the message names the ranks that are missing, or what they disagree about. Give all the same number of ranks and the same address, each a rank of its own, and a port that is free.
    #[error("no rendezvous at {at}: {what}")]
    Rendezvous {
        /// Where they were to meet.
        at: String,
        /// Why they did not.
        what: String,
    },
    /// A rank has died, is not heard of, or makes other calls than the others. The communicator can be used no more.
    ///
    /// What to do: find out what happened to the rank that is named, in its own output. Begin anew with all ranks, in new processes where they had GPUs.
    #[error("the ranks work together no more: {what}")]
    RankLost {
        /// The rank that the message is about.
        rank: usize,
        /// What happened.
        what: String,
    },
    /// The simulator refused the PTX or the launch.
    ///
    /// What to do: read the reason. A limit of the simulator is one of `SimOptions`; PTX that it does not know needs a GPU.
    #[error("the simulator cannot run `{entry}`: {reason}")]
    Simulator {
        /// The kernel's entry.
        entry: String,
        /// Why.
        reason: String,
    },

    /// A schedule of another kernel.
    ///
    /// What to do: choose a schedule of this kernel.
    #[error("schedule `{schedule}` is for kernel `{scheduled}`, not for `{kernel}`")]
    WrongKernel {
        /// The schedule.
        schedule: String,
        /// The kernel it is for.
        scheduled: String,
        /// The kernel called.
        kernel: String,
    },
    /// A launch prepared for another element type.
    ///
    /// What to do: prepare the launch for the element type of the arguments, too.
    #[error("schedule `{schedule}` was prepared for {}, and the arguments are of {}", dtype(.prepared), dtype(.found))]
    PreparedFor {
        /// The schedule.
        schedule: String,
        /// Element type it was prepared for.
        prepared: Option<DType>,
        /// Element type of the arguments.
        found: Option<DType>,
    },
    /// A launch prepared on another device.
    ///
    /// What to do: prepare the launch on that device.
    #[error(
        "schedule `{schedule}` was prepared on {prepared}, and the launch is on {expected}: prepare it there"
    )]
    PreparedOn {
        /// The schedule.
        schedule: String,
        /// Device on which it was prepared.
        prepared: String,
        /// Device of the launch.
        expected: String,
    },
    /// The schedule was not proved for this element type.
    ///
    /// What to do: choose a schedule that lists the element type after its kernel, or add the type there.
    #[error(
        "schedule `{schedule}` does not admit {dtype}; it admits {}",
        list(.admitted)
    )]
    DTypeNotAdmitted {
        /// The schedule.
        schedule: String,
        /// The type asked for.
        dtype: DType,
        /// The types it admits.
        admitted: Vec<DType>,
    },
    /// The embedded program cannot be read.
    ///
    /// What to do: rebuild the crate that defines the schedule.
    #[error("schedule `{schedule}`: {source}")]
    Program {
        /// The schedule.
        schedule: String,
        /// Why.
        source: tile_dsl::program::DecodeError,
    },
    /// Wrong number or kind of arguments; only a launch put together by hand can have it.
    ///
    /// What to do: pass the arguments of the kernel's signature, in its order. The function that the macro makes does so.
    #[error("kernel `{kernel}`: {what}")]
    Arguments {
        /// The kernel.
        kernel: String,
        /// What is wrong.
        what: String,
    },
    /// An argument's element type is not its parameter's.
    ///
    /// What to do: convert the data, or declare the parameter with that type or with the generic one.
    #[error("`{name}` has elements of {found}, and the kernel takes {expected}")]
    DTypeMismatch {
        /// Parameter.
        name: String,
        /// The argument's type.
        found: DType,
        /// The parameter's type.
        expected: DType,
    },
    /// Launches of one group have other element types than one another.
    ///
    /// What to do: make a group for each element type.
    #[error("a group of launches of `{kernel}` for {} and for {}: one kernel computes them all", dtype(.first), dtype(.other))]
    GroupOf {
        /// The kernel.
        kernel: String,
        /// Element type of the first.
        first: Option<DType>,
        /// That of a later one.
        other: Option<DType>,
    },
    /// A tensor has another rank than its parameter.
    ///
    /// What to do: pass a tensor with as many dimensions as are declared.
    #[error("`{name}: {declared}` has rank {}, and the argument has shape {shape:?}", .rank)]
    Rank {
        /// Parameter.
        name: String,
        /// Its declared dimensions, as text.
        declared: String,
        /// How many those are.
        rank: usize,
        /// Shape of the argument.
        shape: Vec<usize>,
    },
    /// Two tensors disagree about a dim, or an extent does not come out.
    ///
    /// What to do: pass shapes that agree. The message names the dims and the tensors that say them.
    #[error("{0}")]
    Shape(String),
    /// A tensor is stored the other way round.
    ///
    /// What to do: create the tensor in the other layout, or choose a schedule with the other `layout`.
    #[error(
        "`{name}` of shape {shape:?} is {}, and schedule `{schedule}` was proved for a {} `{name}`: {}",
        .found.name(),
        .expected.name(),
        layout_advice(*.expected)
    )]
    LayoutMismatch {
        /// Parameter.
        name: String,
        /// Shape of the argument.
        shape: Vec<usize>,
        /// The schedule.
        schedule: String,
        /// Layout of the argument.
        found: Layout,
        /// Layout the schedule needs.
        expected: Layout,
    },
    /// An argument lives on another device than the launch.
    ///
    /// What to do: create the buffer on the device of the launch, or copy it there.
    #[error("`{name}` lives on {found}, and the launch is on {expected}: create the buffer on that device")]
    DeviceMismatch {
        /// Parameter.
        name: String,
        /// Device of the argument.
        found: String,
        /// Device of the launch.
        expected: String,
    },
    /// What the schedule asserts of every launch does not hold.
    ///
    /// What to do: launch a schedule without that `fits` or `multiple` where the extent does not keep to it.
    #[error(
        "schedule `{schedule}` {} under the assertion {}, and here {} = {value}: use a schedule without `{}`",
        .promise.reason, .promise.assumption, .promise.extent, .promise.directive
    )]
    Promise {
        /// The schedule.
        schedule: String,
        /// What it asserts.
        promise: Box<Promise>,
        /// The extent that it is about.
        value: i64,
    },
    /// A dim or the grid passes what 32 bits hold.
    ///
    /// What to do: launch parts of the work.
    #[error("{what} = {value} is more than {max}, the largest that a launch supports")]
    TooLarge {
        /// What.
        what: String,
        /// Its value.
        value: i128,
        /// The limit.
        max: i64,
    },
    /// The variant asked for makes assumptions that do not hold.
    ///
    /// What to do: let the launch choose its variant, or pass extents that keep to the assumptions.
    #[error("the {variant} variant of schedule `{schedule}` assumes {}, which does not hold here", .failed.join(", "))]
    Variant {
        /// The schedule.
        schedule: String,
        /// The variant.
        variant: Variant,
        /// Assumptions that fail.
        failed: Vec<String>,
    },

    /// A launch without a schedule, of a kernel for which none of the candidates is legal.
    ///
    /// What to do: write a schedule with `schedule!` and pass it by `.schedule(..)`. The message has the reason against the simplest candidate.
    #[error("kernel `{kernel}`: {why}")]
    NoSchedule {
        /// The kernel.
        kernel: String,
        /// What is against every candidate.
        why: Box<tile_auto::Error>,
    },

    /// A tuner has nothing to go by.
    ///
    /// What to do: pass tensors with elements: what takes no time cannot be ranked.
    #[error("{what}")]
    Tune {
        /// Why.
        what: String,
    },

    /// The scheduled program cannot be lowered.
    ///
    /// What to do: report it with the schedule: it is a mistake of the compiler. Another schedule may do meanwhile.
    #[error("schedule `{schedule}`: {reason}")]
    Lower {
        /// The schedule.
        schedule: String,
        /// Why.
        reason: String,
    },
    /// The kernel did not become PTX.
    ///
    /// What to do: the message is that of a `CompileError`, which has a card of its own.
    #[error(transparent)]
    Compile(#[from] backend_ptx::CompileError),
    /// No compiler in this build, and the kernel is not among those that it carries.
    ///
    /// What to do: name the schedule in the build script's `bundle!` with this element type, or enable the feature `jit`.
    #[error(
        "the {variant} variant of schedule `{schedule}`{} was not compiled ahead of time ({known} kernels were), and this build has no compiler: name it in the build script's `bundle!`, or enable the feature `jit`",
        what_for(.dtype, .gaps, *.grouped)
    )]
    NotCompiled {
        /// Whether for several problems in one launch.
        grouped: bool,
        /// The schedule.
        schedule: String,
        /// Element type of the generic parameter.
        dtype: Option<DType>,
        /// The variant that the launch needs.
        variant: Variant,
        /// Tensors with strides of their own.
        gaps: Vec<String>,
        /// Kernels that were compiled ahead of time.
        known: usize,
    },
    /// NVIDIA's assembler refuses a kernel.
    ///
    /// What to do: read what it said. An assembler that is too old for the PTX says so there: install a newer CUDA toolkit.
    #[error("ptxas does not assemble `{entry}` for {architecture}: {what}")]
    Assembler {
        /// The kernel's entry.
        entry: String,
        /// Architecture asked for.
        architecture: String,
        /// What it said.
        what: String,
    },
    /// Not the name of an architecture.
    ///
    /// What to do: write an architecture as in `sm_90` or `sm_90a`.
    #[error("`{name}` is no architecture: write `sm_90`, or `sm_90a`")]
    Architecture {
        /// What was given.
        name: String,
    },
    /// A file cannot be written.
    ///
    /// What to do: choose a folder that can be written, or make room.
    #[error("{path} cannot be written: {reason}")]
    Write {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// No compiler in this build, and a cache that might have had the PTX cannot be used.
    ///
    /// What to do: repair or name the folder in `TILEWRIGHT_CACHE_DIR`, or enable the feature `jit`.
    #[error(
        "this build has no compiler (feature `jit`), and the PTX cannot be had from the cache: {trouble}. Repair the cache, or enable `jit`"
    )]
    Cache {
        /// What is wrong with the cache.
        trouble: String,
    },
    /// PTX compiled ahead of time cannot be read.
    ///
    /// What to do: compile ahead of time again with this version.
    #[error(
        "the PTX compiled ahead of time is damaged or of another version of tilewright: compile it again"
    )]
    Precompiled,
}

impl Error {
    pub(crate) fn not_admitted(schedule: &dyn AnySchedule, dtype: Option<DType>) -> Self {
        Self::no_program(schedule.kernel(), schedule.name(), schedule.dtypes(), dtype)
    }

    pub(crate) fn wrong_kernel(schedule: &str, scheduled: &str, kernel: &str) -> Self {
        Error::WrongKernel { schedule: schedule.into(), scheduled: scheduled.into(), kernel: kernel.into() }
    }

    /// A schedule has no program for an element type.
    pub(crate) fn no_program(kernel: &str, schedule: &str, admitted: &[DType], dtype: Option<DType>) -> Self {
        match dtype {
            Some(dtype) => {
                Error::DTypeNotAdmitted { schedule: schedule.into(), dtype, admitted: admitted.to_vec() }
            }
            None => Error::Arguments {
                kernel: kernel.into(),
                what: format!("schedule `{schedule}` needs an element type, one of {}", list(admitted)),
            },
        }
    }
}

/// The message: a `main` that returns an error prints it in this form.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `one of: kernel ..; kernel ..`.
fn pending(launches: &[String]) -> String {
    match launches {
        [] => "work other than a kernel".into(),
        [one] => one.clone(),
        some => format!("one of [{}]", some.join("; ")),
    }
}
