/* SPDX-License-Identifier: Apache-2.0
 *
 * One batch as one transaction.
 *
 *   begin ─▶ STATEMENTS ──(no look: one segment)──▶ COMMITTING ─▶ answered
 *                │                                        │
 *                └──── error ─▶ ROLLBACK ◀─── error ──────┘
 *                                 │ data error, first time
 *                                 ▼
 *                              CAREFUL (a range behind a savepoint, halved on error) ─▶ COMMITTING
 *
 * A batch with a claim that has to be looked up, of a row that its owner does not know or that is
 * inserted with a key, needs two segments: a claim row must name only claims that hold. What is not
 * ours the statement leaves out by itself. source: docs/adr/0013
 */
#include "storage/pg_write.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/io/clock.h"

#include <stdlib.h>
#include <string.h>

/* Row answers of claims and the like are small; an insert may carry the whole batch. */
#define ARRAY_BYTES_MAX ((size_t)BATCH_BYTES_MAX + (size_t)BATCH_OP_COUNT_MAX * 16 + 64)

static struct pg_writer *writer_of(struct pg_job *job)
{
    return CONTAINER_OF(job, struct pg_writer, job);
}

/* --- commands --------------------------------------------------------------------------------- */

static void command(struct pg_writer *writer, enum pg_stmt stmt, uint32_t shard,
                    const struct pg_params *params, struct pg_write_expect expect)
{
    REQUIRE(writer->expect_count < PG_WRITE_EXPECT_MAX);
    writer->expect[writer->expect_count++] = expect;
    pg_conn_exec(&writer->conn, stmt, shard, params);
}

static void plain(struct pg_writer *writer, enum pg_stmt stmt)
{
    command(writer, stmt, 0, NULL, (struct pg_write_expect){.command = PG_WRITE_PLAIN});
}

/* Begin a segment: what is out has been answered. */
static void segment(struct pg_writer *writer)
{
    writer->expect_count = 0;
    writer->expect_next = 0;
    writer->failed = false;
    writer->failed_by_data = false;
    writer->failed_at_commit = false;
}

static void add_fences(struct pg_writer *writer)
{
    struct pg_array *shards = &writer->arrays[0];
    struct pg_array *epochs = &writer->arrays[1];

    pg_array_start(shards, PG_TYPE_INT4);
    pg_array_start(epochs, PG_TYPE_INT8);
    for (size_t i = 0; i < writer->plan.fence_count; i++) {
        pg_array_add_int(shards, writer->plan.fences[i].shard);
        pg_array_add_int(epochs, writer->plan.fences[i].epoch);
    }
    pg_params_add_array(&writer->params, shards);
    pg_params_add_array(&writer->params, epochs);
}

static void send_fence(struct pg_writer *writer)
{
    if (writer->plan.fence_count == 0) {
        return;
    }
    pg_params_init(&writer->params);
    add_fences(writer);
    command(writer, PG_STMT_FENCE, 0, &writer->params,
            (struct pg_write_expect){.command = PG_WRITE_FENCE});
}

static void add_columns(struct pg_writer *writer, enum pg_stmt stmt, const struct pg_group *group,
                        size_t first_array)
{
    size_t count;
    const struct pg_column *columns = pg_plan_columns(stmt, &count);

    for (size_t i = 0; i < count; i++) {
        struct pg_array *array = &writer->arrays[first_array + i];

        pg_plan_fill(&writer->plan, &columns[i], group, array);
        pg_params_add_array(&writer->params, array);
    }
}

static void send_keys(struct pg_writer *writer, const struct pg_group *keyed)
{
    pg_params_init(&writer->params);
    add_fences(writer);
    add_columns(writer, PG_STMT_KEYS, keyed, 2);
    command(writer, PG_STMT_KEYS, 0, &writer->params,
            (struct pg_write_expect){.command = PG_WRITE_KEYS, .group = *keyed});
}

