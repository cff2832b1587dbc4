-- SPDX-License-Identifier: Apache-2.0
-- One task table per shard that lives here, written by statements on the table itself: never
-- through a parent, which costs three quarters of the throughput (docs/adr/0010).

DO $$
DECLARE
    shard integer;
    task text;
BEGIN
    FOREACH shard IN ARRAY string_to_array(current_setting('foliot.shards'), ',')::integer[] LOOP
        task := format('task_%s', lpad(shard::text, 4, '0'));
        EXECUTE format(
            'CREATE TABLE foliot_data.%I (
                seq bigint NOT NULL,
                due_ms bigint NOT NULL,
                created_ms bigint NOT NULL,
                queue integer NOT NULL,
                attempt integer NOT NULL,
                failures integer NOT NULL,
                unknowns integer NOT NULL,
                slot smallint NOT NULL,
                payload bytea NOT NULL,
                key bytea
            ) WITH (fillfactor = 95, autovacuum_vacuum_scale_factor = 0.05,
                autovacuum_vacuum_insert_scale_factor = 1)', task);
        EXECUTE format('CREATE UNIQUE INDEX %I ON foliot_data.%I (seq)', task || '_seq', task);
        -- Due times by the minute, and within it in the order of ids: what a page of the loader is.
        EXECUTE format('CREATE INDEX %I ON foliot_data.%I ((due_ms >> 16), seq)', task || '_due',
            task);
    END LOOP;
END $$;

-- Delete claim rows that have no live member, in all shards that live here. The rows are listed
-- before the tasks are looked at, by an older snapshot, so a claim never looks dead because its
-- task is not visible yet; and a claim that is dead stays dead. Rows of one name go together. Rows
-- whose deadline is still to come are their writer's own business: there are many of them, and
-- nearly all are dropped by name.
CREATE FUNCTION foliot_data.claim_sweep() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    shard_total integer := (SELECT shard_count FROM foliot_data.cluster);
    writers bigint[] := '{}';
    seqs bigint[] := '{}';
    live_writers bigint[] := '{}';
    live_seqs bigint[] := '{}';
    here record;
    members record;
    task text;
    deleted bigint;
BEGIN
    FOR members IN
        SELECT m.slot % shard_total AS shard, array_agg(c.writer) AS writers,
            array_agg(c.seq) AS seqs, array_agg(m.slot) AS task_slots,
            array_agg(m.seq) AS task_seqs, array_agg(m.attempt) AS attempts
        FROM foliot_data.claim c, unnest(c.task_slots, c.task_seqs, c.attempts)
            AS m (slot, seq, attempt)
        WHERE c.deadlines_ms[1] < extract(epoch FROM clock_timestamp()) * 1000
        GROUP BY 1
    LOOP
        writers := writers || members.writers;
        seqs := seqs || members.seqs;
        task := 'task_' || lpad(members.shard::text, 4, '0');
        CONTINUE WHEN to_regclass('foliot_data.' || task) IS NULL;
        EXECUTE format(
            'SELECT array_agg(m.writer) AS writers, array_agg(m.seq) AS seqs
             FROM unnest($1, $2, $3, $4, $5) AS m (writer, seq, task_slot, task_seq, attempt)
             CROSS JOIN LATERAL (SELECT FROM foliot_data.%I t WHERE t.seq = m.task_seq
                 AND t.slot = m.task_slot AND t.attempt < m.attempt OFFSET 0) t', task)
        INTO here
        USING members.writers, members.seqs, members.task_slots, members.task_seqs,
            members.attempts;
        live_writers := live_writers || here.writers;
        live_seqs := live_seqs || here.seqs;
    END LOOP;
    -- Rows that somebody else is dropping at this moment are theirs: waiting could be a deadlock.
    DELETE FROM foliot_data.claim WHERE ctid = ANY (ARRAY(
        SELECT c.ctid FROM foliot_data.claim c
        JOIN (SELECT * FROM unnest(writers, seqs)
            EXCEPT SELECT * FROM unnest(live_writers, live_seqs)) AS done (writer, seq)
        ON c.writer = done.writer AND c.seq = done.seq
        FOR UPDATE OF c SKIP LOCKED));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END $$;
