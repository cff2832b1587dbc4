/* SPDX-License-Identifier: Apache-2.0
 *
 * The fake coordinator: one server that is always right, and a client per process that hears of it
 * late. A client that has lost track of an owner znode deletes it, as the real one does.
 */
#include "tests/sim/sim_coord.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "tests/sim/sim_node.h"

#include <stdlib.h>
#include <string.h>

/* A client gives a request up after this. */
#define REQUEST_US (2 * US_PER_S)

/* ZooKeeper looks for dead sessions once per tick. */
#define TICK_US (500 * US_PER_MS)

/* Most that a client is late to notice that its session is over, or its link. */
#define NOTICE_US (800 * US_PER_MS)

#define REREAD_US (60 * US_PER_S)

/* A session at the server. Kept to the end of the run: numbers are never used again. */
struct session {
    struct list link;
    struct sim_coord *coord;
    uint64_t number;
    struct sim_node *node;
    bool is_alive;
    struct member member; /* its ephemeral znode */
    int64_t created;
    struct sim_event expiry; /* planned while there is no sign of life */
};

/* The handle of one process. */
struct client {
    struct coord coord; /* the core's door */
    struct sim_coord *server;
    struct sim_node *node;
    struct session *session; /* NULL: none yet */
    bool is_connected;       /* as far as the client has told the core */
    bool is_cut;
    struct member member; /* as published last */
    size_t member_count;  /* in the list that it was told last */
    struct sim_event hello;
    struct sim_event notice;
    struct sim_event members;
    struct sim_event reread;
    struct sim_event look;
    struct list ops;
    struct shard_set held;
    struct shard_set awaited;
};

enum stage {
    STAGE_CREATE = 1,
    STAGE_RAISE,
    STAGE_CHECK,
    STAGE_REPLY
};

/* A request on its way. */
struct op {
    struct sim_event event;
    struct list link; /* in client.ops */
    struct client *client;
    struct session *session;
    struct coord_request *request;
    enum stage stage;
    int64_t deadline;
    int64_t generation;
    int result;
    bool is_reply_lost;
    bool is_request_lost;
};

struct sim_coord {
    struct sim *sim;
    struct prng prng;
    struct list sessions;
    uint64_t session_count;
    bool is_stopped;
    struct session *owner[SHARD_COUNT_MAX];
    int64_t version[SHARD_COUNT_MAX];
    struct client clients[SIM_NODE_COUNT_MAX];
};

static int64_t latency(struct sim_coord *coord)
{
    return sim_span(&coord->prng, coord->sim->options.coord_us);
}

static int64_t notice_span(struct sim_coord *coord)
{
    return prng_between(&coord->prng, 1, NOTICE_US);
}

static bool is_open(const struct client *client)
{
    return client->node != NULL && client->node->is_up;
}

/* Nothing passes between the client and the server. */
static bool is_apart(const struct client *client)
{
    return client->is_cut || client->server->is_stopped;
}

static void replan(struct sim *sim, struct sim_event *event, int64_t span)
{
    sim_cancel(sim, event);
    sim_after(sim, event, span);
}

/* Plan unless it is planned already: it will see everything when it comes. */
static void plan_once(struct sim *sim, struct sim_event *event, int64_t span)
{
    if (!event->is_planned) {
        sim_after(sim, event, span);
    }
}

static void members_changed(struct sim_coord *coord)
{
    for (uint32_t i = 0; i < coord->sim->options.node_count; i++) {
        struct client *client = &coord->clients[i];

        if (is_open(client)) {
            int64_t span_us = latency(coord);

            span_us += prng_between(&coord->prng, 0, coord->sim->options.members_us);
            plan_once(coord->sim, &client->members, span_us);
        }
    }
}

static void owners_changed(struct sim_coord *coord)
{
    for (uint32_t i = 0; i < coord->sim->options.node_count; i++) {
        if (is_open(&coord->clients[i])) {
            plan_once(coord->sim, &coord->clients[i].look, latency(coord));
        }
    }
}

static void end_session(struct sim_coord *coord, struct session *session)
{
    if (!session->is_alive) {
        return;
    }
    TRACE(&coord->sim->trace, "session-over", session->node->number, (int64_t)session->number);
    session->is_alive = false;
    sim_cancel(coord->sim, &session->expiry);
    for (uint32_t i = 0; i < coord->sim->options.shard_count; i++) {
        if (coord->owner[i] == session) {
            coord->owner[i] = NULL;
        }
    }
    members_changed(coord);
    owners_changed(coord);
}

