//! Loops that compute a value a step ahead (`skew`).
//!
//! ```text
//! for j { s = q · k[j]; .. p = f(s); .. o += p · v[j]; .. }
//! →
//! s = q · k[0]
//! for j { .. p = f(s); .. s = q · k[j + 1]; o += p · v[j]; .. }      // the last step computes no s
//! ```
//! Both products of a step are then on their way together, and the tensor cores have the second one left while the threads go on with
//! the next value. The copies that the value reads are a channel of their own, which is a step ahead of the others.
//! Source: software pipelining (Lam, PLDI 1988); for attention, FlashAttention-3 (Shah and others, 2024).

use super::{
    CopyId, Digit, Factor, Frame, LoopKind, Nest, Placement, Steps, Stmt, Target, ValueId, chain, leaves,
};
use std::collections::BTreeSet;

/// How a loop computes a value a step ahead. The statements behind that of the value are counted from 0, see [`statements`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Skew {
    /// The loop.
    pub digit: Digit,
    /// The value.
    pub value: ValueId,
    /// The copies that its products read: a step ahead.
    pub ahead: Vec<CopyId>,
    /// Those that the other statements read.
    pub behind: Vec<CopyId>,
    /// The statement before which the products of the step before are waited for.
    pub waits: usize,
    /// The statement of products before which those of the next step's value are issued.
    pub issues: usize,
    /// What the products of that statement add to.
    pub sums: Vec<ValueId>,
    /// What the statements before the wait compute and others read: it is computed before the wait.
    pub computed: Vec<ValueId>,
}

/// Why a loop does not compute a value a step ahead.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Unskewed {
    /// It is not what the steps of a pipelined loop begin with.
    Apart(ValueId),
    /// The loop has no producer.
    Unproduced(ValueId, Digit),
    /// Its steps run backwards for some tiles.
    Backwards(ValueId, Digit),
    /// Groups take turns.
    Turns(ValueId),
    /// It is not computed by asynchronous MMA alone.
    NoProducts(ValueId),
    /// A factor of it is computed from this value in each step.
    Computed(ValueId, ValueId),
    /// Units hold parts of it.
    Parts(ValueId),
    /// It is held in shared memory.
    Shared(ValueId),
    /// A loop inside runs at run time.
    RunTime(ValueId, Digit),
    /// Its products and other statements read this copy.
    Both(ValueId, CopyId),
    /// Its products, or the other statements, read no copy of the loop.
    NoCopies(ValueId, Digit),
    /// No other product of a step follows.
    Alone(ValueId, Digit),
    /// This reads it where its registers are those of the next step.
    Read(ValueId, Target),
    /// This needs the sums of the step's products in the same step.
    Summed(ValueId, ValueId, Target),
}

impl Unskewed {
    /// The value.
    pub fn value(&self) -> ValueId {
        match self {
            Unskewed::Apart(v)
            | Unskewed::Unproduced(v, _)
            | Unskewed::Backwards(v, _)
            | Unskewed::Turns(v)
            | Unskewed::NoProducts(v)
            | Unskewed::Computed(v, _)
            | Unskewed::Parts(v)
            | Unskewed::Shared(v)
            | Unskewed::RunTime(v, _)
            | Unskewed::Both(v, _)
            | Unskewed::NoCopies(v, _)
            | Unskewed::Alone(v, _)
            | Unskewed::Read(v, _)
            | Unskewed::Summed(v, ..) => *v,
        }
    }

    /// In words.
    pub fn text(&self, nest: &Nest) -> String {
        let name = |v: &ValueId| &nest.value(*v).name;
        let own = name(&self.value());
        let target = |target: &Target| match target {
            Target::Value(value) => name(value).clone(),
            Target::Access(access) => nest.tensor(nest.access(*access).tensor).name.clone(),
        };
        let why = match self {
            Unskewed::Apart(_) => "it is not what the steps of a pipelined loop begin with".to_string(),
            Unskewed::Unproduced(_, digit) => format!(
                "`{}` has no producer, which would fill the stages that it reads a step ahead",
                nest.digit_name(*digit)
            ),
            Unskewed::Backwards(_, digit) => {
                format!("steps of `{}` run backwards for every second tile", nest.digit_name(*digit))
            }
            Unskewed::Turns(_) => "groups take turns, and a turn ends with the products of a step".into(),
            Unskewed::NoProducts(_) => {
                "it is not computed by asynchronous MMAs alone, which go on while threads compute".into()
            }
            Unskewed::Computed(_, other) => {
                format!("each step computes its rows from `{}` into registers", name(other))
            }
            Unskewed::Parts(_) => "units hold parts of it, which they add up at a barrier".into(),
            Unskewed::Shared(_) => {
                "it is held in shared memory, where threads read it behind a barrier in its own step".into()
            }
            Unskewed::RunTime(_, digit) => {
                format!("the loop over `{}` runs at run time", nest.digit_name(*digit))
            }
            Unskewed::Both(_, copy) => format!(
                "`{}` is read by its products and by other statements: its stage would be free for the one and not for the others",
                nest.copy_name(*copy)
            ),
            Unskewed::NoCopies(_, digit) => format!(
                "its products and those behind them have to read copies of `{}` each",
                nest.digit_name(*digit)
            ),
            Unskewed::Alone(_, digit) => {
                format!("no other asynchronous MMAs follow in a step of `{}`", nest.digit_name(*digit))
            }
            Unskewed::Read(_, by) => format!(
                "`{}` reads it where the next step's has its registers: beside or behind the products that follow",
                target(by)
            ),
            Unskewed::Summed(_, sum, by) => format!(
                "`{}` needs `{}` in the step that adds to it, and its products are waited for in the next one",
                target(by),
                name(sum)
            ),
        };
        format!("`{own}` cannot be computed a step ahead: {why}")
    }
}

