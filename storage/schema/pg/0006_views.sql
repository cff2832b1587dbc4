-- SPDX-License-Identifier: Apache-2.0
-- The views once more, with tags and expiry, and two more of them.

-- "colour=red, size=9"; as with keys, what is not ASCII is escaped, so that no row can be in the way.
CREATE FUNCTION foliot.tags(bytes bytea) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN replace(rtrim(encode(bytes, 'escape'), E'\n'), E'\n', ', ');

DO $$
DECLARE
    shard integer;
    branches text[];
BEGIN
    FOREACH shard IN ARRAY string_to_array(current_setting('foliot.shards'), ',')::integer[] LOOP
        branches := branches || format(
            'SELECT foliot.task_id(slot, seq) AS id, %s AS shard, queue, foliot.at(due_ms) AS due,
                foliot.at(created_ms) AS created, attempt, failures, unknowns, payload,
                encode(key, ''escape'') AS key, foliot.tags(tags) AS tags,
                foliot.at(expire_ms) AS expires
                FROM foliot_data.%I', shard, 'task_' || lpad(shard::text, 4, '0'));
    END LOOP;
    EXECUTE 'CREATE OR REPLACE VIEW foliot.pending AS '
        || array_to_string(branches, ' UNION ALL ');
END $$;

CREATE OR REPLACE VIEW foliot.dead AS
    SELECT foliot.task_id(slot, seq) AS id, shard, queue, foliot.at(due_ms) AS due,
        foliot.at(created_ms) AS created, foliot.at(dead_ms) AS died, attempt, failures, unknowns,
        payload, encode(key, 'escape') AS key, encode(error_text, 'escape') AS error,
        foliot.tags(tags) AS tags, foliot.at(expire_ms) AS expires
    FROM foliot_data.dead;

CREATE VIEW foliot.ended AS
    SELECT foliot.task_id(slot, seq) AS id, shard, queue, foliot.at(due_ms) AS due,
        foliot.at(created_ms) AS created, foliot.at(ended_ms) AS ended,
        foliot.at(until_ms) AS kept_until,
        CASE how WHEN 1 THEN 'done' WHEN 2 THEN 'obsolete' WHEN 3 THEN 'expired'
            ELSE how::text END AS how,
        attempt, failures, unknowns, encode(key, 'escape') AS key, foliot.tags(tags) AS tags, response
    FROM foliot_data.ended
    WHERE until_ms > extract(epoch FROM clock_timestamp()) * 1000;

CREATE VIEW foliot.queue AS
    SELECT id, namespace, name, version, target, at_most_once, concurrency_max,
        is_paused AND (paused_until_ms = 0
            OR paused_until_ms > extract(epoch FROM clock_timestamp()) * 1000) AS paused,
        foliot.at(nullif(paused_until_ms, 0)) AS paused_until, is_draining AS draining,
        attempt_timeout_ms * interval '1 millisecond' AS attempt_timeout,
        retry_failures_max AS failures_max, retry_unknowns_max AS unknowns_max,
        key_memory_ms * interval '1 millisecond' AS key_memory,
        result_memory_ms * interval '1 millisecond' AS result_memory,
        nullif(expire_after_ms, 0) * interval '1 millisecond' AS expire_after
    FROM foliot_data.queue;

COMMENT ON VIEW foliot.ended IS 'results that are kept for a while';
COMMENT ON VIEW foliot.queue IS 'queues and their policy; in the home database';
