//! Elements of a tensor that threads hold.

use tile_dsl::{
    index::AxisId,
    machine::{Space, Unit, UnitDim, Via},
    nest::{Copy, CopyId, Digit, LoopKind, Steps, Stmt, initial, leaves},
    span::SpanId,
    testing,
    tile::{self, TensorId},
};
const CONV1D: &str = "\
kernel conv1d(x: &[f32; N + R - 1], w: &[f32; R], y: &mut [f32; N]) {
axis i in program_tile(N);
axis r in whole(R);
store(y, [i], sum(load(x, [i + r]) * load(w, [r]), r));
}";

fn around(axis: u16, (stride, steps): (u32, u32), at: LoopKind, body: Stmt) -> Stmt {
    let digit = Digit { axis: AxisId(axis), stride, steps: Steps::Fixed(steps) };
    Stmt::For { digit, at, body: Box::new(body) }
}

#[test]
fn each_element_of_a_window_is_held_once() {
    let kernel = tile::parse(CONV1D).expect("a kernel");
    let nest = initial(&kernel).expect("a nest");
    let mut sum = None;
    leaves(&nest.body, &mut |_, leaf| {
        if let Stmt::Red { .. } = leaf {
            sum = Some(leaf.clone());
        }
    });
    let body = |at| around(1, (1, 3), at, sum.clone().expect("a sum"));
    let own = around(0, (1, 8), LoopKind::Unroll, body(LoopKind::Unroll));
    let thread = around(0, (8, 32), LoopKind::Unit(Unit::Thread, UnitDim::X), own);
    let held = |tensor, body| {
        let mut nest = nest.clone();
        nest.copies.push(Copy {
            tensor: TensorId(tensor),
            follows: None,
            space: Space::Register,
            transposed: false,
            via: Via::Plain,
            vector: None,
            pad: 0,
            swizzle: 0,
            span: SpanId::NONE,
        });
        testing::held(&nest, CopyId(0), body)
    };
    assert_eq!(held(0, &thread), Ok(10));
    assert_eq!(held(1, &thread), Ok(3));
    let Err(digit) = held(0, &body(LoopKind::Seq)) else { panic!("a loop at run time indexes registers") };
    assert_eq!(digit.axis, AxisId(1));
}
