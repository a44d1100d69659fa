//! A kernel that copies rows within a device, whatever their alignment: tensors to padded rows and back ([`Rows`]).
//!
//! The driver's copy of two dimensions moves rows of 2-byte elements with an odd pitch at a fraction of the memory's rate,
//! which costs more than the product behind it. Here each thread writes four vectors of 16 bytes, aligned where they go;
//! it fetches each as the two aligned vectors that the 16 bytes lie in where they come from, all eight before it needs the
//! first, and shifts them into place. Neighbouring threads share every second vector, which the L1 cache holds.
//!
//! No byte outside of a row is read or written: where one of these vectors would reach out of it, at its ends, a thread
//! moves what is inside by *granules*, the largest power of two up to 4 bytes that all addresses and sizes are multiples of.
//! There is one text a granule, which [`text`] writes and which needs nothing newer than compute capability 8.0.
//!
//! The simulated device copies rows on the host: what the copy costs is not the simulated kernel's, whose counters and
//! findings a launch reports. The tests below run the same text on the simulator.

use crate::{error::Error, parameters::Parameters, tensor_map::Rows};
use backend_ptx::Ptx;
use smallvec::SmallVec;
use std::fmt::Write as _;

/// Threads of a CTA.
const THREADS: u64 = 256;
/// Vectors of a thread.
const VECTORS: u64 = 4;
/// Bytes of a vector.
const BYTES: u64 = 16;
/// Bytes of a granule, by [`RowCopy::granule`].
pub(crate) const GRANULES: [u64; 3] = [1, 2, 4];
/// Dimensions of rows that one launch walks.
const DIMS: usize = 4;
/// Name of the entry.
const ENTRY: &str = "copy_rows";
/// Parameters, all of 64 bits.
const PARAMETERS: [&str; 18] = [
    // Addresses, bytes of a row.
    "from",
    "to",
    "bytes",
    // Rows of the dimension that is shared out, and vectors of a row.
    "rows",
    "vectors",
    // By how many rows and vectors a thread's next vector is further.
    "next_row",
    "next_vector",
    // Bytes from row to row.
    "from_row",
    "to_row",
    // CTAs for these rows; the other dimensions follow one another in the grid.
    "blocks",
    // Of the other dimensions: extents, steps in bytes. What is left is the last one's index.
    "count_1",
    "from_1",
    "to_1",
    "count_2",
    "from_2",
    "to_2",
    "from_3",
    "to_3",
];

/// A launch of the kernel.
#[derive(Debug)]
pub(crate) struct RowCopy {
    /// Which of the texts, by position among [`GRANULES`].
    pub(crate) granule: usize,
    pub(crate) ctas: u32,
    pub(crate) parameters: Parameters,
}

impl RowCopy {
    /// The launch that copies rows from one address to another; `None` if there are none. Both sides are apart.
    ///
    /// # Errors
    /// [`Error::TooLarge`] above 2³¹ − 1 CTAs.
    pub(crate) fn new(rows: &Rows, from: u64, to: u64) -> Result<Option<Self>, Error> {
        if rows.bytes == 0 || rows.dims.iter().any(|dim| dim.count == 0) {
            return Ok(None);
        }
        // The CTAs of a launch share the rows of one dimension out among them: the longest.
        let mut dims: SmallVec<[_; DIMS]> = rows.dims.iter().collect();
        dims.sort_by_key(|dim| std::cmp::Reverse(dim.count));
        let count = |n: usize| dims.get(n).map_or(1, |dim| dim.count as u64);
        let step = |n: usize| dims.get(n).map_or([0; 2], |dim| dim.steps.map(|step| step as u64));
        assert!(dims.len() <= DIMS, "a tensor map has at most five dimensions");

        let bytes = rows.bytes as u64;
        let targets = (0..DIMS).fold(to, |all, n| all | step(n)[1]);
        let all = (0..DIMS).fold(targets | from | bytes, |all, n| all | step(n)[0]);
        let granule = all.trailing_zeros().min(GRANULES.len() as u32 - 1) as usize;
        // A row that does not start at a vector may take one more.
        let before = if targets.is_multiple_of(BYTES) { 0 } else { BYTES - GRANULES[granule] };
        let vectors = (before + bytes).div_ceil(BYTES);
        let blocks = (u128::from(count(0)) * u128::from(vectors)).div_ceil(u128::from(THREADS * VECTORS));
        let ctas = (1..DIMS).fold(blocks, |ctas, n| ctas.saturating_mul(count(n).into()));
        let ctas =
            u32::try_from(ctas).ok().filter(|n| *n <= i32::MAX as u32).ok_or_else(|| Error::TooLarge {
                what: "the number of CTAs of a copy to padded rows".into(),
                value: i128::try_from(ctas).unwrap_or(i128::MAX),
                max: i32::MAX.into(),
            })?;
        let mut words = vec![
            from,
            to,
            bytes,
            count(0),
            vectors,
            THREADS / vectors,
            THREADS % vectors,
            step(0)[0],
            step(0)[1],
            blocks as u64,
        ];
        for n in 1..DIMS {
            words.extend((n + 1 < DIMS).then(|| count(n)));
            words.extend(step(n));
        }
        Ok(Some(RowCopy { granule, ctas, parameters: Parameters::plain(words) }))
    }
}

