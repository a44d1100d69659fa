//! What a schedule expands to: a unit struct with its proved programs, and an exported macro.

use super::{export, space};
use crate::{parse::schedule::Entry, prove::Proved};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::Visibility;
use tile_dsl::{dtype::DType, program::Program};

/// An element type, as `Some` of it is matched and listed.
pub(super) fn dtype(dtype: DType, private: &TokenStream) -> TokenStream {
    // Variants are written as `Debug` prints them.
    let variant = Ident::new(&format!("{dtype:?}"), Span::call_site());
    quote!(#private::DType::#variant)
}

/// The arms of a match over the element type: the encoded programs.
pub(super) fn programs(programs: &[(Option<DType>, Program)], private: &TokenStream) -> TokenStream {
    let arms = programs.iter().map(|(found, program)| {
        let bytes = Literal::byte_string(&Program::to_bytes(program));
        let pattern = match found {
            Some(found) => {
                let dtype = dtype(*found, private);
                quote!(::core::option::Option::Some(#dtype))
            }
            None => quote!(::core::option::Option::None),
        };
        quote!(#pattern => ::core::option::Option::Some(#bytes),)
    });
    quote!(#(#arms)* _ => ::core::option::Option::None,)
}

/// Items for a schedule. Where proving failed the programs are missing but the type is there, so that only the
/// proof's errors show.
pub fn emit(entry: &Entry, proved: &Proved, facade: &TokenStream) -> TokenStream {
    let private = quote!(#facade::__private);
    let (vis, name) = (&entry.vis, &entry.name);
    let attrs = &entry.attrs;
    let (text, doc) = (name.to_string(), entry.doc());
    let kernel = match (&entry.kernel, &entry.parent) {
        (Some(kernel), _) => {
            let path = &kernel.path;
            quote!(#path)
        }
        (None, Some(parent)) => {
            let path = &parent.path;
            let family = if proved.of_space { quote!(Space) } else { quote!(Schedule) };
            quote!(<#path as #private::#family>::Kernel)
        }
        (None, None) => unreachable!("a schedule names a kernel or a parent"),
    };
    let dtypes = proved.schedule.dtypes.iter().map(|d| dtype(*d, &private));
    let (family, own) = match &proved.space {
        Some(space) => (quote!(Space), space::items(space, &text, &doc, &private)),
        None => {
            let arms = programs(&proved.programs, &private);
            let own = quote! {
                fn program(
                    dtype: ::core::option::Option<#private::DType>,
                ) -> ::core::option::Option<&'static [u8]> {
                    match dtype { #arms }
                }
            };
            (quote!(Schedule), own)
        }
    };
    let exported = export::export(vis, name, "schedule", &proved.export());
    // The type has a module of its own, so that two of one name are one error at the names, not one for each `impl`.
    let module = export::hidden_name(name, "module");
    let inner = inside(vis);
    let item = quote_spanned!(name.span()=> #vis use #module::#name;);
    quote! {
        #[doc(hidden)]
        mod #module {
            #(#attrs)*
            #[allow(non_camel_case_types)]
            #[derive(Clone, Copy, Debug)]
            #inner struct #name;
        }
        #[allow(unused_imports)]
        #item

        impl #private::#family for #module::#name {
            type Kernel = #kernel;
            const NAME: &'static str = #text;
            const DOC: &'static str = #doc;
            const DTYPES: &'static [#private::DType] = &[#(#dtypes),*];
            #own
        }

        #exported
    }
}

/// A visibility as seen from a module inside.
fn inside(vis: &Visibility) -> TokenStream {
    match vis {
        Visibility::Inherited => quote!(pub(super)),
        Visibility::Restricted(to) if to.path.is_ident("self") => quote!(pub(super)),
        Visibility::Restricted(to) if to.path.segments.first().is_some_and(|s| s.ident == "super") => {
            let path = &to.path;
            quote!(pub(in super::#path))
        }
        other => quote!(#other),
    }
}
