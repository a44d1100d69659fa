//! Resolves the names that directives use: digits, values, tensors.

use super::failure::Failure;
pub(crate) use crate::diagnostic::list;
pub(crate) use crate::nest::{in_tile, over_tiles};
use crate::{
    diagnostic::{Edit, distance},
    index::{Affine, AxisId},
    nest::{Atom, Digit, Frame, LoopKind, Nest, Operand, Part, Role, Steps, Target, ValueId, leaves, loops},
    tile::TensorId,
};
use std::collections::BTreeSet;

/// Which digit of a tiled axis a bare axis name means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bare {
    /// `i.o`: in `at` and `pipeline`.
    Tile,
    /// `i.t`: elsewhere.
    InTile,
}

/// What a dimension of an atom left over of a loop is called, after the axis.
const ATOMS: &str = "atom";

/// What the loop over the instructions along an axis is called.
pub(crate) fn of_atoms(axis: &str) -> String {
    format!("{axis}.{ATOMS}")
}

/// Whether some `tensor_core` gives a loop this name.
pub(crate) fn is_of_atoms(name: &str) -> bool {
    let parts = |a: &Atom, role| {
        let operands = [Operand::A, Operand::B].into_iter().flat_map(move |o| a.operand(o, role));
        a.parts(role).iter().copied().chain(operands).collect::<Vec<Part>>()
    };
    let named = |last: &str| {
        Atom::all()
            .any(|a| [Role::M, Role::N, Role::K].iter().any(|r| parts(&a, *r).iter().any(|p| p.name == last)))
    };
    name.split_once('.').is_some_and(|(_, last)| last == ATOMS || named(last))
}

/// The digit a name stands for, whether a loop over it still exists or it was split.
pub(crate) fn digit(nest: &Nest, name: &str, bare: Bare) -> Result<Digit, Failure> {
    let suffixed = match bare {
        Bare::Tile => over_tiles(name),
        Bare::InTile => in_tile(name),
    };
    let found = nest.names.get(&suffixed).or_else(|| nest.names.get(name));
    found.copied().ok_or_else(|| {
        let failure = unknown("loop", name, digit_names(nest));
        // `l.atom` is no misspelling of `k.atom`: the axis is what was meant.
        let axis = |loop_: &str| loop_.split('.').next().map(str::to_string);
        let of_axis = axis(name).filter(|a| nest.kernel.axes.iter().any(|known| known.name == *a));
        let other = |(_, meant): &(String, String)| of_axis.is_some() && axis(meant) != of_axis;
        let failure = Failure { meant: failure.meant.clone().filter(|m| !other(m)), ..failure };
        match name.split_once('.') {
            Some((axis, part)) if is_of_atoms(name) => failure.remark(format!(
                "`{part}` is what `tensor_core` makes of an axis: no instruction takes `{axis}`"
            )),
            _ => failure,
        }
    })
}

/// That a loop stands around a statement that a directive is restricted to: `in value`.
pub(crate) fn around(
    nest: &Nest,
    name: &str,
    digit: Digit,
    within: &BTreeSet<Target>,
    value: &str,
) -> Result<(), Failure> {
    let mut known = Vec::new();
    let mut found = false;
    leaves(&nest.body, &mut |path, leaf| {
        if !within.contains(&leaf.leaf().expect("a leaf").0) {
            return;
        }
        for frame in path {
            let Frame::For(d, at) = frame else { continue };
            found |= *d == digit;
            let shown = nest.digit_name(*d);
            if !matches!(at, LoopKind::Atom(..)) && !known.contains(&shown) {
                known.push(shown);
            }
        }
    });
    match found {
        true => Ok(()),
        false => {
            Err(Failure::no_match(format!("the loop over `{name}` is not around the statement of `{value}`"))
                .remark(format!("the loops around it are {}", list(&known))))
        }
    }
}

/// A digit with a loop of its own somewhere.
pub(crate) fn existing(nest: &Nest, name: &str, bare: Bare) -> Result<Digit, Failure> {
    let digit = digit(nest, name, bare)?;
    let all = loops(&nest.body);
    if all.iter().any(|(d, at)| *d == digit && !matches!(at, LoopKind::Atom(..))) {
        return Ok(digit);
    }
    if let Some((_, LoopKind::Atom(atom, _))) = all.iter().find(|(d, _)| *d == digit) {
        let atoms = of_atoms(nest.axis(digit.axis));
        let meant = nest.names.contains_key(&atoms).then(|| (name.to_string(), atoms));
        let failure = Failure::no_match(format!("one `{atom}` executes all steps of `{name}`"));
        return Err(Failure { meant, ..failure });
    }
    let parts: Vec<String> = inside(nest, digit).into_iter().map(|d| nest.digit_name(d)).collect();
    Err(match parts.as_slice() {
        [] if digit.steps == Steps::Fixed(1) => {
            Failure::no_match(format!("`{name}` has one step, so there is no loop over it"))
                .edit(Edit::remove())
                .remark(format!("the loops are {}", list(&digit_names(nest))))
        }
        [] => Failure::no_match(format!("there is no loop over `{name}` any more"))
            .remark(format!("the loops are {}", list(&digit_names(nest)))),
        parts => Failure {
            parts: parts.iter().map(|part| (name.to_string(), part.clone())).collect(),
            ..Failure::no_match(format!("`{name}` was split into {}", list(parts)))
                .remark(format!("name one of {}", list(parts)))
        },
    })
}

