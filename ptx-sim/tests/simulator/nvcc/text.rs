//! nvcc's PTX brought into the form of the corpus: one kernel, one instruction a line, single blanks.

/// The module with the kernel whose name contains `kernel` as its only one, and that name.
pub fn one_kernel(ptx: &str, kernel: &str) -> (String, String) {
    let (mut out, mut name, mut lines) = (vec![], None, ptx.lines().peekable());
    while let Some(line) = lines.next() {
        let line = line.split("//").next().unwrap_or("");
        if line.trim_start().starts_with(".section") {
            break;
        }
        if !line.contains(".entry ") {
            out.push(tidy(line));
            continue;
        }
        let entry = line.split(".entry ").nth(1).unwrap_or("").trim_end_matches('(').trim();
        let keep = entry.contains(kernel) && name.is_none();
        if keep {
            name = Some(entry.to_string());
            out.push(tidy(line));
        }
        // To the brace in the first column that ends the body.
        for line in lines.by_ref() {
            if keep {
                out.push(tidy(line.split("//").next().unwrap_or("")));
            }
            if line.starts_with('}') {
                break;
            }
        }
    }
    let name = name.unwrap_or_else(|| panic!("no kernel `{kernel}`"));
    (out.into_iter().filter(|l| !l.is_empty()).collect::<Vec<_>>().join("\n"), name)
}

/// Source positions are left out: file names may contain anything.
fn tidy(line: &str) -> String {
    if line.trim_start().starts_with(".file") || line.trim_start().starts_with(".loc\t") {
        return String::new();
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}
