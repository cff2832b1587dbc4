/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection keeps the order of what passes over it, and breaks as a whole: what was under way is
 * unknown to the client, and may still reach the server. A connection is to one server, which may
 * be behind the leader.
 */
#include "tests/sim/sim_zk_link.h"

#include "coordinator/zk_path.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"
#include "tests/sim/sim_link.h"
#include "tests/sim/sim_loop.h"
#include "tests/sim/sim_node.h"

#include <string.h>

/* Until the next try to connect. */
#define DIAL_US_MIN (50 * US_PER_MS)
#define DIAL_US_MAX (500 * US_PER_MS)

/* Most that a request which was under way when its connection broke is late. */
#define STRAY_US_MAX (4 * US_PER_S)

/* A close waits so long for a server that does not answer (Z-12). */
#define CLOSE_US_MAX (5 * US_PER_S)

/* Sessions that a server hands out in place of one that has expired, without a word (Z-6). */
#define HANDED_PERMILLE 50

enum stage {
    STAGE_UP = 1, /* on its way to the server */
    STAGE_APPLY,  /* the server that we are connected to does not know of it yet */
    STAGE_DOWN,   /* the reply is on its way back */
    STAGE_STRAY   /* its connection is gone, and it may still reach the server */
};

/* A call or a watch event on its way. */
struct message {
    struct sim_event event;
    struct list node; /* in link.messages; a stray one is in none */
    struct sim_zk_host *host;
    struct zk_link *link; /* NULL: stray */
    int64_t session;
    enum stage stage;
    enum sim_zk_fate fate; /* 0: by the seed */
    bool is_watch;         /* an event; path is all of it */
    char path[ZK_PATH_SIZE];
    struct zk_call call;
    uint8_t *data; /* of the call */
    int code;
    struct zk_stat stat;
    uint8_t *reply; /* data, or names one after the other */
    size_t reply_len;
    size_t name_count;
};

/* A watch of the client: it stays over a reconnect. */
struct watch {
    struct sim_zk_watch at_server;
    struct list node; /* in link.watches */
    struct zk_link *link;
    enum zk_call_kind kind;
    bool is_on_nothing; /* the znode was not there */
    char path[ZK_PATH_SIZE];
};

enum life {
    LINK_OPENING = 1, /* not connected yet */
    LINK_CONNECTED,
    LINK_AWAY,
    LINK_DEAD,
    LINK_CLOSING
};

struct zk_link {
    struct sim_zk_host *host;
    struct loop *loop;
    struct zk_link_events events;
    enum life life;
    bool is_served;  /* the server's end of the connection stands */
    int64_t session; /* 0: none yet */
    int64_t up_at;   /* what is sent later arrives later */
    int64_t down_at;
    int64_t seen; /* true time of the newest state that it has been shown */
    int64_t lag_us;
    uint64_t call_count;
    uint64_t unknown_count;
    struct list messages;
    struct list watches;
    struct sim_event dial;
    struct sim_event breaking;
    struct sim_event end;
    zk_link_close_cb close_cb;
    void *close_ctx;
};

static int64_t latency(struct sim_zk_host *host)
{
    return sim_span(host->prng, host->sim->options.coord_us);
}

static uint32_t end_of(const struct sim_zk_host *host)
{
    return SIM_END_NODE(host->node->number);
}

static bool reaches_server(const struct sim_zk_host *host)
{
    return !sim_zk_is_stopped(host->zk) &&
           sim_link_passes(host->sim->links, end_of(host), SIM_END_COORD);
}

static bool reaches_client(const struct sim_zk_host *host)
{
    return !sim_zk_is_stopped(host->zk) &&
           sim_link_passes(host->sim->links, SIM_END_COORD, end_of(host));
}

/* A fault of the seed, out of a thousand. */
static bool is_unlucky(struct sim_zk_host *host, uint32_t permille)
{
    return !host->sim->is_healed && prng_chance(host->prng, permille);
}

static void break_in(struct zk_link *link, int64_t span_us)
{
    if (link->life == LINK_CONNECTED && !link->breaking.is_planned) {
        sim_after(link->host->sim, &link->breaking, span_us);
    }
}

/* Silence is noticed late. */
static void break_by_silence(struct zk_link *link)
{
    int64_t timeout_us = link->host->sim->options.session_timeout_ms * US_PER_MS;

    break_in(link, prng_between(link->host->prng, 1, timeout_us * 2 / 3));
}

/* --- messages --- */

static void message_free(struct message *message)
{
    list_del(&message->node);
    sim_cancel(message->host->sim, &message->event);
    mem_free(message->data);
    mem_free(message->reply);
    mem_free(message);
}

