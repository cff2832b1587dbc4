/* SPDX-License-Identifier: Apache-2.0
 *
 * One coordinator per process, and what is between it and the core.
 */
#include "tests/sim/sim_coord.h"

#include "coordinator/coord_zk.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "tests/sim/sim_link.h"
#include "tests/sim/sim_loop.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_zk.h"
#include "tests/sim/sim_zk_link.h"

#include <string.h>

/* Members of one list: one per name. */
#define TOLD_MAX SIM_NODE_COUNT_MAX

/* Most that a late event of a shard is late, and an old member list. */
#define LATE_US_MAX (3 * US_PER_S)

static const char *const DATABASE_NAMES[DATABASE_COUNT_MAX] = {
    "db0", "db1", "db2",  "db3",  "db4",  "db5",  "db6",  "db7",
    "db8", "db9", "db10", "db11", "db12", "db13", "db14", "db15"};

/* The handle of one process. */
struct client {
    struct coord coord; /* the core's door */
    struct sim_coord *server;
    struct sim_node *node;
    struct coord_events events; /* the core's ears */
    struct sim_zk_host host;
    struct loop *loop;
    struct coord *inner; /* the real one */
    struct list ops;
    struct list tellings;
    struct member members[TOLD_MAX]; /* as the coordinator has told last */
    size_t member_count;
    size_t told_count; /* in the list that the core was told last */
    struct sim_event tell;
    uint32_t hidden;         /* bit per node: it is left out of what the core is told */
    uint64_t acquires;       /* asked for */
    coord_close_cb close_cb; /* NULL: nobody has asked for it */
    void *close_ctx;
    bool is_closing;
    bool is_closed;
};

/* A request of the core's, as the real coordinator has it. */
struct op {
    struct coord_request inner;
    struct list link; /* in client.ops */
    struct client *client;
    struct coord_request *outer;
};

/* An event that is late: a member list that younger ones overtake, or a shard that is free. */
struct telling {
    struct sim_event event;
    struct list link; /* in client.tellings */
    struct client *client;
    bool is_members;
    uint32_t shard;
    size_t member_count;
    struct member members[TOLD_MAX];
};

struct sim_coord {
    struct sim *sim;
    struct prng prng;
    struct sim_zk *zk;
    uint64_t requests;
    int64_t generation_max; /* given so far */
    struct client clients[SIM_NODE_COUNT_MAX];
};

static bool is_unlucky(struct client *client)
{
    struct sim *sim = client->server->sim;

    return !sim->is_healed && prng_chance(&client->server->prng, sim->options.hear_permille);
}

static bool is_open(const struct client *client)
{
    return client->node != NULL;
}

/* --- what the core is told --- */

static void touch(struct client *client)
{
    sim_node_touch(client->node);
}

static void tell_members(struct client *client, const struct member *members, size_t count)
{
    struct sim *sim = client->server->sim;
    struct member told[TOLD_MAX];
    size_t told_count = 0;

    for (size_t i = 0; i < count; i++) {
        const struct sim_node *node = sim_node_find(sim, members[i].name);

        if (node == NULL || (client->hidden >> node->number & 1U) == 0) {
            told[told_count++] = members[i];
        }
    }
    if (sim->options.mutant == SIM_MUTANT_MEMBERS && told_count < client->told_count) {
        return;
    }
    client->told_count = told_count;
    TRACE(&sim->trace, "members", client->node->number, (int64_t)told_count);
    sim_enter_core_of(client->node);
    client->events.on_members(client->events.ctx, told, told_count);
    sim_leave_core(sim);
    touch(client);
}

static void on_tell(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct client *client = CONTAINER_OF(event, struct client, tell);

    (void)sim;
    if (!is_dropped) {
        tell_members(client, client->members, client->member_count);
    }
}

static void tell_free(struct client *client, uint32_t shard)
{
    struct sim *sim = client->server->sim;

    TRACE(&sim->trace, "znode-free", client->node->number, shard);
    sim_enter_core_of(client->node);
    client->events.on_shard_free(client->events.ctx, shard);
    sim_leave_core(sim);
    touch(client);
}

static void telling_free(struct telling *telling)
{
    list_del(&telling->link);
    sim_cancel(telling->client->server->sim, &telling->event);
    mem_free(telling);
}

