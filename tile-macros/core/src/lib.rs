//! What the proc macros `tile_kernel` and `schedule` do: tokens → [`tile_dsl`] → errors with spans, or generated Rust.
//!
//! Parse (`parse`), check (in `tile_dsl`), report (`report`) and emit (`emit`) are apart; mistakes accumulate.
//! Nothing here needs `rustc` around it: `tests/diagnostics.rs` expands source files by itself.

mod emit;
mod gather;
mod parse;
mod prove;
mod report;
mod spans;

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::Parser;

/// What `#[tile_kernel(attr)] item` expands to. Each mistake is a `compile_error!` among the items.
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
    let item = match options.parse2(attr).and_then(|()| syn::parse2::<syn::ItemFn>(item)) {
        Ok(item) => item,
        Err(error) => return error.into_compile_error(),
    };
    let (mut spans, mut report) = Default::default();
    let kernel = parse::kernel::kernel(&item, &mut spans, &mut report);
    let errors = report.errors(&spans, spans::Range::of(&item.sig.ident));
    let items = emit::kernel::emit(&item, kernel.as_ref(), &facade);
    quote!(#items #errors)
}

/// What `__schedule! { [facade] [gathered ..] [own tokens] }` expands to: a call of the exported macro of a kernel or parent
/// that is still missing, or the schedules' items with a `compile_error!` for each mistake.
pub fn schedule(input: TokenStream) -> TokenStream {
    let parsed = syn::parse2::<gather::Input>(input)
        .and_then(|input| Ok((syn::parse2::<parse::schedule::Block>(input.own.clone())?, input)));
    let (block, input) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return error.into_compile_error(),
    };
    if let Some(call) = input.fetch(&block) {
        return call;
    }
    let (mut spans, mut report) = Default::default();
    let proved = prove::Prover::new(&input, &mut spans, &mut report).block(&block);
    let errors = report.errors(&spans, spans::Range::of(&input.own));
    let items = block
        .0
        .iter()
        .zip(&proved)
        .filter_map(|(e, p)| Some(emit::schedule::emit(e, p.as_ref()?, &input.facade)));
    quote!(#(#items)* #errors)
}
