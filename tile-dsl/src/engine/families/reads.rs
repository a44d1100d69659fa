//! Which reads a copy is for: all of a tensor in a loop, which one box follows, or those that follow an index.

use super::{Failure, stage::refuse};
use crate::{
    diagnostic::Edit,
    directive::DirectiveKind,
    engine::{language::Bits, names, rule::enforced},
    nest::{AccessId, Copy, CopyId, Digit, Frame, Nest, Stmt, leaves, moves_alike},
    schedule::Space,
    tile::TensorId,
};

/// The nest with one more copy.
pub(crate) fn with_copy(nest: &Nest, new: Copy) -> Result<(Nest, CopyId), Failure> {
    if nest.places_copies(new.tensor) {
        return Err(says_where(nest, new.tensor));
    }
    if nest.copies.len() == Bits::BITS as usize {
        return Err(refuse(format!("there are {} copies already, and that is the most", Bits::BITS)));
    }
    let mut nest = nest.clone();
    nest.copies.push(new);
    let copy = CopyId(nest.copies.len() as u16 - 1);
    Ok((nest, copy))
}

/// What says where a copy takes its elements is looked up, by whoever fills it.
fn says_where(nest: &Nest, tensor: TensorId) -> Failure {
    refuse(looked_up(nest, tensor)).edit(Edit::remove())
}

/// Why such a tensor is not copied.
pub(crate) fn looked_up(nest: &Nest, tensor: TensorId) -> String {
    let name = &nest.tensor(tensor).name;
    format!(
        "`{name}` says where a copy takes its elements: it is looked up where that copy is made, and is not copied itself"
    )
}

/// Nothing reads the tensor in the way that a copy is for: which ways there are. `named` is the directive of another copy.
pub(crate) fn not_read(
    nest: &Nest,
    name: &str,
    new: &Copy,
    named: impl Fn(String) -> DirectiveKind,
) -> Failure {
    if nest.places_copies(new.tensor) {
        return says_where(nest, new.tensor);
    }
    let mut gathered = None;
    leaves(&nest.body, &mut |_, leaf| {
        let read = leaf.leaf().expect("a leaf").1.accesses().into_iter().map(|a| nest.access(a));
        gathered = gathered.or(read.filter(|a| a.tensor == new.tensor).find(|a| !a.by.is_empty()));
    });
    if let (Some(gathered), true) = (gathered, nest.ways(new.tensor, |_| true).is_empty()) {
        let text = match new.space {
            Space::Shared => format!("`{name}` is read where values say, and not in the loop that is named"),
            Space::Register => {
                format!("values say where `{name}` is read: registers hold what is staged of it alone")
            }
        };
        return refuse(text).note(gathered.span, format!("`{name}` is read here")).edit(Edit::remove());
    }
    let failure = Failure::no_match(format!("the kernel does not read `{name}`"));
    let ways = nest.ways(new.tensor, |_| true);
    if new.follows.is_none() || ways.is_empty() {
        return failure;
    }
    let names: Vec<String> = ways.iter().map(|a| nest.read_name(nest.access(*a))).collect();
    failure
        .remark(format!("it reads {}, constants aside", names::list(&names)))
        .edits(names.into_iter().map(|name| Edit::instead([named(name)])))
}

/// What is read from a copy in shared memory is not copied there a second time.
pub(crate) fn staged_once(nest: &Nest, name: &str, new: &Copy, at: Digit) -> Result<(), Failure> {
    let mut found = None;
    leaves(&nest.body, &mut |path, leaf| {
        if !path.iter().any(|f| matches!(f, Frame::For(d, _) if *d == at)) {
            return;
        }
        let accesses = leaf.leaf().expect("a leaf").1.accesses();
        found = found.or(path.iter().find_map(|f| match f {
            Frame::Stage(c) if nest.copy(*c).space == Space::Shared => {
                both(nest, new, *c, &accesses).then_some(*c)
            }
            _ => None,
        }));
    });
    match found {
        Some(other) => {
            let staged = nest.copy_name(other);
            Err(refuse(format!("`{name}` is staged already, as `{staged}`: it would be copied twice"))
                .note(nest.copy(other).span, format!("`{staged}` is staged here"))
                .edit(Edit::remove()))
        }
        None => Ok(()),
    }
}

/// All accesses in loops over `at` that a copy is for move alike with every axis, so one box follows them all. `named` is the
/// directive of another copy.
pub(crate) fn one_box(
    nest: &Nest,
    new: &Copy,
    at: Digit,
    named: impl Fn(String) -> DirectiveKind,
) -> Result<(), Failure> {
    let mut found: Vec<AccessId> = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        if path.iter().any(|f| matches!(f, Frame::For(d, _) if *d == at)) {
            let accesses = leaf.leaf().expect("a leaf").1.accesses();
            found.extend(accesses.into_iter().filter(|a| new.serves(nest.access(*a))));
        }
    });
    let mut accesses = found.into_iter().map(|a| nest.access(a));
    let Some(first) = accesses.next() else { return Ok(()) };
    let apart = accesses.find(|a| !moves_alike(&a.index, &first.index));
    match apart {
        Some(other) if enforced("stage: one box") => Err(refuse(format!(
            "`{}` is read as `{}` and as `{}` inside `{}`: one copy cannot hold both",
            nest.tensor(new.tensor).name,
            nest.print_access(first),
            nest.print_access(other),
            nest.digit_name(at)
        ))
        .note(first.span, "first read here")
        .note(other.span, "and read differently here")
        .edit({
            let inside = |path: &[Frame]| path.iter().any(|f| matches!(f, Frame::For(d, _) if *d == at));
            let each = nest.ways(new.tensor, inside).into_iter();
            let copies: Vec<_> = each.map(|a| named(nest.read_name(nest.access(a)))).collect();
            Edit::instead(copies).remark("a copy for each way in which it is read")
        })),
        _ => Ok(()),
    }
}

/// Whether a statement reads what a copy is for.
pub(crate) fn reads(stmt: &Stmt, nest: &Nest, new: &Copy) -> bool {
    let mut found = false;
    leaves(stmt, &mut |_, leaf| {
        let accesses = leaf.leaf().expect("a leaf").1.accesses();
        found |= accesses.iter().any(|a| new.serves(nest.access(*a)));
    });
    found
}

/// Whether two copies are for one of some reads.
pub(crate) fn both(nest: &Nest, new: &Copy, other: CopyId, reads: &[AccessId]) -> bool {
    reads.iter().any(|a| new.serves(nest.access(*a)) && nest.serves(other, *a))
}

/// Nothing is copied inside a fragment of it: registers are the last stop.
pub(crate) fn held_already(nest: &Nest, buffer: &str, new: &Copy, at: Digit) -> Result<(), Failure> {
    let mut around = None;
    leaves(&nest.body, &mut |path, leaf| {
        let accesses = leaf.leaf().expect("a leaf").1.accesses();
        let inner = path.iter().position(|f| matches!(f, Frame::For(d, _) if *d == at));
        for frame in path.iter().take(inner.unwrap_or(0)) {
            if let Frame::Stage(c) = frame
                && nest.copy(*c).space == Space::Register
                && both(nest, new, *c, &accesses)
            {
                around = Some(*c);
            }
        }
    });
    match around {
        Some(c) => Err(refuse(format!("`{buffer}` is held in registers around this loop already"))
            .note(nest.copy(c).span, "by this")),
        None => Ok(()),
    }
}
