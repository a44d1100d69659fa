//! Which wishes can be granted: attempts at each without a launch, and what the engine says of those that cannot.

use crate::{make::wished, wish::Wish};
use std::collections::BTreeMap;
use tile_dsl::engine::testing::{Kind, kinds};

/// What came of the attempts at a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surveyed {
    /// The wish.
    pub wish: Wish,
    /// Attempts, each at several kernels, that ended in a schedule which has it.
    pub granted: usize,
    /// Attempts.
    pub tries: usize,
    /// What the engine refused, and why, without names and numbers, by how often.
    pub reasons: Vec<(usize, Kind, String)>,
}

/// A message without what differs from case to case.
fn pattern(message: &str) -> String {
    let mut text = String::new();
    for (n, part) in message.split('`').enumerate() {
        match n % 2 {
            0 => text.extend(part.chars().filter(|c| !c.is_ascii_digit())),
            _ => text.push('_'),
        }
    }
    text
}

/// So many attempts at a wish.
pub fn survey(wish: Wish, tries: usize, seed: u64) -> Surveyed {
    let mut reasons: BTreeMap<(Kind, String), usize> = BTreeMap::new();
    let mut granted = 0;
    for n in 0..tries {
        let (made, refusals) = wished(wish, crate::data::mix(seed, n as u64), 2);
        if let Some(case) = made.and_then(|made| made.case) {
            let has = kinds(&case.schedule);
            assert!(wish.kinds().iter().all(|kind| has.contains(kind)), "{wish}\n{case}");
            granted += 1;
        }
        for (kind, message) in refusals {
            *reasons.entry((kind, pattern(&message))).or_default() += 1;
        }
    }
    let mut reasons: Vec<(usize, Kind, String)> = reasons.into_iter().map(|((k, m), n)| (n, k, m)).collect();
    reasons.sort_by(|a, b| b.cmp(a));
    Surveyed { wish, granted, tries, reasons }
}
