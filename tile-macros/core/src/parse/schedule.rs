//! The body of `schedule!`: schedules with their headers. See `docs/schedule.md` for the grammar.

use super::{
    directive,
    lists::{self, Lists},
};
use crate::{
    report::Report,
    spans::{Range, Spans},
};
use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{
    Attribute, Path, Token, Visibility, braced,
    ext::IdentExt,
    parse::{Parse, ParseStream},
};
use tile_dsl::{
    diagnostic::Diagnostic,
    dtype::DType,
    schedule::{Item, Row, Target, rows},
};

/// One schedule as written.
pub struct Entry {
    pub attrs: Vec<Attribute>,
    pub vis: Visibility,
    pub name: Ident,
    pub target: Option<Ident>,
    /// `for kernel<..>`.
    pub kernel: Option<Named>,
    /// `= parent<..>`.
    pub parent: Option<Named>,
    /// What stands between the braces.
    pub body: TokenStream,
}

/// A kernel or parent: its path, and the element types after it.
pub struct Named {
    pub path: Path,
    pub dtypes: Option<Vec<Ident>>,
}

impl Named {
    /// Identifies the path among those gathered.
    pub fn key(&self) -> String {
        self.path.to_token_stream().to_string()
    }

    /// As written, without spaces.
    pub fn text(&self) -> String {
        self.key().replace(' ', "")
    }
}

/// All schedules of a block.
pub struct Block(pub Vec<Entry>);

impl Parse for Block {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let mut entries = Vec::new();
        while !input.is_empty() {
            entries.push(input.parse()?);
        }
        Ok(Block(entries))
    }
}

const FORMS: &str = "schedules are `pub name for kernel<f32> { .. }` or `pub name = parent { .. }`";

impl Parse for Entry {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let name: Ident = match input.fork().call(Ident::parse_any) {
            Ok(_) => input.parse()?,
            Err(e) => {
                return Err(syn::Error::new(
                    e.span(),
                    format!("expected the name of a schedule\n= note: {FORMS}"),
                ));
            }
        };
        let mut target = None;
        if input.peek(syn::Ident) && input.fork().parse::<Ident>()? == "on" {
            input.parse::<Ident>()?;
            target = Some(input.parse::<Ident>()?);
        }
        let kernel = input.parse::<Option<Token![for]>>()?.map(|_| input.parse()).transpose()?;
        let parent = input.parse::<Option<Token![=]>>()?.map(|_| input.parse()).transpose()?;
        if kernel.is_none() && parent.is_none() {
            let message = format!("`{name}` names neither a kernel nor a parent\n= note: {FORMS}");
            return Err(syn::Error::new(name.span(), message));
        }
        if !input.peek(syn::token::Brace) {
            let message = format!("expected the directives of `{name}` in braces\n= note: {FORMS}");
            return Err(syn::Error::new(input.span(), message));
        }
        let content;
        braced!(content in input);
        Ok(Entry { attrs, vis, name, target, kernel, parent, body: content.parse()? })
    }
}

impl Parse for Named {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let path = input.call(Path::parse_mod_style)?;
        let mut dtypes = None;
        if input.parse::<Option<Token![<]>>()?.is_some() {
            let mut list = vec![input.parse()?];
            while input.parse::<Option<Token![|]>>()?.is_some() {
                list.push(input.parse()?);
            }
            input.parse::<Token![>]>()?;
            dtypes = Some(list);
        }
        Ok(Named { path, dtypes })
    }
}

impl Entry {
    /// The doc comment, lines joined by newlines.
    pub fn doc(&self) -> String {
        let lines = self.attrs.iter().filter_map(|attr| match &attr.meta {
            syn::Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(s), .. }) => {
                    Some(s.value().trim().to_string())
                }
                _ => None,
            },
            _ => None,
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The target, if one is named and known.
    pub fn target(&self, spans: &mut Spans, report: &mut Report) -> Option<Target> {
        let name = self.target.as_ref()?;
        let target = Target::parse(&name.to_string());
        if target.is_none() {
            report.push(
                Diagnostic::new(spans.of(name), format!("unknown target `{name}`"))
                    .remark("targets are sm_80, sm_86, sm_87, sm_89, sm_90 and sm_90a"),
            );
        }
        target
    }
}

/// Element types by name; the unknown ones are reported.
pub fn dtypes(names: &[Ident], spans: &mut Spans, report: &mut Report) -> Vec<DType> {
    let mut dtypes = Vec::new();
    for name in names {
        match DType::from_name(&name.to_string()).filter(|d| d.is_float()) {
            Some(dtype) if dtypes.contains(&dtype) => {
                report.push(
                    Diagnostic::new(spans.of(name), format!("`{dtype}` is named twice"))
                        .remark("name it once"),
                );
            }
            Some(dtype) => dtypes.push(dtype),
            None => report.push(
                Diagnostic::new(spans.of(name), format!("`{name}` is not an element type"))
                    .remark(format!("element types are {}", DType::names_of_floats(" and "))),
            ),
        }
    }
    dtypes
}

/// The statements of a body, without the `;` after each.
pub fn statements(body: &TokenStream) -> Vec<TokenStream> {
    let trees: Vec<TokenTree> = body.clone().into_iter().collect();
    let ends = |tree: &TokenTree| matches!(tree, TokenTree::Punct(punct) if punct.as_char() == ';');
    let mut statements: Vec<TokenStream> =
        trees.split(ends).map(|statement| statement.iter().cloned().collect()).collect();
    if statements.last().is_some_and(TokenStream::is_empty) {
        statements.pop();
    }
    statements
}

/// The directives of a body; each mistake is reported and the rest still read. `inherited` is the schedule
/// they are inherited from. Of a list, the directives have the first number, and `lists` all of them.
pub fn items(
    body: &TokenStream,
    inherited: Option<&str>,
    spans: &mut Spans,
    lists: &mut Lists,
    report: &mut Report,
) -> Vec<Item> {
    let mut items = Vec::new();
    for statement in statements(body) {
        let range = Range::of(&statement);
        let name = match statement.clone().into_iter().next() {
            Some(TokenTree::Ident(name)) => Some(name),
            _ => None,
        };
        let parse = |statement, spans: &mut Spans| directive::parse(statement, inherited, spans);
        match lists::read(statement, lists, spans, parse) {
            Ok(found) => {
                for item in &found {
                    if let Item::Directive(directive) = item {
                        spans.describe(directive.span, directive.kind.place());
                    }
                }
                items.extend(found);
            }
            Err(error) => {
                let row = rows().iter().find(|row| name.as_ref().is_some_and(|name| name == row.name()));
                for error in error {
                    report.syntax(&error, range, row.map(Row::place), spans);
                }
            }
        }
    }
    items
}
