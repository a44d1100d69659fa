//! Coming to a rendezvous.

use super::wire::{Answer, GLANCE, Hello, Met, Missed, envelope, prepare, read_message, write_until};
use crate::error::Error;
use std::{
    io::ErrorKind,
    net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs},
    thread,
    time::{Duration, Instant},
};

/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_secs(2);
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(50);
/// How much longer than the rendezvous a rank waits: the answer says more than that there is none.
const GRACE: Duration = Duration::from_secs(3);

/// The addresses of a host.
///
/// # Errors
/// [`Error::Rendezvous`].
pub(super) fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
    let at = place(host, port);
    let none =
        |why: String| Error::Rendezvous { at: at.clone(), what: format!("the host has no address: {why}") };
    // In brackets, as IPv6 is written before a port.
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let found: Vec<SocketAddr> = (bare, port).to_socket_addrs().map_err(|e| none(e.to_string()))?.collect();
    if found.is_empty() { Err(none("none was found".into())) } else { Ok(found) }
}

/// `127.0.0.1:29500`.
pub(super) fn place(host: &str, port: u16) -> String {
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// Waits for the others at a rendezvous, which may be opened later. Returns what it said and who this process is there.
///
/// # Errors
/// [`Error::Rendezvous`].
pub(super) fn meet(
    at: &str,
    addresses: &[SocketAddr],
    timeout: Duration,
    hello: impl Fn(IpAddr, Duration) -> Result<Hello, Error>,
) -> Result<Met, Error> {
    let failed = |what: String| Err(Error::Rendezvous { at: at.into(), what });
    let deadline = Instant::now() + timeout;
    loop {
        let mut why = String::new();
        for address in addresses {
            let left = deadline.saturating_duration_since(Instant::now()).max(GLANCE);
            let stream = match TcpStream::connect_timeout(address, left.min(ATTEMPT)) {
                Ok(stream) => stream,
                Err(error) => {
                    why = match error.kind() {
                        ErrorKind::ConnectionRefused => "nobody listens there".into(),
                        ErrorKind::TimedOut | ErrorKind::WouldBlock => "nobody answers there".into(),
                        _ => error.to_string(),
                    };
                    continue;
                }
            };
            let Ok(own) = stream.local_addr().and_then(|own| prepare(&stream).map(|()| own)) else {
                continue;
            };
            // A port that nobody listens on may be given to the connection itself.
            if stream.peer_addr().is_ok_and(|peer| peer == own) {
                why = "nobody listens there".into();
                continue;
            }
            let late = || Instant::now() >= deadline + GRACE;
            let left = deadline.saturating_duration_since(Instant::now());
            let hello = envelope(&hello(own.ip().to_canonical(), left)?);
            if write_until(&mut &stream, &hello, late).is_err() {
                why = "the connection was closed without an answer".into();
                continue;
            }
            match read_message(&mut &stream, deadline + GRACE) {
                Ok(Answer::All(met)) => return Ok(met),
                Ok(Answer::None { what }) => return failed(what),
                Err(Missed::Nonsense) => {
                    return failed("what listens there is no rendezvous of ranks".into());
                }
                Err(Missed::Late) => return failed("what listens there does not answer".into()),
                Err(Missed::Closed) => why = "the connection was closed without an answer".into(),
            }
        }
        if Instant::now() >= deadline {
            return failed(format!("{why}, in {}: is rank 0 there?", super::text::seconds(timeout)));
        }
        thread::sleep(PAUSE.min(deadline.saturating_duration_since(Instant::now())));
    }
}