/// The statements of a sequence of `let`s, each with the values of its `let`.
fn statements(stmt: &Stmt) -> Vec<(&[ValueId], &Stmt)> {
    let (mut found, mut rest) = (Vec::new(), stmt);
    while let Stmt::Let { values, first, rest: behind } = rest {
        found.push((&values[..], &**first));
        rest = behind;
    }
    found.push((&[], rest));
    found
}

/// A statement, with what it reads and writes.
#[derive(Default)]
struct Uses {
    read: BTreeSet<ValueId>,
    targets: Vec<Target>,
    copies: BTreeSet<CopyId>,
    /// Whether some of it is asynchronous MMA, and whether all of it is.
    multiplies: bool,
    products: bool,
    /// A value that a factor of these is computed from.
    computed: Option<ValueId>,
    /// A loop at run time inside.
    runs: Option<Digit>,
}

impl Uses {
    fn of(nest: &Nest, copies: &[CopyId], stmt: &Stmt) -> Uses {
        let mut uses = Uses::default();
        let mut others = false;
        leaves(stmt, &mut |path, leaf| {
            let (target, expr) = leaf.leaf().expect("a leaf");
            uses.read.extend(expr.values());
            uses.targets.push(target);
            let accesses = expr.accesses();
            uses.copies.extend(copies.iter().filter(|c| accesses.iter().any(|a| nest.serves(**c, *a))));
            let product = nest.product(path, leaf).filter(|p| p.atom.row().descriptors);
            others |= product.is_none();
            uses.multiplies |= product.is_some();
            let mut factors = product.into_iter().flat_map(|product| product.factors);
            let computed = factors.find_map(|factor| match factor {
                Factor::Computed(expr) => expr.values().into_iter().next(),
                Factor::Load(_) => None,
            });
            uses.computed = uses.computed.or(computed);
            let runs = path.iter().find_map(|frame| match frame {
                Frame::For(d, LoopKind::Seq | LoopKind::Pipe(_)) if d.steps != Steps::Fixed(1) => Some(*d),
                _ => None,
            });
            uses.runs = uses.runs.or(runs);
        });
        uses.products = uses.multiplies && !others;
        uses
    }

    fn writes(&self, value: ValueId) -> bool {
        self.targets.contains(&Target::Value(value))
    }

    fn touches(&self, values: &[ValueId]) -> bool {
        values.iter().any(|v| self.read.contains(v) || self.writes(*v))
    }
}

impl Nest {
    /// The loops that compute a value a step ahead, or why they do not, in the order of the values.
    pub(crate) fn skews(&self) -> Vec<Result<Skew, Unskewed>> {
        let of = |value: &ValueId| {
            let mut found = None;
            self.body.each(&mut |stmt| {
                if let Stmt::For { digit, at: LoopKind::Pipe(2..), body } = stmt {
                    let (copies, inner) = chain(body);
                    let begins = matches!(inner, Stmt::Let { values, .. } if values[..] == [*value]);
                    if begins && found.is_none() {
                        found = Some(Skew::of(self, *digit, &copies, inner, *value));
                    }
                }
            });
            found.unwrap_or(Err(Unskewed::Apart(*value)))
        };
        self.ahead.iter().map(of).collect()
    }

    /// How a pipelined loop with these copies around this statement computes a value a step ahead, if it does.
    pub(crate) fn skew_of(&self, digit: Digit, copies: &[CopyId], body: &Stmt) -> Option<Skew> {
        let Stmt::Let { values, .. } = body else { return None };
        let value = values.iter().find(|v| self.ahead.contains(v))?;
        Skew::of(self, digit, copies, body, *value).ok()
    }