static void on_telling(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct telling *telling = CONTAINER_OF(event, struct telling, event);

    (void)sim;
    if (is_dropped) {
        return; // The crash frees it.
    }
    if (telling->is_members) {
        tell_members(telling->client, telling->members, telling->member_count);
    } else {
        tell_free(telling->client, telling->shard);
    }
    telling_free(telling);
}

static struct telling *tell_late(struct client *client)
{
    struct telling *telling = sim_need(1, sizeof(*telling));

    telling->event = (struct sim_event){.fire = on_telling, .host = client->node};
    telling->client = client;
    list_add(&client->tellings, &telling->link);
    sim_after(client->server->sim, &telling->event,
              prng_between(&client->server->prng, 0, LATE_US_MAX));
    return telling;
}

/* --- what the coordinator tells --- */

static void on_session(void *ctx, enum coord_session session)
{
    struct client *client = ctx;
    struct sim *sim = client->server->sim;

    if (client->host.is_gone) {
        return;
    }
    TRACE(&sim->trace, "session", client->node->number, session);
    sim_enter_core_of(client->node);
    client->events.on_session(client->events.ctx, session);
    sim_leave_core(sim);
    touch(client);
}

static void on_members(void *ctx, const struct member *members, size_t count)
{
    struct client *client = ctx;
    struct sim *sim = client->server->sim;

    if (client->host.is_gone || client->is_closing) {
        return;
    }
    if (is_unlucky(client)) { // The list before this one comes after it, once more.
        struct telling *telling = tell_late(client);

        telling->is_members = true;
        telling->member_count = client->member_count;
        memcpy(telling->members, client->members, sizeof(client->members));
    }
    REQUIRE(count <= TOLD_MAX);
    client->member_count = count;
    memcpy(client->members, members, count * sizeof(*members));
    if (!client->tell.is_planned) {
        sim_after(sim, &client->tell,
                  prng_between(&client->server->prng, 0, sim->options.members_us));
    }
}

static void on_shard_free(void *ctx, uint32_t shard)
{
    struct client *client = ctx;

    if (client->host.is_gone) {
        return;
    }
    if (is_unlucky(client)) {
        return;
    }
    if (is_unlucky(client)) {
        tell_late(client)->shard = shard;
    }
    tell_free(client, shard);
}

static void on_shard_lost(void *ctx, uint32_t shard)
{
    struct client *client = ctx;
    struct sim *sim = client->server->sim;

    if (client->host.is_gone) {
        return;
    }
    TRACE(&sim->trace, "znode-lost", client->node->number, shard);
    for (int times = is_unlucky(client) ? 2 : 1; times > 0; times--) {
        sim_enter_core_of(client->node);
        client->events.on_shard_lost(client->events.ctx, shard);
        sim_leave_core(sim);
    }
    touch(client);
}

static void on_config(void *ctx, int64_t version)
{
    struct client *client = ctx;

    if (!client->host.is_gone && client->events.on_config != NULL) {
        client->events.on_config(client->events.ctx, version);
    }
}

/* --- requests --- */

static void op_free(struct op *op)
{
    list_del(&op->link);
    mem_free(op);
}

static void on_answer(struct coord_request *inner)
{
    struct op *op = inner->owner;
    struct client *client = op->client;
    struct coord_request *outer = op->outer;
    struct sim *sim = client->server->sim;

    if (client->host.is_gone) {
        op_free(op);
        return;
    }
    TRACE(&sim->trace, inner->kind == COORD_PUBLISH ? "publish" : "coord", client->node->number,
          inner->kind, inner->shard, inner->result, inner->generation);
    outer->result = inner->result;
    outer->generation = inner->generation;
    if (inner->kind == COORD_ACQUIRE && inner->result == 0) {
        client->server->generation_max =
            time_max(client->server->generation_max, inner->generation);
    }
    op_free(op);
    sim_node_set_now(client->node);
    sim_enter_core_of(client->node);
    outer->cb(outer);
    sim_leave_core(sim);
    touch(client);
}

static int submit(struct client *client, struct coord_request *request)
{
    struct sim_coord *server = client->server;
    struct op *op;
    int err;

    server->requests++;
    client->acquires += request->kind == COORD_ACQUIRE;
    if (sim_nth_next(&server->sim->coord_requests) != 0) {
        return ERR_FULL;
    }
    if (!server->sim->is_healed &&
        prng_chance(&server->prng, server->sim->options.no_room_permille)) {
        return ERR_FULL;
    }
    op = sim_need(1, sizeof(*op));
    op->client = client;
    op->outer = request;
    op->inner = *request;
    op->inner.cb = on_answer;
    op->inner.owner = op;
    list_add(&client->ops, &op->link);
    err = client->inner->submit(client->inner, &op->inner);
    if (err != 0) {
        op_free(op);
    }
    return err;
}

