//! Dense arrays over named axes.

use crate::index::AxisId;

/// Elements over sorted axes, last axis fastest.
#[derive(Clone, Debug)]
pub(super) struct Array<E> {
    pub axes: Vec<AxisId>,
    pub shape: Vec<usize>,
    pub data: Vec<E>,
    /// Rounding steps on the longest path to an element.
    pub steps: u64,
}

impl<E: Copy> Array<E> {
    pub fn scalar(value: E) -> Self {
        Array { axes: vec![], shape: vec![], data: vec![value], steps: 0 }
    }

    pub fn map<F>(&self, steps: u64, mut f: impl FnMut(E) -> F) -> Array<F> {
        Array {
            axes: self.axes.clone(),
            shape: self.shape.clone(),
            data: self.data.iter().map(|x| f(*x)).collect(),
            steps: self.steps + steps,
        }
    }

    /// Step in the elements for each of some axes, 0 for an axis that it lacks.
    fn strides(&self, axes: &[AxisId]) -> Vec<usize> {
        let stride = |axis: &AxisId| match self.axes.iter().position(|a| a == axis) {
            Some(at) => self.shape[at + 1..].iter().product(),
            None => 0,
        };
        axes.iter().map(stride).collect()
    }

    fn extent(&self, axis: AxisId) -> Option<usize> {
        self.axes.iter().position(|a| *a == axis).map(|at| self.shape[at])
    }

    /// Elementwise, over the union of the axes.
    pub fn zip<F: Copy, G>(&self, other: &Array<F>, steps: u64, mut f: impl FnMut(E, F) -> G) -> Array<G> {
        let mut axes = [self.axes.as_slice(), &other.axes].concat();
        axes.sort_unstable();
        axes.dedup();
        let shape: Vec<usize> = axes
            .iter()
            .map(|a| {
                self.extent(*a).or_else(|| other.extent(*a)).expect("the axis is in one of the operands")
            })
            .collect();
        let mut data = Vec::with_capacity(shape.iter().product());
        walk(&shape, [&self.strides(&axes), &other.strides(&axes)], |[a, b]| {
            data.push(f(self.data[a], other.data[b]));
        });
        Array { axes, shape, data, steps: self.steps.max(other.steps) + steps }
    }

    /// Folds over an axis in ascending order.
    pub fn reduce(&self, axis: AxisId, neutral: E, steps: u64, mut f: impl FnMut(E, E) -> E) -> Array<E> {
        let at = self.axes.iter().position(|a| *a == axis).expect("the value has the axis");
        let (mut axes, mut shape) = (self.axes.clone(), self.shape.clone());
        axes.remove(at);
        let n = shape.remove(at);
        let stride = self.strides(&[axis])[0];
        let mut data = Vec::with_capacity(shape.iter().product());
        walk(&shape, [&self.strides(&axes)], |[base]| {
            data.push((0..n).fold(neutral, |acc, k| f(acc, self.data[base + k * stride])));
        });
        let steps = self.steps + steps * u64::try_from(n).expect("extents fit");
        Array { axes, shape, data, steps }
    }

    /// At each point the fold of the points up to it along an axis, in ascending order.
    pub fn scan(mut self, axis: AxisId, steps: u64, mut f: impl FnMut(E, E) -> E) -> Array<E> {
        let at = self.axes.iter().position(|a| *a == axis).expect("the value has the axis");
        let (n, stride) = (self.shape[at], self.strides(&[axis])[0]);
        let (mut axes, mut shape) = (self.axes.clone(), self.shape.clone());
        axes.remove(at);
        shape.remove(at);
        let lines = self.strides(&axes);
        walk(&shape, [&lines], |[base]| {
            for k in 1..n {
                let here = base + k * stride;
                self.data[here] = f(self.data[here - stride], self.data[here]);
            }
        });
        self.steps += steps * u64::try_from(n).expect("extents fit");
        self
    }

    /// `self` plus the products of `a` and `b` over the axes that `self` lacks, in ascending order.
    pub fn dot(&self, a: &Array<E>, b: &Array<E>, mut fma: impl FnMut(E, E, E) -> E) -> Array<E> {
        let contracted: Vec<AxisId> = a.axes.iter().filter(|x| !self.axes.contains(x)).copied().collect();
        let shape: Vec<usize> =
            contracted.iter().map(|x| a.extent(*x).expect("an axis of the operand")).collect();
        let mut pairs = Vec::with_capacity(shape.iter().product());
        walk(&shape, [&a.strides(&contracted), &b.strides(&contracted)], |[x, y]| pairs.push((x, y)));
        let mut data = Vec::with_capacity(self.data.len());
        let strides = [&self.strides(&self.axes), &a.strides(&self.axes), &b.strides(&self.axes)];
        walk(&self.shape, strides.map(Vec::as_slice), |[c, x, y]| {
            let sum = pairs.iter().fold(self.data[c], |acc, (p, q)| fma(acc, a.data[x + p], b.data[y + q]));
            data.push(sum);
        });
        let steps = u64::try_from(pairs.len()).expect("extents fit");
        Array {
            axes: self.axes.clone(),
            shape: self.shape.clone(),
            data,
            steps: self.steps.max(a.steps).max(b.steps) + steps,
        }
    }
}

/// Visits the points of a box in row-major order, with an offset for each list of strides.
fn walk<const N: usize>(shape: &[usize], strides: [&[usize]; N], mut f: impl FnMut([usize; N])) {
    if shape.contains(&0) {
        return;
    }
    let Some((inner, outer)) = shape.split_last() else { return f([0; N]) };
    let last = shape.len() - 1;
    let mut base = [0; N];
    let mut point = vec![0; outer.len()];
    loop {
        let mut offsets = base;
        for _ in 0..*inner {
            f(offsets);
            for (offset, s) in offsets.iter_mut().zip(strides) {
                *offset += s[last];
            }
        }
        // Next row: count up, last outer axis first.
        let mut at = outer.len();
        loop {
            let Some(next) = at.checked_sub(1) else { return };
            at = next;
            point[at] += 1;
            for (offset, s) in base.iter_mut().zip(strides) {
                *offset += s[at];
            }
            if point[at] < outer[at] {
                break;
            }
            for (offset, s) in base.iter_mut().zip(strides) {
                *offset -= s[at] * outer[at];
            }
            point[at] = 0;
        }
    }
}

/// Visits the points of a box in row-major order.
pub(super) fn points(shape: &[usize], mut f: impl FnMut(&[usize])) {
    if shape.contains(&0) {
        return;
    }
    let mut point = vec![0; shape.len()];
    loop {
        f(&point);
        let mut at = shape.len();
        loop {
            let Some(next) = at.checked_sub(1) else { return };
            at = next;
            point[at] += 1;
            if point[at] < shape[at] {
                break;
            }
            point[at] = 0;
        }
    }
}
