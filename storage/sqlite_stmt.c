/* SPDX-License-Identifier: Apache-2.0
 *
 * The statements. Those on one task take ?1 shard, ?2 seq, ?3 slot, ?4 the attempt that its row
 * must have.
 */
#include "storage/sqlite_stmt.h"

#include "lib/base/check.h"

#define MATCHES " shard = ?1 AND seq = ?2 AND slot = ?3 AND attempt = ?4"

/* Rows of a read, in the order in which sqlite_read.c takes them. */
#define ROW_START                                                                          \
    "SELECT seq, slot, queue, attempt, failures, unknowns, due_ms, created_ms, expire_ms," \
    " key, tags, "
#define ROW                  ROW_START "order_key, order_ms, length(payload)"
#define DEAD_ROW             ROW_START "order_key, 0, length(payload)"
#define ENDED_ROW            ROW_START "NULL, 0, 0"
#define SHORT_PAYLOAD(limit) "CASE WHEN length(payload) <= " limit " THEN payload END"

/* What a dead letter has behind its payload; kept for ever, its end is TASK_END_DEAD. */
#define LETTER ", dead_ms, 9223372036854775807, 4, NULL, error_text FROM dead WHERE shard = ?1 AND "

/* Tasks and dead letters by queue, and how many rows of a kind were looked at. */
#define COUNTS(which)                                                                          \
    "SELECT queue, sum(pending), sum(overdue), sum(dead), min(first_due_ms), max(looked) FROM" \
    " (SELECT queue, count(*) AS pending, sum(due_ms <= ?2) AS overdue, 0 AS dead,"            \
    "   min(due_ms) AS first_due_ms, sum(count(*)) OVER () AS looked"                          \
    "  FROM (SELECT queue, due_ms FROM task WHERE " which " LIMIT ?3) GROUP BY queue"          \
    "  UNION ALL SELECT queue, 0, 0, count(*), NULL, sum(count(*)) OVER ()"                    \
    "  FROM (SELECT queue FROM dead WHERE " which " LIMIT ?3) GROUP BY queue)"                 \
    " GROUP BY queue ORDER BY queue LIMIT ?4"

#define QUEUE_COLUMNS                                                                            \
    "version, target, target_kind, at_most_once, concurrency_max, attempt_timeout_ms,"           \
    " key_memory_ms, retry_initial_ms, retry_max_ms, retry_age_max_ms,"                          \
    " retry_multiplier_permille, retry_jitter_permille, retry_failures_max, retry_unknowns_max," \
    " is_paused, paused_until_ms, is_draining, result_memory_ms, expire_after_ms, order_policy," \
    " order_failures"
#define QUEUE_VALUES                                                                               \
    "?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, " \
    "?22"

