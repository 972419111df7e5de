//! The sweep function, which an `EventBridge` schedule calls once a minute.

mod environment;

use countersign_functions::lambda;
use environment::{settings, variable};
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda::log(variable("RUST_LOG").as_deref());
    let engine = lambda::engine(store::aws::open(settings()?).await, "sweep")?;
    lambda::serve_sweep(engine).await
}
