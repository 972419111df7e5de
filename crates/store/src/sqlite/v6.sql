-- Version 6: who may do what.

CREATE TABLE api_keys (
    tenant   TEXT NOT NULL,
    id       TEXT NOT NULL,
    revision INTEGER NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
