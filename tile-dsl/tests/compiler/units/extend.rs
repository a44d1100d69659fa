//! A schedule from its parent's directives and its own.

use tile_dsl::{
    directive::{self, DirectiveKind},
    schedule::{Directive, Item, Key, Unit, UnitDim, extend, extend_without_mistakes},
    span::SpanId,
};
fn directive(kind: DirectiveKind) -> Directive {
    Directive { kind, span: SpanId::NONE, inherited: None }
}
fn tile(axis: &str, size: u32) -> Directive {
    directive(DirectiveKind::Tile(directive::Tile { axis: axis.into(), size }))
}
fn bind(digit: &str, dim: UnitDim) -> Directive {
    directive(DirectiveKind::Bind(directive::Bind {
        digit: digit.into(),
        unit: Unit::Thread,
        dim,
        xor: None,
    }))
}
fn drop_of(directive: &str, subject: &str) -> Item {
    Item::Drop { key: Key::new(directive, Some(subject), None), span: SpanId(7) }
}

#[test]
fn a_child_replaces_in_place_and_adds_at_the_end() {
    let parent = [tile("i", 32), bind("i", UnitDim::X)];
    let own = [tile("k", 8), bind("i.t", UnitDim::Y), tile("i", 64)].map(Item::Directive);
    let all = extend(&parent, &own).unwrap();
    assert_eq!(all, [tile("i", 64), bind("i.t", UnitDim::Y), tile("k", 8)]);
}

#[test]
fn drop_removes_the_parents_and_only_that() {
    let parent = [tile("i", 32), bind("i", UnitDim::X)];
    let own = [Item::Directive(bind("it", UnitDim::X)), drop_of("bind", "i")];
    assert_eq!(extend(&parent, &own).unwrap(), [tile("i", 32), bind("it", UnitDim::X)]);
}

#[test]
fn dropping_what_is_not_there_lists_what_is() {
    let parent = [tile("i", 32), bind("i", UnitDim::X), bind("j", UnitDim::Y)];
    let (_, errors) = extend_without_mistakes(&parent, &[drop_of("bind", "k")]);
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].message, "there is no `bind(k)` to drop");
    assert_eq!(errors[0].notes[0].text, "the parent has `bind(i)` and `bind(j)`");
    assert_eq!(errors[0].help.as_deref(), Some("remove `drop(bind(k))`"));
}

#[test]
fn a_key_given_twice_is_an_error_and_both_mistakes_show() {
    let own = [Item::Directive(tile("i", 8)), Item::Directive(tile("i", 16)), drop_of("tile", "j")];
    let (kept, errors) = extend_without_mistakes(&[], &own);
    assert_eq!(kept, [tile("i", 8)]);
    assert_eq!(errors.len(), 2);
    assert!(errors[1].message.contains("`tile(i)` is given twice"));
}
