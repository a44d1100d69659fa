//! Atoms: instructions that a whole warp executes together, and how their operands lie in its registers.
//!
//! An atom stands in a nest as three loops directly around a `red` of a product, marked `#mma.m`, `#mma.n`, `#mma.k`:
//! the hardware takes all their steps at once. What the loops mean is unchanged. The accumulator's digits lie in lanes
//! and register slots, by the table of the instruction; in this table an instruction is a row.
//!
//! Source: PTX ISA 9.7.15.5 (`mma.sync`, fragments), 9.7.15.5.15 (`ldmatrix`).

use super::rows::{self, Part, Place, Row};
use super::{
    AccessId, CopyId, Digit, Expr, Frame, LoopKind, Nest, Steps, Stmt, Target, ValueId, computed, leaves,
};
use crate::{
    dtype::DType,
    index::AxisId,
    machine::{Space, Unit},
    op::{BinOp, UnOp},
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, SeqAccess, Visitor},
    ser::SerializeTuple,
};
use std::{collections::BTreeSet, fmt};

/// An instruction: a row of the table. It is encoded as the number of the rows that it stands with, followed by its
/// columns in eights if there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Atom {
    /// Index in [`rows::ATOMS`].
    family: u8,
    /// Columns in eights, where there are several numbers of them; otherwise 0.
    eights: u8,
}

impl Serialize for Atom {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let sized = self.is_sized();
        let mut fields = to.serialize_tuple(1 + usize::from(sized))?;
        fields.serialize_element(&u32::from(self.family))?;
        if sized {
            fields.serialize_element(&self.eights)?;
        }
        fields.end()
    }
}

impl<'de> Deserialize<'de> for Atom {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Atom, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Atom;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an instruction")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut fields: A) -> Result<Atom, A::Error> {
                let lacks = |n| de::Error::invalid_length(n, &"an instruction and its columns");
                let family: u32 = fields.next_element()?.ok_or_else(|| lacks(0))?;
                let first = Atom::all().find(|a| u32::from(a.family) == family);
                let first = first.ok_or_else(|| de::Error::custom(format!("no instruction {family}")))?;
                if !first.is_sized() {
                    return Ok(first);
                }
                let eights: u8 = fields.next_element()?.ok_or_else(|| lacks(1))?;
                let atom = Atom { eights, ..first };
                let known = Atom::all().any(|a| a == atom);
                known.then_some(atom).ok_or_else(|| de::Error::custom(format!("{eights} times 8 columns")))
            }
        }
        from.deserialize_tuple(2, Fields)
    }
}

/// What a loop of an atom is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Rows of the accumulator and of the first operand.
    M,
    /// Columns of the accumulator and of the second operand.
    N,
    /// What is summed over.
    K,
}

/// One of the two factors that an atom multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The one with rows of the accumulator.
    A,
    /// The one with columns of the accumulator.
    B,
}

/// The threads that execute a statement together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Each thread by itself.
    Thread,
    /// The 32 lanes of a warp.
    Warp,
    /// Four warps, the first a multiple of four.
    Warpgroup,
}

impl Atom {
    /// `mma` of 16-bit operands.
    pub const MMA: Atom = Atom { family: 0, eights: 0 };

    /// Every instruction.
    pub fn all() -> impl Iterator<Item = Atom> {
        (0..).zip(rows::ATOMS).flat_map(|(family, rows)| {
            let sizes = if rows.len() == 1 { 0..=0 } else { 1..=rows.len() as u8 };
            sizes.map(move |eights| Atom { family, eights }).filter(|atom| atom.row().exists())
        })
    }

    /// Whether there are several numbers of columns.
    fn is_sized(self) -> bool {
        rows::ATOMS[usize::from(self.family)].len() > 1
    }

