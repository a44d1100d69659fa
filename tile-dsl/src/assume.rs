//! What a launch must satisfy for a variant: exactly what its lowering relies on. The engine refuses what no launch satisfies.
//!
//! Every variant computes coordinates in 32 bits: extents stay below 2³¹ by what tails and constants add, and so does an
//! index that the extents alone do not bound, such as `3*i` into a tensor of N elements. General computes offsets in 64
//! bits; the others need the offsets of each access to fit 32.

mod condition;

pub use condition::{Condition, Form};

use crate::{
    index::{Affine, AxisId, Extent},
    nest::{
        Access, AccessId, CopyId, Cover, Digit, Ends, LoopKind, MATRIX_ROWS, Nest, Steps, Target, cover,
        difference, ends, leaves, loops, non_negative, range, steps,
    },
    plan::{Accesses, StorePath, Stores},
    program::{Program, Variant},
    tile::{self, TensorId},
};
use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// Room that index arithmetic may need beyond an extent.
const SLACK: i64 = 1 << 16;

/// Points of the longest axis that a launch may have, whatever its tiles.
pub(crate) const MOST_POINTS: i64 = (1 << 31) - SLACK - 1;

/// Tensors whose strides do not follow from their extents: but for the contiguous dimension's, which is 1, each is a
/// parameter of the kernel, named by [`stride`].
pub type Strided = BTreeSet<TensorId>;

/// Name of the parameter that holds the stride of dimension `dim`, in elements: `b.stride0`.
pub fn stride(tensor: &tile::Tensor, dim: usize) -> String {
    format!("{}.stride{dim}", tensor.name)
}

/// A condition on the dims and base addresses of a launch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Assumption(Kind);

/// Over extents of named dims, or of dims by position.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind<E = Extent> {
    AtMost { extent: E, max: i64 },
    Multiple { extent: E, of: i64 },
    Equal { extent: E, points: i64 },
    Aligned { tensor: TensorId, name: String, bytes: u32 },
    Offsets { name: String, reach: Vec<Reach<E>>, pitches: Pitches<E> },
    Index { extent: E, slack: i64 },
    Coordinates { name: String, reach: Reach<E> },
}

/// Greatest index of one dimension, tails included.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Reach<E = Extent> {
    constant: i64,
    /// Coefficient, extent, and the multiple it is rounded up to or the number of points.
    terms: Vec<(i64, E, i64, bool)>,
}

/// Extents of a tensor, fastest dimension first, and its strides where they do not follow from the extents.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pitches<E = Extent> {
    extents: Vec<E>,
    strides: Option<Vec<E>>,
}

impl Assumption {
    /// Whether the condition holds. `dims` are the named dims of the launch, `bases` the addresses of the
    /// tensors in the order of the kernel's parameters. A missing dim or base fails.
    pub fn holds(&self, dims: &BTreeMap<String, i64>, bases: &[u64]) -> bool {
        self.0.holds(dims, bases)
    }
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let atom = |e: &Extent| {
            let text = e.to_string();
            if text.contains(' ') { format!("({text})") } else { text }
        };
        match &self.0 {
            Kind::AtMost { extent, max } => write!(f, "{extent} <= {max}"),
            Kind::Multiple { extent, of } => write!(f, "{} % {of} == 0", atom(extent)),
            Kind::Equal { extent, points } => write!(f, "{extent} == {points}"),
            Kind::Aligned { name, bytes, .. } => write!(f, "{name} {bytes}-byte aligned"),
            Kind::Offsets { name, .. } => write!(f, "offsets of {name} below 2^31"),
            Kind::Index { extent, slack } => write!(f, "{extent} below 2^31 - 2^{}", slack.ilog2()),
            Kind::Coordinates { name, .. } => write!(f, "indices of {name} below 2^31"),
        }
    }
}

/// What a schedule asserts of every launch; for another one there is no variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Promise {
    /// That it holds.
    pub assumption: Assumption,
    /// The extent that it is about.
    pub extent: Extent,
    /// The directive.
    pub directive: String,
    /// What the schedule does that needs it.
    pub reason: &'static str,
}

