//! Kernels compiled ahead of time: an application that carries them needs no LLVM.
//!
//! The application's build script, which depends on the crate with the kernels and on `tilewright` with the feature
//! `jit`, lists schedules with `bundle!` and calls [`Bundle::write`]. The application,
//! built without `jit`, includes the file `bundle.rs` that was written, and calls its `provide` before the first
//! launch. `examples/deployed` does so.

use crate::{
    cache::{self, Key},
    compile::lower_given,
    error::Error,
    memory::lock,
    precompiled::{MachineCode, Precompiled},
    schedule::AnySchedule,
    toolkit,
};
use std::{
    collections::HashMap,
    fmt::Write as _,
    path::Path,
    sync::{Arc, LazyLock, Mutex},
};
use tile_dsl::{
    dtype::DType,
    lower::{self, Given, Strided},
    program::{Program, Variant},
    schedule::Target,
    tile::TensorId,
};

static PROVIDED: LazyLock<Mutex<HashMap<Key, Arc<Precompiled>>>> = LazyLock::new(Mutex::default);

/// Schedules to be compiled, each for all element types that it admits and for all variants unless told otherwise.
pub struct Bundle<'a> {
    wanted: Vec<Wanted<'a>>,
}

struct Wanted<'a> {
    /// As the application calls it; empty when it does not.
    path: &'static str,
    schedule: &'a dyn AnySchedule,
    dtypes: Option<Vec<DType>>,
    variants: Vec<Variant>,
    /// Sets of tensors, by name, that have strides of their own.
    gaps: Vec<Vec<String>>,
    /// For groups of problems in one launch, too.
    grouped: bool,
    architectures: Vec<String>,
}

/// What [`Bundle::compile`] made.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The kernels, for [`provide`].
    pub bytes: Vec<u8>,
    /// How many they are.
    pub kernels: usize,
    /// What was asked for and left out, with the reason: machine code, which the launch does without.
    pub warnings: Vec<String>,
}

impl<'a> Bundle<'a> {
    /// One schedule under the path by which the application knows it: what `bundle!` calls.
    pub fn of(path: &'static str, schedule: &'a dyn AnySchedule) -> Self {
        let variants = vec![Variant::Exact, Variant::Aligned, Variant::General];
        let gaps = vec![Vec::new()];
        Bundle {
            wanted: vec![Wanted {
                path,
                schedule,
                dtypes: None,
                variants,
                gaps,
                grouped: false,
                architectures: vec![],
            }],
        }
    }

    /// The schedules of both.
    pub fn and(mut self, other: Bundle<'a>) -> Self {
        self.wanted.extend(other.wanted);
        self
    }

