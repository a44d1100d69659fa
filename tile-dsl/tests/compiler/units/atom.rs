//! Instructions of tensor cores.

use std::collections::BTreeSet;
use tile_dsl::{
    machine::{Unit, UnitDim},
    nest::{Atom, Part, Place, Role, Scope},
    testing::{computed, joined_place},
};

/// The point of a dimension that element `n` of a lane of a warpgroup's thread is.
fn point(parts: &[(Part, u32)], thread: u32, n: u32) -> u32 {
    let step = |(part, weight): &(Part, u32)| match part.place {
        Place::Slot => n / weight % part.steps,
        Place::Unit(Unit::Lane, UnitDim::X) => thread % 4,
        Place::Unit(Unit::Lane, _) => thread / 4 % 8,
        Place::Unit(..) => thread / 32,
    };
    parts.iter().map(|part| step(part) * part.0.stride).sum()
}

/// PTX ISA, register fragments of A of `wgmma` for 8-bit elements: where each lies as the instruction takes it; and that lanes which
/// have it as they have sums find all of it among the four of a row.
#[test]
fn four_lanes_have_what_each_of_them_multiplies() {
    let atoms = Atom::all().filter(|atom| computed(*atom, Role::K, true).is_some());
    let mut seen = 0;
    for atom in atoms {
        let scope = if atom.row().scope == Scope::Warpgroup { (64, 128) } else { (16, 32) };
        assert_eq!((atom.size(Role::M), atom.size(Role::K), atom.each()), (scope.0, 32, 4), "{atom}");
        seen += 1;
        let element = |by_twos: bool, thread: u32, n: u32| {
            [Role::M, Role::K].map(|role| point(&computed(atom, role, by_twos).unwrap(), thread, n))
        };
        for (thread, n) in (0..scope.1).flat_map(|thread| (0..16).map(move |n| (thread, n))) {
            let (warp, group, lane) = (thread / 32, thread % 32 / 4, thread % 4);
            let row = 16 * warp + group + if n / 4 % 2 == 1 { 8 } else { 0 };
            let column = lane * 4 + n % 4 + if n < 8 { 0 } else { 16 };
            assert_eq!(element(false, thread, n), [row, column], "{atom}: {thread}, {n}");
            // As sums lie: columns by twos in groups of eight, and rows eight apart.
            let rows = 16 * warp + group + n / 2 % 2 * 8;
            let twos = element(true, thread, n);
            assert_eq!(twos, [rows, n / 4 * 8 + lane * 2 + n % 2], "{atom}: {thread}, {n}");
            // In the same eight elements of one of the four lanes.
            let (first, eight) = (thread / 4 * 4, n / 8 * 8);
            let given = (first..first + 4).flat_map(|t| (eight..eight + 8).map(move |n| (t, n)));
            let wanted = element(false, thread, n);
            let found = given.filter(|(t, n)| element(true, *t, *n) == wanted).count();
            assert_eq!(found, 1, "{atom}: {thread}, {n}");
        }
        let sums: Vec<(Part, u32)> = atom.parts(Role::N).iter().map(|part| (*part, 0)).collect();
        let twos = computed(atom, Role::K, true).unwrap();
        let lanes = |parts: &[(Part, u32)]| {
            let parts = parts.iter().map(|(part, _)| *part).filter(|p| p.place != Place::Slot);
            parts.map(|p| (p.stride, p.steps, p.place)).collect::<Vec<_>>()
        };
        assert_eq!(lanes(&twos), lanes(&sums), "{atom}");
    }
    assert_eq!(seen, 32 + 1 + 18);
    let places: BTreeSet<usize> = (0..8).map(joined_place).collect();
    assert_eq!(places, (0..8).collect());
    assert!((0..8).all(|n| joined_place(joined_place(n)) == n));
}

/// Programs that were encoded, in bundles say, are read: numbers of rows and of columns stay what they are.
#[test]
fn encodings_of_instructions_stay() {
    for (label, bytes) in [
        ("mma", &[0][..]),
        ("mma_tf32", &[1]),
        ("wgmma64x8", &[2, 1]),
        ("wgmma64x256", &[2, 32]),
        ("wgmma_f8_64x24", &[3, 3]),
        ("wgmma_tf32_64x128", &[4, 16]),
        ("mma_i8", &[5]),
        ("wgmma_i8_64x48", &[6, 6]),
    ] {
        let atom = Atom::from_label(label).expect(label);
        assert_eq!(postcard::to_stdvec(&atom).unwrap(), bytes, "{label}");
        // What follows is left to the next one.
        let more = [bytes, &[7]].concat();
        assert_eq!(postcard::from_bytes::<(Atom, u8)>(&more).unwrap(), (atom, 7), "{label}");
    }
    for bytes in [&[7][..], &[6, 5], &[2], &[2, 0], &[2, 33]] {
        assert!(postcard::from_bytes::<Atom>(bytes).is_err(), "{bytes:?}");
    }
}

#[test]
fn names_of_instructions() {
    assert_eq!(Atom::forms(), ["mma", "wgmma(64, 128)"]);
    for atom in Atom::all() {
        assert_eq!(Atom::from_label(&atom.label()), Some(atom));
        assert_eq!(atom.of_columns(atom.size(Role::N)), Some(atom));
    }
    assert_eq!(Atom::from_name("mma", None), Ok(Atom::MMA));
    assert_eq!(Atom::from_name("wgmma", Some([64, 24])).unwrap().label(), "wgmma64x24");
    let wrong = |name, shape| Atom::from_name(name, shape).unwrap_err();
    assert_eq!(wrong("mma", Some([16, 8])), "`mma` has one shape: write `mma`");
    assert_eq!(wrong("wgmma", None), "`wgmma` needs its rows and columns: `wgmma(64, 128)`");
    assert_eq!(wrong("wgmma", Some([32, 8])), "`wgmma` takes 64 rows at once, not 32");
    for n in [0, 12, 264] {
        let wanted = format!("`wgmma` takes 8 to 256 columns at once, a multiple of 8, not {n}");
        assert_eq!(wrong("wgmma", Some([64, n])), wanted);
    }
    assert_eq!(wrong("fma", None), "there is no instruction `fma`: `mma`, or `wgmma(64, 128)`");
}

/// Every element of an accumulator lies in one register of one lane, and the lanes are those of the scope.
#[test]
fn accumulators_are_spread_over_their_scope() {
    for atom in Atom::all() {
        let mut seen = BTreeSet::new();
        let [m, n, _] = atom.row().shape;
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let mut place = Vec::new();
            for (role, at) in [(Role::M, i), (Role::N, j)] {
                for part in atom.parts(role) {
                    place.push((at / part.stride % part.steps, part.place != Place::Slot));
                }
            }
            assert!(seen.insert(place), "{atom}: {i}, {j}");
        }
        let lanes = |role| -> u32 {
            let parts = atom.parts(role).iter();
            parts.filter(|p| p.place != Place::Slot).map(|p| p.steps).product()
        };
        let threads = if atom.row().scope == Scope::Warpgroup { 128 } else { 32 };
        assert_eq!(lanes(Role::M) * lanes(Role::N), threads, "{atom}");
        let slots = |role| atom.parts(role).iter().filter(|p| p.place == Place::Slot).count();
        assert_eq!(slots(Role::M) + slots(Role::N), atom.row().slots.len(), "{atom}");
        assert_eq!(Atom::from_label(&atom.label()), Some(atom));
    }
}
