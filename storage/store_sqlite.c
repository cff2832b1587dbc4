/* SPDX-License-Identifier: Apache-2.0
 *
 * Databases and their threads; clients, their requests, clock and health.
 */
#include "storage/store_sqlite.h"

#include "storage/batch_limits.h"
#include "storage/sqlite_worker.h"
#include "storage/store_sqlite_parts.h"

#include "lib/base/beat.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"
#include "lib/io/loop.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Requests of one client that are not answered: a take-over of every shard fits. */
#define JOB_COUNT_MAX 16384

/* The clock is looked at this often without any write, on the beat. */
#define CLOCK_US US_PER_S

/* How far apart two looks at this machine's two clocks may seem to be: rounding, and being put off
 * between them. */
#define CLOCK_SLACK_US 200

/* A database that refused a write is tried again so often. */
#define PROBE_US (US_PER_S / 2)

_Static_assert(STORE_SQLITE_MESSAGE_LEN >= SQLITE_MESSAGE_LEN, "what a database says fits");

struct store_sqlite {
    struct sqlite_db databases[DATABASE_COUNT_MAX];
    struct sqlite_worker *workers[DATABASE_COUNT_MAX];
    uint32_t database_count;
    atomic_uint client_count; /* clients may be of several threads */
    int64_t epoch_max;
    uint8_t *database_of; /* NULL: all in the first */
};

/* It takes writes again when it has refused none for so long: on a disk that is full small writes
 * find room between large ones that do not. */
#define CALM_US (4 * US_PER_S)

/* What a client knows of one database. */
struct place {
    struct store_sqlite_stats stats;
    bool is_writable;
    bool is_reported;
    bool is_probing;    /* a probe is out */
    boot_us refused_at; /* the last refusal; 0: none */
};

struct sqlite_client {
    struct store store; /* first: the interface */
    struct store_sqlite *shared;
    struct loop *loop;
    struct store_sqlite_events events;
    struct mailbox *mailbox;
    struct loop_timer timer;
    struct loop_task ending; /* the close callback, out of the mailbox's turn */
    struct place places[DATABASE_COUNT_MAX];
    uint32_t outstanding;
    bool is_closing;
    store_close_cb close_cb;
    void *close_ctx;
};

static struct sqlite_client *client_of(struct store *store)
{
    return CONTAINER_OF(store, struct sqlite_client, store);
}

/* --- jobs ------------------------------------------------------------------------------------- */

void sqlite_job_run(struct sqlite_db *db, struct sqlite_job *job)
{
    db->why[0] = '\0';
    job->result = job->type->run(db, job);
    if (job->result == ERR_UNAVAILABLE || job->result == ERR_OUTCOME_UNKNOWN) {
        memcpy(job->why, db->why, sizeof(job->why));
    }
}

void sqlite_job_send_back(struct sqlite_job *job)
{
    // There is room: the mailbox holds as many as may be outstanding.
    int err = mailbox_send(job->client->mailbox, &job->node);

    REQUIRE(err == 0);
}

static int give(struct sqlite_client *client, const struct sqlite_job_type *type, void *subject,
                uint32_t database)
{
    struct sqlite_job *job;

    if (client->outstanding == JOB_COUNT_MAX) {
        return ERR_FULL;
    }
    job = mem_new(1, sizeof(*job));
    if (job == NULL) {
        return ERR_NO_MEMORY;
    }
    job->type = type;
    job->client = client;
    job->subject.any = subject;
    job->database = database;
    job->sent = clock_boot_us();
    sqlite_lent_init(&job->lent);
    list_init(&job->node.node);
    client->outstanding++;
    sqlite_worker_give(client->shared->workers[database], job);
    return 0;
}

/* --- clock and health ------------------------------------------------------------------------- */

/* The database's clock is our own: all but known, for the estimate wants some width. */
static void tell_clock(struct sqlite_client *client, uint32_t database)
{
    const struct store_sqlite_events *events = &client->events;

    if (events->on_clock != NULL) {
        boot_us before = clock_boot_us();
        int64_t wall_us = clock_wall_us();

        events->on_clock(events->ctx, database, before - CLOCK_SLACK_US, clock_boot_us(), wall_us);
    }
}