static struct client *client_of(struct coord *coord)
{
    return CONTAINER_OF(coord, struct client, coord);
}

static int client_submit(struct coord *coord, struct coord_request *request)
{
    struct client *client = client_of(coord);
    bool was_in_core = sim_enter_world(client->server->sim);
    int err = submit(client, request);

    sim_leave_world(client->server->sim, was_in_core);
    return err;
}

/* Nothing that is late is told any more. */
static void hush(struct client *client)
{
    while (!list_is_empty(&client->tellings)) {
        telling_free(CONTAINER_OF(client->tellings.next, struct telling, link));
    }
    sim_cancel(client->server->sim, &client->tell);
}

static void closed(void *ctx)
{
    struct client *client = ctx;

    client->is_closed = true;
    if (client->close_cb != NULL && !client->host.is_gone) {
        client->close_cb(client->close_ctx);
    }
}

static void client_close(struct coord *coord, coord_close_cb cb, void *ctx)
{
    struct client *client = client_of(coord);

    REQUIRE(!client->is_closing);
    hush(client);
    client->is_closing = true;
    client->close_cb = cb;
    client->close_ctx = ctx;
    client->inner->close(client->inner, closed, client);
}

/* --- processes --- */

static void open_inner(struct client *client, const struct member *self)
{
    struct sim *sim = client->server->sim;
    struct coord_zk_options options = {
        .loop = client->loop,
        .place = {.hosts = "sim:2181",
                  .root = "/foliot",
                  .name = "sim",
                  .session_timeout_ms = sim->options.session_timeout_ms},
        .databases = {.names = DATABASE_NAMES, .count = sim->options.database_count},
        .cluster = &sim->cluster,
        .self = self,
        .events = {.on_session = on_session,
                   .on_members = on_members,
                   .on_shard_free = on_shard_free,
                   .on_shard_lost = on_shard_lost,
                   .on_config = on_config,
                   .ctx = client},
    };
    int err = coord_zk_open(&options, &client->inner);

    REQUIRE(err == 0);
}

struct coord *sim_coord_open(struct sim_coord *coord, struct sim_node *node,
                             const struct member *self, const struct coord_events *events)
{
    struct client *client = &coord->clients[node->number];
    uint64_t acquires = client->acquires;

    REQUIRE(!is_open(client));
    *client = (struct client){
        .coord = {.submit = client_submit, .close = client_close},
        .server = coord,
        .node = node,
        .events = *events,
        .host = {.sim = coord->sim, .zk = coord->zk, .node = node, .prng = &coord->prng},
        .tell = {.fire = on_tell, .host = node},
        .hidden = client->hidden,
        .acquires = acquires};
    list_init(&client->ops);
    list_init(&client->tellings);
    client->loop = sim_loop_new(node, &client->host);
    open_inner(client, self);
    return &client->coord;
}

/* Nobody hears anything any more. */
static void forget(struct client *client)
{
    client->host.is_gone = true;
    hush(client);
    if (!client->is_closing) {
        client->inner->close(client->inner, closed, client);
    }
    for (int i = 0; i < 8 && !client->is_closed; i++) {
        sim_zk_link_hurry(&client->host);
        sim_loop_drain(client->loop);
    }
    REQUIRE(client->is_closed && list_is_empty(&client->ops));
    sim_loop_free(client->loop);
    client->node = NULL;
}

void sim_coord_crash(struct sim_coord *coord, struct sim_node *node)
{
    struct client *client = &coord->clients[node->number];

    if (is_open(client)) {
        forget(client);
    }
    node->coord = NULL;
}

void sim_coord_leave(struct sim_coord *coord, struct sim_node *node)
{
    sim_zk_link_leave(&coord->clients[node->number].host);
}

void sim_coord_set_paused(struct sim_coord *coord, struct sim_node *node)
{
    sim_zk_link_refresh(&coord->clients[node->number].host);
}

void sim_coord_refresh(struct sim_coord *coord)
{
    for (uint32_t i = 0; i < coord->sim->options.node_count; i++) {
        if (is_open(&coord->clients[i])) {
            sim_zk_link_refresh(&coord->clients[i].host);
        }
    }
}

