//! Collectives of simulators, by their hosts: messages between ranks, and what is done with those that come.

use super::part::Turns;
use crate::{buffer::RawBuffer, element::Reducible, error::Error, ranks::Links, reduction::Reduction};
use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
};
use tile_dsl::dtype::DType;

/// Bytes of a tensor without gaps, for a rank or from one.
pub(super) struct Message<'b> {
    pub(super) peer: usize,
    pub(super) buffer: &'b RawBuffer,
    pub(super) bytes: Range<usize>,
}

/// What a rank of this process sends and receives.
pub(super) struct Share<'b> {
    pub(super) rank: usize,
    pub(super) sends: Vec<Message<'b>>,
    pub(super) receives: Vec<Message<'b>>,
}

/// What is done with what is received.
#[derive(Clone, Copy)]
pub(super) enum Then {
    Store,
    /// All of it, in order, becomes one, which is stored where the first is received.
    Combine(Reduction, fn(Reduction, &[Vec<u8>]) -> Vec<u8>),
}

impl Then {
    pub(super) fn combine<T: Reducible>(reduction: Reduction) -> Self {
        let combine = |reduction, ranks: &[Vec<u8>]| {
            let ranks: Vec<Vec<T>> = ranks.iter().map(|bytes| T::from_bytes(bytes)).collect();
            T::bytes_of(&T::combine(reduction, &ranks))
        };
        Then::Combine(reduction, combine)
    }
}

/// What ranks that are at the same call say that they are at.
pub(super) enum Label {
    /// All of it.
    Whole(String),
    /// A message: the call, and the type of the elements.
    Each(&'static str, DType),
}

impl Label {
    fn of(&self, from: usize, to: usize, bytes: usize) -> String {
        match self {
            Label::Whole(text) => text.clone(),
            Label::Each(call, dtype) => {
                format!(
                    "{call} with {} {dtype} from rank {from} to rank {to}",
                    bytes / dtype.bytes() as usize
                )
            }
        }
    }
}

/// Sends everything, and then receives: no rank waits for one that waits for it.
///
/// # Errors
/// [`Error::RankLost`].
pub(super) fn run(
    shares: &[Share<'_>],
    then: Then,
    label: &Label,
    turns: &Turns,
    links: Option<&Links>,
) -> Result<(), Error> {
    if let Some(links) = links {
        turns.begin(links)?;
    }
    let mut here: HashMap<(usize, usize), VecDeque<Vec<u8>>> = HashMap::new();
    for share in shares {
        for Message { peer, buffer, bytes } in &share.sends {
            let contents = buffer.part_on_host(bytes.clone());
            match links.filter(|_| *peer != share.rank) {
                Some(links) => links.post(*peer, &label.of(share.rank, *peer, contents.len()), &contents)?,
                None => here.entry((share.rank, *peer)).or_default().push_back(contents),
            }
        }
    }
    for share in shares {
        let mut one = |Message { peer, bytes, .. }: &Message<'_>| -> Result<Vec<u8>, Error> {
            let from = *peer;
            let contents = match links.filter(|_| from != share.rank) {
                Some(links) => links.take(from, &label.of(from, share.rank, bytes.len()))?,
                None => here.get_mut(&(from, share.rank)).and_then(VecDeque::pop_front).unwrap_or_default(),
            };
            if contents.len() != bytes.len() {
                let (rank, found, wanted) = (share.rank, contents.len(), bytes.len());
                let what = format!("rank {from} sends {found} bytes, and rank {rank} takes {wanted}");
                return Err(Error::Collective { what });
            }
            Ok(contents)
        };
        let received = share.receives.iter().map(&mut one).collect::<Result<Vec<_>, _>>()?;
        match then {
            Then::Store => {
                for (message, contents) in share.receives.iter().zip(&received) {
                    message.buffer.put_part_on_host(message.bytes.start, contents);
                }
            }
            Then::Combine(reduction, combine) => {
                if let Some(first) = share.receives.first() {
                    first.buffer.put_part_on_host(first.bytes.start, &combine(reduction, &received));
                }
            }
        }
    }
    Ok(())
}
