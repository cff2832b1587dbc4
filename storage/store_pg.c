/* SPDX-License-Identifier: Apache-2.0
 *
 * Databases, their connections, clock polls and health: where requests go and what is reported. The
 * requests themselves are in pg_write, pg_read, pg_bump and pg_queue.
 */
#include "storage/store_pg.h"

#include "storage/batch_limits.h"
#include "storage/pg_age.h"
#include "storage/pg_bump.h"
#include "storage/pg_queue.h"
#include "storage/pg_read.h"
#include "storage/pg_streams.h"

#include "lib/base/beat.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Slices of a take-over are read for many shards at once; two keep the server and us busy. */
#define READER_COUNT 2

/* Bumps of a take-over are commits: two share the flushes. */
#define BUMP_COUNT 2

#define KILLER     0 /* index of the connection that ends blockers */
#define BUMPS      1
#define READERS    (BUMPS + BUMP_COUNT)
#define SIDE_COUNT (READERS + READER_COUNT)

/* Reads sent on one connection before their answers have come. */
#define READ_FLIGHT_MAX 8

/* Requests of a kind that wait in one database; a take-over of every shard fits. */
#define READ_LOAD_MAX 8192

/* A database that has had no write for so long is polled seldom: once in so many beats. The reply
 * of the commit that ends the quiet brings a fresh clock before anything can start. */
#define IDLE_US    (5 * US_PER_S)
#define IDLE_BEATS 2

struct pg_database {
    struct store_pg *store;
    uint32_t index;
    char *name;
    char *conninfo;
    struct pg_streams *streams;
    struct pg_conn side[SIDE_COUNT]; /* all connections but the writers' */
    struct pg_read_env read_env;
    struct pg_bump_env bump_env;
    struct pg_age age;
    struct pg_queue_env queue_env;
    struct store_pg_stats stats;
    uint32_t next_number; /* in application_name */
    uint64_t system_id;
    uint32_t timeline;
    bool is_writable;
    bool is_reported;      /* on_health has been called */
    boot_us last_good;     /* the last commit, or poll of a database that refuses nothing */
    boot_us refused_since; /* writes have failed since, 0: they do not */
    boot_us last_clock;
    boot_us last_poll;
    boot_us next_poll;
    boot_us last_write; /* when a batch was taken last */
};

struct store_pg {
    struct store store; /* first: the interface */
    struct store_pg_options options;
    char *cluster_id;
    char *instance;
    uint8_t *database_of;
    struct pg_database *databases;
    struct resolver *resolver;
    struct loop_timer timer;
    uint32_t outstanding; /* requests and searches that are not over */
    uint32_t open_count;  /* connections that are not closed */
    bool is_closing;
    bool is_draining; /* the connections have been told to close */
    store_close_cb close_cb;
    void *close_ctx;
};

void store_pg_options_init(struct store_pg_options *options)
{
    memset(options, 0, sizeof(*options));
    options->command_ms = STORE_PG_COMMAND_MS_DEFAULT;
    options->connect_ms = STORE_PG_CONNECT_MS_DEFAULT;
    options->unwritable_ms = STORE_PG_UNWRITABLE_MS_DEFAULT;
    options->clock_poll_ms = STORE_PG_CLOCK_POLL_MS_DEFAULT;
    options->age_poll_ms = STORE_PG_AGE_POLL_MS_DEFAULT;
}

static struct store_pg *store_of(struct store *store)
{
    return CONTAINER_OF(store, struct store_pg, store);
}

/* --- reports ---------------------------------------------------------------------------------- */

PRINTF_LIKE(3, 4)
static void report(const struct pg_database *database, enum log_level level, const char *format,
                   ...)
{
    const struct store_pg_events *events = &database->store->options.events;
    char line[512];
    int len;
    va_list args;

    if (events->on_log == NULL) {
        return;
    }
    len = snprintf(line, sizeof(line), "database '%s': ", database->name);
    va_start(args, format);
    (void)vsnprintf(line + len, sizeof(line) - (size_t)len, format, args);
    va_end(args);
    line[strcspn(line, "\n")] = '\0';
    events->on_log(events->ctx, database->index, level, line);
}

