//! `#[tile_kernel] fn` → [`tile::Kernel`]: names and statements.

use super::binders::{binder_form, limited};
use crate::{
    report::Report,
    spans::{Range, Spans},
};
use quote::ToTokens;
use std::collections::HashMap;
use syn::{Expr, ItemFn, Pat, Stmt as RustStmt};
use tile_dsl::{
    diagnostic::{Diagnostic, near, replace},
    engine,
    index::AxisId,
    op::{BinOp, RedOp},
    span::SpanId,
    tile::{self, ExprKind, Form, Kernel, Operation, ScalarId, Stmt, TensorId, VarId},
};

/// Reads a kernel. `None` when it has mistakes, which are then in `report`; types are checked too.
pub fn kernel(item: &ItemFn, spans: &mut Spans, report: &mut Report) -> Option<Kernel> {
    let mut reader = Reader {
        spans,
        report,
        kernel: Kernel {
            name: item.sig.ident.to_string(),
            generic: None,
            tensors: vec![],
            scalars: vec![],
            axes: vec![],
            vars: vec![],
            body: vec![],
        },
        scopes: vec![HashMap::new()],
        loops: 0,
        used: HashMap::new(),
        stored: Vec::new(),
        lost: Vec::new(),
        about: None,
        failed: false,
    };
    stored(&item.block.stmts, &mut reader.stored);
    reader.signature(item);
    let body = reader.block(&item.block.stmts);
    let (mut kernel, failed) = (reader.kernel, reader.failed);
    kernel.body = body;
    if failed {
        return None;
    }
    let mut errors = tile::verify(&kernel);
    if errors.is_empty() {
        kernel.apply_limits();
        // What no schedule can run is a mistake of the kernel, not of each schedule.
        errors.extend(engine::schedulable(&kernel).err());
    }
    let sound = errors.is_empty();
    report.extend(errors);
    sound.then_some(kernel)
}

/// What a name stands for.
#[derive(Clone, Copy)]
pub(super) enum Binding {
    Tensor(TensorId),
    Scalar(ScalarId),
    Axis(AxisId),
    /// A value, and the number of loops open at its binding.
    Var(VarId, usize),
    /// Its definition has a mistake of its own.
    Broken,
}

pub(super) struct Reader<'a> {
    pub(super) spans: &'a mut Spans,
    report: &'a mut Report,
    pub(super) kernel: Kernel,
    pub(super) scopes: Vec<HashMap<String, Binding>>,
    pub(super) loops: usize,
    /// How often a name was bound, to number the later ones.
    pub(super) used: HashMap<String, usize>,
    /// Names of tensors that some `store` names, for messages on the signature.
    pub(super) stored: Vec<String>,
    /// Dims of parameters that have mistakes.
    pub(super) lost: Vec<String>,
    /// The operation that is being read, which messages are about.
    pub(super) about: Option<Operation>,
    pub(super) failed: bool,
}

/// Whether a function stores: `store`, `atomic_add` and the like.
pub(super) fn stores(name: &str) -> bool {
    name == Form::Store.name() || RedOp::from_atomic(name).is_some()
}

/// First arguments of the calls of functions that store, among some statements.
fn stored(stmts: &[RustStmt], names: &mut Vec<String>) {
    for stmt in stmts {
        match stmt {
            RustStmt::Expr(Expr::ForLoop(l), _) => stored(&l.body.stmts, names),
            RustStmt::Expr(expr, _) => {
                if let Some((function, args)) = call(expr)
                    && let (true, Some(tensor)) = (stores(&function), args.first())
                {
                    names.push(source(tensor));
                }
            }
            _ => {}
        }
    }
}

pub(super) fn id(n: usize) -> u16 {
    u16::try_from(n).expect("kernels have fewer than 65536 names")
}

