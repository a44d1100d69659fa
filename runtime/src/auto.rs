//! Launches without a schedule: one is chosen from what the kernel does, the sizes of the arguments, and the GPU.
//!
//! A choice does not depend on launches before it, so every process makes the same one. It is kept: in the process, and in the cache
//! on disk, where another process finds the proved program and neither chooses nor proves again.

use crate::{
    arguments::LaunchArgs, device::Device, dims, error::Error, geometry::Layout, memory::lock, plan::Plan,
    question::Question,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeSet, HashMap},
    fmt::{self, Display, Write as _},
    sync::{Arc, LazyLock, Mutex},
};
use tile_auto::{Chosen, Gpu, Several, Sizes, Wanted, gpu, several};
use tile_dsl::{dtype::DType, program::Program, schedule::Target, tile};

/// A choice, and the plan of its program.
#[derive(Clone)]
pub(crate) struct Choice {
    pub(crate) picked: Arc<Picked>,
    pub(crate) plan: Arc<Plan>,
}

/// How the schedule of a launch was chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Picked {
    /// Its template with the numbers in its holes, or its name where the program has it.
    pub how: String,
    /// Microseconds: what the model expects, or the median of what was measured.
    pub us: f64,
    /// Whether the time was measured.
    pub by: By,
    /// Whether another process chose, and the disk had it.
    pub kept: bool,
    /// All that were measured, the quickest first; empty where the model chose.
    pub compared: Vec<Compared>,
    /// What went wrong without changing the choice, such as a cache that cannot be written.
    pub warnings: Vec<String>,
}

/// What a choice goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum By {
    /// A closed form over the kernel's structure, the sizes and the GPU.
    Model,
    /// Launches on the GPU.
    Measurement,
    /// Launches on the simulator, and the rates of an H200.
    Simulation,
}

/// One of several schedules that were compared for a launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Its template with the numbers in its holes, or its name where the program has it.
    pub how: String,
    /// Microseconds: the median, or the prediction of the simulator.
    pub us: f64,
    /// Launches that were timed.
    pub launches: u32,
}

impl fmt::Display for Picked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.by {
            By::Model => "expected by the model",
            By::Measurement => "measured",
            By::Simulation => "predicted from the simulator's counts",
        };
        write!(f, "{}: {:.2} us {by}", self.how, self.us)?;
        if self.kept {
            write!(f, ", kept on disk")?;
        }
        for other in self.compared.iter().skip(1) {
            write!(f, "\n  {:.2} us {}", other.us, other.how)?;
        }
        self.warnings.iter().try_for_each(|warning| write!(f, "\nwarning: {warning}"))
    }
}

/// What the disk keeps of a choice.
#[derive(Serialize, Deserialize)]
struct Kept {
    program: Vec<u8>,
    how: String,
    us: f64,
    by: By,
    compared: Vec<Compared>,
}

/// What a launch without a schedule asks.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Asked {
    /// The kernel, known by the place and length of its bytes, which live for ever.
    kernel: Place,
    dtype: Option<DType>,
    sizes: Vec<i64>,
    column_major: Vec<u16>,
    gpu: (&'static str, Target, u32),
}

/// Where bytes that live for ever begin, and how many they are.
type Place = (usize, usize);

/// Choices of this process.
static CHOICES: LazyLock<Mutex<HashMap<Asked, Choice>>> = LazyLock::new(Mutex::default);

/// Kernels by the place and length of their bytes.
static KERNELS: LazyLock<Mutex<Kernels>> = LazyLock::new(Mutex::default);

type Kernels = HashMap<Place, Arc<Known>>;

/// A kernel, and the checksum of its bytes.
struct Known {
    kernel: tile::Kernel,
    checksum: String,
}

/// Plans by the bytes of their programs, for ever: devices know what they have loaded by the place of a plan.
static PLANS: LazyLock<Mutex<HashMap<Vec<u8>, Arc<Plan>>>> = LazyLock::new(Mutex::default);

/// Beyond so many choices they are made anew.
const MOST_CHOICES: usize = 4096;

/// All that is known of a launch before it has a schedule.
pub(crate) struct Site {
    known: Arc<Known>,
    pub(crate) device: Device,
    gpu: Gpu,
    sizes: Sizes,
    asked: Asked,
}

impl Site {
    /// Of a launch of the kernel that `bytes` encode.
    ///
    /// # Errors
    /// [`Error::Program`] of bytes of another version; [`Error::Arguments`]; those of shapes.
    pub(crate) fn of(args: &LaunchArgs<'_>, bytes: &'static [u8]) -> Result<Site, Error> {
        let known = kernel(args, bytes)?;
        let kernel = &known.kernel;
        let (given, expected) = (args.tensors.len(), kernel.tensors.len());
        if given != expected {
            let what = format!("it takes {expected} tensors and {} scalars", kernel.scalars.len());
            return Err(Error::Arguments { kernel: args.kernel.into(), what });
        }
        let device = args.device(None)?.clone();
        let gpu = device.model()?;
        let shapes: Vec<&[usize]> = args.tensors.iter().map(|(_, t)| &t.raw().geometry.shape[..]).collect();
        let sizes: Sizes = dims::resolve(&kernel.tensors, &shapes)?;
        let turned = |t: &usize| {
            let geometry = &args.tensors.iter().nth(*t).expect("a tensor for each").1.raw().geometry;
            geometry.layout == Layout::ColumnMajor && geometry.shape.len() > 1
        };
        let asked = Asked {
            kernel: place(bytes),
            dtype: args.dtype,
            sizes: sizes.values().copied().collect(),
            column_major: (0..given).filter(turned).map(|t| t as u16).collect(),
            gpu: (gpu.name, gpu.target, gpu.multiprocessors as u32),
        };
        Ok(Site { known, device, gpu, sizes, asked })
    }