/* A copy of its own of what the call carries. */
static void keep_data(struct message *message)
{
    struct slice data = message->call.data;

    message->data = sim_need(1, data.len + 1);
    if (data.len > 0) {
        memcpy(message->data, data.data, data.len);
    }
    message->call.data.data = message->data;
}

static void plan(struct message *message, enum stage stage, int64_t at)
{
    message->stage = stage;
    message->event.host = stage == STAGE_DOWN ? message->host->node : NULL;
    sim_at(message->host->sim, &message->event, at);
}

/* In order. */
static void send_up(struct message *message)
{
    struct zk_link *link = message->link;

    link->up_at = time_max(link->up_at, link->host->sim->now + latency(link->host));
    plan(message, STAGE_UP, link->up_at);
}

static void send_down(struct message *message)
{
    struct zk_link *link = message->link;

    link->down_at = time_max(link->down_at, link->host->sim->now + latency(link->host));
    plan(message, STAGE_DOWN, link->down_at);
}

/* Its server knows of it after the lag. */
static void apply(struct message *message)
{
    plan(message, STAGE_APPLY, message->host->sim->now + message->link->lag_us);
}

static struct message *message_new(struct zk_link *link);

/* --- watches --- */

static void watch_free(struct watch *watch)
{
    list_del(&watch->at_server.link);
    list_del(&watch->node);
    mem_free(watch);
}

static void on_change(struct sim_zk_watch *at_server)
{
    struct watch *watch = CONTAINER_OF(at_server, struct watch, at_server);
    struct message *message = message_new(watch->link);

    message->is_watch = true;
    memcpy(message->path, watch->path, sizeof(message->path));
    watch_free(watch);
    apply(message);
}

static struct watch *watch_new(struct zk_link *link, const struct zk_call *call)
{
    struct watch *watch;

    list_foreach (node, &link->watches) {
        watch = CONTAINER_OF(node, struct watch, node);
        if ((watch->kind == ZK_LIST) == (call->kind == ZK_LIST) &&
            strcmp(watch->path, call->path) == 0) {
            list_del(&watch->at_server.link); // One is enough: armed anew.
            return watch;
        }
    }
    watch = sim_need(1, sizeof(*watch));
    watch->at_server.fire = on_change;
    list_init(&watch->at_server.link);
    watch->link = link;
    memcpy(watch->path, call->path, strlen(call->path) + 1);
    list_add(&link->watches, &watch->node);
    return watch;
}

/* After a reconnect the client sends its watches: what has changed meanwhile fires at once, but of
 * what came and went nothing is left to tell (Z-11). */
static void send_watches(struct zk_link *link, int64_t as_of)
{
    list_foreach_safe (node, after, &link->watches) {
        struct watch *watch = CONTAINER_OF(node, struct watch, node);
        struct zk_call call = {.kind = watch->kind, .path = watch->path};
        struct sim_zk_result now;

        list_del(&watch->at_server.link);
        if (watch->is_on_nothing) {
            sim_zk_read(link->host->zk, &call, link->host->sim->now, NULL, &now);
            as_of = now.code == 0 ? as_of : link->host->sim->now;
        }
        sim_zk_read(link->host->zk, &call, as_of, &watch->at_server, &now);
    }
}

/* --- at the server --- */

static void keep_reply(struct message *message, const struct sim_zk_result *result)
{
    message->code = result->code;
    message->stat = result->stat;
    message->name_count = result->name_count;
    message->reply_len = result->data.len;
    for (size_t i = 0; i < result->name_count; i++) {
        message->reply_len += strlen(result->names[i]) + 1;
    }
    message->reply = sim_need(1, message->reply_len + 1);
    if (result->data.len > 0) {
        memcpy(message->reply, result->data.data, result->data.len);
    }
    for (size_t i = 0, at = 0; i < result->name_count; i++) {
        size_t len = strlen(result->names[i]) + 1;

        memcpy(message->reply + at, result->names[i], len);
        at += len;
    }
}

static bool is_write(const struct zk_call *call)
{
    return call->kind == ZK_CREATE || call->kind == ZK_SET || call->kind == ZK_DELETE;
}

static void serve(struct message *message)
{
    struct zk_link *link = message->link;
    struct sim_zk_host *host = message->host;
    struct sim_zk_result result;
    struct watch *watch = NULL;

    if (is_write(&message->call)) {
        sim_zk_write(host->zk, &message->call, message->session, &result);
        keep_reply(message, &result);
        link->seen = host->sim->now;
        apply(message);
        return;
    }
    link->seen = time_max(link->seen, host->sim->now - link->lag_us);
    if (message->call.is_watched) {
        watch = watch_new(link, &message->call);
        watch->kind = message->call.kind;
        sim_zk_read(host->zk, &message->call, link->seen, NULL, &result);
        watch->is_on_nothing = result.code != 0;
    }
    sim_zk_read(host->zk, &message->call, link->seen, watch == NULL ? NULL : &watch->at_server,
                &result);
    keep_reply(message, &result);
    send_down(message);
}

