//! Who a process is among others.

use super::{
    Id, Links, MOST,
    id::listen,
    meet::{addresses, meet, place},
    mesh,
    rendezvous::{self, Rules},
    wire::Hello,
};
use crate::{device::Device, error::Error};
use std::{
    cell::RefCell,
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// How long ranks wait for each other to come, and how long nothing need be heard of one.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a simulated rank may take to come to a call.
const PATIENCE: Duration = Duration::from_secs(600);

/// A rank is not taken for gone sooner.
const SILENCE: Duration = Duration::from_secs(1);
/// Nobody waits for longer: a day.
const LONGEST: Duration = Duration::from_secs(86_400);

/// Who this process is among those that work together: what [`Communicator::join`](crate::Communicator::join) needs.
///
/// Processes have a rank each, a number from 0 on. Those of one machine have a local rank, which is the ordinal of their GPU.
#[derive(Clone, Debug)]
pub struct World {
    rank: usize,
    ranks: usize,
    local_rank: usize,
    timeout: Duration,
    patience: Duration,
    #[cfg_attr(not(feature = "nccl"), allow(dead_code, reason = "only NCCL has them"))]
    ctas: Option<u32>,
    meeting: Meeting,
}

#[derive(Clone, Debug)]
enum Meeting {
    /// Rank 0 serves it.
    Master { host: String, port: u16, job: String },
    /// Who made it serves it.
    At(Id),
}

/// What came of a rendezvous.
pub(crate) struct Joined {
    /// None where there is one rank.
    pub(crate) links: Option<Links>,
    /// NCCL's id.
    #[cfg_attr(not(feature = "nccl"), allow(dead_code, reason = "only GPUs have one"))]
    pub(crate) nccl: Vec<u8>,
}

impl World {
    /// What torchrun says in `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `MASTER_ADDR` and `MASTER_PORT`.
    ///
    /// `TILEWRIGHT_PORT` is another port than `MASTER_PORT` for the rendezvous, and `TILEWRIGHT_TIMEOUT` the seconds of
    /// [`World::with_timeout`]. Where torchrun listens at `MASTER_PORT` itself (`TORCHELASTIC_USE_AGENT_STORE` is `True`), the
    /// rendezvous is at the port behind it.
    ///
    /// # Errors
    /// [`Error::Variable`] for one that is missing or cannot be.
    pub fn from_env() -> Result<Self, Error> {
        Self::from_variables(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let wrong = |name: &str, what: String| Error::Variable { name: name.into(), what };
        let needed = |name: &str| match get(name) {
            Some(value) if !value.trim().is_empty() => Ok(value.trim().to_string()),
            _ => Err(wrong(name, "is not set: torchrun sets it".into())),
        };
        let number = |name: &str, range: std::ops::RangeInclusive<usize>| {
            let value = needed(name)?;
            let number = value.parse().ok().filter(|number| range.contains(number));
            number.ok_or_else(|| {
                let (first, last) = (range.start(), range.end());
                wrong(name, format!("is `{value}`, and no number from {first} to {last}"))
            })
        };
        let ranks = number("WORLD_SIZE", 1..=MOST)?;
        let rank = number("RANK", 0..=ranks - 1)?;
        let local_rank = number("LOCAL_RANK", 0..=ranks - 1)?;
        let host = needed("MASTER_ADDR")?;
        let port = number("MASTER_PORT", 1..=usize::from(u16::MAX))? as u16;
        let port = match get("TILEWRIGHT_PORT") {
            Some(_) => number("TILEWRIGHT_PORT", 1..=usize::from(u16::MAX))? as u16,
            None if get("TORCHELASTIC_USE_AGENT_STORE").as_deref() == Some("True") => {
                let none = || wrong("MASTER_PORT", "has no port behind it: set TILEWRIGHT_PORT".into());
                port.checked_add(1).ok_or_else(none)?
            }
            None => port,
        };
        let run = |name| get(name).unwrap_or_default();
        let job = format!("{} {}", run("TORCHELASTIC_RUN_ID"), run("TORCHELASTIC_RESTART_COUNT"));
        let job = job.chars().take(256).collect();
        let timeout = match get("TILEWRIGHT_TIMEOUT") {
            None => TIMEOUT,
            Some(value) => {
                let time = value.trim().parse().ok().filter(|s| (0.001..=86_400.0).contains(s));
                time.map(Duration::from_secs_f64).ok_or_else(|| {
                    let what = format!("is `{value}`, and no number of seconds from 0.001 to 86400");
                    wrong("TILEWRIGHT_TIMEOUT", what)
                })?
            }
        };
        let meeting = Meeting::Master { host, port, job };
        Ok(World { rank, ranks, local_rank, timeout, patience: PATIENCE, ctas: None, meeting })
    }

    /// One of so many ranks, which meet where an id says. Its local rank is its rank.
    ///
    /// # Errors
    /// [`Error::Collective`] for a rank that is none of them, or for more than 1024.
    pub fn from_id(id: &Id, rank: usize, ranks: usize) -> Result<Self, Error> {
        if rank >= ranks || ranks > MOST {
            let what =
                format!("rank {rank} of {ranks}: ranks are numbered from 0 on, and there are at most {MOST}");
            return Err(Error::Collective { what });
        }
        let meeting = Meeting::At(id.clone());
        let (timeout, patience) = (TIMEOUT, PATIENCE);
        Ok(World { rank, ranks, local_rank: rank, timeout, patience, ctas: None, meeting })
    }

    /// How long ranks wait for each other to come: 60 s unless this is called, and at most a day. A rank of which nothing is heard for so
    /// long, and for a second at least, is taken for gone. An end of a process is noticed at once.
    pub fn with_timeout(self, timeout: Duration) -> Self {
        World { timeout: timeout.clamp(Duration::from_millis(1), LONGEST), ..self }
    }

    /// How long a simulated rank may take to come to a call that the others wait in: 600 s unless this is called, and at most a day. GPUs
    /// wait for as long as the rank is there.
    pub fn with_patience(self, patience: Duration) -> Self {
        World { patience: patience.min(LONGEST), ..self }
    }

    /// The most CTAs that NCCL's kernels take on a GPU; as NCCL thinks best unless this is called. With as many multiprocessors that
    /// kernels leave alone ([`Stream::leaving`](crate::Stream::leaving)), collectives run beside them. Nothing changes on simulators.
    pub fn with_ctas(self, most: u32) -> Self {
        World { ctas: Some(most.max(1)), ..self }
    }

    /// What [`World::with_ctas`] says.
    #[cfg_attr(not(feature = "nccl"), allow(dead_code, reason = "only NCCL has them"))]
    pub(crate) fn ctas(&self) -> Option<u32> {
        self.ctas
    }

    /// This process's number.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many there are.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Its number among those of its machine.
    pub fn local_rank(&self) -> usize {
        self.local_rank
    }

    /// How long ranks wait for each other to come.
    #[cfg_attr(not(feature = "nccl"), allow(dead_code, reason = "NCCL has to come up in it"))]
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The GPU whose ordinal is the local rank; the simulator where there is no driver or no GPU at all.
    ///
    /// # Errors
    /// [`Error::NoDevice`] where there are GPUs, but fewer; the driver's.
    pub fn device(&self) -> Result<Device, Error> {
        match Device::cuda(self.local_rank) {
            Err(Error::NoDriver | Error::NoDevice { count: 0, .. }) => Ok(Device::sim()),
            other => other,
        }
    }

    /// Meets the others. `nccl` is asked for the id that all are to have where this is rank 0.
    ///
    /// # Errors
    /// [`Error::Rendezvous`]; those of `nccl`.
    pub(crate) fn meet(&self, gpu: bool, nccl: impl Fn() -> Result<Vec<u8>, Error>) -> Result<Joined, Error> {
        if self.ranks == 1 {
            return Ok(Joined { links: None, nccl: Vec::new() });
        }
        let (host, port, job) = match &self.meeting {
            Meeting::Master { host, port, job } => (host, *port, job),
            Meeting::At(id) => (&id.host, id.port, &id.job),
        };
        let at = place(host, port);
        let failed = |what: String| Error::Rendezvous { at: at.clone(), what };
        let nccl = if self.rank == 0 { nccl()? } else { Vec::new() };
        let mut addresses = addresses(host, port)?;
        // One place for `localhost`, which has two.
        let local = |v4| move |a: &&std::net::SocketAddr| a.ip().is_loopback() && a.is_ipv4() == v4;
        if let Some(one) = addresses.iter().find(local(true)).or(addresses.iter().find(local(false))) {
            addresses = vec![*one];
        }
        let abandoned = Arc::new(AtomicBool::new(false));
        let mut service = None;
        if self.rank == 0 && matches!(self.meeting, Meeting::Master { .. }) {
            let listener = listen(host, port, &addresses, true)?;
            let rules = Rules {
                job: job.clone(),
                ranks: Some(self.ranks as u32),
                timeout: self.timeout,
                abandoned: abandoned.clone(),
            };
            service = Some(rendezvous::serve(listener, rules).map_err(|e| failed(e.to_string()))?);
        }
        let listener: RefCell<Option<(std::net::IpAddr, TcpListener)>> = RefCell::new(None);
        let hello = |own, left| {
            let mut listener = listener.borrow_mut();
            let known = listener.take().filter(|(address, _)| *address == own);
            let (_, open) = listener.insert(match known {
                Some(known) => known,
                None => (own, TcpListener::bind((own, 0)).map_err(|e| failed(e.to_string()))?),
            });
            let port = open.local_addr().map_err(|e| failed(e.to_string()))?.port();
            let (rank, ranks) = (self.rank as u32, self.ranks as u32);
            let (job, nccl) = (job.clone(), nccl.clone());
            Ok(Hello { job, rank, ranks, gpu, port, timeout: self.timeout, left, nccl })
        };
        let met = meet(&at, &addresses, self.timeout, hello);
        abandoned.store(true, Ordering::Release);
        let met = match (met, service) {
            // Its thread answers this rank last.
            (Ok(met), Some(service)) => {
                let _ = service.join();
                met
            }
            (met, _) => met?,
        };
        let listener = listener.into_inner().map(|(_, listener)| listener);
        let Some(listener) = listener.filter(|_| met.places.len() == self.ranks) else {
            let what = format!("{} ranks met, and not {}", met.places.len(), self.ranks);
            return Err(failed(what));
        };
        let streams = mesh::connect(&at, self.rank, &met, &listener, self.timeout)?;
        let links = Links::new(self.rank, streams, self.timeout.max(SILENCE), self.patience);
        let links = links.map_err(|e| failed(format!("no threads for the connections: {e}")))?;
        Ok(Joined { links: Some(links), nccl: met.nccl })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(change: &[(&str, Option<&str>)]) -> Result<World, Error> {
        World::from_variables(|name| match change.iter().find(|(n, _)| *n == name) {
            Some((_, value)) => value.map(String::from),
            None => match name {
                "RANK" => Some("2".into()),
                "WORLD_SIZE" => Some("4".into()),
                "LOCAL_RANK" => Some("1".into()),
                "MASTER_ADDR" => Some("10.0.0.1".into()),
                "MASTER_PORT" => Some("29500".into()),
                _ => None,
            },
        })
    }

    fn port(world: World) -> u16 {
        match world.meeting {
            Meeting::Master { port, .. } => port,
            Meeting::At(id) => id.port,
        }
    }

    #[test]
    fn variables_are_those_of_torchrun() {
        let found = world(&[]).unwrap();
        assert_eq!((found.rank(), found.ranks(), found.local_rank(), found.timeout), (2, 4, 1, TIMEOUT));
        assert_eq!(port(found), 29500);
        assert_eq!(
            world(&[("TILEWRIGHT_TIMEOUT", Some("1.5"))]).unwrap().timeout,
            Duration::from_millis(1500)
        );
        assert_eq!(port(world(&[("TORCHELASTIC_USE_AGENT_STORE", Some("True"))]).unwrap()), 29501);
        assert_eq!(port(world(&[("TILEWRIGHT_PORT", Some("77"))]).unwrap()), 77);
        assert_eq!(world(&[("RANK", Some(" 3 "))]).unwrap().rank(), 3);
    }

    #[test]
    fn variables_that_cannot_be_are_named() {
        for (name, value, text) in [
            ("RANK", None, "RANK is not set: torchrun sets it"),
            ("WORLD_SIZE", Some(""), "WORLD_SIZE is not set: torchrun sets it"),
            ("LOCAL_RANK", None, "LOCAL_RANK is not set: torchrun sets it"),
            ("MASTER_ADDR", None, "MASTER_ADDR is not set: torchrun sets it"),
            ("MASTER_PORT", None, "MASTER_PORT is not set: torchrun sets it"),
            ("RANK", Some("two"), "RANK is `two`, and no number from 0 to 3"),
            ("RANK", Some("-1"), "RANK is `-1`, and no number from 0 to 3"),
            ("RANK", Some("4"), "RANK is `4`, and no number from 0 to 3"),
            ("WORLD_SIZE", Some("0"), "WORLD_SIZE is `0`, and no number from 1 to 1024"),
            (
                "WORLD_SIZE",
                Some("99999999999999999999"),
                "WORLD_SIZE is `99999999999999999999`, and no number from 1 to 1024",
            ),
            ("LOCAL_RANK", Some("9"), "LOCAL_RANK is `9`, and no number from 0 to 3"),
            ("MASTER_PORT", Some("65536"), "MASTER_PORT is `65536`, and no number from 1 to 65535"),
            ("TILEWRIGHT_PORT", Some("x"), "TILEWRIGHT_PORT is `x`, and no number from 1 to 65535"),
            (
                "TILEWRIGHT_TIMEOUT",
                Some("nan"),
                "TILEWRIGHT_TIMEOUT is `nan`, and no number of seconds from 0.001 to 86400",
            ),
            (
                "TILEWRIGHT_TIMEOUT",
                Some("0"),
                "TILEWRIGHT_TIMEOUT is `0`, and no number of seconds from 0.001 to 86400",
            ),
        ] {
            assert_eq!(world(&[(name, value)]).unwrap_err().to_string(), text);
        }
        let last = [("MASTER_PORT", Some("65535")), ("TORCHELASTIC_USE_AGENT_STORE", Some("True"))];
        assert_eq!(
            world(&last).unwrap_err().to_string(),
            "MASTER_PORT has no port behind it: set TILEWRIGHT_PORT"
        );
    }

    #[test]
    fn ranks_are_numbered_from_0_on() {
        let id: Id = "127.0.0.1:1/0123456789abcdef0123456789abcdef".parse().unwrap();
        assert_eq!(id.to_string(), "127.0.0.1:1/0123456789abcdef0123456789abcdef");
        for (rank, ranks) in [(2, 2), (0, 0), (0, MOST + 1)] {
            assert_eq!(
                World::from_id(&id, rank, ranks).unwrap_err().to_string(),
                format!(
                    "a collective: rank {rank} of {ranks}: ranks are numbered from 0 on, and there are at most 1024"
                )
            );
        }
        for text in ["", "127.0.0.1:1", "127.0.0.1/0123456789abcdef0123456789abcdef", "127.0.0.1:1/xyz"] {
            let error = text.parse::<Id>().unwrap_err().to_string();
            assert_eq!(error, format!("no rendezvous at {text}: that is no id: write what `Id` prints"));
        }
    }
}
