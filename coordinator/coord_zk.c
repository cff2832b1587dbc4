/* SPDX-License-Identifier: Apache-2.0
 *
 * The session's life, the requests and their deadlines. Shards, our own znode and the member list
 * are in the other parts.
 *
 *   DOWN ──open──▶ JOINING ──cluster read, registered──▶ UP ⟲ away, verified
 *    ▲                │ dead                              │ dead: COORD_LOST
 *    └──closed─── LEAVING ◀───────────────────────────────┘
 *
 * A disconnect changes nothing in here but is_linked: no session timer of ours ever drops a shard
 * (Z-1, Z-2).
 */
#include "coordinator/coord_zk.h"

#include "coordinator/coord_zk_parts.h"
#include "coordinator/zk_body.h"
#include "lib/base/beat.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/entropy.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Deadlines are looked at this often while requests wait, everything else once a second. */
#define TICK_MS 100

/* Full re-read beside the watches. source: DESIGN 6 */
#define MINUTE_MS 60000

/* Between two tries to get a session: doubled from the first, with jitter, for ever (Z-7). */
#define OPEN_DELAY_MS_MIN 50
#define OPEN_DELAY_MS_MAX 5000

/* The library logs each failed connection; one line in this time is enough. */
#define NOTE_DELAY_MS 5000

static void open_link(struct coord_zk *zk);
static void lose(struct coord_zk *zk, const char *why);

static struct coord_zk *zk_of(struct coord *coord)
{
    return CONTAINER_OF(coord, struct coord_zk, coord);
}

/* ---- for the other parts ---- */

void zk_note(struct coord_zk *zk, const char *format, ...)
{
    char line[512];
    va_list args;

    if (zk->on_note == NULL) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    zk->on_note(zk->events.ctx, line);
}

bool zk_is_ready(const struct coord_zk *zk)
{
    return zk->life == ZK_UP && zk->is_linked;
}

bool zk_send(struct coord_zk *zk, const struct zk_call *call)
{
    return zk_link_call(zk->link, call) == 0;
}

bool zk_watch_add(struct coord_zk *zk, bool *is_set, const struct zk_path *path)
{
    uint32_t len = (uint32_t)strlen(path->text);

    if (*is_set) {
        return true;
    }
    if (zk->watched_bytes + len > ZK_WATCHED_BYTES_MAX) {
        return false;
    }
    zk->watched_bytes += len;
    *is_set = true;
    return true;
}

void zk_watch_del(struct coord_zk *zk, bool *is_set, const struct zk_path *path)
{
    if (*is_set) {
        zk->watched_bytes -= (uint32_t)strlen(path->text);
        *is_set = false;
    }
}

void zk_answer(struct coord_zk *zk, struct coord_request *request, int result)
{
    request->result = result;
    list_del(&request->link);
    list_add(&zk->done, &request->link);
    loop_post(zk->loop, &zk->done_task);
}

static void run_done(void *ctx)
{
    struct coord_zk *zk = ctx;
    struct list now;
    struct list *node;

    list_init(&now); // What a callback submits and is answered at once runs in the next turn.
    list_move_all(&now, &zk->done);
    while ((node = list_take_first(&now)) != NULL) {
        struct coord_request *request = LIST_ENTRY(node, struct coord_request, link);

        zk->request_count--;
        request->cb(request);
    }
}

void zk_verified(struct coord_zk *zk)
{
    REQUIRE(zk->verify_count > 0);
    zk->verify_count--;
    if (zk->verify_count == 0 && zk->is_verifying) {
        zk->is_verifying = false;
        zk->is_away_told = false;
        zk->events.on_session(zk->events.ctx, COORD_CONNECTED);
    }
}

/* ---- joining ---- */

static void read_everything(struct coord_zk *zk)
{
    zk->minute_us = time_add(loop_now_us(zk->loop), MINUTE_MS * US_PER_MS);
    zk_peers_refresh(zk);
    zk_config_refresh(zk);
}

