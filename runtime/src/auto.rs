//! Launches without a schedule: one is chosen from what the kernel does, the sizes of the arguments, and the GPU.
//!
//! A choice is made once in a process for a kernel, element type, values of the dims, layouts of the arguments, and GPU. It does not
//! depend on launches before it, so another process makes the same one.

use crate::{
    arguments::LaunchArgs, device::Device, dims, error::Error, geometry::Layout, memory::lock, plan::Plan,
};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, LazyLock, Mutex},
};
use tile_auto::{Chosen, Gpu, Sizes, Wanted, choose, gpu};
use tile_dsl::{dtype::DType, schedule::Target, tile};

/// A choice, and the plan of its program.
#[derive(Clone)]
pub(crate) struct Choice {
    pub(crate) chosen: Arc<Chosen>,
    pub(crate) plan: Arc<Plan>,
}

/// All that decides a choice. The kernel is known by the place and length of its bytes, which live for ever.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Question {
    kernel: Place,
    dtype: Option<DType>,
    sizes: Vec<i64>,
    column_major: Vec<u16>,
    gpu: (&'static str, Target, u32),
}

/// Where bytes that live for ever begin, and how many they are.
type Place = (usize, usize);

/// Choices of this process.
static CHOICES: LazyLock<Mutex<HashMap<Question, Choice>>> = LazyLock::new(Mutex::default);

/// Kernels by the place and length of their bytes.
static KERNELS: LazyLock<Mutex<Kernels>> = LazyLock::new(Mutex::default);

type Kernels = HashMap<Place, Arc<tile::Kernel>>;

/// Plans by the bytes of their programs, for ever: devices know what they have loaded by the place of a plan.
static PLANS: LazyLock<Mutex<HashMap<Vec<u8>, Arc<Plan>>>> = LazyLock::new(Mutex::default);

/// Beyond so many choices they are made anew.
const MOST_CHOICES: usize = 4096;

/// The schedule for a launch of the kernel that `bytes` encode.
///
/// # Errors
/// [`Error::Program`] of bytes of another version; [`Error::Arguments`]; those of shapes; [`Error::NoSchedule`].
pub(crate) fn choice(args: &LaunchArgs<'_>, bytes: &'static [u8]) -> Result<Choice, Error> {
    let kernel = kernel(args, bytes)?;
    let (given, expected) = (args.tensors.len(), kernel.tensors.len());
    if given != expected {
        let what = format!("it takes {expected} tensors and {} scalars", kernel.scalars.len());
        return Err(Error::Arguments { kernel: args.kernel.into(), what });
    }
    let device = args.device(None)?;
    let gpu = device.model()?;
    let shapes: Vec<&[usize]> = args.tensors.iter().map(|(_, t)| &t.raw().geometry.shape[..]).collect();
    let sizes: Sizes = dims::resolve(&kernel.tensors, &shapes)?;
    let turned = |t: &usize| {
        let geometry = &args.tensors.iter().nth(*t).expect("a tensor for each").1.raw().geometry;
        geometry.layout == Layout::ColumnMajor && geometry.shape.len() > 1
    };
    let column_major: Vec<u16> = (0..given).filter(turned).map(|t| t as u16).collect();
    let question = Question {
        kernel: place(bytes),
        dtype: args.dtype,
        sizes: sizes.values().copied().collect(),
        column_major,
        gpu: (gpu.name, gpu.target, gpu.multiprocessors as u32),
    };
    if let Some(known) = lock(&CHOICES).get(&question) {
        return Ok(known.clone());
    }
    let named: BTreeSet<String> =
        question.column_major.iter().map(|t| kernel.tensors[usize::from(*t)].name.clone()).collect();
    let wanted =
        Wanted { kernel: &kernel, dtype: args.dtype, sizes: &sizes, column_major: &named, gpu: &gpu };
    let chosen = choose(&wanted)
        .map_err(|why| Error::NoSchedule { kernel: args.kernel.into(), why: Box::new(why) })?;
    let encoded = chosen.program.to_bytes();
    let plan = {
        let mut plans = lock(&PLANS);
        match plans.get(&encoded) {
            Some(plan) => plan.clone(),
            None => {
                let plan = Arc::new(Plan::new(chosen.program.clone(), &encoded));
                plans.entry(encoded).or_insert(plan).clone()
            }
        }
    };
    let choice = Choice { chosen: Arc::new(chosen), plan };
    let mut choices = lock(&CHOICES);
    if choices.len() >= MOST_CHOICES {
        choices.clear();
    }
    Ok(choices.entry(question).or_insert(choice).clone())
}

fn place(bytes: &'static [u8]) -> Place {
    (bytes.as_ptr() as usize, bytes.len())
}

/// The kernel that bytes encode, decoded once.
fn kernel(args: &LaunchArgs<'_>, bytes: &'static [u8]) -> Result<Arc<tile::Kernel>, Error> {
    if let Some(known) = lock(&KERNELS).get(&place(bytes)) {
        return Ok(known.clone());
    }
    let kernel = tile::Kernel::from_bytes(bytes)
        .map_err(|source| Error::Program { schedule: args.kernel.into(), source })?;
    Ok(lock(&KERNELS).entry(place(bytes)).or_insert(Arc::new(kernel)).clone())
}

impl Device {
    /// The GPU that schedules are chosen for, as the model of choices knows it. The simulator stands for an H200.
    ///
    /// # Errors
    /// The driver's.
    pub fn model(&self) -> Result<Gpu, Error> {
        Ok(match self.gpu()? {
            Some(info) => Gpu::of(&info.name, info.sm, info.multiprocessors),
            None => gpu::H200,
        })
    }
}
