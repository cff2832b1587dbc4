-- SPDX-License-Identifier: Apache-2.0
-- Tags, expiry, kept results, and what queues can do besides. Brokers of the version before may be
-- at work: new columns have no default, so that nothing is rewritten, and writes and sweeps are
-- held back before they have a lock of their own, so that there is nothing to meet in a deadlock.

LOCK TABLE foliot_data.claim IN ACCESS EXCLUSIVE MODE;
LOCK TABLE foliot_data.shard IN EXCLUSIVE MODE;

DO $$
DECLARE
    shard integer;
BEGIN
    FOREACH shard IN ARRAY string_to_array(current_setting('foliot.shards'), ',')::integer[] LOOP
        EXECUTE format('ALTER TABLE foliot_data.%I ADD COLUMN expire_ms bigint,'
            ' ADD COLUMN tags bytea', 'task_' || lpad(shard::text, 4, '0'));
    END LOOP;
END $$;

ALTER TABLE foliot_data.dead ADD COLUMN expire_ms bigint, ADD COLUMN tags bytea;
-- A page of dead letters is one queue's in one shard, by id.
DROP INDEX foliot_data.dead_by_queue;
CREATE INDEX dead_by_queue ON foliot_data.dead (queue, shard, seq);

-- Results that are kept for a while. how: enum task_end.
CREATE TABLE foliot_data.ended (
    seq bigint NOT NULL,
    due_ms bigint NOT NULL,
    created_ms bigint NOT NULL,
    ended_ms bigint NOT NULL,
    until_ms bigint NOT NULL,
    expire_ms bigint,
    shard integer NOT NULL,
    queue integer NOT NULL,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    unknowns integer NOT NULL,
    slot smallint NOT NULL,
    how smallint NOT NULL,
    key bytea,
    tags bytea,
    response bytea,
    PRIMARY KEY (shard, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 1);
CREATE INDEX ended_until ON foliot_data.ended (until_ms);

ALTER TABLE foliot_data.queue
    ADD COLUMN is_paused boolean NOT NULL DEFAULT false,
    ADD COLUMN paused_until_ms bigint NOT NULL DEFAULT 0,
    ADD COLUMN is_draining boolean NOT NULL DEFAULT false,
    ADD COLUMN result_memory_ms bigint NOT NULL DEFAULT 0,
    ADD COLUMN expire_after_ms bigint NOT NULL DEFAULT 0;
-- The highest number of a queue that was dropped: it is not given again.
ALTER TABLE foliot_data.cluster ADD COLUMN queue_last integer;
