//! The environment of a matrix cell: a table of its own, reached over a faulty connection.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryPartition;
use countersign_store::aws::{AwsParts, AwsStore, create_table, retries, timeouts};
use countersign_store::{Queue as _, SqliteOptions, SqliteStore};
use domain::{Millis, QueueName};
use testkit::TestClock;

use crate::env::{Store, config};
use crate::faults::connection::FaultyConnection;
use crate::faults::content::{items, sweep};
use crate::faults::fixture::{NOON, noon};
use crate::faults::matrix::{BoxFuture, MatrixEnv};
use crate::outbox::UnreliableQueue;

/// A table and the store on it.
pub(crate) struct Table {
    pub(crate) store: Store,
    pub(crate) connection: FaultyConnection,
    pub(crate) client: Client,
    pub(crate) name: String,
    sqlite: SqliteStore,
    /// The clock of the queue.
    queue_clock: TestClock,
}

impl Table {
    /// An empty table at `endpoint`, with the timeouts and retries that the store has on AWS.
    pub(crate) async fn open(endpoint: &str) -> Self {
        let table = Self::at(endpoint);
        create_table(&table.client, &table.name).await.unwrap();
        table
    }

    /// A table that does not exist yet.
    pub(crate) fn at(endpoint: &str) -> Self {
        static TABLES: AtomicU64 = AtomicU64::new(0);
        let number = TABLES.fetch_add(1, Ordering::Relaxed);
        let name = format!("matrix-{}-{number}", std::process::id());
        let connection = FaultyConnection::with([]);
        // Clients of one retry partition share a retry token bucket; a cell must not empty it for another.
        let partition = RetryPartition::new(name.clone());
        let config = config(endpoint).http_client(connection.clone());
        let config = config.timeout_config(timeouts()).retry_config(retries()).retry_partition(partition);
        let client = Client::from_conf(config.build());
        let queue_clock = noon();
        let options = SqliteOptions { clock: Arc::new(queue_clock.clone()), ..SqliteOptions::default() };
        let sqlite = SqliteStore::memory(options).unwrap();
        let store = AwsStore::new(AwsParts {
            client: client.clone(),
            table: name.clone(),
            queue: sqlite.clone(),
            blobs: sqlite.clone(),
            clock: Arc::new(noon()),
        });
        Self { store, connection, client, name, sqlite, queue_clock }
    }

    /// The same store with a queue that is down.
    pub(crate) fn with_queue_down(&self) -> AwsStore<UnreliableQueue, SqliteStore> {
        self.with_queue(true, 0)
    }

    /// The same store with a queue that rejects the first message.
    pub(crate) fn with_failing_first_send(&self) -> AwsStore<UnreliableQueue, SqliteStore> {
        self.with_queue(false, 1)
    }

    fn with_queue(&self, down: bool, failures_left: u32) -> AwsStore<UnreliableQueue, SqliteStore> {
        let (down, failures_left) =
            (Arc::new(AtomicBool::new(down)), Arc::new(AtomicU32::new(failures_left)));
        AwsStore::new(AwsParts {
            client: self.client.clone(),
            table: self.name.clone(),
            queue: UnreliableQueue { queue: self.sqlite.clone(), down, shut: &[], failures_left },
            blobs: self.sqlite.clone(),
            clock: Arc::new(noon()),
        })
    }

    /// The distinct messages that were sent.
    async fn messages(&self) -> BTreeSet<String> {
        self.queue_clock.set(NOON + Millis::hours(1));
        let mut messages = BTreeSet::new();
        for queue in QueueName::ALL {
            let received = self.store.receive(queue, 100, Millis::secs(60), Duration::ZERO).await.unwrap();
            messages.extend(received.iter().map(|sent| format!("{queue} {} {}", sent.run, sent.job)));
        }
        messages
    }
}

impl MatrixEnv for Table {
    fn connection(&self) -> &FaultyConnection {
        &self.connection
    }

    fn stored(&self) -> BoxFuture<'_, BTreeSet<String>> {
        Box::pin(async {
            self.connection.set(None);
            let due = sweep(&self.store, &self.client, &self.name).await;
            let messages = self.messages().await;
            items(&self.client, &self.name).await.into_iter().chain(due).chain(messages).collect()
        })
    }
}
