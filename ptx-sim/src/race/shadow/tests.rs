//! The checks of single cells.

use super::*;
use crate::race::{Ahead, Clocks, Side, Strength, Token};

struct T {
    s: Shadow,
    c: Clocks,
}

impl T {
    fn new() -> T {
        let mut t = T { s: Shadow::default(), c: Clocks::default() };
        t.s.reset(64, 1, 0, true, true);
        t.c.reset(3, 3, 3, 1);
        t
    }
    fn act(&mut self, act: Act, strong: bool, a: usize, lane: u32, at: (u32, u32)) -> Option<Issue> {
        let who = Who {
            agent: a as u32,
            lane,
            clock: self.c.now(a),
            floor: self.c.floor[a],
            settled: self.c.settled(0..3),
            bit: 1 << a,
            pc: 0,
            strength: if strong { Strength::STRONG } else { Strength::WEAK },
            partial: act == Act::Read && lane != ANY_LANE,
        };
        let mut first = None;
        self.c.touch(a, if lane == ANY_LANE { !0 } else { 1 << lane });
        self.s.access(at, act, &who, self.c.seen(a), |i, _| first = first.or(Some(i)));
        first
    }
    fn read(&mut self, a: usize, lane: u32, at: (u32, u32)) -> Option<Issue> {
        self.act(Act::Read, false, a, lane, at)
    }
    fn write(&mut self, a: usize, lane: u32, at: (u32, u32)) -> Option<Issue> {
        self.act(Act::Write, false, a, lane, at)
    }
}

/// Lanes of warp 0 read a byte, two groups at clocks of their own; those of `arrived` arrive, and warp 1 writes it then.
fn written_after(arrived: [u32; 2]) -> Option<RaceKind> {
    let (mut t, mut token) = (T::new(), Token::default());
    let at = (8, 2);
    t.write(0, 0, at);
    t.c.full(0..3);
    for (group, arrives) in [[1, 2], [3, 4]].into_iter().zip(arrived) {
        group.into_iter().for_each(|lane| assert_eq!(t.read(0, lane, at), None));
        t.c.release(0, arrives, &mut token);
    }
    t.c.acquire(1, &token);
    race(t.write(1, 0, at))
}

#[test]
fn groups_of_lanes_arrive_for_what_they_read() {
    assert_eq!(written_after([1 << 1 | 1 << 2, 1 << 3 | 1 << 4]), None);
    assert_eq!(written_after([1 << 1 | 1 << 2, 1 << 3]), Some(RaceKind::WriteAfterRead));
    assert_eq!(written_after([1 << 1, 1 << 3 | 1 << 4]), Some(RaceKind::WriteAfterRead));
    assert_eq!(written_after([1 << 1 | 1 << 2, 1 << 5]), Some(RaceKind::WriteAfterRead));
}

/// Warps 0 and 1 read a byte at one clock, with lanes of their own; lanes 0 of both arrive, and warp 2 writes it then.
fn written_after_two(lanes: [u32; 2]) -> Option<RaceKind> {
    let (mut t, mut token) = (T::new(), Token::default());
    let at = (8, 2);
    t.write(0, 0, at);
    t.c.full(0..3);
    for (warp, lane) in lanes.into_iter().enumerate() {
        assert_eq!(t.read(warp, lane, at), None);
    }
    (0..2).for_each(|warp| t.c.release(warp, 1, &mut token));
    t.c.acquire(2, &token);
    race(t.write(2, 0, at))
}

#[test]
fn one_lane_does_not_arrive_for_warps_that_read_as_a_whole() {
    assert_eq!(written_after_two([ANY_LANE; 2]), Some(RaceKind::WriteAfterRead));
    assert_eq!(written_after_two([5, 5]), Some(RaceKind::WriteAfterRead));
    assert_eq!(written_after_two([0, 0]), None);
    // Of different lanes of two warps nobody knows which is whose.
    assert_eq!(written_after_two([0, 5]), None);
    assert_eq!(written_after_two([0, ANY_LANE]), None);
}

