//! Writes `docs/ptx-coverage.md`: which opcodes of the PTX ISA the decoder knows, and which forms (opcode with
//! modifiers) the tests contain, each accepted by the decoder. `TILEWRIGHT_BLESS=1` rewrites the file.

use ptx_sim::Module;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Opcodes of PTX ISA 9.0, sections 9.7.1 to 9.7.19.
const ISA: &str = "abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind bmsk bra brev brkpt brx \
    call clusterlaunchcontrol clz cnot copysign cos cp createpolicy cvt cvta discard div dp2a dp4a elect ex2 exit fence fma \
    fns getctarank griddepcontrol isspacep istypep ld ldmatrix ldu lg2 lop3 mad mad24 madc mapa match max mbarrier membar \
    min mma mov movmatrix mul mul24 multimem nanosleep neg not or pmevent popc prefetch prefetchu prmt rcp red redux rem \
    ret rsqrt sad selp set setmaxnreg setp shf shfl shl shr sin slct sqrt st stackrestore stacksave stmatrix sub subc \
    suld suq sured sust szext tanh tcgen05 tensormap testp tex tld4 trap txq vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 \
    vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vote vset vset2 vset4 vshl vshr vsub vsub2 vsub4 wgmma wmma xor";

/// A kernel with one instruction, and the registers and variables that the tests' snippets use.
fn decode(instruction: &str) -> Result<Module, String> {
    let label = match instruction.split_whitespace().last() {
        Some(target) if instruction.contains("bra") && !target.contains(['%', '.']) => format!("{target}:"),
        _ => String::new(),
    };
    let text = format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.extern .shared .align 128 .b8 dyn[];\n.shared .align 128 .b8 buf[1024];\n.shared .align 8 .b8 bar[64];\n.entry k(.param .u64 out) {{
         .reg .b32 %t, %r<400>; .reg .b64 %o, %d<99>, %rd<99>; .reg .pred %p<99>; .reg .f32 %f<400>; .reg .b16 %h<99>, %rs<99>;
         .reg .f64 %g<99>, %fd<99>; .reg .b32 %x<99>, %dst, %mb, %c<9>; .reg .b64 %a, %da, %db, %m; .reg .pred %q; {instruction}; {label} ret; }}"
    );
    Module::parse(&text).and_then(|m| m.check().map(|()| m)).map_err(|e| e.message)
}

/// `add.f32` of `@%p1 add.f32 %f1, %f2, %f3`.
fn form(instruction: &str) -> Option<&str> {
    let mut words = instruction.split_whitespace();
    let first = words.next()?;
    let form = if first.starts_with('@') { words.next()? } else { first };
    let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '_');
    (form.starts_with(|c: char| c.is_ascii_lowercase()) && form.chars().all(name)).then_some(form)
}

/// Whether the decoder knows this `mma` with some number of registers of A and B.
fn takes_fragments(mma: &str) -> bool {
    let regs = |p: &str, n: usize| format!("{{{}}}", vec![format!("%{p}1"); n].join(","));
    [1, 2, 4].iter().any(|a| {
        [("f", 1), ("f", 2), ("r", 1), ("r", 2)].iter().any(|(p, b)| {
            let d = format!("{{%{p}1,%{p}2,%{p}3,%{p}4}}");
            decode(&format!("{mma} {d}, {}, {}, {d}", regs("r", *a), regs("r", *b))).is_ok()
        })
    })
}

type Forms = BTreeMap<String, BTreeSet<String>>;

/// The instructions of a file of PTX, which some test parses as a whole.
fn of_ptx(text: &str, test: &str, forms: &mut Forms) {
    let code: String = text.lines().map(|l| format!("{}\n", l.split("//").next().unwrap_or(""))).collect();
    for piece in code.split([';', '{', '}']) {
        let piece = piece.trim();
        // Directives and labels may stand before an instruction.
        let lines = piece.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('.'));
        let Some(line) = lines.clone().find(|l| !l.ends_with(':')) else { continue };
        let line = line.split_once(": ").map_or(line, |(_, rest)| rest.trim());
        if let Some(f) = form(line)
            && ISA.split_whitespace().any(|op| Some(op) == f.split('.').next())
        {
            forms.entry(f.into()).or_default().insert(test.into());
        }
    }
}

/// The instructions in the strings of a test file that the decoder accepts on their own, and the forms that a test
/// completes with two floating operands.
fn of_rust(text: &str, file: &str, forms: &mut Forms) {
    let text = text.replace("{{", "{").replace("}}", "}").replace("\\\n", "").replace("\\n", "\n");
    for (n, part) in text.split("#[test]\nfn ").enumerate() {
        let test = match n {
            0 => file.to_string(),
            _ => format!("{file}::{}", part.split('(').next().unwrap_or(part)),
        };
        for piece in part.split(';') {
            let inside = piece.rsplit('"').next().unwrap_or(piece).trim();
            // A label may stand before the instruction.
            let inside = match inside.split_once(": ") {
                Some((label, rest)) if !label.contains(' ') => rest,
                _ => inside,
            };
            if let Some(f) = form(inside)
                && decode(inside).is_ok()
            {
                forms.entry(f.into()).or_default().insert(test.clone());
            }
        }
        for quoted in part.split('"').filter(|q| q.contains('.') && form(q) == Some(q)) {
            let mma = format!("mma.sync.aligned.{quoted}");
            if decode(&format!("{quoted} %f1, %f2")).is_ok() {
                forms.entry(quoted.into()).or_default().insert(test.clone());
            } else if quoted.starts_with("m16n8k") && takes_fragments(&mma) {
                forms.entry(mma).or_default().insert(test.clone());
            }
        }
    }
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|f| f.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == extension))
        .collect();
    all.sort();
    all
}

