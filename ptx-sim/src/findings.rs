//! What a run found wrong.

use crate::Module;
use crate::ast::{AstModule, Loc};
use serde::Serialize;
use std::collections::HashMap;

/// A position in the source the PTX was compiled from, from `.loc`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceLoc {
    /// File name from `.file`.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column.
    pub column: u32,
}

/// A call that the compiler inlined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InlinedCall {
    /// The function that was called, demangled; empty where the PTX does not name it.
    pub function: String,
    /// Where it was called.
    pub call: SourceLoc,
}

/// A call that was inlined, before its file is looked up.
#[derive(Debug)]
pub(crate) struct Inlined {
    function: String,
    call: Loc,
}

/// The calls that the module's `.loc` directives tell of.
pub(crate) fn inlined(m: &AstModule<'_>) -> Vec<Inlined> {
    let (bytes, labels) = &m.debug_str;
    let name = |label: &str, offset: u32| {
        let from = bytes.get((labels.get(label)? + offset) as usize..)?;
        let text = from.split(|b| *b == 0).next().unwrap_or(from);
        Some(crate::demangle(&String::from_utf8_lossy(text)))
    };
    m.inlined
        .iter()
        .map(|i| Inlined {
            function: i.function.and_then(|(label, offset)| name(label, offset)).unwrap_or_default(),
            call: Loc { file: i.file, line: i.line, col: i.col, inlined: i.outer },
        })
        .collect()
}

/// A position with its file's name.
fn place(m: &Module, l: Loc) -> SourceLoc {
    SourceLoc { file: m.files.get(&l.file).cloned().unwrap_or_default(), line: l.line, column: l.col }
}

/// Where an instruction comes from, and through which calls.
pub(crate) fn origin(m: &Module, loc: Option<Loc>) -> (Option<SourceLoc>, Vec<InlinedCall>) {
    let mut calls = vec![];
    let mut next = loc.and_then(|l| l.inlined);
    while let Some(call) = next.and_then(|n| m.inlined.get(n as usize)) {
        calls.push(InlinedCall { function: call.function.clone(), call: place(m, call.call) });
        next = call.call.inlined;
    }
    (loc.map(|l| place(m, l)), calls)
}

/// How two accesses of a race relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RaceKind {
    /// Two writes.
    WriteWrite,
    /// A read of what another thread wrote.
    ReadAfterWrite,
    /// A write over what another thread read.
    WriteAfterRead,
}

/// The kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "detail")]
pub enum FindingKind {
    /// A global or generic access outside every allocation. Loads give 0, stores are dropped.
    OutOfBounds,
    /// A shared access outside the CTA's shared memory.
    SharedOutOfBounds,
    /// A local access outside the thread's local memory.
    LocalOutOfBounds,
    /// An access that is not a multiple of its width.
    Misaligned,
    /// A read of shared memory that nothing wrote.
    UninitializedShared,
    /// Two unordered accesses to the same bytes of shared memory, at least one of them a write.
    SharedRace(RaceKind),
    /// Two unordered accesses to the same bytes of global memory, at least one of them a write.
    GlobalRace(RaceKind),
    /// Two unordered `volatile` accesses to the same bytes, at least one of them a write, that exchange data: no race,
    /// since `volatile` is as strong as `relaxed`, but either may come first.
    UnorderedVolatile(RaceKind),
    /// No warp can ever go on: all wait, or poll what nobody is left to change.
    Deadlock,
    /// A launch ran more instructions than its limit allows.
    InstructionLimit,
    /// An `.aligned` instruction that only part of the warp reached together.
    DivergentAligned,
    /// Different thread counts at one barrier, or a count that is no multiple of the warp size.
    BarrierCount,
    /// A warp-wide instruction whose member mask leaves out the executing lane.
    BadMemberMask,
    /// `trap` was executed.
    Trap,
    /// `assert` of CUDA failed.
    AssertionFailed,
    /// An address in a state space that the instruction cannot reach.
    BadAddress,
    /// A destination of a pending asynchronous copy was touched, or its source changed.
    AsyncRace,
    /// The asynchronous proxy accesses what a thread wrote without `fence.proxy.async` in between, or a copy uses a tensor map in
    /// global memory that no thread of its CTA has acquired.
    MissingProxyFence,
    /// `wgmma` without the fence before it, or without the wait after it.
    WgmmaFence,
    /// A misuse of an mbarrier.
    Mbarrier,
    /// `setmaxnreg` against its direction.
    RegisterBudget,
    /// A cluster barrier waited for without having arrived, or arrived at twice.
    ClusterBarrier,
    /// An access to global memory before `griddepcontrol.wait`, in a launch that may run beside earlier grids.
    BeforeGridWait,
}

