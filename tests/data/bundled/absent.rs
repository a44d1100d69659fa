//! An application that runs a schedule which its build script did not compile.

include!("bundle.rs");

use tilewright::prelude::*;

schedule! {
    left_out = fixture_kernels::simple { tile(i = 256); }
}

fn main() {
    provide().unwrap();
    let _ = bundled(fixture_kernels::simple);
    let _ = bundled(left_out);
}
