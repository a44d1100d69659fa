//! The product on the CPU, by a crate: what GPUs are compared with.
//!
//! `matrixmultiply` has vector kernels for what it finds the CPU to have, and threads of its own for four cores. Here each
//! of rayon's threads multiplies tiles of C by itself, so that all cores work.

use crate::Size;
use rayon::prelude::*;

/// Its name in tables.
pub const NAME: &str = "matrixmultiply";

/// The side of a tile of C. A large product has four tiles a thread or so, that all threads may end at about the same time; a
/// small one has one, since copies of factors take a good part of the time of small tiles.
fn side(extent: usize) -> usize {
    let across = (rayon::current_num_threads() as f64).sqrt().ceil() as usize;
    let one = extent.div_ceil(across);
    extent.div_ceil(2 * across).max(one.min(256)).clamp(64, 1024)
}

/// A matrix that threads write different tiles of.
struct Tiles(*mut f32);

// SAFETY: the pointer is used by `multiply` alone, which writes disjoint tiles.
unsafe impl Sync for Tiles {}

impl Tiles {
    /// The address of an element.
    fn at(&self, element: usize) -> *mut f32 {
        self.0.wrapping_add(element)
    }
}

/// C = A·B, row-major.
///
/// # Panics
/// When a matrix has another size.
pub fn multiply(Size { m, n, k }: Size, a: &[f32], b: &[f32], c: &mut [f32]) {
    assert_eq!([a.len(), b.len(), c.len()], [m * k, k * n, m * n], "matrices of the size");
    let (rows, columns) = (side(m), side(n));
    let across = n.div_ceil(columns);
    let c = Tiles(c.as_mut_ptr());
    (0..m.div_ceil(rows) * across).into_par_iter().for_each(|tile| {
        let (i, j) = (tile / across * rows, tile % across * columns);
        let (height, width) = (rows.min(m - i), columns.min(n - j));
        let (a, b) = (a[i * k..].as_ptr(), b.as_ptr().wrapping_add(j));
        // SAFETY: the lengths are those of the size, so rows `i..i + height` of A, columns `j..j + width` of B and the tile of C
        // lie within the matrices; no two tiles overlap, and C is borrowed alone.
        unsafe {
            matrixmultiply::sgemm(
                height,
                k,
                width,
                1.0,
                a,
                k as isize,
                1,
                b,
                n as isize,
                1,
                0.0,
                c.at(i * n + j),
                n as isize,
                1,
            );
        }
    });
}
