-- SPDX-License-Identifier: Apache-2.0
-- Fewer statistics of task tables. Where tasks come and go all rows of all tables are new ones every
-- minute, and autovacuum reads and sorts 30 000 of each to find out what is in them. No statement
-- depends on that (test_store_pg_plans): 3 000 are enough.

DO $$
DECLARE
    shard integer;
    task text;
    columns text;
BEGIN
    FOREACH shard IN ARRAY string_to_array(current_setting('foliot.shards'), ',')::integer[] LOOP
        task := format('task_%s', lpad(shard::text, 4, '0'));
        SELECT string_agg(format('ALTER COLUMN %I SET STATISTICS 10', attname), ', ') INTO columns
        FROM pg_attribute
        WHERE attrelid = format('foliot_data.%I', task)::regclass AND attnum > 0
            AND NOT attisdropped;
        EXECUTE format('ALTER TABLE foliot_data.%I %s', task, columns);
        -- The column that is an expression has statistics of its own.
        EXECUTE format('ALTER INDEX foliot_data.%I ALTER COLUMN 2 SET STATISTICS 10',
            task || '_due');
    END LOOP;
END $$;
