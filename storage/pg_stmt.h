/* SPDX-License-Identifier: Apache-2.0
 *
 * Every SQL statement that the PostgreSQL store sends after start-up: text, parameter types, and
 * whether it is made per task table. Statements on the tables themselves, one per kind and table.
 *
 * Rules that the texts keep:
 * 1. Whatever writes a shard's rows takes FOR SHARE on the shard row and matches the epoch in the
 *    same statement. source: RELIABILITY H-2
 * 2. Plans must not depend on statistics, for they are made once per connection, perhaps when the
 *    table is empty: rows are found by = ANY on an index, values for a row by its place in the
 *    sorted parameter (width_bucket), never by a join that could be turned around.
 */
#ifndef FOLIOT_STORAGE_PG_STMT_H
#define FOLIOT_STORAGE_PG_STMT_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* Per task table: their first parameter is the epoch. */
enum pg_stmt {
    PG_STMT_INSERT,         /* tasks without key, tags and expiry */
    PG_STMT_INSERT_TAGGED,  /* without keys */
    PG_STMT_INSERT_ORDERED, /* without key */
    PG_STMT_INSERT_KEYED,   /* without order key */
    PG_STMT_INSERT_KEYED_ORDERED,
    PG_STMT_REDRIVE, /* with a key or without */
    PG_STMT_DELETE,
    PG_STMT_DELETE_KEYLESS,
    PG_STMT_DELETE_KEPT, /* the result goes into `ended` */
    PG_STMT_DEAD,
    PG_STMT_PURGE,
    PG_STMT_CHANGE,
    PG_STMT_CHANGE_PAYLOAD,
    PG_STMT_CHANGE_ORDER, /* with or without a payload */
    PG_STMT_CHECK,        /* which rows a claim may be made of */
    PG_STMT_READ_SLICE,
    PG_STMT_READ_SLICE_QUEUE,
    PG_STMT_READ_TASKS,
    PG_STMT_READ_KEY,
    PG_STMT_READ_ORDER,
    PG_STMT_READ_COUNTS,
    PG_STMT_READ_COUNTS_QUEUE,
    PG_STMT_SHARD_COUNT, /* how many of the above: one for each shard */

    PG_STMT_BEGIN = PG_STMT_SHARD_COUNT,
    PG_STMT_COMMIT,
    PG_STMT_ROLLBACK,
    PG_STMT_SAVEPOINT,
    PG_STMT_ROLLBACK_TO,
    PG_STMT_RELEASE,
    PG_STMT_FENCE,
    PG_STMT_KEYS,
    PG_STMT_CLAIM_PUT,
    PG_STMT_CLAIM_DROP,
    PG_STMT_CLAIM_SWEEP,
    PG_STMT_KEY_SWEEP,
    PG_STMT_ENDED_SWEEP,
    PG_STMT_CLOCK,
    PG_STMT_AGE,
    PG_STMT_READ_BEGIN,
    PG_STMT_READ_CHECK,
    PG_STMT_READ_CLAIMS,
    PG_STMT_READ_OVERDUE,
    PG_STMT_READ_EPOCHS,
    PG_STMT_READ_DEAD,
    PG_STMT_READ_LETTERS, /* dead letters by id */
    PG_STMT_READ_ENDED,
    PG_STMT_BUMP,
    PG_STMT_END_BLOCKERS,
    PG_STMT_QUEUE_LOCK,
    PG_STMT_QUEUE_CREATE,
    PG_STMT_QUEUE_REPLACE,
    PG_STMT_QUEUE_DROP,
    PG_STMT_QUEUE_LIST,
    PG_STMT_COUNT
};

#define PG_PARAM_COUNT_MAX 24

struct pg_stmt_info {
    const char *name; /* of the prepared statement, without the shard */
    const char *text; /* {mine}, {task} and {shard} stand for what belongs to a shard */
    int param_count;
    uint32_t types[PG_PARAM_COUNT_MAX];
};

const struct pg_stmt_info *pg_stmt_info(enum pg_stmt stmt);

/* True if there is one for each shard. */
static inline bool pg_stmt_is_per_shard(enum pg_stmt stmt)
{
    return stmt < PG_STMT_SHARD_COUNT;
}

/* Write the SQL for a shard (any, if it is not per shard). errors: those of buf_append. */
MUST_USE int pg_stmt_text(enum pg_stmt stmt, uint32_t shard, struct buf *out);

/* Write the prepared statement's name. shape: name has room for PG_STMT_NAME_MAX bytes. */
#define PG_STMT_NAME_MAX 32
void pg_stmt_name(enum pg_stmt stmt, uint32_t shard, char *name);

/* A due time of PG_STMT_CHANGE that means: leave it. */
#define PG_DUE_UNCHANGED INT64_MIN
/* A count of PG_STMT_CHANGE that means: leave it. */
#define PG_COUNT_UNCHANGED (-1)

#endif
