//! Names that are the same thing wherever they stand.

use crate::model::Named;
use std::collections::BTreeMap;
use tile_dsl::{
    engine::Derivation,
    nest::{Digit, Nest, Steps, Stmt},
};

/// The names of all nests of a derivation.
pub(crate) fn collect(derivation: &Derivation) -> BTreeMap<String, Named> {
    let mut names = BTreeMap::new();
    // The last nest says what a name means, where loops took it over from others.
    for derived in &derivation.steps {
        add(&derived.nest, &mut names);
    }
    names
}

fn add(nest: &Nest, names: &mut BTreeMap<String, Named>) {
    let mut named = |name: &str, kind: &'static str, about: String| {
        names.insert(name.to_string(), Named { kind, about });
    };
    for axis in &nest.kernel.axes {
        named(&axis.name, "axis", format!("axis of extent {}", axis.extent));
    }
    for tensor in &nest.kernel.tensors {
        let dims: Vec<String> = tensor.dims.iter().map(ToString::to_string).collect();
        let access = if tensor.mutable { "stored" } else { "read" };
        named(&tensor.name, "tensor", format!("tensor {} × elements, {access}", dims.join(" × ")));
    }
    for value in &nest.values {
        let axes: Vec<&str> = value.axes.iter().map(|a| nest.axis(*a)).collect();
        let of = if axes.is_empty() { "a number".into() } else { format!("over {}", axes.join(", ")) };
        named(&value.name, "value", format!("value {of}, {}", value.dtype));
    }
    let mut digit = |name: String, digit: Digit| {
        let axis = nest.axis(digit.axis);
        if name == axis {
            return;
        }
        let steps = match digit.steps {
            Steps::Fixed(n) => n.to_string(),
            Steps::Rest => "as many as needed,".into(),
        };
        let points = if digit.stride == 1 { "1 point".into() } else { format!("{} points", digit.stride) };
        names.insert(
            name,
            Named { kind: "loop", about: format!("loop along {axis}: {steps} steps of {points}") },
        );
    };
    for (name, of) in &nest.names {
        digit(name.clone(), *of);
    }
    nest.body.each(&mut |stmt| {
        if let Stmt::For { digit: of, .. } = stmt {
            digit(nest.digit_name(*of), *of);
        }
    });
}
