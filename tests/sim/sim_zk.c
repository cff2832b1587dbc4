/* SPDX-License-Identifier: Apache-2.0
 *
 * Znodes are never freed: one that is deleted has a last state that says so. They are found by a
 * hash of their path.
 */
#include "tests/sim/sim_zk.h"

#include "coordinator/zk_body.h"
#include "coordinator/zk_path.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "tests/sim/sim_node.h"

#include <stdio.h>
#include <string.h>

/* ZooKeeper looks for dead sessions once per tick. */
#define TICK_US (500 * US_PER_MS)

/* Znodes of one run: shards and their owners, every start of every broker, a few. */
#define ZNODE_COUNT_MAX 100000

/* Brokers look at everything so often. */
#define LOOK_US (60 * US_PER_S)

/* What a znode was from a moment on. */
struct state {
    struct list link; /* in znode.states, newest last */
    int64_t at;
    bool exists;
    struct zk_stat stat;
    size_t data_len;
    uint8_t data[]; /* data_len bytes */
};

struct znode {
    char path[ZK_PATH_SIZE];
    const char *name; /* its last part */
    struct list link; /* in the parent's children */
    struct znode *parent;
    struct list children;
    struct list states;        /* of struct state; at least one */
    struct list watches;       /* of struct sim_zk_watch, on its data and its being */
    struct list child_watches; /* on the list of its children */
};

struct session {
    struct list link;
    struct sim_zk *zk;
    int64_t number;
    struct sim_node *node;
    bool is_alive;
    bool is_heard;
    struct sim_event expiry;
};

struct sim_zk {
    struct sim *sim;
    struct prng prng;
    struct map znodes; /* by hash of the path */
    struct znode *cluster;
    struct znode *brokers;
    struct znode *shards[SHARD_COUNT_MAX];
    struct znode *owners[SHARD_COUNT_MAX];
    int64_t deleted_at[SHARD_COUNT_MAX]; /* the owner's, by hand; 0: it was not */
    struct list sessions;
    int64_t session_count;
    int64_t zxid;
    int64_t base;
    bool is_planted; /* what was made before that has been there for ever */
    bool is_stopped;
    sim_zk_end_fn on_end;
    void *on_end_ctx;
    const char **names; /* of the last LIST */
    size_t name_capacity;
};

