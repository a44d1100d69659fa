//! A rendezvous whose place the user carries.

use super::{
    meet::{addresses, place},
    rendezvous::{self, Rules},
};
use crate::error::Error;
use std::{
    fmt,
    net::TcpListener,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Names a communicator that is to be, for programs that carry it to their processes themselves: by MPI, a file, an argument.
///
/// One process makes it, and serves the rendezvous from then on; the others have it as text. It is good for one communicator. The
/// process that made it keeps it, or a clone, until its ranks have met.
///
/// ```
/// # use tile_runtime::{Buffer, Communicator, Device, Error, Id, Stream};
/// # fn main() -> Result<(), Error> {
/// let id = Id::new("127.0.0.1:0")?;
/// let text = id.to_string();
/// let other = std::thread::spawn(move || -> Result<Vec<f32>, Error> {
///     let device = Device::sim();
///     let all = Communicator::from_id(&text.parse()?, 1, 2, &device)?;
///     let mut y = Buffer::from_slice(&device, &[10.0f32, 20.0], &[2])?;
///     all.all_reduce(&mut [&mut y], &[Stream::new(&device)?])?;
///     y.to_vec()
/// });
/// let device = Device::sim();
/// let all = Communicator::from_id(&id, 0, 2, &device)?;
/// let mut x = Buffer::from_slice(&device, &[1.0f32, 2.0], &[2])?;
/// all.all_reduce(&mut [&mut x], &[Stream::new(&device)?])?;
/// assert_eq!((x.to_vec()?, other.join().unwrap()?), (vec![11.0, 22.0], vec![11.0, 22.0]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Id {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) job: String,
    /// Where the rendezvous is served.
    _keeper: Option<Arc<Keeper>>,
}

/// Ends a rendezvous that nobody has come to.
#[derive(Debug)]
struct Keeper(Arc<AtomicBool>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Id {
    /// A new one, served by this process at an address by which the others reach it: `127.0.0.1:0`, or `node7:0` for those on other
    /// machines. Port 0 is any that is free.
    ///
    /// # Errors
    /// [`Error::Rendezvous`] for what is no address of this machine, or a port that is taken.
    pub fn new(address: &str) -> Result<Self, Error> {
        let wrong = |what: String| Error::Rendezvous { at: address.into(), what };
        let (host, port) = split(address).ok_or_else(|| wrong(WRITTEN.into()))?;
        let listener = listen(host, port, &addresses(host, port)?, false)?;
        let port = listener.local_addr().map_err(|e| wrong(e.to_string()))?.port();
        let job = format!("{:032x}", rendezvous::random());
        let abandoned = Arc::new(AtomicBool::new(false));
        let rules =
            Rules { job: job.clone(), ranks: None, timeout: Duration::ZERO, abandoned: abandoned.clone() };
        rendezvous::serve(listener, rules).map_err(|e| wrong(e.to_string()))?;
        Ok(Id { host: host.into(), port, job, _keeper: Some(Arc::new(Keeper(abandoned))) })
    }
}

const WRITTEN: &str = "an address is a host and a port, such as 127.0.0.1:0";

/// Host and port.
fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    Some((host, port.parse().ok()?)).filter(|(host, _)| !host.is_empty())
}

/// Listens at one of a host's addresses; `any`: at all of this machine, where the host is not this machine alone.
///
/// # Errors
/// [`Error::Rendezvous`].
pub(super) fn listen(
    host: &str,
    port: u16,
    addresses: &[std::net::SocketAddr],
    any: bool,
) -> Result<TcpListener, Error> {
    let local = addresses.iter().find(|address| address.ip().is_loopback());
    let unspecified = addresses.iter().map(|address| match address.is_ipv4() {
        true => (std::net::Ipv4Addr::UNSPECIFIED, port).into(),
        false => (std::net::Ipv6Addr::UNSPECIFIED, port).into(),
    });
    let all: Vec<std::net::SocketAddr> = match local {
        Some(local) => vec![*local],
        None if any => unspecified.collect(),
        None => addresses.to_vec(),
    };
    TcpListener::bind(&all[..]).map_err(|error| {
        let what = match error.kind() {
            std::io::ErrorKind::AddrInUse => "the port is taken".into(),
            std::io::ErrorKind::AddrNotAvailable => "that is no address of this machine".into(),
            _ => format!("nothing can listen there: {error}"),
        };
        Error::Rendezvous { at: place(host, port), what }
    })
}

/// `127.0.0.1:40123/0f..`, as [`Id::from_str`] reads it.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", place(&self.host, self.port), self.job)
    }
}

impl FromStr for Id {
    type Err = Error;

    /// # Errors
    /// [`Error::Rendezvous`] for what no [`Id`] was written as.
    fn from_str(text: &str) -> Result<Self, Error> {
        let read = || {
            let (address, job) = text.trim().rsplit_once('/')?;
            let (host, port) = split(address)?;
            let hex = job.len() == 32 && job.bytes().all(|byte| byte.is_ascii_hexdigit());
            hex.then(|| Id { host: host.into(), port, job: job.into(), _keeper: None })
        };
        read().ok_or_else(|| Error::Rendezvous {
            at: text.chars().take(100).collect(),
            what: "that is no id: write what `Id` prints".into(),
        })
    }
}