    fn each(mut self, f: impl Fn(&mut Wanted<'a>)) -> Self {
        self.wanted.iter_mut().for_each(f);
        self
    }

    /// Only these element types, for all schedules so far.
    pub fn dtypes(self, dtypes: &[DType]) -> Self {
        self.each(|wanted| wanted.dtypes = Some(dtypes.to_vec()))
    }

    /// Only these variants, for all schedules so far.
    pub fn variants(self, variants: &[Variant]) -> Self {
        self.each(|wanted| wanted.variants = variants.to_vec())
    }

    /// Also for launches in which these tensors, by name, have strides of their own, for all schedules so far.
    pub fn gaps(self, tensors: &[&str]) -> Self {
        self.each(|wanted| wanted.gaps.push(tensors.iter().map(ToString::to_string).collect()))
    }

    /// Also for [`grouped`](crate::grouped) launches, for all schedules so far.
    pub fn grouped(self) -> Self {
        self.each(|wanted| wanted.grouped = true)
    }

    /// Also machine code for these architectures (`sm_90a`), for all schedules so far. It is made by NVIDIA's `ptxas`,
    /// which `TILEWRIGHT_PTXAS` names, or which is found in the CUDA toolkit or the search path; else it is left out.
    pub fn machine_code(self, architectures: &[&str]) -> Self {
        self.each(|wanted| wanted.architectures = architectures.iter().map(ToString::to_string).collect())
    }

    /// Compiles everything.
    ///
    /// # Errors
    /// [`Error::DTypeNotAdmitted`], [`Error::Arguments`] for tensors that a kernel does not have,
    /// [`Error::Architecture`]; [`Error::Compile`] without the feature `jit`, or what the compiler or the assembler says.
    pub fn compile(&self) -> Result<Compiled, Error> {
        let mut made = Compiled { bytes: Vec::new(), kernels: 0, warnings: Vec::new() };
        let ptxas = toolkit::find("ptxas");
        if ptxas.is_none() && self.wanted.iter().any(|w| !w.architectures.is_empty()) {
            made.warnings.push(
                "no machine code: ptxas was not found; install the CUDA toolkit, or name it in TILEWRIGHT_PTXAS".into(),
            );
        }
        for wanted in &self.wanted {
            let architectures: Vec<Target> =
                wanted.architectures.iter().map(|a| target(a)).collect::<Result<_, _>>()?;
            for (key, program) in wanted.programs()? {
                for (variant, gaps, grouped) in wanted.forms() {
                    let given = Given { strided: strided(&program, gaps)?, grouped };
                    if !lower::chosen(&program, &wanted.variants, &given.strided).contains(&variant) {
                        continue;
                    }
                    let kernel = lower_given(&program, variant, &given)?;
                    let ptx = backend_ptx::compile(&kernel)?;
                    let mut machine = Vec::new();
                    for target in ptxas.iter().flat_map(|_| &architectures) {
                        let fits = kernel.target == *target
                            || (!kernel.target.specific && kernel.target.sm <= target.sm);
                        if fits {
                            let ptxas = ptxas.as_ref().expect("one was found");
                            machine.push(MachineCode {
                                target: *target,
                                code: toolkit::assemble(ptxas, &ptx, &name(*target))?,
                            });
                        } else {
                            made.warnings.push(format!(
                                "no machine code of `{}` for {}: it is for {}",
                                ptx.entry,
                                name(*target),
                                name(kernel.target)
                            ));
                        }
                    }
                    let interface = kernel.interface();
                    let entry = cache::encode(&Precompiled { interface, ptx, machine });
                    let strided = given.strided.iter().map(|tensor| tensor.0);
                    made.bytes.extend(Key::of_kernel(&key, variant, grouped, strided).0);
                    made.bytes.extend((entry.len() as u64).to_le_bytes());
                    made.bytes.extend(entry);
                    made.kernels += 1;
                }
            }
        }
        Ok(made)
    }

    /// Compiles everything into a folder, which is a build script's `OUT_DIR`: the kernels, and a file `bundle.rs` to
    /// be included with `provide()`, which makes them available, and `bundled(schedule)`, which does not build for a
    /// schedule that is not in the bundle.
    ///
    /// # Errors
    /// As [`Bundle::compile`]; [`Error::Write`].
    pub fn write(&self, folder: &Path) -> Result<Compiled, Error> {
        let made = self.compile()?;
        for (name, contents) in [("kernels.bin", &made.bytes[..]), ("bundle.rs", self.glue().as_bytes())] {
            let path = folder.join(name);
            std::fs::write(&path, contents)
                .map_err(|e| Error::Write { path: path.display().to_string(), reason: e.to_string() })?;
        }
        Ok(made)
    }

    /// The text of `bundle.rs`.
    fn glue(&self) -> String {
        let mut text = String::from(
            "/// Makes the kernels of the build script available to every launch; returns their number.\n\
             ///\n\
             /// # Errors\n\
             /// When they are of another version of tilewright.\n\
             pub fn provide() -> ::core::result::Result<usize, ::tilewright::Error> {\n    \
                 ::tilewright::aot::provide(include_bytes!(concat!(env!(\"OUT_DIR\"), \"/kernels.bin\")))\n\
             }\n\
             \n\
             /// A schedule that the build script compiled.\n\
             #[diagnostic::on_unimplemented(\n    \
                 message = \"the build script does not compile the schedule `{Self}`\",\n    \
                 label = \"name it in `bundle!` in build.rs\"\n\
             )]\n\
             pub trait Bundled: ::tilewright::Schedule {}\n\
             \n\
             /// The schedule, if the build script compiled it; otherwise this does not build.\n\
             pub fn bundled<S: Bundled>(schedule: S) -> S {\n    schedule\n}\n",
        );
        for path in self.wanted.iter().map(|w| w.path).filter(|path| !path.is_empty()) {
            let _ = write!(text, "\nimpl Bundled for {path} {{}}\n");
        }
        text
    }
}

impl Wanted<'_> {
    /// The launches that it is for: variant, tensors with strides of their own, whether of several problems.
    fn forms(&self) -> impl Iterator<Item = (Variant, &Vec<String>, bool)> {
        let grouped = if self.grouped { &[false, true][..] } else { &[false] };
        let of = move |v: Variant| {
            self.gaps.iter().flat_map(move |gaps| grouped.iter().map(move |grouped| (v, gaps, *grouped)))
        };
        self.variants.iter().copied().flat_map(of)
    }

