//! From the shapes of the arguments to the values of the named dims, in steps that are worked out once.
//!
//! What is wrong with shapes that do not fit is said by [`dims`](crate::dims), which starts from the declarations.

use smallvec::SmallVec;
use tile_dsl::{lower::Form, tile};

/// Values of the dims of a launch by position: the named dims, then the strides of all tensors.
pub(crate) type Values = SmallVec<[i64; 16]>;

/// Steps that give every named dim a value, then the equations that must hold.
#[derive(Debug)]
pub(crate) struct Solver {
    steps: Vec<Step>,
    equations: Vec<Equation>,
}

/// `dims[dim] = (shape of the tensor − rest) / coefficient`, exactly and not below zero.
#[derive(Debug)]
struct Step {
    dim: usize,
    tensor: usize,
    position: usize,
    coefficient: i64,
    /// The extent without the term of `dim`.
    rest: Form,
}

#[derive(Debug)]
struct Equation {
    tensor: usize,
    position: usize,
    extent: Form,
}

impl Solver {
    /// For tensors whose dims have these positions; `None` if the shapes do not determine all `count` of them.
    pub(crate) fn new(
        tensors: &[tile::Tensor],
        count: usize,
        position: impl Fn(&str) -> usize + Copy,
    ) -> Option<Self> {
        let all = || {
            tensors
                .iter()
                .enumerate()
                .flat_map(|(t, tensor)| tensor.dims.iter().enumerate().map(move |(d, extent)| (t, d, extent)))
        };
        let mut known = vec![false; count];
        let mut steps = Vec::new();
        // Plain names first, as they read best where shapes disagree.
        for plain in [true, false] {
            loop {
                let before = steps.len();
                for (tensor, d, extent) in all().filter(|(.., e)| !plain || e.as_dim().is_some()) {
                    let mut unknown = extent.dims.iter().filter(|(name, _)| !known[position(name)]);
                    let (Some((name, &coefficient)), None) = (unknown.next(), unknown.next()) else {
                        continue;
                    };
                    let mut rest = extent.clone();
                    rest.dims.remove(name);
                    let rest = Form::new(&rest, position);
                    known[position(name)] = true;
                    steps.push(Step { dim: position(name), tensor, position: d, coefficient, rest });
                }
                if steps.len() == before {
                    break;
                }
            }
        }
        let equations = all().map(|(tensor, position_, extent)| Equation {
            tensor,
            position: position_,
            extent: Form::new(extent, position),
        });
        known.iter().all(|k| *k).then(|| Solver { steps, equations: equations.collect() })
    }

    /// Sets the named dims; `None` if the shapes do not fit. The ranks were checked.
    pub(crate) fn solve<'a>(&self, shape: impl Fn(usize) -> &'a [usize], values: &mut Values) -> Option<()> {
        let size = |tensor: usize, position: usize| {
            let size = *shape(tensor).get(position)?;
            i64::try_from(size).ok().filter(|n| *n <= i64::from(i32::MAX))
        };
        for step in &self.steps {
            let left = size(step.tensor, step.position)?.checked_sub(step.rest.eval(values)?)?;
            if left % step.coefficient != 0 || left / step.coefficient < 0 {
                return None;
            }
            values[step.dim] = left / step.coefficient;
        }
        self.equations
            .iter()
            .all(|e| size(e.tensor, e.position).is_some_and(|n| e.extent.eval(values) == Some(n)))
            .then_some(())
    }
}
