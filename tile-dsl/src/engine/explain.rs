//! How a phase went from the nest it started with to the one that it took, rewrite by rewrite: egg's explanation of their equality.
//!
//! An e-graph that keeps explanations is slower, so a phase runs without them. Only inside [`recording`] it runs once more with them,
//! and egg is asked why the nest that was taken equals the first one (Flatt et al., *Small Proofs from Congruence Closure*, FMCAD 2022).

use super::{
    facts::{Facts, Graph},
    language::{Node, members},
    phase::{saturate, written},
    rule::Rule,
};
use crate::nest::{Nest, Stmt, ValueId};
use egg::FlatTerm;
use std::{cell::RefCell, rc::Rc};

/// One rewrite.
pub(super) struct Rewrite {
    /// The rule.
    pub rule: String,
    /// From its left side to its right side.
    pub forward: bool,
    /// The whole term after it.
    pub term: Stmt,
}

/// The rewrites of one phase.
pub(super) struct Chain {
    /// What it started with.
    pub start: Nest,
    /// In order.
    pub rewrites: Vec<Rewrite>,
}

thread_local! {
    /// Directives build their rules and run them in one go, so what wants the rewrites looks in from here.
    static CHAINS: RefCell<Option<Vec<Chain>>> = const { RefCell::new(None) };
}

/// Runs `body`; also the rewrites of each phase that it ran.
pub(super) fn recording<T>(body: impl FnOnce() -> T) -> (T, Vec<Chain>) {
    CHAINS.set(Some(Vec::new()));
    let result = body();
    (result, CHAINS.take().unwrap_or_default())
}

/// Keeps why a phase may take a term, inside [`recording`].
pub(super) fn record(nest: &Nest, rules: &[Rule<'_>], taken: &Stmt) {
    if CHAINS.with_borrow(Option::is_some) {
        let chain = Chain { start: nest.clone(), rewrites: explain(nest, rules, taken) };
        CHAINS.with_borrow_mut(|chains| chains.get_or_insert_default().push(chain));
    }
}

/// The rewrites from the term of a nest to one that its phase derived.
fn explain(nest: &Nest, rules: &[Rule<'_>], taken: &Stmt) -> Vec<Rewrite> {
    let mut graph = Graph::new(Facts::new(Rc::new(nest.clone()))).with_explanations_enabled();
    let before = written(&mut graph, &nest.body);
    let root = graph.add_expr(&before);
    graph.rebuild();
    let mut graph = saturate(graph, root, rules).graph;
    let after = written(&mut graph, taken);
    let mut explanation = graph.explain_equivalence(&before, &after);
    let terms = explanation.make_flat_explanation();
    terms
        .iter()
        .filter_map(|term| {
            let (rule, forward) = rule_of(term)?;
            Some(Rewrite { rule, forward, term: read(&graph, term) })
        })
        .collect()
}

/// A term of an explanation as a statement.
fn read(graph: &Graph, term: &FlatTerm<Node>) -> Stmt {
    let child = |n: usize| Box::new(read(graph, &term.children[n]));
    match (&term.node, term.children.first().map(|c| &c.node), term.children.get(1).map(|c| &c.node)) {
        (Node::For(_), Some(Node::Digit(digit)), Some(Node::LoopKind(at))) => {
            Stmt::For { digit: *digit, at: *at, body: child(2) }
        }
        (Node::Let(_), Some(Node::Values(set)), _) => {
            Stmt::Let { values: members(*set).map(ValueId).collect(), first: child(1), rest: child(2) }
        }
        (Node::Stage(_), Some(Node::Copy(copy)), _) => Stmt::Stage { copy: *copy, body: child(1) },
        (Node::Do(n), ..) => graph.analysis.actions[*n as usize].stmt.clone(),
        (node, ..) => unreachable!("the grammar puts a statement here, not {node:?}"),
    }
}

/// The rule that made a term of the one before it, and whether it was applied from left to right; none for the first term.
fn rule_of(term: &FlatTerm<Node>) -> Option<(String, bool)> {
    let here = term.forward_rule.map(|rule| (rule, true)).or(term.backward_rule.map(|rule| (rule, false)));
    let here = here.map(|(rule, forward)| (rule.to_string(), forward));
    here.or_else(|| term.children.iter().find_map(rule_of))
}
