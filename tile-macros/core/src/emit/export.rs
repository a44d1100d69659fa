//! Exported `macro_rules!`: how a kernel or a schedule hands its tokens to a `schedule!` in another module or crate.
//!
//! `schedule!` sees only its own tokens, so it calls the macro of each kernel or parent that it names:
//! `parent! { @tilewright [facade] [gathered] [own tokens] [path] }` expands to `schedule!`'s implementation with
//! the parent's tokens added to what was gathered. The facade's path is its own `$crate`, so renaming the
//! dependency does no harm.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use std::hash::{DefaultHasher, Hash, Hasher};
use syn::Visibility;

/// The macro `name` with visibility `vis`, handing on `kind [tokens]`.
pub fn export(vis: &Visibility, name: &Ident, kind: &str, tokens: &TokenStream) -> TokenStream {
    let hidden = hidden_name(name, kind);
    let kind_word = Ident::new(kind, Span::call_site());
    let exported = matches!(vis, Visibility::Public(_)).then(|| quote!(#[macro_export]));
    let misuse = match kind {
        "kernel" => format!("`{name}` is a kernel: call it like a function, without `!`"),
        _ => format!("`{name}` is a schedule: pass it to `.schedule({name})`"),
    };
    // Whether the name can be used elsewhere is for the type of the same name to say: a macro that cannot be named is
    // reported by the name that it has here.
    let within = match vis {
        Visibility::Public(_) => quote!(#vis),
        _ => quote!(pub(crate)),
    };
    // Two of one name in a module are one error, at the name.
    let import = quote_spanned!(name.span()=> #within use #hidden as #name;);
    quote! {
        #[doc(hidden)]
        #exported
        #[allow(unused_macros)]
        macro_rules! #hidden {
            (@tilewright [$($facade:tt)*] [$($gathered:tt)*] [$($own:tt)*] [$($path:tt)*]) => {
                $($facade)*::__private::__schedule! {
                    [$($facade)*] [$($gathered)* [[$($path)*] #kind_word [#tokens]]] [$($own)*]
                }
            };
            ($($other:tt)*) => { ::core::compile_error!(#misuse) };
        }
        #[doc(hidden)]
        #[allow(unused_imports)]
        #import
    }
}

/// A name of its own in the crate's one namespace of exported macros.
pub(super) fn hidden_name(name: &Ident, kind: &str) -> Ident {
    let (span, start) = (name.span(), name.span().start());
    let mut hasher = DefaultHasher::new();
    (span.file(), start.line, start.column, std::env::var("CARGO_PKG_NAME").ok()).hash(&mut hasher);
    let at = Span::call_site().located_at(name.span());
    format_ident!("__tilewright_{kind}_{name}_{:016x}", hasher.finish(), span = at)
}
