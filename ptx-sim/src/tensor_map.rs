//! Tensor maps: what `cp.async.bulk.tensor` copies.
//!
//! PTX never looks into the 128 bytes of a `CUtensorMap`, and their layout is undocumented. So a launch builds a
//! [`TensorMap`] and lowers it for its device: the driver's encoding on a GPU, [`TensorMap::encode`] here.

/// Size and type of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TensorElement {
    U8,
    U16,
    U32,
    I32,
    U64,
    I64,
    F16,
    F32,
    F64,
    BF16,
}

/// By the driver's numbers.
const ELEMENTS: [TensorElement; 10] = [
    TensorElement::U8,
    TensorElement::U16,
    TensorElement::U32,
    TensorElement::I32,
    TensorElement::U64,
    TensorElement::I64,
    TensorElement::F16,
    TensorElement::F32,
    TensorElement::F64,
    TensorElement::BF16,
];

impl TensorElement {
    /// The one with a number of the driver's (CUDA driver API, `CUtensorMapDataType`); `None` for those of other types.
    pub fn of_driver(number: u32) -> Option<Self> {
        ELEMENTS.get(number as usize).copied()
    }

    /// Size in bytes.
    pub fn bytes(self) -> u32 {
        match self {
            TensorElement::U8 => 1,
            TensorElement::U16 | TensorElement::F16 | TensorElement::BF16 => 2,
            TensorElement::U32 | TensorElement::I32 | TensorElement::F32 => 4,
            _ => 8,
        }
    }
}

/// How 16-byte pieces are permuted in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Swizzle {
    /// Dense.
    #[default]
    None,
    /// Within 32-byte rows.
    B32,
    /// Within 64-byte rows.
    B64,
    /// Within 128-byte rows.
    B128,
}

impl Swizzle {
    /// Bits of the row number that are XORed into the 16-byte index.
    pub(crate) fn bits(self) -> u32 {
        self as u32
    }

    /// Where the byte at shared address `a` goes.
    pub(crate) fn apply(self, a: u32) -> u32 {
        a ^ ((a >> 7) & ((1 << self.bits()) - 1)) << 4
    }
}

/// The window of an im2col copy: `pixels` positions of the dimensions between the first (channels) and the last (images),
/// in the order of memory, each with `channels` elements. Positions stay within a box: from `lower` to the last position
/// plus `upper`, in each dimension (PTX ISA §5.5.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Im2col {
    /// First position of the box, one number for each dimension but the first and the last.
    pub lower: Vec<i32>,
    /// Last position of the box, counted from the tensor's last one.
    pub upper: Vec<i32>,
    /// Elements of a position, 1 to 256.
    pub channels: u32,
    /// Positions of one copy, 1 to 1024.
    pub pixels: u32,
}

/// A tensor in global memory and the box that one copy moves. Dimension 0 is contiguous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorMap {
    /// Device address of element 0, a multiple of 16.
    pub address: u64,
    /// Element type.
    pub element: TensorElement,
    /// Extents in elements, 1 to 5 dimensions.
    pub dims: Vec<u64>,
    /// Strides in bytes of dimensions 1 and up, multiples of 16.
    pub strides: Vec<u64>,
    /// Box extents in elements, each 1 to 256; empty for im2col. Of dimension `d`, every `steps[d]`th is copied.
    pub tile: Vec<u32>,
    /// Steps in elements, each 1 to 8; that of dimension 0 is ignored, as the driver's manual says.
    pub steps: Vec<u32>,
    /// Permutation in shared memory.
    pub swizzle: Swizzle,
    /// Elements outside the tensor become NaN instead of zero (floating types): every 16 bits hold 0x7ff7.
    pub nan_fill: bool,
    /// The window of im2col copies, in place of a tile.
    pub im2col: Option<Im2col>,
}

/// Why a tensor map is impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tensor map: {0}")]
pub struct TensorMapError(String);

impl Im2col {
    fn validate(&self, rank: usize) -> Result<(), TensorMapError> {
        let e = |s: String| Err(TensorMapError(s));
        if !(3..=5).contains(&rank) {
            return e(format!("im2col needs 3 to 5 dimensions, not {rank}"));
        }
        if self.lower.len() != rank - 2 || self.upper.len() != rank - 2 {
            return e(format!("im2col of {rank} dimensions needs corners of {} numbers", rank - 2));
        }
        // 16 bits for one dimension, 8 for two, 5 for three.
        let most = [1 << 15, 1 << 7, 1 << 4][rank - 3];
        if let Some(c) = self.lower.iter().chain(&self.upper).find(|c| !(-most..most).contains(*c)) {
            return e(format!("the corner {c} is outside {} to {}", -most, most - 1));
        }
        if !(1..=256).contains(&self.channels) || !(1..=1024).contains(&self.pixels) {
            return e(format!(
                "{} channels of {} pixels are outside 1 to 256 and 1 to 1024",
                self.channels, self.pixels
            ));
        }
        Ok(())
    }
}

