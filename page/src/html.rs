//! The file: a frame, the style, the data and the scripts, each a file of `assets`.

use crate::{PageError, model::Page};

const FRAME: &str = include_str!("../assets/page.html");
const STYLE: &[&str] = &[include_str!("../assets/style.css"), include_str!("../assets/panels.css")];
/// The scripts in their order: what all use, a file a panel, what begins.
const SCRIPTS: &[&str] = &[
    include_str!("../assets/core.js"),
    include_str!("../assets/links.js"),
    include_str!("../assets/findings.js"),
    include_str!("../assets/text.js"),
    include_str!("../assets/derivation.js"),
    include_str!("../assets/layout.js"),
    include_str!("../assets/holds.js"),
    include_str!("../assets/memory.js"),
    include_str!("../assets/events.js"),
    include_str!("../assets/budgets.js"),
    include_str!("../assets/start.js"),
];

/// The page as one file.
pub(crate) fn html(page: &Page) -> Result<String, PageError> {
    // `</script>` in a string would end the element.
    let data = serde_json::to_string(page)?.replace("</", "<\\/");
    let title = escaped(&format!("{} · {}", page.head.kernel, page.head.schedule));
    let mut out = String::new();
    let mut rest = FRAME;
    // Each mark once, in the order of the frame; what is put in is not looked at again.
    for (mark, text) in [
        ("{{title}}", title),
        ("{{style}}", STYLE.concat()),
        ("{{data}}", data),
        ("{{script}}", SCRIPTS.join("\n")),
    ] {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        out.push_str(before);
        out.push_str(&text);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
