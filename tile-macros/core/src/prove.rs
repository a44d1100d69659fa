//! A block of schedules → proved programs: resolves parents, extends, proves for each element type, reports.

mod space;

pub use space::Space;

use crate::{
    gather::{self, Content, Input, ScheduleExport},
    parse::{
        self,
        lists::Lists,
        schedule::{Block, Entry, Named},
    },
    report::Report,
    spans::{Range, Spans},
};
use proc_macro2::TokenStream;
use std::collections::{BTreeMap, BTreeSet};
use tile_dsl::{
    diagnostic::{Diagnostic, Note, replace},
    dtype::DType,
    engine,
    program::Program,
    schedule::{Directive, Schedule, Target, extend_without_mistakes},
    span::SpanId,
};

/// A schedule after proving.
pub struct Proved {
    /// Everything it inherits included.
    pub schedule: Schedule,
    /// A program for each element type it admits; fewer if proving failed.
    pub programs: Vec<(Option<DType>, Program)>,
    /// Its configurations, instead of programs, where it has lists.
    pub space: Option<Space>,
    /// Whether its parent has lists.
    pub of_space: bool,
    export: ScheduleExport,
    /// It or an ancestor in this block has mistakes.
    failed: bool,
}

impl Proved {
    /// Its directives as a child inherits them.
    fn inherited(&self) -> Vec<Directive> {
        let name = || Some(self.schedule.name.clone());
        let inherited = self.schedule.directives.iter().cloned();
        inherited.map(|d| Directive { inherited: d.inherited.clone().or_else(name), ..d }).collect()
    }

    /// What its exported macro hands on.
    pub fn export(&self) -> TokenStream {
        self.export.tokens()
    }
}

/// Proves a block.
pub struct Prover<'a> {
    pub input: &'a Input,
    pub spans: &'a mut Spans,
    pub report: &'a mut Report,
    /// Kernels read so far by their tokens, as several schedules share one; `None` for one with mistakes.
    kernels: BTreeMap<String, Option<engine::Prover>>,
    /// Spans in the sources of kernels: mistakes there are shown at the schedule.
    in_kernels: BTreeSet<SpanId>,
    lists: Lists,
    /// Names of all schedules of the block.
    names: Vec<String>,
    done: Vec<(String, Proved)>,
    /// Position in the block of the schedule at hand.
    position: usize,
}

/// What a schedule builds on.
struct Base {
    kernel: TokenStream,
    target: Target,
    dtypes: Vec<DType>,
    chain: Vec<(String, TokenStream)>,
    /// All that the chain says, where it was read already.
    directives: Option<Vec<Directive>>,
    failed: bool,
}

impl<'a> Prover<'a> {
    pub fn new(input: &'a Input, spans: &'a mut Spans, report: &'a mut Report) -> Self {
        Prover {
            input,
            spans,
            report,
            kernels: BTreeMap::new(),
            in_kernels: BTreeSet::new(),
            lists: Lists::default(),
            names: Vec::new(),
            done: Vec::new(),
            position: 0,
        }
    }

    /// Proves all schedules of a block, in order; `None` for one whose kernel or parent is not known.
    pub fn block(mut self, block: &Block) -> Vec<Option<Proved>> {
        self.names = block.0.iter().map(|entry| entry.name.to_string()).collect();
        let mut found = Vec::new();
        for (position, entry) in block.0.iter().enumerate() {
            self.position = position;
            if self.done.iter().any(|(name, _)| entry.name == name) {
                let span = self.spans.of(&entry.name);
                self.report.push(
                    Diagnostic::new(span, format!("two schedules are named `{}`", entry.name))
                        .remark("each schedule of a module has a name of its own"),
                );
                found.push(false);
                continue;
            }
            match self.entry(entry) {
                Some(proved) => {
                    self.done.push((entry.name.to_string(), proved));
                    found.push(true);
                }
                None => found.push(false),
            }
        }
        let mut done = self.done.into_iter().map(|(_, proved)| proved);
        found.into_iter().map(|found| if found { done.next() } else { None }).collect()
    }

    fn fail<T>(&mut self, at: &impl quote::ToTokens, message: String, remark: String) -> Option<T> {
        let span = self.spans.of(at);
        self.report.push(Diagnostic::new(span, message).remark(remark));
        None
    }

    fn mend<T>(&mut self, at: &impl quote::ToTokens, message: String, old: String, new: String) -> Option<T> {
        let span = self.spans.of(at);
        self.report.push(Diagnostic::new(span, message).help(replace(old, new)));
        None
    }

    /// Whether a path is the name of a schedule of this block.
    fn is_local(&self, named: &Named) -> bool {
        self.names.iter().any(|name| named.path.is_ident(name))
    }

