//! A case: a kernel, a schedule and launches. Its text is what failures are reported as and what the corpus holds.
//!
//! ```text
//! case     ::= kernel schedule { launch }
//! kernel   ::= as `tile_dsl::tile::parse` reads it, ending in a line "}"
//! schedule ::= "schedule" target [dtype] "{" { directive ";" } "}"
//! launch   ::= "launch" [dim "=" number { "," dim "=" number }] ";" "data" seed ["special"]
//! ```
//! `//` starts a comment. `data` seeds the contents of the tensors; `special` puts NaN and infinities among them.

use std::{collections::BTreeMap, fmt};
use tile_dsl::{
    dtype::DType,
    schedule::{Schedule, Target, extend, parse},
    tile::{self, Kernel},
};

/// A kernel under a schedule, with sizes to launch it at.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The kernel, generic perhaps.
    pub kernel: Kernel,
    /// Element type of its generic parameter.
    pub dtype: Option<DType>,
    /// The schedule.
    pub schedule: Schedule,
    /// Launches.
    pub launches: Vec<Launch>,
}

/// Sizes and contents.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Launch {
    /// Extents of the named dims.
    pub dims: BTreeMap<String, i64>,
    /// Seed of the contents.
    pub data: u64,
    /// NaN and infinities are among them.
    pub special: bool,
}

/// The text is not a case.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.dims.iter().map(|(name, n)| format!("{name} = {n}")).collect();
        write!(f, "launch {}; data {}", dims.join(", "), self.data)?;
        if self.special { f.write_str(" special") } else { Ok(()) }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}schedule {}", self.kernel, self.schedule.target)?;
        if let Some(dtype) = self.dtype {
            write!(f, " {dtype}")?;
        }
        f.write_str(" {\n")?;
        for directive in &self.schedule.directives {
            writeln!(f, "    {directive};")?;
        }
        f.write_str("}\n")?;
        for launch in &self.launches {
            writeln!(f, "{launch}")?;
        }
        Ok(())
    }
}

impl Case {
    /// Reads what `Display` writes.
    ///
    /// # Errors
    /// The first place where the text is something else, or a kernel that is not well-formed.
    pub fn parse(text: &str) -> Result<Case, ParseError> {
        let fail = |message: String| ParseError(message);
        let text: String = text
            .lines()
            .map(|l| l.split("//").next().unwrap_or_default().trim_end().to_string() + "\n")
            .collect();
        let at =
            text.find("\nschedule ").ok_or_else(|| fail("there is no line `schedule sm_.. {`".into()))?;
        let (kernel, rest) = text.split_at(at + 1);
        let kernel = tile::parse(kernel).map_err(|e| fail(format!("kernel: {e}")))?;
        if let Some(wrong) = tile::verify(&kernel).first() {
            return Err(fail(format!("kernel: {}", wrong.message)));
        }
        let (head, rest) = rest.split_once('{').ok_or_else(|| fail("`schedule` without `{`".into()))?;
        let (body, rest) = rest.split_once('}').ok_or_else(|| fail("`schedule` without `}`".into()))?;
        let mut words = head.split_whitespace().skip(1);
        let target = words.next().and_then(Target::parse);
        let target =
            target.ok_or_else(|| fail(format!("`{}` names no target such as sm_80", head.trim())))?;
        let dtype = words
            .next()
            .map(|w| DType::from_name(w).ok_or_else(|| fail(format!("`{w}` is not an element type"))))
            .transpose()?;
        if dtype.is_some() != kernel.generic.is_some() {
            return Err(fail(
                "a generic kernel, and no other, needs an element type after the target".into(),
            ));
        }
        let items = parse(body).map_err(|e| fail(format!("schedule: {e}")))?;
        let directives = extend(&[], &items).map_err(|e| fail(format!("schedule: {}", e[0].message)))?;
        let schedule = Schedule {
            name: "case".into(),
            kernel: kernel.name.clone(),
            dtypes: dtype.into_iter().collect(),
            target,
            directives,
        };
        let launches = rest
            .lines()
            .filter(|l| !l.trim().is_empty())
            .map(|line| launch(line).ok_or_else(|| fail(format!("`{line}` is not `launch N = 4; data 1`"))))
            .collect::<Result<_, _>>()?;
        Ok(Case { kernel, dtype, schedule, launches })
    }
}

fn launch(line: &str) -> Option<Launch> {
    let (dims, data) = line.trim().strip_prefix("launch")?.split_once(';')?;
    let dims = dims
        .split(',')
        .filter(|d| !d.trim().is_empty())
        .map(|d| {
            let (name, n) = d.split_once('=')?;
            Some((name.trim().to_string(), n.trim().parse().ok()?))
        })
        .collect::<Option<_>>()?;
    let mut words = data.split_whitespace();
    if words.next()? != "data" {
        return None;
    }
    let data = words.next()?.parse().ok()?;
    let special = match words.next() {
        None => false,
        Some("special") => true,
        Some(_) => return None,
    };
    Some(Launch { dims, data, special })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
kernel scale<T>(x: &[T; N + 2], y: &mut [T; N]) {
    axis i in program_tile(N);
    store(y, [i], load(x, [i + 2]) * 2.0);
}
schedule sm_80 f16 {
    tile(i = 4);
    bind(i -> thread.x);
}
launch N = 5; data 7
launch N = 0; data 18446744073709551615 special
";

    #[test]
    fn text_reads_back_as_printed() {
        let case = Case::parse(TEXT).unwrap();
        assert_eq!(case.to_string(), TEXT);
        assert_eq!(Case::parse(&format!("// why\n{TEXT}// end")).unwrap(), case);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |from: &str, to: &str| Case::parse(&TEXT.replace(from, to)).unwrap_err().to_string();
        assert_eq!(error("tile(i = 4)", "tile(i)"), "schedule: directive 1: expected `=` in `tile`");
        assert_eq!(
            error(" f16", ""),
            "a generic kernel, and no other, needs an element type after the target"
        );
        assert_eq!(error("launch N = 5", "launch N"), "`launch N; data 7` is not `launch N = 4; data 1`");
        assert!(error("store(y, [i]", "store(x, [i]").starts_with("kernel: "));
    }
}
