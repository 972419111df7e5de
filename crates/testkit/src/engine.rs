//! The engine of a test.

use std::path::Path;
use std::sync::Arc;

use connectors::{HostAllowList, Tool, ToolRegistry};
use engine::{ConnectionParts, Engine, EngineParts, EvidenceSigner, Notifier, Timing};
use evidence::SigningKey;
use store::{Intercepted, SqliteOptions, SqliteStore, Store};

use crate::{Faults, TestClock, TestEnv};

/// The parts of an engine, except its store.
#[must_use]
pub struct EngineBuilder {
    tools: ToolRegistry,
    connections: ConnectionParts,
    clock: TestClock,
    me: String,
    timing: Timing,
    notifier: Notifier,
    signer: Option<EvidenceSigner>,
}

/// An engine with the clock of this machine, without tools, notifier and signer.
pub fn engine() -> EngineBuilder {
    EngineBuilder {
        tools: ToolRegistry::default(),
        connections: ConnectionParts::default(),
        clock: TestClock::system(),
        me: "w".to_owned(),
        timing: Timing::default(),
        notifier: None,
        signer: None,
    }
}

/// An empty store in memory.
pub fn memory() -> SqliteStore {
    SqliteStore::memory(SqliteOptions::default()).unwrap()
}

/// The store in the file at `path`.
pub fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, SqliteOptions::default()).unwrap()
}

/// The key that signs evidence in tests.
pub fn signing_key() -> SigningKey {
    SigningKey::from_seed([7; 32])
}

impl EngineBuilder {
    /// The tools of the product; none of them may call a host.
    pub fn standard_tools(self) -> Self {
        self.tools(connectors::standard_tools(HostAllowList::default()))
    }

    /// The tools of the product, which may call servers of this machine.
    pub fn local_tools(self) -> Self {
        let hosts = vec!["127.0.0.1".parse().unwrap()];
        self.tools(connectors::standard_tools(HostAllowList { hosts }))
    }

    pub fn tools(self, tools: ToolRegistry) -> Self {
        Self { tools, ..self }
    }

    /// The connections that the operator has configured, and the source of their secrets.
    pub fn connections(self, connections: ConnectionParts) -> Self {
        Self { connections, ..self }
    }

    /// Adds a tool.
    pub fn tool(self, tool: impl Tool + 'static) -> Self {
        Self { tools: self.tools.with(tool), ..self }
    }

    /// The clock of the engine, and of a store in memory.
    pub fn clock(self, clock: TestClock) -> Self {
        Self { clock, ..self }
    }

    /// The name of the process.
    pub fn me(self, me: &str) -> Self {
        Self { me: me.to_owned(), ..self }
    }

    pub fn timing(self, timing: Timing) -> Self {
        Self { timing, ..self }
    }

    pub fn notifier(self, notifier: Notifier) -> Self {
        Self { notifier, ..self }
    }

    /// Signs evidence with [`signing_key`].
    pub fn signed(self) -> Self {
        let key = Arc::new(signing_key());
        Self { signer: Some(EvidenceSigner { key, origin: "test.example/log".to_owned() }), ..self }
    }

    /// The engine on an empty store in memory.
    pub fn build(self) -> Engine<SqliteStore> {
        let store = self.memory();
        self.on(store)
    }

    /// An empty store in memory, with the clock of the engine.
    pub fn memory(&self) -> SqliteStore {
        let clock = Arc::new(self.clock.clone());
        SqliteStore::memory(SqliteOptions { clock, ..SqliteOptions::default() }).unwrap()
    }

    /// The engine and its clock, on an empty store in memory.
    pub fn env(self) -> TestEnv {
        let store = self.memory();
        self.env_on(store)
    }

    /// The engine and its clock, on `store`.
    pub fn env_on<S: Store>(self, store: S) -> TestEnv<S> {
        TestEnv { clock: self.clock.clone(), engine: Arc::new(self.on(store)) }
    }

    /// The same on a store in memory, with these faults.
    pub fn env_with(self, faults: Faults) -> TestEnv<Intercepted<SqliteStore, Faults>> {
        let store = Intercepted::new(self.memory(), faults);
        self.env_on(store)
    }

    /// The engine on `store`.
    pub fn on<S: Store>(self, store: S) -> Engine<S> {
        Engine::new(EngineParts {
            store: Arc::new(store),
            tools: self.tools,
            connections: self.connections,
            clock: Arc::new(self.clock),
            me: self.me.parse().unwrap(),
            timing: self.timing,
            notifier: self.notifier,
            evidence_signer: self.signer,
        })
    }
}
