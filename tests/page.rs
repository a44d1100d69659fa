//! Pages: that they are whole, that their data are those of the run, and that what they draw is what happened.

#[path = "../examples/matmul/kernel.rs"]
#[allow(dead_code)] // only some schedules
mod product;
#[path = "../examples/softmax/kernel.rs"]
#[allow(dead_code)]
mod softmax;
#[path = "../examples/vector_add/kernel.rs"]
#[allow(dead_code)]
mod vector_add;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tilewright::{
    AnySchedule, Buffer, DType, Device, Float, LaunchReport, PageError, SimOptions, page, pages,
    prelude::bf16,
    sim::{Counters, Finding, FindingKind, GlobalCount, RaceKind, SourceLoc},
};

const MOST_BYTES: usize = 1_500_000;

/// A simulator that records.
fn device() -> Device {
    Device::sim_with(SimOptions { trace: true, ..SimOptions::default() })
}

fn numbers<T: Float>(n: usize) -> Vec<T> {
    (0..n).map(|i| T::from_f64((i * 7 % 13) as f64 - 6.0)).collect()
}

fn multiply<T: Float>(device: &Device, schedule: &dyn AnySchedule, [m, n, k]: [usize; 3]) -> LaunchReport {
    let a = Buffer::from_slice(device, &numbers::<T>(m * k), &[m, k]).unwrap();
    let b = Buffer::from_slice(device, &numbers::<T>(k * n), &[k, n]).unwrap();
    let mut c = Buffer::<T>::poisoned(device, &[m, n]).unwrap();
    product::matmul(&a, &b, &mut c).schedule_dyn(schedule).run().unwrap()
}

fn rows(device: &Device, schedule: &dyn AnySchedule, [r, n]: [usize; 2]) -> LaunchReport {
    let x = Buffer::from_slice(device, &numbers::<f32>(r * n), &[r, n]).unwrap();
    let mut y = Buffer::<f32>::poisoned(device, &[r, n]).unwrap();
    softmax::softmax(&x, &mut y).schedule_dyn(schedule).run().unwrap()
}

fn sum(device: &Device, schedule: &dyn AnySchedule, n: usize) -> LaunchReport {
    let x = Buffer::from_slice(device, &numbers::<f32>(n), &[n]).unwrap();
    let mut y = Buffer::<f32>::poisoned(device, &[n]).unwrap();
    vector_add::vector_add(&x, &x, &mut y).schedule_dyn(schedule).run().unwrap()
}

