//! The proc macros `tile_kernel` and `schedule`: tokens → [`tile_dsl`] → errors with spans, or generated Rust.
//!
//! Parse (`parse`), check (in `tile_dsl`), report (`report`) and emit (`emit`) are apart; mistakes accumulate.

mod emit;
mod gather;
mod parse;
mod prove;
mod report;
mod spans;

use proc_macro::TokenStream;
use quote::quote;

/// Turns a function over tensors into a tile kernel. See `tilewright::dsl` for the language.
///
/// `#[tile_kernel(crate = path)]` names the facade crate where the dependency on `tilewright` was renamed.
#[proc_macro_attribute]
pub fn tile_kernel(attr: TokenStream, item: TokenStream) -> TokenStream {
    let mut facade = quote!(::tilewright);
    let options = syn::meta::parser(|meta| {
        if !meta.path.is_ident("crate") {
            return Err(meta.error("the only option is `crate = path`"));
        }
        let path: syn::Path = meta.value()?.parse()?;
        facade = quote!(#path);
        Ok(())
    });
    syn::parse_macro_input!(attr with options);
    let item = syn::parse_macro_input!(item as syn::ItemFn);
    let (mut spans, mut report) = Default::default();
    let kernel = parse::kernel::kernel(&item, &mut spans, &mut report);
    let errors = report.errors(&spans, spans::Range::of(&item.sig.ident));
    let items = emit::kernel::emit(&item, kernel.as_ref(), &facade);
    quote!(#items #errors).into()
}

/// The implementation of `tilewright::schedule!`, which passes the facade's path and the tokens.
#[doc(hidden)]
#[proc_macro]
pub fn __schedule(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as gather::Input);
    let block: parse::schedule::Block = match syn::parse2(input.own.clone()) {
        Ok(block) => block,
        Err(error) => return error.into_compile_error().into(),
    };
    if let Some(call) = input.fetch(&block) {
        return call.into();
    }
    let (mut spans, mut report) = Default::default();
    let proved = prove::Prover::new(&input, &mut spans, &mut report).block(&block);
    let errors = report.errors(&spans, spans::Range::of(&input.own));
    let items = block
        .0
        .iter()
        .zip(&proved)
        .filter_map(|(e, p)| Some(emit::schedule::emit(e, p.as_ref()?, &input.facade)));
    quote!(#(#items)* #errors).into()
}
