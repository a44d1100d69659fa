use super::*;

#[test]
fn kernels_are_deterministic_and_read_back_as_printed() {
    for seed in 0..300 {
        let kernel = random_kernel(seed);
        assert_eq!(kernel, random_kernel(seed));
        let text = kernel.to_string();
        let read = tile_dsl::tile::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(read.to_string(), text);
    }
}

/// What the fuzzer is for occurs: each feature in a fair share of kernels.
#[test]
fn kernels_have_every_feature() {
    let kernels: Vec<Kernel> = (0..1000).map(random_kernel).collect();
    let recurrences = kernels.iter().filter(|kernel| {
        let dtype = kernel.generic.as_ref().map(|_| DType::F32);
        let nest = nest::initial(&kernel.instantiate(dtype)).expect("schedulable");
        (0..nest.values.len() as u16).any(|v| nest.is_carried(nest::ValueId(v)))
    });
    let count = recurrences.count();
    assert!(count > 30, "{count} kernels carry values from tile to tile");
    let texts: Vec<String> = kernels.iter().map(Kernel::to_string).collect();
    for feature in [
        "dot(",
        "sum(",
        "max(",
        "min(",
        "select(",
        "iota(",
        "dim(",
        "for ",
        "tiles(",
        "whole(",
        " % ",
        " / ",
        "exp(",
        "f16",
        "bf16",
        "<T>",
        "s0",
        " + 1",
        "2*",
        "unique(",
        "[(load(at",
        "if ",
        ": &mut [i32; ",
        "&[i32; ",
        "[u32; ",
        "[i8; ",
        "[u8; ",
        "[i64; ",
        "[bool; ",
        ": &mut [bool; ",
        ": bool",
        "select(load(mask",
        "if load(mask",
        "atomic_add(",
        "atomic_m",
        "order(",
        ".between(",
    ] {
        let count = texts.iter().filter(|t| t.contains(feature)).count();
        assert!(count >= 6, "`{feature}` occurs in {count} of {} kernels", texts.len());
    }
    let moves_on = |tensor: &Tensor| tensor.mutable && tensor.name.starts_with("at");
    let cursors = kernels.iter().filter(|kernel| kernel.tensors.iter().any(moves_on)).count();
    assert!(cursors >= 6, "{cursors} kernels store anew where they read");
    for has in [gathers, scatters, limited] {
        let count = (0..1000).filter(|seed| has(*seed)).count();
        assert!(count >= 60, "{count} kernels: others are thrown away until one has it");
    }
    let stores = |t: &&String| t.matches("store(").count() > 1;
    assert!(texts.iter().filter(stores).count() > 100);
}
