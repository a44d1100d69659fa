//! Textures and surfaces: what `tex`, `suld` and `sust` read and write.
//!
//! PTX sees a 64-bit handle only. [`crate::Memory::add_image`] gives one for an image that lies in an allocation.

/// Type of a channel of a texel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Channel {
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    F16,
    F32,
}

impl Channel {
    /// Size in bytes.
    pub fn bytes(self) -> u32 {
        match self {
            Channel::U8 | Channel::S8 => 1,
            Channel::U16 | Channel::S16 | Channel::F16 => 2,
            _ => 4,
        }
    }

    /// The integer that these bits are, sign-extended where signed.
    fn integer(self, bits: u32) -> u32 {
        match self {
            Channel::S8 => bits as u8 as i8 as u32,
            Channel::S16 => bits as u16 as i16 as u32,
            _ => bits,
        }
    }

    /// The value as the hardware filters it: integers are mapped to [0, 1] or [-1, 1].
    fn float(self, bits: u32) -> f32 {
        match self {
            Channel::U8 => bits as f32 / 255.0,
            Channel::S8 => (bits as u8 as i8 as f32 / 127.0).max(-1.0),
            Channel::U16 => bits as f32 / 65535.0,
            Channel::S16 => (bits as u16 as i16 as f32 / 32767.0).max(-1.0),
            Channel::F16 => crate::alu::float::F16.decode(bits) as f32,
            Channel::F32 => f32::from_bits(bits),
            Channel::U32 => bits as f32,
            Channel::S32 => bits as i32 as f32,
        }
    }
}

/// What a coordinate outside the image means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AddressMode {
    /// The nearest texel of the edge.
    #[default]
    Clamp,
    /// The image repeats; normalised coordinates only.
    Wrap,
    /// The image repeats, every other time mirrored; normalised coordinates only.
    Mirror,
    /// Zero.
    Border,
}

/// An image in device memory, rows one after the other, layers (or slices, or faces of a cube) likewise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Device address of the first texel.
    pub address: u64,
    /// Type of a channel.
    pub channel: Channel,
    /// Channels of a texel: 1, 2 or 4.
    pub channels: u32,
    /// Extents in texels: width, height, depth or layers; 1 where the image has fewer dimensions.
    pub extent: [u32; 3],
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// What coordinates outside mean.
    pub address_mode: AddressMode,
    /// Interpolate between texels (floating-point results) instead of taking the nearest.
    pub linear: bool,
    /// Coordinates run from 0 to 1, not to the extent.
    pub normalized: bool,
}

impl Image {
    /// A dense image with clamped coordinates in texels and no interpolation.
    pub fn new(address: u64, channel: Channel, channels: u32, extent: [u32; 3]) -> Self {
        Image {
            address,
            channel,
            channels,
            extent,
            pitch: extent[0] as u64 * (channel.bytes() * channels) as u64,
            address_mode: AddressMode::Clamp,
            linear: false,
            normalized: false,
        }
    }

    /// Bytes of a texel.
    pub fn texel_bytes(&self) -> u32 {
        self.channel.bytes() * self.channels
    }

    /// Bytes from the first texel to behind the last.
    pub fn bytes(&self) -> u64 {
        let [_, height, depth] = self.extent;
        self.pitch * height as u64 * depth as u64
    }

    /// Address of the byte `x` of a row.
    pub(crate) fn at(&self, x: u64, y: u32, z: u32) -> u64 {
        self.address + x + self.pitch * (y as u64 + self.extent[1] as u64 * z as u64)
    }

    /// The index of a texel, from one that may be outside; `None`: zero is read.
    fn index(&self, i: i64, dim: usize) -> Option<u32> {
        let n = self.extent[dim] as i64;
        let inside = match self.address_mode {
            AddressMode::Wrap if self.normalized => i.rem_euclid(n),
            AddressMode::Mirror if self.normalized => {
                let k = i.rem_euclid(2 * n);
                if k < n { k } else { 2 * n - 1 - k }
            }
            AddressMode::Border => i,
            _ => i.clamp(0, n - 1),
        };
        (0..n).contains(&inside).then_some(inside as u32)
    }

    /// One channel of the texel at integer coordinates, as bits.
    fn texel(&self, at: [i64; 3], channel: u32, read: &impl Fn(u64, u32) -> u32) -> Option<u32> {
        let [x, y, z] = [self.index(at[0], 0)?, self.index(at[1], 1)?, self.index(at[2], 2)?];
        let size = self.channel.bytes();
        Some(read(self.at((x * self.texel_bytes() + channel * size) as u64, y, z), size))
    }

    /// What `tex1Dfetch` reads: no filter, zero outside.
    pub(crate) fn fetch(&self, at: [i64; 3], float: bool, read: &impl Fn(u64, u32) -> u32) -> [u32; 4] {
        let inside = (0..3).all(|d| (0..self.extent[d] as i64).contains(&at[d]));
        std::array::from_fn(|c| {
            let bits =
                if inside && (c as u32) < self.channels { self.texel(at, c as u32, read) } else { None };
            bits.map_or(0, |b| self.result(b, float))
        })
    }

