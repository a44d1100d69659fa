//! Groups of lanes that read one cell of shared memory at one clock of their warp, by a number of a byte.
//!
//! Lanes that have diverged release what they did at clocks of their own. So it matters which of them read; where all lanes run
//! together it does not, and nothing is kept here.

use super::ANY_LANE;

/// The first number of a group; those below are lanes and what stands for several.
const FIRST: u32 = ANY_LANE + 1;
/// Groups that there are numbers for.
const MOST: usize = (u8::MAX as u32 - FIRST) as usize;

/// Groups of lanes.
#[derive(Debug, Default)]
pub(super) struct Groups(Vec<u32>);

impl Groups {
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// A lane or a group with one more lane; any lane where there is no number left.
    pub fn with(&mut self, known: u8, lane: u32) -> u8 {
        let of =
            |n: u32| if n < 32 { Some(1 << n) } else { n.checked_sub(FIRST).map(|n| self.0[n as usize]) };
        let (Some(before), Some(one)) = (of(known.into()), of(lane)) else { return ANY_LANE as u8 };
        let mask = before | one;
        let at = self.0.iter().position(|m| *m == mask).unwrap_or(self.0.len());
        if at == MOST {
            return ANY_LANE as u8;
        }
        if at == self.0.len() {
            self.0.push(mask);
        }
        (FIRST + at as u32) as u8
    }

    /// The lanes of a group; what is no group is alone.
    pub fn lanes(&self, known: u32) -> impl Iterator<Item = u32> {
        let group = known.checked_sub(FIRST).map_or(0, |n| self.0[n as usize]);
        (0..32).filter(move |lane| group >> lane & 1 != 0).chain((known < FIRST).then_some(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_the_lanes_that_were_added() {
        let mut groups = Groups::default();
        let pair = groups.with(3, 7);
        let three = groups.with(pair, 31);
        assert_eq!(groups.lanes(three.into()).collect::<Vec<_>>(), [3, 7, 31]);
        assert_eq!(groups.with(7, 3), pair, "the order does not matter");
        assert_eq!(groups.with(three, 7), three);
        assert_eq!(groups.lanes(5).collect::<Vec<_>>(), [5]);
        assert_eq!(groups.with(ANY_LANE as u8, 5), ANY_LANE as u8);
        assert_eq!(groups.lanes(ANY_LANE).collect::<Vec<_>>(), [ANY_LANE]);
    }

    #[test]
    fn beyond_the_last_number_it_is_any_lane() {
        let mut groups = Groups::default();
        let all = (0..32).flat_map(|a| (0..a).map(move |b| (a as u8, b)));
        let codes: Vec<u8> = all.map(|(a, b)| groups.with(a, b)).collect();
        assert_eq!(codes.iter().filter(|c| **c != ANY_LANE as u8).count(), MOST);
        assert_eq!(groups.with(1, 0), codes[0]);
    }
}