    /// What is known of it.
    pub fn row(self) -> &'static Row {
        &rows::ATOMS[usize::from(self.family)][usize::from(self.eights.max(1)) - 1]
    }

    /// The same instruction for so many columns.
    pub fn of_columns(self, columns: u32) -> Option<Atom> {
        Atom::all().find(|a| a.family == self.family && a.size(Role::N) == columns)
    }

    /// How directives write the instructions, one for each name.
    pub fn forms() -> Vec<&'static str> {
        let mut forms = Vec::new();
        for row in Atom::all().map(Atom::row) {
            if !forms.contains(&row.example) {
                forms.push(row.example);
            }
        }
        forms
    }

    /// By the name that directives use: `mma`, `wgmma(64, 128)`. Of several rows of one name and shape, the first.
    ///
    /// # Errors
    /// What is wrong with the name or its shape.
    pub fn from_name(name: &str, shape: Option<[u32; 2]>) -> Result<Atom, String> {
        let Some(first) = Atom::all().find(|a| a.row().name == name) else {
            let forms: Vec<String> = Atom::forms().iter().map(|form| format!("`{form}`")).collect();
            return Err(format!("there is no instruction `{name}`: {}", forms.join(", or ")));
        };
        let [rows, ..] = first.row().shape;
        match (first.is_sized(), shape) {
            (false, None) => Ok(first),
            (false, Some(_)) => Err(format!("`{name}` has one shape: write `{name}`")),
            (true, None) => Err(format!("`{name}` needs its rows and columns: `{}`", first.row().example)),
            (true, Some([m, _])) if m != rows => Err(format!("`{name}` takes {rows} rows at once, not {m}")),
            (true, Some([_, n])) => first.of_columns(n).ok_or_else(|| {
                let most = 8 * rows::ATOMS[usize::from(first.family)].len();
                format!("`{name}` takes 8 to {most} columns at once, a multiple of 8, not {n}")
            }),
        }
    }

    /// As the printed IRs name it.
    pub fn label(self) -> String {
        let row = self.row();
        if self.is_sized() { format!("{}{}", row.label, row.shape[1]) } else { row.label.to_string() }
    }

    /// By the name in the printed IRs.
    pub fn from_label(label: &str) -> Option<Atom> {
        Atom::all().find(|a| a.label() == label)
    }

    /// Elements of an operand in a register.
    pub fn each(self) -> usize {
        (4 / self.row().operands[0].0.bytes()) as usize
    }

    /// Elements of an operand that a lane holds.
    pub fn elements(self, operand: Operand) -> u32 {
        let order = match operand {
            Operand::A => self.row().a,
            Operand::B => self.row().b,
        };
        (self.each() as u32) << order.len()
    }

    /// Points along one of its dimensions.
    pub fn size(self, role: Role) -> u32 {
        let [m, n, k] = self.row().shape;
        match role {
            Role::M => m,
            Role::N => n,
            Role::K => k,
        }
    }

    /// The digits of an operand that lanes hold along one of its dimensions, largest stride first: matrices of 8 rows of 16 bytes, in
    /// which lane `4·r + c` holds word `c` of row `r`. Warps of a warpgroup have the rows that they have of the sums.
    pub fn operand(self, operand: Operand, role: Role) -> Vec<Part> {
        let (free, order) = match operand {
            Operand::A => (Role::M, self.row().a),
            Operand::B => (Role::N, self.row().b),
        };
        let at = match role {
            Role::K => 1,
            role if role == free => 0,
            _ => return Vec::new(),
        };
        let matrices = order.iter().map(|step| step[at]).filter(|points| *points > 0);
        let mut parts: Vec<Part> = matrices
            .map(|points| Part { name: "matrix", stride: points, steps: 2, place: Place::Slot })
            .collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.stride));
        match role {
            Role::K => {
                let each = self.each() as u32;
                parts.push(Part { name: "quad", stride: each, steps: 4, place: rows::QUAD });
                if each > 1 {
                    parts.push(Part { name: "pair", stride: 1, steps: each, place: Place::Slot });
                }
            }
            _ => parts.push(Part { name: "row", stride: 1, steps: 8, place: rows::ROW }),
        }
        if role == Role::M {
            let warps = self.row().m.iter().filter(|p| matches!(p.place, Place::Unit(Unit::Warp, _)));
            parts.splice(0..0, warps.copied());
        }
        parts
    }

    /// A digit of an operand, or else of the accumulator, that instructions of this name have and of which this one has one
    /// step. Other digits leave it out.
    pub fn single(self, role: Role, operand: Option<Operand>) -> Option<Part> {
        let row = self.row();
        match (operand, role) {
            (None, Role::N) if row.descriptors && row.shape[1] == 8 => Some(rows::ONE_GROUP),
            (Some(_), Role::K) if self.each() == 1 => Some(rows::ONE_OF_PAIR),
            _ => None,
        }
    }

    /// The digits of the accumulator along one of its dimensions; k has none.
    pub fn parts(self, role: Role) -> &'static [Part] {
        let row = self.row();
        match role {
            Role::M => row.m,
            Role::N => row.n,
            Role::K => &[],
        }
    }
}