/// What a schedule asserts of every launch.
pub fn promises(nest: &Nest) -> Vec<Promise> {
    let bounds = nest.bounds.iter().map(|(axis, max)| {
        let extent = nest.kernel.axes[usize::from(axis.0)].extent.clone();
        Promise {
            assumption: Assumption(Kind::AtMost { extent: extent.clone(), max: (*max).into() }),
            directive: format!("fits({extent} <= {max})"),
            reason: "holds whole rows on chip",
            extent,
        }
    });
    let multiples = nest.multiples.iter().map(|(dim, of)| Promise {
        assumption: Assumption(Kind::Multiple { extent: Extent::dim(dim), of: (*of).into() }),
        directive: format!("multiple({dim}: {of})"),
        reason: "guards no tail",
        extent: Extent::dim(dim),
    });
    let lengths = nest.lengths.iter().map(|(dim, max)| Promise {
        assumption: Assumption(Kind::AtMost { extent: Extent::dim(dim), max: (*max).into() }),
        directive: format!("fits({dim} <= {max})"),
        reason: "keeps a whole dimension on chip",
        extent: Extent::dim(dim),
    });
    bounds.chain(lengths).chain(multiples).collect()
}

/// Makes dims smaller until a launch of them keeps what the schedule asserts.
pub fn admit(nest: &Nest, dims: &mut BTreeMap<String, i64>) {
    let promises = promises(nest);
    while let Some(broken) = promises.iter().find(|p| !p.assumption.holds(dims, &[])) {
        let mut names = broken.extent.dims.keys();
        let Some(dim) = names.find(|name| dims.get(*name).is_some_and(|n| *n > 0)) else { return };
        *dims.get_mut(dim).expect("found above") -= 1;
    }
}

/// Those of some variants that a launch ever runs, if it takes the first that it may: a variant that assumes all that an
/// earlier one does never comes to pass.
pub fn chosen(program: &Program, variants: &[Variant], strided: &Strided) -> Vec<Variant> {
    let all = Assumptions::of(program, strided);
    let mut earlier: Vec<Vec<Assumption>> = Vec::new();
    let mut found = Vec::new();
    for variant in variants {
        let own = all.variant(*variant);
        if earlier.iter().all(|assumed| assumed.iter().any(|a| !own.contains(a))) {
            found.push(*variant);
        }
        earlier.push(own);
    }
    found
}

/// What a launch must satisfy to run a variant of a program; all of them, in a fixed order.
pub fn assumptions(program: &Program, variant: Variant) -> Vec<Assumption> {
    assumptions_strided(program, variant, &Strided::new())
}

/// [`assumptions`] where some tensors have strides of their own.
pub fn assumptions_strided(program: &Program, variant: Variant, strided: &Strided) -> Vec<Assumption> {
    Assumptions::of(program, strided).variant(variant)
}

/// What launches must satisfy to run each variant of a program: what the variants share is worked out once.
pub struct Assumptions<'a> {
    nest: &'a Nest,
    strided: &'a Strided,
    /// What every variant relies on.
    always: BTreeSet<Kind>,
    statements: Vec<Statement>,
    /// Widest vectors in bytes, and how elements are stored: for the variants with vectors.
    vectors: OnceCell<(BTreeMap<TensorId, u32>, Stores)>,
}

impl<'a> Assumptions<'a> {
    /// Of a program where these tensors have strides of their own.
    pub fn of(program: &'a Program, strided: &'a Strided) -> Self {
        let nest = &program.nest;
        let mut always: BTreeSet<Kind> = promises(nest).into_iter().map(|p| p.assumption.0).collect();
        let statements = statements(nest);
        indices(nest, &statements, &mut always);
        Assumptions { nest, strided, always, statements, vectors: OnceCell::new() }
    }