void sim_coord_cut(struct sim_coord *coord, struct sim_node *node)
{
    sim_link_cut(coord->sim->links, SIM_END_NODE(node->number), SIM_END_COORD);
    sim_link_cut(coord->sim->links, SIM_END_COORD, SIM_END_NODE(node->number));
}

void sim_coord_mend(struct sim_coord *coord, struct sim_node *node)
{
    sim_link_mend(coord->sim->links, SIM_END_NODE(node->number), SIM_END_COORD);
    sim_link_mend(coord->sim->links, SIM_END_COORD, SIM_END_NODE(node->number));
}

void sim_coord_stop(struct sim_coord *coord)
{
    sim_zk_stop(coord->zk);
    sim_coord_refresh(coord);
}

void sim_coord_start(struct sim_coord *coord)
{
    if (sim_zk_is_stopped(coord->zk)) {
        sim_zk_start(coord->zk);
        sim_coord_refresh(coord);
    }
}

void sim_coord_expire(struct sim_coord *coord, struct sim_node *node)
{
    int64_t session = sim_zk_link_session(&coord->clients[node->number].host);

    if (session != 0) {
        sim_zk_session_end(coord->zk, session);
    }
}

void sim_coord_delete_owner(struct sim_coord *coord, uint32_t shard)
{
    sim_zk_delete_owner(coord->zk, shard);
}

bool sim_coord_is_missed(const struct sim_coord *coord, uint32_t shard, int64_t span_us)
{
    return sim_zk_is_missed(coord->zk, shard, span_us);
}

void sim_coord_hide(struct sim_coord *coord, const struct sim_node *from,
                    const struct sim_node *member)
{
    struct client *client = &coord->clients[from->number];

    TRACE(&coord->sim->trace, "hide", from->number, member->number);
    client->hidden ^= UINT32_C(1) << member->number;
    if (is_open(client) && !client->tell.is_planned) {
        sim_after(coord->sim, &client->tell, 0);
    }
}

void sim_coord_rebuild(struct sim_coord *coord)
{
    sim_zk_set_base(coord->zk, 0);
    sim_zk_rebuild(coord->zk);
}

void sim_coord_raise(struct sim_coord *coord)
{
    if (coord->generation_max > sim_zk_base(coord->zk)) {
        sim_zk_set_base(coord->zk, coord->generation_max);
    }
}

void sim_coord_adopt(struct sim_coord *coord)
{
    sim_coord_raise(coord);
    for (uint32_t i = 0; i < coord->sim->options.node_count; i++) {
        sim_coord_expire(coord, &coord->sim->nodes[i]); // The operator starts every broker anew.
    }
}

void sim_coord_heal(struct sim_coord *coord)
{
    for (uint32_t i = 0; i < coord->sim->options.node_count; i++) {
        struct client *client = &coord->clients[i];

        client->hidden = 0;
        if (!is_open(client)) {
            continue;
        }
        hush(client);
        sim_zk_link_heal(&client->host);
        if (client->member_count > 0 && !client->is_closing) {
            sim_after(coord->sim, &client->tell, 0);
        }
    }
}

const struct sim_node *sim_coord_owner(const struct sim_coord *coord, uint32_t shard)
{
    return sim_zk_owner(coord->zk, shard);
}

uint64_t sim_coord_acquires(const struct sim_coord *coord, const struct sim_node *node)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < coord->sim->options.node_count; i++) {
        if (node == NULL || node->number == i) {
            sum += coord->clients[i].acquires;
        }
    }
    return sum;
}

uint64_t sim_coord_requests(const struct sim_coord *coord)
{
    return coord->requests;
}

static void on_end(void *ctx, int64_t session)
{
    struct sim_coord *coord = ctx;

    for (uint32_t i = 0; i < coord->sim->options.node_count; i++) {
        if (is_open(&coord->clients[i])) {
            sim_zk_link_on_end(&coord->clients[i].host, session);
        }
    }
}

struct sim_coord *sim_coord_new(struct sim *sim)
{
    struct sim_coord *coord = sim_need(1, sizeof(*coord));

    coord->sim = sim;
    prng_init_named(&coord->prng, sim->options.seed, "coord");
    sim_loop_set_sim(sim);
    coord->zk = sim_zk_new(sim);
    sim_zk_on_end(coord->zk, on_end, coord);
    return coord;
}

void sim_coord_free(struct sim_coord *coord)
{
    sim_zk_free(coord->zk);
    sim_loop_set_sim(NULL);
    mem_free(coord);
}
