//! Meeting, and not meeting.

use super::{checks::everything, each, free_port, in_time, join, sim, text};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};
use tilewright::{Buffer, Communicator, Id, Stream};

const SHORT: Duration = Duration::from_millis(400);
const MEDIUM: Duration = Duration::from_secs(20);

/// The address in an id.
fn address(id: &Id) -> String {
    id.to_string().split('/').next().unwrap().to_string()
}

#[test]
fn missing_ranks_are_named() {
    let id = Id::new("127.0.0.1:0").unwrap();
    let at = address(&id);
    let texts = in_time(|| each(2, |n| text(join(&id, [0, 2][n], 4, SHORT))));
    let expected = format!("no rendezvous at {at}: ranks 1 and 3 of 4 did not come within 0.4 s");
    assert_eq!(texts, [expected.clone(), expected]);
    // The meeting is over: nobody listens any more.
    assert_eq!(
        text(join(&id, 1, 4, SHORT)),
        format!("no rendezvous at {at}: nobody listens there, in 0.4 s: is rank 0 there?")
    );
}

#[test]
fn a_late_rank_is_waited_for() {
    let id = Id::new("127.0.0.1:0").unwrap();
    let checks = each(3, |rank| {
        thread::sleep(Duration::from_millis(300 * rank as u64));
        everything(&join(&id, rank, 3, MEDIUM).unwrap()).unwrap()
    });
    assert!(checks.iter().all(|checks| *checks > 0));
}

#[test]
fn the_same_rank_twice() {
    let id = Id::new("127.0.0.1:0").unwrap();
    let texts = in_time(|| each(2, |_| text(join(&id, 1, 3, MEDIUM))));
    let expected = format!("no rendezvous at {}: rank 1 is there twice", address(&id));
    assert_eq!(texts, [expected.clone(), expected]);
}

#[test]
fn a_rank_that_is_gone_may_come_again() {
    let id = Id::new("127.0.0.1:0").unwrap();
    // It is there, and its process ends: a copy of what it says is sent, and the connection closed.
    let hello = said(1, 2);
    let hello = with_job(&hello, &id);
    for _ in 0..3 {
        let mut stream = TcpStream::connect(address(&id)).unwrap();
        stream.write_all(&hello).unwrap();
        thread::sleep(Duration::from_millis(50));
    }
    let both = each(2, |rank| join(&id, rank, 2, MEDIUM).map(|all| everything(&all).unwrap()));
    assert!(both.iter().all(|checks| checks.is_ok()), "{both:?}");
}

#[test]
fn different_numbers_of_ranks() {
    let id = Id::new("127.0.0.1:0").unwrap();
    let texts = in_time(|| {
        each(2, |rank| {
            thread::sleep(Duration::from_millis(300 * rank as u64));
            text(join(&id, rank, 2 + rank, MEDIUM))
        })
    });
    let expected = format!(
        "no rendezvous at {}: rank 1 says that there are 3 ranks, and rank 0 that there are 2",
        address(&id)
    );
    assert_eq!(texts, [expected.clone(), expected]);
}

#[test]
fn a_rank_of_another_job() {
    let id = Id::new("127.0.0.1:0").unwrap();
    let other: Id = format!("{}/{}", address(&id), "0".repeat(32)).parse().unwrap();
    assert_eq!(
        text(join(&other, 0, 2, MEDIUM)),
        format!("no rendezvous at {}: what meets there is another job", address(&id))
    );
    // The meeting goes on.
    each(2, |rank| join(&id, rank, 2, MEDIUM).unwrap());
}