fn race(i: Option<Issue>) -> Option<RaceKind> {
    match i {
        Some(Issue::Race(c)) => Some(c.kind),
        _ => None,
    }
}

#[test]
fn barriers_order_and_their_absence_does_not() {
    let mut t = T::new();
    let at = (0, 4);
    assert_eq!(t.write(0, 0, at), None);
    assert_eq!(race(t.read(1, 0, at)), Some(RaceKind::ReadAfterWrite));
    t.c.full(0..3);
    assert_eq!(t.read(1, 0, at), None);
    assert_eq!(t.read(2, 5, at), None);
    assert_eq!(race(t.write(0, 0, at)), Some(RaceKind::WriteAfterRead));
    t.c.full(0..3);
    assert_eq!(t.write(0, 0, at), None);
    assert_eq!(race(t.write(1, 0, at)), Some(RaceKind::WriteWrite));
}

#[test]
fn lanes_of_a_warp_need_a_warp_sync() {
    let mut t = T::new();
    let at = (4, 4);
    assert_eq!(t.write(0, 3, at), None);
    assert_eq!(t.read(0, 3, at), None);
    assert_eq!(race(t.read(0, 4, at)), Some(RaceKind::ReadAfterWrite));
    t.c.warp_sync(0, !0, !0);
    assert_eq!(t.read(0, 4, at), None);
    assert_eq!(race(t.write(0, 5, at)), Some(RaceKind::WriteAfterRead));
    t.c.warp_sync(0, !0, !0);
    assert_eq!(t.write(0, 5, at), None);
}

#[test]
fn halves_of_a_word_are_independent() {
    let mut t = T::new();
    assert_eq!(t.write(0, 0, (8, 2)), None);
    assert_eq!(t.read(0, 0, (8, 4)), Some(Issue::Uninitialized));
    t.c.full(0..3);
    assert_eq!(t.write(0, 0, (12, 2)), None);
    assert_eq!(t.write(1, 1, (14, 2)), None);
    t.c.full(0..3);
    assert_eq!(t.read(2, 0, (12, 4)), None);
    assert_eq!(t.write(2, 0, (12, 4)), None);
    assert_eq!(race(t.write(1, 0, (12, 2))), Some(RaceKind::WriteWrite));
}

#[test]
fn release_and_acquire_order_two_agents_only() {
    let mut t = T::new();
    let at = (16, 4);
    assert_eq!(t.write(0, 0, at), None);
    let mut token = Token::default();
    t.c.release(0, 1, &mut token);
    t.c.acquire(1, &token);
    assert_eq!(t.read(1, 0, at), None);
    assert_eq!(race(t.read(2, 0, at)), Some(RaceKind::ReadAfterWrite));
    // Agent 0 does not know of agent 1's read.
    assert_eq!(race(t.write(0, 0, at)), Some(RaceKind::WriteAfterRead));
}

#[test]
fn readers_with_different_clocks_are_all_remembered() {
    let mut t = T::new();
    let at = (20, 4);
    t.write(0, 0, at);
    t.c.full(0..3);
    let mut token = Token::default();
    assert_eq!(t.read(1, 0, at), None);
    t.c.release(2, 1, &mut token);
    assert_eq!(t.read(2, 0, at), None);
    t.c.release(2, 1, &mut token);
    t.c.acquire(0, &token);
    assert_eq!(race(t.write(0, 0, at)), Some(RaceKind::WriteAfterRead));
}

/// §8.7.1: two strong operations do not race, a weak one and a strong one do.
#[test]
fn a_weak_write_is_remembered_under_a_strong_one() {
    let mut t = T::new();
    let at = (24, 4);
    assert_eq!(t.write(0, 0, at), None);
    assert_eq!(t.act(Act::Update, true, 0, 0, at), None);
    assert_eq!(race(t.act(Act::Update, true, 1, 0, at)), Some(RaceKind::WriteWrite));
    t.c.full(0..3);
    assert_eq!(t.act(Act::Update, true, 2, 0, at), None);
    assert_eq!(t.act(Act::Update, true, 1, 0, at), None);
    assert!(t.s.record(24 >> 1) == 0, "what everybody has seen is forgotten");
}

