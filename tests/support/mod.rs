//! Runs any kernel under any schedule on random inputs and compares the executors.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};
use tile_dsl::{
    engine::testing::Random,
    kernel::interpret::{Launch as RunKernel, interpret as interpret_kernel},
    lower::{assumptions, lower},
    nest::{Arithmetic, interpret},
    program::Program,
    tile::{
        ElemType, Kernel as TileKernel,
        evaluate::{Elements, Inputs, Reference, reference},
    },
};
use tile_fuzz::launch::buffer;
use tilewright::{
    AnyBuffer, AnySchedule, DType, Device, Error, Kernel, Launch, LaunchArgs, LaunchReport, Layout, Variant,
};

/// The factor γ of the bound on the error: 1 covers every order of summation.
const GAMMA: f64 = 1.0;

/// Sizes of the tiles that a kernel sees, by axis name.
type Tiles = BTreeMap<String, u32>;

/// One kernel on fixed random inputs, with its reference in f64.
pub struct Case {
    kernel: TileKernel,
    dtype: Option<DType>,
    inputs: Inputs,
    shapes: BTreeMap<String, Vec<usize>>,
    /// By the tiles that the kernel sees.
    expected: RefCell<BTreeMap<Tiles, Rc<BTreeMap<String, Reference>>>>,
    text: String,
}

