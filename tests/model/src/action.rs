//! Everything that can happen in a world, one step at a time.

use crate::ledger::Walk;
use crate::state::{Decider, Handle, Request};

/// What becomes of a write. To its writer the last two look the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Committed, and the writer knows.
    Heard,
    /// Committed, and the writer does not know.
    Lost,
    /// Never arrived, and the writer does not know.
    NoneToHear,
}

/// One thing that happens. A number is the place of a worker among the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Receive(usize, Handle),
    Redeliver(usize, Handle),
    Claim(usize, Reply),
    ReadAgain(usize),
    Revoke(usize),
    Drain(usize),
    LookUp(usize),
    Perform(usize),
    TimeOut(usize),
    Commit(usize, Walk, Reply),
    Delete(usize),
    Crash(usize),
    Deliver(Request),
    Refuse(Request),
    LeaseLapses,
    LeaseLapsesEarly,
    Relay,
    RelayTwice,
    SenderDies,
    Look(Decider),
    Decide(Decider, Reply),
    LookToCancel,
    Cancel,
    DirectRetry,
    DirectCancel,
}

impl Action {
    /// Whether this will happen if nothing else does. Faults need not, people need not come, and an
    /// event may stay away; the time-out of a wait does not.
    pub(crate) const fn is_certain(self) -> bool {
        match self {
            Self::Receive(..)
            | Self::Claim(_, Reply::Heard)
            | Self::ReadAgain(_)
            | Self::Revoke(_)
            | Self::Drain(_)
            | Self::LookUp(_)
            | Self::Perform(_)
            | Self::Commit(_, _, Reply::Heard)
            | Self::Delete(_)
            | Self::Deliver(_)
            | Self::LeaseLapses
            | Self::Relay
            | Self::Look(Decider::Timer)
            | Self::Decide(_, Reply::Heard) => true,
            Self::Redeliver(..)
            | Self::Claim(_, Reply::Lost | Reply::NoneToHear)
            | Self::TimeOut(_)
            | Self::Commit(_, _, Reply::Lost | Reply::NoneToHear)
            | Self::Crash(_)
            | Self::Refuse(_)
            | Self::LeaseLapsesEarly
            | Self::RelayTwice
            | Self::SenderDies
            | Self::Look(Decider::Approver)
            | Self::Decide(_, Reply::Lost | Reply::NoneToHear)
            | Self::LookToCancel
            | Self::Cancel
            | Self::DirectRetry
            | Self::DirectCancel => false,
        }
    }
}
