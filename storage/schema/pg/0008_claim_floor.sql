-- SPDX-License-Identifier: Apache-2.0
-- Claim rows live for seconds. While somebody holds a snapshot open none of the dead ones can be
-- cleaned away, and a take-over that walked past them all took a second longer for each 40 000 of
-- them. So each writer has a floor: all its rows below are gone. A writer's numbers rise, and one
-- of its transactions follows the other, so whoever sees its row s sees each earlier one that
-- committed, unless its fate was unknown: of such a row nothing was ever started.

CREATE TABLE foliot_data.claim_floor (
    writer bigint PRIMARY KEY,
    seq bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- All claim rows, by ranges of the index: from each floor to the next writer that has one, so that
-- writers without a floor are in between. The first range begins before all writers.
CREATE VIEW foliot_data.claim_seen AS
    SELECT c.* FROM (
        SELECT f.writer, f.seq, lead(f.writer) OVER (ORDER BY f.writer) AS next FROM (
            SELECT writer, seq FROM foliot_data.claim_floor
            UNION ALL
            SELECT '-9223372036854775808'::bigint, '-9223372036854775808'::bigint) f) f
    CROSS JOIN LATERAL (
        SELECT * FROM foliot_data.claim c
        WHERE (c.writer, c.seq) >= (f.writer, f.seq)
            AND c.writer < coalesce(f.next, 9223372036854775807)
        OFFSET 0) c;

-- As before, and the floors rise.
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
        SELECT c.ctid FROM foliot_data.claim c
        JOIN (SELECT * FROM unnest(writers, seqs)
            EXCEPT SELECT * FROM unnest(live_writers, live_seqs)) AS done (writer, seq)
        ON c.writer = done.writer AND c.seq = done.seq
        FOR UPDATE OF c SKIP LOCKED));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    -- One sweep at a time, and nobody waits for another.
    IF pg_try_advisory_xact_lock(8027411502369182822) THEN
        INSERT INTO foliot_data.claim_floor AS f (writer, seq)
        SELECT c.writer, min(c.seq) FROM foliot_data.claim_seen c GROUP BY 1
        ON CONFLICT (writer) DO UPDATE SET seq = excluded.seq, at = clock_timestamp()
            WHERE f.seq < excluded.seq;
        DELETE FROM foliot_data.claim_floor f WHERE f.at < clock_timestamp() - interval '1 day'
            AND NOT EXISTS (SELECT FROM foliot_data.claim c
                WHERE c.writer = f.writer AND c.seq >= f.seq);
    END IF;
    RETURN deleted;
END $$;
