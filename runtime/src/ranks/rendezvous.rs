//! Where ranks come together: a thread that waits for all of them, and tells each where the others are.
//!
//! Anybody may connect. Who says something else than a rank is turned away, who says nothing is forgotten, and neither keeps the ranks
//! from meeting. What ranks say that cannot be, such as one number twice, ends the meeting: all who came are told why.

use super::{
    MOST,
    text::{ranks as named, seconds},
    wire::{Answer, GLANCE, Hello, Met, Opened, envelope, is_late, open, prepare, write_until},
};
use std::{
    collections::BTreeMap,
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, Read},
    net::{IpAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Between two looks at the connections.
const PAUSE: Duration = Duration::from_millis(2);
/// How long a connection may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an answer may take to leave.
const ANSWER: Duration = Duration::from_secs(5);
/// Nobody waits for longer.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Connections that have not said who they are: the oldest goes.
const STRANGERS: usize = 2 * MOST;

/// What is expected.
pub(super) struct Rules {
    pub(super) job: String,
    /// How many ranks there are, where that is known; otherwise the first that comes says so.
    pub(super) ranks: Option<u32>,
    /// How long ranks are waited for where their number is known; otherwise each that comes says so.
    pub(super) timeout: Duration,
    /// Nobody who is still to come could matter.
    pub(super) abandoned: Arc<AtomicBool>,
}

/// Serves one meeting.
///
/// # Errors
/// The system's, where there is no thread or no such listener.
pub(super) fn serve(listener: TcpListener, rules: Rules) -> io::Result<JoinHandle<()>> {
    listener.set_nonblocking(true)?;
    thread::Builder::new().name("tilewright rendezvous".into()).spawn(move || {
        let now = Instant::now();
        let mut meeting = Meeting {
            deadline: rules.ranks.map(|_| now + rules.timeout.min(LONGEST)),
            waited: rules.timeout,
            ranks: rules.ranks,
            rules,
            strangers: Vec::new(),
            early: Vec::new(),
            present: BTreeMap::new(),
        };
        while !meeting.step(&listener) {
            thread::sleep(PAUSE);
        }
    })
}

/// A random number: what begins with it is no accident.
pub(super) fn random() -> u128 {
    let one = || u128::from(RandomState::new().build_hasher().finish());
    one() << 64 | one()
}

/// A connection that has not said who it is.
struct Stranger {
    stream: TcpStream,
    bytes: Vec<u8>,
    until: Instant,
}

/// A rank that has come.
struct Present {
    stream: TcpStream,
    hello: Hello,
    address: IpAddr,
}

fn answer(mut stream: &TcpStream, answer: &[u8]) {
    let until = Instant::now() + ANSWER;
    if stream.set_nonblocking(false).is_ok() {
        // Who is gone needs no answer.
        let _ = write_until(&mut stream, answer, || Instant::now() >= until);
    }
}

impl Present {
    fn is_gone(&self) -> bool {
        match self.stream.peek(&mut [0]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => !is_late(&error),
        }
    }
}

struct Meeting {
    rules: Rules,
    deadline: Option<Instant>,
    /// What the deadline was made of, for the message.
    waited: Duration,
    ranks: Option<u32>,
    strangers: Vec<Stranger>,
    /// Ranks that came before rank 0, where that is of this process: it is to hear what is wrong with them.
    early: Vec<(TcpStream, Hello)>,
    present: BTreeMap<u32, Present>,
}

impl Meeting {
    /// Looks at all connections; returns whether the meeting is over.
    fn step(&mut self, listener: &TcpListener) -> bool {
        self.welcome(listener);
        let mut said = std::mem::take(&mut self.early);
        let now = Instant::now();
        self.strangers.retain_mut(|stranger| match stranger.listen(now) {
            Heard::Nothing => true,
            Heard::Nonsense => false,
            Heard::Hello(hello) => {
                said.extend(stranger.stream.try_clone().ok().map(|stream| (stream, hello)));
                false
            }
        });
        // Rank 0 first.
        said.sort_by_key(|(_, hello)| hello.rank);
        for (stream, hello) in said {
            if self.rules.ranks.is_some() && hello.rank != 0 && !self.present.contains_key(&0) {
                self.early.push((stream, hello));
            } else if self.admit(stream, hello) {
                return true;
            }
        }
        self.present.retain(|_, rank| !rank.is_gone());
        if self.ranks.is_some_and(|ranks| self.present.len() == ranks as usize) {
            self.met();
            return true;
        }
        let nobody = self.present.is_empty() && self.early.is_empty();
        if (nobody || self.rules.ranks.is_some() && !self.present.contains_key(&0))
            && self.rules.abandoned.load(Ordering::Acquire)
        {
            return true;
        }
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            let ranks = self.ranks.unwrap_or(0);
            let missing = (0..ranks).filter(|rank| !self.present.contains_key(rank));
            let missing: Vec<usize> = missing.map(|rank| rank as usize).collect();
            let what = format!("{} of {ranks} did not come within {}", named(&missing), seconds(self.waited));
            return self.end(what, None);
        }
        false
    }

    fn welcome(&mut self, listener: &TcpListener) {
        // So many a look: whoever floods the port does not keep others from being heard.
        for _ in 0..64 {
            let Ok((stream, _)) = listener.accept() else { return };
            if prepare(&stream).and_then(|()| stream.set_nonblocking(true)).is_err() {
                continue;
            }
            if self.strangers.len() >= STRANGERS {
                self.strangers.remove(0);
            }
            let until = Instant::now() + PATIENCE;
            self.strangers.push(Stranger { stream, bytes: Vec::new(), until });
        }
    }

    /// Takes a rank; returns whether the meeting is over.
    fn admit(&mut self, stream: TcpStream, hello: Hello) -> bool {
        let (rank, ranks) = (hello.rank, hello.ranks);
        let Ok(address) = stream.peer_addr() else { return false };
        let new = Present { stream, hello, address: address.ip().to_canonical() };
        if new.hello.job != self.rules.job {
            let what = "what meets there is another job".into();
            answer(&new.stream, &envelope(&Answer::None { what }));
            return false;
        }
        // No rank says that.
        if rank >= ranks || ranks as usize > MOST {
            return false;
        }
        let expected = *self.ranks.get_or_insert(ranks);
        if ranks != expected {
            let other = self.present.keys().next().copied().unwrap_or(0);
            let what = format!(
                "rank {rank} says that there are {ranks} ranks, and rank {other} that there are {expected}"
            );
            return self.end(what, Some(new));
        }
        if let Some((other, _)) = self.present.iter().find(|(_, p)| p.hello.gpu != new.hello.gpu) {
            let (gpu, sim) = if new.hello.gpu { (rank, *other) } else { (*other, rank) };
            let what = format!("rank {gpu} has a GPU, and rank {sim} a simulator");
            return self.end(what, Some(new));
        }
        // One that is gone may come again.
        if self.present.get(&rank).is_some_and(|before| !before.is_gone()) {
            return self.end(format!("rank {rank} is there twice"), Some(new));
        }
        let now = Instant::now();
        // Each waits for as long as it said; after that its answer would find nobody.
        let left = new.hello.left.min(LONGEST);
        if self.deadline.is_none_or(|deadline| now + left < deadline) {
            (self.deadline, self.waited) = (Some(now + left), new.hello.timeout);
        }
        self.present.insert(rank, new);
        false
    }

    fn met(&self) {
        let places = self.present.values().map(|rank| (rank.address, rank.hello.port)).collect();
        let nccl = self.present.get(&0).map_or(Vec::new(), |rank| rank.hello.nccl.clone());
        self.tell(&Answer::All(Met { token: random(), places, nccl }), None);
    }

    /// There is no communicator.
    fn end(&self, what: String, last: Option<Present>) -> bool {
        self.tell(&Answer::None { what }, last.as_ref());
        true
    }

    /// Answers all. Rank 0 comes last: its process, which this is a thread of, may end then.
    fn tell(&self, said: &Answer, also: Option<&Present>) {
        let bytes = envelope(said);
        let others = self.early.iter().map(|(stream, _)| stream).chain(also.map(|rank| &rank.stream));
        others.chain(self.present.values().rev().map(|rank| &rank.stream)).for_each(|to| answer(to, &bytes));
    }
}

/// What a stranger has said.
enum Heard {
    Nothing,
    Nonsense,
    Hello(Hello),
}

impl Stranger {
    fn listen(&mut self, now: Instant) -> Heard {
        let mut room = [0; 1024];
        // Its stream does not block.
        loop {
            match self.stream.read(&mut room) {
                Ok(0) => return Heard::Nonsense,
                Ok(read) => self.bytes.extend_from_slice(&room[..read]),
                Err(error) if is_late(&error) => break,
                Err(_) => return Heard::Nonsense,
            }
            match open(&self.bytes) {
                Opened::Message(hello) => return Heard::Hello(hello),
                Opened::Nonsense => return Heard::Nonsense,
                Opened::More => {}
            }
        }
        if now >= self.until { Heard::Nonsense } else { Heard::Nothing }
    }
}

const _: () = assert!(GLANCE.as_millis() < ANSWER.as_millis());