static void on_expiry(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct session *session = CONTAINER_OF(event, struct session, expiry);

    (void)sim;
    if (!is_dropped) {
        end_session(session->coord, session);
    }
}

/* The server hears nothing of a session any more. */
static void lose_sight(struct sim_coord *coord, struct session *session)
{
    if (session != NULL && session->is_alive && !session->expiry.is_planned && !coord->is_stopped) {
        sim_after(coord->sim, &session->expiry,
                  coord->sim->options.session_timeout_ms * US_PER_MS +
                      prng_between(&coord->prng, 0, TICK_US));
    }
}

/* --- what a client tells its core --- */

static void tell_session(struct client *client, enum coord_session session)
{
    struct now now;

    TRACE(&client->server->sim->trace, "session", client->node->number, session);
    sim_node_now(client->node, &now);
    sim_enter_core(client->server->sim);
    broker_on_session(client->node->broker, &now, session);
    sim_leave_core(client->server->sim);
    sim_node_touch(client->node);
}

static void answer(struct op *op)
{
    struct client *client = op->client;
    struct coord_request *request = op->request;
    struct now now;

    list_del(&op->link);
    sim_cancel(client->server->sim, &op->event);
    TRACE(&client->server->sim->trace, request->kind == COORD_PUBLISH ? "publish" : "coord",
          client->node->number, request->kind, request->shard, op->result, op->generation);
    if (request->kind == COORD_ACQUIRE && op->result == 0) {
        shard_set_add(&client->held, request->shard);
        request->generation = op->generation;
    }
    if (request->kind == COORD_ACQUIRE && op->result == ERR_EXISTS) {
        shard_set_add(&client->awaited, request->shard);
        plan_once(client->server->sim, &client->look, latency(client->server));
    }
    if (op->result == ERR_UNAVAILABLE) {
        plan_once(client->server->sim, &client->look, notice_span(client->server));
    }
    request->result = op->result;
    mem_free(op);
    sim_node_now(client->node, &now);
    broker_set_now(client->node->broker, &now);
    sim_enter_core(client->server->sim);
    request->cb(request);
    sim_leave_core(client->server->sim);
    sim_node_touch(client->node);
}

/* The session is over, and the client knows it now. */
static void lose_session(struct client *client)
{
    struct list *link;

    while ((link = list_first(&client->ops)) != NULL) {
        struct op *op = CONTAINER_OF(link, struct op, link);

        op->result = ERR_UNAVAILABLE;
        answer(op);
    }
    client->session = NULL;
    client->is_connected = false;
    memset(&client->held, 0, sizeof(client->held));
    memset(&client->awaited, 0, sizeof(client->awaited));
    tell_session(client, COORD_LOST);
    replan(client->server->sim, &client->hello, notice_span(client->server));
}

static void on_hello(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct client *client = CONTAINER_OF(event, struct client, hello);
    struct sim_coord *coord = client->server;
    struct session *session;

    if (is_dropped) {
        return;
    }
    if (is_apart(client)) {
        sim_after(sim, event, 100 * US_PER_MS);
        return;
    }
    session = sim_need(1, sizeof(*session));
    session->coord = coord;
    session->number = ++coord->session_count;
    session->node = client->node;
    session->is_alive = true;
    session->created = sim->now;
    session->expiry = (struct sim_event){.fire = on_expiry};
    memset(&client->member.owns, 0, sizeof(client->member.owns));
    session->member = client->member;
    list_add(&coord->sessions, &session->link);
    client->session = session;
    client->is_connected = true;
    tell_session(client, COORD_NEW);
    members_changed(coord);
}

static void check_shards(struct client *client)
{
    struct sim_coord *coord = client->server;
    struct now now;

    sim_node_now(client->node, &now);
    for (uint32_t i = 0; i < coord->sim->options.shard_count; i++) {
        bool is_busy = false;

        if (shard_set_has(&client->held, i) && coord->owner[i] != client->session) {
            shard_set_del(&client->held, i);
            TRACE(&coord->sim->trace, "znode-lost", client->node->number, i);
            sim_enter_core(coord->sim);
            broker_on_shard_lost(client->node->broker, &now, i);
            sim_leave_core(coord->sim);
        }
        if (shard_set_has(&client->awaited, i) && coord->owner[i] == NULL) {
            shard_set_del(&client->awaited, i);
            sim_enter_core(coord->sim);
            broker_on_shard_free(client->node->broker, &now, i);
            sim_leave_core(coord->sim);
        }
        list_foreach (link, &client->ops) {
            is_busy = is_busy || CONTAINER_OF(link, struct op, link)->request->shard == i;
        }
        if (coord->owner[i] == client->session && !shard_set_has(&client->held, i) && !is_busy) {
            coord->owner[i] = NULL; // Ours, and nobody here knows of it.
            owners_changed(coord);
        }
    }
    sim_node_touch(client->node);
}