static const char *const texts[SQLITE_STMT_COUNT] = {
    [SQLITE_STMT_BEGIN] = "BEGIN IMMEDIATE",
    [SQLITE_STMT_COMMIT] = "COMMIT",
    [SQLITE_STMT_ROLLBACK] = "ROLLBACK",
    [SQLITE_STMT_READ_BEGIN] = "BEGIN",
    [SQLITE_STMT_EPOCH] = "SELECT epoch FROM shard WHERE id = ?1",
    [SQLITE_STMT_BUMP] = "UPDATE shard SET epoch = ?2, owner = ?3, since_ms = ?4"
                         " WHERE id = ?1 AND epoch < ?2",
    [SQLITE_STMT_EPOCH_MAX] = "SELECT max(epoch) FROM shard",
    [SQLITE_STMT_PROBE] = "UPDATE cluster SET shard_count = shard_count",
    [SQLITE_STMT_INSERT] =
        "INSERT OR IGNORE INTO task (shard, seq, slot, queue, attempt, failures, unknowns, due_ms,"
        " bucket, created_ms, expire_ms, key, tags, payload, order_key, order_ms)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
    [SQLITE_STMT_DELETE] = "DELETE FROM task WHERE" MATCHES " RETURNING queue, key",
    [SQLITE_STMT_DELETE_KEYLESS] = "DELETE FROM task WHERE" MATCHES,
    [SQLITE_STMT_CHANGE] = "UPDATE task SET attempt = ?5, due_ms = coalesce(?6, due_ms), bucket = "
                           "coalesce(?7, bucket),"
                           " failures = coalesce(?8, failures), unknowns = coalesce(?9, unknowns),"
                           " payload = coalesce(?10, payload),"
                           " order_ms = coalesce(?11, order_ms) WHERE" MATCHES,
    [SQLITE_STMT_CHECK] = "SELECT 1 FROM task WHERE" MATCHES,
    [SQLITE_STMT_RAISE] = "UPDATE task SET attempt = ?5 WHERE" MATCHES,
    // A task that died, was revived and died again has one letter, the last.
    [SQLITE_STMT_BURY] =
        "INSERT OR REPLACE INTO dead (queue, shard, seq, slot, attempt, failures, unknowns, due_ms,"
        " created_ms, expire_ms, dead_ms, key, tags, error_text, payload, order_key)"
        " SELECT queue, shard, seq, slot, ?5, ?6, unknowns, due_ms, created_ms, expire_ms, ?7,"
        " key, tags, ?8, payload, order_key FROM task WHERE" MATCHES,
    [SQLITE_STMT_KEEP] =
        "INSERT OR REPLACE INTO ended (queue, shard, seq, slot, attempt, failures, unknowns, "
        "due_ms,"
        " created_ms, expire_ms, key, tags, ended_ms, until_ms, outcome, response)"
        " SELECT queue, shard, seq, slot, ?5, ?6, unknowns, due_ms, created_ms, expire_ms, key,"
        " tags, ?7, ?8, ?9, ?10 FROM task WHERE" MATCHES,
    [SQLITE_STMT_LETTER_CHECK] = "SELECT 1 FROM dead WHERE" MATCHES,
    [SQLITE_STMT_LETTER_DELETE] = "DELETE FROM dead WHERE" MATCHES,
    [SQLITE_STMT_PURGE] = "DELETE FROM dead WHERE shard = ?1 AND seq = ?2 AND slot = ?3",
    [SQLITE_STMT_KEY_FIND] =
        "SELECT seq, slot, until_ms FROM key WHERE shard = ?1 AND queue = ?2 AND key = ?3",
    [SQLITE_STMT_KEY_TAKE] = "INSERT OR REPLACE INTO key (shard, queue, key, seq, slot, until_ms)"
                             " VALUES (?1, ?2, ?3, ?4, ?5, NULL)",
    [SQLITE_STMT_KEY_END] =
        "UPDATE key SET until_ms = ?6"
        " WHERE shard = ?1 AND queue = ?2 AND key = ?3 AND seq = ?4 AND slot = ?5",
    // A minute late, so that the clock that the keys go by need not be ours; a page at a time.
    [SQLITE_STMT_KEY_SWEEP] =
        "DELETE FROM key WHERE (shard, queue, key) IN"
        " (SELECT shard, queue, key FROM key WHERE until_ms < ?1 - 60000 LIMIT ?2)",
    [SQLITE_STMT_ENDED_SWEEP] = "DELETE FROM ended WHERE rowid IN"
                                " (SELECT rowid FROM ended WHERE until_ms < ?1 - 60000 LIMIT ?2)",
    [SQLITE_STMT_CLAIM_PUT] =
        "INSERT INTO claim (writer, row, shard, seq, attempt, slot, deadline_ms)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO UPDATE"
        " SET deadline_ms = max(deadline_ms, excluded.deadline_ms)",
    [SQLITE_STMT_CLAIM_DROP] = "DELETE FROM claim WHERE writer = ?1 AND row = ?2",
    [SQLITE_STMT_CLAIM_SWEEP] =
        "DELETE FROM claim WHERE (writer, row) NOT IN (SELECT c.writer, c.row FROM claim c"
        " JOIN task t ON t.shard = c.shard AND t.seq = c.seq"
        " WHERE t.slot = c.slot AND t.attempt < c.attempt)",
    [SQLITE_STMT_NEXT_QUEUE] =
        "SELECT queue FROM task WHERE shard = ?1 AND queue > ?2 ORDER BY queue LIMIT 1",
    [SQLITE_STMT_READ_SLICE] = ROW ", " SHORT_PAYLOAD(
        "?6") " FROM task"
              " WHERE shard = ?1 AND queue = ?7 AND (bucket, seq) > (?2, ?3) AND bucket <= ?4"
              " ORDER BY bucket, seq LIMIT ?5",
    [SQLITE_STMT_READ_TASK] = ROW ", payload FROM task WHERE shard = ?1 AND seq = ?2 AND slot = ?3",
    [SQLITE_STMT_READ_ORDER] =
        ROW ", " SHORT_PAYLOAD("?5") " FROM task"
                                     " WHERE shard = ?1 AND queue = ?2 AND order_key = ?3"
                                     " ORDER BY order_ms, seq LIMIT ?4",
    [SQLITE_STMT_READ_CLAIMS] =
        "SELECT writer, row, seq, slot, attempt, deadline_ms FROM claim WHERE shard = ?1",
    [SQLITE_STMT_READ_OVERDUE] = "SELECT writer, row, seq, slot, attempt, deadline_ms FROM claim"
                                 " WHERE shard = ?1 AND deadline_ms <= ?2 LIMIT ?3",
    [SQLITE_STMT_READ_DEAD] =
        DEAD_ROW ", " SHORT_PAYLOAD("?5") LETTER "queue = ?2 AND seq > ?3 ORDER BY seq LIMIT ?4",
    [SQLITE_STMT_READ_LETTER] = DEAD_ROW ", payload" LETTER "seq = ?2 AND slot = ?3",
    [SQLITE_STMT_READ_ENDED] = ENDED_ROW ", NULL, ended_ms, until_ms, outcome, response, NULL"
                                         " FROM ended WHERE shard = ?1 AND seq = ?2 AND slot = ?3"
                                         " AND until_ms > ?4",
    [SQLITE_STMT_READ_COUNTS] = COUNTS("shard = ?1"),
    [SQLITE_STMT_READ_COUNTS_QUEUE] = COUNTS("shard = ?1 AND queue = ?5"),
    [SQLITE_STMT_QUEUE_FIND] = "SELECT id, version FROM queue WHERE namespace = ?1 AND name = ?2",
    [SQLITE_STMT_QUEUE_COUNT] = "SELECT count(*) FROM queue",
    [SQLITE_STMT_QUEUE_NUMBER] = "UPDATE queue_number SET last = last + 1 RETURNING last",
    [SQLITE_STMT_QUEUE_CREATE] = "INSERT INTO queue (id, " QUEUE_COLUMNS ", namespace, name)"
                                 " VALUES (?1, " QUEUE_VALUES ", ?23, ?24)",
    [SQLITE_STMT_QUEUE_REPLACE] =
        "UPDATE queue SET (" QUEUE_COLUMNS ") = (" QUEUE_VALUES ") WHERE id = ?1",
    [SQLITE_STMT_QUEUE_VERSION] = "SELECT version FROM queue WHERE id = ?1",
    [SQLITE_STMT_QUEUE_DROP] = "DELETE FROM queue WHERE id = ?1",
    [SQLITE_STMT_QUEUE_LIST] =
        "SELECT id, " QUEUE_COLUMNS ", namespace, name FROM queue ORDER BY id",
};

const char *sqlite_stmt_text(enum sqlite_stmt stmt)
{
    REQUIRE((int)stmt >= 0 && stmt < SQLITE_STMT_COUNT);
    return texts[stmt];
}
