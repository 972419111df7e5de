-- Version 2: who decides, and what is left behind.

ALTER TABLE queue ADD COLUMN errand TEXT NOT NULL DEFAULT 'walk';
ALTER TABLE dead_letters ADD COLUMN errand TEXT NOT NULL DEFAULT 'walk';

CREATE TABLE tenants (
    tenant   TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    body     TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE policies (
    tenant TEXT NOT NULL,
    hash   BLOB NOT NULL,
    body   TEXT NOT NULL,
    PRIMARY KEY (tenant, hash)
) WITHOUT ROWID;

-- One row per request for approval. Whether people can still answer it is a column of its own, so that
-- those can be listed without looking at all the others.
CREATE TABLE approvals (
    id     INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    name   TEXT NOT NULL,
    run    INTEGER NOT NULL,
    open   INTEGER,
    body   TEXT NOT NULL
);
CREATE UNIQUE INDEX approvals_by_name ON approvals (tenant, name);
CREATE INDEX approvals_by_run ON approvals (run, id);
CREATE INDEX approvals_open ON approvals (tenant, id) WHERE open IS NOT NULL;

CREATE TABLE cards (
    tenant TEXT NOT NULL,
    name   TEXT NOT NULL,
    body   TEXT NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

-- The log of runs: one row per entry, and its right edge, which is all that appending needs.
CREATE TABLE log (
    n        INTEGER PRIMARY KEY,
    run      INTEGER NOT NULL UNIQUE,
    position TEXT NOT NULL
);
CREATE TABLE log_edge (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    frontier TEXT NOT NULL
);

CREATE TABLE evidence (
    run  INTEGER PRIMARY KEY,
    body TEXT NOT NULL
);
