//! Calls, returns, and the functions of the CUDA runtime: `printf` and `assert`.

use super::{Engine, Flow, Warp};
use crate::findings::FindingKind;
use crate::kernel::{LOCAL_WINDOW, Passed, SHARED_WINDOW, WINDOW};
use crate::op::*;

/// Bytes that a launch may print, the size of CUDA's own buffer.
pub(crate) const PRINTED: usize = 1 << 20;
/// Bytes of a string that is printed or quoted.
const STRING: u64 = 4096;

impl Engine<'_> {
    pub(super) fn call(&mut self, w: &mut Warp, pc: u32, c: &Call, m: u32, mask: u32) -> Flow {
        let k = self.k;
        let (func, lanes) = match c.target {
            Target::Direct(f) => (&k.funcs[f as usize], m),
            Target::Indirect(slot) => {
                let first = m.trailing_zeros();
                let to = w.regs.get64(slot);
                let v = to[first as usize];
                let Some(f) = k.funcs.iter().find(|f| f.address == v) else {
                    self.find(FindingKind::BadAddress, w, pc, first, 0, || {
                        format!("calls {v:#x}, which is the address of no function of this module")
                    });
                    return Flow::Exit(m);
                };
                (f, (0..32).fold(0, |s, i| s | ((to[i] == v) as u32) << i) & m)
            }
        };
        if func.params.len() != c.args.len() || c.results.len() > func.results.len() {
            let (name, have, want) = (&func.name, c.args.len(), func.params.len());
            self.find(FindingKind::BadAddress, w, pc, lanes.trailing_zeros(), 0, || {
                format!("calls `{name}`, which has {want} parameters, with {have}")
            });
            return Flow::Exit(lanes);
        }
        for (from, to) in c.args.iter().zip(&func.params) {
            pass(w, from, to, lanes);
        }
        w.regs.put(func.ret, &[pc + 1; 32], lanes);
        if lanes == mask { Flow::Branch(func.entry, lanes) } else { Flow::Fork(func.entry, lanes) }
    }

    /// Lanes may have come from different calls.
    pub(super) fn ret(&mut self, w: &mut Warp, func: u32, m: u32, mask: u32) -> Flow {
        let k = self.k;
        let func = &k.funcs[func as usize];
        let back = w.regs.r[func.ret as usize].0;
        let to = back[m.trailing_zeros() as usize & 31];
        let lanes = (0..32).fold(0, |s, i| s | ((back[i] == to) as u32) << i) & m;
        if let Some(Op::Call(c)) = (to as usize).checked_sub(1).map(|at| &k.insts[at].op) {
            for (from, to) in func.results.iter().zip(&c.results) {
                pass(w, from, to, lanes);
            }
        }
        if lanes == mask { Flow::Branch(to, lanes) } else { Flow::Fork(to, lanes) }
    }

    pub(super) fn printf(&mut self, w: &mut Warp, p: &Printf, m: u32) {
        for lane in (0..32).filter(|i| m >> i & 1 != 0) {
            let format = self.string(w, value(w, &p.format, lane), lane);
            let args = value(w, &p.args, lane);
            let text = self.formatted(w, &format, args, lane);
            self.log.print(&text);
        }
        if let Some(Passed::Local { at, .. } | Passed::Reg { slot: at, .. }) = p.result {
            // CUDA returns the number of arguments; what matters to programs is that it is not negative.
            let one = [1; 32];
            match p.result {
                Some(Passed::Reg { .. }) => w.regs.put(at, &one, m),
                _ => (0..32).filter(|i| m >> i & 1 != 0).for_each(|i| w.local[at as usize / 4 * 32 + i] = 1),
            }
        }
    }

    pub(super) fn assert_fail(&mut self, w: &mut Warp, pc: u32, p: &[Passed; 4], m: u32) -> Flow {
        let lane = m.trailing_zeros();
        let at = |k: usize| value(w, &p[k], lane);
        let (message, file, function) =
            (self.string(w, at(0), lane), self.string(w, at(1), lane), self.string(w, at(3), lane));
        let line = at(2) as u32;
        self.find(FindingKind::AssertionFailed, w, pc, lane, 0, || {
            let lanes = match m.count_ones() {
                1 => String::new(),
                n => format!(", in {n} lanes of the warp"),
            };
            format!("assertion `{message}` failed in `{function}` ({file}:{line}){lanes}")
        });
        // CUDA stops the launch; the others go on here, so that one run finds more.
        Flow::Exit(m)
    }

    /// One byte at a generic address, if there is one.
    fn byte(&self, w: &Warp, addr: u64, lane: u32) -> Option<u8> {
        let word = |v: u32, at: u64| (v >> (8 * (at % 4))) as u8;
        if (LOCAL_WINDOW..LOCAL_WINDOW + WINDOW).contains(&addr) {
            let at = addr - LOCAL_WINDOW;
            return w.local.get(at as usize / 4 * 32 + lane as usize).map(|v| word(*v, at));
        }
        if (SHARED_WINDOW..SHARED_WINDOW + WINDOW).contains(&addr) {
            let at = (addr - SHARED_WINDOW & 0xff_ffff).checked_sub(crate::kernel::SHARED_BASE as u64)?;
            return self.ctas[w.cta as usize].shared.get(at as usize / 4).map(|v| word(*v, at));
        }
        let mut b = [0];
        self.env.mem.read(addr, &mut b).ok().map(|()| b[0])
    }

    fn bytes(&self, w: &Warp, addr: u64, n: u64, lane: u32) -> u64 {
        (0..n).fold(0, |v, k| v | (self.byte(w, addr.wrapping_add(k), lane).unwrap_or(0) as u64) << (8 * k))
    }

    /// A C string.
    fn string(&self, w: &Warp, addr: u64, lane: u32) -> String {
        if addr == 0 {
            return "(null)".into();
        }
        let bytes: Vec<u8> =
            (0..STRING).map_while(|k| self.byte(w, addr.wrapping_add(k), lane).filter(|b| *b != 0)).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// `printf`: the arguments lie one after the other at `args`, each aligned to its size.
    fn formatted(&self, w: &Warp, format: &str, args: u64, lane: u32) -> String {
        let (mut out, mut at) = (String::new(), args);
        let mut chars = format.chars().peekable();
        let mut next = |size: u64| {
            at = at.next_multiple_of(size);
            at += size;
            self.bytes(w, at - size, size, lane)
        };
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let mut spec = Spec::default();
            while let Some(f) = chars.next_if(|c| "-+ #0".contains(*c)) {
                spec.flag(f);
            }
            let mut number = |next: &mut dyn FnMut(u64) -> u64| {
                if chars.next_if_eq(&'*').is_some() {
                    return Some(next(4) as i32);
                }
                let mut n = None;
                while let Some(d) = chars.next_if(char::is_ascii_digit) {
                    n = Some(n.unwrap_or(0i32).saturating_mul(10).saturating_add(d as i32 - '0' as i32));
                }
                n
            };
            let width = number(&mut next).unwrap_or(0);
            spec.left |= width < 0;
            spec.width = width.unsigned_abs().min(1000) as usize;
            if chars.next_if_eq(&'.').is_some() {
                let mut precision = None;
                if chars.next_if_eq(&'*').is_some() {
                    precision = Some(next(4) as i32);
                }
                while let Some(d) = chars.next_if(char::is_ascii_digit) {
                    let so_far = precision.unwrap_or(0i32);
                    precision = Some(so_far.saturating_mul(10).saturating_add(d as i32 - '0' as i32));
                }
                spec.precision = usize::try_from(precision.unwrap_or(0)).ok().map(|p| p.min(1000));
            }
            let mut size = 4;
            while let Some(l) = chars.next_if(|c| "hljztL".contains(*c)) {
                if l != 'h' {
                    size = 8;
                }
            }
            match chars.next() {
                Some('d' | 'i') => {
                    let v = next(size);
                    let v = if size == 4 { v as i32 as i64 } else { v as i64 };
                    spec.integer(&mut out, v < 0, v.unsigned_abs().to_string());
                }
                Some('u') => spec.integer(&mut out, false, next(size).to_string()),
                Some('o') => spec.integer(&mut out, false, format!("{:o}", next(size))),
                Some(x @ ('x' | 'X')) => {
                    let v = next(size);
                    let digits = if x == 'x' { format!("{v:x}") } else { format!("{v:X}") };
                    let prefix = if spec.alternate && v != 0 { format!("0{x}") } else { String::new() };
                    spec.integer(&mut out, false, prefix + &digits);
                }
                Some('c') => spec.pad(&mut out, &(next(4) as u8 as char).to_string()),
                Some('p') => spec.pad(&mut out, &format!("{:#x}", next(8))),
                Some('s') => {
                    let text = self.string(w, next(8), lane);
                    let most = spec.precision.unwrap_or(usize::MAX);
                    spec.pad(&mut out, &text.chars().take(most).collect::<String>());
                }
                Some(f @ ('f' | 'F' | 'e' | 'E' | 'g' | 'G' | 'a' | 'A')) => {
                    spec.float(&mut out, f, f64::from_bits(next(8)));
                }
                Some('%') => out.push('%'),
                Some(other) => {
                    out.push('%');
                    out.push(other);
                }
                None => out.push('%'),
            }
        }
        out
    }
}

