//! A table of its own for every cell of the matrix, reached over one line.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryPartition;
use countersign_store::aws::{AwsParts, AwsStore, create_table, retries, timeouts};
use countersign_store::{Clock, Queue as _, SqliteOptions, SqliteStore};
use domain::{Millis, QueueName, Timestamp};

use crate::account::{Store, config};
use crate::faults::kept::{Still, items, sweep};
use crate::faults::line::Line;
use crate::faults::matrix::{Held, Stage};
use crate::faults::story::NOON;
use crate::outbox::Unsteady;

/// A table, and the store on it.
pub(crate) struct Table {
    pub(crate) store: Store,
    pub(crate) line: Line,
    pub(crate) client: Client,
    pub(crate) name: String,
    beside: SqliteStore,
    /// Messages that are under way have arrived.
    later: Arc<AtomicBool>,
}

/// The clock of the queue.
struct Later(Arc<AtomicBool>);

impl Clock for Later {
    fn now(&self) -> Timestamp {
        if self.0.load(Ordering::Relaxed) { NOON + Millis::hours(1) } else { NOON }
    }
}

impl Table {
    /// An empty one at `endpoint`, with the patience that the store has on AWS.
    pub(crate) async fn open(endpoint: &str) -> Self {
        let table = Self::at(endpoint);
        create_table(&table.client, &table.name).await.unwrap();
        table
    }

    /// One that is not there yet.
    pub(crate) fn at(endpoint: &str) -> Self {
        static TABLES: AtomicU64 = AtomicU64::new(0);
        let number = TABLES.fetch_add(1, Ordering::Relaxed);
        let name = format!("matrix-{}-{number}", std::process::id());
        let line = Line::with([]);
        // Whoever retries has a purse, which all clients of a process share; one cell must not empty it for another.
        let purse = RetryPartition::new(name.clone());
        let config = config(endpoint).http_client(line.clone());
        let config = config.timeout_config(timeouts()).retry_config(retries()).retry_partition(purse);
        let client = Client::from_conf(config.build());
        let later = Arc::default();
        let options =
            SqliteOptions { clock: Arc::new(Later(Arc::clone(&later))), ..SqliteOptions::default() };
        let beside = SqliteStore::memory(options).unwrap();
        let store = AwsStore::new(AwsParts {
            client: client.clone(),
            table: name.clone(),
            queue: beside.clone(),
            blobs: beside.clone(),
            clock: Arc::new(Still),
        });
        Self { store, line, client, name, beside, later }
    }

    /// The same store, with a queue that takes nothing.
    pub(crate) fn without_queue(&self) -> AwsStore<Unsteady, SqliteStore> {
        self.with_queue(true, 0)
    }

    /// The same store, with a queue that refuses a message and takes those that follow.
    pub(crate) fn with_a_slow_queue(&self) -> AwsStore<Unsteady, SqliteStore> {
        self.with_queue(false, 1)
    }

    fn with_queue(&self, down: bool, refusing: u32) -> AwsStore<Unsteady, SqliteStore> {
        let (down, refusing) = (Arc::new(AtomicBool::new(down)), Arc::new(AtomicU32::new(refusing)));
        AwsStore::new(AwsParts {
            client: self.client.clone(),
            table: self.name.clone(),
            queue: Unsteady { queue: self.beside.clone(), down, shut: &[], refusing },
            blobs: self.beside.clone(),
            clock: Arc::new(Still),
        })
    }

    /// What was sent, each once however often it was.
    async fn messages(&self) -> BTreeSet<String> {
        self.later.store(true, Ordering::Relaxed);
        let mut messages = BTreeSet::new();
        for queue in QueueName::ALL {
            let received = self.store.receive(queue, 100, Millis::secs(60), Duration::ZERO).await.unwrap();
            messages.extend(received.iter().map(|sent| format!("{queue} {} {}", sent.run, sent.job)));
        }
        messages
    }
}

impl Stage for Table {
    fn line(&self) -> &Line {
        &self.line
    }

    fn kept(&self) -> Held<'_, BTreeSet<String>> {
        Box::pin(async {
            self.line.set(None);
            let due = sweep(&self.store).await;
            let messages = self.messages().await;
            items(&self.client, &self.name).await.into_iter().chain(due).chain(messages).collect()
        })
    }
}
