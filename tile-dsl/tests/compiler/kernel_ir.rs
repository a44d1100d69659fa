//! The kernel IR by itself: text form, verifier, interpreter.

use std::collections::BTreeMap;
use tile_dsl::kernel::{
    interpret::{Counts, Launch, interpret},
    parse::parse,
    verify::verify,
};

/// A kernel of 64 threads around `body`.
fn kernel(body: &str) -> String {
    format!(
        "kernel k sm_80 threads 64 {{
  param x: tensor f32 align 16
  param y: mut tensor f32 align 16
  param N: dim
  param alpha: scalar f32
  shared s: f32[64] align 16
  frag acc: f32[2]
  grid N / 64
{body}
}}
"
    )
}

fn verdict(body: &str) -> String {
    verify(&parse(&kernel(body)).unwrap()).map_or_else(|e| e.what, |()| "valid".into())
}

fn run(body: &str) -> Result<(Vec<f32>, Counts), String> {
    let kernel = parse(&kernel(body)).unwrap();
    verify(&kernel).map_err(|e| e.to_string())?;
    let mut launch = Launch {
        dims: [("N".to_string(), 64)].into(),
        scalars: [("alpha".to_string(), 0.5)].into(),
        tensors: BTreeMap::from([
            ("x".to_string(), (0..64).map(|n| n as f32).collect()),
            ("y".to_string(), vec![0.0; 64]),
        ]),
    };
    let counts = interpret(&kernel, &mut launch).map_err(|e| e.to_string())?;
    Ok((launch.tensors["y"].clone(), counts))
}

/// Tiles that start over, the last one before with what is left.
#[test]
fn a_grid_of_tiles_of_two_sizes_round_trips_and_counts() {
    let text = kernel("  warp barrier").replace("grid N / 64", "grid N / 192 of 512");
    let parsed = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(parsed.to_string(), text);
    assert_eq!(verify(&parsed), Ok(()));
    let ctas = |n: i64| parsed.ctas(&[("N".to_string(), n)].into());
    for (n, tiles) in [(0, 0), (1, 1), (192, 1), (193, 2), (384, 2), (385, 3), (512, 3), (513, 4), (4096, 24)]
    {
        assert_eq!(ctas(n), Some(tiles), "{n}");
    }
    let within = text.replace("of 512", "of 191");
    assert!(verify(&parse(&within).unwrap()).unwrap_err().what.contains("start over"));
}

/// Matrices of 32-bit elements, and an instruction that takes one element a register.
#[test]
fn matrices_of_words_round_trip() {
    let body = |elements: &str, how: &str| {
        format!(
            "  matrices {elements}: f32 = shared s[(tid % 32)]{how}
  mma_tf32 acc[0, 1, 2, 3] += tf32(%0), %1, %2, %3 x %0, %1"
        )
    };
    let text = kernel(&body("%0, %1, %2, %3", "")).replace("frag acc: f32[2]", "frag acc: f32[4]");
    let parsed = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(parsed.to_string(), text);
    assert_eq!(verify(&parsed), Ok(()));
    let transposed = text.replace("% 32)]", "% 32)] transposed");
    assert!(verify(&parse(&transposed).unwrap()).is_err(), "16-bit elements alone are exchanged");
    let halves = text.replace("mma_tf32", "mma");
    assert!(verify(&parse(&halves).unwrap()).is_err(), "16-bit operands");
}

