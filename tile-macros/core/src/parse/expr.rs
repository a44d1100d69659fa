//! Expressions and indices of a kernel body.

use super::kernel::{Binding, Reader, call, list, source};
use quote::ToTokens;
use syn::{Expr, GenericArgument, Lit, PathArguments};
use tile_dsl::{
    diagnostic::near,
    dtype::DType,
    index::AxisId,
    op::{BinOp, CmpOp, RedOp, UnOp},
    span::SpanId,
    tile::{self, ElemType, ExprKind, Form, Operation},
};

impl Reader<'_> {
    /// Reads a value; `None` when it has mistakes, which are then reported.
    pub(super) fn expr(&mut self, expr: &Expr) -> Option<tile::Expr> {
        let kind = match expr {
            Expr::Paren(p) => return self.expr(&p.expr),
            Expr::Group(g) => return self.expr(&g.expr),
            Expr::Lit(lit) => {
                self.within(Some(Operation::Form(Form::Number)), |reader| reader.literal(&lit.lit, 1.0))?
            }
            Expr::Path(path) => self.within(None, |reader| reader.path(path))?,
            Expr::Unary(unary) => self.within(None, |reader| reader.unary(unary))?,
            Expr::Binary(binary) => self.within(None, |reader| reader.binary(binary))?,
            Expr::Call(_) => {
                let operation = call(expr).and_then(|(name, _)| called(&name));
                self.within(operation, |reader| reader.call(expr))?
            }
            Expr::MethodCall(method) => {
                let operation = called(&method.method.to_string());
                self.within(operation, |reader| reader.method(method))?
            }
            other => return self.within(meant(other), |reader| reader.unsupported(other)),
        };
        let read = tile::Expr { kind, span: self.spans.of(expr) };
        if let Some(operation) = Operation::of(&read) {
            self.spans.describe(read.span, operation.place());
        }
        Some(read)
    }

    fn unsupported(&mut self, expr: &Expr) -> Option<tile::Expr> {
        let (what, help): (&str, &str) = match expr {
            Expr::If(choice) if chosen(choice).is_none() => {
                ("`if` as a value", "choose element by element: `select(condition, a, b)`")
            }
            Expr::Match(_) => ("`match`", "choose element by element: `select(condition, a, b)`"),
            Expr::Closure(_) => {
                ("a closure", "write its body where it is used; operations on tiles are elementwise")
            }
            Expr::Index(index) => {
                let at = match &*index.index {
                    Expr::Tuple(tuple) => tuple.elems.iter().map(source).collect::<Vec<_>>().join(", "),
                    Expr::Array(array) => array.elems.iter().map(source).collect::<Vec<_>>().join(", "),
                    other => source(other),
                };
                let load = format!("load({}, [{at}])", source(&index.expr));
                return self.mend(expr, "indexing is not supported in a kernel", expr, load);
            }
            Expr::Cast(cast) => {
                let cast = format!("{}.cast::<{}>()", source(&cast.expr), source(&cast.ty));
                return self.mend(expr, "`as` is not supported in a kernel", expr, cast);
            }
            Expr::Reference(reference) => {
                let value = source(&reference.expr);
                return self.mend(expr, "a reference is not supported in a kernel", expr, value);
            }
            Expr::If(choice) => {
                let select = chosen(choice)?;
                return self.mend(expr, "`if` is not supported in a kernel", expr, select);
            }
            Expr::While(_) | Expr::Loop(_) => ("this loop", "loop over an axis: `for k in tiles(K) { .. }`"),
            Expr::ForLoop(_) => ("a loop as a value", "assign to a `let mut` value inside the loop"),
            Expr::Block(_) => ("a block as a value", "bind the intermediate values before"),
            Expr::Array(_) | Expr::Repeat(_) => {
                ("an array as a value", "make a tile: `zeros::<f32>([i, j])` or `full::<f32>(1.0, [i, j])`")
            }
            Expr::Tuple(_) => ("a tuple", "bind each value to a name of its own"),
            Expr::Range(_) => ("a range", "loop over an axis: `for k in tiles(K) { .. }`"),
            Expr::Macro(_) => ("a macro", "write the expression out"),
            Expr::Field(_) => ("a field", "values are tiles: use the functions of `tilewright::dsl`"),
            Expr::Unsafe(_) => ("`unsafe`", "remove it"),
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => {
                ("a jump", "use `select(condition, a, b)`")
            }
            _ => ("this expression", "see the functions of `tilewright::dsl`"),
        };
        self.fail(expr, format!("{what} is not supported in a kernel"), help)
    }

    fn literal(&mut self, lit: &Lit, sign: f64) -> Option<ExprKind> {
        let (value, suffix) = match lit {
            Lit::Bool(x) if sign > 0.0 => {
                let value = u8::from(x.value).into();
                return Some(ExprKind::Const { value, elem: Some(ElemType::Fixed(DType::Bool)) });
            }
            Lit::Float(x) => (x.base10_parse::<f64>().ok()?, x.suffix()),
            Lit::Int(x) => (x.base10_parse::<f64>().ok()?, x.suffix()),
            _ => {
                return self.fail(
                    lit,
                    "this literal is not a number",
                    "values are numbers, `true` and `false`",
                );
            }
        };
        let elem = match suffix {
            "" => None,
            "f32" => Some(ElemType::Fixed(DType::F32)),
            name if let Some(dtype) = DType::integers().find(|d| d.name() == name) => {
                Some(ElemType::Fixed(dtype))
            }
            other => {
                let digits = lit.to_token_stream().to_string();
                let digits = digits.strip_suffix(other).unwrap_or(&digits).trim_end_matches('_').to_string();
                return self.mend(lit, format!("`{other}` is not an element type"), lit, digits);
            }
        };
        Some(ExprKind::Const { value: sign * value, elem })
    }

    fn path(&mut self, path: &syn::ExprPath) -> Option<ExprKind> {
        let Some(name) = path.path.get_ident() else { return self.constant(path) };
        let text = name.to_string();
        match self.lookup(&text) {
            Some(Binding::Var(var, _)) => Some(ExprKind::Var(var)),
            Some(Binding::Scalar(scalar)) => Some(ExprKind::Scalar(scalar)),
            Some(Binding::Axis(axis)) => Some(ExprKind::Iota(axis)),
            Some(Binding::Tensor(_)) => self.fail(
                name,
                format!("`{text}` is a tensor, not a value"),
                &format!("read it: `load({text}, [..])`"),
            ),
            Some(Binding::Broken) => None,
            None if self.dims().contains(&text) => Some(ExprKind::Dim(text)),
            None => {
                let names = self.names();
                let message = format!("cannot find `{text}` in this kernel");
                match names.iter().find(|n| near(n, &text)) {
                    Some(meant) => self.mend(name, message, name, meant),
                    None => self.fail(name, message, &format!("names in scope are {}", list(&names))),
                }
            }
        }
    }

    /// `f32::INFINITY` and the like.
    fn constant(&mut self, path: &syn::ExprPath) -> Option<ExprKind> {
        let text = path.path.to_token_stream().to_string().replace(' ', "");
        let value = match text.as_str() {
            text if let Some((dtype, value)) = extreme(text) => {
                return Some(ExprKind::Const { value: value as f64, elem: Some(ElemType::Fixed(dtype)) });
            }
            "f32::INFINITY" => f64::INFINITY,
            "f32::NEG_INFINITY" => f64::NEG_INFINITY,
            "f32::MAX" => f64::from(f32::MAX),
            "f32::MIN" => f64::from(f32::MIN),
            "f32::MIN_POSITIVE" => f64::from(f32::MIN_POSITIVE),
            "f32::EPSILON" => f64::from(f32::EPSILON),
            _ => {
                let help = "use a literal, a scalar argument, or `f32::INFINITY`, `f32::NEG_INFINITY`, `f32::MAX`, `f32::MIN`, `f32::MIN_POSITIVE`, `f32::EPSILON`, `i32::MAX`, `i32::MIN`, and those of `u32`, `i8`, `u8`";
                return self.fail(path, "constants from outside the kernel are not visible in it", help);
            }
        };
        Some(ExprKind::Const { value, elem: Some(ElemType::Fixed(DType::F32)) })
    }

    fn unary(&mut self, unary: &syn::ExprUnary) -> Option<ExprKind> {
        let op = match unary.op {
            syn::UnOp::Neg(_) => {
                if let Expr::Lit(lit) = &*unary.expr {
                    return self.literal(&lit.lit, -1.0);
                }
                UnOp::Neg
            }
            syn::UnOp::Not(_) => UnOp::Not,
            _ => {
                let value = source(&unary.expr);
                return self.mend(unary, "dereferencing is not supported in a kernel", unary, value);
            }
        };
        Some(ExprKind::Un(op, Box::new(self.expr(&unary.expr)?)))
    }

    fn binary(&mut self, binary: &syn::ExprBinary) -> Option<ExprKind> {
        enum Op {
            Bin(BinOp),
            Cmp(CmpOp),
        }
        let symbol = binary.op.to_token_stream().to_string();
        let op = match (BinOp::from_symbol(&symbol), CmpOp::from_name(&symbol)) {
            (Some(op), _) => Op::Bin(op),
            (_, Some(op)) => Op::Cmp(op),
            _ => {
                return self.fail(
                    binary,
                    format!("the operator `{symbol}` is not supported in a kernel"),
                    "operators are + - * / % == != < <= > >= & | ^ << >>",
                );
            }
        };
        let (a, b) = (self.expr(&binary.left), self.expr(&binary.right));
        let (a, b) = (Box::new(a?), Box::new(b?));
        Some(match op {
            Op::Bin(op) => ExprKind::Bin(op, a, b),
            Op::Cmp(op) => ExprKind::Cmp(op, a, b),
        })
    }

    /// The axis that a function goes along.
    fn along(&mut self, axis: &Expr, form: Form) -> Option<AxisId> {
        let found = self.as_axis(axis);
        if found.is_some() || self.is_broken(axis) {
            return found;
        }
        let axes = list(&self.axis_names());
        let help = format!("the form is `{}`; the axes of this kernel are {axes}", form.usage());
        self.fail(axis, format!("`{}` is over an axis", form.name()), &help)
    }

    fn call(&mut self, expr: &Expr) -> Option<ExprKind> {
        let Some((name, args)) = call(expr) else {
            return self.fail(expr, "this call is not supported in a kernel", &functions());
        };
        match (Form::called(&name), name.as_str(), args.as_slice()) {
            (Some(Form::Load), _, [tensor, index]) => {
                let (tensor, index) = (self.tensor(tensor, "load(x, [i, j])"), self.index(index));
                Some(ExprKind::Load { tensor: tensor?, index: index? })
            }
            (Some(Form::Zeros), _, [axes]) => {
                let (elem, axes) = (self.turbofish(expr, &name), self.axis_list(axes));
                Some(ExprKind::Full { value: 0.0, elem: elem?, axes: axes? })
            }
            (Some(Form::Full), _, [value, axes]) => {
                let (elem, axes) = (self.turbofish(expr, &name), self.axis_list(axes));
                let value = match self.expr(value)?.kind {
                    ExprKind::Const { value: given, elem: of } => {
                        let truth = Some(ElemType::Fixed(DType::Bool));
                        match (elem == truth, of == truth) {
                            (true, false) => {
                                let truth = (given != 0.0).to_string();
                                return self.mend(value, "this is not a bool", value, truth);
                            }
                            (false, true) => {
                                let number = u8::from(given != 0.0).to_string();
                                return self.mend(value, "this is not a number", value, number);
                            }
                            _ => given,
                        }
                    }
                    _ => {
                        return self.fail(
                            value,
                            "`full` takes a number",
                            "add a value to a tile of zeros: `zeros::<f32>([i, j]) + x`",
                        );
                    }
                };
                Some(ExprKind::Full { value, elem: elem?, axes: axes? })
            }
            (Some(Form::Dot), _, [a, b, acc]) => {
                let (a, b, acc) = (self.expr(a), self.expr(b), self.expr(acc));
                Some(ExprKind::Dot(Box::new(a?), Box::new(b?), Box::new(acc?)))
            }
            (Some(Form::Dot), _, [a, b, acc, precision]) => {
                let (a, b, acc) = (self.expr(a), self.expr(b), self.expr(acc));
                if !matches!(precision, Expr::Path(p) if p.path.is_ident("tf32")) {
                    return self.fail(
                        precision,
                        "this is no precision of `dot`",
                        "`dot(a, b, acc, tf32)` rounds both factors to tf32, and `dot(a, b, acc)` leaves them as they are",
                    );
                }
                Some(ExprKind::Dot(Box::new(a?.tf32()), Box::new(b?.tf32()), Box::new(acc?)))
            }
            (Some(Form::Select), _, [c, a, b]) => {
                let (c, a, b) = (self.expr(c), self.expr(a), self.expr(b));
                Some(ExprKind::Select(Box::new(c?), Box::new(a?), Box::new(b?)))
            }
            (Some(form @ (Form::ArgMax | Form::ArgMin)), _, [x, axis]) => {
                let extreme = if form == Form::ArgMax { RedOp::Max } else { RedOp::Min };
                let x = self.expr(x);
                let of = self.along(axis, form)?;
                let (span, x) = (self.spans.of(expr), x?);
                if x.any(&|e| matches!(e.kind, ExprKind::Reduce(..) | ExprKind::Scan(..) | ExprKind::Dot(..)))
                {
                    let help = format!("bind it first: `let v = ..; {name}(v, {})`", source(axis));
                    let what =
                        format!("the operand of `{name}` has a reduction in it, and is read several times");
                    return self.fail(args[0], what, &help);
                }
                Some(place_of(extreme, x, of, span).kind)
            }
            (Some(Form::Random), _, [seed, i, w]) => {
                let word = super::kernel::integer(w);
                let (seed, i, w) = (self.expr(seed), self.expr(i), self.expr(w));
                let (seed, i, w) = (seed?, i?, w?);
                if [&seed, &i, &w]
                    .iter()
                    .any(|x| x.any(&|e| matches!(e.kind, ExprKind::Reduce(..) | ExprKind::Dot(..))))
                {
                    let help = "bind it first: `let v = ..; random(seed, v, w)`";
                    return self.fail(
                        expr,
                        "an operand of `random` has a reduction in it, and is read several times",
                        help,
                    );
                }
                Some(random(seed, i, w, word, self.spans.of(expr)).kind)
            }
            (Some(form), _, [x, axis]) if let Some(op) = RedOp::from_scan(form.name()) => {
                let x = self.expr(x);
                let axis = self.along(axis, form)?;
                Some(ExprKind::Scan(op, Box::new(x?), axis))
            }
            (None, _, [x, axis]) if RedOp::from_name(&name).is_some() && self.as_axis(axis).is_some() => {
                let axis = self.as_axis(axis)?;
                let x = self.expr(x)?;
                Some(ExprKind::Reduce(RedOp::from_name(&name)?, Box::new(x), axis))
            }
            (None, "sum", [x, axis]) => {
                self.expr(x);
                if self.is_broken(axis) {
                    return None;
                }
                let axes = self.axis_names();
                let help = format!("the form is `sum(x, n)`; the axes of this kernel are {}", list(&axes));
                self.fail(axis, "`sum` is over an axis", &help)
            }
            (None, "max" | "min", [a, b]) => {
                let (a, b) = (self.expr(a), self.expr(b));
                Some(ExprKind::Bin(BinOp::from_name(&name)?, Box::new(a?), Box::new(b?)))
            }
            (None, _, [x]) if function(&name).is_some() => {
                Some(ExprKind::Un(function(&name)?, Box::new(self.expr(x)?)))
            }
            (None, "cast", [x]) => {
                let call = format!("{}.cast::<f32>()", source(x));
                self.mend(expr, "`cast` is a method", expr, call)
            }
            (Some(Form::Unique), ..) => self.fail(
                expr,
                "`unique` is a promise about where a store goes",
                "the form is `store(y, [unique(v), d], value)`",
            ),
            (None, name, _) if super::kernel::stores(name) => self.fail(
                expr,
                format!("`{name}` has no value"),
                "write it as a statement of its own; what the tensor held before is not given",
            ),
            (None, "program_tile" | "whole" | "tiles", _) => self.fail(
                expr,
                format!("`{name}` binds an axis and is not a value"),
                "the form is `let n = whole(N);`, `let (i, j) = program_tile(M, N);` or `for k in tiles(K)`",
            ),
            _ => match usage(&name) {
                Some(usage) => {
                    let n = args.len();
                    self.fail(
                        expr,
                        format!("`{name}` with {n} argument{}", if n == 1 { "" } else { "s" }),
                        &format!("the form is `{usage}`"),
                    )
                }
                None if matches!(self.lookup(&name), Some(Binding::Broken)) => None,
                None => {
                    let what = format!("cannot find function `{name}` in the tile language");
                    self.fail(expr, what, &functions())
                }
            },
        }
    }

    fn method(&mut self, method: &syn::ExprMethodCall) -> Option<ExprKind> {
        let name = method.method.to_string();
        if name == Form::Cast.name() {
            let elem = match &method.turbofish {
                Some(args) => match args.args.first() {
                    Some(GenericArgument::Type(ty)) if args.args.len() == 1 => self.elem(ty),
                    _ => self.fail(args, "`cast` takes one element type", "the form is `x.cast::<f32>()`"),
                },
                None => self.fail(
                    &method.method,
                    "`cast` needs the type to cast to",
                    "the form is `x.cast::<f32>()`",
                ),
            };
            let x = self.expr(&method.receiver);
            return Some(ExprKind::Cast(elem?, Box::new(x?)));
        }
        let message = format!("the method `{name}` is not supported in a kernel");
        let args = std::iter::once(source(&method.receiver)).chain(method.args.iter().map(source));
        let args = args.collect::<Vec<_>>().join(", ");
        match usage(&name).is_some() {
            true => self.mend(method, message, method, format!("{name}({args})")),
            false => {
                let rule =
                    "the only method is `.cast::<T>()`; everything else is a function, such as `exp(x)`";
                self.fail(method, message, rule)
            }
        }
    }

    fn turbofish(&mut self, expr: &Expr, name: &str) -> Option<ElemType> {
        let Expr::Call(call) = expr else { return None };
        let Expr::Path(path) = &*call.func else { return None };
        if let PathArguments::AngleBracketed(args) = &path.path.segments.last()?.arguments
            && let (1, Some(GenericArgument::Type(ty))) = (args.args.len(), args.args.first())
        {
            return self.elem(ty);
        }
        self.mend(&call.func, format!("`{name}` needs an element type"), &call.func, format!("{name}::<f32>"))
    }

    pub(super) fn axis_names(&self) -> Vec<String> {
        self.kernel.axes.iter().map(|a| a.name.clone()).collect()
    }

    /// Whether the name's definition has a mistake, which was reported.
    pub(super) fn is_broken(&self, expr: &Expr) -> bool {
        let Expr::Path(path) = expr else { return false };
        let binding = path.path.get_ident().and_then(|name| self.lookup(&name.to_string()));
        matches!(binding, Some(Binding::Broken))
    }

    pub(super) fn as_axis(&self, expr: &Expr) -> Option<AxisId> {
        let Expr::Path(path) = expr else { return None };
        match self.lookup(&path.path.get_ident()?.to_string())? {
            Binding::Axis(axis) => Some(axis),
            _ => None,
        }
    }

    /// `[i, j]`.
    fn axis_list(&mut self, expr: &Expr) -> Option<Vec<AxisId>> {
        let Expr::Array(array) = expr else {
            return self.fail(expr, "this is not a list of axes", "write the axes in brackets: `[i, j]`");
        };
        let mut axes = Vec::new();
        for item in &array.elems {
            match self.as_axis(item) {
                Some(axis) if axes.contains(&axis) => {
                    return self.fail(item, "this axis occurs twice", "name each axis once");
                }
                Some(axis) => axes.push(axis),
                None if self.is_broken(item) => return None,
                None => {
                    let help = format!("the axes of this kernel are {}", list(&self.axis_names()));
                    return self.fail(item, "this is not an axis", &help);
                }
            }
        }
        Some(axes)
    }
}