    /// All of a variant, in a fixed order.
    pub fn variant(&self, variant: Variant) -> Vec<Assumption> {
        let Assumptions { nest, strided, .. } = self;
        let kernel = &nest.kernel;
        let mut kinds = self.always.clone();
        if variant == Variant::General {
            return kinds.into_iter().map(Assumption).collect();
        }
        let vectors = || (vector_bytes(nest, variant), Stores::of(nest));
        let (vectors, stores) = self.vectors.get_or_init(vectors);

        for (tensor, bytes) in vectors.iter().map(|(tensor, bytes)| (*tensor, *bytes)) {
            let t = &kernel.tensors[tensor.0 as usize];
            kinds.insert(Kind::Aligned { tensor, name: t.name.clone(), bytes });
            let of = (bytes / nest.elem(tensor).bytes()).into();
            if let Some(extent) = t.dims.get(nest.contiguous(tensor)) {
                kinds.extend(multiple(nest, extent, of));
            }
            if strided.contains(&tensor) {
                let strides = strides(nest, tensor).into_iter().filter(|s| s.as_constant().is_none());
                kinds.extend(strides.map(|extent| Kind::Multiple { extent, of }));
            }
        }
        for (digits, accesses) in &self.statements {
            let loops: Vec<Digit> = digits.iter().map(|(d, _)| *d).collect();
            let run = nest.as_run(digits);
            for (axis, a) in kernel.axes.iter().enumerate() {
                let axis = AxisId(axis as u16);
                if variant != Variant::Exact
                    || !loops.iter().any(|d| d.axis == axis)
                    || once_a_tile(nest, axis, &loops)
                {
                    continue;
                }
                let extent = a.extent.clone();
                match ends(nest, axis, &loops) {
                    // Nothing to ask: no guards are needed, or guards stay.
                    Ends::Always | Ends::Never => false,
                    Ends::Multiple(of) => kinds.insert(Kind::Multiple { extent, of }),
                    Ends::Points(points) => kinds.insert(Kind::Equal { extent, points }),
                };
            }
            // A vector is inside an extent or outside as a whole.
            let exchanged = |access: &AccessId| match stores.get(*access) {
                Some(Ok(StorePath::Exchanged(how))) => Some(how.matrices.contiguous()),
                _ => None,
            };
            let rows = accesses.global.iter().find_map(exchanged);
            let vectors = digits.iter().filter_map(|(digit, at)| match (at, digit.steps, digit.stride) {
                (LoopKind::Vec, Steps::Fixed(n), 1) if rows != Some(digit.axis) => {
                    Some((digit.axis, n.into()))
                }
                _ => None,
            });
            for (axis, of) in vectors.chain(rows.map(|axis| (axis, MATRIX_ROWS))) {
                let extent = kernel.axes[usize::from(axis.0)].extent.clone();
                let along = |a: &AccessId| nest.access(*a).index.iter().any(|i| i.coefficient(axis) == 1);
                if accesses.global.iter().any(along) && extent.as_constant().is_none() {
                    kinds.extend(multiple(nest, &extent, of));
                }
            }
            for access in &accesses.all {
                let access = &nest.accesses[access.0 as usize];
                let t = &kernel.tensors[access.tensor.0 as usize];
                let mut order = nest.fastest_first(access.tensor);
                // There offsets have 64 bits, and one step of the slowest dimension 32.
                if nest.is_indexed_by_values(access.tensor) {
                    order.pop();
                }
                if order.is_empty() {
                    continue;
                }
                let reach = order.iter().map(|d| reach_of(nest, &access.index[*d], &run)).collect();
                let strides = strided.contains(&access.tensor).then(|| strides(nest, access.tensor));
                let extents = order.iter().map(|d| t.dims[*d].clone()).collect();
                let pitches = Pitches { extents, strides };
                let offsets = Kind::Offsets { name: t.name.clone(), reach, pitches };
                if t.dims.iter().any(|d| d.as_constant().is_none()) || !holds_always(&offsets) {
                    kinds.insert(offsets);
                }
            }
        }
        kinds.into_iter().map(Assumption).collect()
    }
}

/// That an extent is a multiple of a number, unless it always is.
fn multiple(nest: &Nest, extent: &Extent, of: i64) -> Option<Kind> {
    let known = extent.as_constant().is_none() && nest.is_multiple(extent, of) == Some(true);
    (!known).then(|| Kind::Multiple { extent: extent.clone(), of })
}