static void set_writable(struct pg_database *database, bool is_writable)
{
    const struct store_pg_events *events = &database->store->options.events;

    if (database->is_reported && database->is_writable == is_writable) {
        return;
    }
    database->is_reported = true;
    database->is_writable = is_writable;
    if (events->on_health != NULL) {
        events->on_health(events->ctx, database->index, is_writable);
    }
}

static void note_good(struct pg_database *database)
{
    database->last_good = clock_boot_us();
    database->refused_since = 0;
    set_writable(database, true);
}

/* Time passes without good news. */
static void judge_health(struct pg_database *database, boot_us now)
{
    boot_us limit = database->store->options.unwritable_ms * US_PER_MS;

    if (now - database->last_good > limit ||
        (database->refused_since != 0 && now - database->refused_since > limit)) {
        set_writable(database, false);
    }
}

static void on_clock(void *ctx, boot_us sent, boot_us received, int64_t clock_us)
{
    struct pg_database *database = ctx;
    const struct store_pg_events *events = &database->store->options.events;

    database->last_clock = received;
    if (events->on_clock != NULL) {
        events->on_clock(events->ctx, database->index, sent, received, clock_us);
    }
}

static void on_outcome(void *ctx, int result)
{
    struct pg_database *database = ctx;

    if (result == 0) {
        note_good(database);
    } else if (database->refused_since == 0) {
        database->refused_since = clock_boot_us();
    }
}

static void try_close(struct store_pg *store);

/* Nothing is written, and all is well. */
static bool is_idle(const struct pg_database *database, boot_us now)
{
    return database->is_writable && database->refused_since == 0 &&
           database->last_clock >= database->last_poll && now - database->last_write > IDLE_US;
}

/* When a database is to be polled next: as often as its clock and health need it. */
static void plan_poll(struct pg_database *database, boot_us now)
{
    const struct store_pg_options *options = &database->store->options;
    boot_us last = time_min(database->last_clock, database->last_good);

    database->next_poll = time_max(last, database->last_poll) + options->clock_poll_ms * US_PER_MS;
    if (is_idle(database, now)) {
        database->next_poll = beat_after(now, IDLE_BEATS * beat_us(options->unwritable_ms));
    }
}

static void arm_timer(struct store_pg *store)
{
    boot_us at = BOOT_NEVER;

    for (uint32_t i = 0; i < store->options.database_count; i++) {
        at = time_min(at, store->databases[i].next_poll);
    }
    loop_timer_start(&store->timer, at);
}

/* A poll of the writer's connection has ended: 0 if the server can be written to. */
static void on_poll(void *ctx, int result)
{
    struct pg_database *database = ctx;
    boot_us now = clock_boot_us();

    if (result != 0 || database->store->is_closing) {
        try_close(database->store);
        return;
    }
    // A full disk answers polls and refuses writes. When writes are no longer tried, because it was
    // reported, the polls are all there is to go by, after a while.
    if (database->refused_since == 0 ||
        (!database->is_writable &&
         now - database->refused_since > 2 * database->store->options.unwritable_ms * US_PER_MS)) {
        note_good(database);
    }
    plan_poll(database, now);
    arm_timer(database->store);
}

/* The first stream tells whether the database can be written to. */
static void on_other_outcome(void *ctx, int result)
{
    (void)ctx;
    (void)result;
}

static void on_other_poll(void *ctx, int result)
{
    (void)result;
    try_close(((struct pg_database *)ctx)->store);
}

static void on_error(void *ctx, const char *message)
{
    report(ctx, LOG_LEVEL_WARN, "%s", message);
}

