/* SPDX-License-Identifier: Apache-2.0
 *
 * The statements. Those that tidy up in other brokers' rows never wait for a lock (SKIP LOCKED):
 * they run inside a write, and two writes that waited for each other would be a deadlock.
 */
#include "storage/pg_stmt.h"

#include "storage/page.h"
#include "storage/pg_array.h"

#include "lib/base/check.h"
#include "lib/base/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BYTEA  PG_TYPE_BYTEA
#define TEXT   PG_TYPE_TEXT
#define I4     PG_TYPE_INT4
#define I8     PG_TYPE_INT8
#define BYTEAS PG_TYPE_BYTEA_ARRAY
#define I2S    PG_TYPE_INT2_ARRAY
#define I4S    PG_TYPE_INT4_ARRAY
#define I8S    PG_TYPE_INT8_ARRAY

/* The row of a task is the one that the operation expects: $3 is attempt · 4096 + slot. */
#define MATCHES                   \
    "{mine} AND t.seq = ANY ($2)" \
    " AND (t.attempt::bigint << 12 | t.slot) = ($3)[" AT "]"
#define AT "width_bucket(t.seq, $2)"

/* End the keys of deleted tasks, where they still name them. */
#define FREED                                                                              \
    "freed AS (UPDATE foliot_data.key k SET until_ms = ($4)[width_bucket(k.seq, $2)]"      \
    " WHERE k.ctid = ANY (ARRAY(SELECT (SELECT h.ctid FROM foliot_data.key h"              \
    "  WHERE h.shard = {shard} AND h.queue = g.queue AND h.key = g.key AND h.seq = g.seq)" \
    " FROM gone g WHERE g.key IS NOT NULL)))"

/* What ran out a minute ago, but not more than $2 ms before that. The clock is in a subselect: it
 * is volatile, and a condition with it is no index's. */
#define PAST                                                                         \
    "past AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 60000" \
    "  AS until_ms)"
#define IN_PAST                              \
    "until_ms < (SELECT until_ms FROM past)" \
    " AND until_ms >= (SELECT until_ms - $2 FROM past)"

/* The columns of every insert, and their values behind the epoch. Functions in the list of what is
 * selected go forward row by row together; in FROM each would first fill a store of its own. */
#define COLUMNS "seq, due_ms, created_ms, queue, attempt, failures, unknowns, slot, payload"
#define VALUES                                                                                 \
    "unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[]), unnest($5::integer[])," \
    " unnest($6::integer[]), unnest($7::integer[]), unnest($8::integer[]),"                    \
    " unnest($9::smallint[]), unnest($10::bytea[])"
#define TAG_VALUES   "unnest($11::bigint[]), unnest($12::bytea[])"
#define ORDER_VALUES "unnest($13::bytea[]), unnest($14::bigint[])"
#define VALUE_TYPES  I8S, I8S, I8S, I4S, I4S, I4S, I4S, I2S, BYTEAS

/* Rows of a read: the payload only if it is short, its length always. */
#define ROW                                                                               \
    "t.seq, t.due_ms, t.created_ms, t.queue, t.attempt, t.failures, t.unknowns, t.slot, " \
    "t.expire_ms"
#define SHORT_PAYLOAD                                                                        \
    "CASE WHEN octet_length(t.payload) <= 1024 THEN t.payload END, octet_length(t.payload)," \
    " t.key, t.tags, "
#define WHOLE_PAYLOAD "t.payload, octet_length(t.payload), t.key, t.tags, "

/* What a row has behind its payload: its place among those of its order key. */
#define ORDER        "t.order_key, t.order_ms"
#define LETTER_ORDER "t.order_key, 0::bigint"
#define ENDED_ORDER  "NULL::bytea, 0::bigint"

/* What a dead letter has besides; kept for ever, and its end has a number: TASK_END_DEAD. */
#define LETTER "t.dead_ms, 9223372036854775807::bigint, 4::smallint, NULL::bytea, t.error_text"
#define BY_ID  "t.shard = $1 AND t.seq = ANY ($2) AND t.slot = ($3)[" AT "]"
#define CLAIMS                                                        \
    "SELECT c.writer, c.seq, m.seq, m.deadline_ms, m.attempt, m.slot" \
    " FROM foliot_data.claim_seen c CROSS JOIN LATERAL"               \
    " unnest(c.task_seqs, c.deadlines_ms, c.attempts, c.task_slots)"  \
    " AS m (seq, deadline_ms, attempt, slot)"                         \
    " WHERE $1 = ANY (c.shards) AND m.slot % $2 = $1"
#define LETTERS                                               \
    "SELECT " ROW ", " WHOLE_PAYLOAD LETTER_ORDER ", " LETTER \
    " FROM foliot_data.dead t WHERE " BY_ID

