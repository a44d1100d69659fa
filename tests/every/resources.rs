//! A guard on the machine code of every schedule that needs no GPU: registers, spills, shared memory, occupancy, the share
//! of multiply-adds in the hot loop and the widths of its accesses stay within what is recorded.
//!
//! `scripts/check-ptx.sh` fetches NVIDIA's assembler and runs this; `TILEWRIGHT_BLESS=1 scripts/check-ptx.sh` assembles all and records
//! anew. Otherwise PTX that is the recorded one, which its hash says, is not assembled again: its machine code is what is recorded.

use crate::{
    examples::{EVERY, product},
    flights,
};
use rayon::prelude::*;
use std::{fmt, fs, path::Path, str::FromStr};
use tile_bench::Machine;
use tile_dsl::program::Program;
use tile_fuzz::digest;
use tile_runtime::Ptx;
use tile_sass::{Listing, Options, Resources, Tools};
use tilewright::{AnySchedule, Stage, Variant, emit_program};

/// Registers more than recorded that are let pass as long as occupancy stays: the allocator's noise.
const REGISTER_SLACK: u32 = 8;
/// Points of the multiply-adds' share less than recorded that are let pass.
const SHARE_SLACK: f64 = 1.0;

/// What is recorded of a kernel.
#[derive(Clone, Debug, PartialEq)]
struct Bounds {
    kernel: String,
    /// Of its PTX and what a launch of it asks for.
    hash: u64,
    arch: String,
    registers: u32,
    spills: u32,
    shared: u32,
    ctas: u32,
    /// Of the hot loop's instructions, percent.
    fma: f64,
    /// Widest access of the hot loop by kind: `LDS`, 128.
    widest: Vec<(String, u32)>,
}

impl Bounds {
    fn of(kernel: &str, hash: u64, r: &Resources) -> Self {
        let mut kinds: Vec<&str> = r.hot.widths.iter().map(|w| w.kind).collect();
        kinds.dedup();
        Bounds {
            kernel: kernel.into(),
            hash,
            arch: r.arch.clone(),
            registers: r.registers,
            spills: r.spills,
            shared: r.shared,
            ctas: r.occupancy.map_or(0, |o| o.ctas),
            fma: (1000.0 * r.hot.fma_share()).round() / 10.0,
            widest: kinds.into_iter().map(|k| (k.to_string(), r.hot.widest(k))).collect(),
        }
    }

    /// What of `now` is worse than recorded.
    fn violations(&self, now: &Bounds) -> Vec<String> {
        let mut worse = Vec::new();
        let mut check = |fine: bool, what: &str, now: &dyn fmt::Display, then: &dyn fmt::Display| {
            if !fine {
                worse.push(format!("{}: {what} {now}, recorded {then}", self.kernel));
            }
        };
        check(now.arch == self.arch, "assembled for", &now.arch, &self.arch);
        check(now.registers <= self.registers + REGISTER_SLACK, "registers", &now.registers, &self.registers);
        check(now.spills <= self.spills, "spilled bytes", &now.spills, &self.spills);
        check(now.shared <= self.shared, "shared bytes", &now.shared, &self.shared);
        check(now.ctas >= self.ctas, "CTAs a multiprocessor", &now.ctas, &self.ctas);
        check(now.fma >= self.fma - SHARE_SLACK, "percent of multiply-adds", &now.fma, &self.fma);
        for (kind, bits) in &self.widest {
            let wide = now.widest.iter().find(|(k, _)| k == kind).map_or(0, |(_, bits)| *bits);
            check(wide >= *bits, &format!("widest {kind} of the hot loop"), &wide, bits);
        }
        worse
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bounds { kernel, hash, arch, registers, spills, shared, ctas, fma, widest } = self;
        let widest: Vec<_> = widest.iter().map(|(kind, bits)| format!("{kind}.{bits}")).collect();
        let widest = if widest.is_empty() { "-".into() } else { widest.join(",") };
        write!(
            f,
            "{kernel:32} {hash:016x} {arch:6} {registers:9} {spills:6} {shared:6} {ctas:4} {fma:5.1}  {widest}"
        )
    }
}

impl FromStr for Bounds {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong = || format!("not a record: `{line}`");
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [kernel, hash, arch, registers, spills, shared, ctas, fma, widest] = fields[..] else {
            return Err(wrong());
        };
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        let width = |text: &str| -> Result<_, String> {
            let (kind, bits) = text.split_once('.').ok_or_else(wrong)?;
            Ok((kind.to_string(), number(bits)?))
        };
        Ok(Bounds {
            kernel: kernel.into(),
            hash: u64::from_str_radix(hash, 16).map_err(|_| wrong())?,
            arch: arch.into(),
            registers: number(registers)?,
            spills: number(spills)?,
            shared: number(shared)?,
            ctas: number(ctas)?,
            fma: fma.parse().map_err(|_| wrong())?,
            widest: if widest == "-" {
                vec![]
            } else {
                widest.split(',').map(width).collect::<Result<_, _>>()?
            },
        })
    }
}

