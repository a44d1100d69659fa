//! Textures and surfaces.

use super::Slot;

/// The shape of an image, as `tex` and the surface instructions name it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shape {
    /// Coordinates, without that of the layer.
    pub dims: usize,
    pub layered: bool,
    pub cube: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tex {
    pub shape: Shape,
    pub handle: Slot,
    pub layer: Slot,
    pub coords: Vec<Slot>,
    /// The coordinates are floating-point numbers.
    pub float: bool,
    pub d: Vec<Slot>,
    pub d_float: bool,
}

/// What a surface access outside does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Outside {
    Trap,
    Clamp,
    Zero,
}

/// `suld.b` and `sust.b`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Surface {
    pub store: bool,
    pub shape: Shape,
    pub handle: Slot,
    pub layer: Slot,
    pub coords: Vec<Slot>,
    /// Bytes of an element.
    pub width: u32,
    pub regs: Vec<Slot>,
    pub outside: Outside,
}
