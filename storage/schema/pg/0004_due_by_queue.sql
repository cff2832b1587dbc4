-- SPDX-License-Identifier: Apache-2.0
-- Due times by queue: a page of the loader leaves out the queues that are blocked, and millions of
-- overdue rows of theirs cost it nothing. The bucket is cut to 32 bits, four thousand years, so that
-- an entry is no larger than before (docs/adr/0016).

DO $$
DECLARE
    shard integer;
    task text;
BEGIN
    FOREACH shard IN ARRAY string_to_array(current_setting('foliot.shards'), ',')::integer[] LOOP
        task := format('task_%s', lpad(shard::text, 4, '0'));
        EXECUTE format('DROP INDEX foliot_data.%I', task || '_due');
        EXECUTE format('CREATE INDEX %I ON foliot_data.%I (queue,
            (least(greatest(due_ms >> 16, -2147483648), 2147483647)::integer), seq)',
            task || '_due', task);
    END LOOP;
END $$;
