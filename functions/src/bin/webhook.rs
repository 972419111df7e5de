//! The function behind `POST /webhook/{source}/{tenant}`.

mod environment;

use config::secrets::SecretMap;
use countersign_functions::lambda;
use environment::{required, settings, variable};
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda::log(variable("RUST_LOG").as_deref());
    let config = store::aws::configure(None).await;
    let secrets = SecretMap::open(&required("COUNTERSIGN_SECRET")?, &config).await?;
    let auth = lambda::webhook_auth(&required("COUNTERSIGN_SOURCES")?, &|name| secrets.look_up(name))?;
    let engine = lambda::engine(store::aws::open(settings()?).await, "webhook")?;
    lambda::serve_webhook(engine, auth).await
}