impl Part {
    /// Its digit of an axis, given the digit of the atom.
    pub fn digit(&self, of: Digit) -> Digit {
        Digit { axis: of.axis, stride: of.stride * self.stride, steps: Steps::Fixed(self.steps) }
    }

    /// How a loop over it runs in one thread's view.
    pub fn at(&self) -> LoopKind {
        match self.place {
            Place::Slot => LoopKind::Unroll,
            Place::Unit(unit, dim) => LoopKind::Unit(unit, dim),
        }
    }
}

/// A loop as one thread sees it: the loops of an atom fall into lanes and register slots, others are as they are.
pub fn parts(digit: Digit, at: LoopKind) -> Vec<(Digit, LoopKind)> {
    match at {
        LoopKind::Atom(atom, role) => atom.parts(role).iter().map(|p| (p.digit(digit), p.at())).collect(),
        _ => vec![(digit, at)],
    }
}

/// Why an expression is no product that an atom computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoProduct {
    /// It is something else than a product.
    Other,
    /// The product is rounded to a type before it is added.
    Rounded(DType),
}

/// Whether this is an integer type of 8 bits.
fn is_narrow(dtype: DType) -> bool {
    dtype.is_integer() && dtype.bytes() == 1
}

/// A factor of a product, conversions that are exact left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Factor<'e> {
    /// An element of a tensor as it is.
    Load(AccessId),
    /// Anything else: each lane computes the elements that it holds.
    Computed(&'e Expr),
}

impl Factor<'_> {
    /// What is loaded, where forms or where values say: a copy on chip has it as it is.
    pub fn element(&self) -> Option<AccessId> {
        match self {
            Factor::Load(access) | Factor::Computed(Expr::Gather(access, _)) => Some(*access),
            Factor::Computed(_) => None,
        }
    }
}

