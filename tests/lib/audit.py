# SPDX-License-Identifier: Apache-2.0
"""A witness inside the brokers' database: triggers write down who claimed what, who raised which
epoch, how tasks ended, and every write to a task table by anybody but its shard's owner. A line is
written by the transaction that it is about, so what is rolled back leaves none.
"""
import subprocess

INSTALL = """
CREATE SCHEMA audit;
CREATE TABLE audit.line (at timestamptz NOT NULL DEFAULT clock_timestamp(), kind text NOT NULL,
    instance text NOT NULL, shard integer NOT NULL, slot integer NOT NULL DEFAULT 0,
    seq bigint NOT NULL DEFAULT 0, attempt integer NOT NULL DEFAULT 0);
CREATE FUNCTION audit.instance() RETURNS text LANGUAGE sql AS
    $$SELECT split_part(current_setting('application_name'), '/', 2)$$;
CREATE FUNCTION audit.on_claim() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit.line (kind, instance, shard, slot, seq, attempt)
    SELECT 'claim', audit.instance(), m.slot % c.shard_count, m.slot, m.seq, m.attempt
    FROM foliot_data.cluster c, unnest(NEW.task_slots, NEW.task_seqs, NEW.attempts)
        AS m (slot, seq, attempt);
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER INSERT ON foliot_data.claim
    FOR EACH ROW EXECUTE FUNCTION audit.on_claim();
CREATE FUNCTION audit.on_bump() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit.line (kind, instance, shard) VALUES ('bump', NEW.owner, NEW.id);
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER UPDATE ON foliot_data.shard
    FOR EACH ROW EXECUTE FUNCTION audit.on_bump();
CREATE FUNCTION audit.on_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit.line (kind, instance, shard)
    SELECT 'stale', audit.instance(), s.id FROM foliot_data.shard s
    WHERE s.id = TG_ARGV[0]::integer AND s.owner <> audit.instance();
    IF TG_OP = 'DELETE' THEN
        INSERT INTO audit.line (kind, instance, shard, slot, seq, attempt)
        VALUES ('end', audit.instance(), TG_ARGV[0]::integer, OLD.slot, OLD.seq, OLD.attempt);
    END IF;
    RETURN NULL;
END $$;
DO $$
DECLARE
    shard integer;
BEGIN
    FOR shard IN SELECT id FROM foliot_data.shard LOOP
        EXECUTE format('CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON foliot_data.%I
            FOR EACH ROW EXECUTE FUNCTION audit.on_task(%s)',
            'task_' || lpad(shard::text, 4, '0'), shard);
    END LOOP;
END $$;
"""


class Line:
    """What one line says; `task` as people write it, `at_us` in microseconds since 1970."""

    def __init__(self, text):
        at_us, self.kind, self.instance, shard, slot, seq, attempt = text.split("|")
        self.at_us, self.shard, self.attempt = int(at_us), int(shard), int(attempt)
        self.task = f"{int(slot):03x}-{int(seq):016x}"

    def __repr__(self):
        return f"{self.kind} {self.task}/{self.attempt} shard {self.shard} by {self.instance}"


class Audit:
    """The lines of one database, so far."""

    def __init__(self, conninfo):
        self.conninfo = conninfo
        self.ask(INSTALL)

    def ask(self, sql):
        done = subprocess.run(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", self.conninfo, "-c",
                               sql], check=True, capture_output=True, text=True)
        return done.stdout.splitlines()

    def lines(self, *kinds):
        names = ", ".join(f"'{kind}'" for kind in kinds)
        return [Line(text) for text in self.ask(
            "SELECT (extract(epoch FROM at) * 1000000)::bigint, kind, instance, shard, slot, seq,"
            f" attempt FROM audit.line WHERE kind IN ({names}) ORDER BY at")]

    def pending(self):
        """Tasks that have not ended."""
        return int(self.ask("SELECT count(*) FROM foliot.pending")[0])