static void send_group(struct pg_writer *writer, const struct pg_group *group)
{
    const struct pg_slot *slot = &writer->plan.slots[group->first];

    pg_params_init(&writer->params);
    pg_params_add_i64(&writer->params, slot->epoch);
    add_columns(writer, slot->stmt, group, 0);
    command(writer, slot->stmt, slot->shard, &writer->params,
            (struct pg_write_expect){.command = PG_WRITE_GROUP, .group = *group});
}

/* What may take a key among some slots: keyed inserts, and redrives with or without one. */
static struct pg_group keyed_part(const struct pg_plan *plan, struct pg_write_range range)
{
    struct pg_group keyed = {range.first, 0};

    for (size_t i = range.first; i < range.end; i++) {
        if (plan->slots[i].stmt < PG_STMT_INSERT_KEYED) {
            keyed.first = i + 1;
        } else if (plan->slots[i].stmt <= PG_STMT_REDRIVE) {
            keyed.count = i + 1 - keyed.first;
        }
    }
    return keyed;
}

/* Statements of some slots; what their operations become until the replies say otherwise. */
static void send_range(struct pg_writer *writer, struct pg_write_range range)
{
    struct pg_plan *plan = &writer->plan;
    struct pg_group keyed = keyed_part(plan, range);
    size_t next = range.first;

    writer->range = range;
    for (size_t i = range.first; i < range.end; i++) {
        struct store_op *op = &writer->batch->ops[plan->slots[i].op];

        op->result = op->kind == STORE_INSERT ? 0 : ERR_NOT_FOUND;
    }
    if (keyed.count > 0) {
        send_keys(writer, &keyed);
    }
    while (next < range.end) {
        struct pg_group group = pg_plan_group(plan, next, range.end);

        send_group(writer, &group);
        next += group.count;
    }
}

/* --- claims and the end ----------------------------------------------------------------------- */

/* A claim of a task that this batch inserts or redrives holds if that does; one whose row the
 * caller knows holds if the fence does. */
static void judge_unseen_claims(struct pg_writer *writer)
{
    for (size_t i = 0; i < writer->batch->op_count; i++) {
        struct store_op *op = &writer->batch->ops[i];
        const struct store_op *insert;

        if (op->kind != STORE_CLAIM || op->raise_attempt) {
            continue;
        }
        if (writer->plan.insert_of[i] == PG_NO_OP) {
            op->result = op->is_known ? 0 : op->result;
            continue;
        }
        insert = &writer->batch->ops[writer->plan.insert_of[i]];
        op->result = insert->result == 0 && insert->task.attempt == op->expected_attempt &&
                             insert->task.id.slot == op->task.id.slot
                         ? 0
                         : ERR_NOT_FOUND;
    }
}

/* What is not ours drops out, whatever a statement said. */
static void judge_fenced(struct pg_writer *writer)
{
    for (size_t i = 0; i < writer->batch->op_count; i++) {
        struct store_op *op = &writer->batch->ops[i];

        if (op->epoch <= 0 || writer->ours[op->shard] != op->epoch) {
            op->result = ERR_FENCED;
        }
    }
}

/* Arrays of a claim row, by column. */
enum {
    CLAIM_SEQS,
    CLAIM_DEADLINES,
    CLAIM_ATTEMPTS,
    CLAIM_SLOTS,
    CLAIM_PLACES, /* of the member's fence in the two that follow, from 1 */
    CLAIM_SHARDS,
    CLAIM_EPOCHS,
    CLAIM_COLUMN_COUNT
};

static void claim_row_start(struct pg_writer *writer)
{
    static const uint32_t elements[CLAIM_COLUMN_COUNT] = {PG_TYPE_INT8, PG_TYPE_INT8, PG_TYPE_INT4,
                                                          PG_TYPE_INT2, PG_TYPE_INT2, PG_TYPE_INT2,
                                                          PG_TYPE_INT8};

    for (int i = 0; i < CLAIM_COLUMN_COUNT; i++) {
        pg_array_start(&writer->arrays[i], elements[i]);
    }
    memset(writer->claim_place, 0, sizeof(writer->claim_place));
}