/* The order of a queue's rows in the due index, by its own expressions: else it is not used. */
#define BUCKET "least(greatest(t.due_ms >> 16, -2147483648), 2147483647)::integer"
#define PLACE  BUCKET ", t.seq"

/* Least share of a queue, as text. */
#define TEXT_OF(value) #value
#define AS_TEXT(value) TEXT_OF(value)
#define SHARE_MIN      AS_TEXT(PAGE_SHARE_MIN)

/* Rows of a slice: $1 and $2 are the place before it, $3 is its last bucket. */
#define IN_SLICE "(" PLACE ") > ($1, $2) AND " BUCKET " <= $3"

#define QUEUE                                                                                \
    "target, target_kind, at_most_once, concurrency_max, attempt_timeout_ms, key_memory_ms," \
    " retry_initial_ms, retry_max_ms, retry_age_max_ms, retry_multiplier_permille,"          \
    " retry_jitter_permille, retry_failures_max, retry_unknowns_max, is_paused,"             \
    " paused_until_ms, is_draining, result_memory_ms, expire_after_ms, order_policy,"        \
    " order_failures"
#define QUEUE_VALUES                                                              \
    "$3, $4, $5::integer::boolean, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15," \
    " $16::integer::boolean, $17, $18::integer::boolean, $19, $20, $21, $22"
#define QUEUE_TYPES \
    TEXT, TEXT, TEXT, I4, I4, I4, I8, I8, I8, I8, I8, I4, I4, I4, I4, I4, I8, I4, I8, I8, I4, I4