#[test]
fn addresses_that_cannot_be() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    assert_eq!(text(Id::new(&at)), format!("no rendezvous at {at}: the port is taken"));
    assert_eq!(
        text(Id::new("127.0.0.1")),
        "no rendezvous at 127.0.0.1: an address is a host and a port, such as 127.0.0.1:0"
    );
    // TEST-NET-1: no machine has it.
    assert_eq!(
        text(Id::new("192.0.2.1:0")),
        "no rendezvous at 192.0.2.1:0: that is no address of this machine"
    );
    let nowhere = text(Id::new("no such host:1"));
    assert!(nowhere.starts_with("no rendezvous at no such host:1: the host has no address: "), "{nowhere}");
}

#[test]
fn a_master_that_is_none() {
    let job = "0123456789abcdef".repeat(2);
    // Nobody.
    let at = format!("127.0.0.1:{}", free_port());
    let id: Id = format!("{at}/{job}").parse().unwrap();
    assert_eq!(
        text(in_time(|| join(&id, 1, 2, SHORT))),
        format!("no rendezvous at {at}: nobody listens there, in 0.4 s: is rank 0 there?")
    );
    // Somebody else.
    for (answer, what) in [
        (&b"HTTP/1.1 400 Bad Request\r\n"[..], "what listens there is no rendezvous of ranks"),
        (b"", "the connection was closed without an answer, in 0.4 s: is rank 0 there?"),
        (b"tileRnk1\x03\0\0\0\xff\xff\xff", "what listens there is no rendezvous of ranks"),
        (b"tileRnk1\xff\xff\xff\xff", "what listens there is no rendezvous of ranks"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let id: Id = format!("{at}/{job}").parse().unwrap();
        let over = AtomicBool::new(false);
        listener.set_nonblocking(true).unwrap();
        let found = thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    let Ok((mut stream, _)) = listener.accept() else {
                        thread::sleep(Duration::from_millis(5));
                        continue;
                    };
                    stream.set_nonblocking(false).unwrap();
                    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
                    let _ = stream.read(&mut [0; 1024]);
                    let _ = stream.write_all(answer);
                }
            });
            let found = text(in_time(|| join(&id, 1, 2, SHORT)));
            over.store(true, Ordering::Release);
            found
        });
        assert_eq!(found, format!("no rendezvous at {at}: {what}"));
    }
    // Somebody who says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let id: Id = format!("{at}/{job}").parse().unwrap();
    assert_eq!(
        text(in_time(|| join(&id, 1, 2, SHORT))),
        format!("no rendezvous at {at}: what listens there does not answer")
    );
}

/// What a rank says first, heard by somebody else.
fn said(rank: usize, ranks: usize) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let id: Id = format!("{at}/{}", "f".repeat(32)).parse().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| drop(join(&id, rank, ranks, SHORT)));
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = vec![0; 4096];
        let read = stream.read(&mut bytes).unwrap();
        bytes.truncate(read);
        bytes
    })
}

/// The same for another job.
fn with_job(hello: &[u8], id: &Id) -> Vec<u8> {
    let job = id.to_string().split('/').nth(1).unwrap().to_string();
    let at = hello.windows(32).position(|window| window == [b'f'; 32]).unwrap();
    let mut hello = hello.to_vec();
    hello[at..at + 32].copy_from_slice(job.as_bytes());
    hello
}

struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % below
    }
}

