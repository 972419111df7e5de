//! The conformance suite on the embedded store, on a file and in memory.
#![expect(clippy::unwrap_used, reason = "a case fails by panicking")]

use std::sync::Arc;

use conformance::{Case, cases};
use countersign_store::{SqliteOptions, SqliteStore};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let on_a_file = cases().into_iter().map(|case| trial("file", case, on_a_file));
    let in_memory = cases().into_iter().map(|case| trial("memory", case, in_memory));
    libtest_mimic::run(&Arguments::from_args(), on_a_file.chain(in_memory).collect()).exit();
}

fn trial(kind: &str, case: Case<SqliteStore>, run_case: fn(&Case<SqliteStore>)) -> Trial {
    Trial::test(format!("{kind}::{}", case.name), move || {
        run_case(&case);
        Ok::<(), Failed>(())
    })
}

fn on_a_file(case: &Case<SqliteStore>) {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path().join("ledger.db"), SqliteOptions::default()).unwrap();
    run_case(case, store);
}

fn in_memory(case: &Case<SqliteStore>) {
    run_case(case, SqliteStore::memory(SqliteOptions::default()).unwrap());
}

fn run_case(case: &Case<SqliteStore>, store: SqliteStore) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    runtime.block_on((case.run)(Arc::new(store)));
}