static uint64_t hash_of(const char *path, size_t len)
{
    uint64_t hash = UINT64_C(14695981039346656037) + len;

    for (size_t i = 0; i < len; i += sizeof(uint64_t)) { // The place in a word counts.
        uint64_t word = 0;

        memcpy(&word, path + i, len - i < sizeof(word) ? len - i : sizeof(word));
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return hash;
}

static struct znode *find(const struct sim_zk *zk, const char *path)
{
    struct znode *znode = map_find(&zk->znodes, hash_of(path, strlen(path)));

    REQUIRE(znode == NULL || strcmp(znode->path, path) == 0);
    return znode;
}

static struct state *newest(const struct znode *znode)
{
    return CONTAINER_OF(znode->states.previous, struct state, link);
}

static struct state *state_at(const struct znode *znode, int64_t as_of)
{
    struct state *state = newest(znode);

    while (state->at > as_of && state->link.previous != &znode->states) {
        state = CONTAINER_OF(state->link.previous, struct state, link);
    }
    return state;
}

/* Whether a znode is there for who has read up to a moment; before its first state it is not. */
static bool exists_at(const struct znode *znode, int64_t as_of)
{
    const struct state *state = state_at(znode, as_of);

    return state->at <= as_of && state->exists;
}

/* What nobody can read any more. */
static void trim(const struct sim_zk *zk, struct znode *znode)
{
    for (;;) {
        struct state *first = CONTAINER_OF(znode->states.next, struct state, link);
        const struct state *second = CONTAINER_OF(first->link.next, struct state, link);

        if (first == newest(znode) || second->at > zk->sim->now - 2 * SIM_ZK_LAG_US_MAX) {
            return;
        }
        list_del(&first->link);
        mem_free(first);
    }
}

static void fire_all(struct list *watches)
{
    struct list due;

    list_init(&due);
    list_move_all(&due, watches);
    for (struct list *link; (link = list_take_first(&due)) != NULL;) {
        struct sim_zk_watch *watch = CONTAINER_OF(link, struct sim_zk_watch, link);

        watch->fire(watch);
    }
}

/* A transaction: a new state, and whoever watches hears of it. */
static void put_state(struct sim_zk *zk, struct znode *znode, bool exists, struct slice data,
                      const struct zk_stat *stat)
{
    bool existed = !list_is_empty(&znode->states) && newest(znode)->exists;
    struct state *state = sim_need(1, sizeof(*state) + data.len);

    state->at = zk->is_planted ? zk->sim->now : INT64_MIN;
    state->exists = exists;
    state->stat = *stat;
    state->data_len = data.len;
    if (data.len > 0) {
        memcpy(state->data, data.data, data.len);
    }
    list_add(&znode->states, &state->link);
    trim(zk, znode);
    fire_all(&znode->watches);
    if (exists != existed && znode->parent != NULL) {
        fire_all(&znode->parent->child_watches);
    }
}

static struct znode *znode_new(struct sim_zk *zk, const char *path, struct znode *parent)
{
    struct znode *znode = sim_need(1, sizeof(*znode));
    int err;

    (void)snprintf(znode->path, sizeof(znode->path), "%s", path);
    znode->name = strrchr(znode->path, '/') + 1;
    znode->parent = parent;
    list_init(&znode->children);
    list_init(&znode->states);
    list_init(&znode->watches);
    list_init(&znode->child_watches);
    if (parent != NULL) {
        list_add(&parent->children, &znode->link);
    }
    err = map_put(&zk->znodes, hash_of(path, strlen(path)), znode);
    REQUIRE(err == 0);
    return znode;
}

static struct znode *parent_of(const struct sim_zk *zk, const char *path)
{
    struct znode *parent =
        map_find(&zk->znodes, hash_of(path, (size_t)(strrchr(path, '/') - path)));

    return parent != NULL && newest(parent)->exists ? parent : NULL;
}

/* The znode of a path, with a state; NULL if it has no parent. */
static struct znode *find_or_make(struct sim_zk *zk, const char *path)
{
    struct znode *znode = find(zk, path);
    struct znode *parent;

    if (znode != NULL) {
        return znode;
    }
    parent = parent_of(zk, path);
    if (parent != NULL) {
        znode = znode_new(zk, path, parent);
        put_state(zk, znode, false, (struct slice){NULL, 0}, &(struct zk_stat){0});
    }
    return znode;
}

/* --- reads --- */

static void list_children(struct sim_zk *zk, const struct znode *znode, int64_t as_of,
                          struct sim_zk_result *out)
{
    size_t count = 0;

    list_foreach (link, &znode->children) {
        const struct znode *child = CONTAINER_OF(link, struct znode, link);

        if (!exists_at(child, as_of)) {
            continue;
        }
        if (count == zk->name_capacity) {
            zk->name_capacity = zk->name_capacity == 0 ? 16 : 2 * zk->name_capacity;
            zk->names = mem_resize(zk->names, zk->name_capacity * sizeof(*zk->names));
            REQUIRE(zk->names != NULL);
        }
        zk->names[count++] = child->name;
    }
    out->names = zk->names;
    out->name_count = count;
}

/* Whether what a watch is on has changed after a moment. */
static bool has_changed(const struct znode *znode, bool is_list, int64_t as_of)
{
    if (!is_list) {
        return newest(znode)->at > as_of;
    }
    list_foreach (link, &znode->children) {
        const struct znode *child = CONTAINER_OF(link, struct znode, link);

        if (newest(child)->at > as_of && newest(child)->exists != exists_at(child, as_of)) {
            return true;
        }
    }
    return false;
}

static void arm(struct znode *znode, bool is_list, int64_t as_of, struct sim_zk_watch *watch)
{
    if (has_changed(znode, is_list, as_of)) {
        watch->fire(watch);
        return;
    }
    list_add(is_list ? &znode->child_watches : &znode->watches, &watch->link);
}

void sim_zk_read(struct sim_zk *zk, const struct zk_call *call, int64_t as_of,
                 struct sim_zk_watch *watch, struct sim_zk_result *out)
{
    struct znode *znode = find_or_make(zk, call->path);
    bool exists = znode != NULL && exists_at(znode, as_of);
    bool is_list = call->kind == ZK_LIST;

    REQUIRE(call->kind == ZK_EXISTS || call->kind == ZK_GET || is_list);
    *out = (struct sim_zk_result){.code = exists ? 0 : ERR_NOT_FOUND};
    if (exists && is_list) {
        list_children(zk, znode, as_of, out);
    } else if (exists) {
        const struct state *state = state_at(znode, as_of);

        out->stat = state->stat;
        out->data = (struct slice){state->data, state->data_len};
    }
    // Only EXISTS leaves a watch on what is not there.
    if (watch != NULL && znode != NULL && (exists || call->kind == ZK_EXISTS)) {
        arm(znode, is_list, as_of, watch);
    }
}

/* --- writes --- */

static void create(struct sim_zk *zk, const struct zk_call *call, int64_t session,
                   struct sim_zk_result *out)
{
    struct znode *znode = find_or_make(zk, call->path);

    if (znode == NULL || newest(znode)->exists) {
        out->code = znode == NULL ? ERR_NOT_FOUND : ERR_EXISTS;
        return;
    }
    out->stat = (struct zk_stat){.owner_session = call->is_ephemeral ? session : 0,
                                 .created_zxid = ++zk->zxid};
    put_state(zk, znode, true, call->data, &out->stat);
}

static bool is_raised(const struct sim_zk *zk, const struct znode *znode)
{
    bool is_shard = false;

    if (zk->sim->options.mutant != SIM_MUTANT_GENERATION) {
        return true;
    }
    for (uint32_t i = 0; i < zk->sim->options.shard_count; i++) {
        is_shard = is_shard || zk->shards[i] == znode;
    }
    return !is_shard || newest(znode)->stat.version == 0;
}

static void change(struct sim_zk *zk, const struct zk_call *call, struct sim_zk_result *out)
{
    struct znode *znode = find(zk, call->path);

    if (znode == NULL || !newest(znode)->exists) {
        out->code = ERR_NOT_FOUND;
        return;
    }
    out->stat = newest(znode)->stat;
    if (call->version >= 0 && call->version != out->stat.version) {
        out->code = ERR_CONFLICT;
        return;
    }
    zk->zxid++;
    if (call->kind == ZK_DELETE) {
        put_state(zk, znode, false, (struct slice){NULL, 0}, &(struct zk_stat){0});
        return;
    }
    out->stat.version += is_raised(zk, znode) ? 1 : 0;
    put_state(zk, znode, true, call->data, &out->stat);
}

void sim_zk_write(struct sim_zk *zk, const struct zk_call *call, int64_t session,
                  struct sim_zk_result *out)
{
    REQUIRE(sim_zk_session_is_alive(zk, session) && !zk->is_stopped);
    *out = (struct sim_zk_result){0};
    if (call->kind == ZK_CREATE) {
        create(zk, call, session, out);
    } else {
        REQUIRE(call->kind == ZK_SET || call->kind == ZK_DELETE);
        change(zk, call, out);
    }
}

/* --- sessions --- */

static struct session *session_of(const struct sim_zk *zk, int64_t number)
{
    // The youngest are asked for most.
    for (struct list *link = zk->sessions.previous; link != &zk->sessions; link = link->previous) {
        struct session *session = CONTAINER_OF(link, struct session, link);

        if (session->number == number) {
            return session;
        }
    }
    return NULL;
}

void sim_zk_on_end(struct sim_zk *zk, sim_zk_end_fn fn, void *ctx)
{
    zk->on_end = fn;
    zk->on_end_ctx = ctx;
}

static void drop_ephemerals(struct sim_zk *zk, int64_t number)
{
    for (uint32_t i = 0; i < zk->sim->options.shard_count; i++) {
        if (newest(zk->owners[i])->exists && newest(zk->owners[i])->stat.owner_session == number) {
            put_state(zk, zk->owners[i], false, (struct slice){NULL, 0}, &(struct zk_stat){0});
        }
    }
    list_foreach (link, &zk->brokers->children) {
        struct znode *child = CONTAINER_OF(link, struct znode, link);

        if (newest(child)->exists && newest(child)->stat.owner_session == number) {
            put_state(zk, child, false, (struct slice){NULL, 0}, &(struct zk_stat){0});
        }
    }
}

static void end(struct session *session)
{
    struct sim_zk *zk = session->zk;

    if (!session->is_alive) {
        return;
    }
    TRACE(&zk->sim->trace, "session-over", session->node->number, session->number);
    session->is_alive = false;
    sim_cancel(zk->sim, &session->expiry);
    zk->zxid++;
    drop_ephemerals(zk, session->number);
    zk->on_end(zk->on_end_ctx, session->number);
}

static void on_expiry(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    (void)sim;
    if (!is_dropped) {
        end(CONTAINER_OF(event, struct session, expiry));
    }
}

int64_t sim_zk_session_new(struct sim_zk *zk, struct sim_node *node)
{
    struct session *session = sim_need(1, sizeof(*session));

    session->zk = zk;
    session->number = ++zk->session_count;
    session->node = node;
    session->is_alive = true;
    session->is_heard = true;
    session->expiry = (struct sim_event){.fire = on_expiry};
    list_add(&zk->sessions, &session->link);
    return session->number;
}

bool sim_zk_session_is_alive(const struct sim_zk *zk, int64_t number)
{
    const struct session *session = session_of(zk, number);

    return session != NULL && session->is_alive;
}

static void plan_expiry(struct session *session)
{
    struct sim_zk *zk = session->zk;

    if (session->is_alive && !session->is_heard && !session->expiry.is_planned && !zk->is_stopped) {
        sim_after(zk->sim, &session->expiry,
                  zk->sim->options.session_timeout_ms * US_PER_MS +
                      prng_between(&zk->prng, 0, TICK_US));
    }
}

void sim_zk_session_heard(struct sim_zk *zk, int64_t number)
{
    struct session *session = session_of(zk, number);

    if (session != NULL) {
        session->is_heard = true;
        sim_cancel(zk->sim, &session->expiry);
    }
}

void sim_zk_session_silent(struct sim_zk *zk, int64_t number)
{
    struct session *session = session_of(zk, number);

    if (session != NULL) {
        session->is_heard = false;
        plan_expiry(session);
    }
}

void sim_zk_session_end(struct sim_zk *zk, int64_t number)
{
    struct session *session = session_of(zk, number);

    if (session != NULL && !zk->is_stopped) {
        end(session);
    }
}

void sim_zk_stop(struct sim_zk *zk)
{
    TRACE(&zk->sim->trace, "coord-stop", 0);
    zk->is_stopped = true;
    list_foreach (link, &zk->sessions) {
        struct session *session = CONTAINER_OF(link, struct session, link);

        session->is_heard = false;
        sim_cancel(zk->sim, &session->expiry);
    }
}

void sim_zk_start(struct sim_zk *zk)
{
    TRACE(&zk->sim->trace, "coord-start", 0);
    zk->is_stopped = false;
    list_foreach (link, &zk->sessions) {
        plan_expiry(CONTAINER_OF(link, struct session, link));
    }
}

bool sim_zk_is_stopped(const struct sim_zk *zk)
{
    return zk->is_stopped;
}

/* --- by hand --- */

void sim_zk_delete_owner(struct sim_zk *zk, uint32_t shard)
{
    if (newest(zk->owners[shard])->exists && !zk->is_stopped) {
        TRACE(&zk->sim->trace, "znode-deleted", shard);
        zk->zxid++;
        zk->deleted_at[shard] = zk->sim->now;
        put_state(zk, zk->owners[shard], false, (struct slice){NULL, 0}, &(struct zk_stat){0});
    }
}

bool sim_zk_is_missed(const struct sim_zk *zk, uint32_t shard, int64_t span_us)
{
    const struct state *state = newest(zk->owners[shard]);
    int64_t deleted_at = zk->deleted_at[shard];

    return deleted_at != 0 && zk->sim->now - deleted_at < LOOK_US + span_us &&
           (!state->exists || zk->sim->now - state->at < span_us);
}

struct sim_node *sim_zk_owner(const struct sim_zk *zk, uint32_t shard)
{
    const struct state *state = newest(zk->owners[shard]);
    const struct session *session =
        state->exists ? session_of(zk, state->stat.owner_session) : NULL;

    return session == NULL ? NULL : session->node;
}

static void write_cluster(struct sim_zk *zk)
{
    const struct cluster *cluster = &zk->sim->cluster;
    struct zk_cluster_body body = {
        .format = ZK_FORMAT, .shard_count = cluster->shard_count, .base = zk->base};
    struct buf text;

    memcpy(body.id, cluster->id, sizeof(body.id));
    buf_init(&text, ZK_BODY_BYTES_MAX);
    zk_body_write_cluster(&text, &body);
    REQUIRE(!text.failed);
    put_state(zk, zk->cluster, true, buf_slice(&text), &(struct zk_stat){0});
    buf_fini(&text);
}

void sim_zk_set_base(struct sim_zk *zk, int64_t base)
{
    TRACE(&zk->sim->trace, "base", base);
    zk->base = base;
    write_cluster(zk);
}

int64_t sim_zk_base(const struct sim_zk *zk)
{
    return zk->base;
}

void sim_zk_rebuild(struct sim_zk *zk)
{
    TRACE(&zk->sim->trace, "rebuild", 0);
    list_foreach (link, &zk->sessions) {
        end(CONTAINER_OF(link, struct session, link));
    }
    for (uint32_t i = 0; i < zk->sim->options.shard_count; i++) {
        put_state(zk, zk->shards[i], true, (struct slice){NULL, 0}, &(struct zk_stat){0});
    }
}

/* --- life --- */

static void plant(struct sim_zk *zk)
{
    struct zk_path cluster;
    struct zk_path path;
    struct zk_stat stat = {.created_zxid = ++zk->zxid};
    struct znode *shards;

    zk_path_cluster(&cluster, "/foliot", "sim");
    zk->cluster = znode_new(zk, cluster.text, NULL);
    write_cluster(zk);
    zk_path_brokers(&path, &cluster);
    zk->brokers = znode_new(zk, path.text, zk->cluster);
    put_state(zk, zk->brokers, true, slice_of(""), &stat);
    zk_path_config(&path, &cluster);
    put_state(zk, znode_new(zk, path.text, zk->cluster), true, slice_of("{}"), &stat);
    zk_path_shards(&path, &cluster);
    shards = znode_new(zk, path.text, zk->cluster);
    put_state(zk, shards, true, slice_of(""), &stat);
    for (uint32_t i = 0; i < zk->sim->options.shard_count; i++) {
        zk_path_shard(&path, &cluster, i);
        zk->shards[i] = znode_new(zk, path.text, shards);
        put_state(zk, zk->shards[i], true, slice_of("{}"), &stat);
        zk_path_owner(&path, &cluster, i);
        zk->owners[i] = znode_new(zk, path.text, zk->shards[i]);
        put_state(zk, zk->owners[i], false, slice_of(""), &stat);
    }
}

struct sim_zk *sim_zk_new(struct sim *sim)
{
    struct sim_zk *zk = sim_need(1, sizeof(*zk));

    zk->sim = sim;
    prng_init_named(&zk->prng, sim->options.seed, "zookeeper");
    map_init(&zk->znodes, ZNODE_COUNT_MAX);
    list_init(&zk->sessions);
    plant(zk);
    zk->is_planted = true;
    return zk;
}

void sim_zk_free(struct sim_zk *zk)
{
    struct map_iter iter = {0};
    struct znode *znode;
    struct list *link;

    while ((znode = map_next(&zk->znodes, &iter)) != NULL) {
        while ((link = list_take_first(&znode->states)) != NULL) {
            mem_free(CONTAINER_OF(link, struct state, link));
        }
        mem_free(znode);
    }
    map_fini(&zk->znodes);
    while ((link = list_take_first(&zk->sessions)) != NULL) {
        mem_free(CONTAINER_OF(link, struct session, link));
    }
    mem_free((void *)zk->names);
    mem_free(zk);
}
