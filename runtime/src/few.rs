//! A list that needs no allocation for its first elements.
//!
//! Unlike `SmallVec` it has no destructor of its own, so what its elements borrow is free once it is used no more.

use std::ops::Index;

/// A list of which `N` elements lie in place.
pub(crate) struct Few<T, const N: usize> {
    place: [Option<T>; N],
    length: usize,
    /// Elements from `N` on.
    more: Vec<T>,
}

impl<T, const N: usize> Few<T, N> {
    pub(crate) fn new() -> Self {
        Few { place: [const { None }; N], length: 0, more: Vec::new() }
    }

    pub(crate) fn push(&mut self, element: T) {
        match self.place.get_mut(self.length) {
            Some(place) => *place = Some(element),
            None => self.more.push(element),
        }
        self.length += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.place.iter_mut().flatten().chain(&mut self.more)
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &T> + Clone {
        (0..self.length).map(|n| &self[n])
    }
}

impl<T, const N: usize> Index<usize> for Few<T, N> {
    type Output = T;
    fn index(&self, at: usize) -> &T {
        match self.place.get(at) {
            Some(place) => place.as_ref().expect("an index below the length"),
            None => &self.more[at - N],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_keep_their_order() {
        let mut few = Few::<usize, 3>::new();
        for n in 0..7 {
            assert_eq!(few.len(), n);
            few.push(n);
            assert_eq!(few[n], n);
        }
        assert!(few.iter().copied().eq(0..7));
    }

    #[test]
    #[should_panic(expected = "an index below the length")]
    fn an_index_beyond_the_end_panics() {
        let _ = Few::<usize, 3>::new()[0];
    }
}
