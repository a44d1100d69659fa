//! Register-only operations and their modifiers.

use crate::types::Ty;

/// Rounding modes; the discriminants index nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rnd {
    Near,
    Zero,
    Down,
    Up,
    /// Nearest, ties away from zero (`.rna`).
    Away,
}

/// Modifiers of floating-point operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fl {
    pub rnd: Rnd,
    pub ftz: bool,
    pub sat: bool,
    pub relu: bool,
    /// `.NaN`: a NaN operand makes the result NaN.
    pub nan: bool,
    pub xorsign: bool,
}

impl Fl {
    pub const RN: Fl = Fl { rnd: Rnd::Near, ftz: false, sat: false, relu: false, nan: false, xorsign: false };
    pub fn plain(self) -> bool {
        self.rnd == Rnd::Near && !self.sat && !self.relu && !self.nan && !self.xorsign
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FOp {
    Add,
    Sub,
    Mul,
    Fma,
    Min,
    Max,
    Abs,
    Neg,
    Div,
    Rcp,
    Sqrt,
    Rsqrt,
    Ex2,
    Lg2,
    Tanh,
    Sin,
    Cos,
    Copysign,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// Floating-point comparisons that hold when an operand is NaN.
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoolOp {
    And,
    Or,
    Xor,
}

/// Width of an integer operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum W {
    W16,
    W32,
    W64,
}

/// Operation of a register-only instruction. `W` is the operand width; `bool` tells signed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Alu {
    Mov32,
    Mov64,
    Add(W),
    Sub(W),
    AddSat32,
    SubSat32,
    MulLo(W),
    MulHi(W, bool),
    /// 16×16→32 or 32×32→64.
    MulWide(W, bool),
    MadLo(W),
    MadHi(W, bool),
    MadWide(W, bool),
    Mul24(bool),
    Mad24(bool),
    Div(W, bool),
    Rem(W, bool),
    Min(W, bool),
    /// The smaller of two signed words, and 0 where that is negative.
    MinRelu,
    MaxRelu,
    Max(W, bool),
    Abs(W),
    NegI(W),
    And(W),
    Or(W),
    Xor(W),
    Not(W),
    Cnot(W),
    Shl(W),
    Shr(W, bool),
    Lop3(u8),
    Bfe(W, bool),
    Bfi(W),
    Bfind(W, bool, bool),
    Brev(W),
    Clz(W),
    Popc(W),
    /// The place of the n-th bit that is set, from a place on.
    Fns,
    Prmt,
    PrmtMode(u8),
    /// Funnel shift: left?, wrap?
    Shf(bool, bool),
    Sad(W, bool),
    Szext(bool, bool),
    Bmsk(bool),
    /// Dot product of 4 bytes: signedness of a and b.
    Dp4a(bool, bool),
    /// Two 16-bit halves: 0 add, 1 min, 2 max; signed.
    Half2(u8, bool),
    /// b32 ← two b16 in (a, b).
    Pack16,
    /// Halves of a b32.
    Lo16,
    Hi16,
    /// b64 ← two b32 in (a, b).
    Pack32,
    FmaF32(bool),
    AddF32(bool),
    MulF32(bool),
    F32(FOp, Fl),
    F64(FOp, Fl),
    F16(FOp, Fl),
    F16x2(FOp, Fl),
    BF16(FOp, Fl),
    BF16x2(FOp, Fl),
    Cvt(Ty, Ty, Fl),
    /// Packed conversion of two f32 (a high, b low) to f16x2, bf16x2, e4m3x2, e5m2x2.
    CvtPack(Ty, Fl),
    /// Two fp8 to f16x2, and back.
    CvtFp8ToF16x2(bool, Fl),
    CvtF16x2ToFp8(bool, Fl),
    /// `cvt.rni.f32.f32` and friends, with the integer rounding mode in `Fl`.
    RoundF32(Fl),
    RoundF64(Fl),
    RoundF16(Fl),
    Testp(u8, bool),
}