/// Whether a statement inside these loops takes no point of an axis but runs once for each of its tiles.
fn once_a_tile(nest: &Nest, axis: AxisId, digits: &[Digit]) -> bool {
    let tile = nest.recurrences.get(&axis).and_then(|r| r.tile).unwrap_or(1);
    let inside = |d: &Digit| d.axis == axis && d.stride < tile && d.steps != Steps::Fixed(1);
    tile > 1 && !digits.iter().any(inside)
}

/// Strides of a tensor that has its own, fastest dimension first.
fn strides(nest: &Nest, id: TensorId) -> Vec<Extent> {
    let tensor = &nest.kernel.tensors[id.0 as usize];
    let order = nest.fastest_first(id);
    let one = std::iter::once(Extent::constant(1));
    let strides = order.iter().skip(1).map(|d| Extent::dim(&stride(tensor, *d)));
    one.chain(strides).take(order.len()).collect()
}

/// Whether a condition holds whatever the dims.
fn holds_always(kind: &Kind) -> bool {
    Assumption(kind.clone()).holds(&BTreeMap::new(), &[])
}

/// What coordinates in 32 bits rely on.
fn indices(nest: &Nest, statements: &[Statement], kinds: &mut BTreeSet<Kind>) {
    let kernel = &nest.kernel;
    let mut slack: BTreeMap<&Extent, i64> = BTreeMap::new();
    for (n, axis) in kernel.axes.iter().enumerate() {
        let known = slack.entry(&axis.extent).or_insert(SLACK);
        *known = slack_of(nest, AxisId(n as u16)).max(*known);
    }
    for extent in kernel.tensors.iter().flat_map(|t| &t.dims) {
        slack.entry(extent).or_insert(SLACK);
    }
    for (extent, slack) in slack {
        let index = Kind::Index { extent: extent.clone(), slack };
        if extent.as_constant().is_none() || !holds_always(&index) {
            kinds.insert(index);
        }
    }
    for (digits, accesses) in statements {
        let loops = nest.as_run(digits);
        for access in &accesses.all {
            let access = &nest.accesses[access.0 as usize];
            let name = &kernel.tensors[access.tensor.0 as usize].name;
            let forms = access.index.iter().enumerate();
            let forms = forms.chain(access.gathered.iter().map(|(dim, gathered)| (*dim, &gathered.form)));
            for (dim, index) in forms {
                if bounded_by_extents(nest, (access, dim), index, &loops) {
                    continue;
                }
                let magnitudes = index.terms.iter().map(|(a, c)| (*a, c.saturating_abs()));
                let size = Affine { terms: magnitudes.collect(), constant: index.constant.saturating_abs() };
                let kind = Kind::Coordinates { name: name.clone(), reach: reach_of(nest, &size, &loops) };
                if !holds_always(&kind) {
                    kinds.insert(kind);
                }
            }
        }
    }
}

/// Room beyond the extent of an axis for the counters of its loops: they pass it by less than a step, and where steps are filled
/// ahead, by as many as a ring has stages.
pub(crate) fn slack_of(nest: &Nest, axis: AxisId) -> i64 {
    let steps = loops(&nest.body).into_iter().filter(|(d, _)| d.axis == axis).map(|(d, at)| {
        let ahead = if let LoopKind::Pipe(stages) = at { i64::from(stages) } else { 1 };
        i64::from(d.stride) * ahead.max(2)
    });
    SLACK.max(steps.max().unwrap_or(1).unsigned_abs().next_power_of_two() as i64)
}

/// Tensors whose indices leave 32 bits, with the greatest one, where each dim is 1: no launch satisfies what they rely on.
pub(crate) fn indices_beyond(nest: &Nest) -> Vec<(String, i64)> {
    let mut kinds = BTreeSet::new();
    indices(nest, &statements(nest), &mut kinds);
    let beyond = kinds.into_iter().filter_map(|kind| {
        let Kind::Coordinates { name, reach } = kind else { return None };
        let dims = reach.terms.iter().flat_map(|(_, extent, ..)| extent.dims.keys());
        let ones: BTreeMap<String, i64> = dims.map(|name| (name.clone(), 1)).collect();
        reach.last(&ones).filter(|last| *last >= 1 << 31).map(|last| (name, last))
    });
    beyond.collect()
}