static void tell_health(struct sqlite_client *client, uint32_t database, bool is_writable)
{
    struct place *place = &client->places[database];

    if (place->is_reported && place->is_writable == is_writable) {
        return;
    }
    place->is_reported = true;
    place->is_writable = is_writable;
    if (client->events.on_health != NULL) {
        client->events.on_health(client->events.ctx, database, is_writable);
    }
}

static void arm_timer(struct sqlite_client *client)
{
    boot_us now = loop_now_us(client->loop);
    int64_t period = CLOCK_US;

    for (uint32_t i = 0; i < client->shared->database_count; i++) {
        if (!client->places[i].is_writable) {
            period = PROBE_US;
        }
    }
    loop_timer_start(&client->timer, beat_after(now, period));
}

/* Try a database that refused; the answer tells its health. */
static void probe(struct sqlite_client *client, uint32_t database)
{
    struct place *place = &client->places[database];

    if (!place->is_writable && !place->is_probing) {
        place->is_probing = give(client, &sqlite_probe_type, NULL, database) == 0;
    }
}

static void on_timer(struct loop_timer *timer, void *ctx)
{
    struct sqlite_client *client = ctx;

    (void)timer;
    for (uint32_t i = 0; i < client->shared->database_count; i++) {
        tell_clock(client, i);
        probe(client, i);
    }
    arm_timer(client);
}

static void note_write(struct sqlite_client *client, const struct sqlite_job *job)
{
    struct place *place = &client->places[job->database];
    bool is_refused = job->result == ERR_UNAVAILABLE || job->result == ERR_OUTCOME_UNKNOWN;
    boot_us now = clock_boot_us();

    if (is_refused && place->is_writable && client->events.on_log != NULL) {
        client->events.on_log(client->events.ctx, job->database, LOG_LEVEL_WARN, job->why);
    }
    if (is_refused) {
        place->refused_at = now;
        tell_health(client, job->database, false);
        arm_timer(client);
    } else if (place->refused_at == 0 || now - place->refused_at >= CALM_US) {
        tell_health(client, job->database, true);
    }
}

static void count(struct sqlite_client *client, const struct sqlite_job *job)
{
    struct store_sqlite_stats *stats = &client->places[job->database].stats;

    if (job->type == &sqlite_read_type) {
        stats->reads++;
    } else if (job->type == &sqlite_bump_type) {
        stats->bumps += job->result == 0;
    } else if (job->type != &sqlite_write_type) {
        return;
    } else if (job->result == 0) {
        stats->write_batches++;
        stats->write_ops += job->subject.batch->op_count;
        stats->write_us += clock_boot_us() - job->sent;
    } else if (job->result == ERR_OUTCOME_UNKNOWN) {
        stats->write_unknown++;
    } else {
        stats->write_refused++;
    }
}

/* --- the end ---------------------------------------------------------------------------------- */

static void on_ending(void *ctx)
{
    struct sqlite_client *client = ctx;

    for (uint32_t i = 0; i < client->shared->database_count; i++) {
        sqlite_worker_settle(client->shared->workers[i]);
    }
    mailbox_close(client->mailbox);
    (void)atomic_fetch_sub(&client->shared->client_count, 1);
    if (client->close_cb != NULL) {
        client->close_cb(client->close_ctx);
    }
    mem_free(client);
}

static void try_close(struct sqlite_client *client)
{
    if (client->is_closing && client->outstanding == 0) {
        loop_post(client->loop, &client->ending);
    }
}

static void sqlite_close(struct store *store, store_close_cb cb, void *ctx)
{
    struct sqlite_client *client = client_of(store);

    REQUIRE(!client->is_closing);
    client->is_closing = true;
    client->close_cb = cb;
    client->close_ctx = ctx;
    loop_timer_stop(&client->timer);
    try_close(client);
}

static void on_answer(struct mailbox_node *node, void *ctx)
{
    struct sqlite_client *client = ctx;
    struct sqlite_job *job = CONTAINER_OF(node, struct sqlite_job, node);

    count(client, job);
    if (job->type->is_write && !client->is_closing) {
        tell_clock(client, job->database);
        note_write(client, job);
    }
    client->places[job->database].is_probing &= job->type != &sqlite_probe_type;
    job->type->answer(job);
    sqlite_lent_fini(&job->lent);
    mem_free(job);
    client->outstanding--;
    try_close(client);
}