    /// The kernel of `for`, if there is one.
    fn named_kernel(&mut self, entry: &Entry, named: &Named) -> Option<TokenStream> {
        if named.path.is_ident(&entry.name) {
            let (name, new) = (entry.name.to_string(), format!("{}_schedule", entry.name));
            let message = format!("`{name}` is the name of its kernel: both are items of one module");
            return self.mend(&entry.name, message, name, new);
        }
        if !self.is_local(named)
            && let Content::Kernel(tokens) = self.input.export(named)?
        {
            return Some(tokens.clone());
        }
        let text = named.text();
        self.mend(
            &named.path,
            format!("`{text}` is a schedule, not a kernel"),
            format!("for {text}"),
            format!("= {text}"),
        )
    }

    fn base_of_parent(&mut self, named: &Named) -> Option<Base> {
        if let Some(name) = named.path.get_ident()
            && let Some((_, parent)) = self.done.iter().find(|(done, _)| name == done)
        {
            return Some(Base {
                kernel: parent.export.kernel.clone(),
                target: parent.schedule.target,
                dtypes: parent.schedule.dtypes.clone(),
                chain: parent.export.chain.clone(),
                directives: Some(parent.inherited()),
                failed: parent.failed,
            });
        }
        if self.is_local(named) {
            let text = named.text();
            // A parent above that could not be read was reported.
            let at = self.names.iter().position(|name| named.path.is_ident(name))?;
            return if at < self.position {
                None
            } else if at == self.position {
                self.fail(
                    &named.path,
                    format!("`{text}` extends itself"),
                    "a parent is another schedule, above or in another module".into(),
                )
            } else {
                self.fail(
                    &named.path,
                    format!("`{text}` is not defined yet"),
                    format!("move `{text}` above the schedules that extend it"),
                )
            };
        }
        match self.input.export(named)? {
            Content::Schedule(export) => Some(Base {
                kernel: export.kernel.clone(),
                target: Target::parse(&export.target).unwrap_or(Target::DEFAULT),
                dtypes: export.dtypes.iter().filter_map(|d| DType::from_name(d)).collect(),
                chain: export.chain.clone(),
                directives: None,
                failed: false,
            }),
            Content::Kernel(_) => {
                let text = named.text();
                self.mend(
                    &named.path,
                    format!("`{text}` is a kernel, not a schedule"),
                    format!("= {text}"),
                    format!("for {text}"),
                )
            }
        }
    }

    fn base(&mut self, entry: &Entry) -> Option<Base> {
        let parent = match &entry.parent {
            Some(named) => Some(self.base_of_parent(named)?),
            None => None,
        };
        let mut base = match (&entry.kernel, parent) {
            (None, Some(parent)) => parent,
            (Some(named), parent) => {
                let kernel = self.named_kernel(entry, named)?;
                match parent {
                    Some(parent) => Base { kernel, ..parent },
                    None => Base {
                        kernel,
                        target: Target::DEFAULT,
                        dtypes: vec![],
                        chain: vec![],
                        directives: None,
                        failed: false,
                    },
                }
            }
            (None, None) => return None,
        };
        if let Some(target) = entry.target(self.spans, self.report) {
            base.target = target;
        }
        Some(base)
    }

    /// Reads a kernel, unless it was read already; its own mistakes were reported where it is written. Returns its key.
    fn kernel(&mut self, tokens: &TokenStream) -> String {
        let key = tokens.to_string();
        if self.kernels.contains_key(&key) {
            return key;
        }
        let function = gather::function(tokens).ok();
        let before = self.spans.len();
        let kernel = function.and_then(|f| parse::kernel::kernel(&f, self.spans, &mut Report::default()));
        self.in_kernels.extend((before + 1..=self.spans.len()).map(SpanId));
        self.kernels.insert(key.clone(), kernel.map(engine::Prover::new));
        key
    }

    /// Name of a kernel, and of its generic element type.
    fn signature(&self, key: &str) -> Option<(String, Option<String>)> {
        let kernel = self.kernels.get(key)?.as_ref()?.kernel();
        Some((kernel.name.clone(), kernel.generic.clone()))
    }

