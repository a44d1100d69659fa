//! Matrices in registers.

use super::{Addr, MSpace, PSrc, Slot};
use crate::types::Ty;

/// `wgmma.mma_async`: m is 64.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wgmma {
    pub n: u32,
    pub k: u32,
    pub ty: Ty,
    pub b_ty: Ty,
    pub d_ty: Ty,
    pub sat: bool,
    pub d: Vec<Slot>,
    /// Four registers, or one descriptor.
    pub a: Vec<Slot>,
    pub b: Slot,
    pub scale_d: PSrc,
    pub neg_a: bool,
    pub neg_b: bool,
    pub trans_a: bool,
    pub trans_b: bool,
}

/// `ldmatrix` or `stmatrix` of one 8×8 matrix a register.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MatrixCopy {
    pub store: bool,
    pub trans: bool,
    pub addr: Addr,
    pub regs: Vec<Slot>,
}

/// `mma.sync`: m is 16, or 8 if `a` is one register; n is 8.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mma {
    pub k: u32,
    pub a_ty: Ty,
    pub b_ty: Ty,
    pub d_ty: Ty,
    pub sat: bool,
    pub d: Vec<Slot>,
    pub a: Vec<Slot>,
    pub b: Vec<Slot>,
    pub c: Vec<Slot>,
}

/// How the elements of a `wmma` matrix lie in the lanes: each has some consecutive ones of the lines (rows, or columns) that
/// are contiguous in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fragment {
    pub lines: u32,
    pub len: u32,
    /// Elements of a lane.
    pub elements: u32,
    /// Bytes of an element.
    pub bytes: u32,
    /// The matrix lies by rows in memory.
    pub row: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WmmaCopy {
    pub store: bool,
    pub space: MSpace,
    pub addr: Addr,
    pub fragment: Fragment,
    pub accumulator: bool,
    pub regs: Vec<Slot>,
    pub stride: Slot,
    /// A register for parts of registers.
    pub scratch: Slot,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wmma {
    pub shape: [u32; 3],
    pub a_ty: Ty,
    pub d_ty: Ty,
    pub sat: bool,
    pub fa: Fragment,
    pub fb: Fragment,
    pub fc: Fragment,
    pub a: Vec<Slot>,
    pub b: Vec<Slot>,
    pub c: Vec<Slot>,
    pub d: Vec<Slot>,
}
