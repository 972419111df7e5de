//! Approvals in Slack.
//!
//! A [`client`] posts each approval as a [`card`] and updates the card when the approval changes; [`card`] has every text
//! that is posted. A user's click arrives with Slack's [`signature`] and is parsed as an [`interaction`]. [`approver`]
//! maps the Slack user to a user of the tenant and builds the domain's command. The domain decides who may approve.
//!
//! Two rules hold. Untrusted text reaches a message only through [`escape`], so it cannot mention users, imitate other
//! text or hide. And of a click only ids are trusted: the approval, its hash and the run must match the ledger.
//!
//! Users also start runs in Slack: with a [`slash_command`], or in the [`start_modal`] that a shortcut opens.

pub mod approver;
pub mod card;
pub mod client;
pub mod error;
pub mod escape;
pub mod interaction;
pub mod pager;
pub mod signature;
pub mod slash_command;
pub mod start_modal;
mod transport;

pub use approver::{
    InvalidClick, MissingRole, UnknownSlackUser, answer, approver_of, person_of, require_role,
};
pub use client::Slack;
pub use error::{NotifyError, SlackError};
pub use interaction::{
    Click, Interaction, InvalidInteraction, MessageRef, ResponseOrigin, Shortcut, StartSubmission,
};
pub use pager::Pager;
pub use signature::{Secrets, SignatureError};
