//! The evidence bundle of a run: put together, signed, verified offline.
//!
//! A bundle is one deterministic file. It holds what the ledger holds of a finished run — the chain of
//! events, the outcomes, receipts and approvals — with fingerprints in place of values, and the run's place
//! in the log of runs. [`build()`] signs it; [`verify()`] needs the file and a public key, and nothing else: no
//! network, no store, no clock.
//!
//! Three things are kept true. Any changed byte of a file is refused, because there is one way to write a
//! bundle and the signature covers the rest. Whoever holds the key cannot sign nonsense: the chain is
//! walked through the machines again, and everything else must say the same as the chain. And the same run
//! gives the same bytes, whenever and wherever its bundle is built.

mod build;
pub mod bundle;
mod check;
mod envelope;
mod fault;
mod html;
mod key;
mod log;
mod verify;

pub use build::{BuildError, Material, build, effects_of};
pub use bundle::Bundle;
pub use check::effects::Whose;
pub use envelope::{BYTES_MAX, PAYLOAD_TYPE};
pub use fault::Fault;
pub use html::html;
pub use key::{InvalidKey, PublicKey, SigningKey};
pub use log::{Log, LogEntry, leaf};
pub use verify::{Check, Contradiction, Verified, examine, verify};
