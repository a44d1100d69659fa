//! A schedule that the build script did not compile does not build: what a bundle writes, and `rustc` on it.

use std::path::Path;
use tilewright::{Variant, bundle};

/// `tests/data/bundled/absent.rs` beside a bundle, against `absent.stderr` there, in which `$FOLDER` is where both are
/// copied to.
#[test]
fn a_schedule_that_was_left_out_does_not_build() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bundled");
    std::fs::create_dir_all(&folder).unwrap();
    let made = bundle![fixture_kernels::simple].variants(&[Variant::General]).write(&folder).unwrap();
    assert_eq!((made.kernels, made.warnings.len()), (2, 0), "one for each element type");
    // Build scripts alone have an `OUT_DIR`.
    let glue = std::fs::read_to_string(folder.join("bundle.rs")).unwrap();
    let kernels = format!("{:?}", folder.join("kernels.bin"));
    std::fs::write(
        folder.join("bundle.rs"),
        glue.replace("concat!(env!(\"OUT_DIR\"), \"/kernels.bin\")", &kernels),
    )
    .unwrap();
    for file in ["absent.rs", "absent.stderr"] {
        let text = std::fs::read_to_string(root.join("tests/data/bundled").join(file)).unwrap();
        std::fs::write(folder.join(file), text.replace("$FOLDER", &folder.display().to_string())).unwrap();
    }
    trybuild::TestCases::new().compile_fail(folder.join("absent.rs"));
}
