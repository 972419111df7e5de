-- Version 7: one run at a time for each ticket.

-- The run that took a ticket last. It has the ticket until it is over.
CREATE TABLE tickets (
    tenant TEXT NOT NULL,
    ticket BLOB NOT NULL,
    run    TEXT NOT NULL,
    PRIMARY KEY (tenant, ticket)
) WITHOUT ROWID;