void zk_joined(struct coord_zk *zk)
{
    if (zk->life != ZK_JOINING) {
        return;
    }
    zk->life = ZK_UP;
    zk->open_count = 0;
    zk->stats.session_count++;
    zk->is_away_told = false;
    zk->events.on_session(zk->events.ctx, COORD_NEW);
    read_everything(zk);
    zk_shard_kick_all(zk);
}

static bool is_our_cluster(const struct coord_zk *zk, const struct zk_cluster_body *body)
{
    return strcmp(body->id, zk->cluster.id) == 0 && body->shard_count == zk->cluster.shard_count;
}

/* The cluster must be the one that we were started for; its base may have been raised (adopt). */
static void on_cluster(void *ctx, uint64_t tag, const struct zk_reply *reply)
{
    struct coord_zk *zk = ctx;
    struct zk_cluster_body body;
    int err;

    (void)tag;
    zk->is_joining_busy = false;
    if (reply->code == ERR_OUTCOME_UNKNOWN) {
        return; // Again after the reconnect.
    }
    err = reply->code == 0 ? zk_body_read_cluster(reply->data, &body) : reply->code;
    if (err != 0 || !is_our_cluster(zk, &body)) {
        zk_note(zk, "'%s' is not the cluster that we were started for: not joining (%s)",
                zk->cluster_path.text, err_text(err));
        return; // Again at the next tick: an operator may put it right.
    }
    zk->cluster.base = body.base;
    zk->is_cluster_known = true;
    zk_self_kick(zk);
}

static void join(struct coord_zk *zk)
{
    if (zk->life != ZK_JOINING || !zk->is_linked || zk->is_joining_busy) {
        return;
    }
    if (zk->is_cluster_known) {
        zk_self_kick(zk);
        return;
    }
    zk->is_joining_busy = zk_send(zk, &(struct zk_call){
                                          .kind = ZK_GET,
                                          .path = zk->cluster_path.text,
                                          .cb = on_cluster,
                                          .ctx = zk,
                                      });
}

static void on_base(void *ctx, uint64_t tag, const struct zk_reply *reply)
{
    struct coord_zk *zk = ctx;
    struct zk_cluster_body body;

    (void)tag;
    zk->is_base_busy = false;
    if (reply->code == 0 && zk_body_read_cluster(reply->data, &body) == 0 &&
        is_our_cluster(zk, &body)) {
        zk->cluster.base = body.base;
    }
}

void zk_read_base(struct coord_zk *zk)
{
    if (!zk->is_base_busy) {
        zk->is_base_busy = zk_send(zk, &(struct zk_call){
                                           .kind = ZK_GET,
                                           .path = zk->cluster_path.text,
                                           .cb = on_base,
                                           .ctx = zk,
                                       });
    }
}

/* ---- the link's events ---- */

/* Same session again: every node of ours is read before COORD_CONNECTED (Z-5). */
static void verify(struct coord_zk *zk)
{
    zk->is_verifying = true;
    zk->self.known = ZK_UNCERTAIN;
    zk->self.is_to_verify = true;
    zk->verify_count = 1 + zk_shard_verify_all(zk);
    zk_self_kick(zk);
    zk_shard_kick_all(zk);
    read_everything(zk);
}

static void on_connected(void *ctx, int64_t session_id, span_ms timeout_ms)
{
    struct coord_zk *zk = ctx;

    if (zk->session_id != 0 && zk->session_id != session_id) { // Z-6.
        lose(zk, "the server handed us another session");
        return;
    }
    zk->session_id = session_id;
    zk->session_timeout_ms = timeout_ms;
    zk->is_linked = true;
    if (zk->life == ZK_UP) {
        verify(zk);
        return;
    }
    if (zk->self.known != ZK_NOBODY) {
        zk->self.known = ZK_UNCERTAIN;
    }
    join(zk);
}

