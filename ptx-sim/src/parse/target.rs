//! Targets that a module may name (PTX ISA §11.1.2, `.target`).

use crate::error::ParseError;

/// Architectures, and whether there are features of the one alone (`a`) and of its family (`f`).
const KNOWN: [(u32, &str); 30] = [
    (10, ""),
    (11, ""),
    (12, ""),
    (13, ""),
    (20, ""),
    (30, ""),
    (32, ""),
    (35, ""),
    (37, ""),
    (50, ""),
    (52, ""),
    (53, ""),
    (60, ""),
    (61, ""),
    (62, ""),
    (70, ""),
    (72, ""),
    (75, ""),
    (80, ""),
    (86, ""),
    (87, ""),
    (88, ""),
    (89, ""),
    (90, "a"),
    (100, "af"),
    (101, "af"),
    (103, "af"),
    (110, "af"),
    (120, "af"),
    (121, "af"),
];

/// Options that may stand beside an architecture.
const OPTIONS: [&str; 4] = ["debug", "texmode_independent", "texmode_unified", "map_f64_to_f32"];

/// What one name after `.target` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Sm(u32, Option<char>),
    Option,
}

/// The target of that name; otherwise the message of the error.
pub(super) fn target(name: &str) -> Result<Target, String> {
    if OPTIONS.contains(&name) {
        return Ok(Target::Option);
    }
    let number = name.strip_prefix("sm_").unwrap_or("");
    let suffix = number.chars().last().filter(char::is_ascii_alphabetic);
    let digits = number.strip_suffix(|c: char| c.is_ascii_alphabetic()).unwrap_or(number);
    for (sm, suffixes) in KNOWN {
        if sm.to_string() == digits && suffix.is_none_or(|s| suffixes.contains(s)) {
            return Ok(Target::Sm(sm, suffix));
        }
    }
    let mut known = vec![];
    for (sm, suffixes) in KNOWN {
        known.push(format!("sm_{sm}"));
        known.extend(suffixes.chars().map(|s| format!("sm_{sm}{s}")));
    }
    Err(format!(
        "unknown target `{name}`: known are {}, and the options {}",
        known.join(", "),
        OPTIONS.join(", ")
    ))
}

/// As [`target`], for the name at `pos`.
pub(super) fn at(pos: crate::lex::Pos, name: &str) -> Result<Target, ParseError> {
    target(name).map_err(|text| ParseError::at(pos, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_targets_and_suffixes() {
        assert_eq!(target("sm_80"), Ok(Target::Sm(80, None)));
        assert_eq!(target("sm_90a"), Ok(Target::Sm(90, Some('a'))));
        assert_eq!(target("sm_120f"), Ok(Target::Sm(120, Some('f'))));
        assert_eq!(target("debug"), Ok(Target::Option));
        for name in
            ["sm_91", "sm_90f", "sm_80a", "sm_90aa", "sm_090", "sm_", "sm_a", "compute_90", "sm_9000", "fast"]
        {
            let e = target(name).unwrap_err();
            assert!(e.starts_with(&format!("unknown target `{name}`: known are sm_10, ")), "{e}");
            assert!(e.contains("sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_100f, sm_101"), "{e}");
        }
    }
}