/// `i32::MAX` and the like: those of 64 bits are no `f64`, and so no literals.
fn extreme(path: &str) -> Option<(DType, i64)> {
    let (name, bound) = path.split_once("::")?;
    let dtype = DType::integers().find(|d| d.name() == name && d.bytes() <= 4)?;
    match bound {
        "MAX" => Some((dtype, dtype.greatest())),
        "MIN" => Some((dtype, dtype.least())),
        _ => None,
    }
}

/// The first place along an axis at which an element is the extreme one, or NaN:
/// `min(select((x == max(x, n)) | !(x == x), n, i32::MAX), n)`.
fn place_of(extreme: RedOp, x: tile::Expr, axis: AxisId, span: SpanId) -> tile::Expr {
    let node = |kind: ExprKind| Box::new(tile::Expr { kind, span });
    let x = || Box::new(x.clone());
    let most = node(ExprKind::Reduce(extreme, x(), axis));
    let is_most = node(ExprKind::Cmp(CmpOp::Eq, x(), most));
    let is_number = node(ExprKind::Cmp(CmpOp::Eq, x(), x()));
    let not_a_number = node(ExprKind::Un(UnOp::Not, is_number));
    let found = node(ExprKind::Bin(BinOp::Or, is_most, not_a_number));
    let none = ExprKind::Const { value: i32::MAX.into(), elem: Some(ElemType::Fixed(DType::I32)) };
    let place = node(ExprKind::Select(found, node(ExprKind::Iota(axis)), node(none)));
    *node(ExprKind::Reduce(RedOp::Min, place, axis))
}