static void on_away(void *ctx)
{
    struct coord_zk *zk = ctx;

    zk->is_linked = false;
    zk->is_verifying = false;
    zk->stats.away_count++;
    if (zk->life == ZK_UP && !zk->is_away_told) {
        zk->is_away_told = true;
        zk->events.on_session(zk->events.ctx, COORD_AWAY);
    }
}

static void on_dead(void *ctx, const char *why)
{
    lose(ctx, why);
}

static void on_watch(void *ctx, const char *path)
{
    struct coord_zk *zk = ctx;
    struct zk_path_parts parts;

    zk->stats.watch_count++;
    if (path == NULL) {
        zk_note(zk, "watch events were missed: reading everything again");
        read_everything(zk);
        zk_shard_minute(zk);
        return;
    }
    zk_path_parse(&zk->cluster_path, path, &parts);
    switch (parts.kind) {
    case ZK_PATH_BROKERS:
        zk_peers_on_list_watch(zk);
        return;
    case ZK_PATH_BROKER:
        zk_peers_on_watch(zk, parts.rest);
        return;
    case ZK_PATH_CONFIG:
        zk_config_on_watch(zk);
        return;
    case ZK_PATH_OWNER:
        if (parts.shard < zk->cluster.shard_count) {
            zk_shard_on_watch(zk, parts.shard);
        }
        return;
    case ZK_PATH_OTHER:
        return;
    }
}

/* ---- requests from outside ---- */

static void withdraw(struct coord_zk *zk, struct coord_request *request, int result)
{
    if (request->kind <= COORD_STATE) {
        zk_shard_withdraw(zk, request);
    }
    zk_answer(zk, request, result);
}

/* Answer the requests of a list whose deadline is before `now`. */
static void expire(struct coord_zk *zk, struct list *list, boot_us now, bool is_lost)
{
    list_foreach_safe (node, after, list) {
        struct coord_request *request = LIST_ENTRY(node, struct coord_request, link);

        if (request->deadline_us <= now) {
            // With its session a znode is gone: that is what a release wants.
            withdraw(zk, request, is_lost && request->kind == COORD_RELEASE ? 0 : ERR_UNAVAILABLE);
        }
    }
}

static void expire_all(struct coord_zk *zk, boot_us now, bool is_lost)
{
    expire(zk, &zk->self.sent, now, is_lost);
    expire(zk, &zk->self.waiting, now, is_lost);
    expire(zk, &zk->config.nudges, now, is_lost);
    for (uint32_t number = 0; number < zk->cluster.shard_count; number++) {
        expire(zk, &zk->shards[number].requests, now, is_lost);
    }
}

static int submit(struct coord *coord, struct coord_request *request)
{
    struct coord_zk *zk = zk_of(coord);

    REQUIRE(request->kind > COORD_STATE || request->shard < zk->cluster.shard_count);
    if (zk->close_cb != NULL) {
        return ERR_CLOSED;
    }
    request->result = 0;
    request->generation = 0;
    request->deadline_us = time_add(loop_now_us(zk->loop), zk->request_timeout_ms * US_PER_MS);
    zk->request_count++;
    if (zk->request_count == 1) {
        loop_timer_start_in(&zk->tick_timer, TICK_MS);
    }
    switch (request->kind) {
    case COORD_ACQUIRE:
    case COORD_RELEASE:
    case COORD_STATE:
        zk_shard_submit(zk, request);
        return 0;
    case COORD_PUBLISH:
        zk_self_publish(zk, request);
        return 0;
    case COORD_NUDGE:
        zk_config_nudge(zk, request);
        return 0;
    }
    UNREACHABLE();
}

/* ---- time ---- */

/* The next moment, about a second from now, at which all parts look after what is theirs. */
static boot_us next_second(const struct coord_zk *zk)
{
    return beat_after(loop_now_us(zk->loop), beat_us(zk->session_timeout_ms));
}

