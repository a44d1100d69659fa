//! Words of messages.

use std::time::Duration;

/// Ranks that a message names.
const NAMED: usize = 16;

/// `rank 2`, `ranks 1 and 3`, `ranks 1, 2 and 3`.
pub(super) fn ranks(ranks: &[usize]) -> String {
    let number = |rank: &usize| rank.to_string();
    match ranks {
        [] => "no rank".into(),
        [one] => format!("rank {one}"),
        many if many.len() > NAMED => {
            let first: Vec<String> = many[..NAMED].iter().map(number).collect();
            format!("ranks {} and {} more", first.join(", "), many.len() - NAMED)
        }
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(number).collect();
            format!("ranks {} and {last}", first.join(", "))
        }
    }
}

/// `60 s`, `0.5 s`.
pub(super) fn seconds(time: Duration) -> String {
    let millis = time.as_millis() as f64;
    format!("{} s", millis / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_times_are_words() {
        assert_eq!(ranks(&[]), "no rank");
        assert_eq!(ranks(&[2]), "rank 2");
        assert_eq!(ranks(&[1, 3]), "ranks 1 and 3");
        assert_eq!(ranks(&[1, 2, 3]), "ranks 1, 2 and 3");
        let many: Vec<usize> = (0..20).collect();
        assert_eq!(ranks(&many), "ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 and 4 more");
        assert_eq!(seconds(Duration::from_secs(60)), "60 s");
        assert_eq!(seconds(Duration::from_millis(1500)), "1.5 s");
    }
}
