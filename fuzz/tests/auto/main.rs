//! Every kernel of the examples and of the library, under schedules that nobody wrote, on the simulator.

#[path = "../../../auto/tests/auto/sources.rs"]
mod sources;

use sources::Source;
use std::collections::{BTreeMap, BTreeSet};
use tile_auto::{Spelling, Structure, Wanted, choose, choose::candidates, gpu};
use tile_dsl::{
    dtype::DType,
    engine::{Prover, testing::Random},
    program::{Program, Variant},
    tile::{
        Stmt,
        evaluate::{Elements, Inputs, reference},
        statements,
    },
};
use tile_fuzz::{case::Launch, check::Expected, launch};
use tile_runtime::{Device, Error};

/// Points that a launch has at most: the evaluator takes them one by one.
const MOST_POINTS: f64 = 60_000.0;

/// Values for the named dims, one after the other; the largest are halved until the launch is small.
fn dims(source: &Source, values: &[i64]) -> BTreeMap<String, i64> {
    let tensors = source.kernel.tensors.iter().flat_map(|t| &t.dims);
    let extents = tensors.chain(source.kernel.axes.iter().map(|a| &a.extent));
    let mut found = BTreeMap::new();
    for name in extents.flat_map(|e| e.dims.keys()) {
        let next = values[found.len() % values.len()];
        found.entry(name.clone()).or_insert(next);
    }
    let dtype = source.dtypes()[0];
    let structure = Structure::of(&source.kernel, dtype, &BTreeSet::new()).expect("a kernel");
    let points = |found: &BTreeMap<String, i64>| -> f64 {
        let all = structure.accesses.iter().map(|a| &a.points).chain(structure.work.iter().map(|w| &w.axes));
        all.map(|axes| structure.points(axes, found)).fold(0.0, f64::max)
    };
    while points(&found) > MOST_POINTS {
        let (_, largest) = found.iter_mut().max_by_key(|(_, n)| **n).expect("a dim");
        *largest = (*largest + 1) / 2;
    }
    found
}

/// Runs each variant whose assumptions hold; how many. Nothing where no contents give results that can be compared.
fn run(program: &Program, dims: &BTreeMap<String, i64>) -> Option<usize> {
    let small = |data| {
        let launch = Launch { dims: dims.clone(), data, special: false };
        let expected = Expected::of(program, &launch);
        let expected = expected.unwrap_or_else(|f| panic!("{}: {}", program.nest.kernel.name, f.message))?;
        variants(program, dims, &expected.inputs, &|stored| expected.compare(stored))
    };
    (1..4).find_map(small).or_else(|| (1..20).find_map(|data| smooth(program, dims, data)))
}

/// The same with numbers like those of a normal distribution, of which results are compared within the bound on their error.
fn smooth(program: &Program, dims: &BTreeMap<String, i64>, data: u64) -> Option<usize> {
    let kernel = &program.nest.kernel;
    let launch = Launch { dims: dims.clone(), data, special: false };
    let mut inputs = tile_fuzz::data::inputs(kernel, &launch, program.nest.tiles())?;
    let mut random = Random::new(data);
    let mut uniform = move || (random.below(20_001)) as f64 / 10_000.0 - 1.0;
    for elements in inputs.tensors.values_mut().filter(|e| e.dtype().is_float()) {
        *elements = Elements::from_f64(
            elements.dtype(),
            (0..elements.len()).map(|_| (0..4).map(|_| uniform()).sum()),
        );
    }
    // Windows that are not empty, scales that are positive.
    for scalar in &kernel.scalars {
        let value = if tile_fuzz::data::dtype(scalar.elem).is_float() { 0.5 } else { 16.0 };
        inputs.scalars.insert(scalar.name.clone(), value);
    }
    let expected = reference(kernel, &inputs).expect("the evaluator takes it");
    variants(program, dims, &inputs, &|stored| {
        for (name, found) in stored {
            let comparison = expected[name].compare(found, 1.0);
            if !comparison.verified() {
                return Err(format!("`{name}` is {} times its bound off", comparison.error_bound_ratio));
            }
        }
        Ok(())
    })
}

/// Says what is wrong with what was stored.
type Compare<'a> = dyn Fn(&BTreeMap<String, Elements>) -> Result<(), String> + 'a;

