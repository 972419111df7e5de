//! The conformance suite and the fault tests on the AWS store. The table is on a DynamoDB that the
//! tests start, or on the one of `COUNTERSIGN_DYNAMODB`. The queue and the blobs are those of the in-memory SQLite store.
#![expect(clippy::unwrap_used, reason = "a case fails by panicking")]

mod calls;
mod classification;
mod env;
#[path = "../faults/mod.rs"]
mod faults;
mod formats;
mod large;
mod logs;
mod outbox;
mod run;
mod table;
mod threats;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use conformance::cases;
use libtest_mimic::{Arguments, Failed, Trial};

use env::TableEnv;
use faults::matrix::{self, Call};
use faults::sites;
use table::Table;

/// A case of this crate.
type EnvCase = fn(TableEnv) -> Pin<Box<dyn Future<Output = ()> + Send>>;

fn main() {
    let conformance_trials = cases().into_iter().map(|case| {
        trial(format!("conformance::{}", case.name), move |env| (case.run)(Arc::new(env.store())))
    });
    let own = classification::cases().into_iter().chain(large::cases()).chain(outbox::cases());
    let own = own.map(|(name, case): (&str, EnvCase)| trial(name.to_owned(), case));
    let matrix = calls::calls().into_iter().map(matrix_trial);
    let complete = Trial::test("every_call_site_has_a_row", || {
        sites::every_call_site_has_a_row();
        sites::every_row_is_exercised();
        Ok(())
    });
    let threats = threats::cases().into_iter().chain(formats::cases()).map(|(name, case)| {
        in_virtual_time(
            name.to_owned(),
            move |endpoint| async move { case(Table::open(&endpoint).await).await },
        )
    });
    let all = conformance_trials.chain(own).chain(matrix).chain(threats).chain([complete]);
    libtest_mimic::run(&Arguments::from_args(), all.collect()).exit();
}

/// Every fault of every request of a call.
fn matrix_trial(call: Call<Table>) -> Trial {
    in_virtual_time(format!("matrix::{}", call.name), move |endpoint| async move {
        let cells = matrix::run_cells(&call, || Table::open(&endpoint)).await;
        println!("{}: {cells} cells", call.name);
    })
}

/// A case in virtual time: time does not advance while a request is in flight, and jumps when all tasks wait.
fn in_virtual_time<F: Future<Output = ()>>(
    name: String,
    case: impl FnOnce(String) -> F + Send + 'static,
) -> Trial {
    Trial::test(name, move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(case(env::endpoint()));
        Ok(())
    })
}

fn trial(
    name: String,
    case: impl FnOnce(TableEnv) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + 'static,
) -> Trial {
    Trial::test(name, move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
        runtime.block_on(async move { case(TableEnv::open().await).await });
        Ok::<(), Failed>(())
    })
}
