//! What a launch needs of a scheduled program, worked out once: nothing here depends on arguments.

use crate::{
    cache::Key,
    dims,
    error::Error,
    geometry::{Geometry, Layout},
    memory::lock,
    solve::{Solver, Values},
};
use smallvec::SmallVec;
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, RwLock},
};
use tile_dsl::{
    dtype::DType,
    kernel::Param,
    lower::{self, Condition, Form, Strided},
    program::{Program, Variant},
    schedule::{Schedule, Target},
    tile::{AxisKind, ElemType, TensorId},
};

/// In the order in which a launch tries them.
pub(crate) const VARIANTS: [Variant; 3] = [Variant::Exact, Variant::Aligned, Variant::General];

/// Positions of the tensors that have strides of their own, ascending; empty when all lie without gaps.
pub(crate) type Gaps = SmallVec<[u16; 4]>;

/// A scheduled program with all that a launch asks of it.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) program: Program,
    /// Of the encoded program.
    pub(crate) key: Key,
    pub(crate) kernel: Arc<str>,
    pub(crate) schedule: Arc<str>,
    pub(crate) tensors: Vec<TensorParam>,
    /// Type of each scalar.
    pub(crate) scalars: Vec<ElemType>,
    /// The named dims, then the strides.
    names: Vec<String>,
    named: usize,
    /// `None` when the shapes cannot determine the dims, which every launch reports.
    solver: Option<Solver>,
    /// What the schedule asserts of every launch, with the extents that it is about.
    promises: Vec<(Condition, Form)>,
    /// Extents of the axes whose tiles are spread over CTAs.
    spread: Vec<Form>,
    /// The schedule as `schedule!` takes it.
    text: OnceLock<Arc<str>>,
    dense: OnceLock<Rules>,
    gapped: RwLock<HashMap<Gaps, Arc<Rules>>>,
}

/// A tensor parameter.
#[derive(Debug)]
pub(crate) struct TensorParam {
    pub(crate) elem: ElemType,
    pub(crate) mutable: bool,
    /// Which dimension the schedule was proved to find contiguous.
    pub(crate) layout: Layout,
    /// Position of the stride of each dimension among the dims; the contiguous dimension has none.
    strides: SmallVec<[Option<usize>; 6]>,
}

/// What each variant assumes. Most launches run the first variant: what the others assume is worked out where one does not.
#[derive(Debug)]
pub(crate) struct Rules {
    gaps: Gaps,
    first: Assumed,
    others: OnceLock<[Assumed; 2]>,
}

#[derive(Debug)]
struct Assumed {
    conditions: Vec<Condition>,
    texts: Arc<[String]>,
}

/// [`Rules`] that are kept for ever, or shared.
pub(crate) enum RulesRef<'a> {
    Dense(&'a Rules),
    Gapped(Arc<Rules>),
}

impl std::ops::Deref for RulesRef<'_> {
    type Target = Rules;
    fn deref(&self) -> &Rules {
        match self {
            RulesRef::Dense(rules) => rules,
            RulesRef::Gapped(rules) => rules,
        }
    }
}

type Plans = HashMap<(usize, usize), Arc<Plan>>;

/// Plans of the programs that are embedded in this process, by place and length of their bytes.
static PLANS: LazyLock<Mutex<Plans>> = LazyLock::new(Mutex::default);

impl Plan {
    /// The plan of an embedded program, which is decoded the first time.
    ///
    /// # Errors
    /// [`Error::Program`], naming `schedule`.
    pub(crate) fn embedded(bytes: &'static [u8], schedule: &str) -> Result<Arc<Self>, Error> {
        // Bytes that live for ever and cannot change are the same wherever they are found again.
        let place = (bytes.as_ptr() as usize, bytes.len());
        if let Some(known) = lock(&PLANS).get(&place) {
            return Ok(known.clone());
        }
        let program = Program::from_bytes(bytes)
            .map_err(|source| Error::Program { schedule: schedule.into(), source })?;
        let plan = Arc::new(Self::new(program, bytes));
        Ok(lock(&PLANS).entry(place).or_insert(plan).clone())
    }