/* Place of a member's fence; a shard with two epochs in one row has more than one. */
static uint16_t claim_row_fence(struct pg_writer *writer, const struct store_op *op)
{
    uint16_t *place = &writer->claim_place[op->shard];

    if (*place == 0 || writer->claim_epochs[*place - 1] != op->epoch) {
        pg_array_add_int(&writer->arrays[CLAIM_SHARDS], op->shard);
        pg_array_add_int(&writer->arrays[CLAIM_EPOCHS], op->epoch);
        *place = (uint16_t)writer->arrays[CLAIM_SHARDS].count;
        writer->claim_epochs[*place - 1] = op->epoch;
    }
    return *place;
}

static void claim_row_add(struct pg_writer *writer, const struct store_op *op)
{
    pg_array_add_int(&writer->arrays[CLAIM_SEQS], op->task.id.seq);
    pg_array_add_int(&writer->arrays[CLAIM_DEADLINES], op->deadline_ms);
    pg_array_add_int(&writer->arrays[CLAIM_ATTEMPTS], op->attempt);
    pg_array_add_int(&writer->arrays[CLAIM_SLOTS], op->task.id.slot);
    pg_array_add_int(&writer->arrays[CLAIM_PLACES], claim_row_fence(writer, op));
}

static void claim_row_send(struct pg_writer *writer)
{
    if (writer->arrays[0].count == 0) {
        return;
    }
    pg_params_init(&writer->params);
    pg_params_add_i64(&writer->params, writer->batch->claim_row.writer);
    pg_params_add_i64(&writer->params, writer->batch->claim_row.seq);
    for (int i = 0; i < CLAIM_COLUMN_COUNT; i++) {
        pg_params_add_array(&writer->params, &writer->arrays[i]);
    }
    command(writer, PG_STMT_CLAIM_PUT, 0, &writer->params,
            (struct pg_write_expect){.command = PG_WRITE_PLAIN});
    claim_row_start(writer);
}

static void send_claims(struct pg_writer *writer)
{
    claim_row_start(writer);
    for (size_t i = 0; i < writer->batch->op_count; i++) {
        const struct store_op *op = &writer->batch->ops[i];

        if (op->kind != STORE_CLAIM || op->result != 0 || op->epoch <= 0) {
            continue;
        }
        claim_row_add(writer, op);
        if (writer->arrays[CLAIM_SEQS].count == PG_CLAIM_MEMBER_COUNT_MAX) {
            claim_row_send(writer);
        }
    }
    claim_row_send(writer);
}

static void send_drops(struct pg_writer *writer)
{
    const struct store_batch *batch = writer->batch;

    if (batch->drop_count == 0) {
        return;
    }
    pg_array_start(&writer->arrays[0], PG_TYPE_INT8);
    pg_array_start(&writer->arrays[1], PG_TYPE_INT8);
    for (size_t i = 0; i < batch->drop_count; i++) {
        pg_array_add_int(&writer->arrays[0], batch->drop_rows[i].writer);
        pg_array_add_int(&writer->arrays[1], batch->drop_rows[i].seq);
    }
    pg_params_init(&writer->params);
    pg_params_add_array(&writer->params, &writer->arrays[0]);
    pg_params_add_array(&writer->params, &writer->arrays[1]);
    command(writer, PG_STMT_CLAIM_DROP, 0, &writer->params,
            (struct pg_write_expect){.command = PG_WRITE_PLAIN});
}

/* Delete what is past its time: when a sweep asks for it, and on as long as much is found. */
static void send_tidying(struct pg_writer *writer)
{
    static const enum pg_stmt sweeps[] = {PG_STMT_KEY_SWEEP, PG_STMT_ENDED_SWEEP};
    boot_us now = clock_boot_us();

    if (!writer->batch->sweep && (!writer->is_tidy_left || now - writer->tidied < PG_TIDY_US)) {
        return;
    }
    if (!writer->is_tidy_left) {
        writer->tidy_ms = writer->tidy_count++ % PG_TIDY_SWEEPS == 0
                              ? PG_TIDY_ALL_MS
                              : PG_TIDY_MS + 2 * (now - writer->tidied) / US_PER_MS;
    }
    writer->tidied = now;
    writer->is_tidy_left = false;
    for (size_t i = 0; i < ARRAY_COUNT(sweeps); i++) {
        pg_params_init(&writer->params);
        pg_params_add_i32(&writer->params, PG_TIDY_ROW_COUNT);
        pg_params_add_i64(&writer->params, writer->tidy_ms);
        command(writer, sweeps[i], 0, &writer->params,
                (struct pg_write_expect){.command = PG_WRITE_TIDY});
    }
}

