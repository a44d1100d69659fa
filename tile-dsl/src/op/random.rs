//! Philox4x32-10, a random number generator that has no state (Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as
//! 1, 2, 3", SC 2011): a key and a counter give four words. Equal keys and counters give equal words on every machine.

/// Rounds: "10 rounds is our recommendation", section 5 of the paper.
pub const ROUNDS: u32 = 10;

/// What the first and the third word of the counter are multiplied by in each round.
pub const FACTORS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];

/// What is added to the words of the key after each round: the golden ratio and √3 − 1.
pub const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];

/// Four random words of a key and a counter.
pub const fn philox4x32(mut key: [u32; 2], mut counter: [u32; 4]) -> [u32; 4] {
    let mut round = 0;
    while round < ROUNDS {
        let [a, b, c, d] = counter;
        let (first, second) = (FACTORS[0] as u64 * a as u64, FACTORS[1] as u64 * c as u64);
        counter = [
            (second >> 32) as u32 ^ b ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ d ^ key[1],
            first as u32,
        ];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        round += 1;
    }
    counter
}

/// Word `WORD` of `random(seed, i, ..)`: the key is (seed, 0), the counter (i, 0, 0, 0).
pub(super) const fn word<const WORD: usize>(seed: i64, i: i64) -> i64 {
    philox4x32([seed as u32, 0], [i as u32, 0, 0, 0])[WORD] as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers of the authors: `kat_vectors` of Random123, version 1.14.
    #[test]
    fn philox_has_the_known_answers() {
        for (counter, key, words) in [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ] {
            assert_eq!(philox4x32(key, counter), words);
        }
    }
}