    /// Element types that a schedule admits: those it names, or its parent's. An extension names no others than its parent;
    /// the types of another kernel's schedule say nothing of this kernel, for which all directives are proved.
    fn dtypes(&mut self, entry: &Entry, kernel: &str, inherited: &[DType]) -> Option<Vec<DType>> {
        let generic = self.signature(kernel).map(|(name, generic)| (name, generic.is_some()));
        let mut admitted = inherited.to_vec();
        let named = [entry.kernel.as_ref(), entry.parent.as_ref()];
        let mut listed = named.into_iter().flatten().filter_map(|n| Some((n, n.dtypes.as_ref()?)));
        if let Some((named, names)) = listed.next() {
            let before = self.report.len();
            let dtypes = parse::schedule::dtypes(names, self.spans, self.report);
            if let Some((kernel, false)) = &generic {
                let listed: Vec<String> = names.iter().map(ToString::to_string).collect();
                let text = named.text();
                return self.mend(
                    &names[0],
                    format!("`{kernel}` has no generic element type"),
                    format!("{text}<{}>", listed.join(" | ")),
                    text,
                );
            }
            if self.report.len() > before {
                return None;
            }
            if let (None, Some(parent), false) = (&entry.kernel, &entry.parent, inherited.is_empty())
                && let Some(at) = dtypes.iter().position(|d| !inherited.contains(d))
            {
                let names_of = |list: &[DType]| list.iter().map(|d| d.name()).collect::<Vec<_>>().join(", ");
                return self.fail(
                    &names[at],
                    format!("`{}` does not admit {}", parent.text(), dtypes[at]),
                    format!(
                        "it admits {}: an extension may narrow the element types, not widen them",
                        names_of(inherited)
                    ),
                );
            }
            admitted = dtypes;
        }
        match generic {
            Some((_, false)) => Some(vec![]),
            // Which ones it could name shows when its directives are known.
            Some((_, true)) if admitted.is_empty() => None,
            _ => Some(admitted),
        }
    }

    /// A schedule of a generic kernel that names no element types: the help names those that it can be proved for.
    fn without_dtypes(&mut self, entry: &Entry, kernel: &str, schedule: &Schedule) -> Option<()> {
        let named = entry.kernel.as_ref().or(entry.parent.as_ref())?;
        let prover = self.kernels.get_mut(kernel)?.as_mut()?;
        let name = &prover.kernel().name;
        let message = format!("`{name}` is generic, but `{}` names no element types", entry.name);
        let legal: Vec<&str> = DType::floats()
            .filter(|dtype| prover.prove(schedule, &[Some(*dtype)], 0).is_ok())
            .map(DType::name)
            .collect();
        let text = named.text();
        match legal.is_empty() {
            true => {
                let rule = format!("element types are {}", DType::names_of_floats(" and "));
                self.fail(&named.path, message, rule)
            }
            false => {
                let types = format!("{text}<{}>", legal.join(" | "));
                self.mend(&named.path, message, text, types)
            }
        }
    }

    /// Reports a schedule named like something in its kernel: an item of that name would stand in for it there.
    fn hides(&mut self, entry: &Entry, key: &str, tokens: &TokenStream) -> bool {
        let here = entry.name.span().file();
        let by_name = entry.kernel.as_ref().is_none_or(|k| k.path.get_ident().is_some());
        let Some(Some(prover)) = self.kernels.get(key) else { return false };
        if !by_name || Range::of(tokens).first.file() != here {
            return false;
        }
        let kernel = prover.kernel();
        let parameters = kernel.tensors.iter().map(|t| (&t.name, t.span, "a parameter"));
        let parameters = parameters.chain(kernel.scalars.iter().map(|s| (&s.name, s.span, "a parameter")));
        let axes = kernel.axes.iter().map(|a| (&a.name, a.span, "an axis"));
        let values = kernel.vars.iter().map(|v| (&v.name, v.span, "a value"));
        let hidden = parameters.chain(axes).chain(values).find(|(name, ..)| entry.name == **name);
        let Some((name, span, what)) = hidden else { return false };
        let message = format!("the schedule is named like {what} of `{}`, which it would hide", kernel.name);
        let (note, new) = (format!("`{name}` is {what} here"), format!("{name}_schedule"));
        let diagnostic = Diagnostic::new(self.spans.of(&entry.name), message);
        self.report.push(diagnostic.note(span, note).help(replace(name, new)));
        true
    }

