//! The table, its reader and its printer agree.

use tile_dsl::schedule::{Item, parse, rows};

fn printed(text: &str) -> Vec<String> {
    let show = |item: Item| match item {
        Item::Directive(d) => d.to_string(),
        Item::Drop { key, .. } => format!("drop({key})"),
    };
    parse(text).unwrap_or_else(|e| panic!("{e} of `{text}`")).into_iter().map(show).collect()
}

/// One of each, in their order.
const ONE_EACH: &str = "online(x = 1); fits(x <= 1); multiple(x: 2); layout(x: col); tile(x = 1); split(x -> p, q: 1); recompute(x); fuse(x at y); \
        tensor_core(x: mma); reorder(x, y in z); stage(x at y: shared); fragment(x at y); pad(x: 1); swizzle(x: 1); \
        pipeline(x, 1); interleave(x: loads(1/2)); split_k(x, 1); reduce(x: lane); bind(x -> lane.x); unroll(x in z); serpentine(x); vectorize(x); exchange(x); cache(x: evict_first); \
        produce(x: warp); arrive(x: warp); issue(x: overwrite); skew(x); freeze(x); registers(24, 24); persistent(1); pingpong(2); alternate(x); cluster(x: 2); segment(x: 3); occupancy(1); order(row); assemble(1); launch(dependent); lookback(x)";

#[test]
fn the_table_says_what_the_text_says_of_every_directive() {
    let items = parse(ONE_EACH).unwrap();
    assert_eq!(items.len(), rows().len());
    for (item, row) in items.into_iter().zip(rows()) {
        let name = row.name();
        let Item::Directive(mut d) = item else { panic!("{name} is no directive") };
        assert_eq!(d.kind.name(), name);
        let (text, key) = (d.to_string(), d.key());
        assert!(text.starts_with(&format!("{name}(")));
        assert_eq!(key.subject.is_none(), row.whole_kernel(), "{name}");
        // Every name of the text but those of the parts is one that can be renamed, the subject first.
        let names: Vec<String> = d.kind.names_mut().into_iter().map(|n| n.clone()).collect();
        assert!(key.subject.is_none() || names.first() == key.subject.as_ref(), "{name}");
        let arguments = &text[name.len()..];
        for of in ["x", "y", "z"] {
            let words = arguments.split(|c: char| !(c.is_alphanumeric() || c == '.' || c == '_'));
            let count = words.filter(|word| *word == of).count();
            assert_eq!(names.iter().filter(|n| *n == of).count(), count, "{of} in {text}");
        }
        assert_eq!(key.within.as_ref(), names.iter().find(|n| *n == "z"), "{name}");
    }
    assert!(rows().is_sorted_by_key(|row| row.phase));
}

#[test]
fn every_form_is_one_of_its_directive() {
    for row in rows() {
        assert!(printed(row.form)[0].starts_with(&format!("{}(", row.name())), "{}", row.form);
    }
}

#[test]
fn every_directive_reads_back_as_printed() {
    let all = [
        "online(n = 64)",
        "fits(N <= 1024)",
        "multiple(N: 128)",
        "layout(b: col)",
        "tile(i = 128)",
        "split(n -> no, nl, nv: 32, 4)",
        "recompute(v)",
        "fuse(z.sum.2 at n)",
        "reorder(k, i.t, jr)",
        "reorder(k, i.t in y.sum)",
        "stage(a at k: shared, transposed, cp_async, vector(16))",
        "stage(a at k: shared, tma)",
        "stage(p: shared)",
        "fragment(a at k.t)",
        "pad(a: 16)",
        "swizzle(a: 128)",
        "pipeline(k, 2)",
        "interleave(k.t: loads(3/8))",
        "interleave(k.t: copies(1/4), stores(1/2))",
        "interleave(k.t: loads(3/8), copies(1/4), stores(1/2))",
        "split_k(k, 4)",
        "split_k(k, 3; atomic)",
        "split_k(k, 4; cluster)",
        "reduce(e.max: lane)",
        "bind(i -> thread.x)",
        "bind(j -> lane.y ^ lane.x)",
        "unroll(k)",
        "serpentine(i in acc)",
        "vectorize(jv in c)",
        "exchange(c)",
        "cache(c: evict_first)",
        "cache(a: evict_last)",
        "tensor_core(acc: mma)",
        "tensor_core(acc: wgmma(64, 128))",
        "tensor_core(acc: mma; swapped)",
        "produce(k: warpgroup)",
        "produce(i: warp, stages(2))",
        "registers(40, 232)",
        "persistent(1)",
        "persistent(1, serpentine)",
        "persistent(1, counter)",
        "pingpong(2)",
        "alternate(k)",
        "order(serpentine(16))",
        "arrive(k: thread)",
        "issue(acc: overwrite)",
        "issue(acc: in_flight(2))",
        "issue(acc: overwrite, in_flight(1))",
        "skew(s.dot)",
        "freeze(m)",
        "cluster(i: 2)",
        "segment(j: 512)",
        "occupancy(2)",
        "order(grouped(8))",
        "order(serpentine(4) over j, i)",
        "order(backwards(4) over j, i)",
        "order(col)",
        "assemble(1)",
        "launch(dependent)",
        "drop(unroll(k in acc))",
        "drop(order)",
    ];
    assert_eq!(printed(&all.join("; ")), all);
    assert_eq!(printed(""), [""; 0]);
}

