//! Choices for every kernel of the examples and of the library.

mod sources;

use std::{collections::BTreeSet, fmt::Write as _, time::Instant};
use tile_auto::{Site, Sizes, Structure, Wanted, choose, choose::candidates, gpu};
use tile_dsl::engine::Prover;

/// A value for each named dim: of a list, one after the other.
fn sizes(kernel: &tile_dsl::tile::Kernel, values: &[i64]) -> Sizes {
    let extents = kernel.tensors.iter().flat_map(|t| &t.dims).chain(kernel.axes.iter().map(|a| &a.extent));
    let mut found = Sizes::new();
    for name in extents.flat_map(|e| e.dims.keys()) {
        let next = values[found.len() % values.len()];
        found.entry(name.clone()).or_insert(next);
    }
    found
}

#[test]
fn every_kernel_has_a_choice() {
    let none = BTreeSet::new();
    for source in sources::every() {
        for dtype in source.dtypes() {
            for values in [&[64, 96, 48, 128][..], &[1, 7, 33, 5], &[4096, 2048, 1024, 64]] {
                let sizes = sizes(&source.kernel, values);
                for gpu in [&gpu::H200, &gpu::A100] {
                    let start = Instant::now();
                    let wanted = Wanted { kernel: &source.kernel, dtype, sizes: &sizes, column_major: &none, gpu };
                    let chosen = choose(&wanted);
                    let ms = start.elapsed().as_secs_f64() * 1e3;
                    match chosen {
                        Ok(c) => println!(
                            "{} {} {dtype:?} {values:?} {}: {} of {}, {} refused, {ms:.1} ms: {}",
                            source.file, source.kernel.name, gpu.name, c.choice().candidate, c.ranked.len(), c.refused.len(), c.choice().prediction
                        ),
                        Err(e) => println!("FAIL {} {} {dtype:?} {values:?}: {e}", source.file, source.kernel.name),
                    }
                }
            }
        }
    }
}

#[test]
#[ignore = "a report of all refusals"]
fn all_candidates() {
    let none = BTreeSet::new();
    let (mut legal, mut all) = (0, 0);
    for source in sources::every() {
        for dtype in source.dtypes() {
            let sizes = sizes(&source.kernel, &[4096, 2048, 1024, 64]);
            let structure = Structure::of(&source.kernel, dtype, &none).unwrap();
            let site = Site { structure: &structure, sizes: &sizes, gpu: &gpu::H200 };
            let mut prover = Prover::new(source.kernel.clone());
            let mut out = String::new();
            let mut counts = std::collections::BTreeMap::<&str, (usize, usize)>::new();
            let start = Instant::now();
            for ranked in candidates(&site).0 {
                all += 1;
                let count = counts.entry(ranked.candidate.template).or_default();
                count.1 += 1;
                match tile_auto::choose::prove(&mut prover, dtype, &ranked.candidate) {
                    Ok(_) => { legal += 1; count.0 += 1 }
                    Err(why) => { let _ = writeln!(out, "   {}: {why}\n      {}", ranked.candidate, ranked.candidate.text); }
                }
            }
            println!("{} {} {dtype:?} {counts:?} {:.0} ms\n{out}", source.file, source.kernel.name, start.elapsed().as_secs_f64() * 1e3);
        }
    }
    println!("{legal} of {all}");
}