static void each_second(struct coord_zk *zk, boot_us now)
{
    char line[256];

    if (zk->life == ZK_JOINING || zk->life == ZK_UP) {
        if (zk->self.known == ZK_OTHERS) {
            zk->self.known = ZK_UNCERTAIN;
        }
        join(zk);
        zk_self_kick(zk);
    }
    if (zk_is_ready(zk)) {
        zk_config_kick(zk);
        zk_peers_kick(zk);
        zk_shard_second(zk);
    }
    if (zk_is_ready(zk) && now >= zk->minute_us) {
        zk->peers.is_changed = true; // Told once a minute, changed or not.
        zk->self.known = ZK_UNCERTAIN;
        read_everything(zk);
        zk_self_kick(zk);
        zk_shard_minute(zk);
    }
    if (now >= zk->note_us && zk_link_take_log(line, sizeof(line))) {
        zk->note_us = time_add(now, NOTE_DELAY_MS * US_PER_MS);
        zk_note(zk, "client library: %s", line);
    }
}

static void on_tick(struct loop_timer *timer, void *ctx)
{
    struct coord_zk *zk = ctx;
    boot_us now = loop_now_us(zk->loop);

    if (zk->request_count > 0) {
        expire_all(zk, now, false);
    }
    if (now >= zk->second_us) {
        zk->second_us = next_second(zk);
        each_second(zk, now);
    }
    if (zk->request_count > 0) {
        loop_timer_start_in(timer, TICK_MS);
    } else {
        loop_timer_start(timer, zk->second_us);
    }
}

/* ---- life ---- */

static void finish(struct coord_zk *zk);

static span_ms open_delay_ms(struct coord_zk *zk)
{
    span_ms delay_ms = OPEN_DELAY_MS_MIN;

    for (uint32_t i = 0; i < zk->open_count && delay_ms < OPEN_DELAY_MS_MAX; i++) {
        delay_ms *= 2;
    }
    zk->open_count++;
    delay_ms = time_min(delay_ms, OPEN_DELAY_MS_MAX);
    return delay_ms / 2 + (span_ms)(entropy_u64() % (uint64_t)(delay_ms / 2 + 1));
}

static void open_later(struct coord_zk *zk)
{
    zk->life = ZK_DOWN;
    loop_timer_start_in(&zk->open_timer, open_delay_ms(zk));
}

static void on_link_closed(void *ctx)
{
    struct coord_zk *zk = ctx;

    zk->link = NULL;
    if (zk->close_cb != NULL) {
        finish(zk);
        return;
    }
    open_later(zk);
}

/* Forget what belonged to the session. */
static void reset(struct coord_zk *zk)
{
    zk->is_linked = false;
    zk->is_verifying = false;
    zk->is_joining_busy = false;
    zk->is_cluster_known = false;
    zk->is_base_busy = false;
    zk->verify_count = 0;
    zk->session_id = 0;
    zk_shard_reset_all(zk);
    zk_self_reset(zk);
    zk_config_reset(zk);
    zk_peers_reset(zk);
}

static void leave_link(struct coord_zk *zk)
{
    zk->life = ZK_LEAVING;
    zk->stats.call_count += zk_link_call_count(zk->link);
    zk->stats.unknown_count += zk_link_unknown_count(zk->link);
    zk_link_close(zk->link, on_link_closed, zk); // First: no reply comes after this.
    reset(zk);
}

/* The session is gone, and with it every znode of ours: the core drops its shards now. */
static void lose(struct coord_zk *zk, const char *why)
{
    bool is_told = zk->life == ZK_UP;

    zk_note(zk, is_told ? "session lost: %s" : "no session: %s", why);
    leave_link(zk);
    if (!is_told) {
        return; // Requests wait on for the next session, until their deadlines.
    }
    zk->stats.lost_count++;
    expire_all(zk, BOOT_NEVER, true);
    zk->events.on_session(zk->events.ctx, COORD_LOST);
}