/// Whose kernels for several problems in one launch are assembled, too.
const GROUPED: &[&dyn AnySchedule] = &[
    &product::best,
    &product::mma_large_tile,
    &product::mma_best,
    &product::two_consumers,
    &product::tile128x256,
    &product::wgmma_best,
];

const HEADER: &str = "# Machine code of each schedule with its first element type, each variant: tests/every/resources.rs\n\
     # kernel                         PTX              arch   registers spills shared ctas  fma%  widest accesses of the hot loop\n";

/// What is wrong with machine code whatever was recorded: ptxas' remarks on what it did not do as asked (C75xx, C76xx), memory
/// descriptors in an odd uniform register, which no GPU runs (ptxas 13.0 makes them of some `cp.async` with a cache policy), and
/// registers of asynchronous products that are overwritten too early.
fn faults(remarks: &[String], sass: &str) -> Vec<String> {
    let unheeded = |remark: &&String| remark.contains("C75") || remark.contains("C76");
    let odd = |line: &&str| {
        let register = line.split_once("desc[UR").map(|(_, rest)| rest.split(']').next().unwrap_or_default());
        register.and_then(|n| n.parse::<u32>().ok()).is_some_and(|n| n % 2 == 1)
    };
    let illegal = sass.lines().filter(odd).map(|line| format!("no GPU runs {}", line.trim()));
    let early = Listing::parse(sass).touched_in_flight().into_iter();
    let early = early.map(|text| format!("a product in flight has a register of {text}"));
    remarks.iter().filter(unheeded).cloned().chain(illegal).chain(early).collect()
}

/// The PTX of a variant.
struct Made {
    schedule: &'static dyn AnySchedule,
    name: String,
    ptx: Ptx,
    hash: u64,
}

