//! What ranks say to each other before they are connected: one message in an envelope.
//!
//! An envelope is eight bytes that say whose it is and of which version, four that say how long the message is, and the message.
//! Whoever reads one may be talked to by anybody: what is no envelope is told at the first byte that is wrong.

use super::MOST;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    io::{self, Read, Write},
    net::{IpAddr, TcpStream},
    time::{Duration, Instant},
};

/// Whose envelope it is; the last byte is the version.
const MAGIC: [u8; 8] = *b"tileRnk1";
const HEAD: usize = MAGIC.len() + 4;
/// Bytes of a message: enough for where all ranks are.
const LONGEST: usize = 64 * MOST;

/// How long one call of the system may take, so that whoever waits can look up.
pub(super) const GLANCE: Duration = Duration::from_millis(100);

/// What a rank says when it comes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// What has to be the same for all of a communicator.
    pub(super) job: String,
    pub(super) rank: u32,
    pub(super) ranks: u32,
    pub(super) gpu: bool,
    /// Where it listens for the others.
    pub(super) port: u16,
    /// How long it waits in all, and from now on.
    pub(super) timeout: Duration,
    pub(super) left: Duration,
    /// NCCL's id, from rank 0 of GPUs.
    pub(super) nccl: Vec<u8>,
}

/// What it is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Answer {
    All(Met),
    /// There is no communicator.
    None {
        what: String,
    },
}

/// All ranks are there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Met {
    /// What a connection between two of them has to show.
    pub(super) token: u128,
    /// Where each listens, by rank.
    pub(super) places: Vec<(IpAddr, u16)>,
    pub(super) nccl: Vec<u8>,
}

/// What a rank says when it connects to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Caller {
    pub(super) token: u128,
    pub(super) rank: u32,
}

/// What some bytes are.
#[derive(Debug, PartialEq)]
pub(super) enum Opened<T> {
    /// The beginning of an envelope.
    More,
    /// No envelope, or nothing that can be understood.
    Nonsense,
    Message(T),
}

pub(super) fn envelope<T: Serialize>(message: &T) -> Vec<u8> {
    let message = postcard::to_allocvec(message).unwrap_or_default();
    let mut bytes = MAGIC.to_vec();
    bytes.extend((message.len() as u32).to_le_bytes());
    bytes.extend(message);
    bytes
}

/// Reads what has come so far. Bytes behind the message are nonsense: nobody says more before there is an answer.
pub(super) fn open<T: DeserializeOwned>(bytes: &[u8]) -> Opened<T> {
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] {
        return Opened::Nonsense;
    }
    let Some(length) = bytes.get(MAGIC.len()..HEAD).and_then(|l| l.try_into().ok()).map(u32::from_le_bytes)
    else {
        return Opened::More;
    };
    let length = length as usize;
    if length > LONGEST || bytes.len() - HEAD > length {
        return Opened::Nonsense;
    }
    if bytes.len() - HEAD < length {
        return Opened::More;
    }
    match postcard::take_from_bytes(&bytes[HEAD..]) {
        Ok((message, [])) => Opened::Message(message),
        _ => Opened::Nonsense,
    }
}

/// Whether an error says no more than that nothing came in time.
pub(super) fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// Writes all bytes to a stream whose writes end after [`GLANCE`], unless `stop` says that there is no use.
///
/// # Errors
/// The system's; [`io::ErrorKind::TimedOut`] where it was stopped.
pub(super) fn write_until(
    stream: &mut &TcpStream,
    mut bytes: &[u8],
    mut stop: impl FnMut() -> bool,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if is_late(&error) => {}
            Err(error) => return Err(error),
        }
        if !bytes.is_empty() && stop() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

/// How a message was waited for in vain.
#[derive(Debug)]
pub(super) enum Missed {
    Late,
    Closed,
    Nonsense,
}

/// Reads one message.
pub(super) fn read_message<T: DeserializeOwned>(
    stream: &mut &TcpStream,
    deadline: Instant,
) -> Result<T, Missed> {
    let (mut bytes, mut room) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut room) {
            Ok(0) => return Err(Missed::Closed),
            Ok(read) => {
                bytes.extend_from_slice(&room[..read]);
                match open(&bytes) {
                    Opened::Message(message) => return Ok(message),
                    Opened::Nonsense => return Err(Missed::Nonsense),
                    Opened::More => {}
                }
            }
            Err(error) if is_late(&error) => {}
            Err(_) => return Err(Missed::Closed),
        }
        if Instant::now() >= deadline {
            return Err(Missed::Late);
        }
    }
}

/// Makes a stream's calls end after [`GLANCE`], and small messages leave at once.
///
/// # Errors
/// The system's.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(GLANCE))?;
    stream.set_write_timeout(Some(GLANCE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        let (timeout, left) = (Duration::from_secs(60), Duration::from_millis(9));
        Hello { job: "j".into(), rank: 1, ranks: 3, gpu: true, port: 7, timeout, left, nccl: vec![1; 128] }
    }

    #[test]
    fn an_envelope_is_read_at_its_last_byte() {
        let bytes = envelope(&hello());
        for n in 0..bytes.len() {
            assert_eq!(open::<Hello>(&bytes[..n]), Opened::More, "{n}");
        }
        assert_eq!(open(&bytes), Opened::Message(hello()));
        assert_eq!(open::<Hello>(&[&bytes[..], &[0]].concat()), Opened::Nonsense);
    }

    #[test]
    fn damage_is_no_message_and_no_panic() {
        let bytes = envelope(&hello());
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize
        };
        for _ in 0..20_000 {
            let mut damaged = bytes.clone();
            for _ in 0..=random() % 3 {
                let at = random() % damaged.len();
                damaged[at] = random() as u8;
            }
            damaged.truncate(1 + random() % damaged.len());
            let _ = (open::<Hello>(&damaged), open::<Answer>(&damaged), open::<Caller>(&damaged));
        }
        assert_eq!(open::<Hello>(b"GET / HTTP/1.1\r\n"), Opened::Nonsense);
        assert_eq!(open::<Hello>(b"t\0"), Opened::Nonsense);
        assert_eq!(open::<Hello>(&[&MAGIC[..], &[255; 4]].concat()), Opened::Nonsense);
    }

    #[test]
    fn all_ranks_have_room() {
        let place = (IpAddr::from([255u8; 16]), u16::MAX);
        let met = Met { token: u128::MAX, places: vec![place; MOST], nccl: vec![255; 128] };
        assert!(
            matches!(open(&envelope(&Answer::All(met.clone()))), Opened::Message(Answer::All(m)) if m == met)
        );
    }
}
