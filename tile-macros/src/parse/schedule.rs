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
    parse::{Parse, ParseStream, Parser},
};
use tile_dsl::{
    diagnostic::Diagnostic,
    dtype::DType,
    schedule::{Item, Target},
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
                    .remark("element types are f32, f16, bf16 and f8"),
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
        let parse = |statement, spans: &mut Spans| {
            (|input: ParseStream| directive::parse(input, inherited, spans)).parse2(statement)
        };
        match lists::read(statement, lists, spans, parse) {
            Ok(found) => items.extend(found),
            Err(error) => {
                for error in error {
                    report.syntax(&error, range, spans);
                }
            }
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use tile_dsl::schedule::{self, DirectiveKind, Key, NAMES};

    /// What a reader says of a list of directives, whatever the spans; `None` if it is no such list.
    type Read = Option<Vec<Result<DirectiveKind, Key>>>;

    fn read(items: Vec<Item>) -> Read {
        let kind = |item| match item {
            Item::Directive(directive) => Ok(directive.kind),
            Item::Drop { key, .. } => Err(key),
        };
        Some(items.into_iter().map(kind).collect())
    }

    fn as_text(text: &str) -> Read {
        read(schedule::parse(text).ok()?)
    }

    fn as_tokens(text: &str) -> Read {
        let (body, mut spans) = (text.parse().ok()?, Spans::default());
        let mut items = Vec::new();
        for statement in statements(&body) {
            let parse = |input: ParseStream| directive::parse(input, None, &mut spans);
            items.extend(parse.parse2(statement).ok()?);
        }
        read(items)
    }

    #[test]
    fn directives_read_the_same_as_tokens_and_as_text() {
        let forms = directive::FORMS.map(|(_, form)| form);
        for text in forms.into_iter().chain([
            "",
            "tile(i = 32, j = 8); bind(j -> thread.x, i -> thread.y);",
            "tile(i = 1_024,)",
            "fits(N <= 1024, M <= 4)",
            "layout(a: row, b: col)",
            "split(n.t -> no, nl, nv: 32, 4)",
            "recompute(v, e.max); fuse(z.sum.2, v.2.3 at n.o)",
            "tensor_core(acc: mma)",
            "tensor_core(acc: wgmma(64, 128); swapped)",
            "reorder(k, i.t in y.sum); reorder(i, j,)",
            "stage(a, e.max at k.o: shared, transposed, cp_async, vector(16)); stage(p: shared); stage(p: shared,)",
            "fragment(a, b at k.t)",
            "pad(a: 16, b: 32); swizzle(a: 64)",
            "interleave(k.t: loads(3/8), copies(1/4), stores(1/2)); interleave(k: stores(3/4),)",
            "split_k(k, 3; atomic)",
            "split_k(k, 4; cluster)",
            "reduce(e.max, y.sum: cta); reduce(s: warp)",
            "bind(i -> block); bind(j -> lane.y ^ lane.x, k -> warp.z)",
            "unroll(i, j in c); serpentine(i in y.sum); vectorize(jv)",
            "exchange(c); cache(c: evict_first, a: evict_last)",
            "order(row); order(col); order(grouped(4)); occupancy(2); assemble(0); launch(dependent)",
            "drop(bind(i, j.t), reorder(in acc), unroll(k in acc), order, occupancy, assemble(), launch, reorder)",
        ]) {
            assert_eq!(as_tokens(text), as_text(text), "{text}");
            let printed: Vec<String> = as_text(text)
                .unwrap_or_else(|| panic!("{text} is not read"))
                .into_iter()
                .map(|item| item.map_or_else(|key| format!("drop({key})"), |kind| kind.to_string()))
                .collect();
            assert_eq!(as_tokens(&printed.join(";")), as_text(text), "{text}");
        }
    }

    #[test]
    fn neither_reads_what_is_no_directive() {
        for text in [
            "tiles(i = 2)",
            "tile",
            "tile(i)",
            "tile(i = 2) tile(j = 2)",
            "tile(i = 2);; tile(j = 2)",
            "tile(2 = 3)",
            "tile(i = x)",
            "tile(i = -1)",
            "tile(i = 4294967296)",
            "tile(i => 2)",
            "tile()",
            "fits(N < 3)",
            "fits(n.o <= 3)",
            "layout(b: diagonal)",
            "layout(b.c: col)",
            "split(i -> i.a, i.b: 2)",
            "split(i: 2)",
            "fuse(v n)",
            "reorder()",
            "reorder(k in)",
            "stage(a at k: register)",
            "stage(a at k: shared, vector)",
            "stage(a at k: shared, padded)",
            "interleave(k.t)",
            "interleave(k.t: loads(2))",
            "interleave(k.t: stores(1/2), loads(1/2))",
            "interleave(k.t: loads(1/2), loads(1/2))",
            "stage(: shared)",
            "fragment(a)",
            "pipeline(k, 2,)",
            "pipeline(k)",
            "split_k(k, 2; sorted)",
            "split_k(k, 2;)",
            "tensor_core(acc: wmma)",
            "tensor_core(acc: mma;)",
            "tensor_core(acc: mma; transposed)",
            "tensor_core(acc: mma_tf32)",
            "reduce(s: grid)",
            "bind(i -> thread.w)",
            "bind(i -> grid.x)",
            "bind(i -> lane ^ lane.x)",
            "bind(i -> lane.y ^ lane)",
            "bind(i -> lane.y ^ warp.x)",
            "unroll(i.)",
            "unroll(i..t)",
            "occupancy()",
            "order(grouped)",
            "order(grouped(2), row)",
            "drop(bind)",
            "drop()",
            "drop(tiles(i))",
            "drop(drop(bind(i)))",
            "drop(order(i))",
            "drop(bind(i)",
        ] {
            assert_eq!((as_tokens(text), as_text(text)), (None, None), "{text}");
        }
    }

    #[test]
    fn what_the_engine_would_refuse_is_refused_at_once() {
        for text in ["tile(i = 0)", "split(i -> a, b: 2, 3)", "split(i -> a: 2)", "pad(a: 0)"] {
            assert_eq!(as_tokens(text), None, "{text}");
            assert!(as_text(text).is_some(), "{text}");
        }
    }

    #[test]
    fn every_directive_has_a_form() {
        let (names, forms): (Vec<_>, Vec<_>) = directive::FORMS.into_iter().unzip();
        assert_eq!(names.strip_suffix(&["drop"]), Some(&NAMES[..]));
        for (name, form) in names.iter().zip(forms) {
            let first = as_tokens(form).unwrap().remove(0);
            assert_eq!(first.map_or_else(|_| "drop", |kind| kind.name()), *name);
        }
    }
}