fn made((schedule, variant, grouped): (&'static dyn AnySchedule, Variant, bool)) -> Made {
    let dtype = schedule.dtypes().first().copied();
    let (ptx, end) = match grouped {
        true => (tile_runtime::ptx_grouped(schedule, dtype, variant), "_grouped"),
        false => (tile_runtime::ptx(schedule, dtype, variant), ""),
    };
    let ptx = ptx.unwrap_or_else(|e| panic!("{e}"));
    let name = format!("{}_{}_{variant}{end}", schedule.kernel(), schedule.name());
    let hash =
        digest::hash(&format!("{} {} {:?}\n{}", ptx.threads, ptx.dynamic_shared, ptx.assemble, ptx.text));
    Made { schedule, name, ptx, hash }
}

/// Assembles it for sm_90, or for what the schedule needs if that is more; also what is wrong with it.
fn assembled(Made { schedule, name, ptx, hash }: &Made) -> (Bounds, Vec<String>) {
    let dtype = schedule.dtypes().first().copied();
    let program = Program::from_bytes(schedule.program(dtype).expect("its own type")).expect("proved");
    let arch = (program.schedule.target.sm < 90).then(|| "sm_90".to_string());
    let machine = Machine::made_of(*schedule, dtype, ptx, arch).unwrap_or_else(|e| panic!("{e}"));
    let faults = faults(&machine.resources.remarks, &machine.sass);
    let bounds = Bounds::of(name, *hash, &machine.resources);
    (bounds, faults.into_iter().map(|fault| format!("{name}: {fault}")).collect())
}

#[test]
#[ignore = "needs ptxas and nvdisasm: scripts/check-ptx.sh fetches them and runs this"]
fn schedules_stay_within_their_recorded_resources() {
    let variants = [Variant::Exact, Variant::Aligned, Variant::General];
    let each =
        EVERY.concat().into_iter().flat_map(|schedule| variants.map(|variant| (schedule, variant, false)));
    let grouped = GROUPED.iter().flat_map(|schedule| variants.map(|variant| (*schedule, variant, true)));
    let each = each.chain(grouped);
    let made: Vec<Made> = each.collect::<Vec<_>>().into_par_iter().map(made).collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/resources.txt");
    let recorded = fs::read_to_string(&file).expect("tests/goldens/resources.txt is part of the repository");
    let bless = std::env::var_os("TILEWRIGHT_BLESS").is_some();
    let lines = recorded.lines().filter(|line| !line.starts_with('#') && !bless);
    let recorded: Vec<Bounds> = lines.map(|line| line.parse().unwrap_or_else(|e| panic!("{e}"))).collect();
    let known = |made: &Made| recorded.iter().any(|r| r.kernel == made.name && r.hash == made.hash);
    let new: Vec<&Made> = made.iter().filter(|made| !known(made)).collect();
    let all: Vec<_> = new.par_iter().map(|made| assembled(made)).collect();
    let (now, faults): (Vec<Bounds>, Vec<_>) = all.into_iter().unzip();
    let faults: Vec<String> = faults.into_iter().flatten().collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let text: String = now.iter().map(|b| format!("{b}\n")).collect();
    if bless {
        fs::write(&file, format!("{HEADER}{text}")).expect("the checkout is writable");
        return;
    }
    println!(
        "{HEADER}{text}# {} kernels of {} assembled, the others are those recorded",
        now.len(),
        made.len()
    );
    let mut worse = Vec::new();
    for now in &now {
        match recorded.iter().find(|r| r.kernel == now.kernel) {
            Some(then) => worse.extend(then.violations(now)),
            None => worse.push(format!("{}: not recorded", now.kernel)),
        }
    }
    let gone = recorded.iter().filter(|r| made.iter().all(|made| made.name != r.kernel));
    worse.extend(gone.map(|r| format!("{}: recorded, and no longer there", r.kernel)));
    assert!(
        worse.is_empty(),
        "the machine code got worse:\n{}\n`TILEWRIGHT_BLESS=1 scripts/check-ptx.sh` records it",
        worse.join("\n")
    );
}

/// Programs of a seed in which products have an operand in registers while threads compute the next one.
#[test]
#[ignore = "needs ptxas and nvdisasm: scripts/check-ptx.sh fetches them and runs this"]
fn operands_in_flight_keep_their_registers() {
    let count = std::env::var("TILEWRIGHT_FLIGHTS").map_or(12, |n| n.parse().expect("a number"));
    let tools = Tools::find().unwrap_or_else(|e| panic!("{e}"));
    let early = |(text, program): &(String, Program)| -> Vec<String> {
        let ptx = emit_program(program, Variant::General, Stage::Ptx).expect("a legal schedule compiles");
        assert!(ptx.contains("wgmma.mma_async"), "{text}");
        let assembly = tools.assemble(&ptx, &Options::default()).unwrap_or_else(|e| panic!("{text}: {e}"));
        let all = Listing::parse(&assembly.sass).touched_in_flight();
        all.into_iter().map(|early| format!("{early}, in {text}")).collect()
    };
    let found: Vec<String> = flights::flights(7, count).par_iter().flat_map(early).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn what_no_gpu_runs_is_found() {
    let sass = "LDG.E R2, desc[UR4][R2.64] ;\nSTG.E desc[UR5][R2.64], R7 ;\nMOV UR7, 0x1 ;\n\
         /*0000*/ HGMMA.64x64x16.F32.BF16 R56, R4, gdesc[UR4], R56, gsb0 ;\n/*0010*/ MOV R4, R5 ;";
    let remark = |text: &str| text.to_string();
    let remarks = [remark("ptxas info : (C7511) wgmma serialised"), remark("ptxas info : (C6000) hm")];
    let found = faults(&remarks, sass);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].contains("C7511") && found[1].contains("desc[UR5]"), "{found:?}");
}

#[test]
fn a_record_reads_back_and_what_is_worse_is_named() {
    let line = "matmul_warptile_exact            00000000000000ff sm_90        207      0  16384    2  93.2  LDG.128,LDS.128,STS.32";
    let then: Bounds = line.parse().unwrap();
    assert_eq!(then.to_string(), line);
    assert_eq!(then.violations(&then), [""; 0]);
    let better = Bounds { registers: 215, spills: 0, ctas: 3, fma: 92.3, ..then.clone() };
    assert_eq!(then.violations(&better), [""; 0], "slack, and more occupancy");
    let narrow = vec![("LDG".to_string(), 32), ("LDS".to_string(), 128)];
    let worse = Bounds {
        registers: 216,
        spills: 4,
        shared: 16388,
        ctas: 1,
        fma: 92.1,
        widest: narrow,
        ..then.clone()
    };
    let named = then.violations(&worse).join("\n");
    for part in [
        "registers 216, recorded 207",
        "spilled bytes 4",
        "shared bytes 16388",
        "CTAs a multiprocessor 1",
        "percent of multiply-adds 92.1",
        "widest LDG of the hot loop 32, recorded 128",
        "widest STS of the hot loop 0, recorded 32",
    ] {
        assert!(named.contains(part), "{part} in:\n{named}");
    }
    let bare: Bounds = "k 1f sm_80 1 0 0 32 0.0 -".parse().unwrap();
    assert_eq!((bare.widest.len(), bare.violations(&bare).len()), (0, 0));
    assert!("k 1f sm_80 1 0 0".parse::<Bounds>().is_err());
}
