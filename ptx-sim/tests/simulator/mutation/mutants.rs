//! Mutants: the text of a kernel with one instruction deleted, weakened or shifted.
//!
//! The corpus has one instruction a line. Deleted or weakened are barriers, fences, waits, arrivals, commits,
//! announcements of bytes, orderings and scopes; shifted by one vector are the addresses of every access to shared and
//! global memory, the coordinates of tensor tiles and the start addresses of matrix descriptors.

/// A mutant: what was done to which line.
#[derive(Debug, Clone)]
pub struct Mutant {
    /// Line of the kernel's file, from 1.
    pub line: usize,
    /// The instruction, and what became of it.
    pub what: String,
    pub text: String,
}

/// One line: guard with a trailing blank, opcode with modifiers, operands.
struct Inst<'a> {
    guard: &'a str,
    opcode: &'a str,
    operands: Vec<&'a str>,
}

fn parse(line: &str) -> Option<Inst<'_>> {
    let body = line.strip_suffix(';')?;
    if body.starts_with('.') {
        return None;
    }
    let (guard, rest) = match body.starts_with('@') {
        true => body.split_at(body.find(' ')? + 1),
        false => ("", body),
    };
    let (opcode, operands) = rest.split_once(' ').unwrap_or((rest, ""));
    let mut list = vec![];
    let (mut depth, mut from) = (0, 0);
    for (i, c) in operands.char_indices() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                list.push(operands[from..i].trim());
                from = i + 1;
            }
            _ => {}
        }
    }
    if !operands.is_empty() {
        list.push(operands[from..].trim());
    }
    Some(Inst { guard, opcode, operands: list })
}

