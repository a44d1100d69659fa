//! A block of schedules → proved programs: resolves parents, extends, proves for each element type, reports.

use crate::{
    gather::{self, Content, Input, ScheduleExport},
    parse::{
        self,
        schedule::{Block, Entry, Named},
    },
    report::Report,
    spans::Spans,
};
use proc_macro2::TokenStream;
use std::collections::{BTreeMap, BTreeSet};
use tile_dsl::{
    diagnostic::{Diagnostic, Note},
    dtype::DType,
    engine,
    program::Program,
    schedule::{Directive, Schedule, Target, extend},
    span::SpanId,
    tile::Kernel,
};

/// A schedule after proving.
pub struct Proved {
    /// Everything it inherits included.
    pub schedule: Schedule,
    /// A program for each element type it admits; fewer if proving failed.
    pub programs: Vec<(Option<DType>, Program)>,
    export: ScheduleExport,
    /// It or an ancestor in this block has mistakes.
    failed: bool,
}

impl Proved {
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
    kernels: BTreeMap<String, Option<Kernel>>,
    /// Spans in the sources of kernels: mistakes there are shown at the schedule.
    in_kernels: BTreeSet<SpanId>,
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
                        .help("each schedule of a module has a name of its own"),
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

    fn fail<T>(&mut self, at: &impl quote::ToTokens, message: String, help: String) -> Option<T> {
        let span = self.spans.of(at);
        self.report.push(Diagnostic::new(span, message).help(help));
        None
    }

    /// Whether a path is the name of a schedule of this block.
    fn is_local(&self, named: &Named) -> bool {
        self.names.iter().any(|name| named.path.is_ident(name))
    }

