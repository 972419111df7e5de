-- Version 9: which workers there are.

CREATE TABLE roll (
    worker   TEXT PRIMARY KEY,
    seen     INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    body     TEXT NOT NULL
) WITHOUT ROWID;
