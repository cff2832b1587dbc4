-- SPDX-License-Identifier: Apache-2.0
-- Order keys (docs/adr/0030). Only rows that have one are in the index.
ALTER TABLE task ADD COLUMN order_key BLOB;
ALTER TABLE task ADD COLUMN order_ms INTEGER NOT NULL DEFAULT 0;
CREATE INDEX task_order ON task (shard, queue, order_key, order_ms, seq)
    WHERE order_key IS NOT NULL;
ALTER TABLE dead ADD COLUMN order_key BLOB;
ALTER TABLE queue ADD COLUMN order_policy INTEGER NOT NULL DEFAULT 1;
ALTER TABLE queue ADD COLUMN order_failures INTEGER NOT NULL DEFAULT 1;

DROP VIEW pending;
CREATE VIEW pending AS
    SELECT printf('%03x-%016x', slot, seq) AS id, shard, queue,
        strftime('%Y-%m-%dT%H:%M:%fZ', due_ms / 1000.0, 'unixepoch') AS due, attempt, failures,
        unknowns,
        CAST(CASE WHEN order_key IS NULL THEN key ELSE substr(key, length(order_key) + 3) END AS TEXT)
            AS key,
        CAST(tags AS TEXT) AS tags, payload, CAST(order_key AS TEXT) AS order_key
    FROM task;
DROP VIEW given_up;
CREATE VIEW given_up AS
    SELECT printf('%03x-%016x', slot, seq) AS id, shard, queue,
        strftime('%Y-%m-%dT%H:%M:%fZ', dead_ms / 1000.0, 'unixepoch') AS died, attempt, failures,
        CAST(CASE WHEN order_key IS NULL THEN key ELSE substr(key, length(order_key) + 3) END AS TEXT)
            AS key,
        CAST(tags AS TEXT) AS tags, CAST(error_text AS TEXT) AS error, payload,
        CAST(order_key AS TEXT) AS order_key
    FROM dead;
