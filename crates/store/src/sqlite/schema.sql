-- Each run has a small integer id in order of creation, so that the rows of recent runs are adjacent and a group commit
-- touches few pages.

CREATE TABLE plans (
    tenant TEXT NOT NULL,
    hash   BLOB NOT NULL,
    body   TEXT NOT NULL,
    PRIMARY KEY (tenant, hash)
) WITHOUT ROWID;

CREATE TABLE runs (
    id         INTEGER PRIMARY KEY,
    tenant     TEXT NOT NULL,
    run        TEXT NOT NULL,
    status     TEXT NOT NULL,
    version    INTEGER NOT NULL,
    due_at     INTEGER,
    body       TEXT NOT NULL,
    created_at INTEGER,
    record     TEXT
);
CREATE UNIQUE INDEX runs_by_key ON runs (tenant, run);
CREATE INDEX runs_by_due ON runs (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX runs_by_time ON runs (tenant, created_at);
-- These include created_at, so that a query by time skips other runs without reading their rows.
CREATE INDEX runs_by_tenant ON runs (tenant, id, created_at);
CREATE INDEX runs_by_status ON runs (tenant, status, id, created_at);
CREATE INDEX runs_by_record ON runs (tenant, record, id) WHERE record IS NOT NULL;

-- One row per event. The row of an event that ends a step also holds the step's record. The row of the first event
-- holds the run's input.
CREATE TABLE history (
    run     INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    hash    BLOB NOT NULL,
    event   BLOB NOT NULL,
    seq     INTEGER,
    is_rollback INTEGER,
    payload TEXT,
    PRIMARY KEY (run, n)
) WITHOUT ROWID;

CREATE TABLE receipts (
    tenant   TEXT NOT NULL,
    key      TEXT NOT NULL,
    revision INTEGER NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (tenant, key)
) WITHOUT ROWID;

-- A receipt that another run's receipt replaced under the same key, stored under the run that wrote it.
CREATE TABLE displaced (
    tenant TEXT NOT NULL,
    run    TEXT NOT NULL,
    key    TEXT NOT NULL,
    body   TEXT NOT NULL,
    PRIMARY KEY (tenant, run, key)
) WITHOUT ROWID;

CREATE TABLE signals (
    run  INTEGER NOT NULL,
    id   TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run, id)
) WITHOUT ROWID;

-- AUTOINCREMENT: a handle never names a second message.
CREATE TABLE messages (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    queue      TEXT NOT NULL,
    visible_at INTEGER NOT NULL,
    receives   INTEGER NOT NULL DEFAULT 0,
    tenant     TEXT NOT NULL,
    run        TEXT NOT NULL,
    job        TEXT NOT NULL,
    trace      TEXT
);
CREATE INDEX messages_by_queue ON messages (queue, visible_at, id);

CREATE TABLE dead_letters (
    id       INTEGER PRIMARY KEY,
    queue    TEXT NOT NULL,
    moved_at INTEGER NOT NULL,
    receives INTEGER NOT NULL,
    tenant   TEXT NOT NULL,
    run      TEXT NOT NULL,
    job      TEXT NOT NULL,
    trace    TEXT
);

CREATE TABLE blobs (
    sha256 BLOB PRIMARY KEY,
    body   BLOB NOT NULL
) WITHOUT ROWID;
-- Which tenants own a blob, and for which purpose. The bytes are stored once.
CREATE TABLE blob_owners (
    kind   TEXT NOT NULL,
    tenant TEXT NOT NULL,
    sha256 BLOB NOT NULL,
    PRIMARY KEY (kind, tenant, sha256)
) WITHOUT ROWID;

