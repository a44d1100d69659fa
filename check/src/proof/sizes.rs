//! Small sizes that reach what a derivation has to get right: nothing, one point, a point of a second tile.

use std::collections::{BTreeMap, BTreeSet};
use tile_dsl::nest::{Nest, Steps, loops};

/// Points of an axis that has no tail to reach.
const FEW: i64 = 2;
/// Most points of an axis that is to have more than a tile.
const MOST: i64 = 600;

/// Sizes of the named dims at which a derivation is replayed. They keep what the last nest asserts of them (`fits`, `multiple`).
pub fn of(nests: &[&Nest]) -> Vec<BTreeMap<String, i64>> {
    let last = nests.last().expect("there is the kernel's nest");
    let kernel = &last.kernel;
    let extents = || kernel.axes.iter().map(|a| &a.extent).chain(kernel.tensors.iter().flat_map(|t| &t.dims));
    let names: BTreeSet<&String> = extents().flat_map(|e| e.dims.keys()).collect();
    let round = |name: &String, n: i64| match last.multiples.get(name) {
        Some(m) => (n + i64::from(*m) - 1) / i64::from(*m) * i64::from(*m),
        None => n,
    };
    let all =
        |n: i64| -> BTreeMap<String, i64> { names.iter().map(|d| ((*d).clone(), round(d, n))).collect() };
    // The fewest points that leave no axis empty.
    let few = (FEW..64).map(all).find(|sizes| kernel.axes.iter().all(|a| a.extent.eval(sizes) >= Some(1)));
    let few = few.unwrap_or_else(|| all(FEW));
    let mut found = vec![few.clone()];
    for name in names {
        let mut more = few.clone();
        more.insert(name.clone(), round(name, beyond_a_tile(last, name)));
        found.push(more);
        found.push(BTreeMap::from_iter(few.iter().map(|(d, n)| (d.clone(), if d == name { 0 } else { *n }))));
    }
    let fits = |sizes: &BTreeMap<String, i64>| {
        let bounded = last.bounds.iter().all(|(axis, most)| {
            kernel.axes[usize::from(axis.0)].extent.eval(sizes) <= Some(i64::from(*most))
        });
        let short =
            last.lengths.iter().all(|(dim, most)| sizes.get(dim).is_none_or(|n| *n <= i64::from(*most)));
        bounded && short && extents().all(|e| e.eval(sizes).is_some_and(|n| n >= 0))
    };
    found.retain(fits);
    found.sort_by_key(|sizes| sizes.values().sum::<i64>());
    found.dedup();
    found
}

/// A point more than the largest tile of an axis of this dim has, or than its segments have.
fn beyond_a_tile(nest: &Nest, dim: &str) -> i64 {
    let of_dim = |axis: usize| nest.kernel.axes[axis].extent.dims.contains_key(dim);
    let tiles = loops(&nest.body).into_iter().filter(|(d, _)| of_dim(usize::from(d.axis.0))).map(|(d, _)| {
        match d.steps {
            Steps::Rest => nest.period(d),
            Steps::Fixed(n) => d.stride.saturating_mul(n),
        }
    });
    let most = tiles.filter(|n| i64::from(*n) < MOST).max().map_or(FEW, i64::from);
    most + 1
}
