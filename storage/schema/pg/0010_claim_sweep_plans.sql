-- SPDX-License-Identifier: Apache-2.0
-- While somebody holds a snapshot open nearly all entries of claim's index are dead, and the planner
-- counts the live rows only: a join over the whole index looked cheap to it, and walked past every
-- claim since, in each sweep. With OFFSET 0 there is one way left, a look for each name. The rest of
-- the function is as before.

CREATE OR REPLACE FUNCTION foliot_data.claim_sweep() RETURNS bigint LANGUAGE plpgsql AS $$
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
        FROM foliot_data.claim_seen c, unnest(c.task_slots, c.task_seqs, c.attempts)
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
        SELECT c.ctid FROM (SELECT * FROM unnest(writers, seqs)
            EXCEPT SELECT * FROM unnest(live_writers, live_seqs)) AS done (writer, seq)
        CROSS JOIN LATERAL (SELECT c.ctid FROM foliot_data.claim c
            WHERE c.writer = done.writer AND c.seq = done.seq
            OFFSET 0 FOR UPDATE SKIP LOCKED) c));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    -- One sweep at a time, and nobody waits for another.
    IF pg_try_advisory_xact_lock(8027411502369182822) THEN
        INSERT INTO foliot_data.claim_floor AS f (writer, seq)
        SELECT c.writer, min(c.seq) FROM foliot_data.claim_seen c GROUP BY 1
        ON CONFLICT (writer) DO UPDATE SET seq = excluded.seq, at = clock_timestamp()
            WHERE f.seq < excluded.seq;
        WITH gone AS (DELETE FROM foliot_data.claim_floor f
            WHERE f.at < clock_timestamp() - interval '1 day'
                AND NOT EXISTS (SELECT FROM foliot_data.claim c
                    WHERE c.writer = f.writer AND c.seq >= f.seq OFFSET 0)
            RETURNING f.writer, f.seq)
        DELETE FROM foliot_data.claim WHERE ctid = ANY (ARRAY(
            SELECT c.ctid FROM gone g
            CROSS JOIN LATERAL (SELECT c.ctid FROM foliot_data.claim c
                WHERE c.writer = g.writer AND c.seq < g.seq
                OFFSET 0 FOR UPDATE SKIP LOCKED) c));
    END IF;
    RETURN deleted;
END $$;