/// The runs that are looked at.
fn runs() -> Vec<(&'static dyn AnySchedule, LaunchReport)> {
    let device = device();
    let (f32s, bf16s) = (multiply::<f32>, multiply::<bf16>);
    let mut all: Vec<(&'static dyn AnySchedule, LaunchReport)> = Vec::new();
    let mut add = |schedule: &'static dyn AnySchedule, report| all.push((schedule, report));
    add(&product::naive, f32s(&device, &product::naive, [64, 64, 32]));
    add(&product::warptile, f32s(&device, &product::warptile, [256, 128, 64]));
    add(&product::double_buffered, f32s(&device, &product::double_buffered, [128, 128, 64]));
    add(&product::mma, bf16s(&device, &product::mma, [128, 128, 128]));
    add(&product::producer_consumer, bf16s(&device, &product::producer_consumer, [256, 128, 512]));
    add(&product::wgmma_best, bf16s(&device, &product::wgmma_best, [256, 512, 128]));
    add(&softmax::short, rows(&device, &softmax::short, [8, 1000]));
    add(&softmax::long, rows(&device, &softmax::long, [2, 3000]));
    for schedule in vector_add::SCHEDULES {
        add(*schedule, sum(&device, *schedule, 5000));
    }
    all
}

/// The data in a page.
fn data(html: &str) -> Value {
    let (_, rest) =
        html.split_once("<script type=\"application/json\" id=\"data\">").expect("a page has data");
    let (text, _) = rest.split_once("</script>").expect("the data end");
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn counted(memory: &Value, shared: bool, of: &str) -> u64 {
    let own = list(&memory["accesses"]).iter().filter(|a| a["shared"] == shared);
    own.map(|a| a["counted"][of].as_u64().unwrap()).sum()
}

fn is_whole(html: &str) {
    assert!(html.len() < MOST_BYTES, "{} bytes", html.len());
    let own = html.replace("http://www.w3.org/2000/svg", "");
    for reference in ["http://", "https://", " src=", "<link", "@import", "url("] {
        assert!(!own.contains(reference), "{reference}");
    }
    // No mark of the frame is left, and scripts end where they should.
    assert!(!["{{title}}", "{{style}}", "{{data}}", "{{script}}"].iter().any(|mark| html.contains(mark)));
    assert_eq!(html.matches("</script>").count(), 2);
}

#[test]
fn pages_are_whole_and_count_what_the_simulator_counted() {
    for (schedule, report) in runs() {
        let name = schedule.name();
        let html = page(schedule, &report).unwrap_or_else(|e| panic!("{name}: {e}"));
        is_whole(&html);
        let data = data(&html);
        let counters: &Counters = report.counters.as_ref().unwrap();
        assert_eq!(data["schema"], 1);
        assert_eq!(
            (&data["head"]["schedule"], &data["head"]["kernel"]),
            (&name.into(), &(&*report.kernel).into())
        );
        assert_eq!(data["head"]["ctas"], report.ctas, "{name}");
        assert_eq!(data["head"]["threads"], report.threads, "{name}");
        // The kernel as it is, each directive, the defaults.
        assert_eq!(list(&data["steps"]).len(), list(&data["text"]["directives"]).len() + 2, "{name}");
        assert!(data["refusal"].is_null());

        let (memory, totals) = (&data["memory"], &data["memory"]["totals"]);
        let of = |f: fn(&GlobalCount) -> u64| {
            [counters.global_load, counters.global_store, counters.global_atomic].iter().map(f).sum::<u64>()
        };
        assert_eq!(counted(memory, false, "requests"), of(|c| c.requests), "{name}");
        assert_eq!(counted(memory, false, "units"), of(|c| c.sectors), "{name}");
        assert_eq!(counted(memory, false, "bytes"), of(|c| c.bytes), "{name}");
        assert_eq!(totals["sectors"], of(|c| c.sectors), "{name}");
        let inside = [counters.shared_load, counters.shared_store, counters.shared_atomic];
        let wavefronts: u64 = inside.iter().map(|c| c.wavefronts).sum();
        let conflicts: u64 = inside.iter().map(|c| c.bank_conflicts).sum();
        assert_eq!(counted(memory, true, "units"), wavefronts, "{name}");
        assert_eq!(counted(memory, true, "units") - counted(memory, true, "least"), conflicts, "{name}");
        assert_eq!(
            (&totals["wavefronts"], &totals["conflicts"]),
            (&wavefronts.into(), &conflicts.into()),
            "{name}"
        );

        // Each finding of the simulator stands in the page.
        for finding in &report.findings {
            let found = |f: &Value| f["text"] == finding.message && f["lines"][0] == finding.line;
            assert!(list(&data["findings"]).iter().any(found), "{name}: {finding}");
        }
    }
}

#[test]
fn addresses_of_global_memory_touch_the_sectors_that_were_counted() {
    let mut looked_at = 0;
    for (schedule, report) in runs() {
        let data = data(&page(schedule, &report).unwrap());
        for access in list(&data["memory"]["accesses"]).iter().filter(|a| a["shared"] == false) {
            let bytes = access["bytes"].as_u64().unwrap();
            for warp in list(&access["warps"]) {
                let lanes = list(&warp["lanes"]).iter().filter_map(Value::as_u64);
                let sectors: BTreeSet<u64> = lanes.flat_map(|at| at / 32..=(at + bytes - 1) / 32).collect();
                assert_eq!(warp["cost"], sectors.len(), "{}: {access}", schedule.name());
                looked_at += 1;
            }
            let cost = access["warps"][0]["cost"].as_u64();
            if let (Some(cost), false) = (cost, access["uneven"] == true) {
                let counted = &access["counted"];
                assert_eq!(counted["units"], cost * counted["requests"].as_u64().unwrap());
            }
        }
    }
    assert!(looked_at > 40, "{looked_at}");
}

/// The thread that holds an element of a value, by the digits and units of a page, as its script works it out.
fn holder(data: &Value, value: &Value, point: &BTreeMap<&str, u64>) -> u64 {
    let mut at: BTreeMap<&str, u64> = BTreeMap::new();
    for (axis, coordinate) in point {
        let mut own: Vec<&Value> = list(&value["digits"]).iter().filter(|d| d["axis"] == **axis).collect();
        own.sort_by_key(|d| std::cmp::Reverse(d["stride"].as_u64()));
        let mut rest = *coordinate;
        for digit in own {
            let (stride, steps) = (digit["stride"].as_u64().unwrap(), digit["steps"].as_u64().unwrap());
            let step = rest / stride % steps;
            rest -= step * stride;
            if let Some(unit) = digit["unit"].as_str() {
                at.insert(unit, step);
            }
        }
    }
    let stride = |unit: &str| {
        list(&data["units"]).iter().find(|u| u["name"] == unit).map_or(0, |u| u["stride"].as_u64().unwrap())
    };
    at.iter().map(|(unit, step)| step * stride(unit)).sum()
}

#[test]
fn who_holds_an_element_stores_it() {
    let device = device();
    let cases: [(&'static dyn AnySchedule, LaunchReport, u64); 3] = [
        (&product::naive, multiply::<f32>(&device, &product::naive, [64, 64, 32]), 4),
        (&product::warptile, multiply::<f32>(&device, &product::warptile, [256, 256, 64]), 4),
        (&product::tma_wgmma, multiply::<bf16>(&device, &product::tma_wgmma, [128, 128, 64]), 2),
    ];
    for (schedule, report, size) in cases {
        let data = data(&page(schedule, &report).unwrap());
        let value = list(&data["values"]).iter().find(|v| v["name"] == "acc").expect("the sums");
        let columns = report.dims["N"] as u64;
        let mut looked_at = 0;
        for access in list(&data["memory"]["accesses"])
            .iter()
            .filter(|a| a["access"] == "store" && a["shared"] == false)
        {
            for warp in list(&access["warps"]) {
                for (lane, byte) in (0..).zip(list(&warp["lanes"])) {
                    let Some(byte) = byte.as_u64() else { continue };
                    // The first CTA has the first tile.
                    let (row, column) = (byte / size / columns, byte / size % columns);
                    let held = holder(&data, value, &[("i", row), ("j", column)].into());
                    assert_eq!(
                        held,
                        32 * warp["warp"].as_u64().unwrap() + lane,
                        "{}: ({row}, {column})",
                        schedule.name()
                    );
                    looked_at += 1;
                }
            }
        }
        assert!(looked_at >= 128, "{}: {looked_at}", schedule.name());
    }
}

#[test]
fn stages_of_a_ring_are_filled_read_and_freed_in_turn() {
    let device = device();
    let report = multiply::<bf16>(&device, &product::producer_consumer, [128, 128, 1024]);
    let data = data(&page(&product::producer_consumer, &report).unwrap());
    let stages = list(&data["events"]["run"]["stages"]);
    assert_eq!(stages.len(), 5, "{stages:?}");
    let mut fills = 0;
    for stage in stages {
        let changes = list(&stage["changes"]);
        let positions: Vec<u64> = changes.iter().map(|c| c[0].as_u64().unwrap()).collect();
        assert!(positions.is_sorted(), "{stage}");
        for (state, expected) in changes.iter().map(|c| &c[1]).zip(["filling", "full", "free"].iter().cycle())
        {
            assert_eq!(state, expected, "{stage}");
        }
        fills += changes.iter().filter(|c| c[1] == "filling").count();
    }
    // 1024 along k in steps of 64.
    assert_eq!(fills, 16);
}

#[test]
fn what_the_simulator_finds_comes_first_with_its_places() {
    let mut report = multiply::<f32>(&device(), &product::warptile, [128, 128, 64]);
    assert!(report.findings.is_empty());
    let site = report.counters.as_ref().unwrap().sites.iter().find(|s| s.shared.is_some()).unwrap();
    let (line, instruction) = (site.line, site.instruction.clone());
    // No legal schedule has one: made by hand.
    report.findings.push(Finding {
        kind: FindingKind::SharedRace(RaceKind::WriteWrite),
        message: "lane 3 writes byte 12 of shared memory, unordered with </script> the write by warp 1"
            .into(),
        line,
        column: 5,
        source: Some(SourceLoc { file: "kernel.rs".into(), line: 7, column: 2 }),
        inlined: Vec::new(),
        instruction,
        cta: [0; 3],
        warp: 0,
        lane: 3,
        count: 2,
    });
    let html = page(&product::warptile, &report).unwrap();
    is_whole(&html);
    let data = data(&html);
    let first = &data["findings"][0];
    assert_eq!((&first["level"], &first["source"]), (&"wrong".into(), &"kernel.rs:7:2".into()));
    assert_eq!((&first["text"], &first["lines"][0]), (&(&*report.findings[0].message).into(), &line.into()));
    let access = &data["memory"]["accesses"][first["access"].as_u64().unwrap() as usize];
    assert!(list(&access["lines"]).contains(&line.into()), "{access}");
    assert!(
        list(&data["findings"])
            .iter()
            .all(|f| f["text"] != "No race, no access out of bounds, no barrier missed")
    );
}

#[test]
fn buffers_that_share_bytes_are_told_apart() {
    let device = device();
    let report = multiply::<f32>(&device, &product::best, [128, 256, 64]);
    let data = data(&page(&product::best, &report).unwrap());
    let buffers = list(&data["budgets"]["shared"]);
    let range =
        |b: &Value| b["start"].as_u64().unwrap()..b["start"].as_u64().unwrap() + b["bytes"].as_u64().unwrap();
    let overlap = buffers.iter().enumerate().any(|(n, b)| {
        buffers[..n]
            .iter()
            .any(|other| range(b).start < range(other).end && range(other).start < range(b).end)
    });
    assert!(overlap, "no buffers share bytes here: {buffers:?}");
    let shared = list(&data["memory"]["accesses"]).iter().filter(|a| a["shared"] == true);
    let found: BTreeSet<(&str, &str, bool)> = shared
        .map(|a| {
            let copied = a["instruction"].as_str().unwrap().starts_with("cp.async");
            (a["buffer"].as_str().unwrap(), a["access"].as_str().unwrap(), copied)
        })
        .collect();
    // A passes through registers, B is copied, C is collected where both were.
    let expected = [
        ("a", "load", false),
        ("a", "store", false),
        ("acc", "load", false),
        ("acc", "store", false),
        ("b", "load", false),
        ("b", "store", true),
    ];
    assert_eq!(found, expected.into());
}

#[test]
fn a_refused_schedule_shows_how_far_it_came() {
    let refused = |text: &str| match pages::extended(&product::shared, Some(DType::F32), text).unwrap() {
        pages::Outcome::Refused { message, page } => (message, page),
        pages::Outcome::Legal(_) => panic!("`{text}` is legal"),
    };
    // What only the complete schedule shows.
    let (message, html) = refused("tile(k = 1024)");
    is_whole(&html);
    let data_of = data(&html);
    assert!(message.starts_with("262144 bytes of shared memory"), "{message}");
    assert_eq!(data_of["refusal"]["mistakes"][0]["message"], message);
    assert_eq!(data_of["refusal"]["mistakes"][0]["help"], "replace `tile(k = 1024)` by `tile(k = 512)`");
    assert_eq!(data_of["refusal"]["complete"], true);
    assert!(data_of["memory"].is_null() && data_of["events"].is_null() && data_of["budgets"].is_null());

    // A directive that does not apply: the derivation ends before it.
    let (_, html) = refused("bind(k -> thread.z)");
    let data_of = data(&html);
    assert_eq!(data_of["refusal"]["directive"], "bind(k -> thread.z)");
    assert_eq!(data_of["refusal"]["complete"], false);
    let at = data_of["refusal"]["at"].as_u64().unwrap();
    assert_eq!(list(&data_of["steps"]).len() as u64, at + 1);
    let marked = list(&data_of["text"]["directives"]).iter().filter(|d| d["refused"] == true);
    assert_eq!(marked.map(|d| d["text"].clone()).collect::<Vec<_>>(), ["bind(k -> thread.z)"]);

    // What is not there to drop.
    let (message, _) = refused("drop(pipeline(k))");
    assert!(message.contains("there is no `pipeline(k)` to drop"), "{message}");
    assert!(matches!(pages::extended(&product::shared, Some(DType::F32), "tile(k"), Err(PageError::Text(_))));
}

#[test]
fn kernels_and_schedules_from_text_are_refused_with_a_page() {
    use tile_dsl::{nest, schedule, tile};
    let program = product::naive.program(Some(DType::F32)).unwrap();
    let program = tile_dsl::program::Program::from_bytes(program).unwrap();
    let kernel: tile::Kernel = program.nest.kernel.clone();
    assert!(nest::initial(&kernel).is_ok());
    let items = schedule::parse("tile(i = 32, j = 32); bind(i -> thread.x, j -> thread.x)").unwrap();
    let directives = schedule::extend(&[], &items).unwrap();
    let wrong = schedule::Schedule { directives, ..program.schedule.clone() };
    let html = pages::refused(&kernel, &wrong, None).unwrap();
    is_whole(&html);
    assert_eq!(data(&html)["refusal"]["directive"], "bind(j -> thread.x)");
    assert!(matches!(pages::refused(&kernel, &program.schedule, None), Err(PageError::Legal)));
}

#[test]
fn a_legal_extension_runs_and_has_a_page() {
    let extended = match pages::extended(&product::shared, Some(DType::F32), "tile(k = 32);").unwrap() {
        pages::Outcome::Legal(extended) => extended,
        pages::Outcome::Refused { message, .. } => panic!("{message}"),
    };
    assert_eq!(extended.name(), "shared + tile(k = 32)");
    let report = multiply::<f32>(&device(), &extended, [64, 64, 64]);
    let data = data(&page(&extended, &report).unwrap());
    let tile = list(&data["text"]["directives"]).iter().find(|d| d["text"] == "tile(k = 32)").unwrap();
    assert!(tile["from"].is_null());
    let inherited = list(&data["text"]["directives"]).iter().find(|d| d["text"] == "tile(i = 32)").unwrap();
    assert_eq!(inherited["from"], "naive");
}

#[test]
fn without_a_recorded_run_there_is_no_page() {
    let report = multiply::<f32>(&Device::sim(), &product::naive, [32, 32, 32]);
    assert!(report.trace.is_none());
    assert!(matches!(page(&product::naive, &report), Err(PageError::Untraced(_))));
    let report = multiply::<f32>(&device(), &product::naive, [0, 32, 32]);
    assert!(matches!(page(&product::naive, &report), Err(PageError::Untraced(_))));
    let report = multiply::<f32>(&device(), &product::naive, [32, 32, 32]);
    assert!(matches!(page(&product::shared, &report), Err(PageError::Schedule { .. })));
}
