//! `ptx-sim`: runs and checks PTX files without a GPU.
//!
//! Exit status: 0 clean, 1 with findings, 2 if the file, the arguments or the launch are refused.

#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use ptx_sim::{
    AsyncMode, Launch, Memory, Module, ParseError, Report, Swizzle, TensorElement, TensorMap, launch,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "ptx-sim", about = "Runs PTX on the CPU and reports counters and findings", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Launch one kernel.
    Run(Box<Run>),
    /// Parse and decode only: is every instruction known?
    Check {
        /// PTX files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// One JSON object a file; an error has its line and column.
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
struct Run {
    /// PTX file.
    file: PathBuf,
    /// Kernel; may be left out if the file has one.
    #[arg(long)]
    kernel: Option<String>,
    /// CTAs: X, X,Y or X,Y,Z.
    #[arg(long, default_value = "1", value_parser = dims)]
    grid: [u32; 3],
    /// Threads of a CTA.
    #[arg(long, default_value = "32", value_parser = dims)]
    block: [u32; 3],
    /// CTAs of a cluster.
    #[arg(long, value_parser = dims)]
    cluster: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory.
    #[arg(long, default_value_t = 0)]
    shared: u32,
    /// A parameter, in order: u32:5, s32:-1, u64:9, f32:1.5, f64:2, hex:00ff, a buffer
    /// NAME:BYTES[:zero|iota|random|@FILE] (iota: the words 0, 1, 2, …; random: f32 in [-1, 1)), or the tensor map of
    /// a dense tensor, sizes from the innermost on: map:BUFFER:ELEMENT:SIZES:BOX[:32B|64B|128B], as
    /// map:a:f16:128x64:64x8:128B.
    #[arg(long = "arg")]
    args: Vec<String>,
    /// A buffer that is no parameter itself, for tensor maps: NAME:BYTES[:zero|iota|random|@FILE].
    #[arg(long)]
    buffer: Vec<String>,
    /// Print the first COUNT words of a buffer after the run: NAME:COUNT[:u32|f32].
    #[arg(long)]
    dump: Vec<String>,
    /// Seed of the warp schedule; 0 is round robin.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Let asynchronous copies take effect at issue instead of at the last legal moment.
    #[arg(long)]
    early: bool,
    /// Accept that bulk copies signal an mbarrier with only a CTA barrier, and no fence, after its initialisation.
    #[arg(long)]
    no_barrier_init_fence: bool,
    /// Number of SMs.
    #[arg(long, default_value_t = 132)]
    sms: u32,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

fn dims(s: &str) -> Result<[u32; 3], String> {
    let mut d = [1; 3];
    let parts: Vec<&str> = s.split(',').collect();
    if parts.len() > 3 {
        return Err("expected X, X,Y or X,Y,Z".into());
    }
    for (d, p) in d.iter_mut().zip(parts) {
        *d = p.trim().parse().map_err(|_| format!("`{p}` is not a number: expected X, X,Y or X,Y,Z"))?;
    }
    Ok(d)
}

fn buffer(memory: &mut Memory, name: &str, spec: &str, seed: u64) -> Result<u64, String> {
    let (size, fill) = spec.split_once(':').unwrap_or((spec, "zero"));
    let file =
        fill.strip_prefix('@').map(std::fs::read).transpose().map_err(|e| format!("buffer `{name}`: {e}"))?;
    let bytes: usize = match (&file, size) {
        (Some(f), "") => f.len(),
        _ => size.parse().map_err(|_| format!("buffer `{name}`: `{size}` is not a number of bytes"))?,
    };
    let addr = memory.alloc(name, bytes as u64).map_err(|e| e.to_string())?;
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f32 / (1u64 << 23) as f32 - 1.0).to_bits()
    };
    let words = |f: &mut dyn FnMut(u32) -> u32| -> Vec<u8> {
        (0..bytes.div_ceil(4) as u32).flat_map(|i| f(i).to_le_bytes()).take(bytes).collect()
    };
    let data = match (file, fill) {
        (Some(f), _) => f,
        (None, "zero") => return Ok(addr),
        (None, "iota") => words(&mut |i| i),
        (None, "random") => words(&mut |_| next()),
        _ => return Err(format!("buffer `{name}`: `{fill}` is none of zero, iota, random, @FILE")),
    };
    memory.write(addr, &data).map_err(|e| e.to_string())?;
    Ok(addr)
}

/// A buffer made by an argument: name and address.
type Named = (String, u64);

