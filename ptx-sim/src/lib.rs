//! Executes PTX text on the CPU, warp by warp, and reports counters and findings.
//!
//! ```
//! use ptx_sim::{Launch, Memory, Module, launch};
//!
//! let module = Module::parse(
//!     ".version 8.0
//!      .target sm_80
//!      .address_size 64
//!      .entry double(.param .u64 x) {
//!          .reg .b32 %r<3>; .reg .b64 %rd<4>;
//!          ld.param.u64 %rd0, [x];
//!          mov.u32 %r0, %tid.x;
//!          mul.wide.u32 %rd1, %r0, 4;
//!          add.s64 %rd2, %rd0, %rd1;
//!          ld.global.u32 %r1, [%rd2];
//!          shl.b32 %r2, %r1, 1;
//!          st.global.u32 [%rd2], %r2;
//!          ret;
//!      }",
//! )?;
//! let mut memory = Memory::new();
//! let x = memory.alloc("x", 128)?;
//! memory.write(x, &[7; 128])?;
//! let report = launch(
//!     &module,
//!     &mut memory,
//!     &Launch { kernel: "double".into(), params: vec![x.to_le_bytes().to_vec()], ..Launch::default() },
//! )?;
//! assert!(report.is_clean());
//! assert_eq!(report.counters.global_load.sectors, 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//! [`Module::parse`] reads the text and decodes every kernel, with the functions that it calls, into dense operations. An
//! opcode or modifier that it does not know is never skipped: it refuses the kernels that contain or call it, and no
//! other, with line and column. [`launch`] runs the CTAs in parallel over cores.
//! A warp's registers are arrays of 32 lanes, so that arithmetic becomes vector code; divergence is a list of
//! `(pc, mask)` splits of which the one with the lowest pc runs, splits that meet merge, and one that spins lets
//! the others go first. The order of warps follows [`Launch::seed`] and nothing else.
//!
//! # What it counts
//! [`Counters`] are exact for the PTX that ran: requests and 32-byte sectors of global memory by buffer and
//! instruction, wavefronts of shared memory, instruction mix, FLOPs, bytes. The bank and sector rules reproduce the
//! hardware counters recorded on an H200, with all lanes of a warp active and with some.
//!
//! # What it finds
//! [`Finding`]s name the PTX line, and the source line where the PTX has `.loc`: accesses out of bounds (with the
//! buffer's name and index) or misaligned, reads of uninitialised shared memory, races in shared and global memory by
//! the happens-before relation of the PTX memory model (barriers, mbarriers, release and acquire by scope, fences, the
//! asynchronous proxy), `volatile` accesses that exchange data in no order, registers of `wgmma` touched in flight or
//! without a fence, misused mbarriers, barriers that diverge, deadlocks with what each warp waits for. A race says what
//! would order the two accesses, and every kind cites the section of the PTX ISA it stands on ([`FindingKind::rule`]).
//! [`Launch::second_seed`] tries another schedule. The run goes on after a finding: loads that fail give zero, stores that
//! fail are dropped. [`Report::groups`] puts those of one line of the source together, and each names the calls that the
//! compiler inlined.
//! Asynchronous copies run *early* or *late* ([`AsyncMode`]), so that a missing wait gives wrong data too.
//!
//! # From the command line
//! The program `ptx-sim` (feature `cli`) runs and checks files, for people or with `--json`:
//! ```text
//! ptx-sim check FILE.ptx...
//! ptx-sim compare saxpy.ptx …    (feature `cuda`: on a GPU and here, element by element)
//! ptx-sim run saxpy.ptx --block 128 --arg x:512:random --arg y:512 --arg f32:2 --arg u32:128 --dump y:3:f32
//! ptx-sim run tma_store.ptx --block 64 --arg in:1024:iota --arg map:y:u32:256:64 --arg y:1024 --arg out:1024
//! ```
//! The JSON is versioned (`docs/ptx-sim-json.md`). Its exit status is 0 without findings, 1 with, and 2 if the file, the arguments or the launch are refused.
//!
//! # Limits
//! - It predicts no time, knows no caches, and counts PTX instructions, not those of the machine code.
//! - `.approx` functions give the correctly rounded result, which is inside their error bounds but not
//!   bit-identical to the hardware's.
//! - Warps are agents of the race checks: a synchronisation of part of a warp counts for all of it. Between CTAs that
//!   cannot wait for one another, two accesses to one place race whatever the memory model's order would be.
//! - Of the atomics that touch one place the last stands for all, so that a weak access which is ordered after that one
//!   alone passes; so does a weak write after a strong read of another scope. In shared memory the scopes of
//!   strong accesses are not compared. A release whose scope leaves the acquirer out
//!   still comes after the releaser's reads: no write over what it has read is reported.
//! - A launch is alone on the device, so `griddepcontrol` never waits; [`Launch::dependent`] asks whether it would where it must. `setmaxnreg` moves registers between warps, but
//!   nothing tells how many a warp needs. Prefetches and cache hints are checked when decoded and have no effect.
//! - Calls of device functions need no stack here, so recursion is refused. `printf` is printed and `assert` is a finding;
//!   `malloc`, launches from kernels and indirect branches other than `brx.idx` are not supported.
//! - Textures and surfaces ([`Image`]) have one level, no anisotropy, and no race checks.
//! - Fragments of `wmma` lie in registers as the simulator likes: PTX leaves open where their elements are.

