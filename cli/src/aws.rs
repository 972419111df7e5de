//! Runs that are kept on AWS.

use store::aws::{AwsSettings, AwsStore, S3Blobs, SqsQueue, open, open_stand_in};

use crate::config::Variable;
use crate::error::CliError;

/// What everything is called on a stand-in.
const NAME: &str = "countersign-dev";

/// Where a stand-in is, as `cargo xtask local up` says it.
const STAND_IN: &str = "COUNTERSIGN_AWS";

/// Where its table is, if that is another one.
const LEDGER: &str = "COUNTERSIGN_DYNAMODB";

/// The store, and the name of its table: on a stand-in, where what it needs is made, or in the account that the
/// environment names.
pub(crate) async fn opened(variable: Variable) -> Result<(AwsStore<SqsQueue, S3Blobs>, String), CliError> {
    if let Some(aws) = variable(STAND_IN) {
        let store = open_stand_in(&aws, variable(LEDGER).as_deref(), NAME).await?;
        return Ok((store, NAME.to_owned()));
    }
    let missing = |name: &str| {
        CliError::Usage(format!(
            "neither {STAND_IN}, where a stand-in is, nor {name} is set; localstack/README.md says how to come by both"
        ))
    };
    let settings = AwsSettings::told(|name| variable(name).ok_or_else(|| missing(name)))?;
    let table = settings.table.clone();
    Ok((open(settings).await, table))
}
