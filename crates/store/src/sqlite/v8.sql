-- Version 8: runs are found by what they are about and by when they began.

ALTER TABLE runs ADD COLUMN created_at INTEGER;
ALTER TABLE runs ADD COLUMN record TEXT;
UPDATE runs SET created_at = body ->> '$.created_at';

CREATE INDEX runs_by_time ON runs (tenant, created_at);
-- The time is in these as well, so that a run of another time is passed by without looking at it.
DROP INDEX runs_by_tenant;
DROP INDEX runs_by_status;
CREATE INDEX runs_by_tenant ON runs (tenant, id, created_at);
CREATE INDEX runs_by_status ON runs (tenant, status, id, created_at);
CREATE INDEX runs_by_record ON runs (tenant, record, id) WHERE record IS NOT NULL;

-- Every version that was put to use, and by whom. Of those before the newest of today nobody knows.
CREATE TABLE workflow_versions (
    tenant   TEXT NOT NULL,
    workflow TEXT NOT NULL,
    version  INTEGER NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (tenant, workflow, version)
) WITHOUT ROWID;
INSERT INTO workflow_versions (tenant, workflow, version, body)
    SELECT tenant, workflow, body ->> '$.version', body FROM workflows;

-- Whether anything is begun at all.
CREATE TABLE fleet (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    revision INTEGER NOT NULL,
    body     TEXT NOT NULL
);