// `simd` alone lifts this: `forbid` for the whole crate could not be, so every other module has its own. A crate of
// its own for it would have to hold the loops it compiles, and with them most of what they work on.
#![deny(unsafe_code)]
// Loops over lanes index several arrays at once; operands of an instruction are passed as such.
#![allow(clippy::needless_range_loop, clippy::too_many_arguments, clippy::precedence)]

#[forbid(unsafe_code)]
mod alu;
#[forbid(unsafe_code)]
mod ast;
#[forbid(unsafe_code)]
pub mod banks;
#[forbid(unsafe_code)]
mod counters;
#[forbid(unsafe_code)]
mod decode;
#[forbid(unsafe_code)]
mod demangle;
#[forbid(unsafe_code)]
mod engine;
#[forbid(unsafe_code)]
mod error;
#[forbid(unsafe_code)]
mod findings;
#[forbid(unsafe_code)]
mod image;
#[forbid(unsafe_code)]
mod kernel;
#[forbid(unsafe_code)]
mod launch;
#[forbid(unsafe_code)]
mod lex;
#[forbid(unsafe_code)]
mod memory;
#[forbid(unsafe_code)]
mod op;
#[forbid(unsafe_code)]
mod parse;
#[forbid(unsafe_code)]
mod race;
#[forbid(unsafe_code)]
mod report;
#[forbid(unsafe_code)]
mod resident;
#[forbid(unsafe_code)]
mod rules;
mod simd;
#[forbid(unsafe_code)]
mod tensor_core;
#[forbid(unsafe_code)]
mod tensor_map;
#[forbid(unsafe_code)]
mod trace;
#[forbid(unsafe_code)]
mod turns;
#[forbid(unsafe_code)]
mod types;

pub use counters::{
    Access, BufferCount, Counters, GlobalCount, InstCount as ExecCount, SharedCount, SiteCount,
};
pub use demangle::demangle;
pub use error::ParseError;
pub use findings::{Finding, FindingGroup, FindingKind, InlinedCall, RaceKind, SourceLoc};
pub use image::{AddressMode, Channel, Image};
pub use kernel::{KernelInfo, ParamInfo};
pub use launch::{AsyncMode, Launch, LaunchError, free_memory, launch, shared_limit};
pub use memory::{Memory, MemoryError};
pub use op::InstClass;
pub use report::Report;
pub use tensor_map::{Im2col, Swizzle, TensorElement, TensorMap, TensorMapError};
pub use trace::{Event, EventKind, Place, Request, Trace};

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// A parsed and decoded PTX module.
#[derive(Debug)]
pub struct Module {
    id: u64,
    version: (u32, u32),
    sm: u32,
    kernels: Vec<decode::Decoded>,
    globals: Vec<kernel::GlobalVar>,
    files: HashMap<u32, String>,
    inlined: Vec<findings::Inlined>,
}

