//! The store on AWS keeps what any store must promise. Its table stands in a DynamoDB that lives in this
//! process, or in the one that `COUNTERSIGN_DYNAMODB` names; the queue and the blobs are those of the embedded store, in memory.
#![expect(clippy::unwrap_used, reason = "a case fails by panicking")]

mod account;
mod faults;
mod large;
mod line;
mod outbox;
mod run;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use conformance::cases;
use libtest_mimic::{Arguments, Failed, Trial};

use account::Account;

/// A case of our own.
type Own = fn(Account) -> Pin<Box<dyn Future<Output = ()> + Send>>;

fn main() {
    let promised = cases().into_iter().map(|case| {
        trial(format!("promised::{}", case.name), move |account| (case.run)(Arc::new(account.store())))
    });
    let own = faults::cases().into_iter().chain(large::cases()).chain(outbox::cases());
    let own = own.map(|(name, case): (&str, Own)| trial(name.to_owned(), case));
    libtest_mimic::run(&Arguments::from_args(), promised.chain(own).collect()).exit();
}

fn trial(
    name: String,
    case: impl FnOnce(Account) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + 'static,
) -> Trial {
    Trial::test(name, move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
        runtime.block_on(async move { case(Account::open().await).await });
        Ok::<(), Failed>(())
    })
}
