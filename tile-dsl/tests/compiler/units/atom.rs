//! Instructions of tensor cores.

use std::collections::BTreeSet;
use tile_dsl::nest::{Atom, Place, Role, Scope};
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
    ] {
        let atom = Atom::from_label(label).expect(label);
        assert_eq!(postcard::to_stdvec(&atom).unwrap(), bytes, "{label}");
        // What follows is left to the next one.
        let more = [bytes, &[7]].concat();
        assert_eq!(postcard::from_bytes::<(Atom, u8)>(&more).unwrap(), (atom, 7), "{label}");
    }
    for bytes in [&[5][..], &[2], &[2, 0], &[2, 33]] {
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