/// The bytes of one `--arg`.
fn argument(memory: &mut Memory, text: &str, seed: u64) -> Result<(Vec<u8>, Option<Named>), String> {
    let (kind, value) =
        text.split_once(':').ok_or_else(|| format!("`{text}`: expected TYPE:VALUE or NAME:BYTES"))?;
    let bad = || format!("`{text}`: `{value}` is not a {kind}");
    let bytes = match kind {
        "u32" => value.parse::<u32>().map_err(|_| bad())?.to_le_bytes().to_vec(),
        "s32" => value.parse::<i32>().map_err(|_| bad())?.to_le_bytes().to_vec(),
        "u64" => value.parse::<u64>().map_err(|_| bad())?.to_le_bytes().to_vec(),
        "s64" => value.parse::<i64>().map_err(|_| bad())?.to_le_bytes().to_vec(),
        "f32" => value.parse::<f32>().map_err(|_| bad())?.to_le_bytes().to_vec(),
        "f64" => value.parse::<f64>().map_err(|_| bad())?.to_le_bytes().to_vec(),
        "hex" if value.len().is_multiple_of(2) && value.bytes().all(|c| c.is_ascii_hexdigit()) => {
            (0..value.len() / 2)
                .map(|i| u8::from_str_radix(&value[2 * i..2 * i + 2], 16).map_err(|_| bad()))
                .collect::<Result<_, _>>()?
        }
        "hex" => return Err(bad()),
        // Made when all buffers are there.
        "map" => vec![],
        name => {
            let addr = buffer(memory, name, value, seed)?;
            return Ok((addr.to_le_bytes().to_vec(), Some((name.to_string(), addr))));
        }
    };
    Ok((bytes, None))
}

/// The 128 bytes of `map:BUFFER:ELEMENT:SIZES:BOX[:SWIZZLE]`.
fn tensor_map(text: &str, buffers: &[Named]) -> Result<Vec<u8>, String> {
    let bad = |what: &str| format!("`{text}`: {what}");
    let (name, element, sizes, tile, swizzle) = match text.split(':').collect::<Vec<_>>()[..] {
        [_, name, element, sizes, tile] => (name, element, sizes, tile, ""),
        [_, name, element, sizes, tile, swizzle] => (name, element, sizes, tile, swizzle),
        _ => return Err(bad("expected map:BUFFER:ELEMENT:SIZES:BOX[:SWIZZLE]")),
    };
    let buffer = buffers.iter().find(|b| b.0 == name).ok_or_else(|| bad("there is no such buffer"))?;
    let element = match element {
        "u8" => TensorElement::U8,
        "u16" => TensorElement::U16,
        "u32" => TensorElement::U32,
        "s32" => TensorElement::I32,
        "u64" => TensorElement::U64,
        "s64" => TensorElement::I64,
        "f16" => TensorElement::F16,
        "bf16" => TensorElement::BF16,
        "f32" => TensorElement::F32,
        "f64" => TensorElement::F64,
        _ => return Err(bad("expected an element u8, u16, u32, s32, u64, s64, f16, bf16, f32 or f64")),
    };
    let numbers = |list: &str| -> Result<Vec<u32>, String> {
        list.split('x').map(|n| n.parse().map_err(|_| bad("expected sizes such as 128x64"))).collect()
    };
    let sizes: Vec<u64> = numbers(sizes)?.into_iter().map(u64::from).collect();
    let strides: Vec<u64> = sizes[..sizes.len() - 1]
        .iter()
        .scan(u64::from(element.bytes()), |stride, n| {
            *stride = stride.saturating_mul(*n);
            Some(*stride)
        })
        .collect();
    let mut map = TensorMap::new(buffer.1, element, &sizes, &strides, &numbers(tile)?);
    map.swizzle = match swizzle {
        "" => Swizzle::None,
        "32B" => Swizzle::B32,
        "64B" => Swizzle::B64,
        "128B" => Swizzle::B128,
        _ => return Err(bad("expected a swizzle 32B, 64B or 128B")),
    };
    Ok(map.encode().map_err(|e| bad(&e.to_string()))?.to_vec())
}

/// The words of a buffer, to be shown as u32 or as f32.
struct Dump {
    name: String,
    words: Vec<u32>,
    float: bool,
}

impl Dump {
    fn text(&self) -> String {
        let show = |w: &u32| if self.float { f32::from_bits(*w).to_string() } else { w.to_string() };
        format!("{}: {}", self.name, self.words.iter().map(show).collect::<Vec<_>>().join(" "))
    }

    /// Infinities and NaN become null.
    fn json(&self) -> (String, Value) {
        let show = |w: &u32| if self.float { json!(f32::from_bits(*w)) } else { json!(w) };
        (self.name.clone(), self.words.iter().map(show).collect())
    }
}

/// What one `--dump` asks for.
fn dump(memory: &Memory, buffers: &[Named], text: &str) -> Result<Dump, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let (Some((name, addr)), Some(Ok(count))) =
        (buffers.iter().find(|b| b.0 == parts[0]), parts.get(1).map(|n| n.parse::<u64>()))
    else {
        return Err(format!("--dump {text}: expected NAME:COUNT of a buffer"));
    };
    let word = |i: u64| {
        let mut raw = [0; 4];
        memory.read(addr + 4 * i, &mut raw).map_err(|e| e.to_string())?;
        Ok(u32::from_le_bytes(raw))
    };
    let words = (0..count).map(word).collect::<Result<_, String>>()?;
    Ok(Dump { name: name.clone(), words, float: parts.get(2) == Some(&"f32") })
}