/* Everything behind the operations, up to the commit and a look at the clock. */
static void send_end(struct pg_writer *writer)
{
    if (writer->plan.claim_count > 0) {
        judge_unseen_claims(writer); // The statement itself leaves out what is not ours.
        send_claims(writer);
    }
    send_drops(writer);
    if (writer->batch->sweep) {
        plain(writer, PG_STMT_CLAIM_SWEEP);
    }
    send_tidying(writer);
    command(writer, PG_STMT_COMMIT, 0, NULL, (struct pg_write_expect){.command = PG_WRITE_COMMIT});
    // Behind the commit, so that its reply is not held back by the flush to disk.
    command(writer, PG_STMT_CLOCK, 0, NULL, (struct pg_write_expect){.command = PG_WRITE_CLOCK});
    writer->commit_sent = true;
    writer->phase = PG_WRITE_COMMITTING;
}

/* --- replies ---------------------------------------------------------------------------------- */

/* SQLSTATE classes that one operation can cause: one row twice, data, integrity, program limits. */
static bool is_data_error(const char *state)
{
    return strncmp(state, "21", 2) == 0 || strncmp(state, "22", 2) == 0 ||
           strncmp(state, "23", 2) == 0 || strncmp(state, "54", 2) == 0;
}

static void note_error(struct pg_writer *writer, const struct pg_write_expect *expect,
                       const PGresult *result)
{
    if (!writer->failed && PQresultStatus(result) == PGRES_FATAL_ERROR) {
        writer->failed_by_data =
            is_data_error(pg_result_state(result)) &&
            (expect->command == PG_WRITE_GROUP || expect->command == PG_WRITE_KEYS);
        writer->failed_at_commit = expect->command == PG_WRITE_COMMIT;
        writer->options.on_error(writer->options.ctx, PQresultErrorMessage(result));
    }
    writer->failed = true;
}

static void take_fence(struct pg_writer *writer, const PGresult *result)
{
    struct pg_i64_view shards;
    struct pg_i64_view epochs;

    writer->options.on_clock(writer->options.ctx, writer->job.sent, clock_boot_us(),
                             pg_value_us(result, 0, 2));
    for (size_t i = 0; i < writer->plan.fence_count; i++) {
        writer->ours[writer->plan.fences[i].shard] = 0;
    }
    if (PQgetisnull(result, 0, 0) != 0) {
        return;
    }
    if (pg_i64_view_read(pg_value(result, 0, 0), &shards) != 0 ||
        pg_i64_view_read(pg_value(result, 0, 1), &epochs) != 0 || shards.count != epochs.count) {
        pg_conn_break(&writer->conn, "the fence's reply cannot be read");
        return;
    }
    for (size_t i = 0; i < shards.count; i++) {
        writer->ours[(uint32_t)pg_i64_view_get(&shards, i) % SHARD_COUNT_MAX] =
            pg_i64_view_get(&epochs, i);
    }
}

/* Rows of PG_STMT_KEYS are the inserts and redrives whose key is held by somebody else. */
static void take_keys(struct pg_writer *writer, const PGresult *result)
{
    for (int i = 0; i < PQntuples(result); i++) {
        struct pg_slot wanted = {
            .shard = (uint32_t)pg_value_i32(result, i, 0),
            .seq = pg_value_i64(result, i, 1),
        };
        const struct pg_slot *slot;

        wanted.epoch = writer->ours[wanted.shard % SHARD_COUNT_MAX];
        slot = pg_plan_find_maker(&writer->plan, &wanted, PG_STMT_INSERT_KEYED);
        REQUIRE(slot != NULL);
        writer->batch->ops[slot->op].result = ERR_EXISTS;
        writer->batch->ops[slot->op].existing = (struct task_id){
            .seq = pg_value_i64(result, i, 2), .slot = (uint16_t)pg_value_i16(result, i, 3)};
    }
}

