//! A table behind the simulated network.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use domain::TenantId;
use dynamodb::DynamoDb;
use store::aws::{AwsParts, AwsStore, create_table, retries, timeouts};
use store::{Blobs, Queue};
use testkit::TestClock;

use crate::network::Network;

const TABLE: &str = "countersign";

/// An empty table, and the network in front of it.
pub(crate) struct SimulatedAws {
    pub(crate) network: Network,
    pub(crate) clock: TestClock,
    client: Client,
    /// The random number of the next process, see [`AwsStore::with_salt`].
    salts: AtomicU64,
    /// Must outlive the client.
    _dynamodb: DynamoDb,
    _replica: Option<DynamoDb>,
}

impl SimulatedAws {
    /// With `replica`, queries of indexes read a second table, so that indexes can lag.
    pub(crate) async fn new(seed: u64, replica: bool) -> Result<Self, String> {
        let dynamodb = DynamoDb::start().map_err(to_text)?;
        let replica = if replica { Some(DynamoDb::start().map_err(to_text)?) } else { None };
        let network = Network::new(seed, replica.as_ref().map(|replica| replica.endpoint().to_owned()));
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("us-east-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "local"))
            .endpoint_url(dynamodb.endpoint())
            .http_client(network.clone())
            .timeout_config(timeouts())
            .retry_config(retries());
        let client = Client::from_conf(config.build());
        create_table(&client, TABLE).await.map_err(to_text)?;
        let salts = AtomicU64::new(seed << 32);
        Ok(Self {
            network,
            clock: TestClock::runtime(),
            client,
            salts,
            _dynamodb: dynamodb,
            _replica: replica,
        })
    }

    /// The store of a process.
    pub(crate) fn store<Q, B>(&self, queue: Q, blobs: B) -> AwsStore<Q, B>
    where
        Q: Queue + Send + Sync + 'static,
        B: Blobs + Send + Sync + 'static,
    {
        let store = AwsStore::new(AwsParts {
            client: self.client.clone(),
            table: TABLE.to_owned(),
            queue,
            blobs,
            clock: Arc::new(self.clock.clone()),
        });
        store.with_salt(self.salts.fetch_add(1, Ordering::Relaxed))
    }
}

pub(crate) fn tenant(number: usize) -> Result<TenantId, String> {
    format!("tenant-{number}").parse().map_err(to_text)
}

pub(crate) fn to_text(error: impl fmt::Display) -> String {
    error.to_string()
}
