//! Shared-memory wavefronts and global sectors, by the rules recorded on an H200.
//!
//! Wavefronts: a warp's access is cut into phases of 32 (4 bytes and less), 16 (8 bytes) or 8 lanes (16 bytes);
//! a phase costs the largest number of distinct 4-byte words in any of the 32 banks. For loads of 8 and 16
//! bytes, lanes that pairwise (distance 1, or distance 2) read the same address double the phase. Inactive lanes
//! ask for nothing and agree with any partner.
//!
//! In all of them `addr` is the byte that each lane begins at, aligned to its size, and `mask` has a bit for each lane that asks.

/// Wavefronts of one access of `bytes` a lane, and those an access without conflicts needs: one a phase with an active lane.
pub fn wavefronts(addr: &[u32; 32], mask: u32, bytes: u32, load: bool) -> (u32, u32) {
    if mask == 0 {
        return (0, 0);
    }
    let words = bytes.div_ceil(4).max(1);
    // Everything within one row of the banks, or one word: no conflict.
    if words == 1 {
        let (mut lo, mut hi) = (u32::MAX, 0);
        for (i, a) in addr.iter().enumerate() {
            if mask >> i & 1 != 0 {
                lo = lo.min(*a / 4);
                hi = hi.max(*a / 4);
            }
        }
        if hi - lo < 32 {
            return (1, 1);
        }
        return (phase(addr, mask, 1), 1);
    }
    let mut lanes = 32 / words as usize;
    if load && words > 1 && words <= 4 {
        let paired = |s: usize| {
            (0..32).all(|i| mask >> i & 1 == 0 || mask >> (i ^ s) & 1 == 0 || addr[i] == addr[i ^ s])
        };
        if paired(1) || paired(2) {
            lanes *= 2;
        }
    }
    let group = if lanes >= 32 { !0 } else { (1u32 << lanes) - 1 };
    let (mut total, mut phases) = (0, 0);
    for q in (0..32).step_by(lanes) {
        let m = mask & (group << q);
        if m != 0 {
            total += phase(addr, m, words);
            phases += 1;
        }
    }
    (total, phases)
}

/// Wavefronts of `ldmatrix` and `stmatrix`, whose lanes give the rows of 16 bytes of a matrix each eight: a phase for each matrix;
/// and those without conflicts.
pub fn matrices(addr: &[u32; 32], mask: u32) -> (u32, u32) {
    let groups = (0..32).step_by(8).map(|first| mask & (0xff << first)).filter(|group| *group != 0);
    groups.fold((0, 0), |(cost, least), group| (cost + phase(addr, group, 4), least + 1))
}

/// Cost of one phase: the largest number of distinct words in a bank.
fn phase(addr: &[u32; 32], mask: u32, words: u32) -> u32 {
    // Chunks of `words` words start at multiples of their size, so chunks take the role of banks.
    let chunks = (32 / words) as usize;
    let mut first = [u32::MAX; 32];
    let mut extra: [(u32, u32); 32] = [(0, 0); 32];
    let mut count = [0u8; 32];
    let mut n_extra = 0;
    let mut m = mask;
    let mut worst = 0u8;
    while m != 0 {
        let i = m.trailing_zeros() as usize;
        m &= m - 1;
        let chunk = addr[i] / (4 * words);
        let bank = chunk as usize % chunks;
        if first[bank] == chunk {
            continue;
        }
        if count[bank] > 0 && extra[..n_extra].contains(&(bank as u32, chunk)) {
            continue;
        }
        if count[bank] == 0 {
            first[bank] = chunk;
        } else {
            extra[n_extra] = (bank as u32, chunk);
            n_extra += 1;
        }
        count[bank] += 1;
        worst = worst.max(count[bank]);
    }
    worst as u32
}

/// Distinct 32-byte sectors of global memory that lanes touch with `bytes` each.
pub fn sectors(addr: &[u64; 32], mask: u32, bytes: u32) -> u32 {
    let per_lane = if bytes > 32 { bytes / 32 } else { 1 };
    let (mut n, mut prev, mut sorted) = (0u32, u64::MAX, true);
    let mut m = mask;
    while m != 0 {
        let i = m.trailing_zeros() as usize;
        m &= m - 1;
        let s = addr[i] / 32;
        if s != prev {
            if prev != u64::MAX && s < prev {
                sorted = false;
                break;
            }
            n += 1;
            prev = s;
        }
    }
    if sorted {
        return n * per_lane;
    }
    let mut list = [0u64; 32];
    let mut k = 0;
    for i in 0..32 {
        if mask >> i & 1 != 0 {
            list[k] = addr[i] / 32;
            k += 1;
        }
    }
    list[..k].sort_unstable();
    (1 + list[..k].windows(2).filter(|w| w[0] != w[1]).count() as u32) * per_lane
}
