-- SPDX-License-Identifier: Apache-2.0
-- For people in psql: what is waiting, and what was given up.

CREATE FUNCTION foliot.task_id(slot smallint, seq bigint) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN lpad(to_hex(slot::integer), 3, '0') || '-' || lpad(to_hex(seq), 16, '0');

CREATE FUNCTION foliot.at(ms bigint) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN to_timestamp(0) + ms * interval '1 millisecond';

DO $$
DECLARE
    shard integer;
    branches text[];
BEGIN
    FOREACH shard IN ARRAY string_to_array(current_setting('foliot.shards'), ',')::integer[] LOOP
        branches := branches || format(
            'SELECT foliot.task_id(slot, seq) AS id, %s AS shard, queue, foliot.at(due_ms) AS due,
                foliot.at(created_ms) AS created, attempt, failures, unknowns, payload,
                encode(key, ''escape'') AS key FROM foliot_data.%I', shard, 'task_' || lpad(shard::text, 4, '0'));
    END LOOP;
    EXECUTE 'CREATE VIEW foliot.pending AS ' || array_to_string(branches, ' UNION ALL ');
END $$;

CREATE VIEW foliot.dead AS
    SELECT foliot.task_id(slot, seq) AS id, shard, queue, foliot.at(due_ms) AS due,
        foliot.at(created_ms) AS created, foliot.at(dead_ms) AS died, attempt, failures, unknowns,
        payload, encode(key, 'escape') AS key, encode(error_text, 'escape') AS error
    FROM foliot_data.dead;

COMMENT ON VIEW foliot.pending IS 'tasks that wait, of all shards in this database';
COMMENT ON VIEW foliot.dead IS 'tasks that were given up';
