//! Launches of programs whose kernel is known only when the fuzzer runs, through the runtime.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{LazyLock, Mutex, PoisonError},
};
use tile_dsl::{
    dtype::DType,
    program::{Program, Variant},
    tile::{
        TensorId,
        evaluate::{Elements, Inputs},
    },
};
use tile_runtime::{
    AnyBuffer, Buffer, Device, Element, Error, LaunchArgs, LaunchReport, Layout, ScalarValue, Scheduled,
    verify,
};

/// Contents of the tensors that a kernel stores to, row-major.
pub type Stored = BTreeMap<String, Elements>;

/// What a launch left.
pub struct Run<S = Stored> {
    /// Of one problem, or of each.
    pub stored: S,
    /// What the simulator found, as text.
    pub findings: Vec<String>,
    /// The report.
    pub report: LaunchReport,
}

/// Names that live as long as the process, as the runtime wants them. There are few: the generator's.
fn interned(name: &str) -> &'static str {
    static NAMES: LazyLock<Mutex<BTreeSet<&'static str>>> = LazyLock::new(Mutex::default);
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    match names.get(name) {
        Some(known) => known,
        None => {
            let name: &'static str = name.to_string().leak();
            names.insert(name);
            name
        }
    }
}

/// Positions of a row-major walk in column-major storage.
pub fn column_major_positions(shape: &[usize]) -> Vec<usize> {
    let total: usize = shape.iter().product();
    (0..total)
        .map(|mut at| {
            let mut index = vec![0; shape.len()];
            for (i, n) in index.iter_mut().zip(shape).rev() {
                *i = at % n;
                at /= n;
            }
            index.iter().zip(shape).rev().fold(0, |position, (i, n)| position * n + i)
        })
        .collect()
}

/// A buffer with these elements, which come row-major whatever the layout.
///
/// # Errors
/// The device's.
pub fn buffer(
    device: &Device,
    elements: &Elements,
    shape: &[usize],
    layout: Layout,
) -> Result<Box<dyn AnyBuffer>, Error> {
    fn typed<T: Element>(
        device: &Device,
        data: &[T],
        shape: &[usize],
        layout: Layout,
    ) -> Result<Buffer<T>, Error> {
        let mut stored = data.to_vec();
        if layout == Layout::ColumnMajor {
            for (x, at) in data.iter().zip(column_major_positions(shape)) {
                stored[at] = *x;
            }
        }
        Buffer::from_slice_in(device, &stored, shape, layout)
    }
    macro_rules! of_type {
        ($($variant:ident: $ty:ty, $kind:ident;)*) => {
            match elements {
                $(Elements::$variant(v) => of_type!(@boxed $kind v),)*
            }
        };
        (@boxed truth $v:ident) => {
            Box::new(typed(device, &foreign_bytes($v), shape, layout)?.into_bools())
        };
        (@boxed $kind:ident $v:ident) => { Box::new(typed(device, $v, shape, layout)?) };
    }
    Ok(tile_dsl::element_types!(of_type))
}

/// Truth values as others may have written them: any byte but 0 is true.
fn foreign_bytes(values: &[bool]) -> Vec<u8> {
    const TRUE: [u8; 5] = [1, 255, 2, 1, 128];
    values.iter().zip(TRUE.into_iter().cycle()).map(|(holds, byte)| if *holds { byte } else { 0 }).collect()
}

/// A scalar argument of this type.
pub fn scalar(dtype: DType, value: f64) -> ScalarValue {
    ScalarValue::from_f64(dtype, value)
}

/// The tensors of a launch.
fn buffers(program: &Program, inputs: &Inputs, device: &Device) -> Result<Vec<Box<dyn AnyBuffer>>, Error> {
    let kernel = &program.nest.kernel;
    let shapes = crate::data::shapes(kernel, &inputs.dims).expect("the sizes were admitted");
    let mut buffers = Vec::new();
    for ((n, tensor), shape) in (0..).zip(&kernel.tensors).zip(&shapes) {
        let layout = match program.nest.column_major.contains(&TensorId(n)) {
            true => Layout::ColumnMajor,
            false => Layout::RowMajor,
        };
        buffers.push(buffer(device, &inputs.tensors[&tensor.name], shape, layout)?);
    }
    Ok(buffers)
}

/// The arguments of a launch.
fn arguments<'b>(
    program: &Program,
    inputs: &Inputs,
    buffers: &'b mut [Box<dyn AnyBuffer>],
) -> LaunchArgs<'b> {
    let kernel = &program.nest.kernel;
    let mut args = LaunchArgs::new(interned(&kernel.name), program.dtype);
    for (tensor, buffer) in kernel.tensors.iter().zip(buffers) {
        let name = interned(&tensor.name);
        args = if tensor.mutable { args.output(name, &mut **buffer) } else { args.input(name, &**buffer) };
    }
    for s in &kernel.scalars {
        args = args.scalar(interned(&s.name), scalar(crate::data::dtype(s.elem), inputs.scalars[&s.name]));
    }
    args
}

/// Launches one variant of a program on a device.
///
/// # Errors
/// The runtime's.
pub fn run(program: &Program, inputs: &Inputs, device: &Device, variant: Variant) -> Result<Run, Error> {
    let Run { mut stored, findings, report } = launch(program, &[inputs], device, |l| l.variant(variant))?;
    Ok(Run { stored: stored.remove(0), findings, report })
}

/// Launches a program for several problems at once, in the variant that holds for all of them.
///
/// # Errors
/// The runtime's.
pub fn run_group(
    program: &Program,
    problems: &[&Inputs],
    device: &Device,
) -> Result<Run<Vec<Stored>>, Error> {
    launch(program, problems, device, |l| l)
}

fn launch(
    program: &Program,
    problems: &[&Inputs],
    device: &Device,
    how: impl for<'a> FnOnce(Scheduled<'a>) -> Scheduled<'a>,
) -> Result<Run<Vec<Stored>>, Error> {
    let mut tensors =
        problems.iter().map(|inputs| buffers(program, inputs, device)).collect::<Result<Vec<_>, _>>()?;
    let mut args = problems.iter().zip(&mut tensors).map(|(inputs, b)| arguments(program, inputs, b));
    let first = args.next().expect("a problem at least");
    let mut launch = how(Scheduled::new(first, program).device(device));
    if problems.len() > 1 {
        launch = launch.with_others(args.collect());
    }
    let report = launch.run()?;
    let stored = tensors.iter().map(|buffers| stored(program, buffers)).collect::<Result<_, _>>()?;
    let findings = report.findings.iter().map(|f| format!("{:?}: {}", f.kind, f.message)).collect();
    Ok(Run { stored, findings, report })
}

/// What was stored.
fn stored(program: &Program, buffers: &[Box<dyn AnyBuffer>]) -> Result<Stored, Error> {
    let mut stored = Stored::new();
    for (tensor, buffer) in program.nest.kernel.tensors.iter().zip(buffers) {
        if tensor.mutable {
            stored.insert(tensor.name.clone(), verify::elements(&**buffer)?);
        }
    }
    Ok(stored)
}
