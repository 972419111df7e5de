-- Version 7: one run at a time for each ticket; what comes twice in other words; schedules.

-- The run that took a ticket last, which has it until it is over, and who is next.
CREATE TABLE tickets (
    tenant TEXT NOT NULL,
    ticket BLOB NOT NULL,
    run    TEXT NOT NULL,
    next   TEXT,
    PRIMARY KEY (tenant, ticket)
) WITHOUT ROWID;

-- What an arrival tells, in whichever words, and when it came.
ALTER TABLE arrivals ADD COLUMN alike BLOB;
ALTER TABLE arrivals ADD COLUMN came_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX arrivals_alike ON arrivals (tenant, alike, came_at) WHERE alike IS NOT NULL;

-- When a workflow that is started by a schedule is next to be started.
ALTER TABLE workflows ADD COLUMN due_at INTEGER;
CREATE INDEX workflows_by_due ON workflows (due_at) WHERE due_at IS NOT NULL;