const MAGIC: u32 = 0x5057_544d;

impl TensorMap {
    /// A map without swizzle, step 1 and zero fill.
    pub fn new(address: u64, element: TensorElement, dims: &[u64], strides: &[u64], tile: &[u32]) -> Self {
        TensorMap {
            address,
            element,
            dims: dims.to_vec(),
            strides: strides.to_vec(),
            tile: tile.to_vec(),
            steps: vec![1; dims.len()],
            swizzle: Swizzle::None,
            nan_fill: false,
            im2col: None,
        }
    }

    /// Bytes of the elements of one copy, those outside the tensor included: what an mbarrier must expect.
    pub fn tile_bytes(&self) -> u32 {
        self.row() * self.rows() * self.element.bytes()
    }

    /// Elements of a row in shared memory.
    pub(crate) fn row(&self) -> u32 {
        self.im2col.as_ref().map_or_else(|| self.tile[0], |w| w.channels)
    }

    /// Rows in shared memory.
    fn rows(&self) -> u32 {
        match &self.im2col {
            Some(window) => window.pixels,
            None => (1..self.tile.len()).map(|d| self.copied(d)).product(),
        }
    }

    /// Elements that a tile copies of a dimension but the first.
    pub(crate) fn copied(&self, d: usize) -> u32 {
        self.tile[d].div_ceil(self.steps[d])
    }

    /// Bytes from one row to the next in shared memory: swizzled rows take the width of the pattern.
    pub(crate) fn pitch(&self) -> u32 {
        match self.swizzle {
            Swizzle::None => self.row() * self.element.bytes(),
            s => 16 << s.bits(),
        }
    }

    /// Checks what `cuTensorMapEncodeTiled` checks.
    ///
    /// # Errors
    /// [`TensorMapError`] names the rule that is broken, with the numbers.
    pub fn validate(&self) -> Result<(), TensorMapError> {
        let e = |s: String| Err(TensorMapError(s));
        let rank = self.dims.len();
        if !(1..=5).contains(&rank) {
            return e(format!("1 to 5 dimensions are possible, not {rank}"));
        }
        let box_rank = if self.im2col.is_some() { 0 } else { rank };
        if self.strides.len() != rank - 1 || self.tile.len() != box_rank || self.steps.len() != rank {
            return e(format!(
                "{rank} dimensions need {} strides and {rank} tile extents and steps",
                rank - 1
            ));
        }
        if !self.address.is_multiple_of(16) {
            return e(format!("address {:#x} is not a multiple of 16", self.address));
        }
        if let Some(d) = self.dims.iter().find(|d| **d == 0 || **d > 1 << 32) {
            return e(format!("extent {d} is outside 1 to 2^32"));
        }
        if let Some(s) = self.strides.iter().find(|s| !s.is_multiple_of(16) || **s >= 1 << 40) {
            return e(format!("stride {s} is not a multiple of 16 below 2^40"));
        }
        if let Some(t) = self.tile.iter().find(|t| !(1..=256).contains(*t)) {
            return e(format!("tile extent {t} is outside 1 to 256"));
        }
        if let Some(t) = self.steps.iter().find(|t| !(1..=8).contains(*t)) {
            return e(format!("step {t} is outside 1 to 8"));
        }
        if let Some(window) = &self.im2col {
            window.validate(rank)?;
        }
        let inner = self.row() * self.element.bytes();
        if !inner.is_multiple_of(16) {
            return e(format!("the tile's inner extent of {inner} bytes is not a multiple of 16"));
        }
        let most = [u32::MAX, 32, 64, 128][self.swizzle.bits() as usize];
        if inner > most {
            return e(format!("the tile's inner extent of {inner} bytes is above the swizzle's {most}"));
        }
        Ok(())
    }

    /// The simulator's own encoding: pass it as a 128-byte kernel parameter, or put it into global memory.
    ///
    /// # Errors
    /// As [`TensorMap::validate`].
    pub fn encode(&self) -> Result<[u8; 128], TensorMapError> {
        self.validate()?;
        let mut out = [0u8; 128];
        let mut at = 0;
        let mut put = |v: u64, n: usize| {
            out[at..at + n].copy_from_slice(&v.to_le_bytes()[..n]);
            at += n;
        };
        put(MAGIC as u64, 4);
        put(self.dims.len() as u64, 1);
        put(ELEMENTS.iter().position(|e| *e == self.element).unwrap_or(0) as u64, 1);
        put(self.swizzle.bits() as u64, 1);
        put(self.nan_fill as u64, 1);
        put(self.address, 8);
        let window = self.im2col.as_ref();
        put(window.map_or(0, |w| w.pixels as u64), 2);
        put(window.map_or(0, |w| w.channels as u64), 2);
        for i in 0..3 {
            let corner =
                |list: Option<&Vec<i32>>| list.and_then(|l| l.get(i)).map_or(0, |c| *c as u16 as u64);
            put(corner(window.map(|w| &w.lower)), 2);
            put(corner(window.map(|w| &w.upper)), 2);
        }
        for i in 0..5 {
            put(self.dims.get(i).map_or(0, |d| d - 1), 4);
            put(self.strides.get(i).map_or(0, |s| s / 16), 5);
            put(self.tile.get(i).copied().unwrap_or(0) as u64, 2);
            put(self.steps.get(i).copied().unwrap_or(0) as u64, 1);
        }
        Ok(out)
    }