/* An insert says how many rows it made: all of its operations that hold, or none if fenced. */
static void take_inserts(struct pg_writer *writer, const struct pg_group *group, PGresult *result)
{
    size_t made = (size_t)strtoul(PQcmdTuples(result), NULL, 10);
    const struct pg_slot *first = &writer->plan.slots[group->first];
    bool is_ours = first->epoch > 0 && writer->ours[first->shard] == first->epoch;
    size_t wanted = 0;

    for (size_t i = group->first; is_ours && i < group->first + group->count; i++) {
        wanted += writer->batch->ops[writer->plan.slots[i].op].result == 0;
    }
    if (made != wanted) {
        pg_conn_break(&writer->conn, "an insert made other rows than it should have");
    }
}

/* Statements on existing rows say which tasks they matched. */
static void take_matches(struct pg_writer *writer, const struct pg_group *group,
                         const PGresult *result)
{
    const struct pg_slot *first = &writer->plan.slots[group->first];
    size_t count = (size_t)PQntuples(result);

    if (count > 0 && writer->ours[first->shard] != first->epoch) {
        pg_conn_break(&writer->conn, "a statement matched rows of a shard that is not ours");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct pg_slot wanted = *first;
        const struct pg_slot *slot;

        // All of them in order is what happens nearly always.
        wanted.seq = pg_value_i64(result, (int)i, 0);
        slot = i < group->count && first[i].seq == wanted.seq
                   ? &first[i]
                   : pg_plan_find(&writer->plan, &wanted);
        REQUIRE(slot != NULL);
        writer->batch->ops[slot->op].result = 0;
    }
}

static void take_clock(struct pg_writer *writer, const PGresult *result)
{
    writer->options.on_clock(writer->options.ctx, writer->job.sent, clock_boot_us(),
                             pg_value_us(result, 0, 0));
}

static void write_result(struct pg_job *job, struct pg_conn *conn, PGresult *result)
{
    struct pg_writer *writer = writer_of(job);
    const struct pg_write_expect *expect = &writer->expect[writer->expect_next++];

    (void)conn;
    REQUIRE(writer->expect_next <= writer->expect_count);
    if (!pg_result_ok(result)) {
        note_error(writer, expect, result);
        return;
    }
    switch (expect->command) {
    case PG_WRITE_FENCE:
        take_fence(writer, result);
        break;
    case PG_WRITE_KEYS:
        take_keys(writer, result);
        break;
    case PG_WRITE_GROUP:
        if (writer->plan.slots[expect->group.first].stmt < PG_STMT_REDRIVE) {
            take_inserts(writer, &expect->group, result);
        } else {
            take_matches(writer, &expect->group, result);
        }
        break;
    case PG_WRITE_CLOCK:
        take_clock(writer, result);
        break;
    case PG_WRITE_TIDY:
        writer->is_tidy_left =
            writer->is_tidy_left || strtoul(PQcmdTuples(result), NULL, 10) >= PG_TIDY_ROW_COUNT;
        break;
    case PG_WRITE_COMMIT:
    case PG_WRITE_PLAIN:
        break;
    }
}

/* --- the transaction -------------------------------------------------------------------------- */

static void write_send(struct pg_job *job, struct pg_conn *conn)
{
    struct pg_writer *writer = writer_of(job);

    segment(writer);
    plain(writer, PG_STMT_BEGIN);
    send_fence(writer);
    send_range(writer, (struct pg_write_range){0, (uint32_t)writer->plan.slot_count});
    writer->phase = PG_WRITE_STATEMENTS;
    if (!writer->plan.needs_look) {
        send_end(writer);
    }
    pg_conn_sync(conn);
}