static const struct pg_stmt_info stmts[PG_STMT_COUNT] = {
    [PG_STMT_INSERT] = {"insert",
                        "INSERT INTO {task} (" COLUMNS ") SELECT " VALUES " WHERE {mine}",
                        10,
                        {I8, VALUE_TYPES}},
    [PG_STMT_INSERT_TAGGED] = {"insert_tagged",
                               "INSERT INTO {task} (" COLUMNS ", expire_ms, tags)"
                               " SELECT " VALUES ", " TAG_VALUES " WHERE {mine}",
                               12,
                               {I8, VALUE_TYPES, I8S, BYTEAS}},
    [PG_STMT_INSERT_ORDERED] = {"insert_ordered",
                                "INSERT INTO {task} (" COLUMNS
                                ", expire_ms, tags, order_key, order_ms)"
                                " SELECT " VALUES ", " TAG_VALUES ", " ORDER_VALUES " WHERE {mine}",
                                14,
                                {I8, VALUE_TYPES, I8S, BYTEAS, BYTEAS, I8S}},
    [PG_STMT_INSERT_KEYED] =
        {"insert_keyed",
         "INSERT INTO {task} (" COLUMNS ", expire_ms, tags, key)"
         " SELECT * FROM (SELECT " VALUES ", " TAG_VALUES ", unnest($13::bytea[]))"
         "  AS u (" COLUMNS ", expire_ms, tags, key)"
         " WHERE {mine} AND (SELECT k.seq FROM foliot_data.key k"
         "  WHERE k.shard = {shard} AND k.queue = u.queue AND k.key = u.key) = u.seq",
         13,
         {I8, VALUE_TYPES, I8S, BYTEAS, BYTEAS}},
    [PG_STMT_INSERT_KEYED_ORDERED] =
        {"insert_keyed_ordered",
         "INSERT INTO {task} (" COLUMNS ", expire_ms, tags, order_key, order_ms, key)"
         " SELECT * FROM (SELECT " VALUES ", " TAG_VALUES ", " ORDER_VALUES
         ", unnest($15::bytea[]))"
         "  AS u (" COLUMNS ", expire_ms, tags, order_key, order_ms, key)"
         " WHERE {mine} AND (SELECT k.seq FROM foliot_data.key k"
         "  WHERE k.shard = {shard} AND k.queue = u.queue AND k.key = u.key) = u.seq",
         15,
         {I8, VALUE_TYPES, I8S, BYTEAS, BYTEAS, I8S, BYTEAS}},
    [PG_STMT_REDRIVE] = {"redrive",
                         "WITH gone AS (DELETE FROM foliot_data.dead t WHERE {mine}"
                         "  AND t.shard = {shard} AND t.seq = ANY ($2)"
                         "  AND (t.attempt::bigint << 12 | t.slot) = ($16)[" AT "]"
                         "  AND (($15)[" AT "] IS NULL OR (SELECT k.seq FROM foliot_data.key k"
                         "   WHERE k.shard = {shard} AND k.queue = ($5)[" AT
                         "] AND k.key = ($15)[" AT "]) = t.seq)"
                         "  RETURNING t.seq),"
                         " back AS (INSERT INTO {task} (" COLUMNS ", expire_ms, tags, order_key,"
                         "   order_ms, key)"
                         "  SELECT * FROM (SELECT " VALUES ", " TAG_VALUES ", " ORDER_VALUES
                         ", unnest($15::bytea[]))"
                         "   AS u (" COLUMNS ", expire_ms, tags, order_key, order_ms, key)"
                         "  WHERE (u.seq IN (SELECT seq FROM gone)) IS TRUE)"
                         " SELECT seq FROM gone",
                         16,
                         {I8, VALUE_TYPES, I8S, BYTEAS, BYTEAS, I8S, BYTEAS, I8S}},
    [PG_STMT_DELETE] = {"delete",
                        "WITH gone AS (DELETE FROM {task} t WHERE " MATCHES
                        " RETURNING t.seq, t.queue, t.key), " FREED " SELECT seq FROM gone",
                        4,
                        {I8, I8S, I8S, I8S}},
    [PG_STMT_DELETE_KEYLESS] = {"delete_keyless",
                                "DELETE FROM {task} t WHERE " MATCHES " RETURNING t.seq",
                                3,
                                {I8, I8S, I8S}},
    [PG_STMT_DELETE_KEPT] =
        {"delete_kept",
         "WITH gone AS (DELETE FROM {task} t WHERE " MATCHES " RETURNING t.*), " FREED
         ", kept AS (INSERT INTO foliot_data.ended (shard, seq, due_ms, created_ms, queue,"
         "  unknowns, slot, key, tags, expire_ms, attempt, failures, ended_ms, until_ms, how,"
         "  response)"
         " SELECT {shard}, t.seq, t.due_ms, t.created_ms, t.queue, t.unknowns, t.slot, t.key,"
         "  t.tags, t.expire_ms, ($5)[" AT "], ($6)[" AT "], ($7)[" AT "], ($8)[" AT "],"
         "  ($9)[" AT "], ($10)[" AT "] FROM gone t"
         " ON CONFLICT (shard, seq) DO UPDATE SET (due_ms, created_ms, queue, unknowns, slot, key,"
         "  tags, expire_ms, attempt, failures, ended_ms, until_ms, how, response) ="
         "  (excluded.due_ms, excluded.created_ms, excluded.queue, excluded.unknowns,"
         "  excluded.slot, excluded.key, excluded.tags, excluded.expire_ms, excluded.attempt,"
         "  excluded.failures, excluded.ended_ms, excluded.until_ms, excluded.how,"
         "  excluded.response))"
         " SELECT seq FROM gone",
         10,
         {I8, I8S, I8S, I8S, I4S, I4S, I8S, I8S, I2S, BYTEAS}},
    [PG_STMT_DEAD] =
        {"dead",
         "WITH gone AS (DELETE FROM {task} t WHERE " MATCHES " RETURNING t.*), " FREED
         ", buried AS (INSERT INTO foliot_data.dead (shard, seq, due_ms, created_ms, queue,"
         "  unknowns, slot, payload, key, tags, expire_ms, attempt, failures, dead_ms, error_text,"
         "  order_key)"
         " SELECT {shard}, t.seq, t.due_ms, t.created_ms, t.queue, t.unknowns, t.slot, t.payload,"
         "  t.key, t.tags, t.expire_ms, ($5)[" AT "], ($6)[" AT "], ($7)[" AT "], ($8)[" AT "],"
         "  t.order_key FROM gone t"
         " ON CONFLICT (shard, seq) DO UPDATE SET (due_ms, created_ms, queue, unknowns, slot,"
         "  payload, key, tags, expire_ms, attempt, failures, dead_ms, error_text, order_key) ="
         "  (excluded.due_ms, excluded.created_ms, excluded.queue, excluded.unknowns,"
         "  excluded.slot, excluded.payload, excluded.key, excluded.tags, excluded.expire_ms,"
         "  excluded.attempt, excluded.failures, excluded.dead_ms, excluded.error_text,"
         "  excluded.order_key))"
         " SELECT seq FROM gone",
         8,
         {I8, I8S, I8S, I8S, I4S, I4S, I8S, BYTEAS}},
    [PG_STMT_PURGE] = {"purge",
                       "DELETE FROM foliot_data.dead t WHERE {mine} AND t.shard = {shard}"
                       " AND t.seq = ANY ($2) AND t.slot = ($3)[" AT "] RETURNING t.seq",
                       3,
                       {I8, I8S, I2S}},
    [PG_STMT_CHANGE] = {"change",
                        "UPDATE {task} t SET attempt = ($4)[" AT "],"
                        " due_ms = coalesce(nullif(($5)[" AT
                        "], '-9223372036854775808'::bigint), due_ms),"
                        " failures = coalesce(nullif(($6)[" AT "], -1), failures),"
                        " unknowns = coalesce(nullif(($7)[" AT "], -1), unknowns)"
                        " WHERE " MATCHES " RETURNING t.seq",
                        7,
                        {I8, I8S, I8S, I4S, I8S, I4S, I4S}},
    [PG_STMT_CHANGE_PAYLOAD] = {"change_payload",
                                "UPDATE {task} t SET attempt = ($4)[" AT "],"
                                " due_ms = coalesce(nullif(($5)[" AT
                                "], '-9223372036854775808'::bigint), due_ms),"
                                " failures = coalesce(nullif(($6)[" AT "], -1), failures),"
                                " unknowns = coalesce(nullif(($7)[" AT "], -1), unknowns),"
                                " payload = ($8)[" AT "]"
                                " WHERE " MATCHES " RETURNING t.seq",
                                8,
                                {I8, I8S, I8S, I4S, I8S, I4S, I4S, BYTEAS}},
    [PG_STMT_CHANGE_ORDER] = {"change_order",
                              "UPDATE {task} t SET attempt = ($4)[" AT "],"
                              " due_ms = coalesce(nullif(($5)[" AT
                              "], '-9223372036854775808'::bigint), due_ms),"
                              " failures = coalesce(nullif(($6)[" AT "], -1), failures),"
                              " unknowns = coalesce(nullif(($7)[" AT "], -1), unknowns),"
                              " payload = CASE ($9)[" AT "] WHEN 1 THEN ($8)[" AT
                              "] ELSE payload END,"
                              " order_ms = ($10)[" AT "]"
                              " WHERE " MATCHES " RETURNING t.seq",
                              10,
                              {I8, I8S, I8S, I4S, I8S, I4S, I4S, BYTEAS, I4S, I8S}},
    [PG_STMT_CHECK] = {"check", "SELECT t.seq FROM {task} t WHERE " MATCHES, 3, {I8, I8S, I8S}},
    [PG_STMT_READ_SLICE] =
        {"read_slice",
         // Each queue that has rows in the slice is found by a look into the index, and gives its
         // share; the last column marks the last row of a share. The order is made in page.c. A
         // look for the next queue, whichever it is, walks past all dead rows in front of its first
         // one: while somebody holds a snapshot, past all that have ended since. So those that are
         // known are looked for where the slice begins, and others in the gaps between their
         // numbers.
         "WITH RECURSIVE known AS MATERIALIZED (SELECT q AS queue,"
         "  lead(q, 1, 2147483647) OVER (ORDER BY q) AS next FROM unnest(0 || $6) q),"
         " strange AS ((SELECT s.queue, k.next FROM known k CROSS JOIN LATERAL (SELECT t.queue"
         "  FROM {task} t WHERE t.queue > k.queue AND t.queue < k.next ORDER BY t.queue LIMIT 1) s)"
         " UNION ALL SELECT s.queue, e.next FROM strange e CROSS JOIN LATERAL (SELECT t.queue"
         "  FROM {task} t WHERE t.queue > e.queue AND t.queue < e.next ORDER BY t.queue LIMIT 1) "
         "s),"
         " wanted AS MATERIALIZED (SELECT e.queue FROM (SELECT queue FROM known"
         "  UNION ALL SELECT queue FROM strange) e CROSS JOIN LATERAL (SELECT FROM {task} t"
         "  WHERE t.queue = e.queue AND " IN_SLICE " ORDER BY " PLACE " LIMIT 1) one"
         "  WHERE e.queue <> ALL ($5)),"
         " share AS MATERIALIZED (SELECT greatest(" SHARE_MIN ","
         "  least($4, 2 * $4 / greatest(count(*), 1))) AS size FROM wanted)"
         " SELECT r.* FROM wanted w CROSS JOIN LATERAL (SELECT " ROW ", " SHORT_PAYLOAD ORDER ","
         "  row_number() OVER (ORDER BY " PLACE ") = (SELECT size FROM share)"
         "  FROM {task} t WHERE t.queue = w.queue AND " IN_SLICE "  ORDER BY " PLACE
         " LIMIT (SELECT size FROM share)) r",
         6,
         {I4, I8, I4, I4, I4S, I4S}},
    [PG_STMT_READ_SLICE_QUEUE] = {"read_slice_queue",
                                  "SELECT " ROW ", " SHORT_PAYLOAD ORDER ", false FROM {task} t"
                                  " WHERE t.queue = $5 AND " IN_SLICE " ORDER BY " PLACE
                                  " LIMIT $4",
                                  5,
                                  {I4, I8, I4, I4, I4}},
    [PG_STMT_READ_TASKS] = {"read_tasks",
                            "SELECT " ROW ", " WHOLE_PAYLOAD ORDER " FROM {task} t"
                            " WHERE t.seq = ANY ($1) AND t.slot = ($2)[width_bucket(t.seq, $1)]",
                            2,
                            {I8S, I2S}},
    [PG_STMT_READ_KEY] = {"read_key",
                          "SELECT t.*, k.seq, k.slot FROM foliot_data.key k"
                          " LEFT JOIN LATERAL (SELECT " ROW ", " WHOLE_PAYLOAD ORDER
                          " FROM {task} t"
                          "  WHERE t.seq = k.seq AND t.slot = k.slot OFFSET 0) t ON true"
                          " WHERE k.shard = {shard} AND k.queue = $1 AND k.key = $2"
                          " AND (k.until_ms IS NULL OR k.until_ms > $3)",
                          3,
                          {I4, BYTEA, I8}},
    [PG_STMT_READ_ORDER] = {"read_order",
                            "SELECT " ROW ", " SHORT_PAYLOAD ORDER " FROM {task} t"
                            " WHERE t.queue = $1 AND t.order_key = $2"
                            " ORDER BY t.queue, t.order_key, t.order_ms, t.seq LIMIT $3",
                            3,
                            {I4, BYTEA, I4}},
    [PG_STMT_READ_COUNTS] =
        {"read_counts",
         // A sample of everything is a scan in the order of the pages, whatever the settings are.
         "SELECT queue, sum(pending)::bigint, sum(overdue)::bigint, sum(dead)::bigint,"
         " min(first_due_ms), max(looked)::bigint FROM ("
         "  SELECT queue, count(*) AS pending, count(*) FILTER (WHERE due_ms <= $1) AS overdue,"
         "   0 AS dead, min(due_ms) AS first_due_ms, sum(count(*)) OVER () AS looked"
         "  FROM (SELECT queue, due_ms FROM {task} TABLESAMPLE SYSTEM (100) LIMIT $2) t"
         "  GROUP BY queue"
         "  UNION ALL"
         "  SELECT queue, 0, 0, count(*), NULL, sum(count(*)) OVER () FROM (SELECT queue"
         "   FROM foliot_data.dead WHERE shard = {shard} LIMIT $2) t GROUP BY queue) t"
         " GROUP BY queue ORDER BY queue LIMIT $3",
         3,
         {I8, I4, I4}},
    [PG_STMT_READ_COUNTS_QUEUE] =
        {"read_counts_queue",
         // What waits and what is dead is counted in the index alone, what is due is looked at from
         // its beginning on; the first is in the first bucket.
         "SELECT $4::integer, p.count, o.count, d.count, f.due_ms, greatest(p.count, d.count) FROM"
         " (SELECT count(*) FROM (SELECT FROM {task} t WHERE t.queue = $4 LIMIT $2) t) p,"
         " (SELECT count(*) FROM (SELECT FROM {task} t WHERE t.queue = $4 AND " BUCKET " <= $3"
         "   AND t.due_ms <= $1 LIMIT $2) t) o,"
         " (SELECT count(*) FROM (SELECT FROM foliot_data.dead t WHERE t.queue = $4"
         "   AND t.shard = {shard} LIMIT $2) t) d,"
         " (SELECT min(t.due_ms) AS due_ms FROM (SELECT t.due_ms FROM {task} t WHERE t.queue = $4"
         "   AND " BUCKET " = (SELECT " BUCKET " FROM {task} t WHERE t.queue = $4 ORDER BY " PLACE
         "    LIMIT 1) LIMIT $2) t) f"
         " WHERE p.count + d.count > 0",
         4,
         {I8, I4, I4, I4}},
    // Not READ WRITE: a database that its people have made read-only is to be left alone.
    [PG_STMT_BEGIN] = {"begin", "BEGIN ISOLATION LEVEL READ COMMITTED", 0, {0}},
    [PG_STMT_COMMIT] = {"commit", "COMMIT", 0, {0}},
    [PG_STMT_ROLLBACK] = {"rollback", "ROLLBACK", 0, {0}},
    [PG_STMT_SAVEPOINT] = {"savepoint", "SAVEPOINT half", 0, {0}},
    [PG_STMT_ROLLBACK_TO] = {"rollback_to", "ROLLBACK TO SAVEPOINT half", 0, {0}},
    [PG_STMT_RELEASE] = {"release", "RELEASE SAVEPOINT half", 0, {0}},
    [PG_STMT_FENCE] =
        {"fence",
         "WITH mine AS MATERIALIZED (SELECT s.id, s.epoch FROM foliot_data.shard s"
         " JOIN unnest($1::integer[], $2::bigint[]) AS m (id, epoch)"
         " ON s.id = m.id AND s.epoch = m.epoch FOR SHARE OF s)"
         " SELECT array_agg(id::bigint), array_agg(epoch), clock_timestamp() FROM mine",
         2,
         {I4S, I8S}},
    [PG_STMT_KEYS] =
        {"keys",
         "WITH mine AS MATERIALIZED (SELECT s.id, s.epoch FROM foliot_data.shard s"
         " JOIN unnest($1::integer[], $2::bigint[]) AS m (id, epoch)"
         " ON s.id = m.id AND s.epoch = m.epoch FOR SHARE OF s),"
         " want AS MATERIALIZED (SELECT * FROM unnest($3::integer[], $4::integer[], $5::bytea[],"
         "  $6::bigint[], $7::smallint[], $8::bigint[], $9::bigint[], $10::bigint[],"
         "  $11::bigint[])"
         "  AS w (shard, queue, key, seq, slot, since_ms, replaced, epoch, expected)"
         "  WHERE w.key IS NOT NULL AND ((w.shard, w.epoch) IN (SELECT id, epoch FROM mine)) IS "
         "TRUE"
         // A redrive replaces itself. Without its letter it must not take the key.
         "  AND (w.replaced <> w.seq OR (SELECT d.attempt::bigint << 12 | d.slot"
         "   FROM foliot_data.dead d WHERE d.shard = w.shard AND d.seq = w.seq) = w.expected)),"
         " taken AS (INSERT INTO foliot_data.key AS k"
         "  (shard, queue, key, seq, slot, since_ms, replaced)"
         "  SELECT shard, queue, key, seq, slot, since_ms, replaced FROM want"
         "  ON CONFLICT (shard, queue, key) DO UPDATE SET seq = excluded.seq,"
         "  slot = excluded.slot, since_ms = excluded.since_ms, until_ms = NULL,"
         "  replaced = excluded.replaced"
         "  WHERE k.until_ms <= excluded.since_ms OR k.seq = excluded.replaced"
         "  RETURNING k.shard, k.seq)"
         " SELECT w.shard, w.seq, k.seq, k.slot FROM want w CROSS JOIN LATERAL"
         " (SELECT k.seq, k.slot FROM foliot_data.key k WHERE k.shard = w.shard"
         "  AND k.queue = w.queue AND k.key = w.key OFFSET 0) k"
         " WHERE ((w.shard, w.seq) IN (SELECT shard, seq FROM taken)) IS NOT TRUE",
         11,
         {I4S, I8S, I4S, I4S, BYTEAS, I8S, I2S, I8S, I8S, I8S, I8S}},
    [PG_STMT_CLAIM_PUT] =
        {"claim_put",
         // $7 is each member's place, from 1, in the shards and epochs of $8 and $9. All of them
         // are ours nearly always: the arrays are then stored as they came.
         "WITH mine AS MATERIALIZED (SELECT f.place FROM foliot_data.shard s"
         "  JOIN unnest($8::smallint[], $9::bigint[]) WITH ORDINALITY AS f (id, epoch, place)"
         "  ON s.id = f.id AND s.epoch = f.epoch FOR SHARE OF s),"
         " held AS MATERIALIZED (SELECT count(*) = cardinality($8) AS all FROM mine)"
         " INSERT INTO foliot_data.claim"
         " (writer, seq, task_seqs, deadlines_ms, attempts, task_slots, shards)"
         " SELECT $1, $2, $3::bigint[], $4::bigint[], $5::integer[], $6::smallint[], $8"
         " FROM held WHERE held.all UNION ALL"
         " SELECT $1, $2, m.* FROM (SELECT array_agg(m.seq), array_agg(m.deadline_ms),"
         "  array_agg(m.attempt), array_agg(m.slot), array_agg(DISTINCT ($8)[m.place])"
         "  FROM unnest($3, $4, $5, $6, $7::smallint[])"
         "   AS m (seq, deadline_ms, attempt, slot, place)"
         "  WHERE (SELECT NOT held.all FROM held) AND m.place IN (SELECT place FROM mine)"
         "  HAVING count(*) > 0) m",
         9,
         {I8, I8, I8S, I8S, I4S, I2S, I2S, I2S, I8S}},
    [PG_STMT_CLAIM_DROP] =
        {"claim_drop",
         "DELETE FROM foliot_data.claim WHERE ctid = ANY (ARRAY(SELECT c.ctid"
         " FROM unnest($1::bigint[], $2::bigint[]) AS d (writer, seq) CROSS JOIN LATERAL"
         " (SELECT c.ctid FROM foliot_data.claim c WHERE c.writer = d.writer AND c.seq = d.seq"
         "  OFFSET 0 FOR UPDATE SKIP LOCKED) c))",
         2,
         {I8S, I8S}},
    [PG_STMT_CLAIM_SWEEP] = {"claim_sweep", "SELECT foliot_data.claim_sweep()", 0, {0}},
    [PG_STMT_KEY_SWEEP] =
        {"key_sweep",
         // The outer condition is looked at again if the row has changed: a key that was taken
         // meanwhile stays.
         "WITH " PAST " DELETE FROM foliot_data.key WHERE until_ms < (SELECT until_ms FROM past)"
         " AND ctid = ANY (ARRAY(SELECT ctid FROM foliot_data.key"
         "  WHERE " IN_PAST " LIMIT $1 FOR UPDATE SKIP LOCKED))",
         2,
         {I4, I8}},
    [PG_STMT_ENDED_SWEEP] =
        {"ended_sweep",
         "WITH " PAST
         " DELETE FROM foliot_data.ended WHERE ctid = ANY (ARRAY(SELECT ctid FROM foliot_data.ended"
         "  WHERE " IN_PAST " LIMIT $1 FOR UPDATE SKIP LOCKED))",
         2,
         {I4, I8}},
    [PG_STMT_CLOCK] = {"clock",
                       "SELECT clock_timestamp(), current_setting('transaction_read_only') = 'on'",
                       0,
                       {0}},
    [PG_STMT_AGE] = {"age",
                     // What holds vacuum back here: snapshots of this database and of standbys,
                     // prepared transactions, and slots of standbys.
                     "SELECT mxid_age(datminmxid)::bigint, coalesce((SELECT max(age(holder)) FROM ("
                     "SELECT backend_xmin FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                     " AND (datname = current_database() OR backend_type = 'walsender')"
                     " UNION ALL SELECT transaction FROM pg_prepared_xacts"
                     " WHERE database = current_database()"
                     " UNION ALL SELECT xmin FROM pg_replication_slots) held (holder)), 0)::bigint"
                     " FROM pg_database WHERE datname = current_database()",
                     0,
                     {0}},
    [PG_STMT_READ_BEGIN] = {"read_begin",
                            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
                            0,
                            {0}},
    [PG_STMT_READ_CHECK] =
        {"read_check",
         "SELECT EXISTS (SELECT FROM foliot_data.shard WHERE id = $1 AND epoch = $2),"
         " clock_timestamp()",
         2,
         {I4, I8}},
    [PG_STMT_READ_CLAIMS] = {"read_claims", CLAIMS, 2, {I4, I4}},
    [PG_STMT_READ_OVERDUE] = {"read_overdue",
                              CLAIMS " AND m.deadline_ms <= $3 LIMIT $4",
                              4,
                              {I4, I4, I8, I4}},
    [PG_STMT_READ_EPOCHS] = {"read_epochs",
                             "SELECT s.epoch, clock_timestamp(), u.place::integer"
                             " FROM unnest($1::integer[]) WITH ORDINALITY AS u (id, place)"
                             " JOIN foliot_data.shard s ON s.id = u.id",
                             1,
                             {I4S}},
    [PG_STMT_READ_DEAD] = {"read_dead",
                           "SELECT " ROW ", " SHORT_PAYLOAD LETTER_ORDER ", " LETTER
                           " FROM foliot_data.dead t"
                           " WHERE t.queue = $1 AND t.shard = $2 AND t.seq > $3"
                           " ORDER BY t.queue, t.shard, t.seq LIMIT $4",
                           4,
                           {I4, I4, I8, I4}},
    [PG_STMT_READ_LETTERS] = {"read_letters", LETTERS, 3, {I4, I8S, I2S}},
    [PG_STMT_READ_ENDED] = {"read_ended",
                            "SELECT " ROW ", NULL::bytea, 0, t.key, t.tags, " ENDED_ORDER
                            ", t.ended_ms, t.until_ms, t.how,"
                            " t.response, NULL::bytea FROM foliot_data.ended t WHERE " BY_ID
                            " AND t.until_ms > $4"
                            " UNION ALL " LETTERS,
                            4,
                            {I4, I8S, I2S, I8}},
    [PG_STMT_BUMP] =
        {"bump",
         "UPDATE foliot_data.shard SET epoch = $2, owner = $3, since = clock_timestamp()"
         " WHERE id = $1 AND epoch < $2 RETURNING clock_timestamp()",
         3,
         {I4, I8, TEXT}},
    [PG_STMT_END_BLOCKERS] =
        {"end_blockers",
         "SELECT count(*) FILTER (WHERE pg_terminate_backend(p))"
         " FROM unnest(pg_blocking_pids($1)) AS p"
         " WHERE EXISTS (SELECT FROM foliot_data.shard WHERE id = $2 AND epoch < $3)",
         3,
         {I4, I4, I8}},
    [PG_STMT_QUEUE_LOCK] = {"queue_lock",
                            "LOCK TABLE foliot_data.queue IN SHARE ROW EXCLUSIVE MODE",
                            0,
                            {0}},
    [PG_STMT_QUEUE_CREATE] =
        {"queue_create",
         // $23 is how many queues there may be. Answers (id, version), (−1, 0) if the name is
         // taken, (−2, 0) if there are too many.
         "WITH found AS (SELECT FROM foliot_data.queue WHERE namespace = $1 AND name = $2),"
         " full_up AS (SELECT count(*) >= $23 AS yes FROM foliot_data.queue),"
         " space AS (INSERT INTO foliot_data.namespace (name) SELECT $1"
         "  WHERE NOT EXISTS (SELECT FROM found) AND NOT (SELECT yes FROM full_up)"
         "  ON CONFLICT DO NOTHING),"
         " made AS (INSERT INTO foliot_data.queue (id, version, namespace, name, " QUEUE ")"
         "  SELECT greatest(max(q.id), (SELECT queue_last FROM foliot_data.cluster), 0) + 1, 1,"
         "   $1, $2, " QUEUE_VALUES "  FROM foliot_data.queue q"
         "  HAVING NOT EXISTS (SELECT FROM found) AND NOT (SELECT yes FROM full_up)"
         "  RETURNING id, version)"
         " SELECT id, version FROM made UNION ALL SELECT -1, 0 FROM found"
         " UNION ALL SELECT -2, 0 FROM full_up WHERE yes AND NOT EXISTS (SELECT FROM found)",
         23,
         {QUEUE_TYPES, I4}},
    [PG_STMT_QUEUE_REPLACE] =
        {"queue_replace",
         // $23 is the version that it must have. Answers (id, version), (−1, 0) if it has
         // another, nothing if there is no such queue.
         "WITH found AS (SELECT version FROM foliot_data.queue WHERE namespace = $1 AND name = $2),"
         " made AS (UPDATE foliot_data.queue SET version = version + 1, (" QUEUE ") ="
         "  (SELECT " QUEUE_VALUES ")"
         "  WHERE namespace = $1 AND name = $2 AND version = $23 RETURNING id, version)"
         " SELECT id, version FROM made"
         " UNION ALL SELECT -1, 0 FROM found WHERE version <> $23",
         23,
         {QUEUE_TYPES, I4}},
    [PG_STMT_QUEUE_DROP] =
        {"queue_drop",
         // Answers as above. The highest number is remembered when its queue goes.
         "WITH found AS (SELECT version FROM foliot_data.queue WHERE id = $1),"
         " gone AS (DELETE FROM foliot_data.queue WHERE id = $1 AND version = $2"
         "  RETURNING id, version),"
         " noted AS (UPDATE foliot_data.cluster SET queue_last = greatest(queue_last, g.id)"
         "  FROM gone g)"
         " SELECT id, version FROM gone"
         " UNION ALL SELECT -1, 0 FROM found WHERE version <> $2",
         2,
         {I4, I4}},
    [PG_STMT_QUEUE_LIST] =
        {"queue_list",
         "SELECT id, version, namespace, name, target, target_kind, at_most_once::integer,"
         " concurrency_max, attempt_timeout_ms, key_memory_ms, retry_initial_ms, retry_max_ms,"
         " retry_age_max_ms, retry_multiplier_permille, retry_jitter_permille,"
         " retry_failures_max, retry_unknowns_max, is_paused::integer, paused_until_ms,"
         " is_draining::integer, result_memory_ms, expire_after_ms, order_policy, order_failures"
         " FROM foliot_data.queue ORDER BY id",
         0,
         {0}},
};

