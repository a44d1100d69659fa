//! Lists of numbers: `tile(i = [64, 128])` stands for two directives, of which a configuration of the schedule has one.
//!
//! A list stands where a number may; other brackets in a directive are those of an index, and stand behind a name. So each number of a list is put in its
//! place, and the directive is read once for each; the rest of the compiler sees directives with numbers.

use crate::spans::Spans;
use proc_macro2::{Delimiter, Group, Literal, Span, TokenStream, TokenTree};
use std::collections::BTreeMap;
use syn::{
    LitInt, Token,
    parse::{ParseStream, Parser},
};
use tile_dsl::{
    directive::DirectiveKind,
    schedule::{Directive, Item, Phase, rows},
    span::SpanId,
};

/// Most configurations of a schedule.
pub const MOST: usize = 256;

/// What the schedules of a block leave open.
#[derive(Default)]
pub struct Lists {
    /// Number of numbers in each list.
    lengths: Vec<usize>,
    /// By the span of the directive, which says what the first number of each list gives.
    choices: BTreeMap<SpanId, Choice>,
}

/// What a directive may be.
struct Choice {
    /// The lists that decide.
    lists: Vec<usize>,
    /// For each of their numbers, those of the last list fastest.
    kinds: Vec<DirectiveKind>,
}

/// A position in each list.
pub type Picked = BTreeMap<usize, usize>;

/// The lists of one directive as written.
pub struct Found(Vec<(Span, Vec<Literal>)>);

impl Found {
    /// The lists of a statement.
    ///
    /// # Errors
    /// A list that is no list of different numbers; one in a directive that takes none.
    pub fn of(statement: &TokenStream) -> syn::Result<Found> {
        let mut groups = Vec::new();
        replace(statement.clone(), &mut |group| {
            groups.push(group.clone());
            TokenTree::Group(group.clone())
        });
        let lists: Vec<_> = groups.iter().map(numbers).collect::<syn::Result<_>>()?;
        if let (Some(TokenTree::Ident(name)), Some((span, _))) =
            (statement.clone().into_iter().next(), lists.first())
            && let Some(row) = rows().iter().find(|row| name == row.name() && row.phase == Phase::Assume)
        {
            let message = format!("`{name}` takes one number: it is what every launch must keep to");
            return Err(syn::Error::new(*span, format!("{message}\n= note: the form is `{};`", row.form)));
        }
        let found = Found(lists);
        match found.combinations() {
            Some(n) if n <= MOST => Ok(found),
            _ => {
                let message =
                    format!("the lists of this directive alone give more than {MOST} configurations");
                Err(syn::Error::new(found.0[0].0, message))
            }
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn combinations(&self) -> Option<usize> {
        self.0.iter().try_fold(1usize, |n, (_, numbers)| n.checked_mul(numbers.len()))
    }

    /// The statement with one number for each list, for all combinations, those of the last list fastest.
    pub fn statements(&self, statement: &TokenStream) -> Vec<TokenStream> {
        let lengths: Vec<usize> = self.0.iter().map(|(_, numbers)| numbers.len()).collect();
        let with = |picked: Vec<usize>| {
            let mut lists = self.0.iter().zip(picked);
            replace(statement.clone(), &mut |_| {
                let ((span, numbers), picked) = lists.next().expect("as many as were found");
                let mut number = numbers[picked].clone();
                // Mistakes are underlined by the list.
                number.set_span(*span);
                number.into()
            })
        };
        product(&lengths).map(with).collect()
    }
}

/// All positions in lists of these lengths, those of the last fastest.
fn product(lengths: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..lengths.iter().product()).map(move |mut n| {
        let mut picked = vec![0; lengths.len()];
        for (at, length) in picked.iter_mut().zip(lengths).rev() {
            (*at, n) = (n % length, n / length);
        }
        picked
    })
}

/// Puts something else in the place of each list.
fn replace(tokens: TokenStream, list: &mut impl FnMut(&Group) -> TokenTree) -> TokenStream {
    let mut named = false;
    let mut one = |tree| {
        let index = std::mem::replace(&mut named, matches!(tree, TokenTree::Ident(_)));
        match tree {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket && index => group.into(),
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => list(&group),
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), replace(group.stream(), list));
                inner.set_span(group.span());
                inner.into()
            }
            other => other,
        }
    };
    tokens.into_iter().map(&mut one).collect()
}