static void on_look(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct client *client = CONTAINER_OF(event, struct client, look);

    (void)sim;
    if (!is_dropped && client->is_connected && !is_apart(client) && client->session->is_alive) {
        check_shards(client);
    }
}

static void on_notice(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct client *client = CONTAINER_OF(event, struct client, notice);

    if (is_dropped || client->session == NULL) {
        return;
    }
    if (is_apart(client)) {
        if (client->is_connected) {
            client->is_connected = false;
            tell_session(client, COORD_AWAY);
        }
    } else if (!client->session->is_alive) {
        lose_session(client);
    } else {
        bool was_connected = client->is_connected;

        client->is_connected = true;
        check_shards(client); // What happened in between has told nobody.
        if (!was_connected) {
            tell_session(client, COORD_CONNECTED);
        }
        plan_once(sim, &client->members, latency(client->server));
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct member *)a)->name, ((const struct member *)b)->name);
}

/* The member list as the server has it: of two znodes of one name the younger. */
static size_t list_members(const struct sim_coord *coord, struct member *members, size_t max)
{
    size_t count = 0;

    list_foreach (link, &coord->sessions) {
        const struct session *session = CONTAINER_OF(link, struct session, link);
        size_t i = 0;

        if (!session->is_alive) {
            continue;
        }
        while (i < count && strcmp(members[i].name, session->member.name) != 0) {
            i++;
        }
        REQUIRE(i < max);
        members[i] = session->member; // Sessions are in order of creation.
        count = i == count ? count + 1 : count;
    }
    qsort(members, count, sizeof(*members), by_name);
    return count;
}

static void on_members(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct member members[SIM_NODE_COUNT_MAX];
    struct client *client = CONTAINER_OF(event, struct client, members);
    struct now now;
    size_t count;

    if (is_dropped || !client->is_connected || is_apart(client) || !client->session->is_alive) {
        return;
    }
    count = list_members(client->server, members, ARRAY_COUNT(members));
    if (sim->options.mutant == SIM_MUTANT_MEMBERS && count < client->member_count) {
        return;
    }
    client->member_count = count;
    TRACE(&sim->trace, "members", client->node->number, (int64_t)count);
    sim_node_now(client->node, &now);
    sim_enter_core(sim);
    broker_on_members(client->node->broker, &now, members, count);
    sim_leave_core(sim);
    sim_node_touch(client->node);
}

static void on_reread(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct client *client = CONTAINER_OF(event, struct client, reread);

    if (!is_dropped) {
        plan_once(sim, &client->members, 0);
        plan_once(sim, &client->look, 0);
        sim_after(sim, event, REREAD_US);
    }
}

/* --- requests --- */

/* Plan the next stage of an op at the server, or its reply or time-out at the client. */
static void plan_op(struct op *op, int64_t at, bool at_client)
{
    op->event.host = at_client ? op->client->node : NULL;
    sim_at(op->client->server->sim, &op->event, at);
}

static void time_out(struct op *op)
{
    op->result = ERR_UNAVAILABLE;
    op->stage = STAGE_REPLY;
    plan_op(op, op->deadline, true);
}

static void reply(struct op *op, int result)
{
    struct sim_coord *coord = op->client->server;

    if (op->is_reply_lost) {
        time_out(op);
        return;
    }
    op->result = result;
    op->stage = STAGE_REPLY;
    plan_op(op, coord->sim->now + latency(coord), true);
}

static void raise_generation(struct sim_coord *coord, struct op *op)
{
    uint32_t shard = op->request->shard;

    if (coord->sim->options.mutant != SIM_MUTANT_GENERATION || coord->version[shard] == 0) {
        coord->version[shard]++;
    }
    op->generation = coord->version[shard];
}

static void step_acquire(struct sim_coord *coord, struct op *op)
{
    uint32_t shard = op->request->shard;
    int64_t next = coord->sim->now + latency(coord) + latency(coord);

    switch (op->stage) {
    case STAGE_CREATE:
        if (coord->owner[shard] != NULL && coord->owner[shard] != op->session) {
            reply(op, ERR_EXISTS);
            return;
        }
        coord->owner[shard] = op->session;
        op->stage = STAGE_RAISE;
        break;
    case STAGE_RAISE:
        raise_generation(coord, op);
        op->stage = STAGE_CHECK;
        break;
    case STAGE_CHECK:
        reply(op, coord->owner[shard] == op->session ? 0 : ERR_FENCED);
        return;
    case STAGE_REPLY:
        return;
    }
    plan_op(op, next, false);
}

