//! The conformance suite for stores.
//!
//! Every store implementation runs the same list of [`cases`]. A case gets an empty store of its own, builds real
//! decisions with the domain, and fails by panicking. The cases use only the store traits. Their times are real and
//! short enough to wait for.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a case fails by panicking")]

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
mod audit;
mod blobs;
mod concurrency;
mod governance;
mod history;
mod inbox;
mod index;
mod ledger;
mod queue;
mod races;
mod receipts;
mod sizes;
mod worker_registry;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use store::Store;
use testkit::ledger as fixtures;

/// One requirement on a store.
pub struct Case<S> {
    /// The requirement, as a sentence.
    pub name: &'static str,
    /// Runs the case on an empty store.
    pub run: fn(Arc<S>) -> CaseFuture,
}

pub type CaseFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

pub fn cases<S: Store>() -> Vec<Case<S>> {
    [
        ledger::cases(),
        concurrency::cases(),
        receipts::cases(),
        history::cases(),
        index::cases(),
        queue::cases(),
        blobs::cases(),
        governance::cases(),
        access::cases(),
        audit::cases(),
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
