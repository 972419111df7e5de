//! The whole store on AWS keeps what any store must promise: DynamoDB, SQS and S3, at the endpoint that
//! `COUNTERSIGN_AWS` names. Without one every case fails and says so: a promise that was not tried is not kept.
#![expect(clippy::unwrap_used, reason = "a case fails by panicking")]

mod account;
mod blobs;
#[path = "../aws/line.rs"]
mod line;
mod opened;
mod queue;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use conformance::cases;
use libtest_mimic::{Arguments, Failed, Trial};

use account::{Account, ENDPOINT};

/// A case of our own.
type Own = fn(Account) -> Pin<Box<dyn Future<Output = ()> + Send>>;

fn main() {
    if let Ok(account) = std::env::var(opened::ACCOUNT) {
        return runtime().block_on(opened::speak(&account));
    }
    let promised = cases().into_iter().map(|case| {
        trial(format!("promised::{}", case.name), move |account| (case.run)(Arc::new(account.store())))
    });
    let own = queue::cases().into_iter().chain(blobs::cases()).chain(opened::cases());
    let own = own.map(|(name, case): (&str, Own)| trial(name.to_owned(), case));
    libtest_mimic::run(&Arguments::from_args(), promised.chain(own).collect()).exit();
}

fn trial(
    name: String,
    case: impl FnOnce(Account) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + 'static,
) -> Trial {
    Trial::test(name, move || {
        let Ok(endpoint) = std::env::var(ENDPOINT) else {
            return Err(Failed::from(format!(
                "{ENDPOINT} is not set; it names the endpoint of a local AWS, such as http://localhost:4566"
            )));
        };
        runtime().block_on(async move { case(Account::open(&endpoint).await).await });
        Ok(())
    })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap()
}
