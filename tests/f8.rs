//! Products of 8-bit numbers.

#[path = "../examples/matmul/f8.rs"]
mod product;

use product::F8;
use tilewright::{DType, Variant, prelude::*};

#[test]
fn emit() {
    for schedule in F8 {
        let text = tilewright::ptx(*schedule, Some(DType::BF16), Variant::Exact).expect("it compiles").text;
        std::fs::write(format!("/tmp/{}.ptx", schedule.name()), text).unwrap();
    }
}