static void open_link(struct coord_zk *zk)
{
    struct zk_link_options options = {
        .loop = zk->loop,
        .hosts = zk->hosts,
        .session_timeout_ms = zk->asked_timeout_ms,
        .auth = zk->auth,
        .events = {.on_connected = on_connected,
                   .on_away = on_away,
                   .on_dead = on_dead,
                   .on_watch = on_watch,
                   .ctx = zk},
    };
    int err = zk_link_open(&options, &zk->link);

    if (err != 0) {
        zk_note(zk, "cannot start a session: %s", err_text(err));
        open_later(zk);
        return;
    }
    zk->life = ZK_JOINING;
}

static void on_open_timer(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    open_link(ctx);
}

static void zk_free(struct coord_zk *zk)
{
    for (uint32_t i = 0; i < zk->databases.count && zk->database_names != NULL; i++) {
        mem_free(zk->database_names[i]);
    }
    mem_free(zk->database_names);
    mem_free(zk->auth);
    mem_free(zk->hosts);
    mem_free(zk->shards);
    mem_free(zk);
}

/* The last step of a close: the link is gone, and all that was answered has been delivered. */
static void finish(struct coord_zk *zk)
{
    coord_close_cb close_cb = zk->close_cb;
    void *close_ctx = zk->close_ctx;

    zk->life = ZK_CLOSED;
    while (!list_is_empty(&zk->done)) {
        run_done(zk);
    }
    REQUIRE(zk->request_count == 0);
    loop_unpost(&zk->done_task);
    loop_unpost(&zk->peers.tell_task);
    zk_free(zk);
    close_cb(close_ctx);
}

static void on_finish_task(void *ctx)
{
    finish(ctx);
}

static void close_zk(struct coord *coord, coord_close_cb cb, void *ctx)
{
    struct coord_zk *zk = zk_of(coord);

    REQUIRE(zk->close_cb == NULL && cb != NULL);
    zk->close_cb = cb;
    zk->close_ctx = ctx;
    loop_timer_stop(&zk->open_timer);
    loop_timer_stop(&zk->tick_timer);
    expire_all(zk, BOOT_NEVER, false);
    if (zk->life == ZK_JOINING || zk->life == ZK_UP) {
        leave_link(zk);
    } else if (zk->life == ZK_DOWN) {
        loop_task_init(&zk->finish_task, on_finish_task, zk);
        loop_post(zk->loop, &zk->finish_task);
    }
}

/* ---- opening ---- */

static bool are_options_valid(const struct coord_zk_options *options)
{
    const struct coord_zk_place *place = &options->place;
    const struct coord_zk_databases *databases = &options->databases;
    const struct cluster *cluster = options->cluster;

    if (place->hosts[0] == '\0' || strchr(place->hosts, '/') != NULL || // Z-22.
        !zk_path_is_root(place->root) || !zk_path_is_name(place->name) ||
        place->session_timeout_ms < ZK_SESSION_TIMEOUT_MS_MIN ||
        place->session_timeout_ms > ZK_SESSION_TIMEOUT_MS_MAX) {
        return false;
    }
    if (databases->count < 1 || databases->count > DATABASE_COUNT_MAX || cluster->shard_count < 1 ||
        cluster->shard_count > SHARD_COUNT_MAX) {
        return false;
    }
    for (uint32_t shard = 0; shard < cluster->shard_count; shard++) {
        if (cluster->database_of[shard] >= databases->count) {
            return false;
        }
    }
    return zk_path_is_member_name(options->self->name) &&
           zk_path_is_instance(options->self->instance) && options->request_timeout_ms >= 0;
}

