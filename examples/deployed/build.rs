//! Compiles the kernels that the application runs, for the variants that it needs.

use std::{env, path::PathBuf};
use tilewright::{DType, Variant, bundle};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let bundle = bundle![deployed_kernels::tiled]
        .dtypes(&[DType::F32])
        .variants(&[Variant::Exact, Variant::Aligned])
        // Machine code where NVIDIA's assembler is at hand: the first launch need not wait for the driver's compiler.
        .machine_code(&["sm_80", "sm_90"])
        .and(bundle![deployed_kernels::rows].gaps(&["x"]));
    let written = bundle.write(&PathBuf::from(env::var("OUT_DIR")?))?;
    for warning in written.warnings {
        println!("cargo::warning={warning}");
    }
    Ok(())
}