    /// Undoes [`TensorMap::encode`]; `None` for bytes that it did not make.
    pub fn decode(bytes: &[u8; 128]) -> Option<TensorMap> {
        let mut at = 0;
        let mut get = |n: usize| {
            let mut b = [0u8; 8];
            b[..n].copy_from_slice(&bytes[at..at + n]);
            at += n;
            u64::from_le_bytes(b)
        };
        if get(4) != MAGIC as u64 {
            return None;
        }
        let rank = get(1) as usize;
        let element = *ELEMENTS.get(get(1) as usize)?;
        let swizzle = *[Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128].get(get(1) as usize)?;
        let nan_fill = get(1) != 0;
        let address = get(8);
        let (pixels, channels) = (get(2) as u32, get(2) as u32);
        let (mut lower, mut upper) = (vec![], vec![]);
        for i in 0..3 {
            let (l, u) = (get(2) as u16 as i16 as i32, get(2) as u16 as i16 as i32);
            if i + 2 < rank {
                lower.push(l);
                upper.push(u);
            }
        }
        let im2col = (pixels != 0).then_some(Im2col { lower, upper, channels, pixels });
        let (mut dims, mut strides, mut tile, mut steps) = (vec![], vec![], vec![], vec![]);
        for i in 0..5 {
            let (d, s, t, x) = (get(4) + 1, get(5) * 16, get(2) as u32, get(1) as u32);
            if i < rank {
                dims.push(d);
                if im2col.is_none() {
                    tile.push(t);
                }
                steps.push(x);
            }
            if i + 1 < rank {
                strides.push(s);
            }
        }
        let map = TensorMap { address, element, dims, strides, tile, steps, swizzle, nan_fill, im2col };
        map.validate().ok().map(|()| map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_round_trips_and_bad_maps_are_refused() {
        let mut m = TensorMap::new(0x1000, TensorElement::F16, &[1 << 32, 77], &[256], &[64, 16]);
        m.swizzle = Swizzle::B128;
        assert_eq!(TensorMap::decode(&m.encode().unwrap()), Some(m.clone()));
        assert_eq!(m.tile_bytes(), 2048);
        assert_eq!(TensorMap::decode(&[0; 128]), None);
        m.tile[0] = 128;
        assert!(m.encode().unwrap_err().to_string().contains("256 bytes is above the swizzle's 128"));
        m.tile[0] = 4;
        assert!(m.encode().unwrap_err().to_string().contains("multiple of 16"));
        m.strides[0] = 8;
        assert!(m.encode().unwrap_err().to_string().contains("stride 8"));
    }

    #[test]
    fn im2col_windows_round_trip_and_their_corners_are_bounded() {
        let mut m =
            TensorMap::new(0x1000, TensorElement::U16, &[16, 7, 6, 3], &[32, 224, 1344], &[1, 1, 1, 1]);
        let window = Im2col { lower: vec![-128, 1], upper: vec![127, -2], channels: 16, pixels: 1024 };
        (m.tile, m.im2col) = (vec![], Some(window));
        assert_eq!(TensorMap::decode(&m.encode().unwrap()), Some(m.clone()));
        assert_eq!(m.tile_bytes(), 32 * 1024);
        m.im2col.as_mut().unwrap().lower[0] = -129;
        assert!(m.encode().unwrap_err().to_string().contains("the corner -129 is outside -128 to 127"));
        m.im2col.as_mut().unwrap().lower = vec![0];
        assert!(m.encode().unwrap_err().to_string().contains("needs corners of 2 numbers"));
    }

    #[test]
    fn steps_and_swizzles_change_what_a_tile_takes() {
        let mut m = TensorMap::new(0x1000, TensorElement::U16, &[64, 32], &[128], &[16, 9]);
        assert_eq!((m.tile_bytes(), m.pitch()), (32 * 9, 32));
        (m.steps, m.swizzle) = (vec![2, 4], Swizzle::B128);
        assert_eq!((m.tile_bytes(), m.pitch()), (32 * 3, 128));
    }
}
