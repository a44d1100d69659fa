//! The signature of a kernel: parameters, element types, extents.

use super::kernel::{Binding, Reader, id, integer, source, too_large};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{
    Expr, FnArg, GenericArgument, GenericParam, ItemFn, Pat, PathArguments, Stmt, Type, TypeParamBound,
    spanned::Spanned,
};
use tile_dsl::{
    dtype::DType,
    index::Extent,
    tile::{self, ElemType, ScalarId, TensorId},
};

/// The names in `{ 2 * N + 1 }`.
fn names(tokens: TokenStream, found: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => found.push(ident.to_string()),
            TokenTree::Group(group) => names(group.stream(), found),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

const EXTENTS: &str = "extents are `M`, `3`, `{N + 2}` or `{2*N}`";

impl Reader<'_> {
    /// Reads parameters and generics.
    pub(super) fn signature(&mut self, item: &ItemFn) {
        let sig = &item.sig;
        for (present, tokens) in [
            (sig.asyncness.is_some(), quote::quote_spanned!(sig.asyncness.span()=> async)),
            (sig.unsafety.is_some(), quote::quote_spanned!(sig.unsafety.span()=> unsafe)),
            (sig.constness.is_some(), quote::quote_spanned!(sig.constness.span()=> const)),
            (sig.abi.is_some(), quote::quote_spanned!(sig.abi.span()=> extern)),
        ] {
            if present {
                self.fail::<()>(
                    &tokens,
                    format!("a kernel is not `{tokens}`"),
                    "declare it `fn` or `pub fn`",
                );
            }
        }
        if let syn::ReturnType::Type(_, ty) = &sig.output {
            self.fail::<()>(
                ty,
                "a kernel returns nothing",
                "take a tensor to store to: `y: &mut Tensor<f32, N>`",
            );
        }
        if let Some(clause) = &sig.generics.where_clause {
            self.fail::<()>(
                clause,
                "a kernel has no `where` clause",
                "write the bound in place: `<T: Float>`",
            );
        }
        for (n, param) in sig.generics.params.iter().enumerate() {
            let float = |b: &TypeParamBound| matches!(b, TypeParamBound::Trait(t) if t.path.segments.last().is_some_and(|s| s.ident == "Float"));
            match param {
                GenericParam::Type(t) if n == 0 && t.bounds.len() == 1 && t.bounds.iter().all(float) => {
                    self.kernel.generic = Some(t.ident.to_string());
                }
                GenericParam::Type(t) if n == 0 => {
                    self.kernel.generic = Some(t.ident.to_string());
                    self.mend::<()>(
                        t,
                        "the generic element type needs the bound `Float`",
                        t,
                        format!("{}: Float", t.ident),
                    );
                }
                other => {
                    self.fail::<()>(
                        other,
                        "a kernel has at most one generic parameter, its element type",
                        "dims need no declaration: `&Tensor<T, M, N>` introduces `M` and `N`",
                    );
                }
            }
        }
        for input in &sig.inputs {
            if self.param(input).is_none() {
                self.lose(input);
            }
        }
    }

    /// The dims of a parameter with a mistake are dims all the same, so that what mentions them is no mistake.
    fn lose(&mut self, input: &FnArg) {
        let FnArg::Typed(typed) = input else { return };
        let tensor = match &*typed.ty {
            Type::Reference(reference) => &*reference.elem,
            by_value => by_value,
        };
        let Type::Path(path) = tensor else { return };
        let Some(PathArguments::AngleBracketed(args)) = path.path.segments.last().map(|s| &s.arguments)
        else {
            return;
        };
        for arg in args.args.iter().skip(1) {
            match arg {
                GenericArgument::Type(Type::Path(dim)) => {
                    self.lost.extend(dim.path.get_ident().map(ToString::to_string));
                }
                GenericArgument::Const(expr) => names(expr.to_token_stream(), &mut self.lost),
                _ => {}
            }
        }
    }

    fn param(&mut self, input: &FnArg) -> Option<()> {
        const FORMS: &str =
            "parameters are `x: &Tensor<f32, M, N>`, `y: &mut Tensor<f32, M, N>` and scalars `alpha: f32`";
        let FnArg::Typed(typed) = input else { return self.fail(input, "a kernel has no `self`", FORMS) };
        let Pat::Ident(pat) = &*typed.pat else {
            return self.fail(&typed.pat, "a parameter is a plain name", FORMS);
        };
        let name = pat.ident.to_string();
        let span = self.spans.of(typed);
        self.used.insert(name.clone(), 1);
        self.bind(&name, Binding::Broken);
        match &*typed.ty {
            Type::Reference(reference) => {
                let Type::Path(path) = &*reference.elem else {
                    return self.fail(&typed.ty, "this is not a tensor", FORMS);
                };
                let last = path.path.segments.last()?;
                let PathArguments::AngleBracketed(args) = &last.arguments else {
                    return self.fail(&typed.ty, "this is not a tensor", FORMS);
                };
                if last.ident != "Tensor" {
                    return self.fail(&typed.ty, "this is not a tensor", FORMS);
                }
                let mut args = args.args.iter();
                let elem = match args.next() {
                    Some(GenericArgument::Type(ty)) => self.elem(ty)?,
                    _ => return self.fail(&typed.ty, "a tensor has an element type and dimensions", FORMS),
                };
                let dims = args.map(|arg| self.dim(arg)).collect::<Vec<_>>();
                let dims = dims.into_iter().collect::<Option<Vec<_>>>()?;
                if dims.len() > 6 {
                    return self.fail(
                        &typed.ty,
                        "a tensor has at most 6 dimensions",
                        "merge dimensions that are indexed together",
                    );
                }
                self.kernel.tensors.push(tile::Tensor {
                    name: name.clone(),
                    elem,
                    dims,
                    mutable: reference.mutability.is_some(),
                    span,
                });
                self.bind(&name, Binding::Tensor(TensorId(id(self.kernel.tensors.len() - 1))));
            }
            Type::Path(path) if path.path.segments.last().is_some_and(|s| s.ident == "Tensor") => {
                let reference = if self.stored.contains(&name) { "&mut " } else { "&" };
                let borrowed = format!("{reference}{}", source(&typed.ty));
                return self.mend(
                    &typed.ty,
                    format!("the tensor `{name}` is passed by value"),
                    &typed.ty,
                    borrowed,
                );
            }
            ty => {
                let elem = self.scalar(ty, FORMS)?;
                self.kernel.scalars.push(tile::Scalar { name: name.clone(), elem, span });
                self.bind(&name, Binding::Scalar(ScalarId(id(self.kernel.scalars.len() - 1))));
            }
        }
        Some(())
    }

    /// The type of a scalar parameter.
    fn scalar(&mut self, ty: &Type, forms: &str) -> Option<ElemType> {
        const OTHER_INTEGERS: [&str; 9] = ["usize", "isize", "u8", "u16", "u64", "u128", "i8", "i16", "i128"];
        match self.known_elem(ty) {
            Some(ElemType::Fixed(dtype)) if !dtype.format().scalar => {}
            Some(elem) => return Some(elem),
            None => {}
        }
        let (text, types) = (source(ty), DType::names(DType::scalars(), ", "));
        let message = format!("a scalar is {types} or of the generic element type, not `{text}`");
        match text.as_str() {
            "f64" => self.mend(ty, message, ty, "f32"),
            text if OTHER_INTEGERS.contains(&text) => self.mend(ty, message, ty, "i32"),
            _ => self.fail(ty, message, forms),
        }
    }

    fn known_elem(&self, ty: &Type) -> Option<ElemType> {
        let Type::Path(path) = ty else { return None };
        let segment = path.path.segments.last().filter(|s| s.arguments.is_none())?;
        let name = segment.ident.to_string();
        if self.kernel.generic.as_ref() == Some(&name) {
            return Some(ElemType::Generic);
        }
        DType::from_name(&name).map(ElemType::Fixed)
    }

    /// A type of elements, or the generic parameter.
    pub(super) fn elem(&mut self, ty: &Type) -> Option<ElemType> {
        if let Some(elem) = self.known_elem(ty) {
            return Some(elem);
        }
        let generic = match &self.kernel.generic {
            Some(generic) => format!(" and {generic}"),
            None => ", or a parameter `<T: Float>`".into(),
        };
        let help = format!("element types are {}{generic}", DType::names(DType::ALL.into_iter(), ", "));
        self.fail(ty, format!("`{}` is not an element type", source(ty)), &help)
    }

    fn dim(&mut self, arg: &GenericArgument) -> Option<Extent> {
        match arg {
            GenericArgument::Type(Type::Path(path)) => match path.path.get_ident() {
                Some(name) if self.kernel.generic.as_deref() == Some(&name.to_string()) => self.fail(
                    name,
                    format!("`{name}` is the element type, not a dimension"),
                    "name dimensions differently, such as `M`, `N`, `K`",
                ),
                Some(name) => Some(Extent::dim(&name.to_string())),
                None => self.fail(path, "this is not a dimension", EXTENTS),
            },
            GenericArgument::Const(expr) => self.extent(expr),
            other => self.fail(other, "this is not a dimension", EXTENTS),
        }
    }

    /// An extent: affine over named dims. Names must be dims of a tensor, except in the signature.
    pub(super) fn extent(&mut self, expr: &Expr) -> Option<Extent> {
        let mut extent = Extent::default();
        self.add_extent(expr, 1, &mut extent)?;
        extent.dims.retain(|_, c| *c != 0);
        Some(extent)
    }

    fn add_extent(&mut self, expr: &Expr, factor: i64, sum: &mut Extent) -> Option<()> {
        match expr {
            Expr::Paren(p) => self.add_extent(&p.expr, factor, sum),
            Expr::Group(g) => self.add_extent(&g.expr, factor, sum),
            Expr::Block(b) => match b.block.stmts.as_slice() {
                [Stmt::Expr(inner, None)] => self.add_extent(inner, factor, sum),
                _ => self.fail(expr, "this is not an extent", EXTENTS),
            },
            Expr::Path(path) if path.path.get_ident().is_some() => {
                *sum.dims.entry(path.path.get_ident()?.to_string()).or_default() += factor;
                Some(())
            }
            Expr::Binary(b) => match (&b.op, integer(&b.left), integer(&b.right)) {
                (syn::BinOp::Add(_), ..) => {
                    self.add_extent(&b.left, factor, sum)?;
                    self.add_extent(&b.right, factor, sum)
                }
                (syn::BinOp::Sub(_), ..) => {
                    self.add_extent(&b.left, factor, sum)?;
                    self.add_extent(&b.right, -factor, sum)
                }
                (syn::BinOp::Mul(_), Some(c), _) => {
                    let factor = self.product(expr, factor, c)?;
                    self.add_extent(&b.right, factor, sum)
                }
                (syn::BinOp::Mul(_), _, Some(c)) => {
                    let factor = self.product(expr, factor, c)?;
                    self.add_extent(&b.left, factor, sum)
                }
                _ => self.fail(expr, "this is not an extent", EXTENTS),
            },
            _ => match integer(expr) {
                Some(n) => {
                    sum.constant += self.product(expr, factor, n)?;
                    Some(())
                }
                None if too_large(expr) => self.product(expr, 1, i64::MAX).map(drop),
                None => self.fail(expr, "this is not an extent", EXTENTS),
            },
        }
    }
}