/// Strangers talk to the rendezvous, and to the ranks themselves, while these meet: noise, halves of what a rank says, damaged copies
/// of it, connections that say nothing, that close at once, and that say a byte now and then.
#[test]
fn strangers_do_not_keep_ranks_from_meeting() {
    let hello = said(1, 3);
    for round in 0..12 {
        let id = Id::new("127.0.0.1:0").unwrap();
        let at = address(&id);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for stranger in 0..4 {
                let (at, hello, over) = (&at, &hello, &over);
                scope.spawn(move || {
                    let mut random = Random(round * 100 + stranger);
                    let mut open = Vec::new();
                    while !over.load(Ordering::Acquire) {
                        let Ok(mut stream) = TcpStream::connect(at) else { break };
                        stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
                        let kind = random.next(6);
                        let bytes = match kind {
                            0 => (0..random.next(5000)).map(|_| random.next(256) as u8).collect(),
                            1 => hello[..random.next(hello.len())].to_vec(),
                            2 => {
                                // Not in what it is of: a rank that cannot be told from one ends the meeting.
                                let mut bytes = hello.clone();
                                let at = random.next(12);
                                bytes[at] ^= 1 << random.next(8);
                                bytes
                            }
                            3 => b"tileRnk1\xff\xff\0\0".to_vec(),
                            _ => Vec::new(),
                        };
                        let _ = stream.write_all(&bytes);
                        if kind == 4 {
                            for byte in hello.iter().take(4) {
                                let _ = stream.write_all(&[*byte]);
                                thread::sleep(Duration::from_millis(1));
                            }
                        }
                        if random.next(2) == 0 && open.len() < 50 {
                            open.push(stream);
                        }
                        // More than the system keeps would be a flood, which connections get through by chance.
                        thread::sleep(Duration::from_millis(1));
                    }
                });
            }
            let checks = in_time(|| {
                each(3, |rank| {
                    thread::sleep(Duration::from_millis(40 * rank as u64));
                    join(&id, rank, 3, MEDIUM).map(|all| everything(&all).unwrap())
                })
            });
            over.store(true, Ordering::Release);
            assert!(checks.iter().all(Result::is_ok), "{checks:?}");
        });
    }
}

/// A rank that says who it is byte by byte.
#[test]
fn slow_ranks_are_understood() {
    let id = Id::new("127.0.0.1:0").unwrap();
    let hello = with_job(&said(1, 2), &id);
    let mut stream = TcpStream::connect(address(&id)).unwrap();
    for byte in hello {
        stream.write_all(&[byte]).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
    // It is taken for rank 1, and there is one.
    let found = text(in_time(|| join(&id, 1, 2, MEDIUM)));
    assert_eq!(found, format!("no rendezvous at {}: rank 1 is there twice", address(&id)));
}

/// Each meets, and one of them never connects to the others.
#[test]
fn a_rank_that_does_not_connect_is_named() {
    let id = Id::new("127.0.0.1:0").unwrap();
    let hello = with_job(&said(1, 2), &id);
    let mut stream = TcpStream::connect(address(&id)).unwrap();
    stream.write_all(&hello).unwrap();
    let found = text(in_time(|| join(&id, 0, 2, SHORT)));
    assert_eq!(found, format!("no rendezvous at {}: no connection to rank 1 within 0.4 s", address(&id)));
}

#[test]
fn one_rank_needs_no_other() {
    let id: Id = format!("192.0.2.1:9/{}", "0".repeat(32)).parse().unwrap();
    let all = Communicator::from_id(&id, 0, 1, &sim()).unwrap();
    assert!(everything(&all).unwrap() > 300);
}

#[test]
fn addresses_of_sixteen_bytes() {
    let Ok(id) = Id::new("[::1]:0") else {
        eprintln!("skipped: this machine has no IPv6");
        return;
    };
    let text = id.to_string();
    assert!(text.starts_with("[::1]:"), "{text}");
    let read: Id = text.parse().unwrap();
    let both = each(2, |rank| everything(&join(&read, rank, 2, MEDIUM).unwrap()).unwrap());
    assert!(both.iter().all(|checks| *checks > 300));
}

#[test]
fn many_ranks_meet() {
    let id = Id::new("localhost:0").unwrap();
    let sums = each(24, |rank| {
        let all = join(&id, rank, 24, MEDIUM).unwrap();
        let device = &all.devices()[0];
        let mut x = Buffer::from_slice(device, &[rank as i32], &[1]).unwrap();
        all.all_reduce(&mut [&mut x], &[Stream::new(device).unwrap()]).unwrap();
        x.to_vec().unwrap()[0]
    });
    assert_eq!(sums, [276; 24]);
}
