# SPDX-License-Identifier: Apache-2.0
"""A witness inside a database of the brokers: triggers write a line for each task that is made,
changed or removed, each claim, each raised epoch, and each write to a shard by anybody but its
owner. A line is written by the transaction that it is about: what is rolled back leaves none, and
what a promotion has lost is what only the old primary has.
"""
INSTALL = """
CREATE SCHEMA witness;
CREATE TABLE witness.line (number bigserial, at_us bigint NOT NULL
        DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    kind text NOT NULL, instance text NOT NULL, shard integer NOT NULL,
    slot integer NOT NULL DEFAULT 0, seq bigint NOT NULL DEFAULT 0,
    attempt integer NOT NULL DEFAULT 0);
CREATE FUNCTION witness.instance() RETURNS text LANGUAGE sql AS
    $$SELECT split_part(current_setting('application_name'), '/', 2)$$;
CREATE FUNCTION witness.on_claim() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO witness.line (kind, instance, shard, slot, seq, attempt)
    SELECT 'claim', witness.instance(), m.slot % c.shard_count, m.slot, m.seq, m.attempt
    FROM foliot_data.cluster c, unnest(NEW.task_slots, NEW.task_seqs, NEW.attempts)
        AS m (slot, seq, attempt);
    RETURN NULL;
END $$;
CREATE TRIGGER witness AFTER INSERT ON foliot_data.claim
    FOR EACH ROW EXECUTE FUNCTION witness.on_claim();
CREATE FUNCTION witness.on_bump() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO witness.line (kind, instance, shard, seq)
    VALUES ('bump', NEW.owner, NEW.id, NEW.epoch);
    RETURN NULL;
END $$;
CREATE TRIGGER witness AFTER UPDATE ON foliot_data.shard
    FOR EACH ROW EXECUTE FUNCTION witness.on_bump();
CREATE FUNCTION witness.on_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO witness.line (kind, instance, shard)
    SELECT 'stale', witness.instance(), s.id FROM foliot_data.shard s
    WHERE s.id = TG_ARGV[0]::integer AND s.owner <> witness.instance();
    IF TG_OP = 'DELETE' THEN
        INSERT INTO witness.line (kind, instance, shard, slot, seq, attempt) VALUES ('end',
            witness.instance(), TG_ARGV[0]::integer, OLD.slot, OLD.seq, OLD.attempt);
    ELSE
        INSERT INTO witness.line (kind, instance, shard, slot, seq, attempt) VALUES (
            CASE WHEN TG_OP = 'INSERT' THEN 'make' ELSE 'change' END,
            witness.instance(), TG_ARGV[0]::integer, NEW.slot, NEW.seq, NEW.attempt);
    END IF;
    RETURN NULL;
END $$;
DO $$
DECLARE
    shard integer;
BEGIN
    FOR shard IN SELECT id FROM foliot_data.shard LOOP
        EXECUTE format('CREATE TRIGGER witness AFTER INSERT OR UPDATE OR DELETE ON foliot_data.%I
            FOR EACH ROW EXECUTE FUNCTION witness.on_task(%s)',
            'task_' || lpad(shard::text, 4, '0'), shard);
    END LOOP;
END $$;
ALTER SCHEMA witness OWNER TO foliot;
GRANT ALL ON ALL TABLES IN SCHEMA witness TO foliot;
GRANT ALL ON ALL SEQUENCES IN SCHEMA witness TO foliot;
"""
# (at in µs, kind, instance, shard, task, attempt), in the order in which they were written: the
# clock of a database is not to be relied on.
RECENT_US = 120_000_000  # What a promotion loses is not older than this.
LINES = ("SELECT at_us, kind, instance, shard, lpad(to_hex(slot), 3, '0') || '-' ||"
         " lpad(to_hex(seq), 16, '0'), attempt FROM witness.line"
         " WHERE at_us > {since_us} ORDER BY number")
PENDING = ("SELECT id, attempt, (extract(epoch FROM due) * 1000)::bigint,"
           " split_part(convert_from(payload, 'UTF8'), ':', 1) FROM foliot.pending")
DEAD = ("SELECT id, attempt, 0, split_part(convert_from(payload, 'UTF8'), ':', 1) FROM foliot.dead")
EPOCHS = "SELECT id, epoch FROM foliot_data.shard"


def read_lines(server, database, since_us=0):
    """The lines of a database, as lists."""
    found = []
    for row in server.ask(LINES.format(since_us=since_us), database):
        at_us, kind, instance, shard, task, attempt = row.split("|")
        found.append([int(at_us), kind, instance, int(shard), task, int(attempt)])
    return found


def read_rows(server, database, sql):
    """(task, attempt, due in ms, token) of what is pending, or dead."""
    return [[task, int(attempt), int(due), token] for task, attempt, due, token in
            (row.split("|") for row in server.ask(sql, database))]


def read_lost(old, new, database, since_us):
    """What an old primary has and the new one has not, of the lines since then."""
    since_us -= RECENT_US
    kept = {tuple(line) for line in read_lines(new, database, since_us)}
    return [line for line in read_lines(old, database, since_us) if tuple(line) not in kept]
