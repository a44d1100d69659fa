//! From the shapes of the arguments to the value of every named dim, with the reason where there is none.
//!
//! Launches have [`solve`](crate::solve), which finds the same values faster and says nothing.

use crate::error::Error;
use std::collections::BTreeMap;
use tile_dsl::{index::Extent, tile};

/// Values of the named dims.
pub(crate) type Dims = BTreeMap<String, i64>;

/// Solves `shape = declared extent` for all dimensions of all tensors, and checks those that are overdetermined.
///
/// # Errors
/// [`Error::Rank`], [`Error::Shape`], [`Error::TooLarge`].
pub(crate) fn resolve(tensors: &[tile::Tensor], shapes: &[&[usize]]) -> Result<Dims, Error> {
    let mut equations = Vec::new();
    for (tensor, &shape) in tensors.iter().zip(shapes) {
        if shape.len() != tensor.dims.len() {
            return Err(Error::Rank {
                name: tensor.name.clone(),
                declared: declared(tensor),
                rank: tensor.dims.len(),
                shape: shape.to_vec(),
            });
        }
        for (position, (extent, &size)) in tensor.dims.iter().zip(shape).enumerate() {
            let size = i64::try_from(size).ok().filter(|&s| s <= i64::from(i32::MAX)).ok_or_else(|| {
                Error::TooLarge {
                    what: format!("dimension {position} of `{}`", tensor.name),
                    value: size as i128,
                    max: i32::MAX.into(),
                }
            })?;
            equations.push(Equation { tensor, shape, extent, size });
        }
    }

    // Each round solves the equations with one unknown; plain names first, so that they are the ones blamed last.
    let mut dims = Dims::new();
    let mut origin: BTreeMap<&str, &Equation<'_>> = BTreeMap::new();
    for plain in [true, false] {
        loop {
            let before = dims.len();
            for equation in equations.iter().filter(|e| !plain || e.extent.as_dim().is_some()) {
                if let Some((name, value)) = equation.solve(&dims)? {
                    dims.insert(name.to_string(), value);
                    origin.insert(name, equation);
                }
            }
            if dims.len() == before {
                break;
            }
        }
    }
    for equation in &equations {
        match equation.extent.eval(&dims) {
            Some(value) if value == equation.size => {}
            Some(value) => return Err(equation.mismatch(value, &dims, &origin)),
            None => {
                let unknown = equation.extent.dims.keys().find(|name| !dims.contains_key(*name));
                return Err(Error::Shape(format!(
                    "the shapes do not determine the dim `{}` of `{}: {}`",
                    unknown.map_or("", String::as_str),
                    equation.tensor.name,
                    declared(equation.tensor)
                )));
            }
        }
    }
    Ok(dims)
}

/// One dimension of one tensor.
struct Equation<'a> {
    tensor: &'a tile::Tensor,
    shape: &'a [usize],
    extent: &'a Extent,
    size: i64,
}

impl<'a> Equation<'a> {
    /// The value of the only unknown dim, if there is exactly one.
    fn solve(&self, dims: &Dims) -> Result<Option<(&'a str, i64)>, Error> {
        let mut unknown = self.extent.dims.iter().filter(|(name, _)| !dims.contains_key(*name));
        let (Some((name, &coefficient)), None) = (unknown.next(), unknown.next()) else { return Ok(None) };
        let known = self
            .extent
            .dims
            .iter()
            .filter_map(|(n, c)| dims.get(n).map(|v| c.saturating_mul(*v)))
            .fold(self.extent.constant, i64::saturating_add);
        let rest = self.size.saturating_sub(known);
        let value = rest / coefficient;
        if rest % coefficient != 0 || value < 0 {
            return Err(Error::Shape(format!(
                "`{}: {}` cannot have shape {:?}: no `{name}` makes {} equal to {}",
                self.tensor.name,
                declared(self.tensor),
                self.shape,
                self.extent,
                self.size
            )));
        }
        Ok(Some((name, value)))
    }

    fn mismatch(&self, value: i64, dims: &Dims, origin: &BTreeMap<&str, &Equation<'_>>) -> Error {
        let mut message = format!(
            "shapes disagree: `{}: {}` has shape {:?}, where {} = {}",
            self.tensor.name,
            declared(self.tensor),
            self.shape,
            self.extent,
            self.size
        );
        if self.extent.dims.is_empty() {
            message = format!(
                "`{}: {}` has shape {:?}, and {} elements are not {value}",
                self.tensor.name,
                declared(self.tensor),
                self.shape,
                self.size
            );
        }
        for name in self.extent.dims.keys() {
            if let Some(from) = origin.get(name.as_str()) {
                message.push_str(&format!(
                    ", but `{}: {}` of shape {:?} makes {name} = {}",
                    from.tensor.name,
                    declared(from.tensor),
                    from.shape,
                    dims[name]
                ));
            }
        }
        Error::Shape(message)
    }
}

