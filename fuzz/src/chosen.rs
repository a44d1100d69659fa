//! A random kernel under the schedule that a launch without one takes: chosen for random sizes, and launched at others too.

use crate::{case::Case, check::dtypes, program::random_kernel};
use std::collections::BTreeSet;
use tile_auto::{Error, Sizes, Wanted, choose, gpu};
use tile_dsl::{engine::testing::Random, tile::Kernel};

/// Sizes that a choice is made for.
const SIZES: &[i64] = &[1, 2, 3, 7, 8, 16, 17, 33, 64, 100, 128, 300, 1000, 4096];

/// The case, its launches left out; nothing of a kernel that has no schedule at all. A kernel of which no candidate is legal at small
/// sizes is a mistake of the templates.
///
/// # Errors
/// Why nothing was chosen, with the kernel under an empty schedule.
pub fn chosen(program: u64, random: &mut Random) -> Result<Option<Case>, Box<(Case, String)>> {
    let kernel = random_kernel(program);
    let dtype = *random.pick(&dtypes(kernel.generic.is_some()));
    let mut sizes = sizes(&kernel, random, SIZES);
    let many = kernel.tensors.iter().filter(|t| t.dims.len() > 1);
    let column_major: BTreeSet<String> =
        many.filter(|_| random.below(100) < 15).map(|t| t.name.clone()).collect();
    let gpu = if random.below(100) < 70 { &gpu::H200 } else { &gpu::A100 };
    let choice =
        |sizes: &Sizes| choose(&Wanted { kernel: &kernel, dtype, sizes, column_major: &column_major, gpu });
    let mut found = choice(&sizes);
    if let Err(Error::NoneLegal { .. }) = found {
        // What has to be held is more than a multiprocessor has, perhaps.
        sizes = self::sizes(&kernel, random, &SIZES[..4]);
        found = choice(&sizes);
    }
    match found {
        Ok(chosen) => {
            let schedule = chosen.program.schedule;
            Ok(Some(Case { kernel, dtype, schedule, launches: vec![] }))
        }
        Err(Error::Kernel(_) | Error::NoCandidate { .. }) => Ok(None),
        Err(why @ Error::NoneLegal { .. }) => {
            let schedule = crate::make::empty(&kernel, dtype);
            Err(Box::new((Case { kernel, dtype, schedule, launches: vec![] }, why.to_string())))
        }
    }
}

fn sizes(kernel: &Kernel, random: &mut Random, of: &[i64]) -> Sizes {
    let tensors = kernel.tensors.iter().flat_map(|t| &t.dims);
    let extents = tensors.chain(kernel.axes.iter().map(|a| &a.extent));
    let names: BTreeSet<&String> = extents.flat_map(|extent| extent.dims.keys()).collect();
    names.into_iter().map(|name| (name.clone(), *random.pick(of))).collect()
}
