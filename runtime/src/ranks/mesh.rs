//! A connection between every two ranks.

use super::{
    MOST,
    text::{ranks as named, seconds},
    wire::{Caller, GLANCE, Met, Opened, envelope, is_late, open, prepare, write_until},
};
use crate::error::Error;
use std::{
    io::Read,
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);
/// How long a connection may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_secs(2);
/// Connections that have not said who they are: the oldest goes.
const STRANGERS: usize = 2 * MOST;

/// Connects a rank to all others: it calls those before it, and is called by those behind it.
///
/// # Errors
/// [`Error::Rendezvous`], with the ranks that are missing.
pub(super) fn connect(
    at: &str,
    rank: usize,
    met: &Met,
    listener: &TcpListener,
    timeout: Duration,
) -> Result<Vec<Option<TcpStream>>, Error> {
    let deadline = Instant::now() + timeout;
    let count = met.places.len();
    let mut streams: Vec<Option<TcpStream>> = (0..count).map(|_| None).collect();
    let missing = |streams: &[Option<TcpStream>]| {
        let missing: Vec<usize> = (0..count).filter(|r| *r != rank && streams[*r].is_none()).collect();
        let what = format!("no connection to {} within {}", named(&missing), seconds(timeout));
        Error::Rendezvous { at: at.into(), what }
    };
    let hello = envelope(&Caller { token: met.token, rank: rank as u32 });
    for other in 0..rank {
        let address = SocketAddr::from(met.places[other]);
        while streams[other].is_none() {
            let left = deadline.saturating_duration_since(Instant::now()).max(GLANCE);
            let stream = TcpStream::connect_timeout(&address, left.min(ATTEMPT));
            let said = stream.and_then(|stream| {
                prepare(&stream)?;
                write_until(&mut &stream, &hello, || Instant::now() >= deadline)?;
                Ok(stream)
            });
            streams[other] = said.ok();
            if streams[other].is_none() {
                if Instant::now() >= deadline {
                    return Err(missing(&streams));
                }
                thread::sleep(GLANCE);
            }
        }
    }
    let broken = |e: std::io::Error| Error::Rendezvous { at: at.into(), what: e.to_string() };
    listener.set_nonblocking(true).map_err(broken)?;
    let mut callers: Vec<(TcpStream, Vec<u8>, Instant)> = Vec::new();
    while streams[rank + 1..].iter().any(Option::is_none) {
        let now = Instant::now();
        if now >= deadline {
            return Err(missing(&streams));
        }
        // So many a look, as at a rendezvous.
        for _ in 0..64 {
            let Ok((stream, _)) = listener.accept() else { break };
            if callers.len() >= STRANGERS {
                callers.remove(0);
            }
            if prepare(&stream).and_then(|()| stream.set_nonblocking(true)).is_ok() {
                callers.push((stream, Vec::new(), now + PATIENCE));
            }
        }
        let waiting = std::mem::take(&mut callers);
        for (stream, mut bytes, until) in waiting {
            match caller(&stream, &mut bytes) {
                Opened::More if now < until => callers.push((stream, bytes, until)),
                Opened::Message(Caller { token, rank: other }) if token == met.token => {
                    let other = other as usize;
                    // Those before this one are called, not awaited; a second call of one is none of ours.
                    let expected = other > rank && other < count && streams[other].is_none();
                    if expected && prepare(&stream).is_ok() {
                        streams[other] = Some(stream);
                    }
                }
                _ => {}
            }
        }
        thread::sleep(PAUSE);
    }
    Ok(streams)
}

/// What a caller has said. No byte behind it is taken: those belong to the connection.
fn caller(stream: &TcpStream, bytes: &mut Vec<u8>) -> Opened<Caller> {
    let mut stream = stream;
    loop {
        match open(bytes) {
            Opened::More => {}
            said => return said,
        }
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(0) => return Opened::Nonsense,
            Ok(_) => bytes.extend(byte),
            Err(error) if is_late(&error) => return Opened::More,
            Err(_) => return Opened::Nonsense,
        }
    }
}
