/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of store and coordinator: to the core, to the clock estimate, to the log.
 */
#include "broker/server_parts.h"

#include "lib/io/clock.h"

#include <inttypes.h>
#include <string.h>

/* ---- core ---- */

/* What an operator wants to read of a shard's life; the rest is for tests. */
static const struct {
    const char *what;
    enum log_level level;
    const char *message;
} CORE_EVENTS[] = {
    {"active", LOG_LEVEL_INFO, "serving a shard"},
    {"idle", LOG_LEVEL_INFO, "a shard is no longer served"},
    {"draining", LOG_LEVEL_INFO, "giving a shard away"},
    {"fenced", LOG_LEVEL_WARN,
     "dropped a shard: it is another broker's by now, or its database refuses writes"},
    {"unknown", LOG_LEVEL_WARN, "the outcome of a write is unknown, raising the shard's epoch"},
    {"superseded", LOG_LEVEL_WARN,
     "the database has a higher epoch than ZooKeeper gives; if ZooKeeper was rebuilt, its base has "
     "to be raised"},
    {"missed", LOG_LEVEL_ERROR, "audit: a task is due and in nobody's hands"},
    {"missed-claim", LOG_LEVEL_ERROR, "audit: a claim is past its deadline and nobody ends it"},
    {"missing-row", LOG_LEVEL_ERROR, "audit: a task in memory has no row in the database"},
    {"mismatch", LOG_LEVEL_ERROR, "memory and database disagree about a task, memory gives way"},
};

/* One line for each step of each task: only at level debug. */
static void log_step(struct server *server, const struct core_event *event)
{
    const struct logger core = {&server->log, "core"};

    LOG_WRITE(&core, LOG_LEVEL_DEBUG, clock_wall_us(), event->what, log_uint("shard", event->shard),
              log_int("epoch", event->epoch), log_int("seq", event->seq), log_int("a", event->a),
              log_int("b", event->b));
}

/* A shard that was never served comes back to idle as well, when somebody else has it. */
static bool is_news(struct server *server, const struct core_event *event)
{
    bool was_served = shard_set_has(&server->served, event->shard);

    if (strcmp(event->what, "active") == 0) {
        shard_set_add(&server->served, event->shard);
    } else if (strcmp(event->what, "idle") == 0) {
        shard_set_del(&server->served, event->shard);
        return was_served;
    }
    return true;
}

void server_on_core_event(void *ctx, const struct core_event *event)
{
    struct server *server = ctx;

    if (log_is_on(&server->logger, LOG_LEVEL_DEBUG)) {
        log_step(server, event);
    } else if (event->seq != 0 && event->what[0] != 'm') {
        // A task's step: many a second, and looked for by no operator. Not what begins with "m": a
        // mismatch, or what the auditor has found.
        return;
    }
    for (size_t i = 0; i < ARRAY_COUNT(CORE_EVENTS) && is_news(server, event); i++) {
        if (strcmp(event->what, CORE_EVENTS[i].what) == 0) {
            SERVER_LOG(server, CORE_EVENTS[i].level, CORE_EVENTS[i].message,
                       log_uint("shard", event->shard), log_int("epoch", event->epoch),
                       log_int("task", event->seq));
            return;
        }
    }
}

/* ---- store ---- */

void server_on_clock(void *ctx, uint32_t database, boot_us sent, boot_us received,
                     int64_t database_us)
{
    struct server *server = ctx;
    struct server_database *db = &server->databases[database];
    const struct clock_sample sample = {sent, received, database_us};

    switch (clock_estimate_add(&db->clock, &sample)) {
    case CLOCK_STEP_FORWARD:
        db->clock_steps++;
        SERVER_LOG(server, LOG_LEVEL_WARN, "the database's clock has stepped forward",
                   log_text("database", db->name));
        break;
    case CLOCK_STEP_BACKWARD:
        db->clock_steps++;
        SERVER_LOG(server, LOG_LEVEL_WARN,
                   "the database's clock has stepped backward, due times are held until it has "
                   "caught up",
                   log_text("database", db->name),
                   log_int("held_us", clock_estimate_held(&db->clock, received)));
        break;
    case CLOCK_TAKEN:
    case CLOCK_IGNORED:
    case CLOCK_STEP_PENDING:
        break;
    }
}