/* The next part of a batch that is taken apart, or its end. */
static void careful_next(struct pg_writer *writer, enum pg_stmt before)
{
    segment(writer);
    if (before == PG_STMT_RELEASE) {
        plain(writer, PG_STMT_RELEASE);
        plain(writer, PG_STMT_SAVEPOINT);
    } else {
        plain(writer, before);
    }
    if (before == PG_STMT_BEGIN) {
        send_fence(writer);
        plain(writer, PG_STMT_SAVEPOINT);
    }
    if (writer->range_count > 0) {
        send_range(writer, writer->ranges[--writer->range_count]);
        writer->phase = PG_WRITE_CAREFUL;
    } else {
        send_end(writer);
    }
    pg_conn_sync(&writer->conn);
}

static void careful_push(struct pg_writer *writer, uint32_t first, uint32_t end)
{
    if (first < end) {
        REQUIRE(writer->range_count < PG_WRITE_RANGE_MAX);
        writer->ranges[writer->range_count++] = (struct pg_write_range){first, end};
    }
}

/* Begin the batch again, in halves: which operation is at fault is to be found. */
static void careful_start(struct pg_writer *writer)
{
    uint32_t count = (uint32_t)writer->plan.slot_count;

    writer->careful = true;
    writer->options.stats->write_split++;
    writer->range_count = 0;
    careful_push(writer, count / 2, count);
    careful_push(writer, 0, count / 2);
    careful_next(writer, PG_STMT_BEGIN);
}

static void careful_failed(struct pg_writer *writer)
{
    struct pg_write_range range = writer->range;
    uint32_t middle = range.first + (range.end - range.first) / 2;

    if (range.end - range.first == 1) {
        writer->batch->ops[writer->plan.slots[range.first].op].result = ERR_INVALID;
    } else {
        careful_push(writer, middle, range.end);
        careful_push(writer, range.first, middle);
    }
    careful_next(writer, PG_STMT_ROLLBACK_TO);
}

static void roll_back(struct pg_writer *writer)
{
    segment(writer);
    plain(writer, PG_STMT_ROLLBACK);
    writer->phase = PG_WRITE_ROLLBACK;
    pg_conn_sync(&writer->conn);
}

/* End the transaction with a result; true, for synced. */
static bool finish(struct pg_writer *writer, int result)
{
    writer->batch->result = result;
    return true;
}

static bool committed(struct pg_writer *writer)
{
    if (pg_conn_sync_cancelled(&writer->conn)) {
        // It is in effect here, and a failover may lose it. source: RELIABILITY P-4
        return finish(writer, ERR_OUTCOME_UNKNOWN);
    }
    judge_unseen_claims(writer);
    judge_fenced(writer);
    return finish(writer, 0);
}

static bool segment_failed(struct pg_writer *writer)
{
    bool by_data = writer->failed_by_data;

    switch (writer->phase) {
    case PG_WRITE_STATEMENTS:
    case PG_WRITE_COMMITTING:
        if (writer->failed_at_commit) {
            return finish(writer, ERR_OUTCOME_UNKNOWN);
        }
        // The commit was skipped with everything behind the error.
        writer->commit_sent = false;
        writer->take_apart = by_data && !writer->careful;
        roll_back(writer);
        return false;
    case PG_WRITE_CAREFUL:
        if (by_data) {
            careful_failed(writer);
        } else {
            writer->take_apart = false;
            roll_back(writer);
        }
        return false;
    case PG_WRITE_ROLLBACK:
    case PG_WRITE_IDLE:
        break;
    }
    pg_conn_break(&writer->conn, "cannot roll back");
    return true;
}

static bool write_synced(struct pg_job *job, struct pg_conn *conn)
{
    struct pg_writer *writer = writer_of(job);

    if (writer->failed) {
        return segment_failed(writer);
    }
    switch (writer->phase) {
    case PG_WRITE_STATEMENTS:
        segment(writer);
        send_end(writer);
        pg_conn_sync(conn);
        return false;
    case PG_WRITE_CAREFUL:
        careful_next(writer, PG_STMT_RELEASE);
        return false;
    case PG_WRITE_COMMITTING:
        return committed(writer);
    case PG_WRITE_ROLLBACK:
        if (writer->take_apart) {
            careful_start(writer);
            return false;
        }
        return finish(writer, ERR_UNAVAILABLE);
    case PG_WRITE_IDLE:
        break;
    }
    UNREACHABLE();
}

/* --- batches ---------------------------------------------------------------------------------- */

