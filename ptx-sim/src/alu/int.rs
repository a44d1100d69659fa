//! Scalar integer and bit semantics of PTX (PTX ISA §9.7.1, §9.7.2, §9.7.8).

use crate::op::{Alu, Cmp, W};

#[inline(always)]
pub(crate) fn shl32(a: u32, n: u32) -> u32 {
    if n < 32 { a << n } else { 0 }
}

#[inline(always)]
pub(crate) fn shr32(a: u32, n: u32) -> u32 {
    if n < 32 { a >> n } else { 0 }
}

#[inline(always)]
pub(crate) fn sar32(a: u32, n: u32) -> u32 {
    ((a as i32) >> n.min(31)) as u32
}

#[inline(always)]
pub(crate) fn lop3(a: u32, b: u32, c: u32, t: u8) -> u32 {
    let mut r = 0;
    for k in 0..8u32 {
        if t >> k & 1 != 0 {
            let x = if k & 4 != 0 { a } else { !a };
            let y = if k & 2 != 0 { b } else { !b };
            let z = if k & 1 != 0 { c } else { !c };
            r |= x & y & z;
        }
    }
    r
}

/// `prmt` with mode: 0 default, 1 f4e, 2 b4e, 3 rc8, 4 ecl, 5 ecr, 6 rc16.
pub(crate) fn prmt(a: u32, b: u32, c: u32, mode: u8) -> u32 {
    let bytes = (b as u64) << 32 | a as u64;
    let pick = |s: u32| (bytes >> (8 * (s & 7))) as u32 & 0xff;
    let sel = c & 3;
    let mut r = 0;
    for i in 0..4u32 {
        let v = match mode {
            0 => {
                let s = c >> (4 * i);
                let v = pick(s);
                if s & 8 != 0 { if v & 0x80 != 0 { 0xff } else { 0 } } else { v }
            }
            1 => pick(sel + i),
            2 => pick(sel.wrapping_sub(i) & 7),
            3 => pick(sel),
            4 => pick(sel.max(i)),
            5 => pick(sel.min(i)),
            _ => pick((sel & 1) * 2 + (i & 1)),
        };
        r |= v << (8 * i);
    }
    r
}

fn bfe(a: u64, pos: u32, len: u32, bits: u32, signed: bool) -> u64 {
    let (pos, len) = (pos & 0xff, len & 0xff);
    if len == 0 {
        return 0;
    }
    let sign_at = (pos + len - 1).min(bits - 1);
    let sign = signed && a >> sign_at & 1 != 0;
    let v = if pos < bits { a >> pos } else { 0 };
    let have = bits.saturating_sub(pos).min(len);
    let mask = if have >= 64 { !0 } else { (1u64 << have) - 1 };
    let out = v & mask;
    if sign { out | !mask } else { out }
}

fn bfi(a: u64, b: u64, pos: u32, len: u32, bits: u32) -> u64 {
    let (pos, len) = (pos & 0xff, len & 0xff);
    if pos >= bits || len == 0 {
        return b;
    }
    let len = len.min(bits - pos);
    let mask = if len >= 64 { !0 } else { (1u64 << len) - 1 } << pos;
    (b & !mask) | ((a << pos) & mask)
}

fn bits(w: W) -> u32 {
    match w {
        W::W16 => 16,
        W::W32 => 32,
        W::W64 => 64,
    }
}

/// Sign- or zero-extends the low `w` bits.
#[inline(always)]
pub(crate) fn ext(v: u64, w: W, signed: bool) -> i128 {
    match (w, signed) {
        (W::W16, true) => v as i16 as i128,
        (W::W32, true) => v as i32 as i128,
        (W::W64, true) => v as i64 as i128,
        (W::W16, false) => v as u16 as i128,
        (W::W32, false) => v as u32 as i128,
        (W::W64, false) => v as i128,
    }
}

fn mul_hi(a: u64, b: u64, w: W, signed: bool) -> u64 {
    if signed {
        ((ext(a, w, true) * ext(b, w, true)) >> bits(w)) as u64
    } else {
        ((ext(a, w, false) as u128 * ext(b, w, false) as u128) >> bits(w)) as u64
    }
}