/// Four lanes of a row have two elements of each of four matrices: then each has the row of one.
#[test]
fn lanes_exchange_rows() {
    let pairs: Vec<String> = (0..8)
        .map(|n| format!("  let %{n}: bf16 = cast bf16 ((((tid % 4) * 2) + {}))", 8 * (n / 2) + n % 2))
        .collect();
    let list = |from: usize| (from..from + 8).map(|n| format!("%{n}")).collect::<Vec<_>>().join(", ");
    let own = "let %16: f32 = cast f32 (%8) let %17: f32 = cast f32 (%15)";
    let store =
        "store y[(tid / 4)] = %16 if ((tid % 4) == 2) store y[(32 + (tid / 4))] = %17 if ((tid % 4) == 3)";
    let body = format!("{}\n  exchange {}: bf16 = {}\n{own}\n{store}", pairs.join("\n"), list(8), list(0));
    let (y, _) = run(&body).unwrap();
    // The first element of matrix 2, and the last of matrix 3, in each of sixteen rows.
    assert_eq!((&y[..16], &y[32..48]), (&[16.0; 16][..], &[31.0; 16][..]));
    assert_eq!(verdict(&body.replace(", %15: bf16", ": bf16")), "an exchange of 8 for 7 elements");
    assert_eq!(verdict(&body.replace("bf16", "f32")), "matrices of f32");
    assert_eq!(
        verdict(&format!("if (tid < 3) {{ {body} }}")),
        "an exchange of matrices that some lanes may not reach"
    );
    let text = kernel(&body);
    assert_eq!(parse(&parse(&text).unwrap().to_string()), parse(&text));
}

/// Four lanes of two rows have two elements of each of two matrices: then each has four side by side of either row.
#[test]
fn lanes_join_pairs() {
    let list = |from: usize| (from..from + 8).map(|n| format!("%{n}")).collect::<Vec<_>>().join(", ");
    let body = |label: &dyn Fn(usize) -> String, n: usize| {
        let given: Vec<String> = (0..8).map(|n| format!("  let %{n}: f8 = cast f8 ({})", label(n))).collect();
        let store = format!("  let %16: f32 = cast f32 (%{})\n  store y[tid] = %16", 8 + n);
        format!("{}\n  join {}: f8 = {}\n{store}", given.join("\n"), list(8), list(0))
    };
    let column = |n: usize| format!("(((tid % 4) * 2) + {})", n / 4 * 8 + n % 2);
    let row = |n: usize| format!("(((tid % 32) / 4) + {})", n / 2 % 2 * 8);
    let f8 = |text: String| text.replace("sm_80", "sm_89");
    let run = |body: &str| {
        let kernel = parse(&f8(kernel(body))).unwrap();
        verify(&kernel).unwrap();
        let (x, y) = (vec![0.0; 64], vec![0.0; 64]);
        let mut launch = Launch {
            dims: [("N".to_string(), 64)].into(),
            scalars: [("alpha".to_string(), 0.5)].into(),
            tensors: BTreeMap::from([("x".to_string(), x), ("y".to_string(), y)]),
        };
        interpret(&kernel, &mut launch).unwrap();
        launch.tensors["y"].clone()
    };
    for n in 0..8 {
        let columns: Vec<f32> = (0..64).map(|t| (t % 4 * 4 + n % 4) as f32).collect();
        assert_eq!(run(&body(&column, n)), columns, "columns of element {n}");
        let rows: Vec<f32> = (0..64).map(|t| (t % 32 / 4 + n / 4 * 8) as f32).collect();
        assert_eq!(run(&body(&row, n)), rows, "rows of element {n}");
    }
    let text = body(&column, 0);
    let verdict = |body: &str| verify(&parse(&f8(kernel(body))).unwrap()).unwrap_err().what;
    assert_eq!(verdict(&text.replace(", %15: f8", ": f8")), "an exchange of 8 for 7 elements");
    assert_eq!(verdict(&text.replace("f8", "bf16")), "matrices of bf16");
    let divided = format!("if (tid < 3) {{ {text} }}");
    assert_eq!(verdict(&divided), "an exchange of pairs that some lanes may not reach");
    let text = f8(kernel(&text));
    assert_eq!(parse(&parse(&text).unwrap().to_string()), parse(&text));
}