    /// The plan of a program, with the bytes that encode it.
    pub(crate) fn new(program: Program, bytes: &[u8]) -> Self {
        let kernel = &program.nest.kernel;
        let extents =
            || kernel.tensors.iter().flat_map(|t| &t.dims).chain(kernel.axes.iter().map(|a| &a.extent));
        let mut names: Vec<String> = Vec::new();
        for name in kernel.tensors.iter().flat_map(|t| &t.dims).flat_map(|e| e.dims.keys()) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let named = names.len();
        let mut tensors = Vec::new();
        for (id, tensor) in (0..).zip(&kernel.tensors) {
            let layout = match program.nest.column_major.contains(&TensorId(id)) {
                true => Layout::ColumnMajor,
                false => Layout::RowMajor,
            };
            let contiguous = layout.fastest_first(tensor.dims.len()).next();
            let strides = (0..tensor.dims.len()).map(|d| {
                (Some(d) != contiguous).then(|| {
                    names.push(lower::stride(tensor, d));
                    names.len() - 1
                })
            });
            let strides = strides.collect();
            tensors.push(TensorParam { elem: tensor.elem, mutable: tensor.mutable, layout, strides });
        }
        // A dim that no tensor has is past all values, where evaluation fails.
        let position = |name: &str| names.iter().position(|n| n == name).unwrap_or(usize::MAX);
        let determined = extents().all(|e| e.dims.keys().all(|name| position(name) < named));
        let solver = determined.then(|| Solver::new(&kernel.tensors, named, position)).flatten();
        let axis = |at: usize| Form::new(&kernel.axes[at].extent, position);
        let spread = kernel.axes.iter().enumerate().filter(|(_, a)| a.kind == AxisKind::Program);
        Plan {
            key: Key::of_program(bytes),
            kernel: kernel.name.as_str().into(),
            schedule: program.schedule.name.as_str().into(),
            scalars: kernel.scalars.iter().map(|s| s.elem).collect(),
            promises: lower::promises(&program.nest)
                .iter()
                .map(|p| (p.assumption.at(position), Form::new(&p.extent, position)))
                .collect(),
            spread: spread.map(|(at, _)| axis(at)).collect(),
            tensors,
            named,
            solver,
            names,
            program,
            text: OnceLock::new(),
            dense: OnceLock::new(),
            gapped: RwLock::default(),
        }
    }

    /// Position of a dim or stride among the [`Values`] of a launch.
    pub(crate) fn position(&self, name: &str) -> usize {
        self.names.iter().position(|n| n == name).unwrap_or(usize::MAX)
    }