/// The kernels that tensors with elements of so many bytes may need, by position among [`GRANULES`].
pub(crate) fn granules(element: u32) -> impl Iterator<Item = usize> {
    (0..GRANULES.len()).filter(move |n| GRANULES[*n] >= u64::from(element).min(GRANULES[GRANULES.len() - 1]))
}

/// The kernel for a granule, by position among [`GRANULES`].
pub(crate) fn ptx(granule: usize) -> Ptx {
    Ptx {
        text: text(GRANULES[granule]),
        entry: ENTRY.into(),
        assemble: None,
        threads: THREADS as u32,
        static_shared: 0,
        dynamic_shared: 0,
    }
}

/// The text for granules of so many bytes.
fn text(granule: u64) -> String {
    let parameters: Vec<String> = PARAMETERS.iter().map(|name| format!("    .param .u64 p_{name}")).collect();
    let mut text = format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n\n.visible .entry {ENTRY}(\n{}\n)\n.maxntid {THREADS}, 1, 1\n{{\n",
        parameters.join(",\n")
    );
    let mut line = |what: &str| {
        let indent = if what.ends_with(':') { "" } else { "    " };
        let _ = writeln!(text, "{indent}{what}");
    };
    line(".reg .pred %p<8>;");
    line(".reg .b32 %r<48>;");
    line(".reg .b64 %x<16>;");
    PARAMETERS.iter().for_each(|name| line(&format!(".reg .b64 %{name};")));
    PARAMETERS.iter().for_each(|name| line(&format!("ld.param.u64 %{name}, [p_{name}];")));
    line(HEAD);
    for n in 0..VECTORS {
        line(&vector_registers(n));
        if n > 0 {
            line(NEXT);
        }
        line(&fetch(n));
    }
    (0..VECTORS).for_each(|n| line(&store(n, granule)));
    line("ret;");
    text.push_str("}\n");
    text
}

/// Which row and vector a thread begins with: `%row`, `%vector`.
const HEAD: &str = "
    .reg .b64 %row, %vector;
    mov.u32 %r0, %ctaid.x;
    cvt.u64.u32 %x0, %r0;
    // The rows that this CTA has part of.
    setp.lt.u64 %p0, %x0, %blocks;
    @%p0 bra PLANE;
    div.u64 %x1, %x0, %blocks;
    mul.lo.u64 %x2, %x1, %blocks;
    sub.u64 %x0, %x0, %x2;
    div.u64 %x2, %x1, %count_1;
    mul.lo.u64 %x3, %x2, %count_1;
    sub.u64 %x3, %x1, %x3;
    mad.lo.u64 %from, %x3, %from_1, %from;
    mad.lo.u64 %to, %x3, %to_1, %to;
    div.u64 %x3, %x2, %count_2;
    mul.lo.u64 %x4, %x3, %count_2;
    sub.u64 %x4, %x2, %x4;
    mad.lo.u64 %from, %x4, %from_2, %from;
    mad.lo.u64 %to, %x4, %to_2, %to;
    mad.lo.u64 %from, %x3, %from_3, %from;
    mad.lo.u64 %to, %x3, %to_3, %to;
PLANE:
    mov.u32 %r1, %tid.x;
    cvt.u64.u32 %x1, %r1;
    mad.lo.u64 %x0, %x0, 1024, %x1;
    // A division of 32 bits takes a fraction of the time, and is enough for all but the largest tensors.
    or.b64 %x1, %x0, %vectors;
    shr.u64 %x1, %x1, 32;
    setp.ne.u64 %p0, %x1, 0;
    @%p0 bra WIDE;
    cvt.u32.u64 %r2, %x0;
    cvt.u32.u64 %r3, %vectors;
    div.u32 %r4, %r2, %r3;
    cvt.u64.u32 %row, %r4;
    bra DIVIDED;
WIDE:
    div.u64 %row, %x0, %vectors;
DIVIDED:
    mul.lo.u64 %x1, %row, %vectors;
    sub.u64 %vector, %x0, %x1;";

/// The next row and vector of a thread.
const NEXT: &str = "
    add.u64 %row, %row, %next_row;
    add.u64 %vector, %vector, %next_vector;
    setp.ge.u64 %p0, %vector, %vectors;
    @%p0 sub.u64 %vector, %vector, %vectors;
    @%p0 add.u64 %row, %row, 1;";

/// What is known of a thread's vector until it is stored: where the 16 bytes are, whether they may be fetched as
/// vectors, or else whether there are any; both vectors.
fn vector_registers(n: u64) -> String {
    format!(
        "
    // Vector {n}.
    .reg .b64 %s{n}, %d{n}, %low{n}, %high{n};
    .reg .pred %whole{n}, %part{n};
    .reg .b32 %a{n}_<8>;"
    )
}

/// Works out where a vector is, and fetches the two that it lies in.
fn fetch(n: u64) -> String {
    format!(
        "
    mad.lo.u64 %x0, %row, %from_row, %from;
    mad.lo.u64 %x1, %row, %to_row, %to;
    // The vector's own bytes are those of the row from %low to %high.
    and.b64 %x2, %x1, -16;
    shl.b64 %x3, %vector, 4;
    add.u64 %d{n}, %x2, %x3;
    sub.u64 %x4, %d{n}, %x1;
    add.u64 %s{n}, %x0, %x4;
    sub.s64 %x5, 0, %x4;
    max.s64 %low{n}, %x5, 0;
    add.s64 %x5, %x5, %bytes;
    min.s64 %high{n}, %x5, 16;
    setp.lt.u64 %p0, %row, %rows;
    setp.gt.and.s64 %part{n}, %high{n}, %low{n}, %p0;
    // Both vectors lie in the row.
    and.b64 %x5, %s{n}, -16;
    add.u64 %x6, %s{n}, 15;
    and.b64 %x6, %x6, -16;
    add.u64 %x7, %x0, %bytes;
    sub.u64 %x7, %x7, 16;
    setp.ge.and.s64 %whole{n}, %x5, %x0, %part{n};
    setp.le.and.s64 %whole{n}, %x6, %x7, %whole{n};
    @%whole{n} ld.global.nc.v4.b32 {{%a{n}_0, %a{n}_1, %a{n}_2, %a{n}_3}}, [%x5];
    @%whole{n} ld.global.nc.v4.b32 {{%a{n}_4, %a{n}_5, %a{n}_6, %a{n}_7}}, [%x6];"
    )
}

/// Shifts a vector into place and stores it, or moves the granules of a part of one.
fn store(n: u64, granule: u64) -> String {
    let mut text = format!(
        "
    // Vector {n}.
    @!%whole{n} bra PART{n};
    cvt.u32.u64 %r0, %s{n};
    and.b32 %r1, %r0, 8;
    setp.ne.u32 %p0, %r1, 0;
    and.b32 %r1, %r0, 4;
    setp.ne.u32 %p1, %r1, 0;
    shl.b32 %r0, %r0, 3;
    and.b32 %r0, %r0, 24;"
    );
    let mut line = |what: String| {
        let _ = write!(text, "\n    {what}");
    };
    // By two words, by one, by bytes.
    (0..6).for_each(|k| line(format!("selp.b32 %r{}, %a{n}_{}, %a{n}_{k}, %p0;", 8 + k, k + 2)));
    (0..5).for_each(|k| line(format!("selp.b32 %r{}, %r{}, %r{}, %p1;", 16 + k, 9 + k, 8 + k)));
    (0..4).for_each(|k| line(format!("shf.r.wrap.b32 %r{}, %r{}, %r{}, %r0;", 24 + k, 16 + k, 17 + k)));
    line(format!("st.global.v4.b32 [%d{n}], {{%r24, %r25, %r26, %r27}};"));
    line(format!("bra DONE{n};"));
    let _ = write!(text, "\nPART{n}:\n    @!%part{n} bra DONE{n};");
    let bits = 8 * granule;
    let mut line = |what: String| {
        let _ = write!(text, "\n    {what}");
    };
    line(format!("cvt.u32.u64 %r0, %low{n};"));
    line(format!("cvt.u32.u64 %r1, %high{n};"));
    line(format!("sub.u32 %r2, %r1, {granule};"));
    // What is outside is fetched from inside, so that no fetch waits for a condition, and none for a store.
    for (k, at) in (0..BYTES).step_by(granule as usize).enumerate() {
        line(format!("max.u32 %r3, %r0, {at};"));
        line("min.u32 %r3, %r3, %r2;".into());
        line("cvt.u64.u32 %x0, %r3;".into());
        line(format!("add.u64 %x0, %s{n}, %x0;"));
        line(format!("ld.global.nc.u{bits} %r{}, [%x0];", 8 + k));
    }
    for (k, at) in (0..BYTES).step_by(granule as usize).enumerate() {
        line(format!("setp.le.u32 %p0, %r0, {at};"));
        line(format!("setp.gt.and.u32 %p0, %r1, {at}, %p0;"));
        line(format!("@%p0 st.global.u{bits} [%d{n}+{at}], %r{};", 8 + k));
    }
    let _ = write!(text, "\nDONE{n}:");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cache::PtxCache, device::CudaDevice, tensor_map::RowDim, toolkit};
    use ptx_sim::{Launch, Memory, Module};

    /// What a launch is to do: rows from an offset of one buffer to an offset of another, or of the same.
    #[derive(Debug)]
    struct Case {
        rows: Rows,
        from: usize,
        to: usize,
        same: bool,
    }

    impl Case {
        /// Bytes from the first of a side to one past the last.
        fn span(&self, side: usize) -> usize {
            let last = self.rows.dims.iter().map(|dim| (dim.count - 1) * dim.steps[side]).sum::<usize>();
            last + self.rows.bytes
        }

        /// Runs it on the simulator and compares each byte of both buffers.
        fn check(&self, edit: impl Fn(String) -> String) {
            let data = |bytes: usize, seed: usize| -> Vec<u8> {
                (0..bytes).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 13) as u8 ^ seed as u8).collect()
            };
            // The last byte of a buffer is the last of a row: what lies behind it is no one's.
            let mut memory = Memory::new();
            let (from_end, to_end) = (self.from + self.span(0), self.to + self.span(1));
            let mut source = data(if self.same { from_end.max(to_end) } else { from_end }, 1);
            let mut target = data(to_end, 2);
            let from = memory.alloc("from", source.len() as u64).unwrap();
            memory.write(from, &source).unwrap();
            let to = if self.same { from } else { memory.alloc("to", target.len() as u64).unwrap() };
            if !self.same {
                memory.write(to, &target).unwrap();
            }
            let copy =
                RowCopy::new(&self.rows, from + self.from as u64, to + self.to as u64).unwrap().unwrap();
            let ptx = ptx(copy.granule);
            let module = Module::parse(&edit(ptx.text)).unwrap_or_else(|e| panic!("{e}"));
            let launch = Launch {
                kernel: ptx.entry,
                grid: [copy.ctas, 1, 1],
                block: [ptx.threads, 1, 1],
                params: copy.parameters.words.iter().map(|word| word.to_le_bytes().to_vec()).collect(),
                ..Launch::default()
            };
            let report =
                ptx_sim::launch(&module, &mut memory, &launch).unwrap_or_else(|e| panic!("{self:?}: {e}"));
            assert!(report.findings.is_empty(), "{self:?}: {:?}", report.findings);
            self.rows.each(|[at, place]| {
                let (at, place, bytes) = (self.from + at, self.to + place, self.rows.bytes);
                match self.same {
                    true => source.copy_within(at..at + bytes, place),
                    false => target[place..place + bytes].copy_from_slice(&source[at..at + bytes]),
                }
            });
            let read = |address, bytes: usize| {
                let mut found = vec![0; bytes];
                memory.read(address, &mut found).unwrap();
                found
            };
            let first = |a: &[u8], b: &[u8]| a.iter().zip(b).position(|(a, b)| a != b);
            let found = read(from, source.len());
            assert_eq!(first(&found, &source), None, "{self:?}: in the first buffer");
            if !self.same {
                assert_eq!(first(&read(to, target.len()), &target), None, "{self:?}: in the second buffer");
            }
        }
    }

    fn rows(bytes: usize, dims: &[(usize, [usize; 2])]) -> Rows {
        let dims = dims.iter().map(|(count, steps)| RowDim { count: *count, steps: *steps });
        Rows { bytes, dims: dims.collect() }
    }

    /// A sequence of numbers below a bound, the same in each run.
    fn numbers(mut state: u64) -> impl FnMut(usize) -> usize {
        move |bound| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        }
    }

    /// Random extents, steps and offsets, of which the granule follows.
    fn random(seed: u64) -> Case {
        let mut below = numbers(seed);
        let unit = [1, 2, 4, 8, 16][below(5)];
        let longest = [3, 40, 200][below(3)];
        let bytes = unit * (1 + below(longest));
        let (mut room, mut dims) = ([bytes; 2], Vec::new());
        for _ in 0..below(5) {
            let most = [3, 9][below(2)];
            let count = 1 + below(most);
            let steps = room.map(|room| room + unit * below(20) * below(2));
            room = steps.map(|step| step * count);
            dims.push((count, steps));
        }
        Case { rows: rows(bytes, &dims), from: unit * below(17), to: unit * below(17), same: false }
    }

    #[test]
    fn copies_rows_of_any_alignment() {
        let (mut granules, mut vectors) = ([0; 3], 0);
        for seed in 0..400 {
            let case = random(seed);
            let copy = RowCopy::new(&case.rows, case.from as u64, case.to as u64).unwrap().unwrap();
            granules[copy.granule] += 1;
            vectors += usize::from(case.rows.bytes >= 48);
            case.check(|text| text);
        }
        assert!(granules.iter().all(|n| *n > 50) && vectors > 150, "{granules:?}, {vectors}");
    }

    /// What tensor maps need: rows of 16-bit elements to lines of 128 bytes and back, over several CTAs.
    #[test]
    fn copies_tensors_to_padded_rows_and_back() {
        for (columns, count, skew) in
            [(4097, 9, 0), (1, 3000, 2), (33, 700, 6), (4096, 3, 2), (127, 1, 14), (0, 4, 0)]
        {
            let bytes = 2 * columns;
            let there = rows(bytes, &[(count, [bytes, bytes.next_multiple_of(128)])]);
            if columns == 0 {
                assert!(RowCopy::new(&there, 0, 0).unwrap().is_none());
                continue;
            }
            let back = Case { rows: there.clone().back(), from: 0, to: skew, same: false };
            Case { rows: there, from: skew, to: 0, same: false }.check(|text| text);
            back.check(|text| text);
        }
        assert!(RowCopy::new(&rows(8, &[(0, [8, 128])]), 0, 0).unwrap().is_none());
    }

    /// The gaps of one side hold the rows of the other: any access beside a row is a race, or a wrong byte.
    #[test]
    fn touches_nothing_beside_a_row() {
        for unit in [1, 2, 4] {
            for length in [1, 3, 7, 8, 16, 33, 100] {
                for skew in [0, 1, 5] {
                    let (bytes, from) = (unit * length, unit * skew);
                    let rows = rows(bytes, &[(40, [2 * bytes; 2])]);
                    Case { rows, from, to: from + bytes, same: true }.check(|text| text);
                }
            }
        }
    }

    #[test]
    fn copies_across_four_gigabytes() {
        let rows = rows(100, &[(3, [3 << 30, 128])]);
        let mut memory = Memory::with_capacity(16 << 30);
        let from = memory.alloc("from", 2 * (3 << 30) + 100).unwrap();
        let to = memory.alloc("to", 3 * 128).unwrap();
        rows.each(|[at, _]| memory.write(from + at as u64, &[at.count_ones() as u8 + 1; 100]).unwrap());
        let copy = RowCopy::new(&rows, from, to).unwrap().unwrap();
        let launch = Launch {
            kernel: ENTRY.into(),
            grid: [copy.ctas, 1, 1],
            block: [THREADS as u32, 1, 1],
            params: copy.parameters.words.iter().map(|word| word.to_le_bytes().to_vec()).collect(),
            ..Launch::default()
        };
        let module = Module::parse(&ptx(copy.granule).text).unwrap();
        let report = ptx_sim::launch(&module, &mut memory, &launch).unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        rows.each(|[at, place]| {
            let mut row = [0; 100];
            memory.read(to + place as u64, &mut row).unwrap();
            assert_eq!(row, [at.count_ones() as u8 + 1; 100], "{at}");
        });
    }

    /// Divisions of 64 bits, which only tensors of more than 2³² vectors need.
    #[test]
    fn divides_by_64_bits_too() {
        let (narrow, wide) = ("shr.u64 %x1, %x1, 32;", "mov.u64 %x1, 1;");
        for seed in 0..40 {
            random(seed).check(|text| {
                assert!(text.contains(narrow));
                text.replace(narrow, wide)
            });
        }
    }

    #[test]
    fn as_many_ctas_as_a_grid_has() {
        let huge = rows(1 << 40, &[(1 << 10, [1 << 40; 2]), (1 << 10, [1 << 50; 2])]);
        let error = RowCopy::new(&huge, 0, 0).unwrap_err();
        assert!(matches!(error, Error::TooLarge { value, .. } if value == 1 << 46), "{error}");
    }

    /// The same on a GPU, each copy behind the one before it.
    #[test]
    fn copies_rows_on_a_gpu() {
        let Ok(device) = CudaDevice::new(0) else {
            eprintln!("skipped: no GPU");
            return;
        };
        let queue = device.new_queue().unwrap();
        let ragged = [(4097, 4095), (1, 100_000), (33, 70_001), (8191, 513)].map(|(columns, count)| {
            let bytes = 2 * columns;
            let rows = rows(bytes, &[(count, [bytes, bytes.next_multiple_of(128)])]);
            Case { rows, from: 2, to: 0, same: false }
        });
        for case in (0..200).map(random).chain(ragged) {
            let data =
                |bytes: usize, seed: usize| -> Vec<u8> { (0..bytes).map(|n| (n * n + seed) as u8).collect() };
            let (source, mut target) = (data(case.from + case.span(0), 1), data(case.to + case.span(1), 2));
            let [from, to] = [&source, &target].map(|data| {
                let memory = queue.allocate(data.len()).unwrap();
                // SAFETY: it is as large.
                unsafe { queue.upload(memory.pointer(), data).unwrap() };
                memory
            });
            let places =
                [(&from, case.from), (&to, case.to)].map(|(memory, at)| memory.pointer() + at as u64);
            let mut copy = RowCopy::new(&case.rows, places[0], places[1]).unwrap().unwrap();
            let loaded = device.row_copy(copy.granule, &PtxCache::disabled()).unwrap();
            // SAFETY: both sides are as large as the rows reach.
            unsafe { queue.launch(&loaded, copy.ctas, &mut copy.parameters).unwrap() };
            queue.synchronize().unwrap();
            case.rows.each(|[at, place]| {
                let (at, place) = (case.from + at, case.to + place);
                target[place..place + case.rows.bytes].copy_from_slice(&source[at..at + case.rows.bytes]);
            });
            assert!(to.download(0, target.len()).unwrap() == target, "{case:?}");
            assert!(from.download(0, source.len()).unwrap() == source, "{case:?}");
        }
    }

    #[test]
    fn elements_lie_at_multiples_of_their_size() {
        let all = |bytes| granules(bytes).collect::<Vec<_>>();
        assert_eq!((all(1), all(2), all(4), all(8)), (vec![0, 1, 2], vec![1, 2], vec![2], vec![2]));
    }

    #[test]
    fn ptxas_assembles_it() {
        let Some(ptxas) = toolkit::find("ptxas") else {
            eprintln!("skipped: no ptxas");
            return;
        };
        for granule in 0..GRANULES.len() {
            toolkit::assemble(&ptxas, &ptx(granule), "sm_90").unwrap();
        }
    }
}