/// Something wrong, with its place and how often it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is.
    #[serde(flatten)]
    pub kind: FindingKind,
    /// One readable sentence or more.
    pub message: String,
    /// Line of the PTX text.
    pub line: u32,
    /// Column in the PTX text.
    pub column: u32,
    /// Source position, where the PTX has `.loc`.
    pub source: Option<SourceLoc>,
    /// The calls that were inlined to get there, the innermost first; empty where nothing was, or the PTX does not say.
    pub inlined: Vec<InlinedCall>,
    /// The instruction as written (opcode and modifiers).
    pub instruction: String,
    /// CTA in which it happened first.
    pub cta: [u32; 3],
    /// Warp of that CTA.
    pub warp: u32,
    /// Lane of that warp.
    pub lane: u32,
    /// How often it happened.
    pub count: u64,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PTX line {}", self.line)?;
        if let Some(s) = &self.source {
            write!(f, " ({}:{}:{})", s.file, s.line, s.column)?;
        }
        let [x, y, z] = self.cta;
        write!(
            f,
            ": {}\n  {} in CTA ({x},{y},{z}) warp {} lane {}",
            self.message, self.instruction, self.warp, self.lane
        )?;
        if self.count > 1 {
            write!(f, ", {} times", self.count)?;
        }
        for c in &self.inlined {
            let name = if c.function.is_empty() { "a function" } else { &c.function };
            write!(f, "\n  in {name}, inlined at {}:{}:{}", c.call.file, c.call.line, c.call.column)?;
        }
        Ok(())
    }
}

/// Findings of one kind at one line of the source; where the PTX has no `.loc`, at one line of the PTX.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FindingGroup {
    /// What they are.
    #[serde(flatten)]
    pub kind: FindingKind,
    /// File and line of the source, column of the first; `None`: the line of the PTX.
    pub source: Option<SourceLoc>,
    /// Their lines of the PTX, in order, each once.
    pub lines: Vec<u32>,
    /// How often they happened, all together.
    pub count: u64,
    /// Their places in [`Report::findings`](crate::Report::findings), in order.
    pub findings: Vec<usize>,
}

/// Groups findings, in the order in which the first of each group stands.
pub(crate) fn groups(list: &[Finding]) -> Vec<FindingGroup> {
    let mut out: Vec<FindingGroup> = vec![];
    let mut index = HashMap::new();
    for (n, f) in list.iter().enumerate() {
        let place = match &f.source {
            Some(s) => (s.file.as_str(), s.line),
            None => ("", f.line),
        };
        let at = *index.entry((f.kind, f.source.is_some(), place)).or_insert(out.len());
        if at == out.len() {
            let source = f.source.clone();
            out.push(FindingGroup { kind: f.kind, source, lines: vec![], count: 0, findings: vec![] });
        }
        let g = &mut out[at];
        if let Err(at) = g.lines.binary_search(&f.line) {
            g.lines.insert(at, f.line);
        }
        g.count += f.count;
        g.findings.push(n);
    }
    out
}

/// A finding before its text positions are filled in.
#[derive(Debug, Clone)]
pub(crate) struct Raw {
    pub kind: FindingKind,
    pub message: String,
    pub pc: u32,
    pub cta: [u32; 3],
    pub warp: u32,
    pub lane: u32,
    pub count: u64,
}

/// Distinct findings kept by one launch.
pub(crate) const CAP: usize = 200;

/// Findings of one CTA or of a launch, deduplicated by kind, place and a detail key.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub list: Vec<Raw>,
    /// What the CTAs printed.
    pub printed: String,
    index: HashMap<(FindingKind, u32, u64), usize>,
}

impl Log {
    /// Counts a finding; `make` runs only for the first of its key.
    #[cold]
    pub fn add(&mut self, kind: FindingKind, pc: u32, key: u64, make: impl FnOnce() -> Raw) {
        if let Some(i) = self.index.get(&(kind, pc, key)) {
            self.list[*i].count += 1;
        } else if self.list.len() < CAP {
            self.index.insert((kind, pc, key), self.list.len());
            self.list.push(make());
        }
    }

    /// Keeps what is printed, up to the size of CUDA's buffer.
    pub fn print(&mut self, text: &str) {
        let room = crate::engine::PRINTED - self.printed.len();
        let end = (0..=room.min(text.len())).rev().find(|n| text.is_char_boundary(*n)).unwrap_or(0);
        self.printed.push_str(&text[..end]);
    }

    /// Appends another log that comes later in the order of CTAs.
    pub fn merge(&mut self, other: Log) {
        self.print(&other.printed);
        let mut keys: Vec<_> = other.index.into_iter().collect();
        keys.sort_by_key(|(_, i)| *i);
        for ((key, _), raw) in keys.into_iter().zip(other.list) {
            if let Some(i) = self.index.get(&key) {
                self.list[*i].count += raw.count;
            } else if self.list.len() < CAP {
                self.index.insert(key, self.list.len());
                self.list.push(raw);
            }
        }
    }
}