/// Whether an index stays in 32 bits because the extents do: it is an axis, or inside its tensor, but for a little.
fn bounded_by_extents(
    nest: &Nest,
    (access, dim): (&Access, usize),
    index: &Affine,
    digits: &[Digit],
) -> bool {
    let beyond = index.terms.iter().map(|(axis, c)| match cover(nest, *axis, digits) {
        Cover::Multiple(of) => c.saturating_mul(of),
        Cover::Points(points) => c.saturating_mul(points),
    });
    let beyond = beyond.fold(index.constant.saturating_abs(), i64::saturating_add);
    let mut room = nest.kernel.tensors[access.tensor.0 as usize].dims[dim].clone();
    room.constant -= 1;
    let single = index.terms.len() < 2 && index.terms.values().all(|c| *c == 1);
    let ascending = index.terms.values().all(|c| *c > 0);
    ascending && beyond <= SLACK / 2 && (single || non_negative(&difference(&room, &range(nest, index).1)))
}

fn reach_of(nest: &Nest, index: &Affine, digits: &[Digit]) -> Reach {
    let terms = index.terms.iter().filter(|(_, c)| **c > 0).map(|(axis, c)| {
        let extent = nest.kernel.axes[axis.0 as usize].extent.clone();
        match cover(nest, *axis, digits) {
            Cover::Multiple(of) => (*c, extent, of, true),
            Cover::Points(points) => (*c, extent, points, false),
        }
    });
    Reach { constant: index.constant, terms: terms.collect() }
}

/// The accesses of a statement.
struct Around {
    /// All of them.
    all: Vec<AccessId>,
    /// Those of global memory: the others read copies, which have elements beyond the extents, too.
    global: Vec<AccessId>,
}

/// The loops around a statement, and the accesses that it makes.
type Statement = (Vec<(Digit, LoopKind)>, Around);

fn statements(nest: &Nest) -> Vec<Statement> {
    let mut found = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        let Some((target, expr)) = leaf.leaf() else { return };
        let mut all = expr.accesses();
        let mut global = all.clone();
        global.retain(|access| nest.served_on(path, *access).is_none());
        // Whoever fills a copy reads what says where its elements are.
        let gathered = all.iter().flat_map(|access| nest.access(*access).gathered.values());
        let named: Vec<AccessId> = gathered.flat_map(|gathered| gathered.value.accesses()).collect();
        all.extend(named);
        if let Target::Access(stored) = target {
            all.push(stored);
            global.push(stored);
        }
        found.push((steps(nest, path), Around { all, global }));
    });
    found
}

/// Widest vector in bytes with which a variant accesses each tensor in global memory, where it has vectors.
pub(crate) fn vector_bytes(nest: &Nest, variant: Variant) -> BTreeMap<TensorId, u32> {
    let mut widest = BTreeMap::new();
    if variant == Variant::General {
        return widest;
    }
    let mut moves = |tensor: TensorId, elements: u32| {
        let bytes = elements * nest.elem(tensor).bytes();
        let most = widest.entry(tensor).or_insert(bytes);
        *most = bytes.max(*most);
    };
    // A collected store counts as one by vectors, though boxes of a tensor map store it: how it is aligned is part of the signature of
    // kernels that are compiled, and of what launches are checked for.
    for access in Accesses::of(nest).global() {
        let tensor = nest.access(access.access).tensor;
        if nest.exchanged.contains_key(&tensor) {
            moves(tensor, MATRIX_ROWS as u32);
        }
        access.vector.into_iter().for_each(|vector| moves(tensor, vector.steps));
    }
    let placed = |n: &usize| !nest.bodies(CopyId(*n as u16)).is_empty();
    for of in (0..nest.copies.len()).filter(placed).map(|n| &nest.copies[n]) {
        let size = nest.elem(of.tensor).bytes();
        of.vector.filter(|bytes| *bytes > size).into_iter().for_each(|bytes| moves(of.tensor, bytes / size));
    }
    widest
}
