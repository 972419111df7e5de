//! The function behind `POST /slack/interactions/{tenant}` and `POST /slack/commands/{tenant}`.

mod environment;

use config::SystemsConfig;
use config::secrets::SecretMap;
use countersign_functions::lambda;
use environment::{required, settings, variable};
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda::log(variable("RUST_LOG").as_deref());
    let config = store::aws::configure(None).await;
    let secrets = SecretMap::open(&required("COUNTERSIGN_SECRET")?, &config).await?;
    let systems = SystemsConfig::parse(&required("COUNTERSIGN_CONFIG")?)?;
    let installations = lambda::slack_installations(&systems, &|name| secrets.look_up(name))?;
    let engine = lambda::engine(store::aws::open(settings()?).await, "slack")?;
    lambda::serve_slack(engine, installations).await
}
