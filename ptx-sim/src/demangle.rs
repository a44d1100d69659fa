//! Names as the source has them: C++ (Itanium) and Rust symbols demangled.

/// The name of a function or kernel as the source has it, with its parameters' types; what is not mangled stays as it is.
///
/// ```
/// assert_eq!(ptx_sim::demangle("_Z4axpyILi4EEvfPKfPf"), "void axpy<4>(float, float const*, float*)");
/// assert_eq!(ptx_sim::demangle("saxpy"), "saxpy");
/// ```
pub fn demangle(name: &str) -> String {
    // Rust first: its old symbols are C++ names that end in a hash.
    if let Ok(name) = rustc_demangle::try_demangle(name) {
        return format!("{name:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(text) = symbol.demangle()
    {
        return text;
    }
    name.to_string()
}

/// The name of a variable without the function or namespaces that it stands in: `As` of
/// `_ZZ22sgemm_shared_mem_blockILi32EEviiifPKfS1_fPfE2As`.
pub(crate) fn variable(name: &str) -> String {
    let whole = demangle(name);
    let (mut depth, mut from) = (0, 0);
    let bytes = whole.as_bytes();
    for (i, c) in bytes.iter().enumerate() {
        match c {
            b'(' | b'<' | b'[' | b'{' => depth += 1,
            b')' | b'>' | b']' | b'}' => depth -= 1,
            b':' if depth == 0 && i > 0 && bytes[i - 1] == b':' => from = i + 1,
            _ => {}
        }
    }
    match &whole[from..] {
        "" => name.to_string(),
        last => last.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_languages() {
        assert_eq!(variable("_ZZ22sgemm_shared_mem_blockILi32EEviiifPKfS1_fPfE2As"), "As");
        assert_eq!(variable("_ZN5space15retirementCountE"), "retirementCount");
        assert_eq!(variable("smem"), "smem");
        assert_eq!(demangle("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangle("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
        assert_eq!(demangle("_Znot a name"), "_Znot a name");
    }
}
