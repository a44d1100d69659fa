//! Kernels in which a name hides another that is read behind it: their text tells the two apart, and schedules name what it names.

use std::borrow::Cow;
use tile_dsl::{
    diagnostic::Diagnostic,
    nest,
    tile::{ExprKind, Kernel, Stmt, expressions_mut, parse, statements, verify},
};

/// A kernel with two values `a` and `b`, the first of which is read behind the second.
const TWO: &str = "\
kernel k(x: &[f32; N], z: &[f32; N], y: &mut [f32; N], s: f32) {
    axis i in program_tile(N);
    let a = load(x, [i]) * 2.0;
    let b = load(z, [i]) * 3.0;
    store(y, [i], (a - b) * a);
}
";

/// The kernel of a text with some of its variables called otherwise, as no text has it.
fn renamed(text: &str, names: &[(&str, &str)]) -> Kernel {
    let mut kernel = parse(text).unwrap();
    for (from, to) in names {
        let var = kernel.vars.iter_mut().find(|v| v.name == *from).unwrap();
        var.name = to.to_string();
    }
    kernel
}

/// The text of a kernel, which must read back as that kernel but for names, and which prints as it was.
fn text(kernel: &Kernel) -> String {
    let text = kernel.to_string();
    let read = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(read.to_string(), text);
    assert_eq!((&read.body, &read.axes), (&kernel.body, &kernel.axes), "{text}");
    text
}

/// Names of the values that schedules name.
fn values(kernel: &Kernel) -> Vec<String> {
    let nest = nest::initial(&kernel.instantiate(None)).unwrap();
    nest.values.iter().map(|v| v.name.clone()).collect()
}

#[test]
fn a_name_that_hides_another_gets_a_number() {
    let kernel = renamed(TWO, &[("a", "v3"), ("b", "v3")]);
    assert_eq!(
        text(&kernel),
        TWO.replace("a =", "v3 =").replace("b =", "v3.2 =").replace("(a - b) * a", "(v3 - v3.2) * v3")
    );
    assert_eq!(values(&kernel), ["v3", "v3.2"]);
    // An expression by itself has the names that it has in the text.
    let Some(Stmt::Store { value, .. }) = kernel.body.last() else { panic!("a store") };
    assert_eq!(kernel.show(value).to_string(), "(v3 - v3.2) * v3");
}

/// A schedule that is drawn for a kernel is said beside its text: both name the values alike.
#[test]
fn schedules_name_what_the_text_names() {
    for (first, second) in
        [("load(x, [i]) * 2.0", "load(z, [i]) * 3.0"), ("load(x, [i])", "load(z, [i]) * 3.0")]
    {
        let text = TWO.replace("load(x, [i]) * 2.0", first).replace("load(z, [i]) * 3.0", second);
        let kernel = renamed(&text, &[("a", "v"), ("b", "v")]);
        let again = parse(&kernel.to_string()).unwrap();
        assert_eq!(values(&kernel), values(&again), "{again}");
        assert!(values(&kernel).contains(&"v.2".to_string()));
    }
}

#[test]
fn a_free_name_is_that_of_nothing_else() {
    let taken = TWO.replace("z: &[f32; N]", "v.2: &[f32; N]").replace("load(z", "load(v.2");
    let text_of = |text: &str| text_with_hidden(text);
    assert!(text_of(&taken).contains("let v.3 ="), "{}", text_of(&taken));
    let scalar = TWO.replace("s: f32", "v.2: f32");
    assert!(text_of(&scalar).contains("let v.3 ="));
    let axis = TWO.replace("[i]", "[v.2]").replace("axis i", "axis v.2");
    assert!(text_of(&axis).contains("let v.3 ="));
    let dim = TWO.replace("; N]", "; v.2]").replace("(N)", "(v.2)");
    assert!(text_of(&dim).contains("let v.3 ="));
    let variable = TWO.replace("    store", "    let v.2 = a + b;\n    store").replace("* a)", "* v.2)");
    assert!(text_of(&variable).contains("let v.3 ="));
}

