//! The command line of the examples: what a user types, and what comes back.

use serde_json::Value;
use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
};

/// Examples are built beside the tests, one folder up.
fn command(name: &str, args: &[&str]) -> Command {
    let deps = std::env::current_exe().expect("a test knows its path");
    let folder: PathBuf = deps.ancestors().nth(2).expect("target/<profile>/deps").join("examples");
    let mut command = Command::new(folder.join(name));
    command.args(args);
    command
}

fn example(name: &str, args: &[&str]) -> Output {
    command(name, args).output().expect("cargo test builds the examples")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json_lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

#[test]
fn every_example_verifies_every_schedule_on_the_simulator() {
    for (name, sizes) in [
        ("matmul", &["--size", "96x80x72"][..]),
        ("vector_add", &["--length", "5000"]),
        ("softmax", &["--rows", "6", "--length", "300"]),
        ("conv1d", &["--length", "5000"]),
        ("linear", &["--batch", "96", "--width", "72"]),
        (
            "matmul",
            &["--size", "40x33x24", "--schedule", "shared_tf32,mma_tf32,mma_tf32_best,tf32_wgmma,tf32_best"],
        ),
        ("matmul", &["--size", "70x33x24", "--dtype", "bf16", "--schedule", "f8_shared,f8_wgmma,f8_best"]),
        ("linear", &["--batch", "96", "--width", "72", "--dtype", "f16"]),
        ("attention", &["--size", "1x2x37x21x20"]),
        ("attention_backward", &["--size", "1x2x37x64x20"]),
        ("attention_backward", &["--size", "1x1x70x64x36", "--dtype", "bf16"]),
        ("attention_backward", &["--size", "1x1x40x64x64", "--dtype", "f16", "--whole", "queries_wgmma"]),
        ("attention_f8", &["--size", "1x2x37x210x40", "--dtype", "bf16"]),
        ("sharded_linear", &["--batch", "40", "--width", "24", "--tiles", "3"]),
        ("sharded_linear", &["--batch", "40", "--width", "24", "--devices", "3", "--dtype", "bf16"]),
        ("sharded_linear", &["--batch", "33", "--width", "17", "--devices", "1", "--dtype", "f16"]),
        ("batched", &["--size", "2x33x40x24"]),
        ("batched", &["--size", "2x33x40x24", "--dtype", "bf16"]),
        ("conv2d", &["--size", "1x5x18x8x12"]),
        ("conv2d", &["--size", "1x5x18x8x12", "--window", "1x4", "--dtype", "f16"]),
    ] {
        let args = [&["--schedule", "all", "--device", "sim", "--json"], sizes].concat();
        let output = example(name, &args);
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        let lines = json_lines(&output);
        assert!(!lines.is_empty());
        for line in lines {
            assert_eq!(line["verified"], true, "{name}: {line}");
            assert!(line["error_bound_ratio"].as_f64().unwrap() <= 1.0);
        }
    }
}

#[test]
fn ranks_are_processes() {
    let output = example("ranks", &["--sim", "--spawn", "3", "--graph", "20"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for rank in 0..3 {
        assert!(text.contains(&format!("rank {rank} of 3 on simulator: ")), "{text}");
    }
    assert_eq!(text.matches(" results and 20 sums in a graph verified").count(), 3, "{text}");
    let output = example("ranks", &["--sim", "--spawn", "2", "--kill", "2"]);
    assert!(output.status.success(), "{}", stderr(&output));
    // The layers, a process each.
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let port = free.expect("a free port").port().to_string();
    let one = |rank: &str| {
        let args = ["--device", "sim", "--ranks", "--batch", "33", "--width", "17", "--json"];
        let variables =
            [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "localhost")];
        let mut command = command("sharded_linear", &args);
        command.envs(variables).env("MASTER_PORT", &port).env_remove("TORCHELASTIC_USE_AGENT_STORE");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("cargo test builds the examples")
    };
    for rank in [one("0"), one("1")] {
        let output = rank.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(json_lines(&output).iter().all(|line| line["verified"] == true && line["devices"] == 2));
    }
}

#[test]
fn json_has_the_promised_keys_and_null_for_the_unknown() {
    let output =
        example("matmul", &["--schedule", "naive", "--device", "sim", "--size", "33x17x9", "--json"]);
    let line = &json_lines(&output)[0];
    let keys: Vec<_> = line.as_object().unwrap().keys().map(String::as_str).collect();
    for key in [
        "schedule",
        "dtype",
        "m",
        "n",
        "k",
        "device",
        "variant",
        "verified",
        "max_rel_error",
        "error_bound_ratio",
        "time_ms",
        "tflops",
        "counters",
    ] {
        assert!(keys.contains(&key), "{key} is missing from {keys:?}");
    }
    assert_eq!((&line["m"], &line["n"], &line["k"]), (&33.into(), &17.into(), &9.into()));
    assert_eq!(line["time_ms"], Value::Null, "the simulator claims no time");
}

#[test]
fn all_types_and_degenerate_sizes_run() {
    for dtype in ["f32", "f16", "bf16"] {
        for size in ["1x1x1", "64x64x0", "0x5x5"] {
            let output = example("matmul", &["--dtype", dtype, "--device", "sim", "--size", size, "--json"]);
            assert!(output.status.success(), "{dtype} {size}: {}", stderr(&output));
            assert_eq!(json_lines(&output)[0]["verified"], true);
        }
    }
}

#[test]
fn wrong_options_list_the_valid_ones_and_exit_with_2() {
    for (args, expected) in [
        (["--schedule", "warptiel"], "warptile"),
        (["--dtype", "f64"], "bf16"),
        (["--device", "tpu"], "sim"),
        (["--size", "12x12"], "M×N×K"),
        (["--size", "axbxc"], "M×N×K"),
        (["--size", "1x1x99999999999999999999999"], "M×N×K"),
        (["--emit", "sas"], "ptx"),
    ] {
        let output = example("matmul", &args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(expected), "{args:?}: {}", stderr(&output));
        assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
    }
}

#[test]
fn sizes_that_overflow_or_do_not_fit_are_errors_not_panics() {
    for size in ["4294967296x4294967296x4294967296", "18446744073709551615x2x2", "4000000x4000000x4000000"] {
        let output = example("matmul", &["--device", "sim", "--size", size]);
        assert_eq!(output.status.code(), Some(1), "{size}: {}", stderr(&output));
        let message = stderr(&output);
        assert!(message.starts_with("error: ") && !message.contains("panicked"), "{size}: {message}");
    }
}

#[test]
fn every_stage_of_the_compilation_can_be_printed() {
    for (stage, expected) in [
        ("tile", "dot("),
        ("nest", "(for"),
        ("kernel", "barrier"),
        ("passes", "== kernel, walk"),
        ("llvm", "define"),
        ("ptx", ".visible .entry"),
    ] {
        let output = example("matmul", &["--emit", stage, "--schedule", "shared"]);
        assert!(output.status.success(), "{stage}: {}", stderr(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(expected), "{stage}: {text}");
    }
}

#[test]
fn every_pass_is_shown_in_the_order_in_which_it_runs() {
    let args = ["--emit", "passes", "--schedule", "best"];
    let output = example("matmul", &args);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let headings = text.lines().filter_map(|l| l.strip_prefix("== ")).map(|l| l.split(':').next().unwrap());
    let expected = [
        "nest, initial",
        "nest, tile",
        "nest, split",
        "nest, reorder",
        "nest, stage",
        "nest, pipeline",
        "nest, bind",
        "nest, expand",
        "nest, launch",
        "nest, defaults",
        "kernel, plan",
        "kernel, allocate",
        "kernel, walk",
        "kernel, products",
        "kernel, mbarriers",
        "kernel, reuse",
        "kernel, zeros",
        "kernel, depend",
        "kernel, maps",
        "kernel, verify",
    ];
    assert_eq!(headings.collect::<Vec<_>>(), expected);
    assert!(text.contains("== nest, pipeline: pipeline(k, 3); pipeline(k.t, 2)"), "{text}");
    // C takes the bytes of the pipeline, once all threads have left it.
    let reuse = text.split("== kernel, reuse").nth(1).unwrap().split("== ").next().unwrap();
    let added: Vec<&str> = reuse.lines().filter_map(|l| l.strip_prefix("+ ")).map(str::trim).collect();
    assert_eq!(added, ["live a, b", "barrier", "live acc"]);
    assert!(
        text.contains("== kernel, zeros: zeros where a part of a word may never be written, and where tiles are counted\nunchanged"),
        "{text}"
    );
}

#[test]
fn a_reader_that_leaves_ends_the_program_quietly() {
    for args in [
        &["--emit", "kernel", "--schedule", "all"][..],
        &["--list"],
        &["--schedule", "naive,shared", "--size", "8x8x8", "--device", "sim"],
        &["--schedule", "naive,shared", "--size", "8x8x8", "--device", "sim", "--json"],
    ] {
        let mut command = command("matmul", args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn list_names_every_schedule_with_its_purpose() {
    let output = example("matmul", &["--list"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let ladder = [
        "naive",
        "coalesced",
        "shared",
        "blocktile_1d",
        "blocktile_2d",
        "vectorized",
        "warptile",
        "double_buffered",
        "prefetched",
        "best",
        "mma",
        "mma_pipelined",
        "mma_large_tile",
        "mma_best",
    ];
    let names: Vec<_> = text.lines().map(|l| l.split_whitespace().next().unwrap_or("")).collect();
    // After the ladder, the schedules for sizes that it does not suit.
    assert_eq!(names[..ladder.len()], ladder);
    assert!(names[ladder.len()..].contains(&"small_split4"), "{names:?}");
    assert!(text.lines().all(|l| l.split_whitespace().count() > 5), "{text}");
}

/// The CPU's part of a sweep needs no GPU, and is all there is without one.
#[test]
fn a_sweep_without_a_gpu_has_the_cpu_and_says_so() {
    let output = example("matmul", &["--sweep", "--device", "sim", "--size", "70x33x40,128x128x128"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("no GPU"), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let header = ["date", "device", "driver", "cpu", "size", "contender", "ms", "gflops", "distribution"];
    assert_eq!(lines[0], header);
    for (line, size) in lines[1..].iter().zip(["70x33x40", "128x128x128"]) {
        assert_eq!((line[1], line[2], line[4], line[5]), ("", "", size, "matrixmultiply"));
        let extents = size.split('x').map(|n| n.parse::<f64>().unwrap());
        let (ms, gflops): (f64, f64) = (line[6].parse().unwrap(), line[7].parse().unwrap());
        // Each is rounded.
        let flops = (gflops - 0.1) * (ms - 1e-4) * 1e6..(gflops + 0.1) * (ms + 1e-4) * 1e6;
        assert!(flops.contains(&(2.0 * extents.product::<f64>())), "{line:?}");
    }
    assert_eq!(lines.len(), 3);

    for wrong in [&["--bench"][..], &["--dtype", "f16"], &["--size", "4x0x4"]] {
        let output = example("matmul", &[&["--sweep", "--device", "sim"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", stderr(&output));
    }
}

#[test]
fn a_sweep_is_drawn_with_a_line_for_each_contender() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (csv, svg) = (folder.path().join("sweep.csv"), folder.path().join("sweep.svg"));
    let draw = |text: &str| {
        std::fs::write(&csv, text).expect("a temporary file can be written");
        let args = ["sweep", "--measurements", csv.to_str().unwrap(), svg.to_str().unwrap()];
        example("plots", &args)
    };
    let header = "size,contender,gflops,device,cpu\n";
    let lines =
        ["256x256x256,cpu,100,,A", "512x512x512,cpu,150,,A", "256x256x256,gpu,1e4,B,", "8x9x8,odd,1,B,"];
    let output = draw(&format!("{header}{}\n", lines.join("\n")));
    assert!(output.status.success(), "{}", stderr(&output));
    let drawn = std::fs::read_to_string(&svg).unwrap();
    for text in ["\ncpu\n", "\ngpu\n", "A, B", "\n256\n", "\n512\n"] {
        assert!(drawn.contains(text), "{text:?}: {drawn}");
    }
    assert!(!drawn.contains("odd"), "its product is not square");

    for (text, why) in [("size,contender\n", "`gflops`"), (header, "no square product")] {
        let output = draw(text);
        assert!(!output.status.success() && stderr(&output).contains(why), "{}", stderr(&output));
    }
}

#[test]
fn a_page_is_of_one_schedule_and_refused_ones_have_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    let file = path.to_str().unwrap();
    let page = || std::fs::read_to_string(&path).unwrap();

    let output = example("vector_add", &["--schedule", "vectorized", "--length", "5000", "--page", file]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(page().contains("<title>vector_add · vectorized</title>"));

    let output = example("matmul", &["--schedule", "naive,shared", "--page", file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("a page shows one schedule, not 2"), "{}", stderr(&output));

    let extend = |text| {
        example("matmul", &["--schedule", "shared", "--size", "64x64x64", "--extend", text, "--page", file])
    };
    let output = extend("tile(k = 32)");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(page().contains("<title>matmul · shared + tile(k = 32)</title>"));
    let output = extend("tile(k = 1024)");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("error: 262144 bytes of shared memory"), "{}", stderr(&output));
    assert!(page().contains("replace `tile(k = 1024)` by `tile(k = 512)`"));
    let output = extend("tile(k = ");
    assert_eq!(output.status.code(), Some(1));
    assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));

    let output = example("matmul", &["--extend", "tile(k = 32)"]);
    assert_eq!(output.status.code(), Some(2), "--extend is for pages alone");
}
