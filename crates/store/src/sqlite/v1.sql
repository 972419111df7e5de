-- Version 1.
-- Runs get a small number of their own, in the order they come, so that what belongs to the runs of this
-- minute lies together: a group commit then touches few pages.

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
    body       TEXT NOT NULL
);
CREATE UNIQUE INDEX runs_by_key ON runs (tenant, run);
CREATE INDEX runs_by_tenant ON runs (tenant, id);
CREATE INDEX runs_by_status ON runs (tenant, status, id);
CREATE INDEX runs_by_due ON runs (due_at) WHERE due_at IS NOT NULL;

-- One row per event. The row of an event that ends a step also holds the step's record; the row of the
-- first event holds the run's input.
CREATE TABLE history (
    run     INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    hash    BLOB NOT NULL,
    event   BLOB NOT NULL,
    seq     INTEGER,
    undo    INTEGER,
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

CREATE TABLE signals (
    run  INTEGER NOT NULL,
    id   TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run, id)
) WITHOUT ROWID;

-- AUTOINCREMENT: a handle must never name a second message.
CREATE TABLE queue (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    visible_at INTEGER NOT NULL,
    receives   INTEGER NOT NULL DEFAULT 0,
    tenant     TEXT NOT NULL,
    run        TEXT NOT NULL
);
CREATE INDEX queue_by_visible ON queue (visible_at, id);

CREATE TABLE dead_letters (
    id       INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL,
    receives INTEGER NOT NULL,
    tenant   TEXT NOT NULL,
    run      TEXT NOT NULL
);

CREATE TABLE blobs (
    sha256 BLOB PRIMARY KEY,
    body   BLOB NOT NULL
) WITHOUT ROWID;
