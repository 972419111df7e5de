//! Runs that are kept on AWS.

use std::fmt;

use store::aws::{AwsSettings, AwsStore, S3Blobs, SqsQueue, open, open_stand_in};

use crate::config::Variable;
use crate::error::CliError;

/// What everything is called on a stand-in.
const NAME: &str = "countersign-dev";

/// Where a stand-in is, as `cargo xtask local up` says it.
const STAND_IN: &str = "COUNTERSIGN_AWS";

/// Where its table is, if that is another one.
const LEDGER: &str = "COUNTERSIGN_DYNAMODB";

/// The store on AWS.
pub(crate) type OnAws = AwsStore<SqsQueue, S3Blobs>;

/// An account, or a stand-in for one.
#[derive(Clone)]
pub(crate) struct Account {
    /// The store in it.
    pub(crate) store: OnAws,
    /// The name of its table.
    pub(crate) table: String,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("table", &self.table).finish_non_exhaustive()
    }
}

impl Account {
    /// The one that the environment names; on a stand-in what it needs is made.
    pub(crate) async fn open(variable: Variable) -> Result<Self, CliError> {
        if let Some(aws) = variable(STAND_IN) {
            let store = open_stand_in(&aws, variable(LEDGER).as_deref(), NAME).await?;
            return Ok(Self { store, table: NAME.to_owned() });
        }
        let missing = |name: &str| {
            CliError::Usage(format!(
                "neither {STAND_IN}, where a stand-in is, nor {name} is set; localstack/README.md says how to come by both"
            ))
        };
        let settings = AwsSettings::told(|name| variable(name).ok_or_else(|| missing(name)))?;
        let table = settings.table.clone();
        Ok(Self { store: open(settings).await, table })
    }

    /// What to call it.
    pub(crate) fn name(&self) -> String {
        format!("the table {} on AWS", self.table)
    }
}
