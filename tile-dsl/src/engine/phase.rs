//! One phase: a nest into a fresh e-graph, saturation under a few rules, extraction by fewest redexes.
//!
//! Nothing here depends on time: the loop ends when nothing grows, or at a cap on nodes, which is an
//! internal limit and never reported as "illegal".

use super::explain;
use super::facts::{Facts, Graph, at, copy, digit, values};
use super::language::{Node, bit, members};
use super::rule::{Rule, Verdict};
use crate::{
    diagnostic::Diagnostic,
    nest::{Nest, Stmt, ValueId},
};
use egg::{Id, RecExpr, Searcher, Subst};
use std::rc::Rc;

/// Nodes at which a phase gives up. Directed phases stay below a few hundred.
const NODE_CAP: usize = 20_000;

/// Whether a node is what a directive wanted to rewrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redex {
    /// No.
    No,
    /// Rewritten where legal; left alone otherwise.
    Soft,
    /// The directive has not applied while one is left.
    Hard,
}

/// Decides whether a node, with the nodes chosen for its children, is a redex of the directive.
pub(crate) type IsRedex<'a> = &'a dyn Fn(&Graph, &Node, &[&Node]) -> Redex;

/// Result of a phase.
pub(crate) struct Outcome {
    /// The extracted term.
    pub body: Stmt,
    /// Hard redexes of the term before.
    pub before: u32,
    /// Hard redexes left.
    pub left: u32,
    /// Reasons of the conditions that failed, each once.
    pub refusals: Vec<Diagnostic>,
    /// Rules that applied, with counts.
    pub applied: Vec<(&'static str, u32)>,
    /// Whether the node cap ended the phase, or a rule changed the meaning of a nest.
    pub internal: Option<String>,
}

/// A saturated e-graph, before extraction.
pub(crate) struct Saturated {
    pub graph: Graph,
    pub root: Id,
    refusals: Vec<Diagnostic>,
    applied: Vec<(&'static str, u32)>,
    internal: Option<String>,
}

/// Runs one phase.
pub(crate) fn run(nest: &Nest, rules: &[Rule<'_>], redex: IsRedex<'_>) -> Outcome {
    let (graph, root) = start(nest);
    let before = Extraction::new(&graph, redex).best(root).0.hard();
    let saturated = saturate(graph, root, rules);
    SAMPLES.with_borrow_mut(|wanted| wanted.iter_mut().for_each(|w| w.draw(&saturated)));
    let Saturated { graph, root, refusals, applied, internal } = saturated;
    let mut extraction = Extraction::new(&graph, redex);
    let (cost, node) = extraction.best(root);
    let body = extraction.build(root, node);
    explain::record(nest, rules, &body);
    Outcome { body, before, left: cost.hard(), refusals, applied, internal }
}

/// A fresh e-graph with the term of a nest.
pub(crate) fn start(nest: &Nest) -> (Graph, Id) {
    let mut graph = Graph::new(Facts::new(Rc::new(nest.clone())));
    let term = written(&mut graph, &nest.body);
    let root = graph.add_expr(&term);
    graph.rebuild();
    (graph, root)
}

/// Applies the rules until nothing grows.
pub(crate) fn saturate(mut graph: Graph, root: Id, rules: &[Rule<'_>]) -> Saturated {
    let mut refusals: Vec<Diagnostic> = Vec::new();
    let mut applied: Vec<(&'static str, u32)> = Vec::new();
    let mut internal = None;
    loop {
        let before = (graph.total_number_of_nodes(), graph.number_of_classes());
        let matches: Vec<_> = rules.iter().map(|r| r.before.search(&graph)).collect();
        for (rule, matches) in rules.iter().zip(&matches) {
            let mut count = 0;
            for class in matches {
                for subst in &class.substs {
                    let mut subst = subst.clone();
                    match (rule.condition)(&mut graph, &mut subst) {
                        Verdict::Skip => {}
                        Verdict::Refuse(d) => {
                            if !refusals.contains(&d) {
                                refusals.push(*d);
                            }
                        }
                        Verdict::Apply => {
                            count += u32::from(unite(&mut graph, rule, class.eclass, &subst));
                        }
                    }
                }
            }
            match applied.iter_mut().find(|(n, _)| *n == rule.name) {
                Some((_, n)) => *n += count,
                None if count > 0 => applied.push((rule.name, count)),
                None => {}
            }
        }
        graph.rebuild();
        if let Some(why) = graph.analysis.unsound.take() {
            internal = Some(format!("a rewrite changed what the nest computes: {why}"));
            break;
        }
        if before == (graph.total_number_of_nodes(), graph.number_of_classes()) {
            break;
        }
        if graph.total_number_of_nodes() > NODE_CAP {
            internal = Some(format!("the e-graph grew beyond {NODE_CAP} nodes"));
            break;
        }
    }
    Saturated { graph, root, refusals, applied, internal }
}

/// Unites the two sides of a rule; whether they were apart. Where explanations are kept the rule is the reason.
fn unite(graph: &mut Graph, rule: &Rule<'_>, class: Id, subst: &Subst) -> bool {
    if graph.are_explanations_enabled() {
        return graph.union_instantiations(&rule.before.ast, &rule.after.ast, subst, rule.name).1;
    }
    let after = graph.add_instantiation(&rule.after.ast, subst);
    graph.union(class, after)
}

/// A statement as egg writes terms.
pub(super) fn written(graph: &mut Graph, stmt: &Stmt) -> RecExpr<Node> {
    fn add(graph: &mut Graph, out: &mut RecExpr<Node>, stmt: &Stmt) -> Id {
        let node = match stmt {
            Stmt::For { digit, at, body } => {
                let (digit, at) = (out.add(Node::Digit(*digit)), out.add(Node::LoopKind(*at)));
                Node::For([digit, at, add(graph, out, body)])
            }
            Stmt::Let { values, first, rest } => {
                let set = values.iter().fold(0, |set, v| set | bit(v.0));
                let values = out.add(Node::Values(set));
                let first = add(graph, out, first);
                Node::Let([values, first, add(graph, out, rest)])
            }
            Stmt::Stage { copy, body } => {
                let copy = out.add(Node::Copy(*copy));
                Node::Stage([copy, add(graph, out, body)])
            }
            leaf => Node::Do(graph.analysis.action(leaf)),
        };
        out.add(node)
    }
    let mut out = RecExpr::default();
    add(graph, &mut out, stmt);
    out
}

/// Hard redexes, then soft ones, then nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cost(u64);

impl Cost {
    const INFINITE: Cost = Cost(u64::MAX);

    fn node(redex: Redex) -> Cost {
        Cost(match redex {
            Redex::No => 1,
            Redex::Soft => (1 << 20) + 1,
            Redex::Hard => (1 << 40) + 1,
        })
    }

    fn plus(self, other: Cost) -> Cost {
        Cost(self.0.saturating_add(other.0))
    }

    fn hard(self) -> u32 {
        (self.0 >> 40) as u32
    }
}

/// The cheapest way to write a class with a given top node: which top node each of its children has.
struct Choice {
    cost: Cost,
    children: Vec<usize>,
}

/// Dynamic programming over (class, top node): a redex is judged by a node and the nodes below it.
struct Extraction<'a> {
    graph: &'a Graph,
    redex: IsRedex<'a>,
    /// By class, which are numbered from 0, and top node.
    memo: Vec<Vec<Option<Choice>>>,
}

impl<'a> Extraction<'a> {
    fn new(graph: &'a Graph, redex: IsRedex<'a>) -> Self {
        Extraction { graph, redex, memo: Vec::new() }
    }

    /// The cheapest way to write a class, and its top node.
    fn best(&mut self, class: Id) -> (Cost, usize) {
        let class = self.graph.find(class);
        (0..self.graph[class].nodes.len())
            .map(|n| (self.choose(class, n), n))
            .min_by_key(|(cost, _)| *cost)
            .expect("a class has a node")
    }

    /// The cost of the cheapest way to write a class with this top node.
    fn choose(&mut self, class: Id, node: usize) -> Cost {
        let graph = self.graph;
        let class = graph.find(class);
        let at = usize::from(class);
        if self.memo.len() <= at {
            self.memo.resize_with(at + 1, Vec::new);
        }
        if self.memo[at].is_empty() {
            self.memo[at].resize_with(graph[class].nodes.len(), || None);
        }
        if let Some(choice) = &self.memo[at][node] {
            return choice.cost;
        }
        // A term cannot contain itself: while this choice is open it costs too much to be taken.
        self.memo[at][node] = Some(Choice { cost: Cost::INFINITE, children: Vec::new() });
        let top = &graph[class].nodes[node];
        let kids: Vec<Id> = egg::Language::children(top).iter().map(|k| graph.find(*k)).collect();
        let mut best = Choice { cost: Cost::INFINITE, children: Vec::new() };
        let mut pick = vec![0; kids.len()];
        loop {
            let below: Vec<&Node> = kids.iter().zip(&pick).map(|(k, n)| &graph[*k].nodes[*n]).collect();
            let mut cost = Cost::node((self.redex)(graph, top, &below));
            for (kid, n) in kids.iter().zip(&pick) {
                cost = cost.plus(self.choose(*kid, *n));
            }
            if cost < best.cost {
                best = Choice { cost, children: pick.clone() };
            }
            // Next combination of top nodes of the children.
            let mut k = 0;
            loop {
                if k == kids.len() {
                    let cost = best.cost;
                    self.memo[at][node] = Some(best);
                    return cost;
                }
                pick[k] += 1;
                if pick[k] < graph[kids[k]].nodes.len() {
                    break;
                }
                pick[k] = 0;
                k += 1;
            }
        }
    }

    fn build(&self, class: Id, node: usize) -> Stmt {
        let class = self.graph.find(class);
        let pick = &self.memo[usize::from(class)][node].as_ref().expect("it was chosen").children;
        let build = |id: Id, n: usize| Box::new(self.build(id, pick[n]));
        stmt(self.graph, &self.graph[class].nodes[node], &build)
    }
}

/// A statement from a node; `build` makes the statement of its n-th child.
fn stmt(graph: &Graph, node: &Node, build: &dyn Fn(Id, usize) -> Box<Stmt>) -> Stmt {
    match node {
        Node::For([d, t, body]) => {
            Stmt::For { digit: digit(graph, *d), at: at(graph, *t), body: build(*body, 2) }
        }
        Node::Let([vs, first, rest]) => Stmt::Let {
            values: members(values(graph, *vs)).map(ValueId).collect(),
            first: build(*first, 1),
            rest: build(*rest, 2),
        },
        Node::Stage([c, body]) => Stmt::Stage { copy: copy(graph, *c), body: build(*body, 1) },
        Node::Do(n) => graph.analysis.actions[*n as usize].stmt.clone(),
        Node::Digit(_) | Node::LoopKind(_) | Node::Values(_) | Node::Copy(_) => {
            unreachable!("the grammar puts a statement here")
        }
    }
}

/// Members of e-classes asked for by a test.
struct Samples {
    count: usize,
    random: super::testing::Random,
    drawn: Vec<Stmt>,
}

thread_local! {
    /// Set by [`sampling`] only: families build their rules and run them in one go, so a test looks in from here.
    static SAMPLES: std::cell::RefCell<Option<Samples>> = const { std::cell::RefCell::new(None) };
}

/// Runs `body` and returns random members of the classes of the nests whose phases it ran.
pub(crate) fn sampling(count: usize, seed: u64, body: impl FnOnce()) -> Vec<Stmt> {
    let random = super::testing::Random::new(seed);
    SAMPLES.set(Some(Samples { count, random, drawn: Vec::new() }));
    body();
    SAMPLES.take().map_or(Vec::new(), |s| s.drawn)
}

impl Samples {
    fn draw(&mut self, saturated: &Saturated) {
        for _ in 0..self.count {
            let member = saturated.sample(&mut || self.random.next());
            self.drawn.push(member);
        }
    }
}

impl Saturated {
    /// A random member of the class of the whole nest, by choosing a node of each class.
    pub fn sample(&self, random: &mut dyn FnMut() -> u64) -> Stmt {
        fn go(graph: &Graph, id: Id, random: &mut dyn FnMut() -> u64) -> Stmt {
            let nodes = &graph[graph.find(id)].nodes;
            let node = &nodes[random() as usize % nodes.len()];
            match node {
                Node::For([d, t, body]) => Stmt::For {
                    digit: digit(graph, *d),
                    at: at(graph, *t),
                    body: Box::new(go(graph, *body, random)),
                },
                Node::Let([vs, first, rest]) => Stmt::Let {
                    values: members(values(graph, *vs)).map(ValueId).collect(),
                    first: Box::new(go(graph, *first, random)),
                    rest: Box::new(go(graph, *rest, random)),
                },
                Node::Stage([c, body]) => {
                    Stmt::Stage { copy: copy(graph, *c), body: Box::new(go(graph, *body, random)) }
                }
                Node::Do(n) => graph.analysis.actions[*n as usize].stmt.clone(),
                leaf => unreachable!("the grammar puts a statement here, not {leaf:?}"),
            }
        }
        go(&self.graph, self.root, random)
    }
}