-- A name is written once.
CREATE TABLE bundles (
    tenant TEXT NOT NULL,
    name   TEXT NOT NULL,
    body   BLOB NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

CREATE TABLE tenants (
    tenant   TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    body     TEXT NOT NULL
) WITHOUT ROWID;

-- The chain of administrative changes of each tenant, and its head. An empty tenant stands for all tenants. The digest
-- recognizes an entry that is written again.
CREATE TABLE audit (
    tenant   TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    digest   BLOB NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (tenant, sequence)
) WITHOUT ROWID;
CREATE UNIQUE INDEX audit_by_digest ON audit (tenant, digest);
CREATE TABLE audit_heads (
    tenant TEXT PRIMARY KEY,
    body   TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE api_keys (
    tenant   TEXT NOT NULL,
    id       TEXT NOT NULL,
    revision INTEGER NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE TABLE policies (
    tenant TEXT NOT NULL,
    hash   BLOB NOT NULL,
    body   TEXT NOT NULL,
    PRIMARY KEY (tenant, hash)
) WITHOUT ROWID;

-- One row per approval request. `open` is set while it can be answered, so that open requests are listed by index.
CREATE TABLE approvals (
    id       INTEGER PRIMARY KEY,
    tenant   TEXT NOT NULL,
    approval TEXT NOT NULL,
    run      INTEGER NOT NULL,
    open     INTEGER,
    body     TEXT NOT NULL
);
CREATE UNIQUE INDEX approvals_by_key ON approvals (tenant, approval);
CREATE INDEX approvals_by_run ON approvals (run, id);
CREATE INDEX approvals_open ON approvals (tenant, id) WHERE open IS NOT NULL;

-- The Slack message that shows an approval request.
CREATE TABLE cards (
    tenant   TEXT NOT NULL,
    approval TEXT NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (tenant, approval)
) WITHOUT ROWID;

-- The page of the on-call about an overdue approval request.
CREATE TABLE pages (
    tenant   TEXT NOT NULL,
    approval TEXT NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (tenant, approval)
) WITHOUT ROWID;

-- The transparency log: one row per entry, and the Merkle frontier, which is all that an append needs. `log` is the
-- random name of the log.
CREATE TABLE log (
    n        INTEGER PRIMARY KEY,
    run      INTEGER NOT NULL UNIQUE,
    position TEXT NOT NULL
);
CREATE TABLE log_head (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    log      TEXT NOT NULL,
    frontier TEXT NOT NULL
);

CREATE TABLE evidence (
    run  INTEGER PRIMARY KEY,
    body TEXT NOT NULL
);

-- Accepted events. Each is unique by its idempotency key (through the run id) and by its authentication proof. A pending
-- one has a due time and never expires.
CREATE TABLE inbox_entries (
    tenant      TEXT NOT NULL,
    run         TEXT NOT NULL,
    proof       BLOB NOT NULL,
    dedupe_key  BLOB,
    received_at INTEGER NOT NULL,
    expires_at  INTEGER,
    due_at      INTEGER,
    body        TEXT NOT NULL,
    PRIMARY KEY (tenant, run)
) WITHOUT ROWID;
CREATE UNIQUE INDEX inbox_entries_by_proof ON inbox_entries (tenant, proof);
CREATE INDEX inbox_entries_by_expiry ON inbox_entries (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX inbox_entries_by_due ON inbox_entries (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX inbox_entries_by_dedupe_key ON inbox_entries (tenant, dedupe_key, received_at) WHERE dedupe_key IS NOT NULL;

-- The latest applied version of each workflow. `due_at` is the next start of a workflow with a schedule.
CREATE TABLE workflows (
    tenant   TEXT NOT NULL,
    workflow TEXT NOT NULL,
    body     TEXT NOT NULL,
    due_at   INTEGER,
    PRIMARY KEY (tenant, workflow)
) WITHOUT ROWID;
CREATE INDEX workflows_by_due ON workflows (due_at) WHERE due_at IS NOT NULL;

-- Every version that was applied, and who applied it.
CREATE TABLE workflow_versions (
    tenant   TEXT NOT NULL,
    workflow TEXT NOT NULL,
    version  INTEGER NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (tenant, workflow, version)
) WITHOUT ROWID;

-- The run that holds a concurrency key, and its wait queue.
CREATE TABLE concurrency_keys (
    tenant          TEXT NOT NULL,
    concurrency_key BLOB NOT NULL,
    run             TEXT NOT NULL,
    PRIMARY KEY (tenant, concurrency_key)
) WITHOUT ROWID;
CREATE TABLE waiters (
    tenant          TEXT NOT NULL,
    concurrency_key BLOB NOT NULL,
    since           INTEGER NOT NULL,
    run             TEXT NOT NULL,
    woken_at        INTEGER,
    PRIMARY KEY (tenant, concurrency_key, since, run)
) WITHOUT ROWID;

-- The dispatch switch of the whole fleet.
CREATE TABLE fleet (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    revision INTEGER NOT NULL,
    body     TEXT NOT NULL
);

-- The worker registry.
CREATE TABLE workers (
    worker       TEXT PRIMARY KEY,
    heartbeat_at INTEGER NOT NULL,
    revision     INTEGER NOT NULL,
    body         TEXT NOT NULL
) WITHOUT ROWID;
