//! What a buffer in shared memory holds.

use crate::nest::{CopyId, Nest, ValueId};

/// What a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Content {
    /// What a stage copied.
    Copy(CopyId),
    /// The elements of a value.
    Value(ValueId),
    /// Partial results of a value, to be combined.
    Partial(ValueId),
    /// What the other CTAs of a cluster have of a value, as far as this one adds it up.
    Parts(ValueId),
    /// The mbarriers of the channel whose first copy it is.
    Full(CopyId),
    /// Those by which its stages are given back.
    Empty(CopyId),
    /// What a group of the threads that compute stores of a tensor.
    Output(crate::tile::TensorId, u32),
    /// The mbarriers by which groups pass the turn on.
    Turn,
    /// The numbers of tiles that a producer has taken of a counter.
    Numbers,
    /// The mbarriers that say that one is there.
    NumberFull,
    /// Those by which its place is given back.
    NumberEmpty,
    /// The mbarrier at which a producer learns that it is known which tiles are computed again.
    Verdict,
    /// Which they are: a word for all, and one for each.
    Again,
    /// The ticket of this CTA.
    Ticket,
    /// What is known of a value before a step.
    Before(ValueId),
}

impl Content {
    /// The name of its buffer.
    pub fn word(self, nest: &Nest) -> String {
        match self {
            Content::Copy(copy) => nest.copy_word(copy),
            Content::Value(value) => nest.value(value).name.clone(),
            Content::Partial(value) => format!("{}.partial", nest.value(value).name),
            Content::Parts(value) => format!("{}.parts", nest.value(value).name),
            Content::Output(tensor, _) => format!("{}.tile", nest.tensor(tensor).name),
            Content::Turn => "turn".into(),
            Content::Numbers => "number".into(),
            Content::NumberFull => "number.full".into(),
            Content::NumberEmpty => "number.empty".into(),
            Content::Verdict => "verdict".into(),
            Content::Again => "again".into(),
            Content::Ticket => "ticket".into(),
            Content::Before(value) => format!("{}.before", nest.value(value).name),
            Content::Full(copy) => format!("{}.full", nest.copy_word(copy)),
            Content::Empty(copy) => format!("{}.empty", nest.copy_word(copy)),
        }
    }

    /// In words.
    pub fn text(self, nest: &Nest) -> String {
        let value = |value: ValueId| &nest.value(value).name;
        match self {
            Content::Copy(copy) => format!("the copy of `{}`", nest.copy_name(copy)),
            Content::Value(v) => format!("`{}`", value(v)),
            Content::Partial(v) => format!("the parts of `{}` that threads hold", value(v)),
            Content::Parts(v) => format!("the parts of `{}` that other CTAs hold", value(v)),
            Content::Full(copy) => format!("mbarriers of full stages of `{}`", nest.copy_name(copy)),
            Content::Empty(copy) => format!("mbarriers of free stages of `{}`", nest.copy_name(copy)),
            Content::Output(tensor, group) => {
                format!("the tile of `{}` that group {group} stores", nest.tensor(tensor).name)
            }
            Content::Turn => "the turns of groups".into(),
            Content::Numbers => "the numbers of the next tiles".into(),
            Content::NumberFull => "mbarriers of the numbers of the next tiles".into(),
            Content::NumberEmpty => "mbarriers of free places for numbers of tiles".into(),
            Content::Verdict => "the mbarrier of what is computed again".into(),
            Content::Again => "which tiles are computed again".into(),
            Content::Ticket => "the ticket of a CTA".into(),
            Content::Before(v) => format!("what is known of `{}` before a step", value(v)),
        }
    }
}