impl Inst<'_> {
    fn is(&self, prefix: &str) -> bool {
        self.opcode.starts_with(prefix)
    }

    fn has(&self, modifier: &str) -> bool {
        self.opcode.split('.').any(|m| m == modifier)
    }

    fn with(&self, opcode: &str, operands: &[&str]) -> String {
        let blank = if operands.is_empty() { "" } else { " " };
        format!("{}{opcode}{blank}{};", self.guard, operands.join(", "))
    }

    fn opcode_as(&self, from: &str, to: &str) -> String {
        self.with(&self.opcode.replacen(from, to, 1), &self.operands)
    }

    fn operand_as(&self, at: usize, to: &str) -> String {
        let mut o = self.operands.clone();
        o[at] = to;
        self.with(self.opcode, &o)
    }

    /// The operand at `at` as a number, replaced by each of `change(number)`.
    fn number(&self, at: usize, change: &[i64]) -> Vec<(String, String)> {
        let Some(n) = self.operands.get(at).and_then(|o| o.parse::<i64>().ok()) else { return vec![] };
        let list = change.iter().map(|c| n + c).filter(|v| *v > 0);
        list.map(|v| (format!("{n} becomes {v}"), self.operand_as(at, &v.to_string()))).collect()
    }

    /// The instruction deleted, weakened.
    fn weaken(&self) -> Vec<(String, String)> {
        let mut out = vec![];
        let mut add = |what: &str, line: String| out.push((what.to_string(), line));
        if self.is("mbarrier.try_wait") || self.is("mbarrier.test_wait") {
            add("delete", self.with("setp.eq.u32", &[self.operands[0], "0", "0"]));
            let (from, to) = if self.has("acquire") {
                ("acquire", "relaxed")
            } else if self.has("parity") {
                ("parity", "parity.relaxed.cta")
            } else {
                ("_wait", "_wait.relaxed.cta")
            };
            add("relaxed", self.opcode_as(from, to));
            return out;
        }
        if self.is("shfl.sync") {
            let d = self.operands[0].split('|').next().unwrap();
            add("delete", self.with("mov.b32", &[d, self.operands[1]]));
            return out;
        }
        let deleted =
            ["bar.", "barrier.", "fence.", "mbarrier.arrive", "mbarrier.init", "mbarrier.expect_tx"];
        let groups = ["commit_group", "wait_group", "wait_all"];
        if deleted.iter().any(|p| self.is(p))
            || self.is("wgmma.fence")
            || self.is("cp.async.mbarrier")
            || groups.iter().any(|g| self.has(g))
        {
            add("delete", String::new());
        }
        if self.is("bar.sync") {
            add("bar.warp.sync", self.with("bar.warp.sync", &["-1"]));
            if self.operands.len() == 2 {
                add("bar.arrive", self.opcode_as("sync", "arrive"));
            }
        }
        if self.has("wait_group") {
            let n: u32 = self.operands[0].parse().unwrap();
            add("one more pending", self.operand_as(0, &(n + 1).to_string()));
            if self.is("cp.async.bulk") && !self.has("read") {
                add("reads only", self.opcode_as("wait_group", "wait_group.read"));
            }
        }
        if self.is("barrier.cluster.arrive") && !self.has("relaxed") {
            let release = if self.has("release") { "arrive.release" } else { "arrive" };
            add("relaxed", self.opcode_as(release, "arrive.relaxed"));
        }
        if self.is("mbarrier.arrive") {
            let (from, to) = if self.has("release") {
                ("release", "relaxed")
            } else if self.has("expect_tx") {
                ("expect_tx", "expect_tx.relaxed.cta")
            } else {
                ("arrive", "arrive.relaxed.cta")
            };
            add("relaxed", self.opcode_as(from, to));
            if self.has("expect_tx") {
                let o = &self.operands[..self.operands.len() - 1];
                add("no expect_tx", self.with(&self.opcode.replace(".expect_tx", ""), o));
                out.extend(self.number(2, &[16, -16]));
            }
        }
        if self.is("mbarrier.init") {
            out.extend(self.number(1, &[1, -1]));
        }
        let ordered = ["ld.", "st.", "atom.", "red."].iter().any(|p| self.is(p));
        if ordered {
            for (from, to) in [("acquire", "relaxed"), ("release", "relaxed"), ("acq_rel", "relaxed")] {
                if self.has(from) {
                    out.push((to.to_string(), self.opcode_as(from, to)));
                }
            }
        }
        if (ordered || self.is("fence.acq_rel")) && self.has("gpu") {
            out.push(("cta scope".to_string(), self.opcode_as(".gpu", ".cta")));
        }
        out
    }

    /// Bytes of one vector of this access.
    fn vector(&self) -> u32 {
        if self.is("cp.") || self.is("ldmatrix") || self.is("stmatrix") {
            return if self.has("tensor") { 128 } else { 16 };
        }
        let n = if self.has("v4") {
            4
        } else if self.has("v2") {
            2
        } else {
            1
        };
        n * if self.opcode.ends_with("64") { 8 } else { 4 }
    }

    /// The addresses shifted. Lines may be preceded by instructions that use the registers `%mut32` and `%mut64`.
    fn shift(&self) -> Vec<(String, String)> {
        let mut out = vec![];
        let memory = ["ld.", "st.", "atom.", "red.", "ldmatrix", "stmatrix", "cp.async", "cp.reduce"];
        let bare = self.has("param") || self.is("cp.async.mbarrier");
        if memory.iter().any(|p| self.is(p)) && !bare {
            let n = self.vector();
            for (at, o) in self.operands.iter().enumerate() {
                // The mbarrier of a copy is no data.
                if !o.starts_with('[') || (at == 2 && self.has("tensor")) || at == 3 {
                    continue;
                }
                let inner = &o[1..o.len() - 1];
                if let Some((map, coords)) = inner.split_once(", ") {
                    let list: Vec<&str> = coords[1..coords.len() - 1].split(", ").collect();
                    for (k, c) in list.iter().enumerate() {
                        let mut l = list.clone();
                        l[k] = "%mut32";
                        let by = if k == 0 { 8 } else { 1 };
                        let to = format!("[{map}, {{{}}}]", l.join(", "));
                        let line = format!("add.s32 %mut32, {c}, {by};\n{}", self.operand_as(at, &to));
                        out.push((format!("coordinate {k} + {by}"), line));
                    }
                    continue;
                }
                let to = match inner.rsplit_once('+') {
                    Some((b, off)) => format!("[{b}+{}]", off.parse::<i64>().unwrap() + n as i64),
                    None => format!("[{inner}+{n}]"),
                };
                out.push((format!("{o} becomes {to}"), self.operand_as(at, &to)));
            }
        }
        if self.is("wgmma.mma_async") {
            for at in 1..3 {
                let d = self.operands[at];
                if d.starts_with('%') {
                    let line = format!("add.s64 %mut64, {d}, 1;\n{}", self.operand_as(at, "%mut64"));
                    out.push((format!("{d} + 16 bytes"), line));
                }
            }
        }
        out
    }
}

/// All mutants of a kernel.
pub fn mutants(ptx: &str) -> Vec<Mutant> {
    let lines: Vec<&str> = ptx.lines().collect();
    let mut out = vec![];
    for (k, line) in lines.iter().enumerate() {
        let Some(inst) = parse(line) else { continue };
        for (what, new) in inst.weaken().into_iter().chain(inst.shift()) {
            let mut text: Vec<&str> = lines.clone();
            text[k] = &new;
            let text = text.join("\n").replacen("\n{\n", "\n{ .reg .b32 %mut32; .reg .b64 %mut64;\n", 1);
            out.push(Mutant { line: k + 1, what: format!("{}: {what}", inst.opcode), text });
        }
    }
    out
}