#[test]
fn what_is_printed_is_read_as_what_was_written() {
    for text in [
        "",
        "tile(i = 32, j = 8); bind(j -> thread.x, i -> thread.y);",
        "tile(i = 1_024,)",
        "fits(N <= 1024, M <= 4)",
        "multiple(N: 128, M: 8)",
        "layout(a: row, b: col)",
        "split(n.t -> no, nl, nv: 32, 4)",
        "recompute(v, e.max); fuse(z.sum.2, v.2.3 at n.o)",
        "tensor_core(acc: mma)",
        "tensor_core(acc: wgmma(64, 128); swapped)",
        "reorder(k, i.t in y.sum); reorder(i, j,)",
        "stage(a, e.max at k.o: shared, transposed, cp_async, vector(16)); stage(p: shared); stage(p: shared,)",
        "fragment(a, b at k.t)",
        "pad(a: 16, b: 32); swizzle(a: 64)",
        "interleave(k.t: loads(3/8), copies(1/4), stores(1/2)); interleave(k: stores(3/4),)",
        "split_k(k, 3; atomic)",
        "split_k(k, 4; cluster)",
        "reduce(e.max, y.sum: cta); reduce(s: warp)",
        "bind(i -> block); bind(j -> lane.y ^ lane.x, k -> warp.z)",
        "unroll(i, j in c); serpentine(i in y.sum); vectorize(jv)",
        "exchange(c); cache(c: evict_first, a: evict_last)",
        "order(row); order(col); order(grouped(4)); occupancy(2); assemble(0); launch(dependent)",
        "drop(bind(i, j.t), reorder(in acc), unroll(k in acc), order, occupancy, assemble(), launch, reorder)",
    ] {
        assert_eq!(printed(&printed(text).join("; ")), printed(text), "{text}");
    }
}