static void step_server(struct op *op)
{
    struct sim_coord *coord = op->client->server;
    const struct coord_request *request = op->request;

    if (op->is_request_lost || is_apart(op->client) || !op->session->is_alive ||
        coord->sim->now > op->deadline) {
        time_out(op);
        return;
    }
    switch (request->kind) {
    case COORD_ACQUIRE:
        step_acquire(coord, op);
        break;
    case COORD_RELEASE:
        if (coord->owner[request->shard] == op->session) {
            coord->owner[request->shard] = NULL;
            owners_changed(coord);
        }
        reply(op, 0);
        break;
    case COORD_STATE:
        reply(op, coord->owner[request->shard] == op->session ? 0 : ERR_FENCED);
        break;
    case COORD_PUBLISH:
        op->session->member = op->client->member;
        members_changed(coord);
        reply(op, 0);
        break;
    case COORD_NUDGE:
        reply(op, 0);
        break;
    }
}

static void on_op(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct op *op = CONTAINER_OF(event, struct op, event);

    (void)sim;
    if (is_dropped) {
        return; // The crash has freed it, or will.
    }
    if (op->stage == STAGE_REPLY) {
        answer(op);
    } else {
        step_server(op);
    }
}

static int submit(struct coord *coord, struct coord_request *request)
{
    struct client *client = CONTAINER_OF(coord, struct client, coord);
    struct sim_coord *server = client->server;
    const struct sim_options *options = &server->sim->options;
    struct op *op;
    bool is_lost =
        !server->sim->is_healed && prng_chance(&server->prng, options->coord_lost_permille);

    if (!server->sim->is_healed && prng_chance(&server->prng, options->no_room_permille)) {
        return ERR_FULL;
    }
    op = sim_need(1, sizeof(*op));
    op->event = (struct sim_event){.fire = on_op};
    op->client = client;
    op->session = client->session;
    op->request = request;
    op->stage = STAGE_CREATE;
    op->deadline = server->sim->now + REQUEST_US;
    op->is_request_lost = is_lost && prng_chance(&server->prng, 500);
    op->is_reply_lost = is_lost;
    list_add(&client->ops, &op->link);
    if (request->kind == COORD_RELEASE) {
        shard_set_del(&client->held, request->shard);
    }
    if (request->kind == COORD_PUBLISH) {
        client->member = *request->member;
    }
    if (op->session == NULL) {
        time_out(op);
    } else {
        plan_op(op, server->sim->now + latency(server), false);
    }
    return 0;
}

static int client_submit(struct coord *coord, struct coord_request *request)
{
    struct sim *sim = CONTAINER_OF(coord, struct client, coord)->server->sim;
    bool was_in_core = sim_enter_world(sim);
    int err = submit(coord, request);

    sim_leave_world(sim, was_in_core);
    return err;
}

/* --- processes --- */

struct coord *sim_coord_open(struct sim_coord *coord, struct sim_node *node)
{
    struct client *client = &coord->clients[node->number];
    bool is_cut = client->is_cut;

    *client = (struct client){.coord.submit = client_submit,
                              .server = coord,
                              .node = node,
                              .is_cut = is_cut,
                              .hello = {.fire = on_hello, .host = node},
                              .notice = {.fire = on_notice, .host = node},
                              .members = {.fire = on_members, .host = node},
                              .reread = {.fire = on_reread, .host = node},
                              .look = {.fire = on_look, .host = node}};
    list_init(&client->ops);
    memcpy(client->member.name, node->name, sizeof(node->name));
    memcpy(client->member.grpc, node->name, sizeof(node->name));
    memcpy(client->member.instance, node->instance, sizeof(node->instance));
    sim_after(coord->sim, &client->hello, latency(coord));
    sim_after(coord->sim, &client->reread, REREAD_US);
    return &client->coord;
}

static void forget(struct sim_coord *coord, struct client *client)
{
    struct list *link;

    sim_cancel(coord->sim, &client->hello);
    sim_cancel(coord->sim, &client->notice);
    sim_cancel(coord->sim, &client->members);
    sim_cancel(coord->sim, &client->reread);
    sim_cancel(coord->sim, &client->look);
    while ((link = list_take_first(&client->ops)) != NULL) {
        struct op *op = CONTAINER_OF(link, struct op, link);

        sim_cancel(coord->sim, &op->event); // What has not reached the server is lost.
        mem_free(op);
    }
    client->session = NULL;
    client->node = NULL;
}