static void on_message(struct sim *sim, struct sim_event *event, bool is_dropped);

/* A copy of a write goes on alone, without its connection. */
static void send_stray(const struct message *message, int64_t span_us)
{
    struct message *copy = sim_need(1, sizeof(*copy));

    *copy = (struct message){.event = {.fire = on_message},
                             .host = message->host,
                             .session = message->session,
                             .call = message->call};
    list_init(&copy->node);
    memcpy(copy->path, message->path, sizeof(copy->path));
    copy->call.path = copy->path;
    keep_data(copy);
    plan(copy, STAGE_STRAY, message->host->sim->now + span_us);
}

static void arrive(struct message *message)
{
    struct zk_link *link = message->link;
    uint32_t permille = message->host->sim->options.coord_lost_permille;

    if (!link->is_served || !reaches_server(message->host) ||
        !sim_zk_session_is_alive(message->host->zk, message->session)) {
        list_del(&message->node);
        list_add(&link->messages, &message->node); // Lost: unknown when the connection breaks.
        break_by_silence(link);
        return;
    }
    if (message->fate == 0 && is_unlucky(message->host, permille)) {
        message->fate =
            prng_chance(message->host->prng, 500) ? SIM_ZK_BREAK_BEFORE : SIM_ZK_BREAK_AFTER;
    }
    if (message->fate == SIM_ZK_ERROR) {
        message->code = ERR_IO;
        send_down(message);
        return;
    }
    if (message->fate == SIM_ZK_BREAK_LATE && is_write(&message->call)) {
        send_stray(message, STRAY_US_MAX);
    } else if (message->fate != SIM_ZK_BREAK_BEFORE) {
        serve(message);
    }
    if (message->fate != 0) {
        link->is_served = false;
        break_in(link, latency(message->host));
    }
}

static void serve_stray(struct message *message)
{
    struct sim_zk *zk = message->host->zk;
    struct sim_zk_result result;

    if (!sim_zk_is_stopped(zk) && sim_zk_session_is_alive(zk, message->session)) {
        TRACE(&message->host->sim->trace, "stray", message->session, message->call.kind);
        sim_zk_write(zk, &message->call, message->session, &result);
    }
    message_free(message);
}

/* --- at the client --- */

static void give_reply(struct message *message, int code)
{
    struct zk_link *link = message->link;
    struct zk_call call = message->call;
    struct zk_reply reply = {.code = code};
    const char *names[64];

    if (code == 0) {
        reply.stat = message->stat;
        reply.data = (struct slice){message->reply, call.kind == ZK_GET ? message->reply_len : 0};
        REQUIRE(message->name_count <= ARRAY_COUNT(names));
        for (size_t i = 0, at = 0; i < message->name_count; i++) {
            names[i] = (const char *)message->reply + at;
            at += strlen(names[i]) + 1;
        }
        reply.child_names = names;
        reply.child_count = message->name_count;
    }
    link->unknown_count += code == ERR_OUTCOME_UNKNOWN;
    list_del(&message->node);
    call.cb(call.ctx, call.tag, &reply);
    message_free(message);
}

static void deliver(struct message *message)
{
    struct zk_link *link = message->link;

    if (!reaches_client(message->host)) {
        if (message->is_watch) {
            message_free(message); // The reconnect reads everything.
        }
        break_by_silence(link);
        return;
    }
    if (message->is_watch) {
        char path[ZK_PATH_SIZE];
        bool is_missed = is_unlucky(message->host, message->host->sim->options.coord_lost_permille);

        memcpy(path, message->path, sizeof(path));
        message_free(message);
        link->events.on_watch(link->events.ctx, is_missed ? NULL : path);
        return;
    }
    give_reply(message, message->code);
}

static void on_message(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct message *message = CONTAINER_OF(event, struct message, event);

    (void)sim;
    if (is_dropped) {
        if (message->link == NULL) {
            message_free(message);
        }
        return; // Else its link frees it.
    }
    switch (message->stage) {
    case STAGE_UP:
        arrive(message);
        break;
    case STAGE_APPLY:
        send_down(message);
        break;
    case STAGE_DOWN:
        deliver(message);
        break;
    case STAGE_STRAY:
        serve_stray(message);
        break;
    }
}