/* --- requests --------------------------------------------------------------------------------- */

/* A shard that no database has. */
static bool is_shard(const struct sqlite_client *client, uint32_t shard)
{
    return shard < client->shared->databases[0].shard_count;
}

static int sqlite_write(struct store *store, struct store_batch *batch)
{
    struct sqlite_client *client = client_of(store);
    struct batch_limits limits = {client->shared->database_count,
                                  client->shared->databases[0].shard_count, store->stream_count};
    int code = client->is_closing ? ERR_CLOSED : batch_check(batch, &limits);

    if (code != 0) {
        return code;
    }
    return give(client, &sqlite_write_type, batch, batch->database);
}

static int sqlite_read(struct store *store, struct store_read *read)
{
    struct sqlite_client *client = client_of(store);

    if (client->is_closing) {
        return ERR_CLOSED;
    }
    if (read->limit > store_read_limit_max(read->kind) || read->id_count > SLICE_ROW_COUNT_MAX ||
        read->check_count > SHARD_COUNT_MAX || read->skip_count > QUEUE_COUNT_MAX) {
        return ERR_TOO_LARGE;
    }
    if (read->database >= client->shared->database_count ||
        (read->kind != STORE_READ_EPOCHS && !is_shard(client, read->shard))) {
        return ERR_INVALID;
    }
    return give(client, &sqlite_read_type, read, read->database);
}

static int sqlite_bump(struct store *store, struct store_bump *bump)
{
    struct sqlite_client *client = client_of(store);

    if (client->is_closing) {
        return ERR_CLOSED;
    }
    if (bump->database >= client->shared->database_count || !is_shard(client, bump->shard)) {
        return ERR_INVALID;
    }
    return give(client, &sqlite_bump_type, bump, bump->database);
}

static int sqlite_queue_put(struct store *store, struct store_queue_put *put)
{
    struct sqlite_client *client = client_of(store);

    return client->is_closing ? ERR_CLOSED : give(client, &sqlite_queue_put_type, put, 0);
}

static int sqlite_queue_drop(struct store *store, struct store_queue_drop *drop)
{
    struct sqlite_client *client = client_of(store);

    return client->is_closing ? ERR_CLOSED : give(client, &sqlite_queue_drop_type, drop, 0);
}

static int sqlite_queue_list(struct store *store, struct store_queue_list *list)
{
    struct sqlite_client *client = client_of(store);

    return client->is_closing ? ERR_CLOSED : give(client, &sqlite_queue_list_type, list, 0);
}

int store_sqlite_client(struct store_sqlite *shared,
                        const struct store_sqlite_client_options *options, struct store **out)
{
    struct sqlite_client *client = mem_new(1, sizeof(*client));
    int err;

    if (client == NULL) {
        return ERR_NO_MEMORY;
    }
    client->store = (struct store){
        .stream_count = 1, // There is one file, and one thread for it.
        .write = sqlite_write,
        .read = sqlite_read,
        .bump = sqlite_bump,
        .queue_put = sqlite_queue_put,
        .queue_drop = sqlite_queue_drop,
        .queue_list = sqlite_queue_list,
        .close = sqlite_close,
    };
    client->shared = shared;
    client->loop = options->loop;
    client->events = options->events;
    err = mailbox_open(options->loop, JOB_COUNT_MAX, on_answer, client, &client->mailbox);
    if (err != 0) {
        mem_free(client);
        return err;
    }
    loop_task_init(&client->ending, on_ending, client);
    loop_timer_init(&client->timer, options->loop, on_timer, client);
    loop_timer_start(&client->timer, 0); // The first look, at clock and health.
    (void)atomic_fetch_add(&shared->client_count, 1);
    *out = &client->store;
    return 0;
}

void store_sqlite_stats(const struct store *store, uint32_t database,
                        struct store_sqlite_stats *out)
{
    // The store is the struct's first member.
    const struct sqlite_client *client = (const struct sqlite_client *)(const void *)store;

    REQUIRE(database < client->shared->database_count);
    *out = client->places[database].stats;
}