/// Runs each variant whose assumptions hold; nothing where the contents break a promise of the kernel.
fn variants(
    program: &Program,
    dims: &BTreeMap<String, i64>,
    inputs: &Inputs,
    compare: &Compare<'_>,
) -> Option<usize> {
    let kernel = &program.nest.kernel;
    let mut promises = false;
    statements(&kernel.body, &mut |stmt| {
        if let Stmt::Store { index, .. } = stmt {
            promises |= index.iter().any(|i| i.unique);
        }
    });
    let what = || {
        let directives: Vec<String> = program.schedule.directives.iter().map(ToString::to_string).collect();
        format!("{} {dims:?} {}", kernel.name, directives.join("; "))
    };
    let mut ran = 0;
    for variant in [Variant::Exact, Variant::Aligned, Variant::General] {
        match launch::run(program, inputs, &Device::sim(), variant) {
            Err(Error::Variant { .. }) if variant != Variant::General => {}
            Err(e) => panic!("{} {variant}: {e}", what()),
            // Two points with one value that the kernel says is unique.
            Ok(run) if promises && run.findings.iter().any(|f| f.contains("WriteWrite")) => return None,
            Ok(run) => {
                assert!(run.findings.is_empty(), "{} {variant}: {:?}", what(), run.findings);
                compare(&run.stored).unwrap_or_else(|e| panic!("{} {variant}: {e}", what()));
                ran += 1;
            }
        }
    }
    Some(ran)
}

fn title(source: &Source, dtype: Option<DType>) -> String {
    format!("{} {} {dtype:?}", source.file, source.kernel.name)
}

/// Kernels of which every n-th, from the k-th on: tests that run side by side share them out.
fn share(n: usize, k: usize) -> impl Iterator<Item = Source> {
    sources::every().into_iter().skip(k).step_by(n)
}

fn choices(n: usize, k: usize) {
    let none = BTreeSet::new();
    let (mut ran, mut incomparable, mut never, mut turn) = (0, Vec::new(), Vec::new(), k);
    for source in share(n, k) {
        for dtype in source.dtypes() {
            let (start, before) = (std::time::Instant::now(), ran);
            let mut sizes = [[5, 7, 33, 3], [64, 40, 17, 96], [1, 2, 130, 4], [16, 64, 32, 8]];
            let (first, round) = (turn % sizes.len(), turn / sizes.len());
            sizes.rotate_left(first);
            let mut compared = 0;
            for (at, values) in sizes.iter().enumerate() {
                let dims = dims(&source, values);
                let gpu = [&gpu::H200, &gpu::A100][(at + round) % 2];
                let wanted = Wanted { kernel: &source.kernel, dtype, sizes: &dims, column_major: &none, gpu };
                let chosen = match choose(&wanted) {
                    Ok(chosen) => chosen,
                    // Element types that the GPU lacks.
                    Err(tile_auto::Error::NoCandidate { .. }) => continue,
                    Err(e) => panic!("{}: {e}", title(&source, dtype)),
                };
                match run(&chosen.program, &dims) {
                    Some(variants) => {
                        ran += variants;
                        compared += 1;
                    }
                    None => incomparable.push(format!("{} {dims:?}", title(&source, dtype))),
                }
                // Other kernels and types have the other sizes.
                if compared == 2 {
                    break;
                }
            }
            turn += 1;
            if ran == before {
                never.push(title(&source, dtype));
            }
            println!("{} {:.1} s", title(&source, dtype), start.elapsed().as_secs_f64());
        }
    }
    println!("{ran} launches agree; no contents can be compared for {incomparable:#?}");
    assert_eq!(never, Vec::<String>::new(), "no launch of these can be compared");
    assert!(ran > 100);
}

#[test]
fn choices_agree_with_the_evaluator_0() {
    choices(2, 0);
}

#[test]
fn choices_agree_with_the_evaluator_1() {
    choices(2, 1);
}

/// Of each template, the first candidates that are legal.
#[test]
fn templates_agree_with_the_evaluator() {
    let none = BTreeSet::new();
    let mut ran = BTreeMap::<&str, usize>::new();
    for source in share(1, 0) {
        let dtype = *source.dtypes().last().expect("a type");
        let dims = dims(&source, &[33, 40, 70, 9]);
        let spellings = Spelling::all(&source.kernel, dtype, &none).expect("a kernel");
        let mut prover = Prover::new(source.kernel.clone());
        let mut tried = BTreeMap::<&str, usize>::new();
        let mut all = candidates(&spellings, &dims, &gpu::H200).0;
        // Not only what the model likes.
        let mut random = Random::new(7);
        for at in (1..all.len()).rev() {
            all.swap(at, random.below(at + 1));
        }
        for ranked in all {
            let tried = tried.entry(ranked.candidate.template).or_default();
            if *tried >= 2 {
                continue;
            }
            if let Ok(program) = tile_auto::choose::prove(&mut prover, dtype, &ranked.candidate) {
                *tried += 1;
                *ran.entry(ranked.candidate.template).or_default() += run(&program, &dims).unwrap_or(0);
            }
        }
    }
    println!("{ran:?}");
    for template in tile_auto::template::ALL {
        let launches = ran.get(template.name).copied().unwrap_or(0);
        assert!(launches > 0, "nothing ran of {}", template.name);
    }
}