    /// The named dims with their values.
    pub(crate) fn dims<'a>(&'a self, values: &'a [i64]) -> impl Iterator<Item = (&'a str, i64)> {
        self.names[..self.named].iter().map(String::as_str).zip(values.iter().copied())
    }

    /// Solves for the named dims and checks what the schedule asserts of the arguments. Sets the values, which are empty, and
    /// adds to the tensors with gaps.
    ///
    /// # Errors
    /// [`Error::Rank`], [`Error::Shape`], [`Error::TooLarge`], [`Error::LayoutMismatch`], [`Error::Promise`].
    pub(crate) fn values<'a>(
        &self,
        geometry: impl Fn(usize) -> &'a Geometry + Copy,
        values: &mut Values,
        gaps: &mut Gaps,
    ) -> Result<(), Error> {
        values.resize(self.names.len(), 0);
        let ranks = self.tensors.iter().enumerate().all(|(t, p)| p.strides.len() == geometry(t).shape.len());
        let solver = self.solver.as_ref().filter(|_| ranks);
        if solver.and_then(|s| s.solve(|t| &geometry(t).shape, values)).is_none() {
            return Err(self.misfit(geometry));
        }
        self.gaps(geometry, values, gaps)?;
        match self.promises.iter().position(|(promise, _)| !promise.holds(values, &[])) {
            Some(broken) => Err(self.broken(broken, values)),
            None => Ok(()),
        }
    }

    /// Why shapes do not fit, in full.
    fn misfit<'a>(&self, geometry: impl Fn(usize) -> &'a Geometry) -> Error {
        let tensors = &self.program.nest.kernel.tensors;
        let shapes: Vec<&[usize]> = (0..tensors.len()).map(|t| &geometry(t).shape[..]).collect();
        match dims::resolve(tensors, &shapes) {
            Err(error) => error,
            Ok(_) => Error::Shape("the shapes do not determine every extent of the kernel".into()),
        }
    }

    fn broken(&self, promise: usize, values: &Values) -> Error {
        let value = self.promises[promise].1.eval(values).unwrap_or(i64::MAX);
        let promise = Box::new(lower::promises(&self.program.nest).swap_remove(promise));
        Error::Promise { schedule: self.schedule.to_string(), promise, value }
    }

    /// The strides of the tensors, and which tensors have gaps.
    fn gaps<'a>(
        &self,
        geometry: impl Fn(usize) -> &'a Geometry,
        values: &mut Values,
        gaps: &mut Gaps,
    ) -> Result<(), Error> {
        let before = gaps.len();
        for (t, param) in self.tensors.iter().enumerate() {
            let g = geometry(t);
            let empty = g.shape.contains(&0);
            let (mut dense, mut gapped) = (1usize, false);
            for d in param.layout.fastest_first(g.shape.len()) {
                // Where there is one index or none, a stride means nothing.
                let stride = if g.shape[d] <= 1 || empty { dense } else { g.strides[d] };
                match param.strides[d] {
                    None if stride != 1 => {
                        let tensor = &self.program.nest.kernel.tensors[t];
                        return Err(Error::LayoutMismatch {
                            name: tensor.name.clone(),
                            shape: g.shape.to_vec(),
                            schedule: self.schedule.to_string(),
                            found: g.layout,
                            expected: param.layout,
                        });
                    }
                    None => {}
                    Some(at) => {
                        gapped |= stride != dense;
                        values[at] = i64::try_from(stride).unwrap_or(i64::MAX);
                    }
                }
                dense = dense.saturating_mul(g.shape[d]);
            }
            if gapped {
                gaps.push(t as u16);
            }
        }
        self.check_strides(&gaps[before..], values)
    }

    /// The kernel takes strides of tensors with gaps as 32-bit parameters.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub(crate) fn check_strides(&self, gaps: &[u16], values: &Values) -> Result<(), Error> {
        for t in gaps {
            let strides = self.tensors[usize::from(*t)].strides.iter().flatten().map(|at| values[*at]);
            if let Some(value) = strides.max().filter(|s| *s > i64::from(i32::MAX)) {
                return Err(Error::TooLarge {
                    what: format!("a stride of `{}`", self.program.nest.kernel.tensors[usize::from(*t)].name),
                    value: value.into(),
                    max: i32::MAX.into(),
                });
            }
        }
        Ok(())
    }

    /// Whether there is nothing to compute: an axis that is spread over CTAs is empty.
    pub(crate) fn is_empty(&self, values: &Values) -> bool {
        self.spread.iter().any(|extent| extent.eval(values) == Some(0))
    }

    /// What the variants assume when these tensors have strides of their own.
    pub(crate) fn rules(&self, gaps: &Gaps) -> RulesRef<'_> {
        if gaps.is_empty() {
            return RulesRef::Dense(self.dense.get_or_init(|| self.assume(gaps)));
        }
        if let Some(known) = self.gapped.read().unwrap_or_else(PoisonError::into_inner).get(gaps) {
            return RulesRef::Gapped(known.clone());
        }
        let rules = Arc::new(self.assume(gaps));
        self.gapped.write().unwrap_or_else(PoisonError::into_inner).insert(gaps.clone(), rules.clone());
        RulesRef::Gapped(rules)
    }

    fn assume(&self, gaps: &Gaps) -> Rules {
        let [first] = self.assumed(gaps, [Variant::Exact]);
        Rules { gaps: gaps.clone(), first, others: OnceLock::new() }
    }

    /// What some variants assume when these tensors have strides of their own.
    fn assumed<const N: usize>(&self, gaps: &Gaps, variants: [Variant; N]) -> [Assumed; N] {
        let strided = strided(gaps);
        let all = lower::Assumptions::of(&self.program, &strided);
        variants.map(|variant| {
            let assumptions = all.variant(variant);
            Assumed {
                conditions: assumptions.iter().map(|a| a.at(|name| self.position(name))).collect(),
                texts: assumptions.iter().map(ToString::to_string).collect(),
            }
        })
    }

    /// What a variant assumes.
    fn rules_of<'r>(&self, rules: &'r Rules, variant: Variant) -> &'r Assumed {
        let make = || self.assumed(&rules.gaps, [Variant::Aligned, Variant::General]);
        let others = || rules.others.get_or_init(make);
        match variant {
            Variant::Exact => &rules.first,
            Variant::Aligned => &others()[0],
            Variant::General => &others()[1],
        }
    }

    /// The assumptions of a variant as text.
    pub(crate) fn texts(&self, rules: &Rules, variant: Variant) -> Arc<[String]> {
        self.rules_of(rules, variant).texts.clone()
    }

    /// The variant asked for, or the first whose assumptions hold, for all problems of a launch.
    ///
    /// # Errors
    /// [`Error::Variant`].
    pub(crate) fn choose<'v>(
        &self,
        rules: &Rules,
        asked: Option<Variant>,
        problems: impl Iterator<Item = (&'v Values, &'v [u64])> + Clone,
    ) -> Result<Variant, Error> {
        let mut candidates = VARIANTS.into_iter().filter(|v| asked.is_none_or(|asked| *v == asked));
        let fits = |v: Variant, (values, bases): (&Values, &[u64])| {
            self.rules_of(rules, v).conditions.iter().all(|c| c.holds(values, bases))
        };
        if let Some(found) = candidates.find(|v| problems.clone().all(|p| fits(*v, p))) {
            return Ok(found);
        }
        let variant = asked.unwrap_or(Variant::General);
        let Assumed { conditions, texts } = self.rules_of(rules, variant);
        let misfit = problems.clone().find(|p| !fits(variant, *p));
        let failed = misfit.into_iter().flat_map(|(values, bases)| {
            let failed = conditions.iter().zip(&**texts).filter(|(c, _)| !c.holds(values, bases));
            failed.map(|(_, text)| text.clone())
        });
        let failed = failed.collect();
        Err(Error::Variant { schedule: self.schedule.to_string(), variant, failed })
    }

    /// No kernel was compiled ahead of time for such a launch, of `known` that were.
    pub(crate) fn not_compiled(
        &self,
        variant: Variant,
        (gaps, grouped): (&Gaps, bool),
        known: usize,
    ) -> Error {
        let tensors = &self.program.nest.kernel.tensors;
        Error::NotCompiled {
            schedule: self.schedule.to_string(),
            dtype: self.dtype(),
            variant,
            grouped,
            gaps: gaps.iter().map(|t| tensors[usize::from(*t)].name.clone()).collect(),
            known,
        }
    }

    /// The schedule with all that it inherits, as `schedule!` takes it.
    pub(crate) fn text(&self) -> Arc<str> {
        let made = || {
            let Schedule { name, kernel, target, directives, .. } = &self.program.schedule;
            let on = if *target == Target::DEFAULT { String::new() } else { format!(" on {target}") };
            let of = self.dtype().map_or(String::new(), |dtype| format!("<{dtype}>"));
            let mut text = format!("{name}{on} for {kernel}{of} {{\n");
            for directive in directives {
                text += &format!("    {directive};\n");
            }
            (text + "}").into()
        };
        self.text.get_or_init(made).clone()
    }

    /// Element type of the generic parameter.
    pub(crate) fn dtype(&self) -> Option<DType> {
        self.program.dtype
    }
}

