//! Every action of the model.

use crate::ledger::Continuation;
use crate::state::{Decider, Handle, Request};

/// The result of a write. Its writer cannot distinguish the last two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Committed, and the writer receives the reply.
    Received,
    /// Committed, and the reply is lost.
    Lost,
    /// The write never arrived.
    RequestLost,
}

/// One action. A number is the index of a worker.
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
    Commit(usize, Continuation, Reply),
    Delete(usize),
    Crash(usize),
    Deliver(Request),
    Refuse(Request),
    LeaseExpires,
    LeaseExpiresEarly,
    Relay,
    RelayTwice,
    SenderCrashes,
    Load(Decider),
    Decide(Decider, Reply),
    LoadToCancel,
    Cancel,
    DirectRetry,
    DirectCancel,
}

impl Action {
    /// Whether this happens if no other action does. Faults, users and events may not occur; the time-out of a
    /// wait always does.
    pub(crate) const fn is_certain(self) -> bool {
        match self {
            Self::Receive(..)
            | Self::Claim(_, Reply::Received)
            | Self::ReadAgain(_)
            | Self::Revoke(_)
            | Self::Drain(_)
            | Self::LookUp(_)
            | Self::Perform(_)
            | Self::Commit(_, _, Reply::Received)
            | Self::Delete(_)
            | Self::Deliver(_)
            | Self::LeaseExpires
            | Self::Relay
            | Self::Load(Decider::Timer)
            | Self::Decide(_, Reply::Received) => true,
            Self::Redeliver(..)
            | Self::Claim(_, Reply::Lost | Reply::RequestLost)
            | Self::TimeOut(_)
            | Self::Commit(_, _, Reply::Lost | Reply::RequestLost)
            | Self::Crash(_)
            | Self::Refuse(_)
            | Self::LeaseExpiresEarly
            | Self::RelayTwice
            | Self::SenderCrashes
            | Self::Load(Decider::Approver)
            | Self::Decide(_, Reply::Lost | Reply::RequestLost)
            | Self::LoadToCancel
            | Self::Cancel
            | Self::DirectRetry
            | Self::DirectCancel => false,
        }
    }
}
