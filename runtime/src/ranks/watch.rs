//! Who else has to know when a rank is lost.

use super::{Health, Links, health::Lost, links::Shared};
use crate::error::Error;
use std::{sync::Arc, time::Duration};

impl Links {
    pub(crate) fn rank(&self) -> usize {
        self.shared.rank
    }

    pub(crate) fn ranks(&self) -> usize {
        self.shared.streams.len()
    }

    pub(crate) fn health(&self) -> &Arc<Health> {
        &self.shared.health
    }

    /// Whether all ranks are there. If not, the others know of it now.
    ///
    /// # Errors
    /// [`Error::RankLost`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.shared.check()
    }

    /// What lets another thread wait for trouble.
    pub(crate) fn watch(&self) -> Watch {
        Watch { shared: self.shared.clone() }
    }

    /// Gives up, for a reason that all are told.
    pub(crate) fn give_up(&self, what: String) {
        self.shared.lose(Lost { rank: self.shared.rank as u32, what });
    }
}

/// Waits until something goes wrong.
pub(crate) struct Watch {
    shared: Arc<Shared>,
}

impl Watch {
    /// Returns whether something has gone wrong by then.
    pub(crate) fn lost_within(&self, time: Duration) -> bool {
        let state = self.shared.lock();
        if self.shared.health.lost().is_none() && !state.closing {
            drop(self.shared.wait(state, time));
        }
        self.shared.health.lost().is_some()
    }

    /// Gives up, for a reason that all are told.
    pub(crate) fn give_up(&self, error: &Error) {
        let rank = self.shared.rank;
        self.shared
            .lose(Lost { rank: rank as u32, what: format!("NCCL has failed on rank {rank}: {error}") });
    }
}