/// Operations that are not worth a vector loop. `e` is the fourth source.
pub(crate) fn scalar(k: Alu, a: u64, b: u64, c: u64, e: u64) -> u64 {
    use Alu::*;
    match k {
        AddSat32 => (a as i32).saturating_add(b as i32) as u32 as u64,
        SubSat32 => (a as i32).saturating_sub(b as i32) as u32 as u64,
        MulHi(w, s) => mul_hi(a, b, w, s),
        MadHi(w, s) => mul_hi(a, b, w, s).wrapping_add(c),
        Mul24(s) | Mad24(s) => {
            let x = |v: u64| if s { ((v as i32) << 8 >> 8) as i64 } else { (v & 0xff_ffff) as i64 };
            let p = x(a) * x(b);
            if matches!(k, Mad24(_)) { p.wrapping_add(c as i64) as u64 } else { p as u64 }
        }
        // Division by zero is unspecified; the hardware answers all ones and the dividend.
        Div(w, s) => {
            let (x, y) = (ext(a, w, s), ext(b, w, s));
            if y == 0 { !0 } else { (x / y) as u64 }
        }
        Rem(w, s) => {
            let (x, y) = (ext(a, w, s), ext(b, w, s));
            if y == 0 { a } else { (x % y) as u64 }
        }
        Cnot(w) => (ext(a, w, false) == 0) as u64,
        Bfe(w, s) => bfe(a, b as u32, c as u32, bits(w), s),
        Bfi(w) => bfi(a, b, c as u32, e as u32, bits(w)),
        Bfind(w, s, shift) => {
            let n = bits(w);
            let x = ext(a, w, s);
            let v = (if s && x < 0 { !x } else { x }) as u64 & if n == 64 { !0 } else { (1 << n) - 1 };
            if v == 0 {
                0xffff_ffff
            } else {
                let top = 63 - v.leading_zeros();
                (if shift { n - 1 - top } else { top }) as u64
            }
        }
        Brev(W::W64) => a.reverse_bits(),
        Brev(_) => (a as u32).reverse_bits() as u64,
        Clz(W::W64) => a.leading_zeros() as u64,
        Clz(_) => (a as u32).leading_zeros() as u64,
        Popc(W::W64) => a.count_ones() as u64,
        Popc(_) => (a as u32).count_ones() as u64,
        Fns => fns(a as u32, b as u32, c as u32 as i32) as u64,
        PrmtMode(m) => prmt(a as u32, b as u32, c as u32, m) as u64,
        Sad(w, s) => {
            let (x, y) = (ext(a, w, s), ext(b, w, s));
            c.wrapping_add((x - y).unsigned_abs() as u64)
        }
        Szext(wrap, s) => {
            let n = if wrap { b as u32 & 31 } else { (b as u32).min(32) };
            let m = if n >= 32 { !0u32 } else { (1u32 << n) - 1 };
            let v = a as u32 & m;
            (if s && n > 0 && v >> (n - 1) & 1 != 0 { v | !m } else { v }) as u64
        }
        Bmsk(wrap) => {
            let (p, l) = (a as u32, b as u32);
            let (p, l) = if wrap { (p & 31, l & 31) } else { (p.min(32), l.min(32)) };
            let m = if l >= 32 { !0u32 } else { (1u32 << l) - 1 };
            shl32(m, p) as u64
        }
        Dp4a(sa, sb) => {
            let mut sum = c as u32;
            for i in 0..4 {
                let x = (a >> (8 * i)) as u8;
                let y = (b >> (8 * i)) as u8;
                let x = if sa { x as i8 as i32 } else { x as i32 };
                let y = if sb { y as i8 as i32 } else { y as i32 };
                sum = sum.wrapping_add((x * y) as u32);
            }
            sum as u64
        }
        Half2(op, s) => {
            let f = |x: u16, y: u16| match (op, s) {
                (0, _) => x.wrapping_add(y),
                (1, true) => (x as i16).min(y as i16) as u16,
                (1, false) => x.min(y),
                (_, true) => (x as i16).max(y as i16) as u16,
                (_, false) => x.max(y),
            };
            let (lo, hi) = (f(a as u16, b as u16), f((a >> 16) as u16, (b >> 16) as u16));
            (hi as u64) << 16 | lo as u64
        }
        _ => unreachable!("{k:?} has a vector loop"),
    }
}

/// Integer comparison on sign- or zero-extended operands; floats have their own.
#[inline(always)]
pub(crate) fn compare<T: PartialOrd>(cmp: Cmp, a: T, b: T) -> bool {
    match cmp {
        Cmp::Eq => a == b,
        Cmp::Ne => a != b,
        Cmp::Lt => a < b,
        Cmp::Le => a <= b,
        Cmp::Gt => a > b,
        Cmp::Ge => a >= b,
        _ => false,
    }
}

/// Floating-point comparison with the unordered forms.
#[inline(always)]
pub(crate) fn compare_f(cmp: Cmp, a: f64, b: f64) -> bool {
    let nan = a.is_nan() || b.is_nan();
    match cmp {
        Cmp::Eq => a == b,
        Cmp::Ne => !nan && a != b,
        Cmp::Lt => a < b,
        Cmp::Le => a <= b,
        Cmp::Gt => a > b,
        Cmp::Ge => a >= b,
        Cmp::Equ => nan || a == b,
        Cmp::Neu => nan || a != b,
        Cmp::Ltu => nan || a < b,
        Cmp::Leu => nan || a <= b,
        Cmp::Gtu => nan || a > b,
        Cmp::Geu => nan || a >= b,
        Cmp::Num => !nan,
        Cmp::Nan => nan,
    }
}