    /// One program an element type, with the key of its bytes.
    fn programs(&self) -> Result<Vec<(Key, Program)>, Error> {
        let (schedule, admitted) = (self.schedule, self.schedule.dtypes());
        let dtypes: Vec<Option<DType>> = match (&self.dtypes, admitted) {
            (_, []) => vec![None],
            (Some(some), _) => some.iter().copied().map(Some).collect(),
            (None, all) => all.iter().copied().map(Some).collect(),
        };
        let program = |dtype| {
            let bytes = schedule.program(dtype).ok_or_else(|| Error::not_admitted(schedule, dtype))?;
            let program = Program::from_bytes(bytes)
                .map_err(|source| Error::Program { schedule: schedule.name().into(), source })?;
            Ok((Key::of_program(bytes), program))
        };
        dtypes.into_iter().map(program).collect()
    }
}

fn strided(program: &Program, names: &[String]) -> Result<Strided, Error> {
    let kernel = &program.nest.kernel;
    let id = |name: &String| {
        let at = kernel.tensors.iter().position(|t| t.name == *name).ok_or_else(|| Error::Arguments {
            kernel: kernel.name.clone(),
            what: format!("it has no tensor `{name}`"),
        })?;
        Ok(TensorId(at as u16))
    };
    names.iter().map(id).collect()
}

/// `sm_90a`.
fn name(target: Target) -> String {
    format!("sm_{}{}", target.sm, if target.specific { "a" } else { "" })
}

fn target(name: &str) -> Result<Target, Error> {
    let number = name.strip_prefix("sm_").unwrap_or_default();
    let (digits, specific) = number.strip_suffix('a').map_or((number, false), |digits| (digits, true));
    let sm = digits.parse().ok().filter(|sm| (10..1000).contains(sm));
    let sm = sm.ok_or_else(|| Error::Architecture { name: name.into() })?;
    Ok(Target { sm, specific })
}

/// Compiles schedules for all element types that they admit and all variants, into bytes for [`provide`].
///
/// # Errors
/// As [`Bundle::compile`].
pub fn compile(schedules: &[&dyn AnySchedule]) -> Result<Vec<u8>, Error> {
    let bundle = schedules.iter().map(|schedule| Bundle::of("", *schedule)).reduce(Bundle::and);
    bundle.map_or_else(|| Ok(Vec::new()), |bundle| Ok(bundle.compile()?.bytes))
}

/// Makes kernels from [`compile`] available to every launch of this process; returns their number.
///
/// # Errors
/// [`Error::Precompiled`] when the bytes are not such kernels; nothing is provided then.
pub fn provide(pack: &[u8]) -> Result<usize, Error> {
    let mut kernels = HashMap::new();
    let mut rest = pack;
    while !rest.is_empty() {
        let (key, kernel, after) = entry(rest).ok_or(Error::Precompiled)?;
        kernels.insert(key, Arc::new(kernel));
        rest = after;
    }
    let count = kernels.len();
    lock(&PROVIDED).extend(kernels);
    Ok(count)
}

fn entry(pack: &[u8]) -> Option<(Key, Precompiled, &[u8])> {
    let (key, rest) = pack.split_first_chunk::<32>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (entry, after) = rest.split_at_checked(length)?;
    Some((Key(*key), cache::decode(entry)?, after))
}

pub(crate) fn find(key: &Key) -> Option<Arc<Precompiled>> {
    lock(&PROVIDED).get(key).cloned()
}

