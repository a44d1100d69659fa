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
//! [`Module::parse`] reads the text and decodes every kernel into dense operations; an opcode or modifier that it
//! does not know is an error with line and column, never skipped. [`launch`] runs the CTAs in parallel over cores.
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
//! asynchronous proxy), registers of `wgmma` touched in flight or without a fence, misused mbarriers, barriers that
//! diverge, deadlocks with what each warp waits for. The run goes on after a finding: loads that fail give zero, stores that fail are dropped.
//! Asynchronous copies run *early* or *late* ([`AsyncMode`]), so that a missing wait gives wrong data too.
//!
//! # From the command line
//! The program `ptx-sim` (feature `cli`) runs and checks files, for people or with `--json`:
//! ```text
//! ptx-sim check FILE.ptx...
//! ptx-sim run saxpy.ptx --block 128 --arg x:512:random --arg y:512 --arg f32:2 --arg u32:128 --dump y:3:f32
//! ptx-sim run tma_store.ptx --block 64 --arg in:1024:iota --arg map:y:u32:256:64 --arg y:1024 --arg out:1024
//! ```
//! Its exit status is 0 without findings, 1 with, and 2 if the file, the arguments or the launch are refused.
//!
//! # Limits
//! - It predicts no time, knows no caches, and counts PTX instructions, not those of the machine code.
//! - `.approx` functions give the correctly rounded result, which is inside their error bounds but not
//!   bit-identical to the hardware's.
//! - Warps are agents of the race checks: a synchronisation of part of a warp counts for all of it. Between CTAs that
//!   cannot wait for one another, two accesses to one place race whatever the memory model's order would be.
//! - A launch is alone on the device, so `griddepcontrol` never waits. `setmaxnreg` moves registers between warps, but
//!   nothing tells how many a warp needs. Prefetches and cache hints are checked when decoded and have no effect.
//! - Calls of device functions, textures, surfaces and indirect branches other than `brx.idx` are not supported.

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
mod banks;
#[forbid(unsafe_code)]
mod counters;
#[forbid(unsafe_code)]
mod decode;
#[forbid(unsafe_code)]
mod engine;
#[forbid(unsafe_code)]
mod error;
#[forbid(unsafe_code)]
mod findings;
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
mod simd;
#[forbid(unsafe_code)]
mod tensor_core;
#[forbid(unsafe_code)]
mod tensor_map;
#[forbid(unsafe_code)]
mod types;

pub use counters::{
    Access, BufferCount, Counters, GlobalCount, InstCount as ExecCount, SharedCount, SiteCount,
};
pub use error::ParseError;
pub use findings::{Finding, FindingKind, RaceKind, SourceLoc};
pub use kernel::{KernelInfo, ParamInfo};
pub use launch::{AsyncMode, Launch, LaunchError, launch, shared_limit};
pub use memory::{Memory, MemoryError};
pub use op::InstClass;
pub use report::Report;
pub use tensor_map::{Im2col, Swizzle, TensorElement, TensorMap, TensorMapError};

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// A parsed and decoded PTX module.
#[derive(Debug)]
pub struct Module {
    id: u64,
    version: (u32, u32),
    sm: u32,
    kernels: Vec<kernel::Kernel>,
    globals: Vec<kernel::GlobalVar>,
    files: HashMap<u32, String>,
}

impl Module {
    /// Parses PTX text (ISA 1.0 to 9.4) and decodes its kernels.
    ///
    /// # Errors
    /// [`ParseError`] with line, column and what was expected, for malformed text and for instructions that the
    /// simulator does not implement.
    pub fn parse(ptx: &str) -> Result<Module, ParseError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let ast = parse::parse(ptx)?;
        let (kernels, globals) = decode::decode(&ast)?;
        Ok(Module {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            version: ast.version,
            sm: ast.sm,
            kernels,
            globals,
            files: ast.files.iter().map(|(n, f)| (*n, f.to_string())).collect(),
        })
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<&KernelInfo> {
        self.kernels.iter().map(|k| &k.info).find(|k| k.name == name)
    }

    /// All kernels, in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &KernelInfo> {
        self.kernels.iter().map(|k| &k.info)
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