/// Copies what is passed, word by word, in some lanes.
fn pass(w: &mut Warp, from: &Passed, to: &Passed, lanes: u32) {
    let bytes = |p: &Passed| match *p {
        Passed::Local { bytes, .. } | Passed::Reg { bytes, .. } => bytes,
    };
    let n = bytes(from).min(bytes(to));
    for word in 0..n.div_ceil(4) {
        let mut v = match *from {
            Passed::Reg { slot, .. } => w.regs.r[(slot + word) as usize].0,
            Passed::Local { at, .. } => {
                let first = (at / 4 + word) as usize * 32;
                std::array::from_fn(|i| w.local[first + i])
            }
        };
        if n < 4 {
            v = v.map(|x| x & ((1 << (8 * n)) - 1));
        }
        match *to {
            Passed::Reg { slot, .. } => w.regs.put(slot + word, &v, lanes),
            Passed::Local { at, .. } => {
                let first = (at / 4 + word) as usize * 32;
                (0..32).filter(|i| lanes >> i & 1 != 0).for_each(|i| w.local[first + i] = v[i]);
            }
        }
    }
}

/// What is passed, in one lane.
fn value(w: &Warp, p: &Passed, lane: u32) -> u64 {
    let word = |k: u32| match *p {
        Passed::Reg { slot, .. } => w.regs.r[(slot + k) as usize].0[lane as usize],
        Passed::Local { at, .. } => w.local[(at / 4 + k) as usize * 32 + lane as usize],
    };
    let (Passed::Reg { bytes, .. } | Passed::Local { bytes, .. }) = *p;
    word(0) as u64 | if bytes == 8 { (word(1) as u64) << 32 } else { 0 }
}