/// A random word: of a number that is not known, the choice between four.
fn random(seed: tile::Expr, i: tile::Expr, w: tile::Expr, word: Option<i64>, span: SpanId) -> tile::Expr {
    let node = |kind: ExprKind| Box::new(tile::Expr { kind, span });
    let number = |value: usize| node(ExprKind::Const { value: value as f64, elem: None });
    let words = [BinOp::Random0, BinOp::Random1, BinOp::Random2, BinOp::Random3];
    let of = |op: BinOp| node(ExprKind::Bin(op, Box::new(seed.clone()), Box::new(i.clone())));
    let last = words.len() - 1;
    if let Some(word) = word {
        return *of(words[word as usize & last]);
    }
    let choice = words[..last].iter().enumerate().rev().fold(of(words[last]), |others, (n, op)| {
        let bits = node(ExprKind::Bin(BinOp::And, Box::new(w.clone()), number(last)));
        let is = node(ExprKind::Cmp(CmpOp::Eq, bits, number(n)));
        node(ExprKind::Select(is, of(*op), others))
    });
    *choice
}

/// `if c { a } else { b }` as a choice element by element.
fn chosen(choice: &syn::ExprIf) -> Option<String> {
    let value = |block: &syn::Block| match block.stmts.as_slice() {
        [syn::Stmt::Expr(value, None)] => Some(source(value)),
        _ => None,
    };
    let otherwise = match &*choice.else_branch.as_ref()?.1 {
        Expr::Block(block) => value(&block.block)?,
        _ => return None,
    };
    Some(format!("select({}, {}, {otherwise})", source(&choice.cond), value(&choice.then_branch)?))
}

