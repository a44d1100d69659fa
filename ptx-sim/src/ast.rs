//! The syntax tree of a PTX module. Register names are already resolved to numbers.

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
}

#[derive(Debug)]
pub(crate) struct Param<'a> {
    pub name: &'a str,
    pub size: u32,
    pub align: u32,
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

#[derive(Debug, Default)]
pub(crate) struct Entry<'a> {
    pub name: &'a str,
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
    pub reqnctapercluster: Option<[u32; 3]>,
    pub explicit_cluster: bool,
}

#[derive(Debug)]
pub(crate) struct AstModule<'a> {
    pub version: (u32, u32),
    /// `90` of `sm_90a`.
    pub sm: u32,
    pub vars: Vec<Var<'a>>,
    pub entries: Vec<Entry<'a>>,
    pub files: HashMap<u32, &'a str>,
}
