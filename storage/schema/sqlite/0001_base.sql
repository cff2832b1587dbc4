-- SPDX-License-Identifier: Apache-2.0
-- Everything of a cluster that lives in one file. One process has it open, one connection writes.

-- Whose database this is; the row is made by the program.
CREATE TABLE cluster (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    id TEXT NOT NULL,
    shard_count INTEGER NOT NULL
) STRICT;

-- The fence: a take-over raises the epoch, every write compares it.
CREATE TABLE shard (
    id INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL DEFAULT 0,
    owner TEXT NOT NULL DEFAULT '',
    since_ms INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Tasks that wait. bucket is the due time by the minute: within it the loader reads in the order
-- of ids, queue by queue, so that it can leave out those that are blocked.
CREATE TABLE task (
    shard INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    queue INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    unknowns INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    expire_ms INTEGER NOT NULL DEFAULT 0,
    key BLOB,
    tags BLOB,
    payload BLOB NOT NULL,
    PRIMARY KEY (shard, seq)
) STRICT;
CREATE INDEX task_due ON task (shard, queue, bucket, seq);

-- Members of claim rows: a row is all members of one (writer, row).
CREATE TABLE claim (
    writer INTEGER NOT NULL,
    row INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    deadline_ms INTEGER NOT NULL,
    PRIMARY KEY (writer, row, shard, seq, attempt)
) STRICT, WITHOUT ROWID;

-- Callers' own names for tasks: held while until_ms is null, then until that time.
CREATE TABLE key (
    shard INTEGER NOT NULL,
    queue INTEGER NOT NULL,
    key BLOB NOT NULL,
    seq INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    until_ms INTEGER,
    PRIMARY KEY (shard, queue, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX key_until ON key (until_ms) WHERE until_ms IS NOT NULL;

-- Tasks that were given up.
CREATE TABLE dead (
    queue INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    unknowns INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    expire_ms INTEGER NOT NULL DEFAULT 0,
    dead_ms INTEGER NOT NULL,
    key BLOB,
    tags BLOB,
    error_text BLOB NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (shard, seq)
) STRICT;
CREATE INDEX dead_by_queue ON dead (queue, shard, seq);

-- Results that are kept for a while.
CREATE TABLE ended (
    queue INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    outcome INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    ended_ms INTEGER NOT NULL,
    until_ms INTEGER NOT NULL,
    key BLOB,
    tags BLOB,
    response BLOB NOT NULL,
    PRIMARY KEY (shard, seq)
) STRICT;
CREATE INDEX ended_until ON ended (until_ms);

-- Policy. A number is never given twice: queue_number counts on.
CREATE TABLE queue_number (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    last INTEGER NOT NULL
) STRICT;
INSERT INTO queue_number VALUES (1, 0);
CREATE TABLE queue (
    id INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    target TEXT NOT NULL,
    target_kind INTEGER NOT NULL,
    at_most_once INTEGER NOT NULL,
    concurrency_max INTEGER NOT NULL,
    attempt_timeout_ms INTEGER NOT NULL,
    key_memory_ms INTEGER NOT NULL,
    retry_initial_ms INTEGER NOT NULL,
    retry_max_ms INTEGER NOT NULL,
    retry_age_max_ms INTEGER NOT NULL,
    retry_multiplier_permille INTEGER NOT NULL,
    retry_jitter_permille INTEGER NOT NULL,
    retry_failures_max INTEGER NOT NULL,
    retry_unknowns_max INTEGER NOT NULL,
    is_paused INTEGER NOT NULL DEFAULT 0,
    paused_until_ms INTEGER NOT NULL DEFAULT 0,
    is_draining INTEGER NOT NULL DEFAULT 0,
    result_memory_ms INTEGER NOT NULL DEFAULT 0,
    expire_after_ms INTEGER NOT NULL DEFAULT 0,
    UNIQUE (namespace, name)
) STRICT;

-- For people, while nobody has the file open: sqlite3 F 'SELECT * FROM pending'.
CREATE VIEW pending AS
    SELECT printf('%03x-%016x', slot, seq) AS id, shard, queue,
        strftime('%Y-%m-%dT%H:%M:%fZ', due_ms / 1000.0, 'unixepoch') AS due, attempt, failures,
        unknowns, CAST(key AS TEXT) AS key, CAST(tags AS TEXT) AS tags, payload
    FROM task;
CREATE VIEW given_up AS
    SELECT printf('%03x-%016x', slot, seq) AS id, shard, queue,
        strftime('%Y-%m-%dT%H:%M:%fZ', dead_ms / 1000.0, 'unixepoch') AS died, attempt, failures,
        CAST(key AS TEXT) AS key, CAST(tags AS TEXT) AS tags, CAST(error_text AS TEXT) AS error,
        payload
    FROM dead;