    /// Candidates, `most` at most.
    ///
    /// # Errors
    /// [`Error::NoSchedule`].
    pub(crate) fn several(&self, most: usize) -> Result<Several, Error> {
        let kernel = &self.known.kernel;
        let named = self.asked.column_major.iter().map(|t| kernel.tensors[usize::from(*t)].name.clone());
        let column_major: BTreeSet<String> = named.collect();
        let wanted = Wanted {
            kernel,
            dtype: self.asked.dtype,
            sizes: &self.sizes,
            column_major: &column_major,
            gpu: &self.gpu,
        };
        several(&wanted, most)
            .map_err(|why| Error::NoSchedule { kernel: kernel.name.clone(), why: Box::new(why) })
    }

    /// What a choice is kept under on disk, with sizes as `class` has them.
    pub(crate) fn question<C: Display>(&self, class: impl Fn(i64) -> C) -> Question {
        let (name, target, multiprocessors) = self.asked.gpu;
        let mut text = format!(
            "{} · {} · {} · {name} on {target} · {multiprocessors} multiprocessors · {:?} · columns {:?} ·",
            tile_dsl::VERSION,
            tile_auto::VERSION,
            self.known.checksum,
            self.asked.dtype,
            self.asked.column_major
        );
        for (name, size) in &self.sizes {
            let _ = write!(text, " {name} = {}", class(*size));
        }
        Question(text)
    }

    /// What the disk has under a question.
    pub(crate) fn recall(&self, question: &Question) -> Option<Choice> {
        let Kept { program, how, us, by, compared } = question.recall(&self.device.cache)?;
        let plan = plan(&Program::from_bytes(&program).ok()?, program);
        let picked = Picked { how, us, by, kept: true, compared, warnings: Vec::new() };
        Some(Choice { picked: Arc::new(picked), plan })
    }

    /// A choice, which the disk keeps from now on.
    pub(crate) fn keep(&self, question: &Question, mut picked: Picked, plan: Arc<Plan>) -> Choice {
        let kept = Kept {
            program: plan.program.to_bytes(),
            how: picked.how.clone(),
            us: picked.us,
            by: picked.by,
            compared: picked.compared.clone(),
        };
        if let Err(e) = question.keep(&self.device.cache, &kept) {
            picked.warnings.push(format!("the choice of a schedule cannot be kept: {e}"));
        }
        Choice { picked: Arc::new(picked), plan }
    }

    /// The model's choice.
    ///
    /// # Errors
    /// [`Error::NoSchedule`].
    pub(crate) fn choice(&self) -> Result<Choice, Error> {
        if let Some(known) = lock(&CHOICES).get(&self.asked) {
            return Ok(known.clone());
        }
        let question = self.question(|size| size);
        let choice = match self.recall(&question) {
            Some(kept) => kept,
            None => {
                let first = self.several(1)?.first;
                let ranked = first.choice();
                let (how, us) = (ranked.candidate.to_string(), ranked.prediction.us);
                let picked = Picked {
                    how,
                    us,
                    by: By::Model,
                    kept: false,
                    compared: Vec::new(),
                    warnings: Vec::new(),
                };
                self.keep(&question, picked, planned(&first.program))
            }
        };
        let mut choices = lock(&CHOICES);
        if choices.len() >= MOST_CHOICES {
            choices.clear();
        }
        Ok(choices.entry(self.asked.clone()).or_insert(choice).clone())
    }

    /// The model's choice with all its reasons, made anew.
    ///
    /// # Errors
    /// [`Error::NoSchedule`].
    pub(crate) fn explained(&self) -> Result<Chosen, Error> {
        self.several(1).map(|several| several.first)
    }
}

/// The plan of a program, the same each time.
pub(crate) fn planned(program: &Program) -> Arc<Plan> {
    plan(program, program.to_bytes())
}

fn plan(program: &Program, encoded: Vec<u8>) -> Arc<Plan> {
    if let Some(plan) = lock(&PLANS).get(&encoded) {
        return plan.clone();
    }
    let plan = Arc::new(Plan::new(program.clone(), &encoded));
    lock(&PLANS).entry(encoded).or_insert(plan).clone()
}

fn place(bytes: &'static [u8]) -> Place {
    (bytes.as_ptr() as usize, bytes.len())
}

/// The kernel that bytes encode, decoded once.
fn kernel(args: &LaunchArgs<'_>, bytes: &'static [u8]) -> Result<Arc<Known>, Error> {
    if let Some(known) = lock(&KERNELS).get(&place(bytes)) {
        return Ok(known.clone());
    }
    let kernel = tile::Kernel::from_bytes(bytes)
        .map_err(|source| Error::Program { schedule: args.kernel.into(), source })?;
    let checksum =
        Sha256::digest(bytes).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let known = Arc::new(Known { kernel, checksum });
    Ok(lock(&KERNELS).entry(place(bytes)).or_insert(known).clone())
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
