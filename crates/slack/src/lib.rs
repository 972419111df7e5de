//! Approvals in Slack.
//!
//! People are shown an approval as a [`card`], by a [`client`] that can be asked any number of times and
//! brings Slack to where the approval stands. Their click comes back under Slack's [`signature`] and is read
//! as an [`interaction`]; [`person`] says who in the tenant's directory that was and turns it into the
//! domain's own command. Who may answer, and what the answer does, is decided there and nowhere here.
//!
//! Two things are kept true. Whatever stands in a ticket reaches a screen only through [`escape`], so that
//! it can neither call people, nor pass for something else, nor hide. And of what comes back only ids are
//! believed: the approval, its hash and the run must be those of the approval in the ledger.
//!
//! People also ask for runs here: by a [`command`] that they type, or in a [`window`] that a shortcut opens.

pub mod card;
pub mod client;
pub mod command;
pub mod escape;
pub mod fault;
pub mod interaction;
pub mod pager;
pub mod person;
pub mod signature;
mod transport;
pub mod window;

pub use client::Slack;
pub use fault::{Fault, NotifyError};
pub use interaction::{Click, Filled, Hooks, Interaction, InvalidInteraction, Place, Shortcut};
pub use pager::Pager;
pub use person::{Stranger, Unanswerable, answer, answerer, person_of};
pub use signature::{Secrets, SignatureFault};
