//! What a target has, and what it is called.

use tile_dsl::machine::Target;
#[test]
fn ctas_fit_by_threads_and_by_shared_memory() {
    let resident = |threads, shared| Target::CLUSTERS.resident(threads, shared);
    assert_eq!([resident(32, 0), resident(128, 0), resident(160, 0), resident(1025, 0)], [32, 16, 12, 1]);
    assert_eq!([resident(128, 113 * 1024), resident(128, 113 * 1024 + 1)], [2, 1]);
    assert_eq!([resident(128, 227 * 1024), resident(128, 227 * 1024 + 1)], [1, 0]);
    assert_eq!(resident(u64::MAX, u64::MAX), 0);
}

#[test]
fn names_round_trip_and_unknown_ones_are_refused() {
    for name in ["sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"] {
        assert_eq!(Target::parse(name).unwrap().to_string(), name);
    }
    for name in ["sm_80a", "sm_75", "sm_", "90", "sm_9x"] {
        assert_eq!(Target::parse(name), None, "{name}");
    }
}