static struct message *message_new(struct zk_link *link)
{
    struct message *message = sim_need(1, sizeof(*message));

    message->event = (struct sim_event){.fire = on_message};
    message->host = link->host;
    message->link = link;
    message->session = link->session;
    list_add(&link->messages, &message->node);
    return message;
}

/* --- the connection --- */

/* A copy of a write that is under way may go on alone. */
static void stray(struct message *message)
{
    if (!message->is_watch && message->stage == STAGE_UP && message->event.is_planned &&
        is_write(&message->call) && !message->host->sim->is_healed &&
        prng_chance(message->host->prng, 500)) {
        send_stray(message, prng_between(message->host->prng, 0, STRAY_US_MAX));
    }
}

static void dial_soon(struct zk_link *link)
{
    sim_after(link->host->sim, &link->dial,
              prng_between(link->host->prng, DIAL_US_MIN, DIAL_US_MAX));
}

static void go_away(struct zk_link *link)
{
    struct list lost;

    link->life = LINK_AWAY;
    link->is_served = false;
    sim_zk_session_silent(link->host->zk, link->session);
    list_init(&lost);
    list_move_all(&lost, &link->messages);
    list_foreach (node, &lost) {
        struct message *message = CONTAINER_OF(node, struct message, node);

        stray(message);
        sim_cancel(link->host->sim, &message->event);
    }
    list_foreach (node, &link->watches) {
        list_del(&CONTAINER_OF(node, struct watch, node)->at_server.link);
    }
    dial_soon(link);
    link->events.on_away(link->events.ctx);
    for (struct list *node; (node = list_take_first(&lost)) != NULL;) {
        struct message *message = CONTAINER_OF(node, struct message, node);

        if (message->is_watch || link->life == LINK_CLOSING) {
            message_free(message);
        } else {
            give_reply(message, ERR_OUTCOME_UNKNOWN);
        }
    }
}

static void on_breaking(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct zk_link *link = CONTAINER_OF(event, struct zk_link, breaking);

    (void)sim;
    if (!is_dropped && link->life == LINK_CONNECTED) {
        go_away(link);
    }
}

static int64_t draw_lag(struct sim_zk_host *host)
{
    int64_t lag_us = host->sim->options.coord_lag_us;

    if (host->sim->is_healed || lag_us == 0 || !prng_chance(host->prng, 300)) {
        return 0;
    }
    return prng_between(host->prng, 0, lag_us);
}

static void connect(struct zk_link *link)
{
    struct sim_zk_host *host = link->host;
    int64_t as_of = link->seen;

    link->life = LINK_CONNECTED;
    link->is_served = true;
    link->lag_us = draw_lag(host);
    link->up_at = host->sim->now;
    link->down_at = host->sim->now;
    link->seen = time_max(link->seen, host->sim->now - link->lag_us);
    sim_zk_session_heard(host->zk, link->session);
    send_watches(link, as_of);
    link->events.on_connected(link->events.ctx, link->session,
                              host->sim->options.session_timeout_ms);
}

static void die(struct zk_link *link, const char *why)
{
    link->life = LINK_DEAD;
    link->events.on_dead(link->events.ctx, why);
}

static void on_dial(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct zk_link *link = CONTAINER_OF(event, struct zk_link, dial);
    struct sim_zk_host *host = link->host;

    (void)sim;
    if (is_dropped) {
        return;
    }
    if (!reaches_server(host) || !reaches_client(host)) {
        dial_soon(link);
        return;
    }
    if (link->session != 0 && !sim_zk_session_is_alive(host->zk, link->session) &&
        !is_unlucky(host, HANDED_PERMILLE)) {
        die(link, "session expired");
        return;
    }
    if (!sim_zk_session_is_alive(host->zk, link->session)) {
        link->session = sim_zk_session_new(host->zk, host->node);
    }
    connect(link);
}

void sim_zk_link_refresh(struct sim_zk_host *host)
{
    struct zk_link *link = host->link;

    if (link == NULL || link->life != LINK_CONNECTED) {
        return;
    }
    if (!reaches_server(host) || !reaches_client(host)) {
        break_by_silence(link);
    }
    if (link->is_served && reaches_server(host) && !host->node->is_paused) {
        sim_zk_session_heard(host->zk, link->session);
    } else {
        sim_zk_session_silent(host->zk, link->session);
    }
}

void sim_zk_link_heal(struct sim_zk_host *host)
{
    if (host->link != NULL) {
        host->link->lag_us = 0;
    }
}

