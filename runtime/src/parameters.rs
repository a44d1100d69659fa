//! Parameters of a kernel as the driver takes them: a pointer to each.

use crate::tensor_map::{BYTES, Encoded};
use smallvec::SmallVec;
use std::ffi::c_void;

/// Values of the parameters of a launch. Filled anew for each launch it keeps its room, so it neither allocates nor is it moved.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters {
    /// Each in the low bytes of its word; that of a tensor map means nothing.
    pub(crate) words: Vec<u64>,
    /// Tensor maps.
    pub(crate) maps: Vec<Encoded>,
    /// Which parameter each map is.
    pub(crate) places: Vec<usize>,
}

impl PartialEq for Parameters {
    fn eq(&self, other: &Self) -> bool {
        // One by one: slices of numbers are compared by `memcmp`, which with AVX-512 reads nothing by a masked load from an empty
        // list's address, where no memory is, and that takes 0.1 µs.
        self.words.iter().eq(&other.words) && self.places.iter().eq(&other.places) && self.maps == other.maps
    }
}

impl Parameters {
    /// Words without tensor maps.
    pub(crate) fn plain(words: Vec<u64>) -> Self {
        Parameters { words, maps: Vec::new(), places: Vec::new() }
    }

    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.maps.clear();
        self.places.clear();
    }

    /// The tensor map that a parameter is, if it is one.
    pub(crate) fn map(&self, n: usize) -> Option<[u8; BYTES]> {
        self.places.iter().position(|place| *place == n).map(|map| self.maps[map].0)
    }

    /// A pointer to each parameter, with the alignment of its type; they live as long as this does, unchanged.
    pub(crate) fn pointers(&mut self) -> SmallVec<[*mut c_void; 24]> {
        let Parameters { words, maps, places } = self;
        let mut pointers: SmallVec<[*mut c_void; 24]> =
            words.iter_mut().map(|word| std::ptr::from_mut(word).cast()).collect();
        for (map, place) in maps.iter_mut().zip(places) {
            pointers[*place] = std::ptr::from_mut(map).cast();
        }
        pointers
    }
}
