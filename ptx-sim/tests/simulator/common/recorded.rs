//! Recordings of an H200 (`tests/data/h200`): arrays, and files of `scripts/record-h200.py`.
#![allow(dead_code)]

use ptx_sim::{AsyncMode, Im2col, Launch, Memory, Module, Report, Swizzle, TensorElement, TensorMap, launch};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;

/// The 32-bit words of `set.name`.
pub fn words(name: &str) -> Vec<u32> {
    bytes(name).chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect()
}

/// The bytes of `set.name`.
pub fn bytes(name: &str) -> Vec<u8> {
    unzip(&format!("{name}.bin.gz"))
}

fn unzip(file: &str) -> Vec<u8> {
    let path = format!("{}/tests/data/h200/{file}", env!("CARGO_MANIFEST_DIR"));
    let mut out = vec![];
    flate2::read::GzDecoder::new(std::fs::File::open(&path).expect(&path)).read_to_end(&mut out).unwrap();
    out
}

/// A file that `scripts/record-h200.py` wrote; the format is in `scripts/h200_recording/recording.py`.
pub struct Recording {
    kernels: BTreeMap<String, Module>,
    buffers: BTreeMap<String, Vec<u8>>,
    /// The launches.
    pub rows: Vec<Value>,
}

fn unhex(v: &Value) -> Vec<u8> {
    let text = v.as_str().unwrap().as_bytes();
    text.chunks_exact(2).map(|p| u8::from_str_radix(std::str::from_utf8(p).unwrap(), 16).unwrap()).collect()
}

fn list<T>(v: &Value, f: impl Fn(&Value) -> T) -> Vec<T> {
    v.as_array().unwrap().iter().map(f).collect()
}

fn number(v: &Value) -> u32 {
    v.as_u64().unwrap() as u32
}

fn int(v: &Value) -> i32 {
    v.as_i64().unwrap() as i32
}

fn tensor_map(m: &Value, at: u64) -> TensorMap {
    let wide = |v: &Value| v.as_u64().unwrap();
    TensorMap {
        address: at,
        element: TensorElement::of_driver(number(&m["element"])).unwrap(),
        dims: list(&m["dims"], wide),
        strides: list(&m["strides"], wide),
        tile: m.get("tile").map_or(vec![], |t| list(t, number)),
        steps: list(&m["steps"], number),
        swizzle: [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128][number(&m["swizzle"]) as usize],
        nan_fill: m["nan_fill"].as_bool().unwrap(),
        im2col: m.get("im2col").map(|b| Im2col {
            lower: list(&b["lower"], int),
            upper: list(&b["upper"], int),
            channels: number(&b["channels"]),
            pixels: number(&b["pixels"]),
        }),
    }
}

impl Recording {
    /// The recording of that name.
    pub fn load(set: &str) -> Recording {
        let whole: Value = serde_json::from_slice(&unzip(&format!("{set}.json.gz"))).unwrap();
        let kernel = |(name, text): (&String, &Value)| {
            let module =
                Module::parse(text.as_str().unwrap()).unwrap_or_else(|e| panic!("{set} {name}: {e}"));
            (name.clone(), module)
        };
        Recording {
            kernels: whole["kernels"].as_object().unwrap().iter().map(kernel).collect(),
            buffers: whole["buffers"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(n, v)| (n.clone(), unhex(v)))
                .collect(),
            rows: whole["rows"].as_array().unwrap().clone(),
        }
    }

    /// Runs a row; the report, and the output buffers by name.
    pub fn run(&self, row: &Value, change: impl FnOnce(&mut Launch)) -> (Report, BTreeMap<String, Vec<u8>>) {
        let mut mem = Memory::new();
        let mut at = BTreeMap::new();
        let args = row["args"].as_array().unwrap();
        let names = args.iter().filter_map(|a| a["pointer"].as_str().or(a["map"]["of"].as_str()));
        let outs = row["outs"].as_object().unwrap();
        for name in names {
            let data = match outs.get(name) {
                Some(size) => vec![0; number(size) as usize],
                None => self.buffers[name].clone(),
            };
            let address = *at.entry(name).or_insert_with(|| mem.alloc(name, data.len() as u64).unwrap());
            mem.write(address, &data).unwrap();
        }
        let param = |a: &Value| match (a["pointer"].as_str(), a.get("map"), a.get("u32")) {
            (Some(name), _, _) => at[name].to_le_bytes().to_vec(),
            (_, Some(m), _) => tensor_map(m, at[m["of"].as_str().unwrap()]).encode().unwrap().to_vec(),
            (_, _, Some(v)) => number(v).to_le_bytes().to_vec(),
            _ => a["u64"].as_u64().unwrap().to_le_bytes().to_vec(),
        };
        let mut l = Launch {
            kernel: "k".into(),
            grid: [number(&row["grid"]), 1, 1],
            block: [number(&row["block"]), 1, 1],
            params: args.iter().map(param).collect(),
            ..Launch::default()
        };
        change(&mut l);
        let report = launch(&self.kernels[row["kernel"].as_str().unwrap()], &mut mem, &l).unwrap();
        let read = |(name, size): (&String, &Value)| {
            let mut data = vec![0; number(size) as usize];
            mem.read(at[name.as_str()], &mut data).unwrap();
            (name.clone(), data)
        };
        (report, outs.iter().map(read).collect())
    }

    /// Runs rows with the copies early and late; panics unless all bits agree and nothing is found or, where the GPU
    /// stopped the kernel, something is found. Returns the number of rows.
    pub fn reproduce(&self, rows: impl Fn(&Value) -> bool) -> usize {
        let mut bad = vec![];
        let mut done = 0;
        for (i, row) in self.rows.iter().enumerate().filter(|r| rows(r.1)) {
            done += 1;
            for async_mode in [AsyncMode::Early, AsyncMode::Late] {
                let (report, got) = self.run(row, |l| l.async_mode = async_mode);
                let what = format!("row {i} {} {} {async_mode:?}", row["kernel"], row["case"]);
                let Some(result) = row["result"].as_object() else {
                    if report.is_clean() {
                        bad.push(format!("{what}: nothing is found, but the GPU said {}", row["error"]));
                    }
                    continue;
                };
                if let Some(f) = report.findings.first() {
                    bad.push(format!("{what}: {f}"));
                }
                for (name, want) in result {
                    let n = got[name].iter().zip(unhex(want)).filter(|(g, w)| *g != w).count();
                    if n != 0 {
                        bad.push(format!("{what}: {n} of {} bytes of `{name}` differ", got[name].len()));
                    }
                }
            }
        }
        assert!(bad.is_empty(), "{} of {done} rows differ:\n{}", bad.len(), bad.join("\n"));
        done
    }
}
