//! A source file's tile macros, expanded without `rustc`: what it would do with them, and no more.
//!
//! `#[tile_kernel]` and `schedule!` are expanded in the order of the file. Of what they expand to, three things count: a
//! `compile_error!` is an error at the place of its tokens; a `macro_rules!` is remembered by the name under which it is
//! imported; and a call of such a macro is expanded in turn.

use proc_macro2::{Group, LineColumn, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use std::collections::HashMap;
use syn::{Item, ItemMacro, Macro, Path, UseTree};

/// An error: what it says, and what it underlines.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// Of several lines, as the macros make them.
    pub message: String,
    /// First character.
    pub start: LineColumn,
    /// One past the last character.
    pub end: LineColumn,
}

/// The errors of a source file, or why it is none that is understood.
pub fn errors(source: &str) -> Result<Vec<Error>, String> {
    // Each source is the first of its thread: places in messages name it as such.
    proc_macro2::extra::invalidate_current_thread_spans();
    let file = syn::parse_file(source).map_err(|error| error.to_string())?;
    let mut found = Expander::default();
    file.items.into_iter().try_for_each(|item| found.item(item))?;
    Ok(found.errors)
}

/// How the first source of a thread is named in messages.
pub const SOURCE: &str = "<parsed string 1>";

#[derive(Default)]
struct Expander {
    errors: Vec<Error>,
    /// Transcribers of exported macros.
    macros: HashMap<String, TokenStream>,
    /// Names under which they are imported.
    names: HashMap<String, String>,
}

impl Expander {
    fn item(&mut self, item: Item) -> Result<(), String> {
        match item {
            Item::Fn(mut function) => {
                let is_kernel = |a: &syn::Attribute| ends_with(a.path(), "tile_kernel");
                let Some(at) = function.attrs.iter().position(is_kernel) else { return Ok(()) };
                let options = match function.attrs.remove(at).meta {
                    syn::Meta::List(list) => list.tokens,
                    _ => TokenStream::new(),
                };
                self.output(tile_macros_core::tile_kernel(options, function.into_token_stream()))
            }
            Item::Mod(module) => {
                module.content.into_iter().flat_map(|(_, items)| items).try_for_each(|item| self.item(item))
            }
            Item::Macro(ItemMacro { mac, .. }) if ends_with(&mac.path, "schedule") => {
                let own = mac.tokens;
                self.output(tile_macros_core::schedule(quote!([::tilewright] [] [#own])))
            }
            Item::Macro(ItemMacro { mac, .. }) => Err(format!("`{}!` is for rustc", text(&mac.path))),
            _ => Ok(()),
        }
    }

    /// What a macro expanded to.
    fn output(&mut self, tokens: TokenStream) -> Result<(), String> {
        let file: syn::File = syn::parse2(tokens).map_err(|error| format!("no items: {error}"))?;
        for item in file.items {
            match item {
                Item::Macro(ItemMacro { ident: Some(name), mac, .. }) => {
                    self.macros.insert(name.to_string(), transcriber(&mac)?);
                }
                Item::Macro(ItemMacro { mac, .. }) if ends_with(&mac.path, "compile_error") => {
                    self.errors.push(error(&mac)?);
                }
                Item::Macro(ItemMacro { mac, .. }) if ends_with(&mac.path, "__schedule") => {
                    self.output(tile_macros_core::schedule(mac.tokens))?;
                }
                Item::Macro(ItemMacro { mac, .. }) => {
                    let expanded = self.call(&mac)?;
                    self.output(expanded)?;
                }
                Item::Use(import) => {
                    let mut tree = import.tree;
                    while let UseTree::Path(path) = tree {
                        tree = *path.tree;
                    }
                    if let UseTree::Rename(import) = tree {
                        self.names.insert(import.rename.to_string(), import.ident.to_string());
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A call of an exported macro: `path! { @tilewright [facade] [gathered] [own] [path] }`.
    fn call(&self, mac: &Macro) -> Result<TokenStream, String> {
        let name = mac.path.segments.last().expect("a path has segments").ident.to_string();
        let body = self.names.get(&name).and_then(|hidden| self.macros.get(hidden));
        let body = body.ok_or_else(|| format!("`{}!` is defined elsewhere", text(&mac.path)))?;
        let arguments = mac.tokens.clone().into_iter().filter_map(|tree| match tree {
            TokenTree::Group(group) => Some(group.stream()),
            _ => None,
        });
        let variables = ["facade", "gathered", "own", "path"].map(str::to_string);
        Ok(substitute(body.clone(), &variables.into_iter().zip(arguments).collect()))
    }
}

/// The body of the first rule of a `macro_rules!`.
fn transcriber(rules: &Macro) -> Result<TokenStream, String> {
    let groups = rules.tokens.clone().into_iter().filter_map(|tree| match tree {
        TokenTree::Group(group) => Some(group.stream()),
        _ => None,
    });
    groups.skip(1).step_by(2).next().ok_or_else(|| "a macro has a rule".to_string())
}

/// `$($name)*` replaced by what it stands for.
fn substitute(body: TokenStream, variables: &HashMap<String, TokenStream>) -> TokenStream {
    let mut trees = body.into_iter();
    let mut out = TokenStream::new();
    while let Some(tree) = trees.next() {
        match tree {
            TokenTree::Punct(dollar) if dollar.as_char() == '$' => {
                let Some(TokenTree::Group(repeated)) = trees.next() else { panic!("`$` begins `$($name)*`") };
                let name = repeated.stream().into_iter().last().expect("a name is repeated").to_string();
                trees.next().expect("`*` ends `$($name)*`");
                out.extend(variables[&name].clone());
            }
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), substitute(group.stream(), variables));
                inner.set_span(group.span());
                out.extend([TokenTree::Group(inner)]);
            }
            other => out.extend([other]),
        }
    }
    out
}

/// `compile_error! { "message" }` is underlined from its path to its brace, as `rustc` does.
fn error(call: &Macro) -> Result<Error, String> {
    let message: syn::LitStr = syn::parse2(call.tokens.clone()).map_err(|error| error.to_string())?;
    let start = match &call.path.leading_colon {
        Some(colons) => colons.spans[0].start(),
        None => call.path.segments[0].ident.span().start(),
    };
    let end = call.delimiter.span().join().end();
    Ok(Error { message: message.value(), start, end })
}

fn ends_with(path: &Path, name: &str) -> bool {
    path.segments.last().is_some_and(|last| last.ident == name)
}

fn text(path: &Path) -> String {
    path.to_token_stream().to_string().replace(' ', "")
}