#[test]
fn a_write_hidden_by_an_unordered_one_is_told_to_readers() {
    let mut t = T::new();
    let at = (28, 4);
    assert_eq!(t.write(0, 0, at), None);
    assert_eq!(race(t.write(1, 0, at)), Some(RaceKind::WriteWrite));
    let mut token = Token::default();
    t.c.release(1, 1, &mut token);
    t.c.acquire(2, &token);
    assert_eq!(race(t.read(2, 0, at)), Some(RaceKind::ReadAfterWrite));
}

#[test]
fn records_that_no_cell_names_are_dropped() {
    let mut t = T::new();
    let who = |clock: u32| Who {
        agent: 3 + clock % 5,
        lane: ANY_LANE,
        clock: clock | FOREIGN,
        floor: 0,
        settled: 0,
        bit: 0,
        pc: 0,
        partial: false,
        strength: Strength::WEAK,
    };
    t.write(0, 0, (0, 64));
    t.c.full(0..3);
    let seen = [t.c.now(0); 3];
    let ahead = Ahead::default();
    let seen = Seen { writes: &seen, reads: &seen, side: Side::Writes, ahead: &ahead, own: None };
    for clock in 1..20_000 {
        assert_eq!(t.s.bulk((0, 64), false, &who(clock), seen, &mut Run::default()), None);
    }
    assert_eq!(t.s.past.get(t.s.record(3)).readers.len(), 5);
    assert_eq!(race(t.write(0, 0, (0, 4))), Some(RaceKind::WriteAfterRead));
}

#[test]
fn a_lane_releases_what_itself_did() {
    let mut t = T::new();
    let (mine, other) = ((32, 4), (36, 4));
    t.write(0, 3, mine);
    t.write(0, 4, other);
    let mut token = Token::default();
    t.c.release(0, 1 << 3, &mut token);
    t.c.acquire(1, &token);
    assert_eq!(t.read(1, 0, mine), None);
    assert_eq!(race(t.read(1, 0, other)), Some(RaceKind::ReadAfterWrite));
    // What is known of one lane goes on with the next release.
    let mut token = Token::default();
    t.c.release(1, !0, &mut token);
    t.c.acquire(2, &token);
    assert_eq!(t.read(2, 9, mine), None);
    assert_eq!(race(t.read(2, 9, other)), Some(RaceKind::ReadAfterWrite));
    // A release is no synchronisation of the warp.
    assert_eq!(race(t.read(0, 5, mine)), Some(RaceKind::ReadAfterWrite));
}

#[test]
fn a_lane_releases_for_its_warp_after_a_warp_sync() {
    let mut t = T::new();
    let at = (32, 4);
    t.write(0, 4, at);
    t.c.warp_sync(0, !0, !0);
    t.read(0, 7, at);
    let mut token = Token::default();
    t.c.release(0, 1 << 3, &mut token);
    t.c.acquire(1, &token);
    assert_eq!(t.read(1, 0, at), None, "written before the synchronisation");
    assert_eq!(race(t.write(1, 0, at)), Some(RaceKind::WriteAfterRead), "read after it");
}

#[test]
fn a_group_of_lanes_synchronises_itself() {
    let mut t = T::new();
    let at = (40, 4);
    t.write(0, 0, at);
    t.c.warp_sync(0, 0b0101, !0);
    t.c.warp_sync(0, 0b1010, !0);
    assert_eq!(t.read(0, 2, at), None);
    assert_eq!(race(t.read(0, 1, at)), Some(RaceKind::ReadAfterWrite));
    // Through a lane that two groups share.
    t.c.warp_sync(0, 0b0110, !0);
    assert_eq!(t.read(0, 1, at), None);
    assert_eq!(race(t.read(0, 3, at)), Some(RaceKind::ReadAfterWrite));
    // A lane of the group releases for the group.
    let mut token = Token::default();
    t.c.release(0, 0b0010, &mut token);
    t.c.acquire(1, &token);
    assert_eq!(t.read(1, 0, at), None);
    t.c.warp_sync(0, !0, !0);
    assert_eq!(t.read(0, 3, at), None);
}