/// The numbers in brackets.
fn numbers(group: &Group) -> syn::Result<(Span, Vec<Literal>)> {
    let parse = |input: ParseStream| {
        let mut numbers: Vec<LitInt> = Vec::new();
        while !input.is_empty() {
            if !input.peek(LitInt) {
                let found: TokenTree = input.parse()?;
                let message = format!("expected a number in the list, found `{found}`");
                return Err(syn::Error::new(
                    found.span(),
                    format!("{message}\n= note: a list is `[64, 128]`"),
                ));
            }
            let number: LitInt = input.parse()?;
            if numbers.iter().any(|n| n.base10_digits() == number.base10_digits()) {
                let message = format!("{number} is in the list twice");
                return Err(syn::Error::new(number.span(), message));
            }
            numbers.push(number);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(numbers)
    };
    let numbers = parse.parse2(group.stream())?;
    if numbers.is_empty() {
        let message = "a list of no numbers leaves no configuration\n= note: a list is `[64, 128]`";
        return Err(syn::Error::new(group.span(), message));
    }
    Ok((group.span(), numbers.iter().map(LitInt::token).collect()))
}

impl Lists {
    /// Enters the items of one statement, one list of them for each combination of its lists' numbers, and returns those
    /// that the first numbers give.
    pub fn enter(&mut self, found: &Found, mut combinations: Vec<Vec<Item>>) -> Vec<Item> {
        let lengths: Vec<usize> = found.0.iter().map(|(_, numbers)| numbers.len()).collect();
        let base = self.lengths.len();
        self.lengths.extend(&lengths);
        let first = combinations.remove(0);
        for (member, item) in first.iter().enumerate() {
            let Item::Directive(directive) = item else { continue };
            let others = combinations.iter().map(|items| match &items[member] {
                Item::Directive(other) => &other.kind,
                Item::Drop { .. } => &directive.kind,
            });
            let kinds: Vec<&DirectiveKind> = std::iter::once(&directive.kind).chain(others).collect();
            let picked: Vec<Vec<usize>> = product(&lengths).collect();
            // A list decides on this member if another number of it alone makes another directive.
            let kind =
                |at: &[usize]| kinds[at.iter().zip(&lengths).fold(0, |n, (at, length)| n * length + at)];
            let decides = |list: usize| {
                picked.iter().any(|at| {
                    let mut other = at.clone();
                    other[list] = 0;
                    kind(at) != kind(&other)
                })
            };
            let lists: Vec<usize> = (0..lengths.len()).filter(|list| decides(*list)).collect();
            let alike = |at: &&Vec<usize>| (0..at.len()).all(|list| lists.contains(&list) || at[list] == 0);
            let kinds: Vec<DirectiveKind> = picked.iter().filter(alike).map(|at| kind(at).clone()).collect();
            if !lists.is_empty() {
                let lists = lists.into_iter().map(|list| base + list).collect();
                self.choices.insert(directive.span, Choice { lists, kinds });
            }
        }
        first
    }

    /// Whether some directive has a list.
    pub fn any(&self, directives: &[Directive]) -> bool {
        directives.iter().any(|d| self.choices.contains_key(&d.span))
    }

    /// The lists of these directives with their lengths, those of earlier phases first: configurations then share most of
    /// their proofs.
    pub fn of(&self, directives: &[Directive]) -> Vec<(usize, usize)> {
        let mut sorted: Vec<&Directive> = directives.iter().collect();
        sorted.sort_by_key(|d| d.kind.phase());
        let mut lists: Vec<(usize, usize)> = Vec::new();
        for list in sorted.iter().filter_map(|d| self.choices.get(&d.span)).flat_map(|choice| &choice.lists) {
            if lists.iter().all(|(known, _)| known != list) {
                lists.push((*list, self.lengths[*list]));
            }
        }
        lists
    }

    /// All positions in some lists, those of the last fastest.
    pub fn configurations(lists: &[(usize, usize)]) -> impl Iterator<Item = Picked> {
        let lengths: Vec<usize> = lists.iter().map(|(_, length)| *length).collect();
        let all: Vec<Vec<usize>> = product(&lengths).collect();
        all.into_iter().map(|picked| lists.iter().map(|(list, _)| *list).zip(picked).collect())
    }

    /// The directives of a configuration, and those that lists decide, as text.
    pub fn pick(&self, directives: &[Directive], picked: &Picked) -> (Vec<Directive>, String) {
        let mut texts = Vec::new();
        let pick = |directive: &Directive| {
            let Some(choice) = self.choices.get(&directive.span) else { return directive.clone() };
            let at = choice.lists.iter().fold(0, |n, list| n * self.lengths[*list] + picked[list]);
            let kind = choice.kinds[at].clone();
            texts.push(kind.to_string());
            Directive { kind, ..directive.clone() }
        };
        let directives = directives.iter().map(pick).collect();
        (directives, texts.join("; "))
    }
}

/// Reads a statement for each combination of its lists' numbers. `parse` reads one, entering spans.
///
/// # Errors
/// The first mistake.
pub fn read(
    statement: TokenStream,
    lists: &mut Lists,
    spans: &mut Spans,
    mut parse: impl FnMut(TokenStream, &mut Spans) -> syn::Result<Vec<Item>>,
) -> syn::Result<Vec<Item>> {
    let found = Found::of(&statement)?;
    if found.is_empty() {
        return parse(statement, spans);
    }
    let mut combinations = Vec::new();
    // All are of one place, so the first one's spans are everyone's.
    let mut others = Spans::default();
    for (n, statement) in found.statements(&statement).into_iter().enumerate() {
        combinations.push(parse(statement, if n == 0 { spans } else { &mut others })?);
    }
    Ok(lists.enter(&found, combinations))
}
