-- Version 3: messages go by lanes, and blobs are their tenant's.

ALTER TABLE queue ADD COLUMN lane TEXT NOT NULL DEFAULT 'steps';
ALTER TABLE dead_letters ADD COLUMN lane TEXT NOT NULL DEFAULT 'steps';
DROP INDEX queue_by_visible;
CREATE INDEX queue_by_lane ON queue (lane, visible_at, id);

-- The bytes are kept once; this says whose they are, and what for.
CREATE TABLE shelves (
    shelf  TEXT NOT NULL,
    tenant TEXT NOT NULL,
    sha256 BLOB NOT NULL,
    PRIMARY KEY (shelf, tenant, sha256)
) WITHOUT ROWID;

-- Nothing says whose the blobs of before are: whoever has runs here may find them as before.
INSERT INTO shelves (shelf, tenant, sha256)
    SELECT shelf.column1, tenants.tenant, blobs.sha256
    FROM (VALUES ('payloads'), ('evidence')) AS shelf, (SELECT DISTINCT tenant FROM runs) AS tenants, blobs;
