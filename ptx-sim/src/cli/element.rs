//! Types of buffer elements: their text, their values, and what NumPy calls them.

use half::{bf16, f16};
use serde_json::{Value, json};

/// The type of a buffer's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
    F16,
    BF16,
    F32,
    F64,
    E4M3,
    E5M2,
}

use Element::*;

const NAMES: [(&str, Element); 14] = [
    ("u8", U8),
    ("s8", S8),
    ("u16", U16),
    ("s16", S16),
    ("u32", U32),
    ("s32", S32),
    ("u64", U64),
    ("s64", S64),
    ("f16", F16),
    ("bf16", BF16),
    ("f32", F32),
    ("f64", F64),
    ("e4m3", E4M3),
    ("e5m2", E5M2),
];

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0))
}

/// The value of an 8-bit float.
fn eight(bits: u8, mantissa: u32, bias: i32, finite: bool) -> f64 {
    let sign = if bits & 0x80 != 0 { -1.0 } else { 1.0 };
    let (exp, man) = ((bits & 0x7f) as i32 >> mantissa, (bits & ((1 << mantissa) - 1)) as f64);
    let scale = (1u32 << mantissa) as f64;
    let top = (1 << (7 - mantissa)) - 1;
    sign * match exp {
        0 => man / scale * 2f64.powi(1 - bias),
        e if e == top && finite && bits & 0x7f == 0x7f => f64::NAN,
        e if e == top && !finite => {
            if man == 0.0 {
                f64::INFINITY
            } else {
                f64::NAN
            }
        }
        e => (1.0 + man / scale) * 2f64.powi(e - bias),
    }
}

impl Element {
    pub fn parse(name: &str) -> Option<Element> {
        NAMES.iter().find(|n| n.0 == name).map(|n| n.1)
    }

    pub fn names() -> String {
        NAMES.map(|n| n.0).join(", ")
    }

    pub fn name(self) -> &'static str {
        NAMES.iter().find(|n| n.1 == self).map_or("", |n| n.0)
    }

    pub fn bytes(self) -> usize {
        match self {
            U8 | S8 | E4M3 | E5M2 => 1,
            U16 | S16 | F16 | BF16 => 2,
            U32 | S32 | F32 => 4,
            U64 | S64 | F64 => 8,
        }
    }

    pub fn is_float(self) -> bool {
        matches!(self, F16 | BF16 | F32 | F64 | E4M3 | E5M2)
    }

    /// The value as a double, for floating types and integers up to 2^53 exactly.
    pub fn value(self, b: &[u8]) -> f64 {
        match self {
            F16 => f16::from_le_bytes(array(b)).to_f64(),
            BF16 => bf16::from_le_bytes(array(b)).to_f64(),
            F32 => f32::from_le_bytes(array(b)) as f64,
            F64 => f64::from_le_bytes(array(b)),
            E4M3 => eight(b[0], 3, 7, true),
            E5M2 => eight(b[0], 2, 15, false),
            _ => self.integer(b) as f64,
        }
    }

    fn integer(self, b: &[u8]) -> i128 {
        match self {
            U8 => b[0] as i128,
            S8 => b[0] as i8 as i128,
            U16 => u16::from_le_bytes(array(b)) as i128,
            S16 => i16::from_le_bytes(array(b)) as i128,
            U32 => u32::from_le_bytes(array(b)) as i128,
            S32 => i32::from_le_bytes(array(b)) as i128,
            U64 => u64::from_le_bytes(array(b)) as i128,
            _ => i64::from_le_bytes(array(b)) as i128,
        }
    }

    pub fn text(self, b: &[u8]) -> String {
        match self {
            F32 => f32::from_le_bytes(array(b)).to_string(),
            t if t.is_float() => t.value(b).to_string(),
            t => t.integer(b).to_string(),
        }
    }

    /// Infinities and NaN become null.
    pub fn json(self, b: &[u8]) -> Value {
        match self {
            F32 => json!(f32::from_le_bytes(array(b))),
            t if t.is_float() => json!(t.value(b)),
            U64 => json!(u64::from_le_bytes(array(b))),
            t => json!(t.integer(b) as i64),
        }
    }

    /// The nearest value of this type; integers are truncated.
    pub fn encode(self, v: f64) -> Vec<u8> {
        match self {
            F16 => f16::from_f64(v).to_le_bytes().to_vec(),
            BF16 => bf16::from_f64(v).to_le_bytes().to_vec(),
            F32 => (v as f32).to_le_bytes().to_vec(),
            F64 => v.to_le_bytes().to_vec(),
            E4M3 | E5M2 => {
                let far = |c: &u8| (self.value(&[*c]) - v).abs();
                let codes = (0..=255u8).filter(|c| self.value(&[*c]).is_finite());
                vec![codes.min_by(|a, b| far(a).total_cmp(&far(b))).unwrap_or(0)]
            }
            _ => (v as i128).to_le_bytes()[..self.bytes()].to_vec(),
        }
    }

    /// One value from its text.
    pub fn read(self, text: &str) -> Option<Vec<u8>> {
        if self.is_float() {
            return text.parse().ok().map(|v| self.encode(v));
        }
        let v: i128 = match text.strip_prefix("0x") {
            Some(hex) => i128::from_str_radix(hex, 16).ok()?,
            None => text.parse().ok()?,
        };
        let bits = 8 * self.bytes() as u32;
        let signed = matches!(self, S8 | S16 | S32 | S64);
        let (low, high) =
            if signed { (-(1i128 << (bits - 1)), 1i128 << (bits - 1)) } else { (0, 1i128 << bits) };
        (low..high).contains(&v).then(|| v.to_le_bytes()[..self.bytes()].to_vec())
    }

    /// NumPy's name, and whether the values must be widened to it: NumPy has no bf16 and no 8-bit floats.
    pub fn numpy(self) -> (&'static str, bool) {
        match self {
            U8 => ("|u1", false),
            S8 => ("|i1", false),
            U16 => ("<u2", false),
            S16 => ("<i2", false),
            U32 => ("<u4", false),
            S32 => ("<i4", false),
            U64 => ("<u8", false),
            S64 => ("<i8", false),
            F16 => ("<f2", false),
            F32 => ("<f4", false),
            F64 => ("<f8", false),
            BF16 | E4M3 | E5M2 => ("<f4", true),
        }
    }
}

/// Numbers of a seeded sequence (SplitMix64).
pub struct Random(u64);

impl Random {
    /// Different for every name.
    pub fn new(seed: u64, name: &str) -> Self {
        let hash =
            name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ b as u64).wrapping_mul(0x100_0000_01b3));
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ hash)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_type_round_trip() {
        for (name, e) in NAMES {
            let bytes = e.read("3").unwrap();
            assert_eq!(
                (bytes.len(), e.text(&bytes), e.value(&bytes)),
                (e.bytes(), "3".into(), 3.0),
                "{name}"
            );
        }
        assert_eq!(
            (S8.read("128"), U16.read("-1"), S16.text(&S16.read("-2").unwrap())),
            (None, None, "-2".into())
        );
        assert_eq!(
            (E4M3.value(&[0x7e]), E5M2.value(&[0x7c]), E4M3.value(&[1])),
            (448.0, f64::INFINITY, 1.0 / 512.0)
        );
        assert_ne!(Random::new(0, "a").bits(), Random::new(0, "b").bits());
    }
}
