-- Version 5: a message tells which work led to it. One of before belongs to its run's own story.

ALTER TABLE queue ADD COLUMN trace TEXT;
