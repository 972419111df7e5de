//! An account of one table, in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{self, BehaviorVersion, Config, Credentials, HttpClient, Region};
use countersign_store::aws::{AwsParts, AwsStore, create_table};
use countersign_store::{Clock as _, SqliteOptions, SqliteStore, SystemClock};
use dynoxide::{Database, server};
use tokio::net::TcpListener;

use crate::faults::line::OUTSIDE;

/// The store under test.
pub(crate) type Store = AwsStore<SqliteStore, SqliteStore>;

/// Names the endpoint of another DynamoDB to hold the store to its promises on.
const ENDPOINT: &str = "COUNTERSIGN_DYNAMODB";

/// A DynamoDB with an empty table, and a queue and blobs beside it.
pub(crate) struct Account {
    pub(crate) client: Client,
    pub(crate) table: String,
    endpoint: String,
    pub(crate) beside: SqliteStore,
}

impl Account {
    pub(crate) async fn open() -> Self {
        // Two cases may begin in the same millisecond.
        static ACCOUNTS: AtomicU64 = AtomicU64::new(0);
        let endpoint = endpoint().await;
        let client = Client::from_conf(config(&endpoint).build());
        let number = ACCOUNTS.fetch_add(1, Ordering::Relaxed);
        let table = format!("countersign-{}-{}-{number}", std::process::id(), SystemClock.now().0);
        create_table(&client, &table).await.unwrap();
        create_table(&client, &table).await.unwrap();
        Self { client, endpoint, table, beside: SqliteStore::memory(SqliteOptions::default()).unwrap() }
    }

    /// The store on this account.
    pub(crate) fn store(&self) -> Store {
        self.store_on(&self.table)
    }

    /// The store on this account, over a line of its own, whose every request is sent `tries` times at most.
    pub(crate) fn store_over(&self, line: impl HttpClient + 'static, tries: u32) -> Store {
        let retries =
            RetryConfig::standard().with_max_attempts(tries).with_initial_backoff(Duration::from_millis(1));
        let config = config(&self.endpoint).http_client(line).retry_config(retries).build();
        self.store_with(Client::from_conf(config), &self.table)
    }

    /// A store on another table.
    pub(crate) fn store_on(&self, table: &str) -> Store {
        self.store_with(self.client.clone(), table)
    }

    fn store_with(&self, client: Client, table: &str) -> Store {
        AwsStore::new(AwsParts {
            client,
            table: table.to_owned(),
            queue: self.beside.clone(),
            blobs: self.beside.clone(),
            clock: Arc::new(SystemClock),
        })
    }
}

/// Where there is a DynamoDB.
pub(crate) async fn endpoint() -> String {
    match std::env::var(ENDPOINT) {
        Ok(endpoint) => endpoint,
        Err(_) => serve().await,
    }
}

/// A DynamoDB in this process; says where it listens. Its time is real, whatever the time of a case is.
async fn serve() -> String {
    let bound = OUTSIDE.spawn(TcpListener::bind("127.0.0.1:0"));
    let listener = bound.await.unwrap().unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    OUTSIDE.spawn(server::serve_on(listener, Database::memory().unwrap()));
    endpoint
}

pub(crate) fn config(endpoint: &str) -> config::Builder {
    Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "local"))
        .endpoint_url(endpoint)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
}