/// Lane 4·r + q has elements 2·q and 2·q + 1 of column r: then of row r.
#[test]
fn lanes_transpose_a_matrix() {
    let held = |n: usize| {
        format!("  let %{n}: bf16 = cast bf16 ((((((tid % 4) * 2) + {n}) * 8) + ((tid % 32) / 4)))\n")
    };
    let own = "let %4: f32 = cast f32 (%2) let %5: f32 = cast f32 (%3)";
    let store = "if (tid < 32) { store y[(tid * 2)] = %4 store y[((tid * 2) + 1)] = %5 }";
    let body = format!("{}{}  transpose %2, %3: bf16 = %0, %1\n{own}\n{store}", held(0), held(1));
    let (y, _) = run(&body).unwrap();
    assert_eq!(y, (0..64).map(|n| n as f32).collect::<Vec<_>>());
    assert_eq!(verdict(&body.replace("= %0, %1", "= %0")), "an exchange of 1 for 2 elements");
    assert_eq!(verdict(&body.replace("bf16", "f32")), "matrices of f32");
    let divided = format!("if (tid < 3) {{ {body} }}");
    assert_eq!(verdict(&divided), "a transposition that some lanes may not reach");
    let text = kernel(&body);
    assert_eq!(parse(&parse(&text).unwrap().to_string()), parse(&text));
    let stored = kernel("  store_matrices shared s[(tid % 32)] transposed = f32(0), f32(0)");
    assert_eq!(parse(&parse(&stored).unwrap().to_string()), parse(&stored));
}

#[test]
fn text_round_trips() {
    let text = kernel(
        "  let %0: i32 = (cta * 64)
  let %1: bool = ((%0 + tid) < dim(N))
  load %2: f32 = x[(%0 + tid)] if %1
  let %3: i64 = cast i64 (%0)
  let %6: i32 = wrapping(%0 / wrapping(tid - 3))
  set acc[0] = fma(%2, $alpha, f32(-inf))
  set acc[1] = max(neg(acc[0]), f32(1e-7))
  for %4: i32 in 0 to dim(2*N - 3) step 8 {
    barrier
  }
  if %1 {
    copy shared s[(tid xor 1)] <- x[tid] x 1 if (%1 and true)
  } else {
    store y[(%3 + 5l)] = select(%1, acc[1], f32(0.0)) if false
  }
  commit
  wait 0
  shuffle %5: f32 = acc[1] xor 16",
    );
    let kernel = parse(&text).unwrap();
    assert_eq!(kernel.to_string(), text);
    assert_eq!(verify(&kernel), Ok(()));
    let error = parse(&text.replace("step 8", "stop 8")).unwrap_err();
    assert_eq!(error.to_string(), "line 16: expected `step`, found `stop`");
}

#[test]
fn verifier_names_the_rule_broken() {
    for (body, expected) in [
        ("barrier", "valid"),
        ("let %0: i32 = wrapping(tid * cta)", "valid"),
        ("let %0: f32 = wrapping(f32(1.0) + f32(1.0))", "f32 operand of wrapping(f32(1.0) + f32(1.0))"),
        ("if (tid < 3) { barrier }", "a barrier that some threads may not reach"),
        ("for %0: i32 in 0 to tid step 1 { barrier }", "a barrier that some threads may not reach"),
        ("for %0: i32 in 0 to dim(N) step 1 { barrier }", "valid"),
        ("let %0: bool = (tid < 3) if %0 { barrier }", "a barrier that some threads may not reach"),
        ("if (cta < 3) { barrier }", "valid"),
        ("let %0: i32 = (tid + f32(1.0))", "operands of i32 and f32: (tid + f32(1.0))"),
        ("let %0: f32 = tid", "%0 is declared f32 and defined as i32"),
        ("let %0: i32 = tid let %0: i32 = tid", "%0 is defined twice"),
        (
            "for %0: i32 in 0 to 4 step 1 { let %1: i32 = %0 } let %2: i32 = %1",
            "%1 is used outside its scope",
        ),
        ("for %0: i32 in 0 to 4 step 0 { }", "a loop steps by zero or less"),
        ("load %0: f32 = x[0] if tid", "guard is i32, expected bool: tid"),
        ("load %0, %1, %2: f32 = x[0]", "vector of 3 f32, 12 bytes"),
        ("store y[0] = tid", "stored value is i32, expected f32: tid"),
        ("store x[0] = f32(1.0)", "store to read-only parameter 0"),
        ("set acc[2] = f32(0.0)", "slot 2 of fragment `acc` with 2 slots"),
        ("let %0: i32 = dim(M)", "no dim `M` among the parameters"),
        ("store shared s[64] = f32(0.0)", "offset 64 of 64 shared elements"),
        ("shuffle %0: f32 = f32(0.0) xor 32", "shuffle by 32, expected 1..32"),
        ("let %0: f32 = f32(0.0) copy shared s[0] <- x[0] x 8", "vector of 8 f32, 32 bytes"),
    ] {
        assert_eq!(verdict(body), expected, "{body}");
    }
    let big = kernel("").replace("f32[64]", "f32[50000]");
    let error = verify(&parse(&big).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "invalid kernel `k`: 200000 bytes of shared memory, the target has 166912");
}

