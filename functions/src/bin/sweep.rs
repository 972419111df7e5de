//! The function that a schedule calls once a minute.

mod environment;

use countersign_functions::lambda;
use environment::{settings, variable};
use lambda_runtime::Error;

/// What one sweep sends on; what is left is still there a minute later.
const SENT_MAX: u32 = 500;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda::log(variable("RUST_LOG").as_deref());
    let engine = lambda::engine(store::aws::open(settings()?).await, "sweep")?;
    lambda::serve_sweep(engine, async |store, now| store.flush_outbox(now, SENT_MAX).await).await
}
