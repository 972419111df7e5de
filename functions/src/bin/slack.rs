//! The function behind `POST /slack/interactions/{tenant}` and `POST /slack/commands/{tenant}`.

mod environment;

use std::sync::Arc;

use config::secrets::SecretMap;
use config::{AwsKeySource, NoAwsKeys, ProcessContext, SdkKeys, SystemsConfig};
use countersign_functions::lambda;
use environment::{required, settings, variable};
use lambda_runtime::Error;
use store::{Clock as _, SystemClock};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda::log(variable("RUST_LOG").as_deref());
    let config = store::aws::configure(None).await;
    let secrets = SecretMap::open(&required("COUNTERSIGN_SECRET")?, &config).await?;
    let systems = SystemsConfig::parse(&required("COUNTERSIGN_CONFIG")?)?;
    let aws: Arc<dyn AwsKeySource> = match config.credentials_provider() {
        Some(provider) => Arc::new(SdkKeys(provider)),
        None => Arc::new(NoAwsKeys),
    };
    let process = ProcessContext { aws, now: Arc::new(|| SystemClock.now()) };
    let installations = lambda::slack_installations(&systems, move |name| secrets.look_up(name), process)?;
    let engine = lambda::engine(store::aws::open(settings()?).await, "slack")?;
    lambda::serve_slack(engine, installations).await
}
