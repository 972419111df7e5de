//! The whole store on AWS keeps what any store must promise: DynamoDB, SQS and S3, at the endpoint that
//! `COUNTERSIGN_AWS` names. Without one every case fails and says so: a promise that was not tried is not kept.
#![expect(clippy::unwrap_used, reason = "a case fails by panicking")]

mod account;
mod blobs;
mod calls;
#[path = "../faults/mod.rs"]
mod faults;
mod opened;
mod queue;
mod stage;
mod threats;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use conformance::cases;
use libtest_mimic::{Arguments, Failed, Trial};

use account::{Account, ENDPOINT};
use faults::matrix::{self, Call};
use faults::sites;
use stage::{Cell, Place};

/// A case of our own.
type Own = fn(Account) -> Pin<Box<dyn Future<Output = ()> + Send>>;

fn main() {
    if let Ok(account) = std::env::var(opened::ACCOUNT) {
        return runtime().block_on(opened::speak(&account));
    }
    let promised = cases().into_iter().map(|case| {
        trial(format!("promised::{}", case.name), move |account| (case.run)(Arc::new(account.store())))
    });
    let own = queue::cases().into_iter().chain(blobs::cases()).chain(opened::cases()).chain(threats::cases());
    let own = own.map(|(name, case): (&str, Own)| trial(name.to_owned(), case));
    let matrix = calls::calls().into_iter().map(in_the_matrix);
    let complete = Trial::test("every_call_site_has_a_row", || {
        sites::every_call_site_has_a_row();
        sites::every_row_is_played();
        Ok(())
    });
    let all = promised.chain(own).chain(matrix).chain([complete]);
    libtest_mimic::run(&Arguments::from_args(), all.collect()).exit();
}

/// Every fault at every request of a call. Its time stands still while a request is under way, and jumps when
/// everybody waits.
fn in_the_matrix(call: Call<Cell>) -> Trial {
    Trial::test(format!("matrix::{}", call.name), move || {
        let endpoint = endpoint()?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let place = Place::open(&endpoint).await;
            let cells = matrix::play(&call, || place.empty()).await;
            println!("{}: {cells} cells", call.name);
        });
        Ok(())
    })
}

/// Where there is a local AWS.
fn endpoint() -> Result<String, Failed> {
    std::env::var(ENDPOINT).map_err(|_| {
        let such = "it names the endpoint of a local AWS, such as http://localhost:4566";
        Failed::from(format!("{ENDPOINT} is not set; {such}"))
    })
}

fn trial(
    name: String,
    case: impl FnOnce(Account) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + 'static,
) -> Trial {
    Trial::test(name, move || {
        let endpoint = endpoint()?;
        runtime().block_on(async move { case(Account::open(&endpoint).await).await });
        Ok(())
    })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap()
}
