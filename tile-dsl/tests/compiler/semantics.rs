//! What operators mean where they are easily left undefined: evaluator, nest interpreter and kernel interpreter, in
//! every variant, give the same bits.

mod floats;
mod grid;
mod integers;
mod stored;
use crate::support;

use std::collections::BTreeMap;
use tile_dsl::{
    dtype::DType,
    engine,
    kernel::interpret::{Launch, interpret as run_kernel},
    lower::{assumptions, lower},
    nest::{Arithmetic, interpret as run_nest},
    program::Variant,
    tile::{
        ElemType,
        evaluate::{Elements, Inputs, evaluate},
    },
};

/// One kernel on given elements; a tensor without any starts as zeros.
struct Case<'a> {
    kernel: &'a str,
    dtype: Option<DType>,
    dims: &'a [(&'a str, i64)],
    tensors: &'a [(&'a str, Vec<f64>)],
    scalars: &'a [(&'a str, f64)],
}

impl Case<'_> {
    /// What the evaluator computes; every schedule in every executor and variant agrees with it.
    fn agree(&self, schedules: &[&str]) -> BTreeMap<String, Vec<f64>> {
        let kernel = support::kernel(self.kernel);
        let fixed = kernel.instantiate(self.dtype);
        let dims: BTreeMap<String, i64> = self.dims.iter().map(|(n, x)| (n.to_string(), *x)).collect();
        let mut inputs = Inputs { dims: dims.clone(), ..Inputs::default() };
        inputs.scalars = self.scalars.iter().map(|(n, x)| (n.to_string(), *x)).collect();
        let mut launch = Launch { dims: dims.clone(), ..Launch::default() };
        launch.scalars = self.scalars.iter().map(|(n, x)| (n.to_string(), *x as f32)).collect();
        for tensor in &fixed.tensors {
            let ElemType::Fixed(dtype) = tensor.elem else { panic!("instantiated") };
            let given = self.tensors.iter().find(|(name, _)| *name == tensor.name);
            let len: i64 = tensor.dims.iter().map(|d| d.eval(&dims).unwrap()).product();
            let elements = given.map_or_else(|| vec![0.0; len as usize], |(_, x)| x.clone());
            let elements = Elements::from_f64(dtype, elements);
            launch.tensors.insert(tensor.name.clone(), elements.to_f64().iter().map(|x| *x as f32).collect());
            inputs.tensors.insert(tensor.name.clone(), elements);
        }
        let expected: BTreeMap<String, Vec<f64>> =
            evaluate(&fixed, &inputs).unwrap().into_iter().map(|(n, x)| (n, x.to_f64())).collect();
        for text in schedules {
            let program = engine::schedule(&kernel, &support::schedule(text), self.dtype)
                .unwrap_or_else(|e| panic!("{text}: {e:#?}"));
            let found = run_nest(&program.nest, &inputs, Arithmetic::Exact, 3).unwrap();
            for (name, wanted) in &expected {
                same(wanted, &found[name], &format!("nest, `{text}`, {:?}: {name}", self.dims));
            }
            let mut ran = 0;
            for variant in [Variant::Exact, Variant::Aligned, Variant::General] {
                let bases = vec![256; fixed.tensors.len()];
                if !assumptions(&program, variant).iter().all(|a| a.holds(&dims, &bases)) {
                    continue;
                }
                ran += 1;
                let lowered = lower(&program, variant).unwrap_or_else(|e| panic!("{text}: {e}"));
                let mut launch = launch.clone();
                run_kernel(&lowered, &mut launch).unwrap_or_else(|e| panic!("{text}: {e}"));
                for (name, wanted) in &expected {
                    let found: Vec<f64> = launch.tensors[name].iter().map(|x| f64::from(*x)).collect();
                    same(wanted, &found, &format!("{variant}, `{text}`, {:?}: {name}", self.dims));
                }
            }
            assert!(ran > 0, "`{text}` runs in no variant at {dims:?}");
        }
        expected
    }
}

fn same(wanted: &[f64], found: &[f64], what: &str) {
    let agree = |a: &f64, b: &f64| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    assert_eq!(wanted.len(), found.len(), "{what}");
    let differs = wanted.iter().zip(found).position(|(a, b)| !agree(a, b));
    assert_eq!(differs, None, "{what}: {wanted:?}, found {found:?}");
}

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
const ELEMENTWISE: [&str; 2] = [
    "tile(i = 8); bind(i -> thread.x)",
    "tile(i = 16); split(i -> it, iv: 4); bind(it -> thread.x); vectorize(iv)",
];
