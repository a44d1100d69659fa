//! `compare`: one launch on a GPU and in the simulator, buffer by buffer.

use super::element::Element;
use super::gpu;
use super::output::{self, SCHEMA};
use super::plan::{Plan, variable};
use crate::{Refusal, Shape};
use ptx_sim::{Memory, Report, launch};
use serde_json::{Value, json};

#[derive(clap::Args)]
pub struct Compare {
    #[command(flatten)]
    pub shape: Shape,
    /// Accept floating-point elements that differ by this much of the larger one.
    #[arg(long, default_value_t = 0.0)]
    relative: f64,
    /// Accept floating-point elements that differ by this much.
    #[arg(long, default_value_t = 0.0)]
    absolute: f64,
    /// Run on the GPU even if the simulator finds something, which may hang the GPU or break its context.
    #[arg(long)]
    force: bool,
    /// Type of a buffer's elements, where its size does not tell: NAME:TYPE. Others are compared as u32.
    #[arg(long = "type", value_name = "NAME:TYPE")]
    types: Vec<String>,
}

/// The first element of a buffer in which the two differ, and how many do.
struct Difference {
    buffer: String,
    element: Element,
    index: usize,
    gpu: Vec<u8>,
    sim: Vec<u8>,
    differing: usize,
    elements: usize,
}

impl Difference {
    fn text(&self) -> String {
        format!(
            "`{}` differs first at element {} ({}): GPU {}, simulator {} (bits {} and {}); {} of {} elements differ",
            self.buffer,
            self.index,
            self.element.name(),
            self.element.text(&self.gpu),
            self.element.text(&self.sim),
            bits(&self.gpu),
            bits(&self.sim),
            self.differing,
            self.elements
        )
    }

    fn json(&self) -> Value {
        json!({
            "buffer": self.buffer,
            "type": self.element.name(),
            "index": self.index,
            "gpu": self.element.json(&self.gpu),
            "simulator": self.element.json(&self.sim),
            "gpu_bits": bits(&self.gpu),
            "simulator_bits": bits(&self.sim),
            "differing": self.differing,
            "elements": self.elements,
        })
    }
}

fn bits(b: &[u8]) -> String {
    b.iter().rev().fold("0x".into(), |s, b| format!("{s}{b:02x}"))
}

impl Compare {
    /// Whether two elements count as equal: the same bits, two NaN, or close enough.
    fn equal(&self, e: Element, a: &[u8], b: &[u8]) -> bool {
        if a == b {
            return true;
        }
        if !e.is_float() {
            return false;
        }
        let (x, y) = (e.value(a), e.value(b));
        if x.is_nan() || y.is_nan() {
            return x.is_nan() && y.is_nan();
        }
        let far = (x - y).abs();
        far <= self.absolute || far <= self.relative * x.abs().max(y.abs())
    }

    fn difference(&self, buffer: &str, e: Element, gpu: &[u8], sim: &[u8]) -> Option<Difference> {
        let n = e.bytes();
        let pairs = gpu.chunks(n).zip(sim.chunks(n));
        let differing: Vec<usize> =
            pairs.enumerate().filter(|(_, (a, b))| !self.equal(e, a, b)).map(|(i, _)| i).collect();
        let index = *differing.first()?;
        let of = |data: &[u8]| data[index * n..((index + 1) * n).min(data.len())].to_vec();
        Some(Difference {
            buffer: buffer.to_string(),
            element: e,
            index,
            gpu: of(gpu),
            sim: of(sim),
            differing: differing.len(),
            elements: gpu.len().div_ceil(n),
        })
    }

    fn types(&self, plan: &Plan) -> Result<Vec<Element>, Refusal> {
        let mut types: Vec<Element> =
            plan.buffers.iter().map(|b| b.element.unwrap_or(Element::U32)).collect();
        for t in &self.types {
            let (name, e) =
                t.rsplit_once(':').and_then(|(name, e)| Some((name, Element::parse(e)?))).ok_or_else(
                    || format!("--type {t}: expected NAME:TYPE, a type among {}", Element::names()),
                )?;
            types[plan.place(name)?.0] = e;
        }
        Ok(types)
    }
}

/// `true`: no difference and no finding.
pub fn compare(c: &Compare) -> Result<bool, Refusal> {
    let (text, module, kernel) = c.shape.load()?;
    let plan = c.shape.plan()?;
    let types = c.types(&plan)?;
    let mut memory = Memory::new();
    let (addresses, params) = plan.place_all(&module, &mut memory)?;
    // The simulator first: it checks the launch, and what it finds may hang or break the GPU.
    let report = launch(&module, &mut memory, &c.shape.launch(&kernel, params))?;
    if !report.is_clean() && !c.force {
        show(c, &kernel, None, &report, &[], true);
        return Ok(false);
    }
    let gpu = gpu::launch(&text, &module, &kernel, &c.shape, &plan)?;
    let holders: Vec<usize> = plan
        .params
        .iter()
        .filter_map(|p| if let super::plan::Param::Map(_, _, h) = p { *h } else { None })
        .collect();
    let read = |memory: &Memory, at: u64, size: usize| -> Result<Vec<u8>, Refusal> {
        let mut out = vec![0; size];
        memory.read(at, &mut out).map_err(|e| e.to_string())?;
        Ok(out)
    };
    let mut differences = vec![];
    for (n, b) in plan.buffers.iter().enumerate() {
        // The encodings of tensor maps are each device's own.
        if !holders.contains(&n) {
            let sim = read(&memory, addresses[n], b.size)?;
            differences.extend(c.difference(&b.name, types[n], &gpu.buffers[n], &sim));
        }
    }
    for ((name, contents), on_gpu) in plan.sets.iter().zip(&gpu.variables) {
        let full = variable(&module, name)?;
        if let Some((at, size)) = module.variable(&mut memory, full).map_err(|e| e.to_string())? {
            let sim = read(&memory, at, size as usize)?;
            let e = contents.element.unwrap_or(Element::U32);
            differences.extend(c.difference(name, e, on_gpu, &sim));
        }
    }
    let pointers = plan.params.iter().any(|p| matches!(p, super::plan::Param::Pointer(_)));
    show(c, &kernel, Some(&gpu.device), &report, &differences, pointers);
    Ok(differences.is_empty() && report.is_clean())
}

fn show(
    c: &Compare,
    kernel: &str,
    device: Option<&str>,
    report: &Report,
    list: &[Difference],
    pointers: bool,
) {
    if c.shape.json {
        let mut all = output::report_json(kernel, report, &[]);
        all["schema"] = json!(SCHEMA);
        all["compare"] =
            json!({ "device": device, "differences": list.iter().map(Difference::json).collect::<Vec<_>>() });
        println!("{all}");
        return;
    }
    output::print(report, false);
    list.iter().for_each(|d| println!("{}", d.text()));
    let Some(device) = device else {
        println!("not run on the GPU, because of what was found (--force runs it)");
        return;
    };
    match list.len() {
        0 if pointers => println!("{device} and the simulator agree on every buffer"),
        0 => println!("{device} and the simulator agree; the kernel was given no buffer"),
        n => println!("{device} and the simulator differ in {n} buffers"),
    }
}