impl Module {
    /// Parses PTX text (ISA 1.0 to 9.4) and decodes its kernels. A kernel that contains, or calls a function that
    /// contains, something malformed or unsupported is refused only when it is launched: [`Module::check`] tells of all.
    ///
    /// # Errors
    /// [`ParseError`] with line, column and what was expected, for text that is malformed outside the bodies of kernels
    /// and functions.
    pub fn parse(ptx: &str) -> Result<Module, ParseError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let ast = parse::parse(ptx)?;
        let (kernels, globals) = decode::decode(&ast);
        Ok(Module {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            version: ast.version,
            sm: ast.sm,
            kernels,
            globals,
            inlined: findings::inlined(&ast),
            files: ast.files.iter().map(|(n, f)| (*n, f.to_string())).collect(),
        })
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<&KernelInfo> {
        self.kernels().find(|k| k.name == name)
    }

    /// All kernels, in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &KernelInfo> {
        self.kernels.iter().map(|k| match k {
            Ok(k) => &k.info,
            Err(refused) => &refused.0,
        })
    }

    /// The kernels whose name, as it stands or demangled, contains `part`; the one of exactly that name alone, if there
    /// is one.
    pub fn find_kernels(&self, part: &str) -> Vec<&KernelInfo> {
        if let Some(k) = self.kernel(part) {
            return vec![k];
        }
        self.kernels().filter(|k| k.name.contains(part) || k.demangled.contains(part)).collect()
    }

    /// Why the kernel of that name would be refused, if it would be.
    pub fn refusal(&self, kernel: &str) -> Option<&ParseError> {
        let refused = self.kernels.iter().filter_map(|k| k.as_ref().err());
        refused.into_iter().find(|r| r.0.name == kernel).map(|r| &r.1)
    }

    /// Whether every kernel of the module can be run.
    ///
    /// # Errors
    /// Why the first one that cannot would be refused.
    pub fn check(&self) -> Result<(), ParseError> {
        match self.kernels.iter().find_map(|k| k.as_ref().err()) {
            Some(refused) => Err(refused.1.clone()),
            None => Ok(()),
        }
    }

    /// Address and size in bytes of a `.global` or `.const` variable. The module's variables are placed in the memory,
    /// with their initial values, unless they are there; [`launch`] does so too.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`]
    pub fn variable(&self, memory: &mut Memory, name: &str) -> Result<Option<(u64, u64)>, MemoryError> {
        let addresses = self.place(memory)?;
        let at = self.globals.iter().position(|g| g.name == name);
        Ok(at.map(|at| (addresses[at], self.globals[at].size)))
    }

    /// Names of the module's `.global` and `.const` variables.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.globals.iter().map(|g| g.name.as_str())
    }

    /// The address of each variable.
    pub(crate) fn place(&self, memory: &mut Memory) -> Result<Vec<u64>, MemoryError> {
        let (mut addresses, mut fresh) = (vec![], vec![]);
        for (i, v) in self.globals.iter().enumerate() {
            let key = (self.id, i as u32);
            addresses.push(match memory.globals.get(&key) {
                Some(a) => *a,
                None => {
                    let a = memory.alloc(&demangle::variable(&v.name), v.size)?;
                    memory.globals.insert(key, a);
                    fresh.push(i);
                    a
                }
            });
        }
        for i in fresh {
            let v = &self.globals[i];
            memory.write(addresses[i], &v.init)?;
            for (offset, to, add) in &v.relocs {
                let base = match to {
                    kernel::Reloc::Global(g) => addresses[*g as usize],
                    kernel::Reloc::Fixed(a) => *a,
                };
                memory.write(addresses[i] + offset, &base.wrapping_add_signed(*add).to_le_bytes())?;
            }
        }
        Ok(addresses)
    }

    /// `.version`, as (major, minor).
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The number of the target: 90 for `sm_90a`.
    pub fn sm(&self) -> u32 {
        self.sm
    }
}
