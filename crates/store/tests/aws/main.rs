//! The store on AWS keeps what any store must promise. Its table stands in a DynamoDB that lives in this
//! process, or in the one that `COUNTERSIGN_DYNAMODB` names; the queue and the blobs are those of the embedded store, in memory.
#![expect(clippy::unwrap_used, reason = "a case fails by panicking")]

mod account;
mod calls;
#[path = "../faults/mod.rs"]
mod faults;
mod heard;
mod large;
mod meanings;
mod outbox;
mod run;
mod table;
mod threats;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use conformance::cases;
use libtest_mimic::{Arguments, Failed, Trial};

use account::Account;
use faults::matrix::{self, Call};
use faults::sites;
use table::Table;

/// A case of our own.
type Own = fn(Account) -> Pin<Box<dyn Future<Output = ()> + Send>>;

fn main() {
    let promised = cases().into_iter().map(|case| {
        trial(format!("promised::{}", case.name), move |account| (case.run)(Arc::new(account.store())))
    });
    let own = meanings::cases().into_iter().chain(large::cases()).chain(outbox::cases());
    let own = own.map(|(name, case): (&str, Own)| trial(name.to_owned(), case));
    let matrix = calls::calls().into_iter().map(in_the_matrix);
    let complete = Trial::test("every_call_site_has_a_row", || {
        sites::every_call_site_has_a_row();
        sites::every_row_is_played();
        Ok(())
    });
    let threats = threats::cases().into_iter().map(|(name, case)| {
        in_virtual_time(
            name.to_owned(),
            move |endpoint| async move { case(Table::open(&endpoint).await).await },
        )
    });
    let all = promised.chain(own).chain(matrix).chain(threats).chain([complete]);
    libtest_mimic::run(&Arguments::from_args(), all.collect()).exit();
}

/// Every fault at every request of a call.
fn in_the_matrix(call: Call<Table>) -> Trial {
    in_virtual_time(format!("matrix::{}", call.name), move |endpoint| async move {
        let cells = matrix::play(&call, || Table::open(&endpoint)).await;
        println!("{}: {cells} cells", call.name);
    })
}

/// A case whose time stands still while a request is under way, and jumps when everybody waits.
fn in_virtual_time<F: Future<Output = ()>>(
    name: String,
    case: impl FnOnce(String) -> F + Send + 'static,
) -> Trial {
    Trial::test(name, move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async { case(account::endpoint().await).await });
        Ok(())
    })
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
