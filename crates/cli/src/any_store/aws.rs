//! The store on AWS.

use std::fmt;

use store::aws::{AwsSettings, AwsStore, S3Blobs, SqsQueue, open, open_local};

use super::AnyStore;
use crate::error::CliError;
use crate::input::Variable;

/// The name of the table and the prefix of queues and buckets on an emulator.
const NAME: &str = "countersign-dev";

/// The endpoint of an AWS emulator, as `cargo xtask local up` prints it.
const EMULATOR: &str = "COUNTERSIGN_AWS";

/// The endpoint of a separate DynamoDB emulator.
const DYNAMODB: &str = "COUNTERSIGN_DYNAMODB";

pub(super) type AccountStore = AwsStore<SqsQueue, S3Blobs>;

/// An AWS account or an emulator of one.
#[derive(Clone)]
pub(crate) struct AwsAccount {
    store: AccountStore,
    table: String,
}

impl fmt::Debug for AwsAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsAccount").field("table", &self.table).finish_non_exhaustive()
    }
}

impl AwsAccount {
    /// Opens the account that the environment names. On an emulator, creates the missing resources.
    pub(crate) async fn open(variable: Variable) -> Result<Self, CliError> {
        if let Some(aws) = variable(EMULATOR) {
            let store = open_local(&aws, variable(DYNAMODB).as_deref(), NAME).await?;
            return Ok(Self { store, table: NAME.to_owned() });
        }
        let missing = |name: &str| {
            CliError::Usage(format!(
                "--aws needs {name} for an account or {EMULATOR} for an emulator, and neither is set; see \
                 localstack/README.md"
            ))
        };
        let settings = AwsSettings::from_env(|name| variable(name).ok_or_else(|| missing(name)))?;
        let table = settings.table.clone();
        Ok(Self { store: open(settings).await, table })
    }

    pub(crate) fn store(&self) -> AnyStore {
        AnyStore::Aws(self.store.clone())
    }

    /// For messages.
    pub(crate) fn name(&self) -> String {
        format!("table {} on AWS", self.table)
    }
}
