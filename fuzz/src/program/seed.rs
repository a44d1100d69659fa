//! Which kernel a seed draws.

use super::{Generator, atomics, limits, masks, product, running, scans, schedulable, types, values};
use tile_dsl::{
    dtype::DType,
    engine::testing::Random,
    tile::{self, ExprKind, Index, Kernel, Stmt, expressions, statements},
};

/// Tells apart what is drawn for indices that are values.
const VALUES: u64 = 0x76a1_0e5e_11d8_6c27;
const ATOMICS: u64 = 0x5b07_66aa_913c_e4d1;
const LIMITS: u64 = 0x39d2_6be8_f41c_7a05;
const INTEGERS: u64 = 0x1c4b_93f2_a07d_588d;
const MASKS: u64 = 0x6e15_d3b8_42f9_0ac7;
const SCANS: u64 = 0x4f83_17be_66a9_d20d;
const RUNNING: u64 = 0x27f0_5ac9_b816_ed43;

/// Kernels with a maximum that a loop carries, and sums of powers below it, in percent.
const RUNS: usize = 5;

/// Kernels that get scans, in percent.
const SCANNED: usize = 20;

/// Kernels that get limits, in percent.
const LIMITED: usize = 30;

/// Kernels and products that get masks, in percent.
const MASKED: (usize, usize) = (10, 4);

/// Kernels of which the scalars get other types, in percent.
const SCALARS: usize = 15;

/// Products with each of these, in percent.
const GATHERED_ATOMIC_LIMITED: (usize, usize, usize) = (22, 10, 8);

/// The first number that a seed gives decides what kind of kernel it is.
const KINDS: usize = 24;

/// Whether the kernel of a seed is made to multiply matrices, as atoms do.
pub fn multiplies(seed: u64) -> bool {
    Random::new(seed).below(KINDS) < 3
}

/// Whether the kernel of a seed carries a maximum, and sums of powers below it.
pub fn runs(seed: u64) -> bool {
    Random::new(seed ^ RUNNING).below(100) < RUNS
}

fn by_value(index: &[Index]) -> bool {
    index.iter().any(|entry| entry.value.is_some())
}

/// Whether values say in the kernel of a seed where it reads.
pub fn gathers(seed: u64) -> bool {
    let mut found = false;
    expressions(&random_kernel(seed).body, &mut |expr| {
        found |= matches!(&expr.kind, ExprKind::Load { index, .. } if by_value(index));
    });
    found
}

/// Whether values say in the kernel of a seed where it stores.
pub fn scatters(seed: u64) -> bool {
    let mut found = false;
    statements(&random_kernel(seed).body, &mut |stmt| {
        found |= matches!(stmt, Stmt::Store { index, .. } if by_value(index));
    });
    found
}

/// Whether axes of the kernel of a seed have limits.
pub fn limited(seed: u64) -> bool {
    random_kernel(seed).axes.iter().any(|axis| !axis.limits.is_none())
}

/// A random kernel that can be scheduled. Equal seeds give equal kernels.
pub fn random_kernel(seed: u64) -> Kernel {
    if runs(seed) {
        let mut apart = Random::new(seed ^ RUNNING.rotate_left(7));
        let kernel = running::running_kernel(&mut apart, multiplies(seed));
        return sometimes_limited(kernel, seed, LIMITED);
    }
    let mut random = Random::new(seed);
    match random.below(KINDS) {
        0 => return sometimes(product::chain_kernel(&mut random), seed, GATHERED_ATOMIC_LIMITED),
        1 | 2 => return sometimes(product::product_kernel(&mut random), seed, GATHERED_ATOMIC_LIMITED),
        _ => {}
    }
    loop {
        let mut generator = Generator::new(&mut random);
        generator.run();
        let kernel = generator.kernel;
        if tile::verify(&kernel).is_empty() && schedulable(&kernel) {
            // Drawn apart: other kernels stay as they are.
            let mut apart = Random::new(seed ^ VALUES);
            let mut types = Random::new(seed ^ INTEGERS);
            let whole = if types.below(3) == 0 { DType::U32 } else { DType::I32 };
            let kernel = if apart.below(100) < 12 { values::of_integers(kernel, whole) } else { kernel };
            // Of integers there are more ways.
            let share = if kernel.tensors.iter().any(|t| values::is_integer(t.elem)) { 70 } else { 20 };
            let kernel =
                if apart.below(100) < share { values::with_values(kernel, &mut apart) } else { kernel };
            let has_integers = kernel.tensors.iter().any(|t| values::is_integer(t.elem));
            let kernel = sometimes_atomic(kernel, seed, if has_integers { 70 } else { 14 });
            let kernel = match types.below(100) < if has_integers { 50 } else { 5 } {
                true => types::with_types(kernel, &mut types),
                false => kernel,
            };
            let kernel = if types.below(2) == 0 { types::with_order(kernel, &mut types) } else { kernel };
            let kernel = if types.below(2) == 0 { types::without_sign(kernel, &mut types) } else { kernel };
            let kernel = sometimes_scanned(kernel, seed, SCANNED);
            return sometimes_masked(sometimes_limited(kernel, seed, LIMITED), seed, MASKED.0);
        }
    }
}

/// With atomic stores in that share of kernels, in percent; drawn apart.
fn sometimes_atomic(kernel: Kernel, seed: u64, share: usize) -> Kernel {
    let mut random = Random::new(seed ^ ATOMICS);
    if random.below(100) < share { atomics::with_atomics(kernel, &mut random) } else { kernel }
}

/// A product with indices that are values, with atomic stores and with limits in these shares: few, as most tensor-core schedules are
/// for none of them.
fn sometimes(kernel: Kernel, seed: u64, (gathered, atomic, limited): (usize, usize, usize)) -> Kernel {
    let mut random = Random::new(seed ^ VALUES);
    let kernel = if random.below(100) < gathered { values::with_values(kernel, &mut random) } else { kernel };
    let kernel = sometimes_limited(sometimes_atomic(kernel, seed, atomic), seed, limited);
    sometimes_masked(kernel, seed, MASKED.1)
}

/// With masks in that share of kernels, in percent, and with scalars of other types; drawn apart.
fn sometimes_masked(kernel: Kernel, seed: u64, share: usize) -> Kernel {
    let mut random = Random::new(seed ^ MASKS);
    let kernel = if random.below(100) < share { masks::with_masks(kernel, &mut random) } else { kernel };
    if random.below(100) < SCALARS { types::with_scalars(kernel, &mut random) } else { kernel }
}

/// With scans in that share of kernels, in percent; drawn apart.
fn sometimes_scanned(kernel: Kernel, seed: u64, share: usize) -> Kernel {
    let mut random = Random::new(seed ^ SCANS);
    if random.below(100) < share { scans::with_scans(kernel, &mut random) } else { kernel }
}

/// With limits in that share of kernels, in percent; drawn apart.
fn sometimes_limited(kernel: Kernel, seed: u64, share: usize) -> Kernel {
    let mut random = Random::new(seed ^ LIMITS);
    if random.below(100) < share { limits::with_limits(kernel, &mut random) } else { kernel }
}
