//! What a schedule expands to: a unit struct with its proved programs, and an exported macro.

use super::export;
use crate::{parse::schedule::Entry, prove::Proved};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::Visibility;
use tile_dsl::{dtype::DType, program::Program};

fn variant(dtype: DType) -> Ident {
    let name = match dtype {
        DType::F32 => "F32",
        DType::F16 => "F16",
        DType::BF16 => "BF16",
        DType::I32 => "I32",
        DType::Bool => "Bool",
    };
    Ident::new(name, Span::call_site())
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
            quote!(<#path as #private::Schedule>::Kernel)
        }
        (None, None) => unreachable!("a schedule names a kernel or a parent"),
    };
    let dtypes = proved.schedule.dtypes.iter().map(|d| {
        let variant = variant(*d);
        quote!(#private::DType::#variant)
    });
    let programs = proved.programs.iter().map(|(dtype, program)| {
        let bytes = Literal::byte_string(&Program::to_bytes(program));
        let pattern = match dtype {
            Some(dtype) => {
                let variant = variant(*dtype);
                quote!(::core::option::Option::Some(#private::DType::#variant))
            }
            None => quote!(::core::option::Option::None),
        };
        quote!(#pattern => ::core::option::Option::Some(#bytes),)
    });
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

        impl #private::Schedule for #module::#name {
            type Kernel = #kernel;
            const NAME: &'static str = #text;
            const DOC: &'static str = #doc;
            const DTYPES: &'static [#private::DType] = &[#(#dtypes),*];
            fn program(dtype: ::core::option::Option<#private::DType>) -> ::core::option::Option<&'static [u8]> {
                match dtype {
                    #(#programs)*
                    _ => ::core::option::Option::None,
                }
            }
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