/// As the compiler calls them.
pub(crate) fn strided(gaps: &Gaps) -> Strided {
    gaps.iter().map(|t| TensorId(*t)).collect()
}

/// Where a parameter of the compiled kernel comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    /// Address of a tensor.
    Tensor(usize),
    /// A dim or a stride.
    Dim(usize),
    /// A scalar.
    Scalar(usize),
    /// Address of a scratch buffer.
    Scratch(usize),
    /// A tensor map, of those of the launch.
    Map(usize),
}

/// Sources of the parameters, in order.
pub(crate) fn words(plan: &Plan, params: &[Param]) -> Vec<Word> {
    let (mut tensors, mut scalars, mut scratch, mut maps) = (0.., 0.., 0.., 0..);
    let next = |counter: &mut std::ops::RangeFrom<usize>| counter.next().expect("endless");
    params
        .iter()
        .map(|param| match param {
            Param::Tensor { .. } => Word::Tensor(next(&mut tensors)),
            Param::Dim(name) => Word::Dim(plan.position(name)),
            Param::Scalar { .. } => Word::Scalar(next(&mut scalars)),
            Param::Scratch { .. } => Word::Scratch(next(&mut scratch)),
            Param::TensorMap { .. } => Word::Map(next(&mut maps)),
        })
        .collect()
}