    fn result(&self, bits: u32, float: bool) -> u32 {
        if float { self.channel.float(bits).to_bits() } else { self.channel.integer(bits) }
    }

    /// What `tex` reads at floating-point coordinates of the first `dims` dimensions; the others are integers.
    /// CUDA C++ Programming Guide, Texture Fetching: weights have 8 bits of fraction.
    pub(crate) fn sample(
        &self,
        coords: [f32; 3],
        dims: usize,
        layer: i64,
        float: bool,
        read: &impl Fn(u64, u32) -> u32,
    ) -> [u32; 4] {
        let layer = layer.clamp(0, self.extent[2] as i64 - 1);
        let scaled: [f64; 3] = std::array::from_fn(|d| {
            coords[d] as f64 * if self.normalized { self.extent[d] as f64 } else { 1.0 }
        });
        let at = |offset: [i64; 3], base: &[f64; 3]| -> [i64; 3] {
            std::array::from_fn(|d| match d {
                d if d < dims => base[d].floor() as i64 + offset[d],
                2 => layer,
                _ => 0,
            })
        };
        if !(self.linear && float) {
            return std::array::from_fn(|c| {
                let bits = if (c as u32) < self.channels {
                    self.texel(at([0; 3], &scaled), c as u32, read)
                } else {
                    None
                };
                bits.map_or(0, |b| self.result(b, float))
            });
        }
        let base = scaled.map(|x| x - 0.5);
        let weight = base.map(|x| ((x - x.floor()) * 256.0).round() / 256.0);
        std::array::from_fn(|c| {
            if c as u32 >= self.channels {
                return 0;
            }
            let mut sum = 0.0;
            for corner in 0..1usize << dims {
                let offset = std::array::from_fn(|d| (corner >> d & 1) as i64);
                let share: f64 = (0..dims)
                    .map(|d| if corner >> d & 1 != 0 { weight[d] } else { 1.0 - weight[d] })
                    .product();
                if share > 0.0 {
                    let bits = self.texel(at(offset, &base), c as u32, read);
                    sum += share * bits.map_or(0.0, |b| self.channel.float(b) as f64);
                }
            }
            (sum as f32).to_bits()
        })
    }

    /// Face and coordinates on it of a direction (CUDA C++ Programming Guide, Cubemap Textures).
    pub(crate) fn face([x, y, z]: [f32; 3]) -> (i64, [f32; 2]) {
        let (ax, ay, az) = (x.abs(), y.abs(), z.abs());
        let (face, m, s, t) = if ax >= ay && ax >= az {
            if x >= 0.0 { (0, ax, -z, -y) } else { (1, ax, z, -y) }
        } else if ay >= az {
            if y >= 0.0 { (2, ay, x, z) } else { (3, ay, x, -z) }
        } else if z >= 0.0 {
            (4, az, x, -y)
        } else {
            (5, az, -x, -y)
        };
        (face, [(s / m + 1.0) / 2.0, (t / m + 1.0) / 2.0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_outside_and_between_texels() {
        let mut image = Image::new(0, Channel::F32, 1, [4, 1, 1]);
        let read = |at: u64, _: u32| (at as f32).to_bits();
        let one = |i: &Image, x: f32| f32::from_bits(i.sample([x, 0.0, 0.0], 1, 0, true, &read)[0]);
        // The byte address is the value: 0, 4, 8, 12.
        assert_eq!([one(&image, -3.0), one(&image, 1.9), one(&image, 9.0)], [0.0, 4.0, 12.0]);
        image.address_mode = AddressMode::Border;
        assert_eq!([one(&image, -0.1), one(&image, 3.9), one(&image, 4.0)], [0.0, 12.0, 0.0]);
        (image.address_mode, image.normalized) = (AddressMode::Wrap, true);
        assert_eq!([one(&image, 1.25), one(&image, -0.25)], [4.0, 12.0]);
        image.address_mode = AddressMode::Mirror;
        assert_eq!([one(&image, 1.0), one(&image, -0.25)], [12.0, 0.0]);
        (image.address_mode, image.normalized, image.linear) = (AddressMode::Clamp, false, true);
        assert_eq!([one(&image, 1.0), one(&image, 1.75), one(&image, 0.0)], [2.0, 5.0, 0.0]);
        let byte = Image::new(0, Channel::U8, 4, [4, 1, 1]);
        assert_eq!(byte.sample([1.0, 0.0, 0.0], 1, 0, false, &|at, _| at as u32), [4, 5, 6, 7]);
        assert_eq!(byte.fetch([4, 0, 0], false, &|at, _| at as u32), [0; 4]);
        assert_eq!(Image::face([0.0, -2.0, 1.0]), (3, [0.5, 0.25]));
    }
}