/// Of some schedules those of one kernel.
#[allow(dead_code)] // each test uses its part
pub fn of_kernel(all: &[&'static dyn AnySchedule], kernel: &str) -> Vec<&'static dyn AnySchedule> {
    all.iter().copied().filter(|schedule| schedule.kernel() == kernel).collect()
}

/// All executors agree for every schedule and size, in every variant.
#[allow(dead_code)] // each test uses its part
pub fn agree<K: Kernel>(
    encoded: &[u8],
    dtype: Option<DType>,
    schedules: &[&dyn AnySchedule],
    sizes: &[&[(&str, i64)]],
) {
    for dims in sizes {
        let case = Case::new(encoded, dtype, dims, 23);
        for schedule in schedules {
            case.check_nest(*schedule);
            case.check_simulator::<K>(*schedule);
        }
    }
}

impl Case {
    /// Normal-like inputs (the sum of four uniform numbers) for the kernel of type `K`.
    pub fn new(encoded: &[u8], dtype: Option<DType>, dims: &[(&str, i64)], seed: u64) -> Self {
        let kernel = TileKernel::from_bytes(encoded).expect("an embedded kernel").instantiate(dtype);
        let dims: BTreeMap<String, i64> = dims.iter().map(|(name, n)| (name.to_string(), *n)).collect();
        let mut random = Random::new(seed);
        let mut uniform = move || (random.next() % 20_001) as f64 / 10_000.0 - 1.0;
        let mut inputs = Inputs { dims, ..Inputs::default() };
        let mut shapes = BTreeMap::new();
        for tensor in &kernel.tensors {
            let extent =
                |e: &tile_dsl::index::Extent| e.eval(&inputs.dims).expect("all dims are given") as usize;
            let shape: Vec<usize> = tensor.dims.iter().map(extent).collect();
            let ElemType::Fixed(elem) = tensor.elem else { panic!("the kernel is instantiated") };
            let values = (0..shape.iter().product()).map(|_| (0..4).map(|_| uniform()).sum());
            inputs.tensors.insert(tensor.name.clone(), Elements::from_f64(elem, values));
            shapes.insert(tensor.name.clone(), shape);
        }
        for scalar in &kernel.scalars {
            let ElemType::Fixed(elem) = scalar.elem else { panic!("the kernel is instantiated") };
            inputs.scalars.insert(scalar.name.clone(), elem.round(uniform() as f32).into());
        }
        let text = format!("{} {dtype:?} {:?}, seed {seed}", kernel.name, inputs.dims);
        Case { kernel, dtype, inputs, shapes, expected: RefCell::default(), text }
    }

    /// As [`Case::new`], with these elements in some tensors.
    #[allow(dead_code)] // each test uses its part
    pub fn with(
        encoded: &[u8],
        dtype: Option<DType>,
        dims: &[(&str, i64)],
        tensors: &[(&str, Vec<f64>)],
    ) -> Self {
        let mut case = Case::new(encoded, dtype, dims, 5);
        for (name, elements) in tensors {
            let old = case.inputs.tensors.get_mut(*name).expect("a tensor of the kernel");
            *old = Elements::from_f64(old.dtype(), elements.iter().copied());
        }
        case
    }

    /// The same with another number as a scalar.
    #[allow(dead_code)] // each test uses its part
    pub fn scalar(mut self, name: &str, value: f64) -> Self {
        self.inputs.scalars.insert(name.into(), value);
        self
    }

    /// The same with scalars above zero.
    #[allow(dead_code)] // each test uses its part
    pub fn positive(mut self) -> Self {
        self.inputs.scalars.values_mut().for_each(|x| *x = x.abs());
        self
    }

    /// What the kernel computes in tiles of the sizes that a program says.
    fn expected(&self, program: &Program) -> Rc<BTreeMap<String, Reference>> {
        let tiles = program.nest.tiles();
        let mut known = self.expected.borrow_mut();
        let evaluated = || {
            let inputs = Inputs { tiles: tiles.clone(), ..self.inputs.clone() };
            Rc::new(reference(&self.kernel, &inputs).unwrap_or_else(|e| panic!("{}: {e}", self.text)))
        };
        known.entry(tiles.clone()).or_insert_with(evaluated).clone()
    }

    /// The interpreter of the scheduled nest agrees with the reference.
    pub fn check_nest(&self, schedule: &dyn AnySchedule) {
        let program = self.program(schedule);
        let found = interpret(&program.nest, &self.inputs, Arithmetic::Exact, 7)
            .unwrap_or_else(|e| panic!("{} under {}: {e}", self.text, schedule.name()));
        for (name, expected) in &*self.expected(&program) {
            self.compare("nest", schedule, name, &Elements::from_f64(expected.dtype, found[name].clone()));
        }
    }

    /// The simulator, on the PTX of each variant whose assumptions hold, agrees with the reference and finds nothing
    /// wrong.
    pub fn check_simulator<K: Kernel>(&self, schedule: &dyn AnySchedule) {
        for variant in [Variant::Exact, Variant::Aligned, Variant::General] {
            self.check_variant::<K>(schedule, variant, &Device::sim());
        }
    }

    /// The interpreter of the kernel IR, in each variant whose assumptions hold, agrees with the reference; how many
    /// variants that were.
    #[allow(dead_code)] // each test uses its part
    pub fn check_kernel(&self, schedule: &dyn AnySchedule) -> usize {
        let program = self.program(schedule);
        let bases = vec![256; self.kernel.tensors.len()];
        let holds =
            |v: &Variant| assumptions(&program, *v).iter().all(|a| a.holds(&self.inputs.dims, &bases));
        let variants: Vec<Variant> =
            [Variant::Exact, Variant::Aligned, Variant::General].into_iter().filter(holds).collect();
        for variant in &variants {
            let wrong = |e: &dyn std::fmt::Display| -> ! {
                panic!("{} under {}, {variant}: {e}", self.text, self.describe(schedule))
            };
            let lowered = lower(&program, *variant).unwrap_or_else(|e| wrong(&e));
            let scalars = self.inputs.scalars.iter().map(|(name, x)| (name.clone(), *x as f32)).collect();
            let mut run = RunKernel { dims: self.inputs.dims.clone(), scalars, ..RunKernel::default() };
            let turned = |t: usize| program.nest.column_major.iter().any(|id| usize::from(id.0) == t);
            for (t, tensor) in self.kernel.tensors.iter().enumerate() {
                let elements = self.inputs.tensors[&tensor.name].to_f64();
                let places = places(&self.shapes[&tensor.name], turned(t));
                let mut memory = vec![0.0; elements.len()];
                places.iter().zip(elements).for_each(|(at, x)| memory[*at] = x as f32);
                run.tensors.insert(tensor.name.clone(), memory);
            }
            if lowered.is_asynchronous() {
                continue;
            }
            interpret_kernel(&lowered, &mut run).unwrap_or_else(|e| wrong(&e));
            for (t, tensor) in self.kernel.tensors.iter().enumerate().filter(|(_, t)| t.mutable) {
                let memory = &run.tensors[&tensor.name];
                let places = places(&self.shapes[&tensor.name], turned(t));
                let dtype = self.inputs.tensors[&tensor.name].dtype();
                let found = Elements::from_f64(dtype, places.iter().map(|at| f64::from(memory[*at])));
                self.compare(&format!("kernel interpreter, {variant}"), schedule, &tensor.name, &found);
            }
        }
        variants.len()
    }

    /// The simulator of a device, which decides in which order warps run, agrees with the reference.
    #[allow(dead_code)] // each test uses its part
    pub fn check_on<K: Kernel>(&self, schedule: &dyn AnySchedule, device: &Device) {
        self.check_variant::<K>(schedule, Variant::General, device);
    }

    fn check_variant<K: Kernel>(&self, schedule: &dyn AnySchedule, variant: Variant, device: &Device) {
        let Some((report, buffers)) = self.launch_on::<K>(schedule, variant, device) else { return };
        assert!(
            report.findings.is_empty(),
            "{} under {}, {variant}: {:?}",
            self.text,
            self.describe(schedule),
            report.findings
        );
        for (tensor, buffer) in self.kernel.tensors.iter().zip(&buffers) {
            if tensor.mutable {
                let found = contents(&**buffer);
                self.compare(&format!("simulator, {variant}"), schedule, &tensor.name, &found);
            }
        }
    }

    /// Runs a variant on the simulator: the report, and the tensors. `None` where its assumptions do not hold.
    #[allow(dead_code)] // each test uses its part
    pub fn launch<K: Kernel>(
        &self,
        schedule: &dyn AnySchedule,
        variant: Variant,
    ) -> Option<(LaunchReport, Vec<Box<dyn AnyBuffer>>)> {
        self.launch_on::<K>(schedule, variant, &Device::sim())
    }

    fn launch_on<K: Kernel>(
        &self,
        schedule: &dyn AnySchedule,
        variant: Variant,
        device: &Device,
    ) -> Option<(LaunchReport, Vec<Box<dyn AnyBuffer>>)> {
        let program = self.program(schedule);
        let mut buffers: Vec<Box<dyn AnyBuffer>> = Vec::new();
        for (t, tensor) in self.kernel.tensors.iter().enumerate() {
            let column_major = program.nest.column_major.iter().any(|id| usize::from(id.0) == t);
            let layout = if column_major { Layout::ColumnMajor } else { Layout::RowMajor };
            let elements = &self.inputs.tensors[&tensor.name];
            buffers.push(buffer(device, elements, &self.shapes[&tensor.name], layout).expect("small"));
        }
        let names: Vec<&'static str> = self.kernel.tensors.iter().map(|t| &*t.name.clone().leak()).collect();
        let mut args = LaunchArgs::new(K::NAME, self.dtype);
        for ((tensor, name), buffer) in self.kernel.tensors.iter().zip(&names).zip(&mut buffers) {
            args =
                if tensor.mutable { args.output(name, &mut **buffer) } else { args.input(name, &**buffer) };
        }
        for scalar in &self.kernel.scalars {
            let ElemType::Fixed(elem) = scalar.elem else { panic!("the kernel is instantiated") };
            let value = tile_fuzz::launch::scalar(elem, self.inputs.scalars[&scalar.name]);
            args = args.scalar(scalar.name.clone().leak(), value);
        }
        match Launch::<K>::new(args).schedule_dyn(schedule).variant(variant).run() {
            Err(Error::Variant { .. }) => {
                assert_ne!(variant, Variant::General, "{}: general admits any size", self.text);
                None
            }
            run => {
                let report = run.unwrap_or_else(|e| {
                    panic!("{} under {}, {variant}: {e}", self.text, self.describe(schedule))
                });
                Some((report, buffers))
            }
        }
    }

    /// The program of a schedule for the case's element type.
    pub fn program(&self, schedule: &dyn AnySchedule) -> Program {
        let encoded = schedule.program(self.dtype).expect("the schedule admits the type");
        Program::from_bytes(encoded).expect("an embedded program")
    }

    /// Name and directives.
    pub fn describe(&self, schedule: &dyn AnySchedule) -> String {
        let directives: Vec<String> =
            self.program(schedule).schedule.directives.iter().map(|d| d.to_string()).collect();
        format!("{} {{ {} }}", schedule.name(), directives.join("; "))
    }

    fn compare(&self, executor: &str, schedule: &dyn AnySchedule, name: &str, found: &Elements) {
        let comparison = self.expected(&self.program(schedule))[name].compare(found, GAMMA);
        assert!(
            comparison.verified(),
            "{executor}, {} under {}: `{name}` is {} times its bound off at {:?}",
            self.text,
            self.describe(schedule),
            comparison.error_bound_ratio,
            comparison.worst,
        );
    }
}

/// Where each element of a tensor, row-major, lies in its memory.
fn places(shape: &[usize], column_major: bool) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    let mut stride = 1;
    let dims = 0..shape.len();
    let order: Vec<usize> = if column_major { dims.collect() } else { dims.rev().collect() };
    for d in order {
        strides[d] = stride;
        stride *= shape[d];
    }
    let place = |n: usize| {
        let (mut rest, mut at) = (n, 0);
        for d in (0..shape.len()).rev() {
            at += rest % shape[d] * strides[d];
            rest /= shape[d];
        }
        at
    };
    (0..stride).map(place).collect()
}

/// The elements of a buffer, row-major.
fn contents(buffer: &dyn AnyBuffer) -> Elements {
    tilewright::verify::elements(buffer).expect("the simulator's memory")
}
