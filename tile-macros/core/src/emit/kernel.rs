//! What a kernel expands to: a function that collects its arguments, a type, and an exported macro.

use super::{export, skeleton};
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::{FnArg, ItemFn, Pat, Type};
use tile_dsl::tile::Kernel;

/// Items for a kernel; `kernel` is `None` when it has mistakes, and then a launch of it still type-checks.
pub fn emit(item: &ItemFn, kernel: Option<&Kernel>, facade: &TokenStream) -> TokenStream {
    let (vis, name) = (&item.vis, &item.sig.ident);
    let private = quote!(#facade::__private);
    let attrs: Vec<_> = item.attrs.iter().collect();
    let generic = item.sig.generics.type_params().next().map(|p| &p.ident);
    let generics = generic.map(|t| quote!(, #t: #private::Float));
    let dtype = match generic {
        Some(t) => quote!(::core::option::Option::Some(<#t as #private::Element>::DTYPE)),
        None => quote!(::core::option::Option::None),
    };
    let mut params = TokenStream::new();
    let mut args = TokenStream::new();
    for input in &item.sig.inputs {
        let FnArg::Typed(typed) = input else { continue };
        let Pat::Ident(pat) = &*typed.pat else { continue };
        let (ident, text) = (&pat.ident, pat.ident.to_string());
        if let Type::Reference(reference) = &*typed.ty {
            let Some(elem) = skeleton::element(&reference.elem, generic, &private) else { continue };
            let mutable = &reference.mutability;
            let method = if mutable.is_some() { format_ident!("output") } else { format_ident!("input") };
            params.extend(quote!(#ident: &'tilewright #mutable #private::Buffer<#elem>,));
            args.extend(quote!(.#method(#text, #ident)));
        } else {
            let ty = &typed.ty;
            params.extend(quote!(#ident: #ty,));
            args.extend(quote!(.scalar(#text, #ident)));
        }
    }
    let bytes = proc_macro2::Literal::byte_string(&kernel.map(Kernel::to_bytes).unwrap_or_default());
    let text = name.to_string();
    let about = format!("The kernel `{name}` as a type.");
    // A kernel with mistakes has parameters that no launch could take.
    let launch = match kernel {
        Some(_) => quote!(#private::Launch::new(#private::LaunchArgs::new(#text, #dtype) #args)),
        None => quote!(::core::unreachable!("the kernel has mistakes")),
    };
    let allow = kernel.is_none().then(|| quote!(#[allow(warnings)]));
    let exported = export::export(vis, name, "kernel", &quote!(#item));
    let marker = quote_spanned!(name.span()=> #vis enum #name {});
    let skeleton = skeleton::emit(item, &private, kernel.is_some());
    quote! {
        #(#attrs)*
        #allow
        #[allow(clippy::too_many_arguments)]
        #vis fn #name<'tilewright #generics>(#params) -> #private::Launch<'tilewright, #name> {
            #launch
        }

        #[doc = #about]
        #[allow(non_camel_case_types)]
        #marker

        impl #name {
            /// The tile IR, generic element type and all: [`tile_dsl::tile::Kernel::from_bytes`] reads it.
            #[allow(dead_code, rustdoc::broken_intra_doc_links)]
            pub const KERNEL: &'static [u8] = #bytes;
        }

        impl #private::Kernel for #name {
            const NAME: &'static str = #text;
            const ENCODED: &'static [u8] = #name::KERNEL;
        }

        #exported
        #skeleton
    }
}