/// The operation that a function or a method of this name is.
fn called(name: &str) -> Option<Operation> {
    let own = [Form::ProgramTile, Form::Whole, Form::Tiles, Form::Store, Form::Cast].into_iter();
    let own = Form::called(name).or_else(|| own.into_iter().find(|form| form.name() == name));
    let form = own.map(Operation::Form);
    let reduction = || RedOp::from_name(name).map(Operation::Reduce);
    form.or_else(reduction).or_else(|| function(name).map(Operation::Un))
}

/// The operation to use in place of Rust that a kernel does not have.
fn meant(expr: &Expr) -> Option<Operation> {
    let form = match expr {
        Expr::If(_) | Expr::Match(_) | Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => Form::Select,
        Expr::Index(_) => Form::Load,
        Expr::Cast(_) => Form::Cast,
        Expr::While(_) | Expr::Loop(_) | Expr::Range(_) => Form::Tiles,
        Expr::Array(_) | Expr::Repeat(_) => Form::Zeros,
        _ => return None,
    };
    Some(Operation::Form(form))
}

/// The operator that is called by this name, element by element.
fn function(name: &str) -> Option<UnOp> {
    UnOp::from_name(name).filter(|op| op.row().usage.is_some())
}

/// How a function is called.
fn usage(name: &str) -> Option<String> {
    if let Some(op) = RedOp::from_name(name) {
        let name = op.name();
        return Some(match BinOp::from_name(name) {
            Some(_) => format!("{name}(x, n) over an axis, or {name}(a, b)"),
            None => format!("{name}(x, n)"),
        });
    }
    let own = Form::called(name).map(Form::usage);
    own.or_else(|| function(name)?.row().usage).map(str::to_string)
}

/// All functions, for messages.
fn functions() -> String {
    let of_elements = UnOp::ALL.iter().filter(|op| op.row().usage.is_some()).map(|op| op.name());
    let names: Vec<&str> = of_elements.collect();
    format!(
        "functions are load, store, atomic_add, atomic_max, atomic_min, dot, zeros, full, select, sum, max, min, argmax, argmin, cumsum, cummax, cummin, random, {}, and the method cast",
        names.join(", ")
    )
}
