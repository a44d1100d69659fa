//! Kernels and parents from outside a `schedule!`: which are needed, and what their exported macros handed over.

use crate::parse::schedule::{Block, Named};
use proc_macro2::{Group, TokenStream};
use quote::quote;
use syn::{
    Ident, ItemFn, bracketed,
    parse::{Parse, ParseStream},
};

/// The input of the implementation of `schedule!`: `[facade] [gathered ..] [own tokens]`.
pub struct Input {
    pub facade: TokenStream,
    pub gathered: Vec<Export>,
    gathered_tokens: TokenStream,
    pub own: TokenStream,
}

/// What an exported macro hands over.
pub struct Export {
    pub path: String,
    pub content: Content,
}

/// A kernel's function, or a schedule with its ancestors.
pub enum Content {
    Kernel(TokenStream),
    Schedule(ScheduleExport),
}

/// A schedule as exported: its kernel, target and element types, and the bodies from the root down to itself.
#[derive(Clone)]
pub struct ScheduleExport {
    pub kernel: TokenStream,
    pub target: String,
    pub dtypes: Vec<String>,
    pub chain: Vec<(String, TokenStream)>,
}

impl Parse for Input {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let facade = bracketed(input)?;
        let gathered_tokens = bracketed(input)?;
        let own = bracketed(input)?;
        let gathered = syn::parse::Parser::parse2(
            |input: ParseStream| {
                let mut exports = Vec::new();
                while !input.is_empty() {
                    exports.push(input.parse()?);
                }
                Ok(exports)
            },
            gathered_tokens.clone(),
        )?;
        Ok(Input { facade, gathered, gathered_tokens, own })
    }
}

fn bracketed(input: ParseStream) -> syn::Result<TokenStream> {
    let content;
    bracketed!(content in input);
    content.parse()
}

impl Parse for Export {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let content;
        bracketed!(content in input);
        let path = bracketed(&content)?.to_string();
        let kind: Ident = content.parse()?;
        let tokens = bracketed(&content)?;
        let content =
            if kind == "kernel" { Content::Kernel(tokens) } else { Content::Schedule(syn::parse2(tokens)?) };
        Ok(Export { path, content })
    }
}

impl Parse for ScheduleExport {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let kernel = bracketed(input)?;
        let target = input.parse::<Ident>()?.to_string();
        let mut dtypes = Vec::new();
        while input.peek(syn::Ident) {
            dtypes.push(input.parse::<Ident>()?.to_string());
        }
        let mut chain = Vec::new();
        while !input.is_empty() {
            let group: Group = input.parse()?;
            let (name, body) = syn::parse::Parser::parse2(
                |input: ParseStream| {
                    Ok((input.parse::<syn::LitStr>()?.value(), input.parse::<TokenStream>()?))
                },
                group.stream(),
            )?;
            chain.push((name, body));
        }
        Ok(ScheduleExport { kernel, target, dtypes, chain })
    }
}

impl ScheduleExport {
    /// Inverse of its parsing.
    pub fn tokens(&self) -> TokenStream {
        let word = |text: &String| Ident::new(text, proc_macro2::Span::call_site());
        let (kernel, target) = (&self.kernel, word(&self.target));
        let dtypes = self.dtypes.iter().map(word);
        let chain = self.chain.iter().map(|(name, body)| quote!([#name #body]));
        quote!([#kernel] #target #(#dtypes)* #(#chain)*)
    }
}

impl Input {
    /// A call of the exported macro of the first kernel or parent still missing; its expansion calls back.
    pub fn fetch(&self, block: &Block) -> Option<TokenStream> {
        let missing = block.0.iter().find_map(|entry| {
            let local = |p: &Named| block.0.iter().any(|e| p.path.is_ident(&e.name));
            let names = [entry.kernel.as_ref(), entry.parent.as_ref()].into_iter().flatten();
            names.into_iter().find(|p| !local(p) && self.gathered.iter().all(|g| g.path != p.key()))
        })?;
        let path = &missing.path;
        let (facade, gathered, own) = (&self.facade, &self.gathered_tokens, &self.own);
        Some(quote!(#path! { @tilewright [#facade] [#gathered] [#own] [#path] }))
    }

    /// What the macro of a path handed over.
    pub fn export(&self, named: &Named) -> Option<&Content> {
        self.gathered.iter().find(|g| g.path == named.key()).map(|g| &g.content)
    }
}

/// The function behind a kernel's tokens.
pub fn function(tokens: &TokenStream) -> syn::Result<ItemFn> {
    syn::parse2(tokens.clone())
}
