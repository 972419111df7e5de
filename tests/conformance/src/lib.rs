//! What any store must promise.
//!
//! One list of [`cases`], run by every store that wants to be trusted with a run. A case is given a store
//! that is empty and its own, builds real decisions with the domain, and fails by panicking. Nothing here
//! knows how a store keeps things: the cases speak the three traits and nothing else, and their times are
//! real ones, short enough to wait for.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

/// The cases of one subject, each named as its function is.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        /// The cases of this subject.
        pub(crate) fn cases<S: store::Store>() -> Vec<crate::Case<S>> {
            vec![$(crate::Case { name: stringify!($case), run: |store| Box::pin($case(store)) }),*]
        }
    };
}

mod access;
mod archive;
mod blobs;
mod fixtures;
mod governance;
mod history;
mod inbox;
mod index;
mod ledger;
mod queue;
mod races;
mod receipts;
mod sizes;
mod tickets;
mod worker_registry;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use store::Store;

/// One promise.
pub struct Case<S> {
    /// The promise, as a sentence.
    pub name: &'static str,
    /// Holds a store that is empty to it.
    pub run: fn(Arc<S>) -> Held,
}

/// A store being held to a promise.
pub type Held = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Every promise.
pub fn cases<S: Store>() -> Vec<Case<S>> {
    [
        ledger::cases(),
        tickets::cases(),
        receipts::cases(),
        history::cases(),
        index::cases(),
        queue::cases(),
        blobs::cases(),
        governance::cases(),
        access::cases(),
        worker_registry::cases(),
        archive::cases(),
        inbox::cases(),
        sizes::cases(),
        races::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
