//! Mistakes, gathered and turned into `rustc` errors in one go, so that several show at once.

use crate::spans::{Range, Spans};
use proc_macro2::{Group, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use tile_dsl::{
    diagnostic::{Diagnostic, Note, Rewrite, replace},
    span::SpanId,
};

/// Diagnostics in the order found.
#[derive(Default)]
pub struct Report(Vec<Diagnostic>);

impl Report {
    /// Adds one, unless it is there already.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if !self.0.contains(&diagnostic) {
            self.0.push(diagnostic);
        }
    }

    /// Adds several.
    pub fn extend(&mut self, diagnostics: impl IntoIterator<Item = Diagnostic>) {
        diagnostics.into_iter().for_each(|d| self.push(d));
    }

    /// Adds a syntax error in a statement; one past the end of the input is put at the end of `range`. `card` describes the statement.
    pub fn syntax(&mut self, error: &syn::Error, range: Range, card: Option<String>, spans: &mut Spans) {
        let text = error.to_string();
        let mut lines = text.split("\n= ");
        let message = lines.next().unwrap_or_default().to_string();
        let (mut notes, mut help) = (Vec::new(), None);
        for line in lines {
            match (line.strip_prefix("note: "), line.strip_prefix("help: ")) {
                (Some(text), _) => notes.push(Note { span: SpanId::NONE, text: text.to_string() }),
                (_, Some(text)) => help = Some(text.to_string()),
                _ => {}
            }
        }
        let span = error.span();
        // Spans have no equality on stable; their debug text identifies them.
        let at_call_site = format!("{span:?}") == format!("{:?}", proc_macro2::Span::call_site());
        let span = spans.add(if at_call_site { Range::from(range.last) } else { Range::from(span) });
        self.push(Diagnostic { help, notes, ..Diagnostic::new(span, message).card(card) });
    }

    /// Number of diagnostics so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// One `compile_error!` for each diagnostic, underlining its span; `fallback` for those without one.
    pub fn errors(&self, spans: &Spans, fallback: Range) -> TokenStream {
        self.0.iter().map(|d| compile_error(&text(d, spans), spans.get(d.span).unwrap_or(fallback))).collect()
    }
}

/// `compile_error!` underlining a range: the path takes its first token's span, the braces its last's.
pub fn compile_error(message: &str, range: Range) -> TokenStream {
    let mut body = Group::new(proc_macro2::Delimiter::Brace, quote_spanned!(range.last=> #message));
    body.set_span(range.last);
    let body = TokenTree::Group(body);
    let path = quote_spanned!(range.first=> ::core::compile_error!);
    quote!(#path #body)
}

fn text(d: &Diagnostic, spans: &Spans) -> String {
    let mut text = d.message.clone();
    let mut line = |label: &str, body: &str| {
        text.push_str("\n= ");
        text.push_str(label);
        text.push_str(": ");
        text.push_str(body);
    };
    for note in &d.notes {
        line("note", &note_text(note, spans));
    }
    let rewritten = || rewrite(d.rewrite.as_ref()?, spans);
    if let Some(help) = d.help.clone().or_else(rewritten) {
        line("help", &help);
    }
    if let Some(card) = d.card.as_ref().map(|card| &*card.0).or_else(|| spans.card(d.span)) {
        line("note", &format!("see {card}"));
    }
    text
}

/// A rewrite as an edit of the source, if that stands on one line.
fn rewrite(rewrite: &Rewrite, spans: &Spans) -> Option<String> {
    let old = spans.get(rewrite.span)?.line()?;
    let (before, after) = (&rewrite.before, &rewrite.after);
    let operand = match syn::parse_str::<syn::Expr>(&old) {
        Ok(syn::Expr::Assign(_)) => return None,
        // What binds less tightly than a method call.
        Ok(syn::Expr::Binary(_) | syn::Expr::Unary(_) | syn::Expr::Cast(_)) if after.starts_with('.') => {
            format!("({old})")
        }
        _ => old.clone(),
    };
    Some(replace(&old, format!("{before}{operand}{after}")))
}

/// The note's text, then ``(file:line: `excerpt`)`` as far as known.
fn note_text(note: &Note, spans: &Spans) -> String {
    let Some(range) = spans.get(note.span) else { return note.text.clone() };
    match (range.place(), range.excerpt()) {
        (Some(place), Some(excerpt)) => format!("{} ({place}: `{excerpt}`)", note.text),
        (Some(place), None) => format!("{} ({place})", note.text),
        (None, Some(excerpt)) => format!("{} (`{excerpt}`)", note.text),
        (None, None) => note.text.clone(),
    }
}