void server_on_health(void *ctx, uint32_t database, bool writable)
{
    struct server *server = ctx;
    struct server_database *db = &server->databases[database];

    db->is_writable = writable;
    server_publish_soon(server);
    SERVER_LOG(server, writable ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR,
               writable ? "the database takes writes" : "the database does not take writes",
               log_text("database", db->name));
}

void server_on_store_log(void *ctx, uint32_t database, enum log_level level, const char *line)
{
    struct server *server = ctx;

    SERVER_LOG(server, level, "store", log_text("database", server->databases[database].name),
               log_text("note", line));
}

/* ---- targets ---- */

void server_on_failing(void *ctx, const char *queue, const char *target,
                       const struct failure_note *note)
{
    struct server *server = ctx;

    SERVER_LOG(server, LOG_LEVEL_WARN, "attempts fail", log_text("queue", queue),
               log_text("target", target), log_uint("to_retry", note->counts[OUTCOME_RETRY]),
               log_uint("dead", note->counts[OUTCOME_DEAD]),
               log_uint("unknown", note->counts[OUTCOME_UNKNOWN]),
               log_uint("not_started", note->counts[OUTCOME_NOT_STARTED]),
               log_text("cause", note->cause));
}

/* ---- coordinator ---- */

static const char *session_text(enum coord_session session)
{
    switch (session) {
    case COORD_AWAY:
        return "ZooKeeper is away, what we hold goes on";
    case COORD_CONNECTED:
        return "ZooKeeper is back, the session has survived";
    case COORD_NEW:
        return "registered with a new ZooKeeper session";
    case COORD_LOST:
        return "the ZooKeeper session is lost, all shards are dropped";
    }
    return "?";
}

static void on_session(void *ctx, enum coord_session session)
{
    struct server *server = ctx;
    bool is_good = session == COORD_CONNECTED || session == COORD_NEW;

    server->session = session;
    server_publish_soon(server);
    if (server->backend->has_sessions) {
        SERVER_LOG(server, is_good ? LOG_LEVEL_INFO : LOG_LEVEL_WARN, session_text(session),
                   log_text("instance", server->instance));
    }
    broker_on_session(server->broker, &server->now, session);
}

static void on_members(void *ctx, const struct member *members, size_t count)
{
    struct server *server = ctx;

    broker_on_members(server->broker, &server->now, members, count);
}

static void on_shard_free(void *ctx, uint32_t shard)
{
    struct server *server = ctx;

    broker_on_shard_free(server->broker, &server->now, shard);
}

static void on_shard_lost(void *ctx, uint32_t shard)
{
    struct server *server = ctx;

    SERVER_LOG(server, LOG_LEVEL_WARN, "the owner znode of a shard of ours is gone",
               log_uint("shard", shard));
    broker_on_shard_lost(server->broker, &server->now, shard);
}

static void on_config(void *ctx, int64_t version)
{
    struct server *server = ctx;

    if (server->queues != NULL) {
        queue_sync_on_config(server->queues, version);
    }
}

struct coord_events server_coord_events(struct server *server)
{
    return (struct coord_events){
        .on_session = on_session,
        .on_members = on_members,
        .on_shard_free = on_shard_free,
        .on_shard_lost = on_shard_lost,
        .on_config = on_config,
        .ctx = server,
    };
}

void server_on_note(void *ctx, const char *line)
{
    struct server *server = ctx;

    SERVER_LOG(server, LOG_LEVEL_WARN, "coordinator", log_text("note", line));
}