static int copy_databases(struct coord_zk *zk, const struct coord_zk_databases *databases)
{
    zk->database_names = mem_new(databases->count, sizeof(*zk->database_names));
    if (zk->database_names == NULL) {
        return ERR_NO_MEMORY;
    }
    zk->databases.count = databases->count;
    zk->databases.names = (const char *const *)zk->database_names;
    for (uint32_t i = 0; i < databases->count; i++) {
        zk->database_names[i] = mem_copy(databases->names[i], strlen(databases->names[i]));
        if (zk->database_names[i] == NULL) {
            return ERR_NO_MEMORY;
        }
    }
    return 0;
}

static int copy_options(struct coord_zk *zk, const struct coord_zk_options *options)
{
    const struct coord_zk_place *place = &options->place;

    zk->loop = options->loop;
    zk->events = options->events;
    zk->on_note = options->on_note;
    zk->cluster = *options->cluster;
    zk->self.member = *options->self;
    zk->asked_timeout_ms = place->session_timeout_ms;
    zk->session_timeout_ms = place->session_timeout_ms;
    zk->request_timeout_ms =
        options->request_timeout_ms > 0 ? options->request_timeout_ms : place->session_timeout_ms;
    zk_path_cluster(&zk->cluster_path, place->root, place->name);
    zk_path_node_name(zk->self.node_name, options->self->name, options->self->instance);
    zk->hosts = mem_copy(place->hosts, strlen(place->hosts));
    zk->auth = mem_copy(place->auth == NULL ? "" : place->auth,
                        place->auth == NULL ? 0 : strlen(place->auth));
    zk->shards = mem_new(zk->cluster.shard_count, sizeof(*zk->shards));
    if (zk->hosts == NULL || zk->auth == NULL || zk->shards == NULL) {
        return ERR_NO_MEMORY;
    }
    return copy_databases(zk, &options->databases);
}

static void prepare(struct coord_zk *zk)
{
    zk->coord.submit = submit;
    zk->coord.close = close_zk;
    zk->config.version = -1;
    list_init(&zk->done);
    list_init(&zk->self.sent);
    list_init(&zk->self.waiting);
    list_init(&zk->config.nudges);
    for (uint32_t i = 0; i < zk->cluster.shard_count; i++) {
        list_init(&zk->shards[i].requests);
    }
    zk_peers_init(zk);
    loop_task_init(&zk->done_task, run_done, zk);
    loop_timer_init(&zk->open_timer, zk->loop, on_open_timer, zk);
    loop_timer_init(&zk->tick_timer, zk->loop, on_tick, zk);
    reset(zk);
}

int coord_zk_open(const struct coord_zk_options *options, struct coord **out)
{
    struct coord_zk *zk;
    int err;

    if (!are_options_valid(options)) {
        return ERR_INVALID;
    }
    zk = mem_new(1, sizeof(*zk));
    if (zk == NULL) {
        return ERR_NO_MEMORY;
    }
    err = copy_options(zk, options);
    if (err != 0) {
        zk_free(zk);
        return err;
    }
    for (uint32_t i = 0; i < zk->cluster.shard_count; i++) {
        zk->shards[i].known = ZK_NOBODY;
    }
    prepare(zk);
    open_link(zk);
    loop_timer_start(&zk->tick_timer, next_second(zk));
    *out = &zk->coord;
    return 0;
}

span_ms coord_zk_session_timeout_ms(const struct coord *coord)
{
    return ((const struct coord_zk *)(const void *)coord)->session_timeout_ms;
}

void coord_zk_stats(const struct coord *coord, struct coord_zk_stats *out)
{
    const struct coord_zk *zk = (const struct coord_zk *)(const void *)coord;

    *out = zk->stats;
    if (zk->link != NULL && zk->life != ZK_LEAVING) {
        out->call_count += zk_link_call_count(zk->link);
        out->unknown_count += zk_link_unknown_count(zk->link);
    }
    out->watched_bytes = zk->watched_bytes;
    for (uint32_t i = 0; i < zk->cluster.shard_count; i++) {
        out->held_count += zk->shards[i].is_held ? 1 : 0;
    }
}
