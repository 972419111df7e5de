//! A test environment with one table on a local DynamoDB.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{self, BehaviorVersion, Config, Credentials, HttpClient, Region};
use countersign_store::aws::{AwsParts, AwsStore, create_table};
use countersign_store::{Clock as _, SqliteOptions, SqliteStore, SystemClock};
use dynamodb::DynamoDb;

pub(crate) type Store = AwsStore<SqliteStore, SqliteStore>;

/// Set to run the tests on another DynamoDB.
const ENDPOINT: &str = "COUNTERSIGN_DYNAMODB";

/// A DynamoDB with an empty table, and SQLite for the queue and the blobs.
pub(crate) struct TableEnv {
    pub(crate) client: Client,
    pub(crate) table: String,
    endpoint: String,
    pub(crate) sqlite: SqliteStore,
}

impl TableEnv {
    pub(crate) async fn open() -> Self {
        // Two cases may start in the same millisecond.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let endpoint = endpoint();
        let client = Client::from_conf(config(&endpoint).build());
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let table = format!("countersign-{}-{}-{number}", std::process::id(), SystemClock.now().0);
        create_table(&client, &table).await.unwrap();
        create_table(&client, &table).await.unwrap();
        Self { client, endpoint, table, sqlite: SqliteStore::memory(SqliteOptions::default()).unwrap() }
    }

    pub(crate) fn store(&self) -> Store {
        self.store_on(&self.table)
    }

    /// The store over another connection, with at most `tries` attempts per request.
    pub(crate) fn store_over(&self, connection: impl HttpClient + 'static, tries: u32) -> Store {
        let retries =
            RetryConfig::standard().with_max_attempts(tries).with_initial_backoff(Duration::from_millis(1));
        let config = config(&self.endpoint).http_client(connection).retry_config(retries).build();
        self.store_with(Client::from_conf(config), &self.table)
    }

    pub(crate) fn store_on(&self, table: &str) -> Store {
        self.store_with(self.client.clone(), table)
    }

    fn store_with(&self, client: Client, table: &str) -> Store {
        AwsStore::new(AwsParts {
            client,
            table: table.to_owned(),
            queue: self.sqlite.clone(),
            blobs: self.sqlite.clone(),
            clock: Arc::new(SystemClock),
        })
    }
}

/// The endpoint of a DynamoDB. The cases of this process share it; each has its own tables.
pub(crate) fn endpoint() -> String {
    static SHARED: LazyLock<DynamoDb> = LazyLock::new(|| DynamoDb::start().unwrap());
    std::env::var(ENDPOINT).unwrap_or_else(|_| SHARED.endpoint().to_owned())
}

pub(crate) fn config(endpoint: &str) -> config::Builder {
    Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "local"))
        .endpoint_url(endpoint)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
}