/// A dependent launch waits once, before anything touches global memory.
#[test]
fn dependent_launches_wait_before_global_memory() {
    let dependent = |target: &str, body: &str| {
        let text = kernel(body).replace("sm_80 threads 64", &format!("{target} threads 64 dependent"));
        let parsed = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        verify(&parsed).map_or_else(|e| e.what, |()| parsed.to_string())
    };
    let body = "  store shared s[tid] = f32(0.0)
  barrier
  dependency
  load %0: f32 = x[tid]
  store y[tid] = %0";
    let expected = kernel(body).replace("sm_80 threads 64", "sm_90 threads 64 dependent");
    assert_eq!(dependent("sm_90", body), expected);
    assert_eq!(dependent("sm_80", body), "a dependent launch for sm_80");
    let early = "global memory is accessed before earlier grids have ended";
    for (body, what) in [
        ("load %0: f32 = x[tid] dependency", early),
        ("if (tid < 3) { store y[tid] = f32(0.0) } dependency", early),
        ("copy shared s[tid] <- x[tid] x 1 dependency", early),
        ("barrier", "a dependent launch that does not wait"),
        ("if (cta < 3) { dependency }", "a dependent launch that does not wait"),
        ("dependency if (tid < 3) { dependency }", "a dependency that the launch does not have"),
    ] {
        assert_eq!(dependent("sm_90", body), what, "{body}");
    }
    assert_eq!(verdict("dependency"), "a dependency that the launch does not have");
}

/// A map is for copies or for stores. What boxes are stored to holds nothing that anything else needs, or has stored.
#[test]
fn maps_go_one_way() {
    let verdict = |maps: &str, body: &str| {
        let params = format!("  param N: dim\n{maps}\n  shared full: i32[2] align 8");
        let text = kernel(body).replacen("  param N: dim", &params, 1).replace("sm_80", "sm_90");
        let parsed = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(parse(&parsed.to_string()).unwrap_or_else(|e| panic!("{e}\n{parsed}")), parsed);
        verify(&parsed).map_or_else(|e| e.what, |()| "valid".into())
    };
    let (read, stored) =
        ("  param x.map: map x [0: 32] swizzle 0", "  param y.map: stored map y [0: 32] swizzle 0");
    let both = format!("{read}\n{stored}");
    let copy = |map: &str| format!("  tensor shared s[0] <- {map}[0] completes shared full[0]");
    let store = |map: &str| format!("  send {map}[0] <- shared s[0]");
    assert_eq!(verdict(&both, &format!("{}\n{}", copy("x.map"), store("y.map"))), "valid");
    assert_eq!(verdict(&both, &store("x.map")), "`x.map` is a map for copies alone");
    assert_eq!(verdict(&both, &copy("y.map")), "`y.map` is a map for stores alone");
    let swapped = |text: &str| text.replace(" x ", " z ").replace(" y ", " x ").replace(" z ", " y ");
    assert_eq!(verdict(&swapped(read), ""), "`x.map` is no map of a tensor that is read");
    assert_eq!(verdict(&swapped(stored), ""), "`y.map` is no map of a tensor that is stored to");
    let beside = "an access beside the boxes of `y.map`, which cover the tensor";
    for access in [
        "load %0: f32 = y[0]",
        "store y[0] = f32(1.0)",
        "copy shared s[0] <- y[0] x 4",
        "combine y[0] sum f32(1.0)",
    ] {
        assert_eq!(verdict(stored, access), beside, "{access}");
    }
    assert_eq!(verdict(read, "load %0: f32 = x[0] store y[0] = %0"), "valid");
}