/// A conversion of `printf`.
#[derive(Default)]
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
}

impl Spec {
    fn flag(&mut self, c: char) {
        match c {
            '-' => self.left = true,
            '+' => self.plus = true,
            ' ' => self.space = true,
            '#' => self.alternate = true,
            _ => self.zero = true,
        }
    }

    fn pad(&self, out: &mut String, text: &str) {
        let gap = " ".repeat(self.width.saturating_sub(text.chars().count()));
        if self.left {
            *out += text;
            *out += &gap;
        } else {
            *out += &gap;
            *out += text;
        }
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    fn signed(&self, out: &mut String, sign: &str, mut digits: String, zero: bool) {
        if zero && !self.left {
            let gap = self.width.saturating_sub(sign.len() + digits.len());
            digits.insert_str(0, &"0".repeat(gap));
        }
        self.pad(out, &format!("{sign}{digits}"));
    }

    fn integer(&self, out: &mut String, negative: bool, mut digits: String) {
        let least = self.precision.unwrap_or(0);
        digits.insert_str(0, &"0".repeat(least.saturating_sub(digits.len())));
        self.signed(out, self.sign(negative), digits, self.zero && self.precision.is_none());
    }

    fn float(&self, out: &mut String, kind: char, v: f64) {
        let upper = kind.is_ascii_uppercase();
        let case = |s: String| if upper { s.to_uppercase() } else { s };
        let sign = self.sign(v.is_sign_negative());
        let a = v.abs();
        if !v.is_finite() {
            let text = if v.is_nan() { "nan" } else { "inf" };
            return self.signed(out, sign, case(text.into()), false);
        }
        let digits = match kind.to_ascii_lowercase() {
            'f' => format!("{a:.*}", self.precision.unwrap_or(6)),
            'e' => exponent(a, self.precision.unwrap_or(6)),
            'g' => general(a, self.precision.unwrap_or(6).max(1), self.alternate),
            _ => hexadecimal(a),
        };
        self.signed(out, sign, case(digits), self.zero);
    }
}

/// `d.ddde±dd`, as C writes it.
fn exponent(a: f64, precision: usize) -> String {
    let text = format!("{a:.precision$e}");
    let (digits, e) = text.split_once('e').unwrap_or((&text, "0"));
    let e: i32 = e.parse().unwrap_or(0);
    format!("{digits}e{}{:02}", if e < 0 { '-' } else { '+' }, e.abs())
}

/// `%g`: the shorter of the two, without trailing zeros.
fn general(a: f64, precision: usize, keep: bool) -> String {
    let rounded = exponent(a, precision - 1);
    let e: i32 = rounded.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let trim = |s: &str| match keep || !s.contains('.') {
        true => s.to_string(),
        false => s.trim_end_matches('0').trim_end_matches('.').to_string(),
    };
    if e < -4 || e >= precision as i32 {
        let (digits, e) = rounded.split_once('e').unwrap_or((&rounded, "+00"));
        return format!("{}e{e}", trim(digits));
    }
    trim(&format!("{a:.*}", (precision as i32 - 1 - e).max(0) as usize))
}

/// `%a`
fn hexadecimal(a: f64) -> String {
    let (bits, lead) = (a.to_bits(), (a >= f64::MIN_POSITIVE) as u32);
    let e = if a == 0.0 { 0 } else { (bits >> 52).max(1) as i64 - 1023 };
    let fraction = format!("{:013x}", bits & ((1 << 52) - 1));
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("0x{lead}{point}{fraction}p{e:+}")
}