/// `fns`: from the bit `base` of `mask` on, upwards or downwards, the place of the `|offset|`-th that is set.
fn fns(mask: u32, base: u32, offset: i32) -> u32 {
    let set = |at: u32| mask >> at & 1 != 0;
    if base >= 32 {
        return !0;
    }
    let nth = |places: &mut dyn Iterator<Item = u32>| {
        places.filter(|at| set(*at)).nth(offset.unsigned_abs() as usize - 1).unwrap_or(!0)
    };
    match offset {
        0 if set(base) => base,
        0 => !0,
        1.. => nth(&mut (base..32)),
        _ => nth(&mut (0..=base).rev()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_clamp_at_the_width() {
        assert_eq!(shl32(1, 32), 0);
        assert_eq!(shr32(!0, 40), 0);
        assert_eq!(sar32(0x8000_0000, 99), !0);
    }

    #[test]
    fn bit_fields() {
        let f = |a, p, l, s| scalar(Alu::Bfe(W::W32, s), a, p, l, 0) as u32;
        assert_eq!(f(0xf0, 4, 4, false), 0xf);
        assert_eq!(f(0xf0, 4, 4, true), !0);
        assert_eq!(f(0x8000_0000, 28, 32, true), 0xffff_fff8);
        assert_eq!(f(0x8000_0000, 40, 4, true), !0);
        assert_eq!(f(1, 0, 0, true), 0);
        assert_eq!(scalar(Alu::Bfi(W::W32), 0xff, 0, 8, 4) as u32, 0xf00);
        assert_eq!(scalar(Alu::Bfi(W::W32), 0xff, 7, 32, 4) as u32, 7);
        assert_eq!(scalar(Alu::Bfind(W::W32, false, false), 0, 0, 0, 0) as u32, !0);
        assert_eq!(scalar(Alu::Bfind(W::W32, true, false), 0xffff_fffe, 0, 0, 0), 0);
        assert_eq!(scalar(Alu::Bfind(W::W32, false, true), 1, 0, 0, 0), 31);
        let fns = |mask: u32, base: u32, n: i32| {
            scalar(Alu::Fns, mask.into(), base.into(), n as u32 as u64, 0) as i32
        };
        // The place itself, the next ones upwards, and downwards; the first counts the place itself.
        assert_eq!([fns(0b1010_0110, 1, 0), fns(0b1010_0110, 3, 0)], [1, -1]);
        assert_eq!([1, 2, 3, 4, 5].map(|n| fns(0b1010_0110, 0, n)), [1, 2, 5, 7, -1]);
        assert_eq!([1, 2, 3].map(|n| fns(0b1010_0110, 5, n)), [5, 7, -1]);
        assert_eq!([-1, -2, -3, -4].map(|n| fns(0b1010_0110, 5, n)), [5, 2, 1, -1]);
        assert_eq!([fns(!0, 31, 1), fns(!0, 31, 2), fns(!0, 0, -1), fns(!0, 0, i32::MIN)], [31, -1, 0, -1]);
        assert_eq!([fns(!0, 32, 0), fns(!0, 32, 1), fns(!0, u32::MAX, -1)], [-1, -1, -1]);
    }

    #[test]
    fn prmt_modes() {
        let (a, b) = (0x4433_2211, 0x8877_6655);
        assert_eq!(prmt(a, b, 0x7610, 0), 0x8877_2211);
        assert_eq!(prmt(a, b, 0x000f, 0), 0x1111_11ff);
        assert_eq!(prmt(a, b, 1, 1), 0x5544_3322);
        assert_eq!(prmt(a, b, 2, 3), 0x3333_3333);
        assert_eq!(prmt(a, b, 1, 6), 0x4433_4433);
    }

    #[test]
    fn division_edge_cases() {
        assert_eq!(scalar(Alu::Div(W::W32, false), 7, 0, 0, 0) as u32, !0);
        assert_eq!(scalar(Alu::Rem(W::W32, true), (-7i32) as u32 as u64, 2, 0, 0) as i32, -1);
        assert_eq!(scalar(Alu::Div(W::W32, true), 0x8000_0000, !0, 0, 0) as u32, 0x8000_0000);
        assert_eq!(scalar(Alu::MulHi(W::W64, true), !0, !0, 0, 0), 0);
        assert_eq!(scalar(Alu::MulHi(W::W64, false), !0, !0, 0, 0), !1);
    }

    #[test]
    fn lop3_equals_its_truth_table() {
        for t in 0..=255u8 {
            let r = lop3(0xf0f0_f0f0, 0xcccc_cccc, 0xaaaa_aaaa, t);
            assert_eq!(r & 0xff, t as u32);
        }
    }
}
