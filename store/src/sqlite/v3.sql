-- Version 3: a receipt whose place another run's has taken. It stays that run's account of what it did.

CREATE TABLE displaced (
    tenant TEXT NOT NULL,
    run    TEXT NOT NULL,
    key    TEXT NOT NULL,
    body   TEXT NOT NULL,
    PRIMARY KEY (tenant, run, key)
) WITHOUT ROWID;
