-- Version 4: what comes in from outside, and what else a run is answerable for.

-- A receipt whose place another run's has taken. It stays that run's account of what it did.
CREATE TABLE displaced (
    tenant TEXT NOT NULL,
    run    TEXT NOT NULL,
    key    TEXT NOT NULL,
    body   TEXT NOT NULL,
    PRIMARY KEY (tenant, run, key)
) WITHOUT ROWID;

-- What came in. Whatever proved where it came from is as unique as its key.
CREATE TABLE arrivals (
    tenant       TEXT NOT NULL,
    run          TEXT NOT NULL,
    proof        BLOB NOT NULL,
    forgotten_at INTEGER NOT NULL,
    body         TEXT NOT NULL,
    PRIMARY KEY (tenant, run)
) WITHOUT ROWID;
CREATE UNIQUE INDEX arrivals_by_proof ON arrivals (tenant, proof);
CREATE INDEX arrivals_by_end ON arrivals (forgotten_at);

-- The workflows in use, the newest version of each.
CREATE TABLE workflows (
    tenant   TEXT NOT NULL,
    workflow TEXT NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (tenant, workflow)
) WITHOUT ROWID;
