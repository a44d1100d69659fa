//! Ranks that go, are late, or make other calls.

use super::{each, in_time, ranks, sim, text};
use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use tilewright::{Buffer, Communicator, Error, Id, Stream, World};

/// A buffer and a stream.
fn have(all: &Communicator, count: usize) -> (Buffer<f32>, Stream) {
    let device = &all.devices()[0];
    (Buffer::zeros(device, &[count]).unwrap(), Stream::new(device).unwrap())
}

fn reduce(all: &Communicator, count: usize) -> Result<(), Error> {
    let (mut x, on) = have(all, count);
    all.all_reduce(&mut [&mut x], &[on])
}

#[test]
fn ranks_at_different_calls_are_told() {
    let call = |all: &Communicator| -> Result<(), Error> {
        let (mut x, on) = have(all, 6);
        match all.rank() {
            0 => all.all_reduce(&mut [&mut x], &[on]),
            _ => all.all_gather(&mut [&mut x], &[on]),
        }
    };
    let texts = in_time(|| ranks(2, |all| (text(call(&all)), text(reduce(&all, 6)))));
    let expected = "the ranks work together no more: rank 0 is at all_reduce (sum) of 6 f32, and rank 1 at all_gather of 6 f32";
    // And so is every call after it.
    let expected = (expected.to_string(), expected.to_string());
    assert_eq!(texts, [expected.clone(), expected]);
}

#[test]
fn buffers_of_different_sizes_are_told() {
    let texts = in_time(|| ranks(2, |all| text(reduce(&all, [5, 7][all.rank()]))));
    let expected = "the ranks work together no more: rank 0 is at all_reduce (sum) of 5 f32, and rank 1 at all_reduce (sum) of 7 f32";
    assert_eq!(texts, [expected, expected]);
    // A third is told what it is, though both are right with it.
    let results = in_time(|| ranks(3, |all| text(reduce(&all, [5, 5, 0][all.rank()]))));
    for found in results {
        assert!(found.contains("and rank 2 at all_reduce (sum) of 0 f32"), "{found}");
    }
    let texts = in_time(|| {
        ranks(2, |all| {
            let (mut x, on) = have(&all, 3 + all.rank());
            match all.rank() {
                // It may be sent before the other finds out.
                0 => all.send(&x, 1, &on).and_then(|()| reduce(&all, 1)),
                _ => all.receive(&mut x, 0, &on),
            }
            .unwrap_err()
            .to_string()
        })
    });
    let expected = "the ranks work together no more: rank 0 is at a message with 3 f32 from rank 0 to rank 1, and rank 1 at a message with 4 f32 from rank 0 to rank 1";
    assert_eq!(texts, [expected, expected]);
}

#[test]
fn a_rank_that_leaves_is_missed_at_the_next_call() {
    let (first, second) = (Barrier::new(3), Barrier::new(2));
    let texts = in_time(|| {
        ranks(3, |all| {
            reduce(&all, 9).unwrap();
            let rank = all.rank();
            if rank == 2 {
                drop(all);
                first.wait();
                return String::new();
            }
            first.wait();
            // What does not concern it goes on.
            let (mut x, on) = have(&all, 4);
            match rank {
                0 => all.send(&x, 1, &on).unwrap(),
                _ => all.receive(&mut x, 0, &on).unwrap(),
            }
            second.wait();
            text(reduce(&all, 9))
        })
    });
    let expected =
        "the ranks work together no more: rank 2 has dropped its communicator, and makes fewer calls";
    assert_eq!(texts, [expected, expected, ""]);
}

/// What was sent before arrives, however soon its sender leaves.
#[test]
fn the_last_messages_arrive() {
    for _ in 0..20 {
        let sums = ranks(3, |all| {
            let (mut x, on) = have(&all, 100_000);
            x.copy_from(&vec![1.0 + all.rank() as f32; 100_000]).unwrap();
            all.all_reduce(&mut [&mut x], &[on]).unwrap();
            drop(all);
            x.to_vec().unwrap()
        });
        assert!(sums.iter().all(|x| x.iter().all(|x| *x == 6.0)));
    }
}

#[test]
fn a_rank_that_is_late_for_a_call() {
    let id = Id::new("127.0.0.1:0").unwrap();
    let patient = |rank: usize, patience| {
        let world = World::from_id(&id, rank, 2).unwrap().with_patience(patience);
        Communicator::join(&world, &sim()).unwrap()
    };
    let over = AtomicBool::new(false);
    let texts = in_time(|| {
        each(2, |rank| {
            let all = patient(rank, Duration::from_millis(300));
            if rank == 1 {
                while !over.load(Ordering::Acquire) {
                    thread::sleep(Duration::from_millis(5));
                }
            }
            let found = text(reduce(&all, 3));
            over.store(true, Ordering::Release);
            found
        })
    });
    let expected =
        "the ranks work together no more: rank 1 did not come to all_reduce (sum) of 3 f32 within 0.3 s";
    assert_eq!(texts, [expected, expected]);
    // It is waited for otherwise.
    let sums = ranks(2, |all| {
        thread::sleep(Duration::from_millis(300 * all.rank() as u64));
        reduce(&all, 3)
    });
    assert!(sums.iter().all(Result::is_ok));
}

/// Ranks that wait for each other: an error, where there would be no end.
#[test]
fn ranks_that_wait_for_each_other() {
    let id = Id::new("127.0.0.1:0").unwrap();
    let results = in_time(|| {
        each(2, |rank| {
            let world = World::from_id(&id, rank, 2).unwrap().with_patience(Duration::from_millis(300));
            let all = Communicator::join(&world, &sim()).unwrap();
            let (mut x, on) = have(&all, 2);
            text(all.receive(&mut x, 1 - rank, &on))
        })
    });
    for found in results {
        assert!(
            found.contains("did not come to a message with 2 f32 from rank ")
                && found.ends_with(" within 0.3 s"),
            "{found}"
        );
    }
}