#[test]
fn what_is_no_directive_is_not_read() {
    for text in [
        "tiles(i = 2)",
        "tile",
        "tile(i)",
        "tile(i = 2) tile(j = 2)",
        "tile(i = 2);; tile(j = 2)",
        "tile(2 = 3)",
        "tile(i = x)",
        "tile(i = -1)",
        "tile(i = 4294967296)",
        "tile(i => 2)",
        "tile()",
        "fits(N < 3)",
        "multiple(N)",
        "multiple(N: 0)",
        "multiple(64: 8)",
        "layout(b: diagonal)",
        "split(i -> i.a, i.b: 2)",
        "split(i: 2)",
        "fuse(v n)",
        "reorder()",
        "reorder(k in)",
        "stage(a at k: register)",
        "stage(a at k: shared, vector)",
        "stage(a at k: shared, padded)",
        "interleave(k.t)",
        "interleave(k.t: loads(2))",
        "interleave(k.t: stores(1/2), loads(1/2))",
        "interleave(k.t: loads(1/2), loads(1/2))",
        "stage(: shared)",
        "fragment(a)",
        "pipeline(k, 2,)",
        "pipeline(k)",
        "split_k(k, 2; sorted)",
        "split_k(k, 2;)",
        "tensor_core(acc: wmma)",
        "tensor_core(acc: mma;)",
        "tensor_core(acc: mma; transposed)",
        "tensor_core(acc: mma_tf32)",
        "reduce(s: grid)",
        "bind(i -> thread.w)",
        "bind(i -> grid.x)",
        "bind(i -> lane ^ lane.x)",
        "bind(i -> lane.y ^ lane)",
        "bind(i -> lane.y ^ warp.x)",
        "unroll(i.)",
        "unroll(i..t)",
        "occupancy()",
        "order(grouped)",
        "order(grouped(2), row)",
        "order(grouped(2) over)",
        "order(over i, j)",
        "drop(bind)",
        "drop()",
        "drop(tiles(i))",
        "drop(drop(bind(i)))",
        "drop(order(i))",
        "drop(bind(i)",
        "tile(i = 0)",
        "split(i -> a, b: 2, 3)",
        "split(i -> a: 2)",
        "pad(a: 0)",
        "stage(a at k: shared, cp_async, tma)",
        "stage(a: shared, stmatrix, tma)",
        "registers(24 24)",
        "tile(i = 2",
        "tile(i = 2))",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn bare_loops_are_those_that_their_directive_takes() {
    let key = |text: &str| match &parse(text).unwrap()[0] {
        Item::Directive(d) => d.key().to_string(),
        Item::Drop { key, .. } => key.to_string(),
    };
    for (text, other) in [("pipeline(k, 2)", "pipeline(k.o, 2)"), ("unroll(k in c)", "unroll(k.t in c)")] {
        assert_eq!(key(text), key(other));
    }
    assert_ne!(key("unroll(k)"), key("unroll(k.o)"));
    assert_ne!(key("split_k(k, 2)"), key("drop(split_k(k.t))"));
    assert_eq!(key("split_k(k, 2)"), key("drop(split_k(k.o))"));
}

#[test]
fn copies_are_named_by_how_they_are_read() {
    for text in [
        "stage(a[i, k] at k: shared, tma)",
        "stage(x[2*p + r, -c, 0] at c: shared)",
        "fragment(a[j, k] at k.t)",
        "pad(a[i - j]: 16)",
        "swizzle(a[i, k]: 128)",
        "drop(stage(a[i, k]))",
        "drop(swizzle(a[j, k]))",
    ] {
        assert_eq!(printed(text), [text]);
    }
    // Members of one list; terms in the order of their names.
    assert_eq!(
        printed(
            "stage(a[i,k], a[j, k], b at k: shared); pad(a[r+p, 1 * k]: 8, b: 16); drop(stage(a[i, k], b))"
        ),
        [
            "stage(a[i, k] at k: shared)",
            "stage(a[j, k] at k: shared)",
            "stage(b at k: shared)",
            "pad(a[p + r, k]: 8)",
            "pad(b: 16)",
            "drop(stage(a[i, k]))",
            "drop(stage(b))"
        ]
    );
    let error = |text: &str| parse(text).unwrap_err().to_string();
    assert_eq!(
        error("stage(a[i + 1, k] at k: shared)"),
        "directive 1: one copy serves all reads whose indices differ by constants: write the index without them"
    );
    assert_eq!(error("stage(a[i + i] at k: shared)"), "directive 1: `i` occurs twice in an index");
    assert_eq!(error("stage(a[i at k: shared)"), "directive 1: expected `]` in `stage`, found `at`");
    assert_eq!(error("stage(a[] at k: shared)"), "directive 1: expected an axis in `stage`, found `]`");
    assert_eq!(error("cache(a[i]: evict_first)"), "directive 1: expected `:` in `cache`, found `[`");
    assert_eq!(error("tile(i[j] = 2)"), "directive 1: expected `=` in `tile`, found `[`");
}

#[test]
fn lists_are_taken_apart() {
    assert_eq!(
        printed("tile(i = 2, j = 3);bind(i->thread.x,j->warp);"),
        ["tile(i = 2)", "tile(j = 3)", "bind(i -> thread.x)", "bind(j -> warp.x)"]
    );
    assert_eq!(
        printed("drop(bind(i, j), reorder(in acc))"),
        ["drop(bind(i))", "drop(bind(j))", "drop(reorder(in acc))"]
    );
    assert_eq!(printed("unroll(i, j in c)"), ["unroll(i in c)", "unroll(j in c)"]);
}

#[test]
fn mistakes_say_where_and_what() {
    let error = |text: &str| parse(text).unwrap_err().to_string();
    assert_eq!(error("tile(i = 2); tile(j 3)"), "directive 2: expected `=` in `tile`, found `3`");
    assert_eq!(error("tiles(i = 2)"), "directive 1: unknown directive `tiles`");
    assert_eq!(error("tile(i = x)"), "directive 1: expected a positive number in `tile`, found `x`");
    assert_eq!(error("tile(i = 2"), "directive 1: expected `)` in `tile`");
    assert_eq!(error("reduce(s: grid)"), "directive 1: unknown level `grid`");
    assert_eq!(
        error("bind(j -> lane.y ^ thread.x)"),
        "directive 1: `lane.y` is combined with a coordinate of another unit, `thread`"
    );
    assert_eq!(error("drop(bind)"), "directive 1: `drop(bind)` does not say which");
    assert_eq!(error("drop(tiles(i))"), "directive 1: unknown directive `tiles`");
    assert_eq!(error("unroll(i..t)"), "directive 1: expected a name after the dot in `unroll`, found `.`");
}