/// Kernels that were provided.
pub(crate) fn count() -> usize {
    lock(&PROVIDED).len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend_ptx::Ptx;
    use tile_dsl::kernel::Interface;

    fn ptx() -> Ptx {
        Ptx {
            text: "t".into(),
            entry: "e".into(),
            assemble: None,
            threads: 1,
            static_shared: 0,
            dynamic_shared: 0,
        }
    }

    fn interface() -> Interface {
        Interface {
            params: vec![],
            cleared: vec![],
            grid: vec![],
            persistent: None,
            cluster: None,
            dependent: false,
            grouped: false,
        }
    }

    #[test]
    fn packs_are_read_whole_or_not_at_all() {
        let machine = vec![MachineCode { target: Target { sm: 90, specific: true }, code: vec![1, 2, 3] }];
        let kernel = Precompiled { interface: interface(), ptx: ptx(), machine };
        let encoded = cache::encode(&kernel);
        let mut pack = Vec::new();
        for first in [201, 202] {
            pack.extend([first; 32]);
            pack.extend((encoded.len() as u64).to_le_bytes());
            pack.extend(&encoded);
        }
        for length in 1..pack.len() {
            let whole_entries = length == pack.len() / 2;
            assert_eq!(provide(&pack[..length]).is_ok(), whole_entries, "cut to {length}");
        }
        assert_eq!(provide(&pack).unwrap(), 2);
        assert_eq!(find(&Key([202; 32])).as_deref(), Some(&kernel));
        assert_eq!(find(&Key([203; 32])), None);
        assert!(count() >= 2);
    }

    #[test]
    fn machine_code_runs_on_its_generation() {
        let runs = |arch, sm| MachineCode { target: target(arch).unwrap(), code: vec![] }.runs_on(sm);
        assert!(runs("sm_80", 80) && runs("sm_80", 86) && runs("sm_90a", 90) && runs("sm_90", 90));
        assert!(!runs("sm_86", 80) && !runs("sm_80", 90) && !runs("sm_100a", 103));
        for wrong in ["90", "sm_", "sm_9", "sm_90b", "compute_90"] {
            assert_eq!(
                target(wrong).unwrap_err().to_string(),
                format!("`{wrong}` is no architecture: write `sm_90`, or `sm_90a`")
            );
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut error = Error::NotCompiled {
            schedule: "tiled".into(),
            dtype: Some(DType::F32),
            variant: Variant::General,
            gaps: vec![],
            grouped: false,
            known: 12,
        };
        assert_eq!(
            error.to_string(),
            "the general variant of schedule `tiled` for f32 was not compiled ahead of time (12 kernels were), and this \
             build has no compiler: name it in the build script's `bundle!`, or enable the feature `jit`"
        );
        if let Error::NotCompiled { gaps, dtype, grouped, .. } = &mut error {
            (*gaps, *dtype, *grouped) = (vec!["a".into(), "b".into()], None, true);
        }
        let what = "`tiled` with strides of their own in a, b for several problems in one launch was not";
        assert!(error.to_string().contains(what), "{error}");
    }

    #[test]
    fn the_glue_admits_what_was_named() {
        struct Nothing;
        impl AnySchedule for Nothing {
            fn kernel(&self) -> &'static str {
                "k"
            }
            fn name(&self) -> &'static str {
                "s"
            }
            fn doc(&self) -> &'static str {
                ""
            }
            fn dtypes(&self) -> &'static [DType] {
                &[DType::F32]
            }
            fn program(&self, _: Option<DType>) -> Option<&'static [u8]> {
                None
            }
        }
        let bundle = Bundle::of("kernels :: s", &Nothing).and(Bundle::of("", &Nothing));
        let glue = bundle.glue();
        assert_eq!(glue.matches("impl Bundled for").count(), 1, "{glue}");
        assert!(glue.ends_with("\nimpl Bundled for kernels :: s {}\n"), "{glue}");
        let error = bundle.dtypes(&[DType::F16]).compile().unwrap_err();
        assert!(matches!(error, Error::DTypeNotAdmitted { dtype: DType::F16, .. }), "{error}");
    }
}
