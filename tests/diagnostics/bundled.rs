//! A schedule that the build script did not compile does not build: what a bundle writes, and `rustc` on it.

use super::rustc;
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
    let data = root.join("tests/data/bundled");
    std::fs::copy(data.join("absent.rs"), folder.join("absent.rs")).unwrap();
    let drawn = rustc::drawn(&folder.join("absent.rs"), &rustc::libraries());
    let place = folder.strip_prefix(root).unwrap_or(&folder).display().to_string();
    let recorded = std::fs::read_to_string(data.join("absent.stderr")).unwrap();
    assert_eq!(drawn.replace(&place, "$FOLDER"), recorded);
}