/// The loops that together make up a digit, outermost (largest stride) first.
pub(crate) fn inside(nest: &Nest, digit: Digit) -> Vec<Digit> {
    let high = |d: Digit| match d.steps {
        Steps::Fixed(n) => u64::from(d.stride) * u64::from(n),
        Steps::Rest => u64::MAX,
    };
    let mut found: Vec<Digit> = loops(&nest.body)
        .into_iter()
        .filter(|(_, at)| !matches!(at, LoopKind::Atom(..)))
        .map(|(d, _)| d)
        .filter(|d| d.axis == digit.axis && d.stride >= digit.stride)
        .filter(|d| high(*d) <= high(digit) || d.stride == digit.stride && d.steps == digit.steps)
        .collect();
    found.sort_by_key(|d| std::cmp::Reverse((d.stride, d.steps)));
    found.dedup();
    found
}

/// Names of the loops there are, for messages; not of those that an instruction takes at once.
pub(crate) fn digit_names(nest: &Nest) -> Vec<String> {
    let mut names = Vec::new();
    for (d, _) in loops(&nest.body).into_iter().filter(|(_, at)| !matches!(at, LoopKind::Atom(..))) {
        let name = nest.digit_name(d);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// An axis by name.
pub(crate) fn axis(nest: &Nest, name: &str) -> Result<AxisId, Failure> {
    let names: Vec<String> = nest.kernel.axes.iter().map(|a| a.name.clone()).collect();
    match names.iter().position(|n| n == name) {
        Some(n) => Ok(AxisId(n as u16)),
        None => Err(unknown("axis", name, names)),
    }
}

/// A value by name.
pub(crate) fn value(nest: &Nest, name: &str) -> Result<ValueId, Failure> {
    match nest.values.iter().position(|v| v.name == name) {
        Some(n) => Ok(ValueId(n as u16)),
        None => Err(unknown("value", name, nest.values.iter().map(|v| v.name.clone()).collect())),
    }
}

/// A tensor by name.
pub(crate) fn tensor(nest: &Nest, name: &str) -> Option<TensorId> {
    nest.kernel.tensors.iter().position(|t| t.name == name).map(|n| TensorId(n as u16))
}

/// Reads that a copy is for: of a tensor, and where that is said, those that follow an index, constants aside.
pub(crate) type Reads = (TensorId, Option<Vec<Affine>>);

/// What `a` or `a[i, k]` means for a copy. Nothing where the name is no tensor's.
pub(crate) fn reads(nest: &Nest, buffer: &str) -> Result<Option<Reads>, Failure> {
    let Some((name, index)) = buffer.split_once('[') else {
        return Ok(tensor(nest, buffer).map(|t| (t, None)));
    };
    let Some(of) = tensor(nest, name) else { return Ok(None) };
    let term = |term: &str| -> Result<(AxisId, i64), Failure> {
        let (sign, term) = term.strip_prefix('-').map_or((1, term), |rest| (-1, rest));
        let (factor, name) = term.split_once('*').unwrap_or(("1", term));
        Ok((axis(nest, name)?, sign * factor.parse::<i64>().unwrap_or(1)))
    };
    let dimension = |text: &str| -> Result<Affine, Failure> {
        let text = text.replace(" + ", " ").replace(" - ", " -");
        let named = text.split(' ').filter(|t| *t != "0");
        Ok(Affine { terms: named.map(term).collect::<Result<_, _>>()?, constant: 0 })
    };
    let index = index.trim_end_matches(']').split(", ").map(dimension).collect::<Result<Vec<_>, _>>()?;
    Ok(Some((of, Some(index))))
}

/// "no loop `x`", with the names there are; one that is near, or the only one, was meant.
pub(crate) fn unknown(what: &str, name: &str, known: Vec<String>) -> Failure {
    let failure = Failure::no_match(format!("there is no {what} `{name}`"));
    let near = known.iter().map(|k| (distance(name, k), k)).min();
    let plural = match what {
        "axis" if known.len() > 1 => "axes are".to_string(),
        "tensor or value" => "tensors and values are".to_string(),
        _ if known.len() == 1 => format!("{what} is"),
        _ => format!("{what}s are"),
    };
    let meant = match near {
        // All letters replaced is no misspelling.
        Some((d, near)) if d <= 1 + name.len() / 4 && d < name.len().min(near.len()) => Some(near),
        _ => known.first().filter(|_| known.len() == 1),
    };
    let failure = match known.as_slice() {
        [] => failure,
        known => failure.remark(format!("the {plural} {}", list(known))),
    };
    Failure { meant: meant.map(|meant| (name.to_string(), meant.clone())), ..failure }
}
