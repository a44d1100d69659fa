//! The parameters of a launch.

use tile_dsl::{
    dtype::DType,
    kernel::{Param, Table},
};
#[test]
fn parameters_are_aligned_and_apart() {
    let map = Param::TensorMap {
        name: "m".into(),
        tensor: 0,
        dims: vec![],
        tile: vec![],
        swizzle: 0,
        stored: false,
    };
    let scalar = |dtype| Param::Scalar { name: "s".into(), dtype };
    let params = [
        Param::Dim("M".into()),
        Param::Tensor { name: "a".into(), dtype: DType::F32, mutable: false, align: 4, cache: None },
        scalar(DType::F16),
        scalar(DType::F32),
        map,
    ];
    let Table { offsets, row } = Table::of(&params);
    assert_eq!((&offsets[..], row), (&[0, 8, 16, 20, 128][..], 256));
    assert_eq!(Table::of(&[]).row, 128);
}
