//! Structures and choices for every kernel of the examples and of the library, read from their sources.
//!
//! `TILEWRIGHT_BLESS=1` records the goldens anew.

mod sources;

use sources::Source;
use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};
use tile_auto::{Chosen, Gpu, Sizes, Spelling, Wanted, choose, choose::candidates, gpu};
use tile_dsl::{dtype::DType, engine::Prover, tile::Kernel};

/// Values for the named dims, one after the other: whole tiles, small odd ones, large ones.
const SIZES: [[i64; 4]; 3] = [[64, 96, 48, 128], [1, 7, 33, 5], [4096, 2048, 1024, 64]];

fn sizes(kernel: &Kernel, values: &[i64]) -> Sizes {
    let extents = kernel.tensors.iter().flat_map(|t| &t.dims).chain(kernel.axes.iter().map(|a| &a.extent));
    let mut found = Sizes::new();
    for name in extents.flat_map(|e| e.dims.keys()) {
        let next = values[found.len() % values.len()];
        found.entry(name.clone()).or_insert(next);
    }
    found
}

fn chosen(
    source: &Source,
    dtype: Option<DType>,
    values: &[i64],
    gpu: &Gpu,
) -> Result<Chosen, tile_auto::Error> {
    let sizes = sizes(&source.kernel, values);
    let none = BTreeSet::new();
    choose(&Wanted { kernel: &source.kernel, dtype, sizes: &sizes, column_major: &none, gpu })
}

fn title(source: &Source, dtype: Option<DType>) -> String {
    let of = dtype.map_or(String::new(), |dtype| format!(" of {dtype}"));
    format!("{} {}{of}", source.file, source.kernel.name)
}

/// Compares with a file, or records it.
fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name);
    if std::env::var_os("TILEWRIGHT_BLESS").is_some() {
        return fs::write(path, found).expect("it can be written");
    }
    let known = fs::read_to_string(path).unwrap_or_default();
    for (n, (a, b)) in known.lines().zip(found.lines()).enumerate() {
        assert_eq!(a, b, "line {} of {name}", n + 1);
    }
    assert_eq!(known.lines().count(), found.lines().count(), "lines of {name}");
}

#[test]
fn structures_are_those_of_the_golden() {
    let mut text = String::new();
    for source in sources::every() {
        let dtype = *source.dtypes().last().expect("a type");
        for Spelling { structure, online, .. } in
            Spelling::all(&source.kernel, dtype, &BTreeSet::new()).expect("a kernel")
        {
            let under = online.map_or(String::new(), |n| format!(" under online({})", structure.name(n)));
            let _ = writeln!(text, "# {}{under}\n{structure}", title(&source, dtype));
        }
    }
    golden("structures.txt", &text);
}

#[test]
fn choices_are_those_of_the_golden() {
    let mut text = String::new();
    for source in sources::every() {
        for dtype in source.dtypes() {
            let _ = writeln!(text, "# {}", title(&source, dtype));
            for values in &SIZES {
                let chosen = chosen(&source, dtype, values, &gpu::H200)
                    .unwrap_or_else(|e| panic!("{}: {e}", title(&source, dtype)));
                let candidate = &chosen.choice().candidate;
                let _ = writeln!(text, "{values:?} {candidate}: {}", candidate.text);
            }
        }
    }
    golden("choices.txt", &text);
}

#[test]
fn every_kernel_has_a_choice_on_every_gpu() {
    for source in sources::every() {
        let eight =
            source.kernel.tensors.iter().any(|t| t.elem == tile_dsl::tile::ElemType::Fixed(DType::F8));
        for dtype in source.dtypes() {
            for gpu in gpu::TABLE.iter().filter(|gpu| !eight || gpu.target.sm >= 89) {
                for values in [[0, 3, 2, 5], [17, 1, 129, 300]] {
                    let found = chosen(&source, dtype, &values, gpu);
                    let found = found.unwrap_or_else(|e| {
                        panic!("{} {values:?} on {}: {e}", title(&source, dtype), gpu.name)
                    });
                    assert!(found.choice().candidate.target <= gpu.target);
                }
            }
        }
    }
}

#[test]
fn equal_questions_have_equal_answers() {
    for source in sources::every().iter().take(20) {
        let dtype = source.dtypes()[0];
        let texts = [0; 2]
            .map(|_| chosen(source, dtype, &SIZES[0], &gpu::H100).map(|c| c.to_string()).expect("a choice"));
        assert_eq!(texts[0], texts[1]);
    }
}

