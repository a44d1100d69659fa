//! What shared memory holds is lost when another buffer takes its bytes.

use tile_dsl::{
    dtype::DType,
    engine,
    nest::{Arithmetic, InterpretError, interpret},
    schedule::{Schedule, Target, extend, parse},
    testing,
    tile::{
        self,
        evaluate::{Elements, Inputs},
    },
};

/// Two products, one after the other, and a value that all threads read.
const TWICE: &str = include_str!("../../support/twice.txt");

#[test]
fn buffers_that_live_at_the_same_time_lose_what_they_hold() {
    let kernel = tile::parse(TWICE).unwrap();
    let text = "tile(i = 16, j = 16, k = 32, l = 32); bind(i -> thread.y, j -> thread.x); stage(p: shared); \
                stage(a, b at k: shared); stage(d, e at l: shared)";
    let schedule = Schedule {
        name: "staged".into(),
        kernel: "twice".into(),
        dtypes: vec![DType::F32],
        target: Target::DEFAULT,
        directives: extend(&[], &parse(text).unwrap()).unwrap(),
    };
    let nest = engine::schedule(&kernel, &schedule, Some(DType::F32)).unwrap().nest;
    let mut inputs = Inputs {
        dims: [("M", 17), ("N", 3), ("K", 33), ("L", 31)].map(|(n, d)| (n.into(), d)).into(),
        ..Inputs::default()
    };
    for (name, len) in [("a", 17 * 33), ("b", 33 * 3), ("d", 17 * 31), ("e", 31 * 3)] {
        let elements = Elements::from_f64(DType::F32, (0..len).map(|n| f64::from(n % 5)));
        inputs.tensors.insert(name.into(), elements);
    }
    let right = interpret(&nest, &inputs, Arithmetic::Exact, 1).unwrap();
    let (names, overlaid) = testing::buffers(&nest);
    assert_eq!(names, ["p", "a", "b", "d", "e"]);
    assert!(overlaid);
    for a in 0..names.len() {
        for b in 0..a {
            // The others out of the way.
            let mut starts: Vec<u64> = (0..names.len() as u64).map(|n| 0x10_0000 * n).collect();
            starts[a] = starts[b];
            let found = testing::interpret_at(&starts, &nest, &inputs);
            // The first product is published after its loop.
            let after = |one: &str, other: &str| "pab".contains(one) && "de".contains(other) && one != "p";
            let apart = after(&names[b], &names[a]) || names[b] == "p" && "ab".contains(&names[a]);
            if apart {
                assert_eq!(found.as_ref(), Ok(&right), "{} and {}", names[a], names[b]);
            } else {
                assert!(matches!(found, Err(InterpretError::Poison(_))), "{} and {}", names[a], names[b]);
            }
        }
    }
}