static void on_hello(void *ctx, struct pg_conn *conn, const struct pg_hello *hello)
{
    struct pg_database *database = ctx;
    const struct store_pg_events *events = &database->store->options.events;
    bool is_known = database->system_id != 0;

    database->stats.connections_made++;
    report(database, LOG_LEVEL_INFO, "connected as %s, system %" PRIu64 ", timeline %" PRIu32,
           conn->options.name, hello->system_id, hello->timeline);
    if (database->system_id != hello->system_id || database->timeline != hello->timeline) {
        database->system_id = hello->system_id;
        database->timeline = hello->timeline;
        database->stats.server_changes += is_known ? 1 : 0;
        if (is_known && events->on_changed != NULL) {
            events->on_changed(events->ctx, database->index, hello->system_id, hello->timeline);
        }
        if (is_known) {
            // What waits was made by the rows of the server before: the claims that it drops may be
            // live here. source: RELIABILITY H-6
            pg_streams_refuse(database->streams);
        }
    }
    on_clock(database, hello->sent, hello->received, hello->clock_us);
    if (pg_streams_is_first(database->streams, conn)) {
        pg_streams_renew(database->streams, hello);
        on_poll(database, 0);
    }
}

static void on_lost(void *ctx, struct pg_conn *conn, const char *reason)
{
    struct pg_database *database = ctx;

    database->stats.connections_lost++;
    report(database, LOG_LEVEL_WARN, "connection %s lost: %s", conn->options.name, reason);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void database_free(struct pg_database *database)
{
    if (database->streams != NULL) {
        pg_streams_fini(database->streams);
    }
    mem_free(database->streams);
    mem_free(database->name);
    mem_free(database->conninfo);
}

static void store_free(struct store_pg *store)
{
    for (uint32_t i = 0; i < store->options.database_count; i++) {
        database_free(&store->databases[i]);
    }
    if (store->resolver != NULL) {
        resolver_close(store->resolver);
    }
    mem_free(store->databases);
    mem_free(store->database_of);
    mem_free(store->cluster_id);
    mem_free(store->instance);
    mem_free(store);
}

static void on_closed(void *ctx, struct pg_conn *conn)
{
    struct store_pg *store = ((struct pg_database *)ctx)->store;

    (void)conn;
    store->open_count--;
    if (store->open_count == 0) {
        if (store->close_cb != NULL) {
            store->close_cb(store->close_ctx);
        }
        store_free(store);
    }
}

/* Close the connections once nothing is under way. */
static void try_close(struct store_pg *store)
{
    bool is_idle = store->outstanding == 0;

    for (uint32_t i = 0; i < store->options.database_count; i++) {
        is_idle = is_idle && pg_streams_is_idle(store->databases[i].streams);
    }
    if (!store->is_closing || store->is_draining || !is_idle) {
        return;
    }
    store->is_draining = true;
    loop_timer_stop(&store->timer);
    for (uint32_t i = 0; i < store->options.database_count; i++) {
        pg_age_stop(&store->databases[i].age);
        pg_streams_close(store->databases[i].streams);
        for (int j = 0; j < SIDE_COUNT; j++) {
            pg_conn_close(&store->databases[i].side[j]);
        }
    }
}

static void on_begun(void *ctx)
{
    ((struct pg_database *)ctx)->store->outstanding++;
}

static void on_answered(void *ctx)
{
    struct store_pg *store = ((struct pg_database *)ctx)->store;

    store->outstanding--;
    try_close(store);
}

static void on_read_answered(void *ctx)
{
    struct pg_database *database = ctx;

    database->stats.reads++;
    on_answered(ctx);
}

/* --- requests --------------------------------------------------------------------------------- */

/* The first write after a quiet time: the clock is asked for more often again. */
static void note_write(struct pg_database *database)
{
    boot_us now = loop_now_us(database->store->options.loop);
    bool was_idle = is_idle(database, now);

    database->last_write = now;
    if (was_idle) {
        plan_poll(database, now);
        arm_timer(database->store);
    }
}

static int pg_write(struct store *self, struct store_batch *batch)
{
    struct store_pg *store = store_of(self);
    struct batch_limits limits = {store->options.database_count, store->options.shard_count,
                                  self->stream_count};
    int code = store->is_closing ? ERR_CLOSED : batch_check(batch, &limits);

    if (code == 0) {
        code = pg_streams_write(store->databases[batch->database].streams, batch);
    }
    if (code == 0) {
        store->outstanding++;
        note_write(&store->databases[batch->database]);
    }
    return code;
}

/* Of some connections: one that is ready, if any, and has the least to do. */
static struct pg_conn *choose(struct pg_conn *conns, int count)
{
    struct pg_conn *best = &conns[0];

    for (int i = 1; i < count; i++) {
        bool is_ready = conns[i].state == PG_CONN_READY;
        bool best_is_ready = best->state == PG_CONN_READY;

        if (is_ready != best_is_ready ? is_ready : pg_conn_load(&conns[i]) < pg_conn_load(best)) {
            best = &conns[i];
        }
    }
    return best;
}

static int pg_read(struct store *self, struct store_read *read)
{
    struct store_pg *store = store_of(self);
    struct pg_conn *conn;
    int code;

    if (store->is_closing) {
        return ERR_CLOSED;
    }
    if (read->limit > store_read_limit_max(read->kind) || read->id_count > SLICE_ROW_COUNT_MAX ||
        read->check_count > SHARD_COUNT_MAX || read->skip_count > QUEUE_COUNT_MAX) {
        return ERR_TOO_LARGE;
    }
    if (read->database >= store->options.database_count ||
        (read->kind != STORE_READ_EPOCHS && read->shard >= store->options.shard_count)) {
        return ERR_INVALID;
    }
    conn = choose(&store->databases[read->database].side[READERS], READER_COUNT);
    if (pg_conn_load(conn) >= READ_LOAD_MAX) {
        return ERR_FULL;
    }
    code = pg_read_start(conn, &store->databases[read->database].read_env, read);
    store->outstanding += code == 0;
    return code;
}

static int pg_bump(struct store *self, struct store_bump *bump)
{
    struct store_pg *store = store_of(self);
    int code;

    if (store->is_closing) {
        return ERR_CLOSED;
    }
    if (bump->database >= store->options.database_count ||
        bump->shard >= store->options.shard_count) {
        return ERR_INVALID;
    }
    code = pg_bump_start(choose(&store->databases[bump->database].side[BUMPS], BUMP_COUNT),
                         &store->databases[bump->database].bump_env, bump);
    store->outstanding += code == 0;
    return code;
}

/* One of some connections to the home database. While it is known to be away and none is there, a
 * request would wait for one in vain: it is refused at once. */
static int choose_home(struct store_pg *store, int first, int count, struct pg_conn **out)
{
    struct pg_database *home = &store->databases[0];
    struct pg_conn *conn = choose(&home->side[first], count);

    if (store->is_closing) {
        return ERR_CLOSED;
    }
    if (home->is_reported && !home->is_writable && conn->state != PG_CONN_READY) {
        return ERR_UNAVAILABLE;
    }
    *out = conn;
    return 0;
}

static int pg_queue_put(struct store *self, struct store_queue_put *put)
{
    struct store_pg *store = store_of(self);
    struct pg_conn *conn;
    int code = choose_home(store, BUMPS, BUMP_COUNT, &conn);

    if (code == 0) {
        code = pg_queue_put_start(conn, &store->databases[0].queue_env, put);
    }
    store->outstanding += code == 0;
    return code;
}

static int pg_queue_drop(struct store *self, struct store_queue_drop *drop)
{
    struct store_pg *store = store_of(self);
    struct pg_conn *conn;
    int code = choose_home(store, BUMPS, BUMP_COUNT, &conn);

    if (code == 0) {
        code = pg_queue_drop_start(conn, &store->databases[0].queue_env, drop);
    }
    store->outstanding += code == 0;
    return code;
}

static int pg_queue_list(struct store *self, struct store_queue_list *list)
{
    struct store_pg *store = store_of(self);
    struct pg_conn *conn;
    int code = choose_home(store, READERS, READER_COUNT, &conn);

    if (code == 0) {
        code = pg_queue_list_start(conn, &store->databases[0].queue_env, list);
    }
    store->outstanding += code == 0;
    return code;
}

static void pg_close(struct store *self, store_close_cb cb, void *ctx)
{
    struct store_pg *store = store_of(self);

    REQUIRE(!store->is_closing);
    store->is_closing = true;
    store->close_cb = cb;
    store->close_ctx = ctx;
    try_close(store);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Ask for clock and health, unless replies to writes have told enough. */
static void poll(struct pg_database *database, boot_us now)
{
    boot_us poll_us = database->store->options.clock_poll_ms * US_PER_MS;
    bool is_due = now - time_min(database->last_clock, database->last_good) >= poll_us;

    pg_streams_poll(database->streams, now, is_due);
    database->last_poll = is_due ? now : database->last_poll;
    plan_poll(database, now);
}

static void on_timer(struct loop_timer *timer, void *ctx)
{
    struct store_pg *store = ctx;
    boot_us now = clock_boot_us();

    (void)timer;
    for (uint32_t i = 0; i < store->options.database_count; i++) {
        struct pg_database *database = &store->databases[i];

        if (now >= database->next_poll) {
            poll(database, now);
        }
        judge_health(database, now);
    }
    arm_timer(store);
}

static struct pg_conn_options conn_options(struct pg_database *database)
{
    const struct store_pg *store = database->store;
    struct pg_conn_options options = {
        .loop = store->options.loop,
        .resolver = store->resolver,
        .conninfo = database->conninfo,
        .cluster_id = store->cluster_id,
        .connect_ms = store->options.connect_ms,
        .command_ms = store->options.command_ms,
        .in_flight_max = 1,
        .allow_async_commit = store->options.allow_async_commit,
        .on_hello = on_hello,
        .on_lost = on_lost,
        .on_closed = on_closed,
        .ctx = database,
    };

    (void)snprintf(options.name, sizeof(options.name), "foliot/%.32s/%" PRIu32, store->instance,
                   database->index * 16 + database->next_number++);
    return options;
}

static int open_stream(struct pg_database *database, uint32_t stream)
{
    struct pg_writer_options options = {
        .conn = conn_options(database),
        .stats = &database->stats,
        .on_clock = on_clock,
        .on_outcome = stream == 0 ? on_outcome : on_other_outcome,
        .on_poll = stream == 0 ? on_poll : on_other_poll,
        .on_error = on_error,
        .on_answered = on_answered,
        .database_of = database->store->database_of,
        .database = database->index,
        .ctx = database,
    };
    int code = pg_streams_open(database->streams, stream, &options);

    database->store->open_count += code == 0 ? 1 : 0;
    return code;
}

static int open_sides(struct pg_database *database)
{
    for (int i = 0; i < SIDE_COUNT; i++) {
        struct pg_conn_options options = conn_options(database);
        int code;

        options.settings = i >= READERS ? PG_READ_SETTINGS : i >= BUMPS ? PG_BUMP_SETTINGS : "";
        options.in_flight_max = i >= READERS ? READ_FLIGHT_MAX : 1;
        code = pg_conn_open(&database->side[i], &options);
        if (code != 0) {
            return code;
        }
        database->store->open_count++;
    }
    return 0;
}

static void make_envs(struct pg_database *database)
{
    const struct store_pg *store = database->store;

    database->read_env = (struct pg_read_env){
        .shard_count = store->options.shard_count,
        .database_of = store->database_of,
        .database = database->index,
        .on_clock = on_clock,
        .on_answered = on_read_answered,
        .ctx = database,
    };
    database->bump_env = (struct pg_bump_env){
        .loop = store->options.loop,
        .killer = &database->side[KILLER],
        .limit_ms = store->options.command_ms,
        .stats = &database->stats,
        .on_clock = on_clock,
        .on_begun = on_begun,
        .on_answered = on_answered,
        .ctx = database,
    };
    database->age = (struct pg_age){
        .conn = &database->side[KILLER],
        .every_ms = store->options.age_poll_ms,
        .stats = &database->stats,
        .on_begun = on_begun,
        .on_answered = on_answered,
        .ctx = database,
    };
    database->queue_env = (struct pg_queue_env){.on_answered = on_answered, .ctx = database};
}

static int open_database(struct store_pg *store, uint32_t index)
{
    const struct store_pg_database *given = &store->options.databases[index];
    struct pg_database *database = &store->databases[index];
    int code;

    database->store = store;
    database->index = index;
    database->name = mem_copy(given->name, strlen(given->name));
    database->conninfo = mem_copy(given->conninfo, strlen(given->conninfo));
    database->streams = mem_new(1, sizeof(*database->streams));
    if (database->name == NULL || database->conninfo == NULL || database->streams == NULL) {
        return ERR_NO_MEMORY;
    }
    database->last_good = clock_boot_us();
    make_envs(database);
    code = open_stream(database, 0);
    code = code == 0 ? open_sides(database) : code;
    for (uint32_t i = 1; i < STORE_STREAM_COUNT_MAX && code == 0; i++) {
        code = open_stream(database, i);
    }
    return code;
}

static struct store_pg *store_new(const struct store_pg_options *options)
{
    struct store_pg *store = mem_new(1, sizeof(*store));
    struct resolver_options resolving;

    if (store == NULL) {
        return NULL;
    }
    store->store = (struct store){
        .stream_count = STORE_STREAM_COUNT_MAX,
        .write = pg_write,
        .read = pg_read,
        .bump = pg_bump,
        .queue_put = pg_queue_put,
        .queue_drop = pg_queue_drop,
        .queue_list = pg_queue_list,
        .close = pg_close,
    };
    store->options = *options;
    store->databases = mem_new(options->database_count, sizeof(*store->databases));
    store->database_of = mem_new(options->shard_count, 1);
    store->cluster_id = mem_copy(options->cluster_id, strlen(options->cluster_id));
    store->instance = mem_copy(options->instance, strlen(options->instance));
    loop_timer_init(&store->timer, options->loop, on_timer, store);
    resolver_options_init(&resolving);
    if (resolver_open(options->loop, &resolving, &store->resolver) != 0 ||
        store->databases == NULL || store->database_of == NULL || store->cluster_id == NULL ||
        store->instance == NULL) {
        store->options.database_count = 0;
        store_free(store);
        return NULL;
    }
    if (options->database_of != NULL) {
        memcpy(store->database_of, options->database_of, options->shard_count);
    }
    return store;
}

/* Take back what has been opened; no callback of ours is out yet. */
static void give_up(struct store_pg *store, uint32_t opened)
{
    store->options.database_count = opened;
    store->is_closing = true;
    store->is_draining = true;
    for (uint32_t i = 0; i < opened; i++) {
        if (store->databases[i].streams != NULL) {
            pg_streams_close(store->databases[i].streams);
        }
        for (int j = 0; j < SIDE_COUNT; j++) {
            if (store->databases[i].side[j].state != 0) {
                pg_conn_close(&store->databases[i].side[j]);
            }
        }
    }
    if (store->open_count == 0) {
        store_free(store);
    }
}

int store_pg_open(const struct store_pg_options *options, struct store **out, char *errmsg,
                  size_t errmsg_size)
{
    struct store_pg *store;

    REQUIRE(options->database_count >= 1 && options->database_count <= DATABASE_COUNT_MAX);
    REQUIRE(options->shard_count >= 1 && options->shard_count <= SHARD_COUNT_MAX);
    store = store_new(options);
    if (store == NULL) {
        (void)snprintf(errmsg, errmsg_size, "out of memory");
        return ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < options->database_count; i++) {
        int code = open_database(store, i);

        if (code != 0) {
            (void)snprintf(errmsg, errmsg_size, "cannot use database '%s': %s",
                           options->databases[i].name,
                           code == ERR_INVALID ? "its conninfo cannot be parsed" : err_text(code));
            give_up(store, i + 1);
            return code;
        }
    }
    for (uint32_t i = 0; i < options->database_count; i++) {
        pg_age_start(&store->databases[i].age, options->loop);
    }
    store->options.databases = NULL;
    loop_timer_start(&store->timer, 0);
    *out = &store->store;
    return 0;
}

void store_pg_stats(const struct store *store, uint32_t database, struct store_pg_stats *out)
{
    // The store is the struct's first member.
    const struct store_pg *self = (const struct store_pg *)(const void *)store;

    REQUIRE(database < self->options.database_count);
    *out = self->databases[database].stats;
    store_pg_server(store, database, &out->system_id, &out->timeline);
}

int store_pg_library_version(void)
{
    return PQlibVersion();
}

void store_pg_server(const struct store *store, uint32_t database, uint64_t *system_id,
                     uint32_t *timeline)
{
    const struct store_pg *self = (const struct store_pg *)(const void *)store;

    REQUIRE(database < self->options.database_count);
    *system_id = self->databases[database].system_id;
    *timeline = self->databases[database].timeline;
}
