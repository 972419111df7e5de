//! The conformance suite and the fault tests on the whole AWS store: DynamoDB, SQS and S3 at the endpoint of
//! `COUNTERSIGN_AWS`. Every case fails if the variable is not set.
#![expect(clippy::unwrap_used, reason = "a case fails by panicking")]

mod blobs;
mod calls;
mod cell;
mod env;
#[path = "../faults/mod.rs"]
mod faults;
mod open;
mod queue;
mod threats;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use conformance::cases;
use libtest_mimic::{Arguments, Failed, Trial};

use cell::{Cell, Resources};
use env::{ENDPOINT, StackEnv};
use faults::matrix::{self, Call};
use faults::sites;

/// A case of this crate.
type EnvCase = fn(StackEnv) -> Pin<Box<dyn Future<Output = ()> + Send>>;

fn main() {
    if let Ok(env) = std::env::var(open::ACCOUNT) {
        return runtime().block_on(open::child(&env));
    }
    let conformance_trials = cases().into_iter().map(|case| {
        trial(format!("conformance::{}", case.name), move |env| (case.run)(Arc::new(env.store())))
    });
    let own = queue::cases().into_iter().chain(blobs::cases()).chain(open::cases()).chain(threats::cases());
    let own = own.map(|(name, case): (&str, EnvCase)| trial(name.to_owned(), case));
    let matrix = calls::calls().into_iter().map(matrix_trial);
    let complete = Trial::test("every_call_site_has_a_row", || {
        sites::every_call_site_has_a_row();
        sites::every_row_is_exercised();
        Ok(())
    });
    let all = conformance_trials.chain(own).chain(matrix).chain([complete]);
    libtest_mimic::run(&Arguments::from_args(), all.collect()).exit();
}

/// Every fault of every request of a call, in virtual time: time does not advance while a request is in flight, and
/// jumps when all tasks wait.
fn matrix_trial(call: Call<Cell>) -> Trial {
    Trial::test(format!("matrix::{}", call.name), move || {
        let endpoint = endpoint()?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let resources = Resources::open(&endpoint).await;
            let cells = matrix::run_cells(&call, || resources.empty_cell()).await;
            println!("{}: {cells} cells", call.name);
        });
        Ok(())
    })
}

/// The endpoint of the local AWS emulator.
fn endpoint() -> Result<String, Failed> {
    std::env::var(ENDPOINT).map_err(|_| {
        Failed::from(format!(
            "{ENDPOINT} is not set: set it to a local AWS endpoint, such as http://localhost:4566"
        ))
    })
}

fn trial(
    name: String,
    case: impl FnOnce(StackEnv) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + 'static,
) -> Trial {
    Trial::test(name, move || {
        let endpoint = endpoint()?;
        runtime().block_on(async move { case(StackEnv::open(&endpoint).await).await });
        Ok(())
    })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap()
}
