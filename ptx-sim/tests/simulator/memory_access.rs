//! Every recorded warp access of `memory_access.jsonl` (Nsight Compute on an H200), run through the simulator.

use ptx_sim::{Access, Launch, Memory, Module, launch};
use serde_json::Value;

fn kernel(op: &str, bits: u64) -> String {
    let n = bits / 32;
    let ty = ["", "b32", "v2.b32", "", "v4.b32"][n as usize];
    let regs: Vec<_> = (0..n).map(|i| format!("%x{i}")).collect();
    let data = if n == 1 { regs[0].clone() } else { format!("{{{}}}", regs.join(",")) };
    let body = match op {
        "lds" => format!("ld.shared.{ty} {data}, [%b];"),
        "sts" => format!("st.shared.{ty} [%b], {data};"),
        "ldg" => format!("ld.global.{ty} {data}, [%g];"),
        "ldmatrix" => format!("ldmatrix.sync.aligned.m8n8.x{n}.shared.b16 {{{}}}, [%b];", regs.join(",")),
        "stmatrix" => format!("stmatrix.sync.aligned.m8n8.x{n}.shared.b16 [%b], {{{}}};", regs.join(",")),
        _ => format!("st.global.{ty} [%g], {data};"),
    };
    format!(
        ".version 8.4\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 po, .param .u64 pg) {{
         .reg .b32 %t, %off, %b, %x<4>; .reg .b64 %o, %w, %g; .shared .align 1024 .b8 sm[32768];
         mov.u32 %t, %tid.x; ld.param.u64 %o, [po]; ld.param.u64 %g, [pg];
         mul.wide.u32 %w, %t, 4; add.s64 %o, %o, %w; ld.global.u32 %off, [%o];
         mov.u32 %b, sm; add.u32 %b, %b, %off; cvt.u64.u32 %w, %off; add.s64 %g, %g, %w;
         mov.b32 %x0, 0; mov.b32 %x1, 0; mov.b32 %x2, 0; mov.b32 %x3, 0;
         {body}
         ret; }}"
    )
}

#[test]
fn every_recorded_access_is_reproduced() {
    let text = include_str!("../data/h200/memory_access.jsonl");
    let (mut rows, mut ran) = (0, 0);
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        rows += 1;
        let op = row["op"].as_str().unwrap();
        let bits = row["bits"].as_u64().unwrap_or_else(|| row["x"].as_u64().unwrap_or(0) * 32);
        let module = match Module::parse(&kernel(op, bits)) {
            Ok(m) => m,
            Err(e) => panic!("{e}"),
        };
        let mut mem = Memory::new();
        let offsets: Vec<u8> = row["offsets"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|v| (v.as_u64().unwrap() as u32).to_le_bytes())
            .collect();
        let po = mem.alloc("offsets", 128).unwrap();
        mem.write(po, &offsets).unwrap();
        let pg = mem.alloc("data", 1 << 16).unwrap();
        let report = launch(
            &module,
            &mut mem,
            &Launch {
                kernel: "k".into(),
                params: vec![po.to_le_bytes().to_vec(), pg.to_le_bytes().to_vec()],
                race_check: false,
                uninit_check: false,
                ..Launch::default()
            },
        )
        .unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
        let c = &report.counters;
        let (got, want) = match op {
            "lds" | "ldmatrix" => (c.shared_load.wavefronts, &row["wavefronts"]),
            "sts" | "stmatrix" => (c.shared_store.wavefronts, &row["wavefronts"]),
            "ldg" => (c.buffer("data", Access::Load).sectors, &row["sectors"]),
            _ => (c.buffer("data", Access::Store).sectors, &row["sectors"]),
        };
        assert_eq!(got, want.as_u64().unwrap(), "{line}");
        ran += 1;
    }
    assert_eq!((rows, ran), (816, 816));
}
