//! Waves: tiles just over a whole number of those that run at once.

use crate::{
    Figures, Lint, Rule,
    subject::Subject,
    text::{counted, number},
};

/// The rule.
pub const RULE: Rule = Rule {
    name: "waves",
    about: "how full the last wave of tiles is, from the tiles and the CTAs that the GPU holds at once",
    look,
};

/// The last wave is filled at least so much, or it is of no consequence: all waves together are filled so much.
const LEAST: f64 = 0.25;
const ALL: f64 = 0.9;

fn look(subject: &Subject<'_>) -> Vec<Lint> {
    let at_once = u64::from(subject.resident()) * subject.machine.multiprocessors();
    let (whole, left) = (subject.tiles / at_once, subject.tiles % at_once);
    let filled = left as f64 / at_once as f64;
    let useful = subject.tiles as f64 / ((whole + 1) * at_once) as f64;
    if whole == 0 || left == 0 || filled >= LEAST || useful >= ALL {
        return Vec::new();
    }
    let exact = subject.kernel.persistent.is_some() || subject.registers().exact;
    let at_most = if exact { "" } else { "at most " };
    let mut notes = vec![format!(
        "all waves together are {} % filled; other tiles, `persistent` or `split_k` change their number",
        number((100.0 * useful).round())
    )];
    if !exact {
        notes.push(format!("registers of a thread: {}", subject.registers().source));
    }
    vec![Lint {
        rule: RULE.name,
        place: "the grid".into(),
        figures: Figures { predicted: filled, bound: LEAST, unit: "of the last wave filled" },
        message: format!(
            "{} are {} of {at_most}{at_once} and {left} more: the last wave is {} % filled",
            counted(subject.tiles, "tile"),
            counted(whole, "wave"),
            number((1000.0 * filled).round() / 10.0)
        ),
        notes,
        help: None,
    }]
}