void sim_coord_crash(struct sim_coord *coord, struct sim_node *node)
{
    struct client *client = &coord->clients[node->number];

    if (client->node != NULL) {
        lose_sight(coord, client->session);
        forget(coord, client);
    }
    node->coord = NULL;
}

void sim_coord_leave(struct sim_coord *coord, struct sim_node *node)
{
    struct client *client = &coord->clients[node->number];

    if (client->session != NULL && !is_apart(client)) {
        end_session(coord, client->session);
    }
}

void sim_coord_set_paused(struct sim_coord *coord, struct sim_node *node, bool is_paused)
{
    struct client *client = &coord->clients[node->number];

    if (is_paused) {
        lose_sight(coord, client->session);
        return;
    }
    if (client->session != NULL && !client->is_cut) {
        sim_cancel(coord->sim, &client->session->expiry);
    }
    replan(coord->sim, &client->notice, notice_span(coord));
}

void sim_coord_cut(struct sim_coord *coord, struct sim_node *node)
{
    struct client *client = &coord->clients[node->number];

    TRACE(&coord->sim->trace, "cut", node->number);
    client->is_cut = true;
    if (is_open(client)) {
        lose_sight(coord, client->session);
        replan(coord->sim, &client->notice, notice_span(coord));
    }
}

void sim_coord_mend(struct sim_coord *coord, struct sim_node *node)
{
    struct client *client = &coord->clients[node->number];

    if (!client->is_cut) {
        return;
    }
    TRACE(&coord->sim->trace, "mend", node->number);
    client->is_cut = false;
    if (is_open(client)) {
        if (client->session != NULL && !node->is_paused) {
            sim_cancel(coord->sim, &client->session->expiry);
        }
        replan(coord->sim, &client->notice, notice_span(coord));
    }
}

void sim_coord_stop(struct sim_coord *coord)
{
    TRACE(&coord->sim->trace, "coord-stop", 0);
    coord->is_stopped = true;
    list_foreach (link, &coord->sessions) {
        sim_cancel(coord->sim, &CONTAINER_OF(link, struct session, link)->expiry);
    }
    for (uint32_t i = 0; i < coord->sim->options.node_count; i++) {
        if (is_open(&coord->clients[i])) {
            replan(coord->sim, &coord->clients[i].notice, notice_span(coord));
        }
    }
}

/* Whether the server hears of a session. */
static bool is_heard(const struct sim_coord *coord, const struct session *session)
{
    const struct client *client = &coord->clients[session->node->number];

    return client->session == session && is_open(client) && !client->node->is_paused &&
           !client->is_cut;
}

void sim_coord_start(struct sim_coord *coord)
{
    if (!coord->is_stopped) {
        return;
    }
    TRACE(&coord->sim->trace, "coord-start", 0);
    coord->is_stopped = false;
    list_foreach (link, &coord->sessions) {
        struct session *session = CONTAINER_OF(link, struct session, link);

        if (!is_heard(coord, session)) {
            lose_sight(coord, session);
        }
    }
    for (uint32_t i = 0; i < coord->sim->options.node_count; i++) {
        if (is_open(&coord->clients[i])) {
            replan(coord->sim, &coord->clients[i].notice, notice_span(coord));
        }
    }
}

void sim_coord_expire(struct sim_coord *coord, struct sim_node *node)
{
    struct client *client = &coord->clients[node->number];

    if (is_open(client) && client->session != NULL && !coord->is_stopped) {
        end_session(coord, client->session);
        replan(coord->sim, &client->notice, notice_span(coord));
    }
}

void sim_coord_delete_owner(struct sim_coord *coord, uint32_t shard)
{
    if (coord->owner[shard] != NULL && !coord->is_stopped) {
        TRACE(&coord->sim->trace, "znode-deleted", shard);
        coord->owner[shard] = NULL;
        owners_changed(coord);
    }
}

const struct sim_node *sim_coord_owner(const struct sim_coord *coord, uint32_t shard)
{
    return coord->owner[shard] == NULL ? NULL : coord->owner[shard]->node;
}

struct sim_coord *sim_coord_new(struct sim *sim)
{
    struct sim_coord *coord = sim_need(1, sizeof(*coord));

    coord->sim = sim;
    prng_init_named(&coord->prng, sim->options.seed, "coord");
    list_init(&coord->sessions);
    return coord;
}

void sim_coord_free(struct sim_coord *coord)
{
    struct list *link;

    while ((link = list_take_first(&coord->sessions)) != NULL) {
        mem_free(CONTAINER_OF(link, struct session, link));
    }
    mem_free(coord);
}
