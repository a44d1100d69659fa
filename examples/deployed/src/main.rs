//! Runs kernels that its build script compiled: without LLVM, on a GPU or on the simulator.
//!
//! `deployed missing` asks for what is not in the bundle, and says so.

use deployed_kernels::{matmul, rows, sums, tiled};
use tilewright::{Error, Variant, prelude::*};

mod bundle {
    //! What the build script wrote: the kernels, and which schedules they are of.
    include!(concat!(env!("OUT_DIR"), "/bundle.rs"));
}

fn main() -> Result<(), Error> {
    bundle::provide()?;
    let device = Device::auto()?;
    let missing = std::env::args().nth(1).is_some_and(|argument| argument == "missing");

    let (m, n, k) = (64, 96, 80);
    let a = Buffer::from_slice(&device, &vec![1.0f32; m * k], &[m, k])?;
    let b = Buffer::from_slice(&device, &vec![2.0f32; k * n], &[k, n])?;
    let mut c = Buffer::poisoned(&device, &[m, n])?;
    // `bundled` is what makes a schedule that the build script forgot a mistake that does not build.
    let product = matmul(&a, &b, &mut c).schedule(bundle::bundled(tiled));
    let product = if missing { product.variant(Variant::General) } else { product };
    let report = match product.run() {
        Err(error @ Error::NotCompiled { .. }) => {
            println!("{error}");
            std::process::exit(3);
        }
        other => other?,
    };
    assert_eq!(c.to_vec()?, vec![2.0 * k as f32; m * n]);
    println!("matmul: right, {} on {}, {:?}", named(report.variant), report.device, report.source);

    let mut y = Buffer::poisoned(&device, &[m])?;
    let part = a.slice(&[0..m, 1..k])?;
    let report = sums(&part, &mut y).schedule(bundle::bundled(rows)).run()?;
    assert_eq!(y.to_vec()?, vec![(k - 1) as f32; m]);
    println!("sums: right, {} on {}, {:?}", named(report.variant), report.device, report.source);
    Ok(())
}

fn named(variant: Option<Variant>) -> String {
    variant.map_or_else(|| "nothing to do".into(), |v| v.to_string())
}
