//! The table of pairs that no schedule has: the engine refuses them in the words that it says, and no attempt is granted.

use tile_dsl::engine::testing::{Kind, kinds};
use tile_fuzz::{
    impossible::{RULES, Rule, Why, pair, possible},
    make::{Id, make},
    run::{Options, cover},
    survey::survey,
    wish::Wish,
};

/// Attempts until the engine has said it.
const TRIES: u64 = 24;

#[test]
fn what_is_called_refused_is_refused_in_these_words() {
    std::thread::scope(|scope| {
        let halves = RULES.split_at(RULES.len() / 2);
        scope.spawn(|| halves.0.iter().for_each(is_refused_in_its_words));
        halves.1.iter().for_each(is_refused_in_its_words);
    });
}

fn is_refused_in_its_words(rule: &Rule) {
    let Why::Refused(says) = rule.why else { return };
    let pairs = rule.some.iter().flat_map(|a| rule.others.iter().map(move |b| (*a, *b)));
    let mut heard = 0;
    for (n, (a, b)) in pairs.filter(|(a, b)| a != b).enumerate() {
        // A rule's first pairs are heard; the rest are not granted.
        let tries = if n < 2 { TRIES } else { 1 };
        for seed in 0..tries {
            let found = survey(Wish::pair(a, b), 1, seed);
            assert_eq!(found.granted, 0, "{a} + {b} is legal, although \"{says}\"");
            if found.reasons.iter().any(|(.., why)| why.contains(says)) {
                heard += 1;
                break;
            }
        }
    }
    assert!(heard > 0, "the engine does not say \"{says}\"");
}

#[test]
fn a_wish_is_granted_by_its_id_alone() {
    for text in ["7.0:serpentine+produce-warp", "7.1:split_k+produce-warp", "7.2:pad+bf16"] {
        let id: Id = text.parse().unwrap();
        assert_eq!(id.to_string(), text);
        let case = make(id, 3).case.unwrap();
        let has = kinds(&case.schedule);
        assert!(id.wish.unwrap().kinds().iter().all(|kind| has.contains(kind)), "{case}");
        assert_eq!(make(id, 3).case.unwrap().to_string(), case.to_string());
    }
    assert!(possible().contains(&Wish::pair(Kind::Serpentine, Kind::ProduceWarp)));
    assert!(pair(Kind::BindThread, Kind::BindLane).is_some());
}

#[test]
fn what_was_not_drawn_is_wished_for_until_it_was_launched() {
    let wishes: Vec<Wish> = ["bind-xor+exchange", "pad+bf16"].map(|text| text.parse().unwrap()).to_vec();
    // No program that chance draws.
    let options = Options { programs: 0, wishes: wishes.clone(), ..Options::default() };
    let outcome = cover(&options, 1, &|_| ());
    assert!(outcome.passed(), "{outcome}");
    for wish in wishes {
        assert!(outcome.pairs.of(wish) > 0, "{wish}: {:?}", outcome.missed.get(&wish));
    }
}
