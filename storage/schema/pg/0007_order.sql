-- SPDX-License-Identifier: Apache-2.0
-- Order keys (docs/adr/0030). As in 0005: brokers of the version before may be at work. Only rows that
-- have an order key are in the index; the first of one key is found by one look.

LOCK TABLE foliot_data.claim IN ACCESS EXCLUSIVE MODE;
LOCK TABLE foliot_data.shard IN EXCLUSIVE MODE;

-- The caller's own key: with an order key both are stored, FF order-key FF key.
CREATE FUNCTION foliot.own_key(bytes bytea) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN encode(CASE WHEN substring(bytes FROM 1 FOR 1) = '\xff'::bytea
        THEN substring(bytes FROM 2 + position('\xff'::bytea IN substring(bytes FROM 2)))
        ELSE bytes END, 'escape');

ALTER TABLE foliot_data.dead ADD COLUMN order_key bytea;
-- on_failure: enum order_policy.
ALTER TABLE foliot_data.queue
    ADD COLUMN order_policy integer NOT NULL DEFAULT 1,
    ADD COLUMN order_failures integer NOT NULL DEFAULT 1;

DO $$
DECLARE
    shard integer;
    task text;
    branches text[];
BEGIN
    FOREACH shard IN ARRAY string_to_array(current_setting('foliot.shards'), ',')::integer[] LOOP
        task := format('task_%s', lpad(shard::text, 4, '0'));
        EXECUTE format('ALTER TABLE foliot_data.%I ADD COLUMN order_key bytea,'
            ' ADD COLUMN order_ms bigint', task);
        EXECUTE format('CREATE INDEX %I ON foliot_data.%I (queue, order_key, order_ms, seq)'
            ' WHERE order_key IS NOT NULL', task || '_order', task);
        branches := branches || format(
            'SELECT foliot.task_id(slot, seq) AS id, %s AS shard, queue, foliot.at(due_ms) AS due,
                foliot.at(created_ms) AS created, attempt, failures, unknowns, payload,
                foliot.own_key(key) AS key, foliot.tags(tags) AS tags,
                foliot.at(expire_ms) AS expires, encode(order_key, ''escape'') AS order_key,
                CASE WHEN order_key IS NOT NULL THEN foliot.at(order_ms) END AS order_due
                FROM foliot_data.%I', shard, task);
    END LOOP;
    EXECUTE 'CREATE OR REPLACE VIEW foliot.pending AS '
        || array_to_string(branches, ' UNION ALL ');
END $$;

CREATE OR REPLACE VIEW foliot.dead AS
    SELECT foliot.task_id(slot, seq) AS id, shard, queue, foliot.at(due_ms) AS due,
        foliot.at(created_ms) AS created, foliot.at(dead_ms) AS died, attempt, failures, unknowns,
        payload, foliot.own_key(key) AS key, encode(error_text, 'escape') AS error,
        foliot.tags(tags) AS tags, foliot.at(expire_ms) AS expires,
        encode(order_key, 'escape') AS order_key
    FROM foliot_data.dead;

CREATE OR REPLACE VIEW foliot.ended AS
    SELECT foliot.task_id(slot, seq) AS id, shard, queue, foliot.at(due_ms) AS due,
        foliot.at(created_ms) AS created, foliot.at(ended_ms) AS ended,
        foliot.at(until_ms) AS kept_until,
        CASE how WHEN 1 THEN 'done' WHEN 2 THEN 'obsolete' WHEN 3 THEN 'expired'
            ELSE how::text END AS how,
        attempt, failures, unknowns, foliot.own_key(key) AS key, foliot.tags(tags) AS tags, response
    FROM foliot_data.ended
    WHERE until_ms > extract(epoch FROM clock_timestamp()) * 1000;

CREATE OR REPLACE VIEW foliot.queue AS
    SELECT id, namespace, name, version, target, at_most_once, concurrency_max,
        is_paused AND (paused_until_ms = 0
            OR paused_until_ms > extract(epoch FROM clock_timestamp()) * 1000) AS paused,
        foliot.at(nullif(paused_until_ms, 0)) AS paused_until, is_draining AS draining,
        attempt_timeout_ms * interval '1 millisecond' AS attempt_timeout,
        retry_failures_max AS failures_max, retry_unknowns_max AS unknowns_max,
        key_memory_ms * interval '1 millisecond' AS key_memory,
        result_memory_ms * interval '1 millisecond' AS result_memory,
        nullif(expire_after_ms, 0) * interval '1 millisecond' AS expire_after,
        CASE order_policy WHEN 1 THEN 'block' WHEN 2 THEN 'skip' WHEN 3 THEN 'dead letter'
            ELSE order_policy::text END AS order_on_failure,
        order_failures
    FROM foliot_data.queue;