/* --- databases -------------------------------------------------------------------------------- */

/* Databases of one store belong to one cluster. */
static int compare(const struct sqlite_db *first, const struct sqlite_db *other, char *errmsg)
{
    if (strcmp(first->cluster_id, other->cluster_id) == 0 &&
        first->shard_count == other->shard_count) {
        return 0;
    }
    (void)snprintf(errmsg, STORE_SQLITE_MESSAGE_LEN,
                   "the databases belong to different clusters, %s and %s: name files that were"
                   " made together",
                   first->cluster_id, other->cluster_id);
    return ERR_CONFLICT;
}

/* Where the epochs of an open database have got to. */
static int note_epoch(struct store_sqlite *shared, struct sqlite_db *db)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_EPOCH_MAX);
    enum sqlite_step step = sqlite_db_step(db, stmt);

    while (step == SQLITE_STEP_ROW) {
        shared->epoch_max = time_max(shared->epoch_max, sqlite_column(stmt, 0));
        step = sqlite_db_step(db, stmt);
    }
    return step == SQLITE_STEP_FAILED ? ERR_IO : 0;
}

static int open_one(struct store_sqlite *shared, const struct store_sqlite_options *options,
                    uint32_t index, char *errmsg)
{
    struct sqlite_db *db = &shared->databases[index];
    int err;

    db->index = index;
    db->database_of = shared->database_of;
    err = sqlite_db_open(db, options->paths[index], options->cluster_id, options->shard_count,
                         errmsg);
    if (err != 0) {
        return err;
    }
    shared->database_count++;
    err = compare(&shared->databases[0], db, errmsg);
    if (err == 0 && note_epoch(shared, db) != 0) {
        (void)snprintf(errmsg, STORE_SQLITE_MESSAGE_LEN, "cannot read the epochs: %s", db->why);
        err = ERR_IO;
    }
    if (err != 0) {
        return err;
    }
    err = sqlite_worker_open(db, &shared->workers[index]);
    if (err != 0) {
        (void)snprintf(errmsg, STORE_SQLITE_MESSAGE_LEN, "cannot start the database's thread: %s",
                       err_text(err));
    }
    return err;
}

int store_sqlite_open(const struct store_sqlite_options *options, struct store_sqlite **out,
                      char *errmsg)
{
    struct store_sqlite *shared = mem_new(1, sizeof(*shared));
    int err = shared == NULL ? ERR_NO_MEMORY : 0;

    REQUIRE(options->database_count >= 1 && options->database_count <= DATABASE_COUNT_MAX);
    REQUIRE(options->shard_count >= 1 && options->shard_count <= SHARD_COUNT_MAX);
    if (err == 0 && options->database_of != NULL) {
        // Of the largest cluster, so that a shard of a database that differs has a place.
        shared->database_of = mem_new(SHARD_COUNT_MAX, 1);
        err = shared->database_of == NULL ? ERR_NO_MEMORY : 0;
    }
    if (err != 0) {
        (void)snprintf(errmsg, STORE_SQLITE_MESSAGE_LEN, "out of memory");
        mem_free(shared);
        return err;
    }
    if (options->database_of != NULL) {
        memcpy(shared->database_of, options->database_of, options->shard_count);
    }
    for (uint32_t i = 0; err == 0 && i < options->database_count; i++) {
        err = open_one(shared, options, i, errmsg);
    }
    if (err != 0) {
        store_sqlite_close(shared);
        return err;
    }
    *out = shared;
    return 0;
}

void store_sqlite_close(struct store_sqlite *shared)
{
    if (shared == NULL) {
        return;
    }
    REQUIRE(atomic_load(&shared->client_count) == 0);
    for (uint32_t i = 0; i < shared->database_count; i++) {
        sqlite_worker_close(shared->workers[i]);
        sqlite_db_close(&shared->databases[i]);
    }
    mem_free(shared->database_of);
    mem_free(shared);
}

void store_sqlite_found(const struct store_sqlite *shared, struct store_sqlite_found *out)
{
    *out = (struct store_sqlite_found){
        .cluster_id = shared->databases[0].cluster_id,
        .shard_count = shared->databases[0].shard_count,
        .epoch_max = shared->epoch_max,
    };
}
