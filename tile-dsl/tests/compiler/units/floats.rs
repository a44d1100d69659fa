//! Formats of floats: their codes and how numbers are rounded to them.

use half::{bf16, f16};
use tile_dsl::dtype::{Float, Specials};
/// No element type has it: what the reader and the writer make of it follows from the numbers alone.
const E5M2: Float = Float { exponent: 5, mantissa: 2, specials: Specials::Ieee };
const ALL: [Float; 5] = [Float::F32, Float::F16, Float::BF16, Float::E4M3, E5M2];

/// The code of infinity where there is one: a mantissa of zeros under the largest exponent.
fn infinite(format: Float) -> u32 {
    ((1 << format.exponent) - 1) << format.mantissa
}

/// Numbers about every boundary of a format, and as many at random.
fn samples(format: Float) -> Vec<f32> {
    let mut all = vec![0.0, f32::MAX, f32::INFINITY, f32::NAN, f32::MIN_POSITIVE, f32::from_bits(1)];
    if format.bits() <= 16 {
        let codes = 0..1u32 << (format.bits() - 1);
        let numbers: Vec<f32> =
            codes.map(|code| format.decode(code) as f32).filter(|x| x.is_finite()).collect();
        for pair in numbers.windows(2) {
            let middle = (pair[0] + pair[1]) / 2.0;
            all.extend([pair[0], middle, middle.next_up(), middle.next_down()]);
        }
        let most = *numbers.last().expect("numbers");
        let beyond = most + (most - numbers[numbers.len() - 2]) / 2.0;
        all.extend([most, beyond, beyond.next_up(), beyond.next_down(), 2.0 * most]);
    }
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..200_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        all.push(f32::from_bits((state >> 32) as u32));
    }
    all.extend(all.clone().into_iter().map(|x| -x));
    all
}

#[test]
fn all_codes_are_read_and_written_as_half_does() {
    for code in 0..=u16::MAX {
        let (x, y) = (f16::from_bits(code), bf16::from_bits(code));
        assert_eq!(Float::F16.decode(code.into()).to_bits(), x.to_f64().to_bits(), "{code:#x}");
        assert_eq!(Float::BF16.decode(code.into()).to_bits(), y.to_f64().to_bits(), "{code:#x}");
        assert_eq!(Float::F16.encode(x.to_f64()), f16::from_f64(x.to_f64()).to_bits().into());
        assert_eq!(Float::BF16.encode(y.to_f64()), bf16::from_f64(y.to_f64()).to_bits().into());
    }
}

#[test]
fn numbers_are_rounded_as_half_does() {
    for x in samples(Float::F16) {
        let wanted = f16::from_f32(x).to_bits();
        assert_eq!(Float::F16.encode(x.into()), wanted.into(), "{x:e}, {:#x}", x.to_bits());
    }
    for x in samples(Float::BF16) {
        let wanted = bf16::from_f32(x).to_bits();
        assert_eq!(Float::BF16.encode(x.into()), wanted.into(), "{x:e}, {:#x}", x.to_bits());
    }
    for x in samples(Float::F32).into_iter().filter(|x| !x.is_nan()) {
        assert_eq!(Float::F32.encode(x.into()), (f64::from(x) as f32).to_bits(), "{x:e}");
    }
}

/// Of three neighbours, by the definition: no two numbers have the same distance but at ties.
#[test]
fn the_nearest_is_taken() {
    for format in [Float::F16, Float::BF16, Float::E4M3, E5M2] {
        for x in samples(format).into_iter().map(f64::from).filter(|x| x.abs() <= format.max()) {
            let code = format.encode(x);
            let distance = (format.decode(code) - x).abs();
            assert_eq!(format.decode(code).is_sign_negative(), x.is_sign_negative(), "{x:e}");
            for other in [code.wrapping_sub(1), code + 1].map(|code| format.decode(code)) {
                let farther = (other - x).abs();
                let tie = farther == distance && code & 1 == 0;
                assert!(
                    farther.partial_cmp(&distance).is_none_or(|order| order.is_gt()) || tie,
                    "{x:e} in {format:?}: {code:#x}"
                );
            }
        }
    }
}

#[test]
fn every_code_is_written_as_it_was_read() {
    for format in [Float::F16, Float::BF16, Float::E4M3, E5M2] {
        for code in 0..1u32 << format.bits() {
            let x = format.decode(code);
            let quiet = infinite(format) | 1 << (format.mantissa - 1);
            let wanted = match (x.is_nan(), format.specials) {
                (false, _) => code,
                (true, Specials::Ieee) => code | quiet,
                (true, Specials::OneNan) => code & !(1 << (format.bits() - 1)),
            };
            assert_eq!(format.encode(x), wanted, "{code:#x} in {format:?}");
        }
    }
}

#[test]
fn rounding_is_writing_and_reading() {
    for format in ALL {
        for x in samples(format).into_iter().map(f64::from).flat_map(|x| [x, x.next_up(), x.next_down()]) {
            let wanted = format.decode(format.encode(x));
            assert_eq!(format.round(x).to_bits(), wanted.to_bits(), "{x:e} in {format:?}");
        }
    }
}

/// Numbers that f32 does not have are rounded once.
#[test]
fn the_last_bits_of_f64_break_ties() {
    for format in [Float::F16, Float::BF16, Float::E4M3, E5M2] {
        let tie = 1.0 + format.roundoff();
        let codes = [tie.next_down(), tie, tie.next_up()].map(|x| format.encode(x));
        let one = format.encode(1.0);
        assert_eq!(codes, [one, one, one + 1], "{format:?}");
    }
}

#[test]
fn what_formats_say_of_themselves() {
    assert_eq!(ALL.map(Float::bits), [32, 16, 16, 8, 8]);
    assert_eq!(ALL.map(Float::max), [f32::MAX.into(), 65504.0, bf16::MAX.to_f64(), 448.0, 57344.0]);
    assert_eq!(ALL.map(Float::min_subnormal), [-149, -24, -133, -9, -16].map(|n| 2f64.powi(n)));
    assert_eq!(ALL.map(Float::min_positive), [-126, -14, -126, -6, -14].map(|n| 2f64.powi(n)));
    assert_eq!(ALL.map(Float::roundoff), [-24, -11, -8, -4, -3].map(|n| 2f64.powi(n)));
    let held = |by: Float| ALL.map(|f| by.holds(f));
    assert_eq!(held(Float::F32), [true; 5]);
    assert_eq!(held(Float::F16), [false, true, false, true, true]);
    assert_eq!(held(Float::BF16), [false, false, true, true, true]);
    assert_eq!(held(Float::E4M3), [false, false, false, true, false]);
}
