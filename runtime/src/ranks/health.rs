//! Whether all ranks are still there.

use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// Why ranks work together no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lost {
    pub(super) rank: u32,
    pub(super) what: String,
}

/// The first thing that went wrong between ranks, if something did. Shared with the queues that their work is on.
#[derive(Debug, Default)]
pub(crate) struct Health {
    lost: OnceLock<Lost>,
}

impl Health {
    /// # Errors
    /// [`Error::RankLost`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.lost.get() {
            None => Ok(()),
            Some(Lost { rank, what }) => Err(Error::RankLost { rank: *rank as usize, what: what.clone() }),
        }
    }

    pub(super) fn lost(&self) -> Option<&Lost> {
        self.lost.get()
    }

    /// Notes what went wrong; returns whether it is the first.
    pub(super) fn lose(&self, lost: Lost) -> bool {
        self.lost.set(lost).is_ok()
    }
}
