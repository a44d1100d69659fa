//! Words and punctuation of the text form.

/// Words and punctuation with their lines.
pub(super) fn words(text: &str) -> Vec<(String, usize)> {
    let mut out = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let chars: Vec<char> = line.chars().collect();
        let mut at = 0;
        let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        while at < chars.len() {
            let start = at;
            if chars[at].is_whitespace() {
                at += 1;
                continue;
            }
            let pair: String = chars[at..].iter().take(2).collect();
            let signed = chars[at] == '-' && chars.get(at + 1).is_some_and(|c| c.is_alphanumeric());
            if word(chars[at]) || signed {
                at += 1;
                while at < chars.len()
                    && (word(chars[at])
                        || (chars[at] == '-'
                            && chars[at - 1] == 'e'
                            && chars[start..at].iter().any(char::is_ascii_digit)))
                {
                    at += 1;
                }
            } else if ["<=", ">=", "==", "!=", "<-"].contains(&pair.as_str()) {
                at += 2;
            } else {
                at += 1;
            }
            out.push((chars[start..at].iter().collect(), n + 1));
        }
    }
    out
}
