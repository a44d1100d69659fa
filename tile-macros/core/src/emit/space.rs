//! What a schedule with lists says of itself: its configurations, and those that were dropped.

use super::schedule::{dtype, programs};
use crate::prove::Space;
use proc_macro2::TokenStream;
use quote::quote;
use tile_dsl::dtype::DType;

/// The items of the implementation of `Space`, besides the kernel, the name, the doc and the element types.
pub fn items(space: &Space, schedule: &str, doc: &str, private: &TokenStream) -> TokenStream {
    let configurations = space.configurations.iter().map(|configuration| {
        let (text, name) = (&configuration.text, format!("{schedule} {{ {}; }}", configuration.text));
        let dtypes = configuration.programs.iter().filter_map(|(d, _)| Some(dtype((*d)?, private)));
        let arms = programs(&configuration.programs, private);
        quote! {
            #private::Configuration::new(
                <<Self as #private::Space>::Kernel as #private::Kernel>::NAME,
                #name,
                #text,
                #doc,
                &[#(#dtypes),*],
                |dtype| match dtype { #arms },
            )
        }
    });
    let dropped = space.dropped.iter().map(|dropped| {
        let (text, reason) = (&dropped.text, &dropped.reason);
        let dtype = option(dropped.dtype, private);
        quote!(#private::Dropped { configuration: #text, dtype: #dtype, reason: #reason })
    });
    quote! {
        const CONFIGURATIONS: &'static [#private::Configuration] = &[#(#configurations),*];
        const DROPPED: &'static [#private::Dropped] = &[#(#dropped),*];
    }
}

fn option(found: Option<DType>, private: &TokenStream) -> TokenStream {
    match found {
        Some(found) => {
            let found = dtype(found, private);
            quote!(::core::option::Option::Some(#found))
        }
        None => quote!(::core::option::Option::None),
    }
}
