//! Whether two accesses of one tensor ever meet, each at points of its own.
//!
//! They never do where, in some dimension, the difference of the indices cannot be zero. That is a sum of terms
//! `coefficient · point` and a constant. Modulo the greatest common divisor of some terms these vanish, and the rest spans
//! an interval in steps of its own divisor: the indices are apart if no multiple of the one lies among the other (the GCD
//! and Banerjee tests; Allen and Kennedy, *Optimizing Compilers for Modern Architectures*, ch. 3).

use super::{Affine, AxisId, BTreeMap, Extent, Kernel, index};

/// Multiples looked at one by one.
const FEW: i64 = 10_000;
/// Points that an example is looked for among, and values of an axis of symbolic extent.
const POINTS: usize = 20_000;
const VALUES: i64 = 4;

/// Whether no element is accessed by both, whatever the dims.
pub(super) fn apart(kernel: &Kernel, a: &[Affine], b: &[Affine]) -> bool {
    a.iter().zip(b).any(|(a, b)| differ(kernel, a, b))
}

fn extent(kernel: &Kernel, axis: AxisId) -> &Extent {
    &kernel.axes[usize::from(axis.0)].extent
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}

fn differ(kernel: &Kernel, a: &Affine, b: &Affine) -> bool {
    let below = |a: &Affine, b: &Affine| {
        let mut gap = index::minus(&index::least(kernel, b), &index::largest(kernel, a));
        gap.constant = gap.constant.saturating_sub(1);
        index::never_negative(&gap)
    };
    if below(a, b) || below(b, a) {
        return true;
    }
    let constant = b.constant.saturating_sub(a.constant);
    // Coefficients of b − a with the greatest point of each, where that is a number.
    let signed = a.terms.iter().map(|(axis, c)| (*axis, -c)).chain(b.terms.iter().map(|(x, c)| (*x, *c)));
    let terms: Vec<(i64, Option<i64>)> =
        signed.map(|(axis, c)| (c, extent(kernel, axis).as_constant().map(|n| (n - 1).max(0)))).collect();
    let mut thresholds: Vec<i64> = terms.iter().map(|(c, _)| c.abs()).collect();
    thresholds.push(i64::MAX);
    thresholds.into_iter().any(|threshold| {
        let (mut modulus, mut step) = (0, 0);
        let (mut low, mut high) = (constant, constant);
        for (c, last) in &terms {
            match last {
                Some(last) if c.abs() < threshold => {
                    step = gcd(step, *c);
                    let reach = c.saturating_mul(*last);
                    low = low.saturating_add(reach.min(0));
                    high = high.saturating_add(reach.max(0));
                }
                _ => modulus = gcd(modulus, *c),
            }
        }
        let reached = |n: i64| match step {
            0 => n == constant,
            step => n.checked_sub(constant).is_none_or(|d| d % step == 0),
        };
        if modulus == 0 {
            return !(low <= 0 && 0 <= high && reached(0));
        }
        let common = gcd(modulus, step);
        if constant % common != 0 {
            return true;
        }
        let first = low.div_euclid(modulus) + i64::from(low.rem_euclid(modulus) != 0);
        let last = high.div_euclid(modulus);
        last.saturating_sub(first) < FEW && !(first..=last).any(|n| reached(n * modulus))
    })
}

/// Points of small coordinates at which both access one element: of `a`, of `b`, and the element.
pub(super) fn example(kernel: &Kernel, a: &[Affine], b: &[Affine]) -> Option<(String, String, Vec<i64>)> {
    let mut seen = BTreeMap::new();
    each_point(kernel, a, |point, element| {
        seen.entry(element).or_insert_with(|| point.to_vec());
        None::<()>
    });
    each_point(kernel, b, |point, element| {
        let first = seen.get(&element)?;
        Some((text(kernel, first), text(kernel, point), element))
    })
}

fn text(kernel: &Kernel, point: &[(AxisId, i64)]) -> String {
    let axes = point.iter().map(|(axis, at)| format!("{} = {at}", kernel.axes[usize::from(axis.0)].name));
    let text: Vec<String> = axes.collect();
    if text.is_empty() { "every point".into() } else { text.join(", ") }
}

/// The elements that an access of small coordinates reaches, until `f` returns something.
fn each_point<T>(
    kernel: &Kernel,
    index: &[Affine],
    mut f: impl FnMut(&[(AxisId, i64)], Vec<i64>) -> Option<T>,
) -> Option<T> {
    let mut axes: Vec<AxisId> = index.iter().flat_map(|i| i.terms.keys().copied()).collect();
    axes.sort_unstable();
    axes.dedup();
    let values = |axis: &AxisId| extent(kernel, *axis).as_constant().map_or(VALUES, |n| n.min(16));
    let sizes: Vec<i64> = axes.iter().map(values).collect();
    let total = sizes.iter().try_fold(1usize, |n, s| n.checked_mul(usize::try_from(*s).ok()?))?;
    for n in 0..total.min(POINTS) {
        let mut rest = n as i64;
        let mut point = Vec::with_capacity(axes.len());
        for (axis, size) in axes.iter().zip(&sizes) {
            point.push((*axis, rest % size));
            rest /= size;
        }
        let element = index.iter().map(|form| {
            form.constant + point.iter().map(|(axis, at)| form.coefficient(*axis) * at).sum::<i64>()
        });
        if let Some(found) = f(&point, element.collect()) {
            return Some(found);
        }
    }
    None
}