impl Nest {
    /// The two factors of a product whose terms are added in f32, or in i32.
    ///
    /// # Errors
    /// What else it is.
    pub fn factors<'e>(&self, expr: &'e Expr) -> Result<[Factor<'e>; 2], NoProduct> {
        match expr {
            Expr::Cast(DType::F32, inner) => match self.dtype(inner) {
                // In f32 already, or else rounded.
                DType::F32 => self.factors(inner),
                dtype => self.factors(inner).and(Err(NoProduct::Rounded(dtype))),
            },
            Expr::Bin(BinOp::Mul, x, y) => Ok([self.factor(x), self.factor(y)]),
            _ => Err(NoProduct::Other),
        }
    }

    fn factor<'e>(&self, expr: &'e Expr) -> Factor<'e> {
        let mut exact = expr;
        loop {
            exact = match exact {
                Expr::Cast(to, inner) if *to == self.dtype(inner) => inner,
                Expr::Cast(DType::F32, inner) if self.dtype(inner).is_float() => inner,
                Expr::Cast(DType::I32, inner) if is_narrow(self.dtype(inner)) => inner,
                // What it does to the products is for the atom to say: see `is_rounded`.
                Expr::Un(UnOp::Tf32, inner) => inner,
                _ => break,
            };
        }
        match exact {
            Expr::Load(access) => Factor::Load(*access),
            _ => Factor::Computed(exact),
        }
    }

    /// Element type of a factor.
    pub fn factor_dtype(&self, factor: Factor<'_>) -> DType {
        match factor {
            Factor::Load(access) => self.elem(self.access(access).tensor),
            Factor::Computed(expr) => self.dtype(expr),
        }
    }

    /// The axes that a factor depends on.
    pub fn factor_axes(&self, factor: Factor<'_>) -> BTreeSet<AxisId> {
        match factor {
            Factor::Load(access) => self.access_axes(access),
            Factor::Computed(expr) => {
                let mut axes: BTreeSet<AxisId> = expr.iotas().into_iter().collect();
                axes.extend(expr.accesses().into_iter().flat_map(|a| self.access_axes(a)));
                axes.extend(expr.values().into_iter().flat_map(|v| self.value(v).axes.iter().copied()));
                axes
            }
        }
    }

    /// What a factor is called in messages.
    pub fn factor_name(&self, factor: Factor<'_>) -> String {
        let expr = match factor {
            Factor::Load(access) => return self.tensor(self.access(access).tensor).name.clone(),
            Factor::Computed(expr) => expr,
        };
        let value = expr.values().first().map(|v| self.value(*v).name.clone());
        let load = || expr.accesses().first().map(|a| self.tensor(self.access(*a).tensor).name.clone());
        value.or_else(load).unwrap_or_else(|| "a constant".into())
    }

    /// Element type of an expression.
    pub fn dtype(&self, expr: &Expr) -> DType {
        match expr {
            Expr::Load(access) | Expr::Gather(access, _) => self.elem(self.access(*access).tensor),
            Expr::Scatter { value, .. } => self.dtype(value),
            Expr::Get(value) => self.value(*value).dtype,
            Expr::Const(_, dtype) | Expr::Cast(dtype, _) => *dtype,
            Expr::Scalar(scalar) => self.scalar_dtype(*scalar),
            Expr::Iota(_) | Expr::Edge(..) | Expr::Dim(_) => DType::I32,
            Expr::Cmp(..) => DType::Bool,
            Expr::Un(op, x) => op.result(self.dtype(x)),
            Expr::Bin(_, x, _) | Expr::Select(_, x, _) => self.dtype(x),
        }
    }

    /// Whether both factors of a product are f32 and rounded to tf32.
    pub fn rounds(&self, product: &Expr) -> bool {
        match product {
            Expr::Cast(_, inner) => self.rounds(inner),
            Expr::Bin(BinOp::Mul, x, y) => self.is_rounded(x) && self.is_rounded(y),
            _ => false,
        }
    }

    /// Whether a factor of a product is f32 and rounded to tf32; numbers of 16 or 8 bits are not changed by that.
    pub fn is_rounded(&self, factor: &Expr) -> bool {
        match factor {
            Expr::Un(UnOp::Tf32, inner) => self.factor_dtype(self.factor(inner)) == DType::F32,
            Expr::Cast(_, inner) => self.is_rounded(inner),
            _ => false,
        }
    }

    /// Whether the elements of a copy are rounded to tf32 on their way: an instruction reads them by itself, and cuts off
    /// what tf32 lacks.
    pub fn rounds_copy(&self, copy: CopyId) -> bool {
        let mut rounds = false;
        leaves(&self.body, &mut |path, leaf| {
            let Some(product) = self.product(path, leaf) else { return };
            let row = product.atom.row();
            let reads = |factor: Factor<'_>| match factor {
                Factor::Load(access) => copy_on(self, path, access).is_some_and(|(_, c)| c == copy),
                Factor::Computed(_) => false,
            };
            rounds |= row.descriptors && row.rounded && product.factors.into_iter().any(reads);
        });
        rounds
    }

    /// The axes that the index of an access mentions.
    pub fn access_axes(&self, access: AccessId) -> BTreeSet<AxisId> {
        self.access(access).axes()
    }

    /// Whether a load is zero beyond the extent of an axis, because the tensor ends there.
    pub fn ends_with(&self, access: AccessId, axis: AxisId) -> bool {
        let access = self.access(access);
        let extent = &self.kernel.axes[usize::from(axis.0)].extent;
        let dims = &self.tensor(access.tensor).dims;
        // Copies have nothing in rows beyond the end of their axis.
        let rows = access.gathered.values().any(|gathered| gathered.row == Some(axis));
        let mut forms =
            access.index.iter().zip(dims).enumerate().filter(|(n, _)| !access.gathered.contains_key(n));
        rows || forms.any(|(_, (i, d))| i.as_axis() == Some(axis) && d == extent)
    }
}