/// `[M, N + 2]`.
fn declared(tensor: &tile::Tensor) -> String {
    let dims: Vec<_> = tensor.dims.iter().map(ToString::to_string).collect();
    format!("[{}]", dims.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::{Solver, Values};
    use tile_dsl::{
        dtype::DType,
        span::SpanId,
        tile::{ElemType, Tensor},
    };

    fn tensor(name: &str, dims: &[Extent]) -> Tensor {
        Tensor {
            name: name.into(),
            elem: ElemType::Fixed(DType::F32),
            dims: dims.to_vec(),
            mutable: false,
            span: SpanId::NONE,
        }
    }

    fn affine(coefficient: i64, name: &str, constant: i64) -> Extent {
        Extent { dims: [(name.to_string(), coefficient)].into(), constant }
    }

    /// The dims, which the fast solver finds too, or refuses too.
    fn solve(tensors: &[Tensor], shapes: &[&[usize]]) -> Result<Dims, String> {
        let dims = resolve(tensors, shapes).map_err(|e| e.to_string());
        let mut names: Vec<&str> = Vec::new();
        for name in tensors.iter().flat_map(|t| &t.dims).flat_map(|e| e.dims.keys()) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let position = |name: &str| names.iter().position(|n| *n == name).unwrap();
        let solver = Solver::new(tensors, names.len(), position);
        let mut values = Values::from_elem(0, names.len());
        let ranks = tensors.iter().zip(shapes).all(|(t, s)| t.dims.len() == s.len());
        let solved = solver.filter(|_| ranks).and_then(|s| s.solve(|t| shapes[t], &mut values));
        assert_eq!(solved.is_some(), dims.is_ok(), "{dims:?}");
        if let Ok(dims) = &dims {
            assert!(
                names.iter().zip(&values).all(|(name, value)| dims[*name] == *value),
                "{dims:?}, {values:?}"
            );
        }
        dims
    }

    #[test]
    fn plain_dims() {
        let tensors = [
            tensor("a", &[Extent::dim("M"), Extent::dim("K")]),
            tensor("b", &[Extent::dim("K"), Extent::dim("N")]),
        ];
        let dims = solve(&tensors, &[&[2, 3], &[3, 0]]).unwrap();
        assert_eq!(dims, [("K".into(), 3), ("M".into(), 2), ("N".into(), 0)].into());
        assert_eq!(
            solve(&tensors, &[&[2, 3], &[4, 5]]).unwrap_err(),
            "shapes disagree: `b: [K, N]` has shape [4, 5], where K = 4, but `a: [M, K]` of shape [2, 3] makes K = 3"
        );
        assert_eq!(
            solve(&tensors, &[&[2], &[4, 5]]).unwrap_err(),
            "`a: [M, K]` has rank 2, and the argument has shape [2]"
        );
    }

    #[test]
    fn affine_dims_are_solved_and_checked() {
        let halo = [tensor("x", &[affine(1, "N", 2)]), tensor("y", &[Extent::dim("N")])];
        assert_eq!(solve(&halo, &[&[12], &[10]]).unwrap()["N"], 10);
        assert_eq!(
            solve(&halo, &[&[11], &[10]]).unwrap_err(),
            "shapes disagree: `x: [N + 2]` has shape [11], where N + 2 = 11, but `y: [N]` of shape [10] makes N = 10"
        );
        let alone = [tensor("x", &[affine(2, "N", 1)])];
        assert_eq!(solve(&alone, &[&[7]]).unwrap()["N"], 3);
        for size in [8, 0] {
            assert!(solve(&alone, &[&[size]]).unwrap_err().contains("no `N` makes 2*N + 1 equal to"));
        }
    }

    #[test]
    fn numbers_unknowns_and_large_sizes() {
        let fixed = [tensor("w", &[Extent::constant(3)])];
        assert!(solve(&fixed, &[&[3]]).is_ok());
        assert_eq!(solve(&fixed, &[&[4]]).unwrap_err(), "`w: [3]` has shape [4], and 4 elements are not 3");
        let sum = Extent { dims: [("A".into(), 1), ("B".into(), 1)].into(), constant: 0 };
        assert!(solve(&[tensor("x", &[sum])], &[&[4]]).unwrap_err().contains("do not determine the dim `A`"));
        let large = solve(&[tensor("x", &[Extent::dim("N")])], &[&[1 << 31]]).unwrap_err();
        assert!(large.contains("2147483648 is more than 2147483647"), "{large}");
    }
}