    /// The kernel of `for`, if there is one.
    fn named_kernel(&mut self, named: &Named) -> Option<TokenStream> {
        if !self.is_local(named)
            && let Content::Kernel(tokens) = self.input.export(named)?
        {
            return Some(tokens.clone());
        }
        let text = named.text();
        self.fail(
            &named.path,
            format!("`{text}` is a schedule, not a kernel"),
            format!("extend it: `name = {text} {{ .. }}`"),
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
                failed: parent.failed,
            });
        }
        if self.is_local(named) {
            let text = named.text();
            // A parent above that could not be read was reported.
            let at = self.names.iter().position(|name| named.path.is_ident(name))?;
            return if at < self.position {
                None
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
                failed: false,
            }),
            Content::Kernel(_) => {
                let text = named.text();
                self.fail(
                    &named.path,
                    format!("`{text}` is a kernel, not a schedule"),
                    format!("write `name for {text} {{ .. }}`"),
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
                let kernel = self.named_kernel(named)?;
                match parent {
                    Some(parent) => Base { kernel, ..parent },
                    None => {
                        Base { kernel, target: Target::DEFAULT, dtypes: vec![], chain: vec![], failed: false }
                    }
                }
            }
            (None, None) => return None,
        };
        if let Some(target) = entry.target(self.spans, self.report) {
            base.target = target;
        }
        Some(base)
    }

    /// The tile IR of a kernel; its own mistakes were reported where it is written.
    fn kernel(&mut self, tokens: &TokenStream) -> Option<Kernel> {
        let key = tokens.to_string();
        if let Some(kernel) = self.kernels.get(&key) {
            return kernel.clone();
        }
        let function = gather::function(tokens).ok();
        let before = self.spans.len();
        let kernel = function.and_then(|f| parse::kernel::kernel(&f, self.spans, &mut Report::default()));
        self.in_kernels.extend((before + 1..=self.spans.len()).map(SpanId));
        self.kernels.insert(key, kernel.clone());
        kernel
    }

    /// Element types that a schedule admits: those it names, which its parent must admit, or its parent's.
    fn dtypes(&mut self, entry: &Entry, kernel: Option<&Kernel>, inherited: &[DType]) -> Option<Vec<DType>> {
        let generic = kernel.map(|k| (k.name.clone(), k.generic.is_some()));
        let mut admitted = inherited.to_vec();
        let named = [entry.kernel.as_ref(), entry.parent.as_ref()];
        let mut listed = named.into_iter().flatten().filter_map(|n| Some((n, n.dtypes.as_ref()?)));
        if let Some((named, names)) = listed.next() {
            let before = self.report.len();
            let dtypes = parse::schedule::dtypes(names, self.spans, self.report);
            if let Some((kernel, false)) = &generic {
                return self.fail(
                    &names[0],
                    format!("`{kernel}` has no generic element type"),
                    format!("write `{}` without element types", named.text()),
                );
            }
            if self.report.len() > before {
                return None;
            }
            if let (Some(parent), false) = (&entry.parent, inherited.is_empty())
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
            Some((kernel, true)) if admitted.is_empty() => {
                let named = entry.kernel.as_ref().or(entry.parent.as_ref())?;
                let text = named.text();
                self.fail(
                    &named.path,
                    format!("`{kernel}` is generic, but `{}` names no element types", entry.name),
                    format!("write `{text}<f32 | f16 | bf16>` with those that the schedule admits"),
                )
            }
            _ => Some(admitted),
        }
    }

    fn entry(&mut self, entry: &Entry) -> Option<Proved> {
        let base = self.base(entry)?;
        let kernel = self.kernel(&base.kernel);
        let errors = self.report.len();
        let dtypes = self.dtypes(entry, kernel.as_ref(), &base.dtypes);
        let name = entry.name.to_string();

        let mut directives: Vec<Directive> = Vec::new();
        for (ancestor, body) in &base.chain {
            // Mistakes in an ancestor's body were reported where it is written.
            let items = parse::schedule::items(body, Some(ancestor), self.spans, &mut Report::default());
            directives = extend(&directives, &items).unwrap_or(directives);
        }
        let inherited: BTreeSet<SpanId> = directives.iter().map(|d| d.span).collect();
        let items = parse::schedule::items(&entry.body, None, self.spans, self.report);
        let (directives, extended) = match extend(&directives, &items) {
            Ok(all) => (all, true),
            Err(errors) => {
                self.report.extend(errors);
                (directives, false)
            }
        };

        let mut export = ScheduleExport {
            kernel: base.kernel.clone(),
            target: base.target.to_string(),
            dtypes: dtypes.iter().flatten().map(|d| d.name().to_string()).collect(),
            chain: base.chain,
        };
        export.chain.push((name.clone(), entry.body.clone()));
        let mut proved = Proved {
            schedule: Schedule {
                kernel: kernel.as_ref().map(|k| k.name.clone()).unwrap_or_default(),
                dtypes: dtypes.clone().unwrap_or_default(),
                target: base.target,
                name,
                directives,
            },
            programs: vec![],
            export,
            failed: base.failed || self.report.len() > errors,
        };
        if let (Some(kernel), Some(_), true) = (kernel, dtypes, extended && self.report.len() == errors) {
            let failed = self.prove(entry, &kernel, &mut proved, &inherited, base.failed);
            proved.failed |= failed;
        }
        Some(proved)
    }

    /// Proves for each element type; whether any failed.
    fn prove(
        &mut self,
        entry: &Entry,
        kernel: &Kernel,
        proved: &mut Proved,
        inherited: &BTreeSet<SpanId>,
        parent_failed: bool,
    ) -> bool {
        let schedule = &proved.schedule;
        let dtypes: Vec<Option<DType>> = match schedule.dtypes.as_slice() {
            [] => vec![None],
            dtypes => dtypes.iter().copied().map(Some).collect(),
        };
        let mut failures: Vec<(Diagnostic, Vec<DType>)> = Vec::new();
        let mut failed = false;
        for dtype in dtypes {
            match engine::schedule(kernel, schedule, dtype) {
                Ok(program) => proved.programs.push((dtype, program)),
                Err(diagnostics) => {
                    failed = true;
                    for diagnostic in diagnostics {
                        match failures.iter_mut().find(|(d, _)| *d == diagnostic) {
                            Some((_, dtypes)) => dtypes.extend(dtype),
                            None => failures.push((diagnostic, dtype.into_iter().collect())),
                        }
                    }
                }
            }
        }
        let own_name = self.spans.of(&entry.name);
        let parent = entry.parent.as_ref().map(|p| self.spans.of(&p.path));
        for (mut diagnostic, dtypes) in failures {
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
            if let Some(generic) = &kernel.generic {
                let names: Vec<_> = dtypes.iter().map(|d| d.name()).collect();
                diagnostic = diagnostic.note(SpanId::NONE, format!("for {generic} = {}", names.join(", ")));
            }
            self.report.push(diagnostic);
        }
        failed
    }
}
