//! Members of e-classes: whatever the rules of a directive unite computes the same.

use crate::support::*;
use std::collections::BTreeMap;
use tile_dsl::{
    dtype::DType,
    engine::{
        self,
        testing::{Random, members, random_schedule},
    },
    index::AxisId,
    lower::admit,
    nest::{self, Arithmetic, Nest},
    tile::evaluate::{Elements, Inputs},
    tile::{ElemType, Kernel},
};

/// A random kernel: two or three axes, values over some of them, reductions, affine loads with offsets.
fn random_kernel(random: &mut Random) -> Kernel {
    let extents: Vec<i64> = (0..3).map(|_| 1 + random.below(7) as i64).collect();
    let (i, r, s) = (extents[0], extents[1], extents[2]);
    let two = random.below(2) == 0;
    let mut body = String::new();
    let mut values: Vec<(String, bool, bool)> = Vec::new(); // name, has r, has s
    let load = |random: &mut Random| match random.below(5) {
        0 => "load(x, [i + r])".to_string(),
        1 => "load(x, [2*i + r + 1])".to_string(),
        2 => "load(w, [r])".to_string(),
        3 => "load(m, [i, r])".to_string(),
        _ if two => "load(z, [r + s])".to_string(),
        _ => "load(m, [i, r])".to_string(),
    };
    let with_r = |text: &str| text.contains('r');
    for n in 0..2 + random.below(3) {
        let (mut e, mut has_r, mut has_s) = {
            let l = load(random);
            (l.clone(), with_r(&l), l.contains("z,"))
        };
        if let (Some((name, vr, vs)), true) = (values.last().cloned(), random.below(3) > 0) {
            e = format!("{e} {} {name}", random.pick(&["+", "*", "-"]));
            (has_r, has_s) = (has_r || vr, has_s || vs);
        }
        if has_r && random.below(3) == 0 {
            e = format!("{}({e}, r)", random.pick(&["sum", "max"]));
            has_r = false;
        }
        if has_s && random.below(2) == 0 {
            e = format!("sum({e}, s)");
            has_s = false;
        }
        body += &format!("    let v{n} = {e};\n");
        values.push((format!("v{n}"), has_r, has_s));
    }
    let mut total = String::from("load(m, [i, 0]) * 0.0");
    for (name, has_r, has_s) in &values {
        let mut e = name.clone();
        for (has, axis) in [(has_r, "r"), (has_s, "s")] {
            if *has {
                e = format!("sum({e}, {axis})");
            }
        }
        total += &format!(" + {e}");
    }
    let s_axis = if two { format!("    axis s in whole({s});\n") } else { String::new() };
    let z = if two { format!("z: &[f32; {}], ", r + s) } else { String::new() };
    let text = format!(
        "kernel random(x: &[f32; {}], w: &[f32; {r}], m: &[f32; {i}, {r}], {z}y: &mut [f32; {i}]) {{\n\
         \x20   axis i in program_tile({i});\n    axis r in whole({r});\n{s_axis}{body}    store(y, [i], {total});\n}}",
        2 * i + r + 1
    );
    tile_dsl::tile::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn inputs(kernel: &Kernel, dims: BTreeMap<String, i64>, random: &mut Random) -> Inputs {
    let tensors = kernel.tensors.iter().filter(|t| !t.mutable).map(|t| {
        let len: i64 = t.dims.iter().map(|d| d.eval(&dims).unwrap()).product();
        let ElemType::Fixed(dtype) = t.elem else { panic!("instantiated") };
        (t.name.clone(), Elements::from_f64(dtype, (0..len).map(|_| random.below(1000) as f64)))
    });
    let tensors = tensors.collect();
    Inputs { dims, tensors, ..Inputs::default() }
}

/// Replays a schedule and samples the class of every step. Returns the number of members interpreted.
fn replay(generic: &Kernel, seed: u64, each: usize) -> usize {
    let schedule = random_schedule(generic, seed);
    let dtype = generic.generic.as_ref().map(|_| DType::F32);
    let kernel = generic.instantiate(dtype);
    let mut current = nest::initial(&kernel).unwrap();
    let mut random = Random::new(seed);
    let last = engine::schedule(generic, &schedule, dtype).unwrap().nest;
    let mut dims = BTreeMap::new();
    for (n, axis) in kernel.axes.iter().enumerate() {
        for dim in axis.extent.dims.keys() {
            let most = last.bounds.get(&AxisId(n as u16)).map_or(5, |b| (*b).min(5));
            dims.insert(dim.clone(), 1 + random.below(most as usize) as i64);
        }
    }
    admit(&last, &mut dims);
    let inputs = inputs(&kernel, dims, &mut random);
    let run = |n: &Nest| nest::interpret(n, &inputs, Arithmetic::Modular, seed);
    let expected = run(&current).unwrap();
    let mut sampled = 0;
    for directive in schedule.in_order() {
        let (next, _) = engine::apply(directive, &current).unwrap();
        for body in members(directive, &current, each, seed) {
            let member = Nest { body, ..next.clone() };
            assert_eq!(nest::verify(&member), Vec::<String>::new(), "{directive}\n{member}");
            assert_eq!(run(&member).as_ref(), Ok(&expected), "seed {seed}, {directive}\n{current}\n{member}");
            sampled += 1;
        }
        current = next;
    }
    sampled
}

#[test]
fn two_thousand_members_of_the_examples() {
    let mut sampled = 0;
    for seed in 0.. {
        for text in [MATMUL, LINEAR, SOFTMAX, CONV1D, CONV3] {
            sampled += replay(&kernel(text), seed, 20);
        }
        if sampled >= 2000 {
            break;
        }
    }
}

#[test]
fn members_of_random_kernels() {
    let mut sampled = 0;
    for seed in 0..20 {
        let kernel = random_kernel(&mut Random::new(seed));
        if tile_dsl::tile::verify(&kernel).is_empty() {
            sampled += replay(&kernel, seed, 10);
        }
    }
    assert!(sampled > 500, "only {sampled} members");
}

#[test]
fn printed_nests_are_read_back() {
    for name in ["shared", "warptile", "double_buffered"] {
        let kernel = kernel(MATMUL);
        let nest = engine::schedule(&kernel, &rung(&LADDER, name), Some(DType::F16)).unwrap().nest;
        let body = nest::parse(&nest.to_string(), &nest).unwrap();
        assert_eq!(nest.print(&body), nest.print(&nest.body));
    }
    for text in [SOFTMAX_SHORT, SOFTMAX_LONG] {
        let nest = engine::schedule(&kernel(SOFTMAX), &schedule(text), None).unwrap().nest;
        assert_eq!(nest::parse(&nest.to_string(), &nest).unwrap(), nest.body);
        assert_eq!(nest::parse_nest(&nest.to_string(), &nest).unwrap(), nest);
    }
}