/// The text of a kernel in which `b` is called `v`, as `a` is.
fn text_with_hidden(of: &str) -> String {
    text(&renamed(of, &[("a", "v"), ("b", "v")]))
}

#[test]
fn parameters_keep_their_names() {
    let kernel = renamed(&TWO.replace("* a)", "* s)"), &[("b", "s")]);
    let text = text(&kernel);
    assert!(text.contains("s: f32) {") && text.contains("let s.2 ="), "{text}");
    assert!(text.contains("(a - s.2) * s)"), "{text}");
}

#[test]
fn names_bound_in_a_loop_stay_there() {
    let text = "\
kernel k(x: &[f32; N, K], y: &mut [f32; N]) {
    axis i in program_tile(N);
    axis k in tiles(K);
    let v = load(x, [i, 0]) * 2.0;
    let mut acc = full::<f32>(0.0, [i]);
    for k {
        let v = load(x, [i, k]) * 3.0;
        acc = acc + sum(v, k);
    }
    store(y, [i], acc * v);
}
";
    let kernel = parse(text).unwrap();
    assert_eq!(verify(&kernel), []);
    assert_eq!(kernel.to_string(), text);
    assert!(matches!(kernel.named_apart(), Cow::Borrowed(_)));
    // Read in the loop, too, the outer one is hidden.
    let mut reads = renamed(
        &text
            .replace("let v = load(x, [i, k]", "let w = load(x, [i, k]")
            .replace("sum(v, k)", "sum(w * v, k)"),
        &[("w", "v")],
    );
    assert!(
        self::text(&reads).contains("let v.2 = load(x, [i, k]) * 3.0;\n        acc = acc + sum(v.2 * v, k);")
    );
    // What a loop assigns is the variable that is in scope.
    reads.vars.iter_mut().for_each(|v| v.name = "v".into());
    let mut bound = 0;
    statements(&reads.body, &mut |stmt| bound += usize::from(matches!(stmt, Stmt::Let { .. })));
    assert_eq!(self::text(&reads).matches("let ").count(), bound);
}

#[test]
fn a_value_called_as_an_axis_is_no_axis() {
    let kernel = renamed(&TWO.replace("(a - b) * a", "max(a, b) - min(b, a)"), &[("b", "i")]);
    assert!(text(&kernel).contains("max(a, (i)) - min(i, a)"), "{kernel}");
    let scalar =
        TWO.replace("(a - b) * a", "max(b, s) * a").replace("s: f32", "i: f32").replace("b, s", "b, (i)");
    assert!(text(&parse(&scalar).unwrap()).contains("max(b, (i)) * a"));
    // Without the parentheses it is a sum over the axis, also where more follows.
    let sum = parse(&TWO.replace("(a - b) * a", "max(a + b, i)")).unwrap();
    let mut reduced = false;
    let mut body = sum.body.clone();
    expressions_mut(&mut body, &mut |e| {
        reduced |= matches!(e.kind, ExprKind::Reduce(..));
        true
    });
    assert!(reduced);
}

#[test]
fn values_may_be_called_as_operations() {
    let kernel = renamed(TWO, &[("a", "load"), ("b", "full")]);
    assert!(text(&kernel).contains("(load - full) * load"));
}

#[test]
fn messages_name_variables_as_the_text_does() {
    let mut kernel = renamed(TWO, &[("a", "v"), ("b", "v")]);
    let Some(Stmt::Let { var, value }) = kernel.body.get(1).cloned() else { panic!("a let") };
    kernel.body.insert(2, Stmt::Assign { var, value, span: tile_dsl::span::SpanId::NONE });
    let messages: Vec<String> = verify(&kernel).into_iter().map(|d: Diagnostic| d.message).collect();
    assert!(messages.contains(&"`v.2` is assigned but not declared `mut`".into()), "{messages:?}");
}
