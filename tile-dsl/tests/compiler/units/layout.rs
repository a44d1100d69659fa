//! Where the elements of a value lie.

use tile_dsl::{
    index::AxisId,
    machine::{Unit, UnitDim},
    nest::{Digit, Layout, Steps, Where},
    testing,
};
fn digit(stride: u32, steps: u32) -> Digit {
    Digit { axis: AxisId(0), stride, steps: Steps::Fixed(steps) }
}

fn layout(digits: &[(Digit, Where)]) -> Layout {
    testing::layout(digits)
}

#[test]
fn slots_are_told_apart_by_their_points_alone() {
    let lane = Where::Unit(Unit::Lane, UnitDim::X);
    let whole = layout(&[(digit(1, 8), Where::Slot)]);
    let cut = layout(&[(digit(4, 2), Where::Slot), (digit(1, 4), Where::Slot)]);
    let turned = layout(&[(digit(1, 4), Where::Slot), (digit(4, 2), Where::Slot)]);
    assert!(whole.agrees(&cut) && cut.agrees(&turned));
    assert_eq!((whole.slots(), cut.slots()), (8, 8));
    let apart = layout(&[(digit(4, 2), Where::Slot), (digit(1, 4), lane)]);
    assert!(!apart.agrees(&cut));
    assert_eq!(apart.slots(), 2);
    assert_eq!(apart.difference(&cut), Some(digit(1, 4)));
    // Lanes between slots: the slots do not touch.
    let around = layout(&[(digit(8, 2), Where::Slot), (digit(2, 4), lane), (digit(1, 2), Where::Slot)]);
    let without = layout(&[(digit(2, 2), Where::Slot), (digit(2, 4), lane), (digit(1, 2), Where::Slot)]);
    assert!(!around.agrees(&without));
}

#[test]
fn slots_are_numbered_innermost_first() {
    let lane = Where::Unit(Unit::Lane, UnitDim::X);
    let turned = layout(&[(digit(1, 2), Where::Slot), (digit(2, 4), lane), (digit(8, 3), Where::Slot)]);
    let slot = |offset| turned.slot(AxisId(0), offset);
    assert_eq!([0, 8, 16, 1, 9, 17].map(slot), [0, 1, 2, 3, 4, 5].map(Some));
    // Other lanes hold these, or nobody does.
    assert_eq!([2, 10, 24, -1].map(slot), [None; 4]);
    assert_eq!((turned.slot(AxisId(1), 0), turned.slot(AxisId(1), 1)), (Some(0), None));
    assert_eq!(testing::spread(&turned, AxisId(0)), [(Unit::Lane, UnitDim::X, 2, Steps::Fixed(4))].into());
}

#[test]
fn lanes_are_not_merged() {
    let lane = |dim| Where::Unit(Unit::Lane, dim);
    let one = layout(&[(digit(4, 2), lane(UnitDim::X)), (digit(1, 4), lane(UnitDim::X))]);
    let other = layout(&[(digit(1, 8), lane(UnitDim::X))]);
    assert!(!one.agrees(&other));
}
