-- Version 10: a message that was given up keeps the work that led to it.

ALTER TABLE dead_letters ADD COLUMN trace TEXT;