impl Nest {
    /// The loops of a path as one thread sees them where its leaf writes or reads a value: once for each place in the leaf
    /// that may see them differently.
    pub fn views(&self, path: &[Frame], leaf: &Stmt, value: ValueId) -> Vec<Vec<(Digit, LoopKind)>> {
        let loops = || path.iter().filter_map(Frame::step);
        let Some((target, expr)) = leaf.leaf() else { return Vec::new() };
        let mut views = Vec::new();
        if target == Target::Value(value) {
            views.push(loops().flat_map(|(d, at)| parts(d, at)).collect());
        }
        if !expr.values().contains(&value) {
            return views;
        }
        let Some(product) = self.product(path, leaf) else {
            views.push(loops().collect());
            return views;
        };
        for (operand, factor) in [Operand::A, Operand::B].into_iter().zip(product.factors) {
            if let Factor::Computed(expr) = factor
                && expr.values().contains(&value)
            {
                let how = (operand, self.computed(&product, operand));
                views.push(loops().flat_map(|step| computed::seen(step, how)).collect());
            }
        }
        views
    }

    /// The atom that a leaf is, if it is one.
    pub fn product<'e>(&self, path: &[Frame], leaf: &'e Stmt) -> Option<Product<'e>> {
        let Stmt::Red { expr, .. } = leaf else { return None };
        let digit = |role| {
            path.iter().find_map(|f| match f {
                Frame::For(d, LoopKind::Atom(atom, r)) if *r == role => Some((*d, *atom)),
                _ => None,
            })
        };
        let ((m, atom), (n, _), (k, _)) = (digit(Role::M)?, digit(Role::N)?, digit(Role::K)?);
        Some(Product { atom, factors: self.operands(expr, m.axis)?, digits: [m, n, k] })
    }

    /// The factors of a product, the one with rows of the accumulator first.
    pub fn operands<'e>(&self, expr: &'e Expr, m: AxisId) -> Option<[Factor<'e>; 2]> {
        let [x, y] = self.factors(expr).ok()?;
        Some(if self.factor_axes(x).contains(&m) { [x, y] } else { [y, x] })
    }
}

/// The statement of an atom.
#[derive(Clone, Copy, Debug)]
pub struct Product<'e> {
    /// The instruction.
    pub atom: Atom,
    /// First and second operand.
    pub factors: [Factor<'e>; 2],
    /// The digits of m, n and k.
    pub digits: [Digit; 3],
}

impl<'e> Product<'e> {
    /// The factor that is an operand.
    pub fn factor(&self, operand: Operand) -> Factor<'e> {
        self.factors[usize::from(operand == Operand::B)]
    }
}

/// The innermost copy in shared memory on a path that an access is read from, with its place on it.
pub fn copy_on(nest: &Nest, path: &[Frame], access: AccessId) -> Option<(usize, CopyId)> {
    path.iter().enumerate().rev().find_map(|(n, f)| match f {
        Frame::Stage(c) if nest.copy(*c).space == Space::Shared && nest.serves(*c, access) => Some((n, *c)),
        _ => None,
    })
}

/// As directives name it.
impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { name, shape: [m, n, _], .. } = self.row();
        if self.is_sized() { write!(f, "{name}({m}, {n})") } else { f.write_str(name) }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::M => "m",
            Role::N => "n",
            Role::K => "k",
        })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scope::Thread => "thread",
            Scope::Warp => "warp",
            Scope::Warpgroup => "warpgroup",
        })
    }
}