const struct pg_stmt_info *pg_stmt_info(enum pg_stmt stmt)
{
    REQUIRE(stmt < PG_STMT_COUNT);
    return &stmts[stmt];
}

/* One placeholder: the text behind it is returned. */
static const char *expand(const char *text, uint32_t shard, struct buf *out)
{
    if (strncmp(text, "{mine}", 6) == 0) {
        (void)buf_printf(out,
                         "EXISTS (SELECT FROM foliot_data.shard WHERE id = %" PRIu32
                         " AND epoch = $1 FOR SHARE)",
                         shard);
        return text + 6;
    }
    if (strncmp(text, "{task}", 6) == 0) {
        (void)buf_printf(out, "foliot_data.task_%04" PRIu32, shard);
        return text + 6;
    }
    REQUIRE(strncmp(text, "{shard}", 7) == 0);
    (void)buf_printf(out, "%" PRIu32, shard);
    return text + 7;
}

int pg_stmt_text(enum pg_stmt stmt, uint32_t shard, struct buf *out)
{
    const char *text = pg_stmt_info(stmt)->text;

    while (*text != '\0') {
        // Braces of array literals are followed by a quote, those of placeholders by a letter.
        size_t plain = strcspn(text, "{");

        (void)buf_append(out, text, plain);
        text += plain;
        if (*text == '{') {
            text = expand(text, shard, out);
        }
    }
    return out->failed ? ERR_NO_MEMORY : 0;
}

void pg_stmt_name(enum pg_stmt stmt, uint32_t shard, char *name)
{
    if (pg_stmt_is_per_shard(stmt)) {
        (void)snprintf(name, PG_STMT_NAME_MAX, "%s_%" PRIu32, pg_stmt_info(stmt)->name, shard);
    } else {
        (void)snprintf(name, PG_STMT_NAME_MAX, "%s", pg_stmt_info(stmt)->name);
    }
}
