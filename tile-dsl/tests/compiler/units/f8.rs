//! The type of 8 bits that Rust lacks.

use tile_dsl::f8::f8;
/// The finite numbers that are not negative, ascending with their bits.
fn numbers() -> Vec<f32> {
    (0..=0x7e).map(|bits| f8::from_bits(bits).to_f32()).collect()
}

#[test]
fn values_are_those_of_the_specification() {
    let of = |bits: u8| f8::from_bits(bits).to_f32();
    assert_eq!((of(0x01), of(0x07), of(0x08)), (2f32.powi(-9), 0.875 * 2f32.powi(-6), 2f32.powi(-6)));
    assert_eq!((of(0x38), of(0x3f), of(0x40), of(0x7e)), (1.0, 1.875, 2.0, 448.0));
    assert_eq!((of(0x77), of(0x78), of(0xb8)), (240.0, 256.0, -1.0));
    assert_eq!(of(0x80).to_bits(), (-0f32).to_bits());
    assert_eq!((0..=255).filter(|bits| f8::from_bits(*bits).is_nan()).collect::<Vec<u8>>(), [0x7f, 0xff]);
    assert!(numbers().is_sorted_by(|a, b| a < b));
}

#[test]
fn all_of_them_round_to_themselves() {
    for bits in 0..=255u8 {
        let x = f8::from_bits(bits);
        let wanted = if x.is_nan() { 0x7f } else { bits };
        assert_eq!(f8::from_f32(x.to_f32()).to_bits(), wanted, "{bits:#x}");
        assert_eq!(f8::from_f64(x.to_f64()).to_bits(), wanted, "{bits:#x}");
        assert_eq!(f8::from_le_bytes(x.to_le_bytes()).to_bits(), bits);
    }
}

#[test]
fn ties_go_to_the_even_one_and_all_else_to_the_nearer() {
    let numbers = numbers();
    for (bits, pair) in (0u8..).zip(numbers.windows(2)) {
        let middle = (pair[0] + pair[1]) / 2.0;
        let even = bits + (bits & 1);
        for (x, wanted) in [(middle, even), (middle.next_down(), bits), (middle.next_up(), bits + 1)] {
            assert_eq!(f8::from_f32(x).to_bits(), wanted, "{x}");
            assert_eq!(f8::from_f32(-x).to_bits(), wanted | 0x80, "{x}");
        }
        // What f32 cannot hold is rounded once, too.
        assert_eq!(f8::from_f64(f64::from(middle).next_up()).to_bits(), bits + 1);
    }
}

#[test]
fn what_is_too_large_becomes_the_largest() {
    for x in [449.0, 463.9, 464.0, 480.0, 1e30, f32::MAX, f32::INFINITY] {
        assert_eq!((f8::from_f32(x).to_bits(), f8::from_f32(-x).to_bits()), (0x7e, 0xfe), "{x}");
    }
    assert_eq!(f8::from_f32(f32::from_bits(1)).to_bits(), 0);
    assert_eq!(f8::from_f32(-f32::from_bits(1)).to_bits(), 0x80);
    assert_eq!((f8::from_f32(f32::NAN).to_bits(), f8::from_f32(-f32::NAN).to_bits()), (0x7f, 0x7f));
}

#[test]
fn they_compare_as_numbers() {
    assert!(
        f8::from_bits(0) == f8::from_bits(0x80)
            && f8::NAN != f8::NAN
            && f8::ONE < f8::MAX
            && f8::MIN < f8::ZERO
    );
    assert_eq!((format!("{:?}", f8::ONE), format!("{}", f8::MIN)), ("1.0".into(), "-448".into()));
    assert_eq!(f8::default().to_bits(), 0);
}