fn collect() -> Forms {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut forms = Forms::new();
    for corpus in ["llvm", "mutation", "triton"] {
        for f in files(&tests.join("data").join(corpus), "ptx") {
            let name = f.file_stem().unwrap().to_str().unwrap().split('.').next().unwrap().to_string();
            of_ptx(&std::fs::read_to_string(&f).unwrap(), &format!("{corpus}/{name}"), &mut forms);
        }
    }
    for f in files(&tests.join("data/h200"), "gz") {
        let name = f.file_name().unwrap().to_str().unwrap();
        let Some(set) = name.strip_suffix(".json.gz") else { continue };
        let file = std::fs::File::open(&f).unwrap();
        let whole: serde_json::Value = serde_json::from_reader(flate2::read::GzDecoder::new(file)).unwrap();
        for text in whole["kernels"].as_object().unwrap().values() {
            of_ptx(text.as_str().unwrap(), &format!("h200/{set}"), &mut forms);
        }
    }
    for f in files(&tests.join("simulator"), "rs") {
        let name = f.file_stem().unwrap().to_str().unwrap();
        // Fuzzing proves no behaviour.
        if name != "fuzz" {
            of_rust(&std::fs::read_to_string(&f).unwrap(), name, &mut forms);
        }
    }
    forms
}

fn known(opcode: &str) -> bool {
    match decode(opcode) {
        Ok(_) => true,
        Err(e) => !e.starts_with("opcode `"),
    }
}

fn render(forms: &Forms) -> String {
    let mut by_opcode: BTreeMap<&str, Vec<(&String, &BTreeSet<String>)>> = BTreeMap::new();
    for (f, tests) in forms {
        by_opcode.entry(f.split('.').next().unwrap()).or_default().push((f, tests));
    }
    let opcodes: Vec<&str> = ISA.split_whitespace().collect();
    let (yes, no): (Vec<&str>, Vec<&str>) = opcodes.iter().copied().partition(|o| known(o));
    let untested: Vec<&str> = yes.iter().copied().filter(|o| !by_opcode.contains_key(o)).collect();
    let list = |v: &[&str]| v.iter().map(|o| format!("`{o}`")).collect::<Vec<_>>().join(", ");
    let mut out = String::from(
        "# PTX that the simulator runs\nWritten by `ptx-sim/tests/coverage.rs` from the decoder and the tests; \
         `TILEWRIGHT_BLESS=1 cargo test -p ptx-sim --test coverage` writes it anew. Tests: `file::function` in \
         `ptx-sim/tests/simulator`, or `corpus/kernel` in `ptx-sim/tests/data`. An opcode or modifier that the decoder does not \
         know is refused with its place. Forms that a test puts together from parts (the types of \
         `wgmma` in `wgmma::*`) are not listed.\n\n",
    );
    let n = forms.len();
    writeln!(
        out,
        "{} of {} opcodes of PTX ISA 9.0 are known; tests have {n} forms of {}.\n",
        yes.len(),
        opcodes.len(),
        yes.len() - untested.len()
    )
    .unwrap();
    writeln!(out, "Not supported: {}.\n", list(&no)).unwrap();
    writeln!(
        out,
        "Known to the decoder, in no test: {}.\n",
        if untested.is_empty() { "none".into() } else { list(&untested) }
    )
    .unwrap();
    out += "| form | tests |\n| --- | --- |\n";
    for (f, tests) in by_opcode.values().flatten() {
        let first: Vec<&str> = tests.iter().take(3).map(String::as_str).collect();
        // No count: it would change with every new test.
        let more = if tests.len() > 3 { " and others" } else { "" };
        writeln!(out, "| `{f}` | {}{more} |", first.join(", ")).unwrap();
    }
    out
}

#[test]
fn coverage_table_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ptx-coverage.md");
    let now = render(&collect());
    if std::env::var("TILEWRIGHT_BLESS").is_ok_and(|v| v == "1") {
        std::fs::write(&path, &now).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    assert!(recorded == now, "docs/ptx-coverage.md is not current: run with TILEWRIGHT_BLESS=1");
}

/// The table would be empty praise if the probe called everything known.
#[test]
fn the_probe_tells_known_from_unknown() {
    assert!(known("add") && known("wgmma") && known("cp"));
    assert!(!known("txq") && !known("tcgen05") && !known("frobnicate"));
    assert!(decode("add.u32 %r1, %r2, %r3").is_ok() && decode("add.rz.u32 %r1, %r2, %r3").is_err());
}