/// Why a file was refused.
#[derive(serde::Serialize, thiserror::Error, Debug)]
#[serde(untagged)]
enum Refusal {
    #[error("{message}")]
    Unreadable { message: String },
    #[error(transparent)]
    Malformed(#[from] ParseError),
}

fn load(path: &Path) -> Result<Module, Refusal> {
    let text = std::fs::read_to_string(path).map_err(|e| Refusal::Unreadable { message: e.to_string() })?;
    Ok(Module::parse(&text)?)
}

fn run(r: &Run) -> Result<bool, String> {
    let module = load(&r.file).map_err(|e| format!("{}: {e}", r.file.display()))?;
    let kernel = match &r.kernel {
        Some(k) => k.clone(),
        None => {
            let names: Vec<&str> = module.kernels().map(|k| k.name.as_str()).collect();
            match names[..] {
                [one] => one.to_string(),
                _ => return Err(format!("choose one with --kernel: {}", names.join(", "))),
            }
        }
    };
    let mut memory = Memory::new();
    let (mut params, mut buffers) = (vec![], vec![]);
    for b in &r.buffer {
        let (name, spec) = b.split_once(':').ok_or_else(|| format!("--buffer {b}: expected NAME:BYTES"))?;
        buffers.push((name.to_string(), buffer(&mut memory, name, spec, r.seed)?));
    }
    for a in &r.args {
        let (bytes, named) = argument(&mut memory, a, r.seed)?;
        params.push(bytes);
        buffers.extend(named);
    }
    for (param, a) in params.iter_mut().zip(&r.args) {
        if a.starts_with("map:") {
            *param = tensor_map(a, &buffers)?;
        }
    }
    let report = launch(
        &module,
        &mut memory,
        &Launch {
            kernel,
            grid: r.grid,
            block: r.block,
            cluster: r.cluster,
            dynamic_shared: r.shared,
            params,
            sm_count: r.sms,
            seed: r.seed,
            barrier_init_fence: !r.no_barrier_init_fence,
            async_mode: if r.early { AsyncMode::Early } else { AsyncMode::Late },
            ..Launch::default()
        },
    )
    .map_err(|e| e.to_string())?;
    let dumps = r.dump.iter().map(|d| dump(&memory, &buffers, d)).collect::<Result<Vec<_>, _>>()?;
    if r.json {
        let mut all = serde_json::to_value(&report).map_err(|e| e.to_string())?;
        if !dumps.is_empty() {
            all["dump"] = dumps.iter().map(Dump::json).collect();
        }
        println!("{all}");
    } else {
        print(&report);
        dumps.iter().for_each(|d| println!("{}", d.text()));
    }
    Ok(report.is_clean())
}

fn print(r: &Report) {
    let c = &r.counters;
    println!(
        "{} CTAs, {} warps, {} warp instructions, {} FLOPs",
        c.ctas, c.warps, c.instructions.warp, c.flops
    );
    if let Some(ai) = c.arithmetic_intensity {
        println!("{ai:.2} FLOP per requested global byte; {:.1} barriers per CTA", c.barriers_per_cta);
    }
    for (class, n) in &c.mix {
        println!("  {:<14} {:>12} warp {:>14} thread", format!("{class:?}"), n.warp, n.thread);
    }
    for b in &c.buffers {
        let s = b.count.sectors_per_request();
        println!(
            "  global {:?} `{}`: {} requests, {s:.2} sectors each, {} bytes",
            b.access, b.buffer, b.count.requests, b.count.bytes
        );
    }
    for (name, s) in [("load", c.shared_load), ("store", c.shared_store), ("atomic", c.shared_atomic)] {
        if s.requests > 0 {
            let w = s.wavefronts_per_request();
            println!(
                "  shared {name}: {} requests, {w:.2} wavefronts each, {} bank conflicts",
                s.requests, s.bank_conflicts
            );
        }
    }
    for f in &r.findings {
        println!("{f}");
    }
    println!("{} findings", r.findings.len());
}

fn check(files: &[PathBuf], json: bool) -> bool {
    let mut ok = true;
    for f in files {
        let result = load(f);
        ok &= result.is_ok();
        match (&result, json) {
            (Ok(m), false) => println!("{}: {} kernels", f.display(), m.kernels().count()),
            (Err(e), false) => println!("{}: {e}", f.display()),
            (_, true) => {
                let kernels: Vec<_> = result.as_ref().map(|m| m.kernels().collect()).unwrap_or_default();
                let error = result.as_ref().err();
                println!(
                    "{}",
                    json!({ "file": f.display().to_string(), "error": error, "kernels": kernels })
                );
            }
        }
    }
    ok
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Check { files, json } => ExitCode::from(if check(&files, json) { 0 } else { 2 }),
        Command::Run(r) => match run(&r) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(1),
            Err(e) => {
                eprintln!("error: {e}");
                ExitCode::from(2)
            }
        },
    }
}