    /// The copies of a loop by the channel that they are in: those of a value that is computed a step ahead are apart.
    pub(crate) fn in_channels(&self, digit: Digit, copies: &[CopyId], body: &Stmt) -> Vec<Vec<CopyId>> {
        match self.skew_of(digit, copies, body) {
            Some(Skew { ahead, behind, .. }) => vec![ahead, behind],
            None => vec![copies.to_vec()],
        }
    }
}

impl Skew {
    fn of(
        nest: &Nest,
        digit: Digit,
        copies: &[CopyId],
        body: &Stmt,
        value: ValueId,
    ) -> Result<Skew, Unskewed> {
        let Stmt::Let { first, rest, .. } = body else { return Err(Unskewed::Apart(value)) };
        if !nest.produced.contains(&digit) {
            return Err(Unskewed::Unproduced(value, digit));
        }
        if nest.alternate.contains(&digit) {
            return Err(Unskewed::Backwards(value, digit));
        }
        if nest.pingpong.is_some() {
            return Err(Unskewed::Turns(value));
        }
        let own = Uses::of(nest, copies, first);
        if !own.products || own.targets.iter().any(|t| *t != Target::Value(value)) {
            return Err(Unskewed::NoProducts(value));
        }
        if let Some(other) = own.computed {
            return Err(Unskewed::Computed(value, other));
        }
        if nest.across.contains_key(&value) || nest.combine.contains_key(&value) {
            return Err(Unskewed::Parts(value));
        }
        if nest.value(value).placement == Placement::Shared {
            return Err(Unskewed::Shared(value));
        }
        let sequence = statements(rest);
        let rest: Vec<Uses> = sequence.iter().map(|(_, stmt)| Uses::of(nest, copies, stmt)).collect();
        let issues = rest.iter().position(|uses| uses.multiplies);
        let issues = issues.filter(|n| rest[*n].products).ok_or(Unskewed::Alone(value, digit))?;
        if let Some(digit) = own.runs.or(rest[issues].runs) {
            return Err(Unskewed::RunTime(value, digit));
        }
        let mut sums: Vec<ValueId> = Vec::new();
        for target in &rest[issues].targets {
            if let Target::Value(sum) = target
                && !sums.contains(sum)
            {
                sums.push(*sum);
            }
        }
        for (n, uses) in rest.iter().enumerate().skip(issues) {
            let target = uses.targets.first().copied().unwrap_or(Target::Value(value));
            if uses.read.contains(&value) {
                return Err(Unskewed::Read(value, target));
            }
            if n > issues && uses.touches(&sums) {
                return Err(Unskewed::Summed(value, sums[0], target));
            }
        }
        let read = |copy: &&CopyId| rest.iter().any(|uses| uses.copies.contains(copy));
        let (behind, ahead): (Vec<CopyId>, Vec<CopyId>) = copies.iter().partition(read);
        if let Some(copy) = own.copies.iter().find(|copy| behind.contains(copy)) {
            return Err(Unskewed::Both(value, *copy));
        }
        if ahead.is_empty() || behind.is_empty() {
            return Err(Unskewed::NoCopies(value, digit));
        }
        let awaited =
            |uses: &Uses| uses.touches(&sums) || uses.copies.iter().any(|copy| behind.contains(copy));
        let waits = rest.iter().position(awaited).unwrap_or(issues).min(issues);
        let (before, after) = rest.split_at(waits);
        let written = before.iter().flat_map(|uses| &uses.targets).filter_map(|target| match target {
            Target::Value(v) if !sums.contains(v) => Some(*v),
            _ => None,
        });
        // What starts outside goes on to the next step. What a statement has for itself alone has ended with it.
        let own = body.bound_values();
        let read = |v: &ValueId| after.iter().any(|uses| uses.read.contains(v));
        let in_scope = |v: &ValueId| sequence.iter().take(waits).any(|(values, _)| values.contains(v));
        let needed = |v: &ValueId| in_scope(v) && read(v) || !own.contains(v);
        let computed: BTreeSet<ValueId> = written.filter(needed).collect();
        let computed = computed.into_iter().collect();
        Ok(Skew { digit, value, ahead, behind, waits, issues, sums, computed })
    }

    /// In words.
    pub fn text(&self, nest: &Nest) -> String {
        let names = |values: &[ValueId]| {
            let names: Vec<&str> = values.iter().map(|v| &*nest.value(*v).name).collect();
            names.join(", ")
        };
        format!(
            "read a step ahead for {}, while products of {} are on their way",
            names(&[self.value]),
            names(&self.sums)
        )
    }
}