void sim_zk_link_on_end(struct sim_zk_host *host, int64_t session)
{
    struct zk_link *link = host->link;

    if (link != NULL && link->session == session && link->life == LINK_CONNECTED) {
        link->is_served = false;
        break_in(link, latency(host));
    }
}

int64_t sim_zk_link_session(const struct sim_zk_host *host)
{
    return host->link == NULL ? 0 : host->link->session;
}

/* --- what the coordinator calls --- */

static void link_free(struct zk_link *link)
{
    struct sim *sim = link->host->sim;
    zk_link_close_cb close_cb = link->close_cb;
    void *close_ctx = link->close_ctx;

    while (!list_is_empty(&link->messages)) {
        message_free(CONTAINER_OF(link->messages.next, struct message, node));
    }
    while (!list_is_empty(&link->watches)) {
        watch_free(CONTAINER_OF(link->watches.next, struct watch, node));
    }
    sim_cancel(sim, &link->dial);
    sim_cancel(sim, &link->breaking);
    sim_cancel(sim, &link->end);
    link->host->link = NULL;
    mem_free(link);
    close_cb(close_ctx);
}

static void on_end(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    (void)sim;
    if (!is_dropped) {
        link_free(CONTAINER_OF(event, struct zk_link, end));
    }
}

int zk_link_open(const struct zk_link_options *options, struct zk_link **out)
{
    struct sim_zk_host *host = sim_loop_owner(options->loop);
    struct zk_link *link = sim_need(1, sizeof(*link));

    REQUIRE(host->link == NULL);
    link->host = host;
    link->loop = options->loop;
    link->events = options->events;
    link->life = LINK_OPENING;
    list_init(&link->messages);
    list_init(&link->watches);
    link->dial = (struct sim_event){.fire = on_dial, .host = host->node};
    link->breaking = (struct sim_event){.fire = on_breaking, .host = host->node};
    link->end = (struct sim_event){.fire = on_end, .host = host->node};
    sim_after(host->sim, &link->dial, latency(host));
    host->link = link;
    *out = link;
    return 0;
}

int zk_link_call(struct zk_link *link, const struct zk_call *call)
{
    struct message *message;
    enum sim_zk_fate fate;

    if (link->life != LINK_CONNECTED) {
        return ERR_CLOSED;
    }
    fate = sim_nth_next(&link->host->sim->zk_calls);
    if (fate == SIM_ZK_REFUSED ||
        is_unlucky(link->host, link->host->sim->options.no_room_permille)) {
        return ERR_FULL;
    }
    message = message_new(link);
    message->fate = fate;
    message->call = *call;
    memcpy(message->path, call->path, strlen(call->path) + 1);
    message->call.path = message->path;
    keep_data(message);
    link->call_count++;
    send_up(message);
    return 0;
}

static bool can_end_session(const struct zk_link *link)
{
    return link->life == LINK_CONNECTED && link->is_served && reaches_server(link->host) &&
           !link->host->node->is_paused;
}

void zk_link_close(struct zk_link *link, zk_link_close_cb cb, void *ctx)
{
    struct sim_zk_host *host = link->host;
    bool is_ended = can_end_session(link) && !host->is_gone;

    link->close_cb = cb;
    link->close_ctx = ctx;
    sim_cancel(host->sim, &link->dial);
    sim_cancel(host->sim, &link->breaking);
    list_foreach (node, &link->messages) {
        stray(CONTAINER_OF(node, struct message, node));
    }
    while (!list_is_empty(&link->messages)) {
        message_free(CONTAINER_OF(link->messages.next, struct message, node));
    }
    link->life = LINK_CLOSING;
    link->is_served = false;
    if (is_ended) {
        sim_zk_session_end(host->zk, link->session);
    } else {
        sim_zk_session_silent(host->zk, link->session);
    }
    sim_after(host->sim, &link->end,
              host->is_gone ? 0
                            : prng_between(host->prng, 1, is_ended ? US_PER_S / 2 : CLOSE_US_MAX));
}

void sim_zk_link_leave(struct sim_zk_host *host)
{
    if (host->link != NULL && can_end_session(host->link)) {
        sim_zk_session_end(host->zk, host->link->session);
    }
}

void sim_zk_link_hurry(struct sim_zk_host *host)
{
    if (host->link != NULL && host->link->life == LINK_CLOSING) {
        link_free(host->link);
    }
}

uint64_t zk_link_call_count(const struct zk_link *link)
{
    return link->call_count;
}

uint64_t zk_link_unknown_count(const struct zk_link *link)
{
    return link->unknown_count;
}

bool zk_link_take_log(char *out, size_t size)
{
    REQUIRE(size > 0);
    out[0] = '\0';
    return false;
}
