//! Textures and surfaces. Their accesses bypass the race checks and the counts of global memory: a texture must not
//! change while a kernel reads it, and a surface's layout on a GPU is not that of the memory here.

use super::{Engine, Warp};
use crate::findings::FindingKind;
use crate::image::Image;
use crate::op::*;

impl Engine<'_> {
    /// The image of a handle; a finding if there is none or its bytes are not there.
    fn image(&mut self, w: &Warp, pc: u32, lane: u32, handle: u64) -> Option<Image> {
        let Some(image) = self.env.mem.image(handle) else {
            self.find(FindingKind::BadAddress, w, pc, lane, 0, || {
                format!("{handle:#x} is no texture or surface")
            });
            return None;
        };
        let image = image.clone();
        if !self.env.mem.holds(image.address, image.bytes()) {
            let (at, n) = (image.address, image.bytes());
            self.find(FindingKind::OutOfBounds, w, pc, lane, 0, || {
                format!("the image has {n} bytes at {at:#x}, which are not inside one allocation")
            });
            return None;
        }
        Some(image)
    }

    fn read_image(&self, at: u64, bytes: u32) -> u32 {
        let mut b = [0; 4];
        let _ = self.env.mem.read(at, &mut b[..bytes as usize]);
        u32::from_le_bytes(b)
    }

    pub(super) fn tex(&mut self, w: &mut Warp, pc: u32, t: &Tex, m: u32) {
        let handles = w.regs.get64(t.handle);
        let mut out = [[0u32; 32]; 4];
        for lane in (0..32).filter(|i| m >> i & 1 != 0) {
            let Some(image) = self.image(w, pc, lane as u32, handles[lane]) else { continue };
            let layer = if t.layer == SINK { 0 } else { w.regs.r[t.layer as usize].0[lane] as i32 as i64 };
            let c = |d: usize| t.coords.get(d).map_or(0, |s| w.regs.r[*s as usize].0[lane]);
            let read = |at: u64, n: u32| self.read_image(at, n);
            let texel = if !t.float {
                let at = |d: usize| c(d) as i32 as i64;
                let z = if t.shape.layered { layer } else { at(2) };
                image.fetch([at(0), at(1), z], t.d_float, &read)
            } else {
                let f = [c(0), c(1), c(2)].map(f32::from_bits);
                if t.shape.cube {
                    let (face, [x, y]) = Image::face(f);
                    let mut square = image.clone();
                    square.normalized = true;
                    square.sample([x, y, 0.0], 2, face, t.d_float, &read)
                } else {
                    image.sample(f, t.shape.dims, layer, t.d_float, &read)
                }
            };
            for (o, v) in out.iter_mut().zip(texel) {
                o[lane] = v;
            }
        }
        for (d, v) in t.d.iter().zip(&out) {
            if *d != SINK {
                w.regs.put(*d, v, m);
            }
        }
    }

    pub(super) fn surface(&mut self, w: &mut Warp, pc: u32, s: &Surface, m: u32) {
        let handles = w.regs.get64(s.handle);
        for lane in (0..32usize).filter(|i| m >> i & 1 != 0) {
            let Some(image) = self.image(w, pc, lane as u32, handles[lane]) else { continue };
            let value = |slot: Slot| w.regs.r[slot as usize].0[lane] as i32 as i64;
            let c = |d: usize| s.coords.get(d).map_or(0, |c| value(*c));
            let bytes = s.width * s.regs.len() as u32;
            // The first coordinate counts bytes.
            let row = image.extent[0] as i64 * image.texel_bytes() as i64;
            let z = if s.shape.layered { value(s.layer) } else { c(2) };
            let [mut x, mut y, mut z] = [c(0), if s.shape.dims > 1 { c(1) } else { 0 }, z];
            let inside = x >= 0
                && x + bytes as i64 <= row
                && (0..image.extent[1] as i64).contains(&y)
                && (0..image.extent[2] as i64).contains(&z);
            if !inside && s.outside == Outside::Trap {
                let extent = image.extent;
                self.find(FindingKind::OutOfBounds, w, pc, lane as u32, 0, || {
                    format!("byte {x}, row {y}, layer {z} of a surface with rows of {row} bytes and extents {extent:?}")
                });
            }
            if s.outside == Outside::Clamp {
                x = x.clamp(0, row - bytes as i64);
                y = y.clamp(0, image.extent[1] as i64 - 1);
                z = z.clamp(0, image.extent[2] as i64 - 1);
            } else if !inside {
                for r in s.regs.iter().filter(|r| !s.store && **r != SINK) {
                    (0..s.width.div_ceil(4)).for_each(|k| w.regs.r[(r + k) as usize].0[lane] = 0);
                }
                continue;
            }
            if x % bytes as i64 != 0 {
                self.find(FindingKind::Misaligned, w, pc, lane as u32, 0, || {
                    format!("byte {x} of a row is not a multiple of the access's {bytes} bytes")
                });
                continue;
            }
            let at = image.at(x as u64, y as u32, z as u32);
            for (e, r) in s.regs.iter().enumerate() {
                for k in 0..s.width.div_ceil(4) {
                    let place = at + e as u64 * s.width as u64 + 4 * k as u64;
                    if s.store {
                        self.env.mem.poke(place, w.regs.r[(r + k) as usize].0[lane], s.width.min(4));
                    } else if *r != SINK {
                        w.regs.r[(r + k) as usize].0[lane] = self.read_image(place, s.width.min(4));
                    }
                }
            }
        }
    }
}
