//! Pinned errors, and their help applied to the source.

use std::ops::Range;

/// One error.
#[derive(Clone)]
pub struct Pinned {
    /// Its first line.
    pub message: String,
    /// What it says under `help`.
    pub help: Option<String>,
    /// Line and column of what is underlined, from 1, and how much of the line that is.
    at: (usize, usize, usize),
}

/// The errors of a recorded text.
pub fn errors(pinned: &str) -> Vec<Pinned> {
    pinned.split("\n\n").filter_map(error).collect()
}

/// One block of pinned text.
fn error(block: &str) -> Option<Pinned> {
    let mut lines = block.lines();
    let message = lines.next()?.strip_prefix("error: ")?.to_string();
    let help = block.lines().find_map(|line| line.trim_start().strip_prefix("= help: ")).map(str::to_string);
    let place = block.lines().find_map(|line| line.trim_start().strip_prefix("--> "))?;
    let mut numbers = place.rsplit(':').map(str::parse::<usize>);
    let (column, line) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let marks = block.lines().find(|l| l.trim_start().starts_with('|') && l.contains('^'));
    let length = marks.map_or(0, |l| l.matches('^').count());
    Some(Pinned { message, help, at: (line, column, length) })
}

/// The source after a help.
pub fn apply(source: &str, error: &Pinned, help: &str) -> Result<String, String> {
    let start: usize = source.split_inclusive('\n').take(error.at.0 - 1).map(str::len).sum();
    let line = source[start..].lines().next().unwrap_or_default();
    let column = |n: usize| start + line.chars().take(n).map(char::len_utf8).sum::<usize>();
    let underlined = column(error.at.1 - 1)..column(error.at.1 - 1 + error.at.2);
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    let mut schedule = None;
    // Between clauses, not inside of what is quoted.
    for clause in help.replace("`; ", "`\n").lines() {
        let quoted: Vec<&str> = clause.split('`').skip(1).step_by(2).collect();
        let words = clause.split(' ').next().unwrap_or_default();
        match (words, quoted.as_slice()) {
            ("replace", [old, new @ ..]) if !new.is_empty() => {
                if let Some(old) = Directive::parse(old)
                    .filter(|_| is_directive(old) && in_schedule(source, underlined.start))
                {
                    let body = schedule.get_or_insert_with(|| Body::around(source, underlined.clone()));
                    body.remove(&old)?;
                    new.iter().try_for_each(|new| body.put(new))?;
                } else if same(&source[underlined.clone()], old) {
                    edits.push((underlined.clone(), new.join(" ")));
                } else {
                    edits.push((find(source, underlined.clone(), old)?, new.join(" ")));
                }
            }
            ("add", [text, _]) if clause.contains("` before `") => {
                edits.push((underlined.start..underlined.start, format!("{text} ")));
            }
            ("add", added) if !added.is_empty() => {
                let body = schedule.get_or_insert_with(|| Body::around(source, underlined.clone()));
                added.iter().try_for_each(|new| body.put(new))?;
            }
            ("remove", [old]) => {
                let body = schedule.get_or_insert_with(|| Body::around(source, underlined.clone()));
                body.remove(&Directive::parse(old).ok_or("no directive")?)?;
            }
            _ => return Err("neither replaces, adds nor removes".to_string()),
        }
    }
    edits.extend(schedule.map(|body| (body.range.clone(), body.text())));
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut text = source.to_string();
    for (range, new) in edits {
        text.replace_range(range, &new);
    }
    Ok(text)
}

/// Where some text stands: nearest before the end of what is underlined, or else anywhere.
fn find(source: &str, underlined: Range<usize>, old: &str) -> Result<Range<usize>, String> {
    let found = source[..underlined.end].rfind(old).or_else(|| source.find(old));
    found.map(|at| at..at + old.len()).ok_or_else(|| format!("`{old}` is not in the source"))
}

fn same(a: &str, b: &str) -> bool {
    let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    letters(a) == letters(b)
}

const DIRECTIVES: [&str; 37] = [
    "fits",
    "layout",
    "tile",
    "split",
    "recompute",
    "online",
    "fuse",
    "reorder",
    "stage",
    "fragment",
    "pad",
    "swizzle",
    "pipeline",
    "interleave",
    "split_k",
    "reduce",
    "bind",
    "unroll",
    "serpentine",
    "vectorize",
    "exchange",
    "cache",
    "occupancy",
    "order",
    "assemble",
    "launch",
    "drop",
    "tensor_core",
    "produce",
    "arrive",
    "issue",
    "registers",
    "persistent",
    "pingpong",
    "alternate",
    "cluster",
    "segment",
];

/// Whether a place is in a schedule: `order(..)` is a function in a kernel, too.
fn in_schedule(source: &str, at: usize) -> bool {
    let last = |what| source[..at].rfind(what);
    last("schedule!") > last("#[tile_kernel]")
}

fn is_directive(text: &str) -> bool {
    text.split_once('(').is_some_and(|(name, _)| DIRECTIVES.contains(&name)) && text.ends_with(')')
}

/// A directive with one member: `bind(i -> thread.x)`.
#[derive(Clone, Debug, PartialEq)]
struct Directive {
    name: String,
    /// What it acts on, as far as a child's directive replaces its parent's.
    subject: String,
    member: String,
    /// What all members share: ` at k: shared`.
    shared: String,
}