    fn entry(&mut self, entry: &Entry) -> Option<Proved> {
        let base = self.base(entry)?;
        let kernel = self.kernel(&base.kernel);
        let errors = self.report.len();
        if self.hides(entry, &kernel, &base.kernel) {
            return None;
        }
        let dtypes = self.dtypes(entry, &kernel, &base.dtypes);
        let name = entry.name.to_string();

        let directives = base.directives.unwrap_or_else(|| {
            base.chain.iter().fold(Vec::new(), |directives, (ancestor, body)| {
                // Mistakes in an ancestor's body were reported where it is written.
                let (spans, lists) = (&mut *self.spans, &mut self.lists);
                let items =
                    parse::schedule::items(body, Some(ancestor), spans, lists, &mut Report::default());
                extend_without_mistakes(&directives, &items).0
            })
        });
        let inherited: BTreeSet<SpanId> = directives.iter().map(|d| d.span).collect();
        let of_space = self.lists.any(&directives);
        let items = parse::schedule::items(&entry.body, None, self.spans, &mut self.lists, self.report);
        let read = self.report.len() == errors;
        let (directives, left_out) = extend_without_mistakes(&directives, &items);

        let mut export = ScheduleExport {
            kernel: base.kernel.clone(),
            target: base.target.to_string(),
            dtypes: dtypes.iter().flatten().map(|d| d.name().to_string()).collect(),
            chain: base.chain,
        };
        export.chain.push((name.clone(), entry.body.clone()));
        let mut proved = Proved {
            schedule: Schedule {
                kernel: self.signature(&kernel).map(|(name, _)| name).unwrap_or_default(),
                dtypes: dtypes.clone().unwrap_or_default(),
                target: base.target,
                name,
                directives,
            },
            programs: vec![],
            space: None,
            of_space,
            export,
            failed: base.failed || self.report.len() > errors || !left_out.is_empty(),
        };
        let mut holds = false;
        if dtypes.is_some() && read && self.report.len() == errors {
            let failed = match self.lists.any(&proved.schedule.directives) {
                true => self.prove_space(entry, &kernel, &mut proved, &inherited, base.failed),
                false => self.prove(entry, &kernel, &mut proved, &inherited, base.failed),
            };
            holds = !failed;
            proved.failed |= failed;
        } else if self.lists.any(&proved.schedule.directives) {
            proved.space = Some(Space::default());
        }
        if dtypes.is_none() && read && self.report.len() == errors {
            self.without_dtypes(entry, &kernel, &proved.schedule);
            proved.failed = true;
        }
        // That a schedule holds without what was left out of it is what the help of those mistakes says.
        self.report.extend(left_out.into_iter().map(|d| match holds {
            true => d,
            false => Diagnostic { help: None, ..d },
        }));
        Some(proved)
    }

    /// Proves for each element type; whether any failed.
    fn prove(
        &mut self,
        entry: &Entry,
        key: &str,
        proved: &mut Proved,
        inherited: &BTreeSet<SpanId>,
        parent_failed: bool,
    ) -> bool {
        let Some(Some(prover)) = self.kernels.get_mut(key) else { return false };
        // Below a parent with mistakes, most mistakes are the parent's.
        let trials = if parent_failed { 0 } else { engine::MOST_TRIALS };
        match prover.schedule(&proved.schedule, trials) {
            Ok(programs) => {
                proved.programs = programs.into_iter().map(|program| (program.dtype, program)).collect();
                false
            }
            Err(failures) => {
                self.mistakes(entry, key, failures, inherited, parent_failed);
                true
            }
        }
    }

    /// Reports what is wrong with a schedule.
    fn mistakes(
        &mut self,
        entry: &Entry,
        key: &str,
        failures: Vec<engine::Mistake>,
        inherited: &BTreeSet<SpanId>,
        parent_failed: bool,
    ) {
        let Some(Some(prover)) = self.kernels.get(key) else { return };
        let kernel = prover.kernel();
        let own_name = self.spans.of(&entry.name);
        let parent = entry.parent.as_ref().map(|p| self.spans.of(&p.path));
        for (mut diagnostic, dtypes) in failures {
            if !self.in_kernels.contains(&diagnostic.span) {
                let card = self.spans.card(diagnostic.span).map(str::to_string);
                diagnostic = diagnostic.card(card);
            }
            if inherited.contains(&diagnostic.span) {
                // Reported at the parent already.
                if parent_failed {
                    continue;
                }
                diagnostic.span = parent.unwrap_or(own_name);
            } else if diagnostic.span == SpanId::NONE {
                diagnostic.span = own_name;
            } else if self.in_kernels.contains(&diagnostic.span) {
                let note = Note { span: diagnostic.span, text: format!("in `{}`", kernel.name) };
                diagnostic.notes.insert(0, note);
                diagnostic.span =
                    entry.kernel.as_ref().map(|k| self.spans.of(&k.path)).or(parent).unwrap_or(own_name);
            }
            if self.spans.get(diagnostic.span).is_some_and(|at| elsewhere(at, &entry.name)) {
                diagnostic = diagnostic.remark(format!("in the schedule `{}`", entry.name));
                // The words may be those of the macro or of who uses it.
                if let Some(help) = diagnostic.help.take() {
                    diagnostic = diagnostic.remark(format!("as the macro expands: {help}"));
                }
            }
            if let Some(generic) = &kernel.generic {
                let names: Vec<_> = dtypes.iter().map(|d| d.name()).collect();
                diagnostic = diagnostic.note(SpanId::NONE, format!("for {generic} = {}", names.join(", ")));
            }
            self.report.push(diagnostic);
        }
    }
}

/// Whether a mistake does not stand below the name of its schedule, as where a `macro_rules!` wrote the directive.
fn elsewhere(at: Range, name: &proc_macro2::Ident) -> bool {
    let (at, name) = (at.first, name.span());
    at.file() != name.file() || at.start() < name.start()
}