static void count_outcome(struct pg_writer *writer, const struct store_batch *batch)
{
    struct store_pg_stats *stats = writer->options.stats;

    if (batch->result == 0) {
        stats->write_batches++;
        stats->write_ops += batch->op_count;
        stats->write_us += clock_boot_us() - writer->started;
    } else if (batch->result == ERR_OUTCOME_UNKNOWN) {
        stats->write_unknown++;
    } else {
        stats->write_refused++;
    }
}

static void start(struct pg_writer *writer, struct store_batch *batch)
{
    writer->batch = batch;
    writer->careful = false;
    writer->commit_sent = false;
    writer->take_apart = false;
    writer->started = clock_boot_us();
    pg_plan_make(&writer->plan, batch, writer->options.database_of, writer->options.database);
    pg_conn_submit(&writer->conn, &writer->job);
}

/* Hand the batch back, take the next. */
static void answer(struct pg_writer *writer)
{
    struct store_batch *batch = writer->batch;
    struct list *next;

    count_outcome(writer, batch);
    writer->batch = NULL;
    writer->phase = PG_WRITE_IDLE;
    next = list_take_first(&writer->waiting);
    if (next != NULL) {
        writer->waiting_count--;
        start(writer, LIST_ENTRY(next, struct store_batch, link));
    }
    writer->options.on_outcome(writer->options.ctx, batch->result);
    batch->cb(batch);
    writer->options.on_answered(writer->options.ctx);
}

static void write_done(struct pg_job *job)
{
    answer(writer_of(job));
}

static void write_lost(struct pg_job *job, bool was_sent)
{
    struct pg_writer *writer = writer_of(job);

    // Before its commit has left, a transaction ends with its connection.
    writer->batch->result = was_sent && writer->commit_sent ? ERR_OUTCOME_UNKNOWN : ERR_UNAVAILABLE;
    answer(writer);
}

static const struct pg_job_type write_type = {
    .send = write_send,
    .result = write_result,
    .synced = write_synced,
    .done = write_done,
    .lost = write_lost,
};

int pg_writer_write(struct pg_writer *writer, struct store_batch *batch)
{
    if (writer->waiting_count >= PG_WRITE_WAITING_MAX) {
        return ERR_FULL;
    }
    if (writer->batch == NULL) {
        start(writer, batch);
    } else {
        list_add(&writer->waiting, &batch->link);
        writer->waiting_count++;
    }
    return 0;
}

void pg_writer_refuse(struct pg_writer *writer)
{
    // One that has been sent is in a phase; the next comes out of the line with each answer.
    while (writer->batch != NULL && writer->phase == PG_WRITE_IDLE) {
        pg_conn_withdraw(&writer->conn, &writer->job);
        writer->batch->result = ERR_UNAVAILABLE;
        answer(writer);
    }
}

uint32_t pg_writer_load(const struct pg_writer *writer)
{
    return writer->waiting_count + (writer->batch != NULL);
}

bool pg_writer_is_idle(const struct pg_writer *writer)
{
    return writer->batch == NULL && !writer->is_polling;
}

/* --- life ------------------------------------------------------------------------------------- */

int pg_writer_open(struct pg_writer *writer, const struct pg_writer_options *options)
{
    struct pg_conn_options conn = options->conn;

    writer->options = *options;
    writer->job.type = &write_type;
    pg_writer_poll_init(writer);
    writer->phase = PG_WRITE_IDLE;
    list_init(&writer->waiting);
    for (size_t i = 0; i < ARRAY_COUNT(writer->arrays); i++) {
        pg_array_init(&writer->arrays[i], ARRAY_BYTES_MAX);
    }
    conn.settings = "";
    conn.in_flight_max = 1;
    return pg_conn_open(&writer->conn, &conn);
}

void pg_writer_close(struct pg_writer *writer)
{
    pg_conn_close(&writer->conn);
}

void pg_writer_fini(struct pg_writer *writer)
{
    for (size_t i = 0; i < ARRAY_COUNT(writer->arrays); i++) {
        pg_array_fini(&writer->arrays[i]);
    }
}