impl Reader<'_> {
    /// Reports a mistake in some tokens, with a rule or what to look for.
    pub(super) fn fail<T>(
        &mut self,
        at: &impl quote::ToTokens,
        message: impl Into<String>,
        remark: &str,
    ) -> Option<T> {
        let span = self.spans.of(at);
        self.report(Diagnostic::new(span, message).remark(remark))
    }

    /// Reports a mistake in some tokens that other text in the place of `old` mends.
    pub(super) fn mend<T>(
        &mut self,
        at: &impl quote::ToTokens,
        message: impl Into<String>,
        old: &impl quote::ToTokens,
        new: impl std::fmt::Display,
    ) -> Option<T> {
        let span = self.spans.of(at);
        let error = Diagnostic::new(span, message);
        self.report(error.help(replace(source(old), new)))
    }

    /// A factor or summand of an index or extent.
    pub(super) fn product(&mut self, at: &Expr, a: i64, b: i64) -> Option<i64> {
        const MOST: i64 = 1 << 31;
        match a.checked_mul(b).filter(|n| (-MOST..=MOST).contains(n)) {
            Some(product) => Some(product),
            None => self.fail(
                at,
                "this number is too large for an index or an extent",
                "factors and summands of indices and extents are at most 2³¹",
            ),
        }
    }

    fn report<T>(&mut self, diagnostic: Diagnostic) -> Option<T> {
        self.failed = true;
        self.report.push(diagnostic.card(self.about.map(Operation::place)));
        None
    }

    /// Reads something that is another operation, or none.
    pub(super) fn within<T>(&mut self, about: Option<Operation>, read: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.about, about);
        let read = read(self);
        self.about = outer;
        read
    }

    /// Reads something of a form.
    pub(super) fn in_form<T>(&mut self, form: Form, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.within(Some(Operation::Form(form)), read)
    }

    /// Notes the operation of a statement.
    pub(super) fn described(&mut self, stmt: Stmt, span: SpanId) -> Stmt {
        self.spans.describe(span, Operation::of_statement(&stmt).place());
        stmt
    }

    pub(super) fn lookup(&self, name: &str) -> Option<Binding> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied()
    }

    /// Names in scope, for messages.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.scopes.iter().flat_map(HashMap::keys).cloned().collect();
        names.extend(self.dims());
        names.sort();
        names
    }

    /// Named dims of the signature.
    pub(super) fn dims(&self) -> Vec<String> {
        let mut dims: Vec<String> =
            self.kernel.tensors.iter().flat_map(|t| &t.dims).flat_map(|d| d.dims.keys().cloned()).collect();
        dims.sort();
        dims.dedup();
        dims
    }

    pub(super) fn bind(&mut self, name: &str, binding: Binding) {
        self.scopes.last_mut().expect("a scope is open").insert(name.to_string(), binding);
    }

    pub(super) fn block(&mut self, stmts: &[RustStmt]) -> Vec<Stmt> {
        let mut body = Vec::new();
        for stmt in stmts {
            if let RustStmt::Expr(Expr::If(condition), _) = stmt
                && let Some(stores) = self.in_form(Form::If, |reader| reader.condition(condition))
            {
                body.extend(stores);
                continue;
            }
            body.extend(self.within(None, |reader| match stmt {
                RustStmt::Local(local) => reader.local(local),
                RustStmt::Expr(Expr::If(_), _) => None,
                RustStmt::Expr(expr, _) => reader.statement(expr),
                RustStmt::Item(item) => {
                    reader.fail(item, "items are not allowed in a kernel", "move it out of the function")
                }
                RustStmt::Macro(mac) => {
                    reader.fail(mac, "macros are not expanded in a kernel", "write the expression out")
                }
            }));
        }
        body
    }

    fn local(&mut self, local: &syn::Local) -> Option<Stmt> {
        let names = pattern_names(&local.pat);
        let stmt = self.local_inner(local);
        if self.failed {
            // A name whose definition is wrong is reported once, not at each use.
            for name in names {
                if self.lookup(&name).is_none() {
                    self.bind(&name, Binding::Broken);
                }
            }
        }
        stmt
    }

    fn local_inner(&mut self, local: &syn::Local) -> Option<Stmt> {
        let Some(init) = &local.init else {
            return self.fail(local, "a value is bound where it is declared", "the form is `let x = ..;`");
        };
        if let Some((_, otherwise)) = &init.diverge {
            return self.fail(
                otherwise,
                "`let .. else` has no meaning in a kernel",
                "use `select(condition, a, b)`",
            );
        }
        let (bound, limits) = limited(&init.expr);
        if let Some((binder, args)) = call(bound)
            && let Some(form) = binder_form(&binder)
        {
            return self.in_form(form, |reader| reader.axes(&local.pat, (form, &args, limits), bound));
        }
        self.about = Some(Operation::Form(Form::Let));
        match &local.pat {
            Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => {
                let name = pat.ident.to_string();
                let Some(value) = self.expr(&init.expr) else {
                    self.bind(&name, Binding::Broken);
                    return None;
                };
                let var = self.new_var(&pat.ident, pat.mutability.is_some());
                Some(Stmt::Let { var, value })
            }
            Pat::Type(typed) => {
                let text = "values are not annotated with types: the type follows from the expression";
                let name = source(&typed.pat);
                self.mend(&typed.ty, text, typed, name)
            }
            other => {
                self.fail(other, "this pattern cannot be bound to a value", "bind one name: `let x = ..`")
            }
        }
    }

    fn new_var(&mut self, name: &syn::Ident, mutable: bool) -> VarId {
        let (text, span) = (name.to_string(), self.spans.of(name));
        let var = self.unnamed_var(&text, span, mutable);
        self.bind(&text, Binding::Var(var, self.loops));
        var
    }

    /// A variable that schedules name, and the text of the kernel does not.
    pub(super) fn unnamed_var(&mut self, text: &str, span: SpanId, mutable: bool) -> VarId {
        let count = self.used.entry(text.to_string()).or_default();
        *count += 1;
        let unique = if *count == 1 { text.to_string() } else { format!("{text}.{count}") };
        self.kernel.vars.push(tile::Var { name: unique, mutable, span });
        VarId(id(self.kernel.vars.len() - 1))
    }

    pub(super) fn statement(&mut self, expr: &Expr) -> Option<Stmt> {
        let span = self.spans.of(expr);
        match expr {
            Expr::ForLoop(for_loop) => self.in_form(Form::Tiles, |reader| reader.for_loop(for_loop, span)),
            Expr::Assign(assign) => {
                let value = self.expr(&assign.right);
                self.in_form(Form::Assign, |reader| reader.assign(&assign.left, value?, span))
            }
            Expr::Binary(b) if compound(&b.op).is_some() => {
                let op = compound(&b.op)?;
                let (old, value) = (self.expr(&b.left), self.expr(&b.right));
                let value = tile::Expr { kind: ExprKind::Bin(op, Box::new(old?), Box::new(value?)), span };
                self.in_form(Form::Assign, |reader| reader.assign(&b.left, value, span))
            }
            Expr::Call(_) if call(expr).is_some_and(|(name, _)| stores(&name)) => {
                let (name, args) = call(expr)?;
                let combine = RedOp::from_atomic(&name);
                let form = combine.map_or(Form::Store, Form::of_atomic);
                self.about = Some(Operation::Form(form));
                let usage = form.usage();
                let [tensor, index, value] = args.as_slice() else {
                    let rule = format!("`{name}` takes a tensor, an index and a value");
                    return self.fail(expr, rule, &format!("the form is `{usage}`"));
                };
                let tensor = self.tensor(tensor, usage);
                let index = self.index(index);
                let value = self.expr(value);
                let (tensor, index, value) = (tensor?, index?, value?);
                let stmt = Stmt::Store { tensor, index, when: None, combine, value, span };
                Some(self.described(stmt, span))
            }
            Expr::While(w) => self.in_form(Form::Tiles, |reader| {
                reader.fail(
                    &w.while_token,
                    "`while` is not supported in a kernel",
                    "loop over an axis: `for k in tiles(K) { .. }`",
                )
            }),
            Expr::Loop(l) => self.in_form(Form::Tiles, |reader| {
                reader.fail(
                    &l.loop_token,
                    "`loop` is not supported in a kernel",
                    "loop over an axis: `for k in tiles(K) { .. }`",
                )
            }),
            Expr::Return(_) => self.in_form(Form::Store, |reader| {
                reader.fail(
                    expr,
                    "`return` is not supported in a kernel",
                    "store the result: `store(y, [i], value)`",
                )
            }),
            Expr::Call(_)
            | Expr::MethodCall(_)
            | Expr::Binary(_)
            | Expr::Path(_)
            | Expr::Lit(_)
            | Expr::Unary(_) => {
                self.expr(expr)?;
                self.fail(
                    expr,
                    "the value of this expression is not used",
                    "bind it (`let x = ..`) or store it (`store(y, [i], ..)`)",
                )
            }
            other => {
                self.expr(other);
                None
            }
        }
    }

    fn assign(&mut self, target: &Expr, value: tile::Expr, span: SpanId) -> Option<Stmt> {
        let name = match target {
            Expr::Path(path) => path.path.get_ident().cloned(),
            _ => None,
        };
        let Some(name) = name else {
            return self.fail(
                target,
                "only a `let mut` value is assigned",
                "write elements of a tensor with `store(y, [i], value)`",
            );
        };
        match self.lookup(&name.to_string()) {
            // Assigning where the value was bound is binding it again.
            Some(Binding::Var(old, depth))
                if depth == self.loops && self.kernel.vars[usize::from(old.0)].mutable =>
            {
                let var = self.new_var(&name, true);
                Some(Stmt::Let { var, value })
            }
            Some(Binding::Var(var, _)) => Some(self.described(Stmt::Assign { var, value, span }, span)),
            Some(Binding::Tensor(_)) => self.fail(
                target,
                format!("`{name}` is a tensor"),
                &format!("write its elements with `store({name}, [..], value)`"),
            ),
            Some(Binding::Broken) => None,
            Some(Binding::Scalar(_) | Binding::Axis(_)) => self.fail(
                target,
                format!("`{name}` cannot be assigned"),
                &format!("bind a new value: `let mut x = {name};`"),
            ),
            None => self.fail(
                target,
                format!("cannot find `{name}` in this kernel"),
                "bind it first: `let mut x = ..;`",
            ),
        }
    }

    pub(super) fn tensor(&mut self, expr: &Expr, form: &str) -> Option<TensorId> {
        let name = match expr {
            Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
            _ => None,
        };
        match name.as_deref().and_then(|n| self.lookup(n)) {
            Some(Binding::Tensor(tensor)) => Some(tensor),
            Some(Binding::Broken) => None,
            _ => {
                let tensors: Vec<_> = self.kernel.tensors.iter().map(|t| t.name.clone()).collect();
                let text = "this is not a tensor";
                match expr {
                    Expr::Reference(reference) => {
                        let inner = source(&reference.expr);
                        self.mend(expr, "tensors are named without `&`", expr, inner)
                    }
                    _ => {
                        let near = name.and_then(|n| tensors.iter().find(|t| near(t, &n)).cloned());
                        match near {
                            Some(tensor) => self.mend(expr, text, expr, tensor),
                            None => {
                                let tensors = list(&tensors);
                                let form =
                                    format!("the form is `{form}`; the tensors of this kernel are {tensors}");
                                self.fail(expr, text, &form)
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Tokens as written; as they are printed where the source is on several lines.
pub(super) fn source(tokens: &impl quote::ToTokens) -> String {
    Range::of(tokens).line().unwrap_or_else(|| tokens.to_token_stream().to_string())
}

/// `a, b and c`, each in backticks.
pub(super) fn list(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|n| format!("`{n}`")).collect();
    match quoted.split_last() {
        None => "none".into(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

/// An integer literal, perhaps negative.
pub(super) fn integer(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(n), .. }) => n.base10_parse().ok(),
        Expr::Unary(syn::ExprUnary { op: syn::UnOp::Neg(_), expr, .. }) => integer(expr).map(|n| -n),
        Expr::Paren(p) => integer(&p.expr),
        Expr::Group(g) => integer(&g.expr),
        _ => None,
    }
}

/// Whether this is an integer literal beyond 64 bits.
pub(super) fn too_large(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(n), .. }) => n.base10_parse::<i64>().is_err(),
        Expr::Unary(syn::ExprUnary { op: syn::UnOp::Neg(_), expr, .. }) => too_large(expr),
        Expr::Paren(p) => too_large(&p.expr),
        Expr::Group(g) => too_large(&g.expr),
        _ => false,
    }
}

/// Function name and arguments of a call of a plain function.
pub(super) fn call(expr: &Expr) -> Option<(String, Vec<&Expr>)> {
    let Expr::Call(call) = expr else { return None };
    let Expr::Path(path) = &*call.func else { return None };
    Some((path.path.segments.last()?.ident.to_string(), call.args.iter().collect()))
}

fn compound(op: &syn::BinOp) -> Option<BinOp> {
    let symbol = op.to_token_stream().to_string();
    BinOp::from_symbol(symbol.strip_suffix('=')?)
}

fn pattern_names(pat: &Pat) -> Vec<String> {
    match pat {
        Pat::Ident(p) => vec![p.ident.to_string()],
        Pat::Tuple(t) => t.elems.iter().flat_map(pattern_names).collect(),
        Pat::Type(t) => pattern_names(&t.pat),
        _ => vec![],
    }
}
