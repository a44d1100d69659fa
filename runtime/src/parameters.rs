//! Parameters of a kernel as the driver takes them: a pointer to each.

use crate::{
    execute::Words,
    tensor_map::{BYTES, Encoded},
};
use smallvec::SmallVec;
use std::ffi::c_void;

/// Values of the parameters of a launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Parameters {
    /// Each in the low bytes of its word; that of a tensor map means nothing.
    pub(crate) words: Words,
    /// Tensor maps.
    pub(crate) maps: SmallVec<[Encoded; 4]>,
    /// Which map each parameter is, if it is one.
    pub(crate) places: SmallVec<[Option<u8>; 24]>,
}

impl Parameters {
    /// Words without tensor maps.
    pub(crate) fn plain(words: &[u64]) -> Self {
        Parameters {
            words: words.iter().copied().collect(),
            maps: SmallVec::new(),
            places: words.iter().map(|_| None).collect(),
        }
    }

    /// The tensor map that a parameter is, if it is one.
    pub(crate) fn map(&self, n: usize) -> Option<[u8; BYTES]> {
        self.places[n].map(|map| self.maps[usize::from(map)].0)
    }

    /// A pointer to each parameter, with the alignment of its type; they live as long as this does, unmoved.
    pub(crate) fn pointers(&mut self) -> SmallVec<[*mut c_void; 24]> {
        let Parameters { words, maps, places } = self;
        let of = |(word, place): (&mut u64, &Option<u8>)| match place {
            None => std::ptr::from_mut(word).cast(),
            Some(map) => std::ptr::from_mut(&mut maps[usize::from(*map)]).cast(),
        };
        words.iter_mut().zip(places.iter()).map(of).collect()
    }
}