#[test]
fn interpreter_runs_threads_and_counts() {
    let (y, counts) = run("load %0: f32 = x[tid] if (tid < 60)
        store shared s[tid] = %0
        barrier
        load %1: f32 = shared s[(63 - tid)]
        shuffle %2: f32 = %1 xor 1
        set acc[0] = %2
        for %3: i32 in 0 to 3 step 1 { set acc[0] = fma($alpha, f32(2.0), acc[0]) }
        if (tid < 1) { store y[tid] = f32(9.0) } else { store y[tid] = acc[0] }")
    .unwrap();
    let expected = |t: usize| match 63 - (t ^ 1) {
        _ if t == 0 => 9.0,
        n if n < 60 => n as f32 + 3.0,
        _ => 3.0,
    };
    assert_eq!(y, (0..64).map(expected).collect::<Vec<_>>());
    let expected = Counts {
        barriers: 1,
        global_loads: 60,
        global_stores: 64,
        shared_loads: 64,
        shared_stores: 64,
        async_copies: 0,
        fma: 3 * 64,
    };
    assert_eq!(counts, expected);
}

#[test]
fn interpreter_finds_faults() {
    let copy = "copy shared s[tid] <- x[tid] x 1 commit";
    for (body, expected) in [
        ("load %0: f32 = x[(tid + 1)]".into(), "thread 63: offset 64 + 1 is outside `x` with 64 elements"),
        ("load %0: f32 = x[(tid - 1)] if (tid > 1)".into(), ""),
        ("load %0, %1: f32 = x[tid] if (tid < 2)".into(), "thread 1: a vector of 2 elements of `x` at 1 is not aligned"),
        ("load %0: f32 = shared s[tid]".into(), "thread 0: reads shared element 0 before it is written"),
        ("store y[tid] = acc[1]".into(), "thread 0: reads slot 1 of `acc` before it is written"),
        (
            "store shared s[tid] = f32(1.0) load %0: f32 = shared s[(63 - tid)]".into(),
            "thread 0: reads shared element 63 that thread 63 wrote since the last barrier",
        ),
        (
            "store shared s[0] = f32(1.0)".into(),
            "thread 1: writes shared element 0 that thread 0 wrote since the last barrier",
        ),
        (
            "store shared s[tid] = f32(1.0) barrier load %0: f32 = shared s[0] store shared s[tid] = f32(1.0)".into(),
            "thread 0: writes shared element 0 that others read since the last barrier",
        ),
        (format!("{copy} load %0: f32 = shared s[tid]"), "thread 0: reads shared element 0 while its copy is on its way"),
        (format!("{copy} wait 1 barrier load %0: f32 = shared s[tid]"), "thread 0: reads shared element 0 while its copy is on its way"),
        (format!("{copy} wait 0 load %0: f32 = shared s[tid]"), ""),
        (format!("{copy} wait 0 load %0: f32 = shared s[0]"), "thread 1: reads shared element 0 that thread 0 wrote since the last barrier"),
        ("let %0: i32 = (2147483647 + tid)".into(), "thread 1: 2147483647 + 1 overflows"),
        ("let %0: i32 = (tid / (tid - 1))".into(), "thread 1: 1 / 0 overflows"),
        ("let %0: i32 = wrapping(2147483647 + tid) let %1: i32 = wrapping(%0 / wrapping(tid - 1))".into(), ""),
        ("let %0: i64 = (2147483647l + cast i64 (tid))".into(), ""),
    ] {
        match run(&body) {
            Ok(_) => assert_eq!(expected, "", "{body}"),
            Err(e) => assert!(!expected.is_empty() && e.contains(expected), "{body}: {e}"),
        }
    }
}

/// What CTAs of a cluster store into one another's memory: text form, and each way to come too early or too late.
#[test]
fn peers_are_stored_into_between_meetings() {
    let text =
        |body: &str| kernel(body).replace("kernel k sm_80 threads 64", "kernel k sm_90 threads 64 cluster 4");
    let verdict =
        |body: &str| verify(&parse(&text(body)).unwrap()).map_or_else(|e| e.what, |()| "valid".into());
    let (store, send) =
        ("  store shared s[tid] = f32(1.0)\n", "  peer shared s[tid] of (cta % 4) = f32(1.0)\n");
    let (load, again) = ("  load %0: f32 = shared s[tid]\n", "  load %1: f32 = shared s[tid]\n");
    let (meet, arrive, wait) = ("  cluster_barrier\n", "  cluster arrive\n", "  cluster wait\n");
    let set = "  set acc[0] = f32(1.0)\n";
    let body = [arrive, set, wait, send, meet, load].concat();
    let parsed = parse(&text(body.trim_end())).unwrap();
    assert_eq!(parsed.to_string(), text(body.trim_end()));
    assert_eq!(verdict(&body), "valid");
    assert_eq!(verdict(&[store, load, meet, send, meet, again].concat()), "valid");
    assert_eq!(verdict(&[meet, send, send, meet, load, meet, send, meet].concat()), "valid");
    let early = "shared buffer `s` is stored into by other CTAs before this one may run";
    assert_eq!(verdict(&[send, meet].concat()), early);
    assert_eq!(verdict(&[arrive, send, wait, meet].concat()), early);
    // Bytes in use: by what stands before, where nothing but an arrival is between, or where their owner goes on using them.
    let used = "shared buffer `s` is stored into by other CTAs while its bytes may be in use";
    assert_eq!(verdict(&[store, arrive, wait, send, meet].concat()), used);
    assert_eq!(verdict(&[arrive, store, wait, send, meet].concat()), used);
    assert_eq!(verdict(&[meet, load, send, meet].concat()), used);
    assert_eq!(verdict(&[meet, send, meet, load, send, meet].concat()), used);
    let sent = "shared buffer `s` is accessed before what other CTAs store has arrived";
    assert_eq!(verdict(&[meet, send, load, meet].concat()), sent);
    assert_eq!(verdict(&[meet, send, store, meet].concat()), sent);
    assert_eq!(verdict(&[meet, send, arrive, wait, load].concat()), sent);
    let over = "shared buffer `s` may be gone before other CTAs have stored into it";
    assert_eq!(verdict(&[meet, send].concat()), over);
    assert_eq!(verdict(&[meet, send, arrive, wait].concat()), over);
    let steps = |body: &str| format!("  for %2: i32 in 0 to 4 step 1 {{\n{body}  }}\n");
    assert_eq!(verdict(&[meet, &steps(&[send, load].concat()), meet].concat()), sent);
    assert_eq!(verdict(&[meet, &steps(send), meet].concat()), "valid");
    let branch = format!("  if (cta == 0) {{\n{meet}  }}\n");
    assert_eq!(verdict(&branch), "a barrier of the cluster that some of its threads may not reach");
    assert_eq!(verdict(&steps(meet)), "a barrier of the cluster that some of its threads may not reach");
    // Copies on their way to its bytes arrive before the cluster meets, in all threads.
    let copy = "  copy shared s[tid] <- x[tid] x 1\n  commit\n";
    assert_eq!(verdict(&[copy, meet, send, meet].concat()), used);
    assert_eq!(verdict(&[copy, "  wait 0\n", meet, send, meet].concat()), "valid");
    assert_eq!(verdict(&[copy, meet, "  wait 0\n", send, meet].concat()), used);
    assert_eq!(verdict(&[copy, &steps("  wait 0\n"), meet, send, meet].concat()), used);
    let roles = |first: &[&str], second: &[&str]| {
        let (first, second) = (first.concat(), second.concat());
        format!(
            "  roles {{\n    threads 0 to 32 {{\n{first}    }}\n    threads 32 to 64 {{\n{second}    }}\n  }}\n"
        )
    };
    assert_eq!(verdict(&[arrive, &roles(&[wait, send, meet, load], &[wait, meet])].concat()), "valid");
    assert_eq!(verdict(&roles(&[store, meet, send, meet, load], &[meet, meet])), "valid");
    let apart = "a barrier of the cluster that some of its threads may not reach";
    assert_eq!(verdict(&roles(&[meet, send, meet], &[meet])), apart);
    assert_eq!(verdict(&roles(&[meet, send, meet], &[arrive, wait, meet])), apart);
    assert_eq!(verdict(&roles(&[meet, send, meet], &[meet, load, meet])), sent);
    assert_eq!(verdict(&roles(&[meet, load, meet], &[meet, send, meet])), used);
    assert_eq!(verdict(&roles(&[meet, send], &[meet])), over);
    assert_eq!(verdict(wait), "a wait for the cluster without an arrival");
    assert_eq!(verdict(&[arrive, arrive].concat()), "two arrivals at the cluster's barrier without a wait");
    assert_eq!(verdict(&[arrive, meet].concat()), "two arrivals at the cluster's barrier without a wait");
    assert_eq!(verdict(arrive), "an arrival at the cluster's barrier that nothing waits for");
    let alone = kernel(&[store, send].concat());
    assert_eq!(verify(&parse(&alone).unwrap()).unwrap_err().what, "a store to another CTA");
}

/// Buffers in the same bytes are as one: what is done to one is done to the others.
#[test]
fn peers_are_stored_into_bytes_that_are_free() {
    let verdict = |between: &str| {
        let body = format!(
            "  cluster_barrier
  live t
  store shared t[tid] = f32(1.0)
  {between}
  live s
  peer shared s[tid] of 1 = f32(1.0)
  cluster_barrier"
        );
        let text = kernel(&body).replace("sm_80 threads 64", "sm_90 threads 64 cluster 2");
        let shared = "  shared s: f32[64] align 16\n";
        let mut kernel =
            parse(&text.replace(shared, &format!("{shared}  shared t: f32[64] align 16\n"))).unwrap();
        kernel.shared.iter_mut().for_each(|s| s.start = 0);
        verify(&kernel).map_or_else(|e| e.what, |()| "valid".into())
    };
    assert_eq!(verdict("cluster_barrier"), "valid");
    // Of this CTA all threads have left them, of the others not.
    let used = "shared buffer `s` is stored into by other CTAs while its bytes may be in use";
    assert_eq!(verdict("barrier"), used);
}

/// CTAs count themselves with all threads, or with those of their first role.
#[test]
fn a_role_arrives_with_its_own_threads() {
    let text = |body: &str| {
        kernel(body).replace("  param N: dim", "  param p: zeroed scratch i32[1]\n  param N: dim")
    };
    let verdict =
        |body: &str| verify(&parse(&text(body)).unwrap()).map_or_else(|e| e.what, |()| "valid".into());
    let count = |by: &str| format!("  last %0: bool = arrive p[0] of 2{by}");
    let roles = |first: &str, second: &str| {
        format!(
            "  roles {{\n    threads 0 to 32 {{\n    {first}\n    }}\n    threads 32 to 64 {{\n    {second}\n    }}\n  }}"
        )
    };
    let own = " by barrier 1 of 32";
    let body = roles(&count(own), "");
    let parsed = parse(&text(&body)).unwrap();
    assert_eq!(parse(&parsed.to_string()).unwrap(), parsed);
    assert_eq!(verdict(&body), "valid");
    assert_eq!(verdict(&count("")), "valid");
    let others = "an arrival of others than the CTA's threads, or its first role's";
    assert_eq!(verdict(&count(own)), others);
    assert_eq!(verdict(&roles(&count(""), "")), others);
    assert_eq!(verdict(&roles(&count(" by barrier 1 of 64"), "")), others);
    assert_eq!(verdict(&roles("", &count(own))), others);
    assert_eq!(verdict(&roles(&count(" by barrier 16 of 32"), "")), "barrier 16, expected 1..16");
    assert_eq!(verdict(&roles("  barrier", "")), "a barrier that some threads may not reach");
}
