//! The proc macros `tile_kernel` and `schedule`. What they do is [`tile_macros_core`]'s, which runs outside of `rustc` too.

use proc_macro::TokenStream;

/// Turns a function over tensors into a tile kernel. See `tilewright::dsl` for the language.
///
/// `#[tile_kernel(crate = path)]` names the facade crate where the dependency on `tilewright` was renamed.
#[proc_macro_attribute]
pub fn tile_kernel(attr: TokenStream, item: TokenStream) -> TokenStream {
    tile_macros_core::tile_kernel(attr.into(), item.into()).into()
}

/// The implementation of `tilewright::schedule!`, which passes the facade's path and the tokens.
#[doc(hidden)]
#[proc_macro]
pub fn __schedule(input: TokenStream) -> TokenStream {
    tile_macros_core::schedule(input.into()).into()
}