impl Directive {
    fn parse(text: &str) -> Option<Directive> {
        match Directive::members(text)?.as_slice() {
            [one] => Some(one.clone()),
            _ => None,
        }
    }

    /// A directive of several members taken apart.
    fn members(text: &str) -> Option<Vec<Directive>> {
        let (name, rest) = text.trim().split_once('(')?;
        let body = rest.trim_end().strip_suffix(')')?;
        let shared_from = match name {
            "fuse" | "fragment" => body.find(" at "),
            "stage" => body.find(" at ").or(body.find(':')),
            "reduce" => body.find(':'),
            "unroll" | "serpentine" | "vectorize" => body.find(" in "),
            "split" | "reorder" | "pipeline" | "interleave" | "split_k" | "order" | "registers" | "issue"
            | "produce" | "persistent" | "lookback" => Some(0),
            _ => None,
        };
        let (list, shared) = body.split_at(shared_from.unwrap_or(body.len()));
        let directive = |member: &str| {
            let head = if list.is_empty() { shared } else { member };
            // Reads of a tensor that follow an index are a subject of their own: `a[i, k]`.
            let end = match head.find(['-', '=', ':', ',', '<', ';', '(', '[']) {
                Some(at) if head[at..].starts_with('[') => head.find(']').map_or(head.len(), |end| end + 1),
                found => found.unwrap_or(head.len()),
            };
            let subject = if name == "reorder" { within(shared) } else { head[..end].trim() };
            let implied = if matches!(name, "pipeline" | "split_k" | "lookback") { ".o" } else { ".t" };
            let subject = subject.strip_suffix(implied).unwrap_or(subject);
            let subject = match name {
                "unroll" | "serpentine" | "vectorize" => format!("{subject}{shared}"),
                "drop" => member.trim().to_string(),
                "order" | "occupancy" | "assemble" | "launch" | "registers" | "persistent" | "pingpong" => {
                    String::new()
                }
                _ => subject.to_string(),
            };
            let member = member.trim().to_string();
            Directive { name: name.trim().to_string(), subject, member, shared: shared.to_string() }
        };
        Some(if list.is_empty() { vec![directive("")] } else { commas(list).map(directive).collect() })
    }

    fn text(&self) -> String {
        format!("{}({}{})", self.name, self.member, self.shared)
    }
}

/// The ` in value` of a directive.
fn within(text: &str) -> &str {
    text.find(" in ").map_or("", |at| &text[at..])
}

/// Pieces between commas outside of parentheses and brackets.
fn commas(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |c: char| {
        depth += i32::from("([".contains(c)) - i32::from(")]".contains(c));
        c == ',' && depth == 0
    })
}

/// The directives of the schedule around a place.
struct Body {
    range: Range<usize>,
    directives: Vec<Directive>,
    /// Where the last one was removed.
    place: Option<usize>,
}

impl Body {
    /// The braces around what is underlined, or after it where the header is underlined.
    fn around(source: &str, underlined: Range<usize>) -> Body {
        let before = &source[..underlined.start];
        let open = before.rfind('{').filter(|open| {
            let inside = &before[open + 1..];
            // Inside a schedule there are directives only: a header has `for` or `=` before its brace.
            !inside.contains('}')
                && before[..*open].lines().last().is_some_and(|l| l.contains(" for ") || l.contains(" = "))
        });
        let open =
            open.unwrap_or_else(|| underlined.end + source[underlined.end..].find('{').expect("a body"));
        let range = open + 1..open + source[open..].find('}').expect("a brace closes");
        let text: String =
            source[range.clone()].lines().filter(|l| !l.trim_start().starts_with("//")).collect();
        let statements = text.split(';').map(str::trim).filter(|s| !s.is_empty());
        // A `;` inside of parentheses, as in `split_k(k, 4; atomic)`.
        let mut joined: Vec<String> = Vec::new();
        for statement in statements {
            match joined.last_mut().filter(|last| last.matches('(').count() > last.matches(')').count()) {
                Some(last) => {
                    last.push_str("; ");
                    last.push_str(statement);
                }
                None => joined.push(statement.to_string()),
            }
        }
        let directives = joined.iter().flat_map(|s| Directive::members(s).unwrap_or_default()).collect();
        Body { range, directives, place: None }
    }

    fn remove(&mut self, old: &Directive) -> Result<(), String> {
        // Of equals the last: it is the one that is too many.
        let at = self.directives.iter().rposition(|d| same(&d.text(), &old.text()));
        let at = at.ok_or_else(|| format!("`{}` is not in the schedule", old.text()))?;
        self.directives.remove(at);
        self.place = Some(at);
        Ok(())
    }

    /// Adds a directive, where one was removed if that was so.
    fn put(&mut self, new: &str) -> Result<(), String> {
        let new = Directive::parse(new).ok_or_else(|| format!("`{new}` is no directive"))?;
        if let Some(same) =
            self.directives.iter().find(|d| (&d.name, &d.subject) == (&new.name, &new.subject))
        {
            return Err(format!("`{}` is there already", same.text()));
        }
        match &mut self.place {
            Some(at) => {
                self.directives.insert(*at, new);
                *at += 1;
            }
            None => self.directives.push(new),
        }
        Ok(())
    }

    fn text(&self) -> String {
        self.directives.iter().map(|d| format!(" {};", d.text())).collect::<String>() + " "
    }
}
