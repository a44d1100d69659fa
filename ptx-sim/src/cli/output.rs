//! Reports and buffers, as text, as JSON and in files.

use super::element::Element;
use super::npy;
use super::plan::{Plan, variable};
use ptx_sim::{Memory, Module, Report};
use serde_json::{Value, json};

/// Version of the JSON that `run`, `check` and `compare` print: `docs/ptx-sim-json.md`.
pub const SCHEMA: u32 = 1;

/// Elements of a buffer after the run.
pub struct Dump {
    pub name: String,
    pub element: Element,
    pub data: Vec<u8>,
}

impl Dump {
    pub fn text(&self) -> String {
        let list: Vec<String> = self.elements().map(|b| self.element.text(b)).collect();
        format!("{}: {}", self.name, list.join(" "))
    }

    pub fn json(&self) -> Value {
        self.elements().map(|b| self.element.json(b)).collect()
    }

    fn elements(&self) -> impl Iterator<Item = &[u8]> {
        self.data.chunks_exact(self.element.bytes())
    }
}

/// Elements shown where no number is asked for.
const SHOWN: usize = 64;

/// `NAME[+BYTES][:COUNT][:TYPE]` of a buffer or a module variable.
pub fn dump(
    module: &Module,
    memory: &mut Memory,
    plan: &Plan,
    addresses: &[u64],
    text: &str,
    all: bool,
) -> Result<Dump, String> {
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or("");
    let (mut count, mut element) = (None, None);
    for p in parts {
        match (p.parse::<usize>(), Element::parse(p)) {
            (Ok(n), _) => count = Some(n),
            (_, Some(e)) => element = Some(e),
            _ => {
                return Err(format!(
                    "`{text}`: expected NAME:COUNT:TYPE, with a type among {}",
                    Element::names()
                ));
            }
        }
    }
    let (at, bytes, own) = match plan.place(name) {
        Ok((b, off)) => {
            let buffer = &plan.buffers[b];
            let rest =
                (buffer.size as u64).checked_sub(off).ok_or_else(|| format!("`{name}` ends before {off}"))?;
            (addresses[b] + off, rest, buffer.element)
        }
        Err(_) => {
            let name = variable(module, name)?;
            let found = module.variable(memory, name).map_err(|e| e.to_string())?;
            let (at, size) = found.ok_or_else(|| format!("there is no variable `{name}`"))?;
            (at, size, None)
        }
    };
    let element = element.or(own).unwrap_or(Element::U32);
    let most = bytes as usize / element.bytes();
    let count = count.unwrap_or(if all { most } else { most.min(SHOWN) });
    let mut data = vec![0; count * element.bytes()];
    memory.read(at, &mut data).map_err(|e| e.to_string())?;
    Ok(Dump { name: name.to_string(), element, data })
}

/// `NAME[:TYPE]:FILE`: `.npy`, or else raw bytes.
pub fn save(
    module: &Module,
    memory: &mut Memory,
    plan: &Plan,
    addresses: &[u64],
    text: &str,
) -> Result<(), String> {
    let (what, path) =
        text.rsplit_once(':').ok_or_else(|| format!("--save {text}: expected NAME[:TYPE]:FILE"))?;
    let d = dump(module, memory, plan, addresses, what, true)?;
    let file = if path.ends_with(".npy") { npy::write(&d.data, d.element) } else { d.data };
    std::fs::write(path, file).map_err(|e| format!("{path}: {e}"))
}

pub fn report_json(kernel: &str, r: &Report, dumps: &[Dump]) -> Value {
    let mut all = json!(r);
    all["schema"] = json!(SCHEMA);
    all["kernel"] = json!(kernel);
    all["groups"] = json!(r.groups());
    all["dump"] = dumps.iter().map(|d| (d.name.clone(), d.json())).collect();
    all
}

pub fn print(r: &Report, every: bool) {
    print!("{}", r.printed);
    if !r.printed.is_empty() && !r.printed.ends_with('\n') {
        println!();
    }
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
    if every {
        r.findings.iter().for_each(|f| println!("{f}"));
        println!("{} findings", r.findings.len());
        return;
    }
    let groups = r.groups();
    for g in &groups {
        println!("{}", r.findings[g.findings[0]]);
        if g.findings.len() > 1 {
            let lines: Vec<String> = g.lines.iter().take(12).map(u32::to_string).collect();
            let more = if g.lines.len() > 12 { ", …" } else { "" };
            println!(
                "  and {} more of this kind from that line, {} times in all: PTX lines {}{more}",
                g.findings.len() - 1,
                g.count,
                lines.join(", ")
            );
        }
    }
    match (r.findings.len(), groups.len()) {
        (n, m) if n == m => println!("{n} findings"),
        (n, m) => println!("{n} findings at {m} places of the source (--all-findings shows each)"),
    }
}
