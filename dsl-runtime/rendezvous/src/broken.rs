//! Why a wait ended without what it waited for.

use crate::roster::Failure;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::time::Duration;

/// Why a wait ended without what it waited for.
///
/// The first reason that breaks a [`Group`](crate::Group) is kept: every later call on the group, by any member, reports it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Broken {
    /// A peer failed. `rank` and `cause` are the culprit's, the first failure of the whole roster, even where the peer that
    /// this wait needed failed only because of it.
    #[error("rank {rank} failed: {cause}")]
    PeerFailed {
        /// The rank that failed first.
        rank: usize,
        /// What it failed of.
        cause: Arc<str>,
    },
    /// A peer returned normally without having arrived, and so never will.
    #[error("rank {rank} has returned and will never arrive")]
    PeerReturned {
        /// The rank that returned.
        rank: usize,
    },
    /// The deadline passed. Each world rank is paired with its whereabouts: the wait it sits in, or `running`, or `has returned`.
    #[error("timed out after {waited:.1?}: {}", Report { what, arrived, missing })]
    TimedOut {
        /// How long the member that lost patience had waited.
        waited: Duration,
        /// What it waited in.
        what: String,
        /// Members that had arrived.
        arrived: Vec<(usize, String)>,
        /// Members that the wait still needed (of a wait for a condition: all other members, as it is unknown which).
        missing: Vec<(usize, String)>,
    },
}

impl From<Failure> for Broken {
    fn from(Failure { rank, cause }: Failure) -> Self {
        Broken::PeerFailed { rank, cause }
    }
}

/// What a wait is for and who is where, one line per rank, those to be looked at first.
pub(crate) struct Report<'a> {
    pub(crate) what: &'a str,
    pub(crate) arrived: &'a [(usize, String)],
    pub(crate) missing: &'a [(usize, String)],
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        for (rank, place) in self.missing {
            write!(f, "\n  * rank {rank} is missing: {place}")?;
        }
        for (rank, place) in self.arrived {
            write!(f, "\n  * rank {rank} has arrived: {place}")?;
        }
        Ok(())
    }
}
