//! The body as a never-called function over stand-in types, so that rust-analyzer completes and navigates in it
//! even while the kernel or a schedule is wrong.
//!
//! Every value, axis and dim has the one type `dsl::Tile`, so the skeleton never adds errors of its own:
//! typing is the business of [`tile_dsl::tile::verify`].

use crate::parse::binders::limited;
use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use std::collections::BTreeMap;
use syn::{Expr, FnArg, GenericArgument, ItemFn, Pat, PathArguments, Stmt, Type, spanned::Spanned};
use tile_dsl::op::RedOp;

/// The skeleton of a kernel. Only editors see that of an unsound one: its mistakes have been reported.
pub fn emit(item: &ItemFn, private: &TokenStream, sound: bool) -> TokenStream {
    let generic = item.sig.generics.type_params().next().map(|p| &p.ident);
    let mut s = Skeleton { private, dims: BTreeMap::new() };
    let mut params = TokenStream::new();
    let mut scalars = TokenStream::new();
    for input in &item.sig.inputs {
        let FnArg::Typed(typed) = input else { continue };
        let Pat::Ident(pat) = &*typed.pat else { continue };
        let ident = &pat.ident;
        if let Type::Reference(reference) = &*typed.ty {
            let Some(ty) = s.tensor(&reference.elem, generic) else { continue };
            let mutable = &reference.mutability;
            params.extend(quote!(#ident: &#mutable #ty,));
        } else {
            let ty = &typed.ty;
            params.extend(quote!(#ident: #ty,));
            scalars.extend(quote!(let #ident = #private::dsl::scalar(#ident);));
        }
    }
    let body = s.block(&item.block.stmts);
    let dims = s.dims.values().map(
        |dim| quote!(type #dim = #private::dsl::Tile; const #dim: #private::dsl::Tile = #private::dsl::Tile;),
    );
    let generics = generic.map(|t| quote!(<#t: #private::Float>));
    let name = &item.sig.ident;
    let editors = (!sound).then(|| quote!(#[cfg(rust_analyzer)]));
    quote! {
        #[allow(warnings, clippy::all)]
        const _: () = {
            #(#dims)*
            #editors
            fn #name #generics (#params) { #scalars #body }
        };
    }
}

/// Element types that need not be imported where the kernel is written.
fn is_ours(ident: &Ident) -> bool {
    ["f16", "bf16", "f8"].iter().any(|name| ident == name)
}

/// The Rust type of a tensor's elements: `&Tensor<T, ..>` → `T`.
pub fn element(tensor: &Type, generic: Option<&Ident>, private: &TokenStream) -> Option<TokenStream> {
    let Type::Path(path) = tensor else { return None };
    let PathArguments::AngleBracketed(args) = &path.path.segments.last()?.arguments else { return None };
    let GenericArgument::Type(Type::Path(elem)) = args.args.first()? else { return None };
    let ident = &elem.path.segments.last()?.ident;
    if is_ours(ident) && generic != Some(ident) {
        return Some(quote_spanned!(ident.span()=> #private::#ident));
    }
    Some(elem.to_token_stream())
}

/// Whether the first argument of a function is a tensor.
fn takes_tensor(name: &str) -> bool {
    name == "load" || name == "store" || RedOp::from_atomic(name).is_some()
}

struct Skeleton<'a> {
    private: &'a TokenStream,
    dims: BTreeMap<String, Ident>,
}

impl Skeleton<'_> {
    fn tensor(&mut self, ty: &Type, generic: Option<&Ident>) -> Option<TokenStream> {
        let private = self.private;
        let elem = element(ty, generic, private)?;
        let Type::Path(path) = ty else { return None };
        let last = path.path.segments.last()?;
        let PathArguments::AngleBracketed(args) = &last.arguments else { return None };
        let dims = args.args.iter().skip(1).map(|arg| match arg {
            GenericArgument::Type(Type::Path(p)) if p.path.get_ident().is_some() => {
                let ident = p.path.require_ident().expect("checked above");
                self.dims.entry(ident.to_string()).or_insert_with(|| ident.clone());
                ident.to_token_stream()
            }
            other => {
                self.add_dims(other.to_token_stream());
                let span = other.span();
                quote_spanned!(span=> #private::dsl::Tile)
            }
        });
        let dims: Vec<_> = dims.collect();
        let name = &last.ident;
        Some(quote!(#private::dsl::#name<#elem, #(#dims),*>))
    }

    /// The names in `{ 2 * N + 1 }`.
    fn add_dims(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    self.dims.entry(ident.to_string()).or_insert(ident);
                }
                TokenTree::Group(group) => self.add_dims(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    fn block(&self, stmts: &[Stmt]) -> TokenStream {
        stmts.iter().map(|stmt| self.stmt(stmt)).collect()
    }

    fn stmt(&self, stmt: &Stmt) -> TokenStream {
        match stmt {
            Stmt::Local(local) => {
                let (bound, limits) = match &local.init {
                    Some(init) => {
                        let (bound, limits) = limited(&init.expr);
                        (Some(bound), limits)
                    }
                    None => (None, None),
                };
                let value = bound.map_or_else(|| self.unknown(), |bound| self.expr(bound));
                let limits = limits.map(|limits| self.limits(limits));
                let pat = match &local.pat {
                    Pat::Type(typed) => &typed.pat,
                    other => other,
                };
                // A tuple of axes: each is bound by itself.
                if let (Pat::Tuple(tuple), Some(bound)) = (pat, bound)
                    && let Expr::Call(call) = bound
                    && call.args.len() == tuple.elems.len()
                {
                    let func = self.function(&call.func);
                    return tuple
                        .elems
                        .iter()
                        .zip(&call.args)
                        .map(|(name, dim)| {
                            let dim = self.expr(dim);
                            quote!(let #name = #func(#dim);)
                        })
                        .collect();
                }
                match pat {
                    Pat::Ident(_) => quote!(let #pat = #value #limits;),
                    _ => quote!(let _ = #value;),
                }
            }
            Stmt::Expr(Expr::ForLoop(l), _) => {
                let (pat, body) = (&l.pat, self.block(&l.body.stmts));
                let (bound, limits) = limited(&l.expr);
                let (tiles, limits) = (self.expr(bound), limits.map(|limits| self.limits(limits)));
                quote!({ let #pat = #tiles #limits; loop { #body break; } })
            }
            Stmt::Expr(Expr::If(choice), _) => {
                let (condition, body) = (self.expr(&choice.cond), self.block(&choice.then_branch.stmts));
                quote!({ let _ = #condition; #body })
            }
            Stmt::Expr(Expr::Assign(assign), _) => {
                let (left, right) = (&assign.left, self.expr(&assign.right));
                match &**left {
                    Expr::Path(_) => quote!(#left = #right;),
                    _ => quote!(let _ = #right;),
                }
            }
            Stmt::Expr(expr, _) => {
                let value = self.expr(expr);
                quote!(let _ = #value;)
            }
            Stmt::Item(_) | Stmt::Macro(_) => TokenStream::new(),
        }
    }

    /// `.below(hi)` behind a binder.
    fn limits(&self, method: &syn::ExprMethodCall) -> TokenStream {
        let (name, args) = (&method.method, method.args.iter().map(|arg| self.expr(arg)));
        quote!(.#name(#(#args),*))
    }

    fn unknown(&self) -> TokenStream {
        let private = self.private;
        quote!(#private::dsl::Tile)
    }

    fn function(&self, func: &Expr) -> TokenStream {
        let private = self.private;
        match func {
            Expr::Path(path) => match path.path.segments.last() {
                Some(last) => {
                    let name = &last.ident;
                    match &last.arguments {
                        PathArguments::AngleBracketed(args) => {
                            let elem = args.args.first().map(|arg| self.elem(arg));
                            quote!(#private::dsl::#name::<#elem>)
                        }
                        _ => quote!(#private::dsl::#name),
                    }
                }
                None => self.unknown(),
            },
            _ => self.unknown(),
        }
    }

    fn elem(&self, arg: &GenericArgument) -> TokenStream {
        let private = self.private;
        match arg {
            GenericArgument::Type(Type::Path(path)) => match path.path.get_ident() {
                Some(ident) if is_ours(ident) => quote!(#private::#ident),
                _ => path.to_token_stream(),
            },
            _ => quote!(f32),
        }
    }

    fn expr(&self, expr: &Expr) -> TokenStream {
        let private = self.private;
        match expr {
            Expr::Paren(p) => self.expr(&p.expr),
            Expr::Group(g) => self.expr(&g.expr),
            Expr::Path(path) => match path.path.get_ident() {
                Some(ident) => ident.to_token_stream(),
                None => quote!(#private::dsl::scalar(#path)),
            },
            // Types are no business of the skeleton: the lint of literals that no `i32` holds would speak of one.
            Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(lit), .. }) if lit.suffix().is_empty() => {
                quote!(#private::dsl::scalar::<i128>(#lit))
            }
            Expr::Lit(lit) => quote!(#private::dsl::scalar(#lit)),
            // A sign is part of a literal: no other type has the least number.
            Expr::Unary(syn::ExprUnary { op: op @ syn::UnOp::Neg(_), expr, .. })
                if matches!(**expr, Expr::Lit(_)) =>
            {
                quote!(#private::dsl::scalar(#op #expr))
            }
            Expr::Unary(unary) => {
                let (op, x) = (&unary.op, self.expr(&unary.expr));
                match op {
                    syn::UnOp::Deref(_) => x,
                    _ => quote!((#op #x)),
                }
            }
            Expr::Binary(binary) => {
                let (a, op, b) = (self.expr(&binary.left), &binary.op, self.expr(&binary.right));
                use syn::BinOp as B;
                match op {
                    B::Add(_)
                    | B::Sub(_)
                    | B::Mul(_)
                    | B::Div(_)
                    | B::Rem(_)
                    | B::BitAnd(_)
                    | B::BitOr(_)
                    | B::BitXor(_)
                    | B::Shl(_)
                    | B::Shr(_) => {
                        quote!((#a #op #b))
                    }
                    _ => quote!(#private::dsl::both(#a, #b)),
                }
            }
            Expr::Call(call) => {
                let func = self.function(&call.func);
                let tensor_first = matches!(&*call.func, Expr::Path(p) if p.path.get_ident().is_some_and(|name| takes_tensor(&name.to_string())));
                // The precision of `dot` is a word, and each factor is rounded to it.
                if let (Expr::Path(p), 4) = (&*call.func, call.args.len())
                    && p.path.is_ident("dot")
                {
                    let [a, b, acc] = [0, 1, 2].map(|n| self.expr(&call.args[n]));
                    let precision = self.function(&call.args[3]);
                    return quote!(#func(#precision(#a), #precision(#b), #acc));
                }
                let args = call.args.iter().enumerate().map(|(n, arg)| {
                    let value = self.expr(arg);
                    if n == 0 && tensor_first { quote!(&#value) } else { value }
                });
                quote!(#func(#(#args),*))
            }
            Expr::MethodCall(method) if method.method == "cast" => {
                let x = self.expr(&method.receiver);
                let name = &method.method;
                let elem = method.turbofish.as_ref().and_then(|t| t.args.first()).map(|arg| self.elem(arg));
                match elem {
                    Some(elem) => quote!(#x.#name::<#elem>()),
                    None => x,
                }
            }
            Expr::Array(array) => {
                let items = array.elems.iter().map(|item| self.expr(item));
                quote!([#(#items),*])
            }
            Expr::Block(block) => match block.block.stmts.as_slice() {
                [Stmt::Expr(inner, None)] => self.expr(inner),
                _ => self.unknown(),
            },
            _ => self.unknown(),
        }
    }
}
