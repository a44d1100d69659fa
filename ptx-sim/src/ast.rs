//! The syntax tree of a PTX module. Register names are already resolved to numbers.

use crate::error::ParseError;
use crate::lex::Pos;
use crate::types::Ty;
use std::collections::HashMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    Shared,
    Const,
    Local,
}

/// Number of a register within its kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RegId(pub u32);

/// Number of a `{ }` scope within its kernel; labels are looked up from the inside out.
pub(crate) type ScopeId = u32;

#[derive(Debug)]
pub(crate) struct Var<'a> {
    pub name: &'a str,
    pub space: Space,
    pub align: u32,
    /// Bytes; 0 for an incomplete array (`.extern .shared … x[]`).
    pub size: u64,
    pub init: Vec<u8>,
    /// Addresses among the initial values: place in `init`, symbol, offset.
    pub relocs: Vec<(usize, &'a str, i64)>,
}

#[derive(Debug)]
pub(crate) struct Param<'a> {
    pub name: &'a str,
    pub size: u32,
    pub align: u32,
    /// Parameters of functions may be registers.
    pub reg: Option<RegId>,
}

/// An operand as written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand<'a> {
    Reg(RegId),
    /// `!%p1`
    Not(RegId),
    /// `%tid.x`: name without `%`, component or "".
    Special(&'a str, &'a str),
    Int(u64),
    F32(u32),
    F64(u64),
    /// A variable, parameter or label, plus an offset in bytes.
    Sym(&'a str, i64),
    Vec(Vec<Operand<'a>>),
    /// `(a, b)`: arguments and results of a call.
    List(Vec<Operand<'a>>),
    /// A `.param` variable of the body, by its place among them ([`Entry::call_params`]), plus an offset in bytes.
    CallParam(u32, i64),
    /// `[base+off]` and, for tensor copies, `[base, {coordinates}]`.
    Addr(Box<Operand<'a>>, i64, Vec<Operand<'a>>),
    /// `d|p`
    Pair(Box<Operand<'a>>, Box<Operand<'a>>),
    /// `_`
    Sink,
}

/// A source position given by `.loc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loc {
    pub file: u32,
    pub line: u32,
    pub col: u32,
    /// What was inlined to get here: number of the call's `.loc` in [`AstModule::inlined`].
    pub inlined: Option<u32>,
}

/// A call that was inlined: `function_name` and `inlined_at` of a `.loc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Inlined<'a> {
    /// Label of the name in `.debug_str`, and an offset from it.
    pub function: Option<(&'a str, u32)>,
    pub file: u32,
    pub line: u32,
    pub col: u32,
    /// The call may itself stand in what was inlined.
    pub outer: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct AstInst<'a> {
    pub pos: Pos,
    pub loc: Option<Loc>,
    /// Guard register, and whether it is negated.
    pub guard: Option<(RegId, bool)>,
    pub opcode: &'a str,
    pub mods: Vec<&'a str>,
    pub ops: Vec<Operand<'a>>,
    pub scope: ScopeId,
    /// `.pragma "used_bytes_mask"` before it: the bytes of a load whose values matter.
    pub used: Option<u32>,
}

/// A kernel (`.entry`) or a device function (`.func`).
#[derive(Debug, Default)]
pub(crate) struct Entry<'a> {
    pub name: &'a str,
    pub is_func: bool,
    /// Functions may be declared only.
    pub has_body: bool,
    /// Why the body could not be read.
    pub error: Option<ParseError>,
    pub results: Vec<Param<'a>>,
    /// Offset and size of each `.param` variable in the body, and the bytes that all take.
    pub call_params: Vec<(u32, u32)>,
    pub call_bytes: u32,
    /// Of the pragma that stands before the next instruction.
    pub used_bytes: Option<u32>,
    pub params: Vec<Param<'a>>,
    pub reg_types: Vec<Ty>,
    pub vars: Vec<Var<'a>>,
    pub body: Vec<AstInst<'a>>,
    pub labels: HashMap<(ScopeId, &'a str), usize>,
    /// `.branchtargets` lists by the label before them.
    pub branch_targets: HashMap<(ScopeId, &'a str), Vec<&'a str>>,
    pub scope_parent: Vec<ScopeId>,
    pub maxntid: Option<[u32; 3]>,
    pub reqntid: Option<[u32; 3]>,
    pub maxnreg: Option<u32>,
    pub minnctapersm: Option<u32>,
    pub reqnctapercluster: Option<[u32; 3]>,
    pub explicit_cluster: bool,
}

#[derive(Debug, Default)]
pub(crate) struct AstModule<'a> {
    pub version: (u32, u32),
    /// `90` of `sm_90a`.
    pub sm: u32,
    /// `a` of `sm_90a`: features of one architecture, or (`f`) of a family.
    pub suffix: Option<char>,
    pub vars: Vec<Var<'a>>,
    pub entries: Vec<Entry<'a>>,
    pub funcs: Vec<Entry<'a>>,
    pub files: HashMap<u32, &'a str>,
    pub inlined: Vec<Inlined<'a>>,
    /// Bytes of `.debug_str`, and where its labels point.
    pub debug_str: (Vec<u8>, HashMap<&'a str, u32>),
}