/// Candidates that the engine refuses, and how long a proof takes: `cargo test -p tile-auto --test auto refusals -- --ignored --nocapture`.
#[test]
#[ignore = "a report"]
fn refusals() {
    let (mut legal, mut all, mut spent) = (0, 0, std::time::Duration::ZERO);
    for source in sources::every() {
        for dtype in source.dtypes() {
            let sizes = sizes(&source.kernel, &SIZES[2]);
            let spellings = Spelling::all(&source.kernel, dtype, &BTreeSet::new()).expect("a kernel");
            let mut prover = Prover::new(source.kernel.clone());
            for ranked in candidates(&spellings, &sizes, &gpu::H200).0 {
                all += 1;
                let start = std::time::Instant::now();
                let proved = tile_auto::choose::prove(&mut prover, dtype, &ranked.candidate);
                spent += start.elapsed();
                match proved {
                    Ok(_) => legal += 1,
                    Err(why) => println!("{} {}: {why}", title(&source, dtype), ranked.candidate),
                }
            }
        }
    }
    println!(
        "{legal} of {all} candidates are legal; a proof takes {:.2} ms",
        spent.as_secs_f64() * 1e3 / f64::from(all)
    );
}

/// How long choices take: `cargo test -p tile-auto --test auto time -- --ignored --nocapture`.
#[test]
#[ignore = "a report"]
fn time_of_choices() {
    let mut times: Vec<(f64, String)> = Vec::new();
    for source in sources::every() {
        for dtype in source.dtypes() {
            for values in &SIZES {
                let mut best = f64::INFINITY;
                for _ in 0..3 {
                    let start = std::time::Instant::now();
                    let found = chosen(&source, dtype, values, &gpu::H200).expect("a choice");
                    best = best.min(start.elapsed().as_secs_f64() * 1e3);
                    drop(found);
                }
                times.push((best, format!("{} {values:?}", title(&source, dtype))));
            }
        }
    }
    times.sort_by(|a, b| b.0.total_cmp(&a.0));
    let sum: f64 = times.iter().map(|(ms, _)| ms).sum();
    println!(
        "{} choices, {:.2} ms each, median {:.2} ms",
        times.len(),
        sum / times.len() as f64,
        times[times.len() / 2].0
    );
    times.iter().take(12).for_each(|(ms, what)| println!("{ms:8.2} ms {what}"));
}

/// Why a choice is made: `TILEWRIGHT_ASK='softmax.rs R=3 N=100' cargo test -p tile-auto --test auto asked -- --ignored --nocapture`.
#[test]
#[ignore = "a report"]
fn asked() {
    let asked = std::env::var("TILEWRIGHT_ASK").unwrap_or_default();
    let (names, values): (Vec<&str>, Vec<&str>) = asked.split_whitespace().partition(|w| !w.contains('='));
    let given: Sizes = values
        .iter()
        .filter_map(|w| w.split_once('='))
        .map(|(d, n)| (d.into(), n.parse().expect("a number")))
        .collect();
    for source in sources::every() {
        for dtype in source
            .dtypes()
            .into_iter()
            .filter(|dtype| names.iter().all(|n| title(&source, *dtype).contains(n)))
        {
            let sizes: Sizes = sizes(&source.kernel, &SIZES[0]).into_iter().chain(given.clone()).collect();
            let none = BTreeSet::new();
            let wanted =
                Wanted { kernel: &source.kernel, dtype, sizes: &sizes, column_major: &none, gpu: &gpu::H200 };
            println!("# {} {sizes:?}\n{}", title(&source, dtype), choose(&wanted).expect("a choice"));
        }
    }
}

/// Modules from the ground up: each knows those before it alone.
const FLOORS: [&str; 7] = ["structure", "gpu", "candidate", "site", "template", "model", "choose"];

#[test]
fn modules_know_those_below_them() {
    fn files(path: &Path, visit: &mut dyn FnMut(&Path)) {
        match path.is_dir() {
            true => {
                fs::read_dir(path).expect("a folder").for_each(|e| files(&e.expect("an entry").path(), visit))
            }
            false => visit(path),
        }
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut seen = 0;
    for (floor, module) in FLOORS.iter().enumerate() {
        for of in [source.join(format!("{module}.rs")), source.join(module)].iter().filter(|p| p.exists()) {
            files(of, &mut |file| {
                seen += 1;
                let text = fs::read_to_string(file).expect("a source file");
                let code: Vec<&str> = text.lines().filter(|l| !l.trim_start().starts_with("//")).collect();
                let code = code.join("\n");
                let imports = code.split(';').filter(|s| s.trim_start().starts_with("use crate::"));
                let imports: String = imports.chain(code.split("crate::").skip(1)).collect();
                for above in &FLOORS[floor + 1..] {
                    let knows = imports.contains(&format!("{above}::"));
                    assert!(!knows, "{} knows `{above}`", file.display());
                }
            });
        }
    }
    assert!(seen > 20, "{seen} files: the sources lie elsewhere");
}
