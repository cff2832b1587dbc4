-- SPDX-License-Identifier: Apache-2.0
-- Tables that every database of a cluster has once. Settings given by the program:
-- foliot.cluster_id, foliot.shard_count, foliot.shards (ids of the shards that live here).

-- Whose database this is.
CREATE TABLE foliot_data.cluster (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    id text NOT NULL,
    shard_count integer NOT NULL,
    created timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO foliot_data.cluster (id, shard_count)
VALUES (current_setting('foliot.cluster_id'), current_setting('foliot.shard_count')::integer);

-- The fence: one row per shard. Writers lock it FOR SHARE, a take-over raises the epoch.
CREATE TABLE foliot_data.shard (
    id integer PRIMARY KEY,
    epoch bigint NOT NULL DEFAULT 0,
    owner text NOT NULL DEFAULT '',
    since timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
INSERT INTO foliot_data.shard (id)
SELECT unnest(string_to_array(current_setting('foliot.shards'), ',')::integer[]);

-- Claims of one batch, as parallel arrays of at most 256 members, so that a row fills no more than
-- a page and is never moved out of line. Several rows may carry one name.
CREATE TABLE foliot_data.claim (
    writer bigint NOT NULL,
    seq bigint NOT NULL,
    task_seqs bigint[] NOT NULL,
    deadlines_ms bigint[] NOT NULL,
    attempts integer[] NOT NULL,
    task_slots smallint[] NOT NULL,
    shards smallint[] NOT NULL -- those that have a member here, once each
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);
ALTER TABLE foliot_data.claim
    ALTER task_seqs SET STORAGE PLAIN,
    ALTER deadlines_ms SET STORAGE PLAIN,
    ALTER attempts SET STORAGE PLAIN,
    ALTER task_slots SET STORAGE PLAIN,
    ALTER shards SET STORAGE PLAIN;
CREATE INDEX claim_name ON foliot_data.claim (writer, seq);

-- Callers' own names for tasks: held while until_ms is null, then until that time.
CREATE TABLE foliot_data.key (
    seq bigint NOT NULL,
    since_ms bigint NOT NULL,
    until_ms bigint,
    replaced bigint NOT NULL,
    shard integer NOT NULL,
    queue integer NOT NULL,
    slot smallint NOT NULL,
    key bytea NOT NULL,
    PRIMARY KEY (shard, queue, key)
);
CREATE INDEX key_until ON foliot_data.key (until_ms) WHERE until_ms IS NOT NULL;

-- Tasks that were given up.
CREATE TABLE foliot_data.dead (
    seq bigint NOT NULL,
    due_ms bigint NOT NULL,
    created_ms bigint NOT NULL,
    dead_ms bigint NOT NULL,
    shard integer NOT NULL,
    queue integer NOT NULL,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    unknowns integer NOT NULL,
    slot smallint NOT NULL,
    payload bytea NOT NULL,
    key bytea,
    error_text bytea NOT NULL,
    PRIMARY KEY (shard, seq)
);
CREATE INDEX dead_by_queue ON foliot_data.dead (queue, dead_ms);

-- Policy; used in the home database only.
CREATE TABLE foliot_data.namespace (
    name text COLLATE "C" PRIMARY KEY,
    created timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE foliot_data.queue (
    id integer PRIMARY KEY,
    version integer NOT NULL,
    namespace text COLLATE "C" NOT NULL REFERENCES foliot_data.namespace,
    name text COLLATE "C" NOT NULL,
    target text NOT NULL,
    target_kind integer NOT NULL,
    at_most_once boolean NOT NULL,
    concurrency_max integer NOT NULL,
    attempt_timeout_ms bigint NOT NULL,
    key_memory_ms bigint NOT NULL,
    retry_initial_ms bigint NOT NULL,
    retry_max_ms bigint NOT NULL,
    retry_age_max_ms bigint NOT NULL,
    retry_multiplier_permille integer NOT NULL,
    retry_jitter_permille integer NOT NULL,
    retry_failures_max integer NOT NULL,
    retry_unknowns_max integer NOT NULL,
    UNIQUE (namespace, name)
);
