//! What binds axes: `program_tile`, `whole`, and loops over `tiles`.

use super::kernel::{Binding, Reader, call, id, list, source};
use std::collections::HashMap;
use syn::{Expr, ExprMethodCall, Pat};
use tile_dsl::{
    diagnostic::near,
    index::AxisId,
    span::SpanId,
    tile::{Axis, AxisKind, Form, Limits, Operation, Stmt},
};

impl Reader<'_> {
    /// Axes that a `let` binds, perhaps with limits.
    pub(super) fn axes(
        &mut self,
        pat: &Pat,
        (binder, args, limits): (Form, &[&Expr], Option<&ExprMethodCall>),
        call: &Expr,
    ) -> Option<Stmt> {
        let kind = match binder {
            Form::ProgramTile => AxisKind::Program,
            Form::Whole => AxisKind::Whole,
            _ => return self.fail(call, "`tiles` is looped over", "the form is `for k in tiles(K) { .. }`"),
        };
        if self.loops > 0 {
            let message = format!("`{}` inside a loop", binder.name());
            return self.fail(call, message, "bind the axis before the loop");
        }
        if kind == AxisKind::Program && self.kernel.axes.iter().any(|a| a.kind == AxisKind::Program) {
            return self.fail(
                call,
                "a kernel has one `program_tile`",
                "bind all axes of the tile at once: `let (i, j) = program_tile(M, N);`",
            );
        }
        let pats: Vec<&Pat> = match pat {
            Pat::Tuple(tuple) => tuple.elems.iter().collect(),
            other => vec![other],
        };
        if args.is_empty() || pats.len() != args.len() {
            let (names, dims) = (pats.len(), args.len());
            return self.fail(
                call,
                format!("{names} axes are bound over {dims} dims"),
                "give a dim for each axis: `let (i, j) = program_tile(M, N);`",
            );
        }
        if let (Some(limits), [_, second, ..]) = (limits, args) {
            let dim = source(second);
            return self.fail(
                limits,
                "several axes are bound, and the limits are of one",
                &format!("bind it by itself: `let j = {}({dim})..`", binder.name()),
            );
        }
        let limits = self.limits(limits)?;
        for (pat, arg) in pats.into_iter().zip(args) {
            self.axis(pat, arg, kind, limits.clone());
        }
        None
    }

    fn axis(&mut self, pat: &Pat, arg: &Expr, kind: AxisKind, limits: Limits) -> Option<AxisId> {
        let Pat::Ident(name) = pat else {
            return self.fail(
                pat,
                "an axis is bound to a plain name",
                "the form is `let (i, j) = program_tile(M, N);`",
            );
        };
        if name.mutability.is_some() {
            let axis = name.ident.to_string();
            return self.mend(name, "an axis is not `mut`", name, axis);
        }
        let extent = self.extent(arg)?;
        let dims = self.dims();
        if let Some(unknown) = extent.dims.keys().find(|d| !dims.contains(d)) {
            let message = format!("`{unknown}` is not a dimension of any tensor");
            let cased = dims.iter().find(|d| d.eq_ignore_ascii_case(unknown) || near(d, unknown)).cloned();
            return match cased {
                Some(dim) if matches!(arg, Expr::Path(_)) => self.mend(arg, message, arg, dim),
                // The tensors have mistakes of their own.
                _ if dims.is_empty() && self.failed || self.lost.contains(unknown) => None,
                _ => self.fail(arg, message, &format!("dims of the tensors are {}", list(&dims))),
            };
        }
        let span = self.spans.of(&name.ident);
        self.spans.describe(span, Operation::of_axis(kind).place());
        let text = name.ident.to_string();
        self.kernel.axes.push(Axis { name: text.clone(), extent, kind, limits, span });
        let axis = AxisId(id(self.kernel.axes.len() - 1));
        self.bind(&text, Binding::Axis(axis));
        Some(axis)
    }

    /// `for k in tiles(K) { .. }`.
    pub(super) fn for_loop(&mut self, for_loop: &syn::ExprForLoop, span: SpanId) -> Option<Stmt> {
        if let Some(label) = &for_loop.label {
            return self.fail(label, "labels are not supported in a kernel", "nothing leaves a loop early");
        }
        let (bound, limits) = limited(&for_loop.expr);
        let dim = match call(bound) {
            Some((name, args)) if name == Form::Tiles.name() && args.len() == 1 => args[0],
            _ => {
                const RULE: &str = "a kernel loops over the tiles of an axis";
                let range = for_loop.expr.as_ref();
                let end = match range {
                    Expr::Range(syn::ExprRange { end: Some(end), .. }) => source(end),
                    _ => String::new(),
                };
                return match self.dims().contains(&end) {
                    true => self.mend(range, RULE, range, format!("tiles({end})")),
                    false => self.fail(range, RULE, "loops are `for k in tiles(K) { .. }`"),
                };
            }
        };
        let limits = self.limits(limits);
        self.scopes.push(HashMap::new());
        self.loops += 1;
        let axis = limits.and_then(|limits| self.axis(&for_loop.pat, dim, AxisKind::Tiles, limits));
        if axis.is_none()
            && let Pat::Ident(name) = &*for_loop.pat
        {
            self.bind(&name.ident.to_string(), Binding::Broken);
        }
        let body = self.block(&for_loop.body.stmts);
        self.loops -= 1;
        self.scopes.pop();
        let stmt = Stmt::For { axis: axis?, body, span };
        Some(self.described(stmt, span))
    }
}

/// A binder, and the limits that are said of its axis: `tiles(N).below(hi)`.
pub fn limited(expr: &Expr) -> (&Expr, Option<&ExprMethodCall>) {
    match expr {
        Expr::MethodCall(method)
            if call(&method.receiver).is_some_and(|(f, _)| binder_form(&f).is_some()) =>
        {
            (&method.receiver, Some(method))
        }
        _ => (expr, None),
    }
}

/// What binds axes by this name.
pub(super) fn binder_form(name: &str) -> Option<Form> {
    [Form::ProgramTile, Form::Whole, Form::Tiles].into_iter().find(|form| form.name() == name)
}
