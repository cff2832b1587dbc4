/* SPDX-License-Identifier: Apache-2.0
 *
 * Links to brokers, and the table of owners.
 */
#include "client/lib/brokers.h"

#include "lib/base/check.h"
#include "lib/base/limits.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"
#include "lib/model/task.h"
#include "proto/codec_cluster.h"

#include <string.h>

#define TOPOLOGY_PATH "/foliot.v1.ClusterService/GetTopology"

/* Brokers and shards are asked for again after this long, if there were calls, */
#define LEARN_MS 30000
/* after this, if some shards have no owner yet, */
#define LEARN_REST_MS 2000
/* and as soon as this when something is wrong. */
#define LEARN_AGAIN_MS 500
/* So often in a row for the same call; then the next call asks. */
#define LEARN_AGAIN_MAX 20
/* One question. A broker may ask the others for a second before it answers. */
#define LEARN_TIMEOUT_MS 3000

/* How long a broker that failed is passed over: doubling from the first to the longest. */
#define SHUN_FIRST_MS 250
#define SHUN_MAX_MS   10000

#define CONNECT_TIMEOUT_MS   3000
#define BACKOFF_FIRST_MS     100
#define BACKOFF_MAX_MS       5000
#define KEEPALIVE_MS         10000
#define KEEPALIVE_TIMEOUT_MS 5000

/* Longest "host:port". */
#define TARGET_TEXT_BYTES (HOST_BYTES_MAX + 16)

/*
 * A broker.
 * 1. It lives while it is a seed or a member, or has calls.
 */
struct broker_link {
    struct list node; /* in brokers->links, in the order of turns */
    struct brokers *brokers;
    struct rpc_channel *channel;
    uint32_t call_count;
    bool is_seed;   /* we were told of it */
    bool is_member; /* the cluster named it */
    span_ms shun_ms;
    boot_us shun_until_us;
    char target[TARGET_TEXT_BYTES];
};

struct brokers {
    struct brokers_options options; /* servers is not used after open */
    struct list links;
    struct broker_link **owners; /* by shard; NULL: none is known */
    uint32_t shard_count;        /* 0: nothing has been learned */
    uint32_t member_count;
    uint64_t learned_count;
    span_ms good_for_ms;    /* how long what was learned is believed */
    uint32_t channel_count; /* not closed yet */

    struct rpc_request question;
    struct broker_link *asked; /* NULL: no question is out */
    struct loop_timer timer;   /* the next question */
    boot_us asked_us;          /* the last question; 0: none */
    bool is_used;              /* a call was made since the last question, or waits for a better
                                  answer to it */
    uint32_t again_count;      /* questions since the last call that brought no whole answer */
    bool is_closing;
    brokers_cb cb;
    void *ctx;
};

/* ---- links ---- */

static struct broker_link *find_link(struct brokers *brokers, const char *target)
{
    list_foreach (node, &brokers->links) {
        struct broker_link *link = LIST_ENTRY(node, struct broker_link, node);

        if (strcmp(link->target, target) == 0) {
            return link;
        }
    }
    return NULL;
}

/* errors: ERR_INVALID, ERR_NO_MEMORY. */
static int new_link(struct brokers *brokers, struct slice target, struct broker_link **out)
{
    struct rpc_channel_options options;
    struct broker_link *link;
    int err;

    if (target.len >= TARGET_TEXT_BYTES) {
        return ERR_INVALID;
    }
    link = mem_new(1, sizeof(*link));
    if (link == NULL) {
        return ERR_NO_MEMORY;
    }
    memcpy(link->target, target.data, target.len);
    rpc_channel_options_init(&options);
    options.target = link->target;
    options.resolver = brokers->options.resolver;
    options.tls = brokers->options.tls;
    options.tls_host = brokers->options.tls_name;
    options.queue_max = brokers->options.calls_max + 1; // And our own question.
    options.request_bytes_max = RPC_MESSAGE_BYTES_MAX;
    options.response_bytes_max = RPC_MESSAGE_BYTES_MAX;
    options.connect_timeout_ms = CONNECT_TIMEOUT_MS;
    options.backoff_first_ms = BACKOFF_FIRST_MS;
    options.backoff_max_ms = BACKOFF_MAX_MS;
    options.keepalive_ms = KEEPALIVE_MS;
    options.keepalive_timeout_ms = KEEPALIVE_TIMEOUT_MS;
    err = rpc_channel_open(brokers->options.loop, &options, &link->channel);
    if (err != 0) {
        mem_free(link);
        return err;
    }
    link->brokers = brokers;
    list_init(&link->node);
    list_add(&brokers->links, &link->node);
    brokers->channel_count++;
    *out = link;
    return 0;
}

static void try_finish(struct brokers *brokers)
{
    if (brokers->is_closing && brokers->channel_count == 0) {
        brokers_cb cb = brokers->cb;
        void *ctx = brokers->ctx;

        mem_free(brokers->owners);
        mem_free(brokers);
        cb(ctx);
    }
}

static void on_channel_closed(void *ctx)
{
    struct brokers *brokers = ctx;

    brokers->channel_count--;
    try_finish(brokers);
}

static void free_link(struct broker_link *link)
{
    struct brokers *brokers = link->brokers;

    REQUIRE(link->call_count == 0);
    list_del(&link->node);
    rpc_channel_close(link->channel, on_channel_closed, brokers);
    mem_free(link);
}

/* Let go of a link that nobody needs any more. */
static void drop_idle_link(struct broker_link *link)
{
    if (!link->is_seed && !link->is_member && link->call_count == 0) {
        free_link(link);
    }
}

static void shun(struct broker_link *link)
{
    link->shun_ms = time_clamp(link->shun_ms * 2, SHUN_FIRST_MS, SHUN_MAX_MS);
    link->shun_until_us =
        time_add(loop_now_us(link->brokers->options.loop), link->shun_ms * US_PER_MS);
}

int brokers_call(struct broker_link *link, struct rpc_request *request)
{
    int err = rpc_channel_call(link->channel, request);

    link->call_count += err == 0;
    return err;
}

void brokers_ended(struct broker_link *link, const struct rpc_reply *reply)
{
    REQUIRE(link->call_count > 0);
    link->call_count--;
    if (reply->from_peer || reply->status == RPC_OK) {
        link->shun_ms = 0;
        link->shun_until_us = 0;
    } else if (reply->status == RPC_UNAVAILABLE || reply->status == RPC_DEADLINE_EXCEEDED) {
        shun(link);
    }
    drop_idle_link(link);
}

const char *broker_link_target(const struct broker_link *link)
{
    return link->target;
}

/* ---- the pick ---- */

/* How gladly a link is taken: the lower the better; RANK_NONE: not at all. */
enum {
    RANK_READY = 0,
    RANK_CONNECTING = 2,
    RANK_SHUNNED = 4,
    RANK_AVOIDED = 6,
    RANK_NONE = 100
};

static int rank_of(const struct broker_link *link, const struct broker_link *avoid)
{
    const struct brokers *brokers = link->brokers;
    enum rpc_channel_state state = rpc_channel_get_state(link->channel);
    int rank = RANK_READY;

    if (state == RPC_CHANNEL_FAILED || (!link->is_seed && !link->is_member)) {
        return RANK_NONE;
    }
    if (link == avoid) {
        rank = RANK_AVOIDED;
    } else if (loop_now_us(brokers->options.loop) < link->shun_until_us) {
        rank = RANK_SHUNNED;
    } else if (state == RPC_CHANNEL_CONNECTING) {
        rank = RANK_CONNECTING;
    }
    return rank + (brokers->member_count > 0 && !link->is_member);
}

static struct broker_link *owner_of(const struct brokers *brokers, int32_t slot)
{
    if (slot == SLOT_ANY || brokers->shard_count == 0) {
        return NULL;
    }
    return brokers->owners[shard_of_slot((uint16_t)slot, brokers->shard_count)];
}

static struct broker_link *pick(struct brokers *brokers, int32_t slot,
                                const struct broker_link *avoid)
{
    struct broker_link *best = owner_of(brokers, slot);
    int best_rank = RANK_NONE;

    if (best != NULL && rank_of(best, avoid) <= RANK_CONNECTING + 1) {
        return best;
    }
    best = NULL;
    list_foreach (node, &brokers->links) {
        struct broker_link *link = LIST_ENTRY(node, struct broker_link, node);
        int rank = rank_of(link, avoid);

        if (rank < best_rank) {
            best_rank = rank;
            best = link;
        }
    }
    if (best != NULL) {
        list_del(&best->node);
        list_add(&brokers->links, &best->node); // The others come first next time.
    }
    return best;
}

bool brokers_has_other(const struct brokers *brokers, const struct broker_link *link)
{
    list_foreach (node, &brokers->links) {
        const struct broker_link *other = LIST_ENTRY(node, const struct broker_link, node);

        if (other != link && rank_of(other, NULL) < RANK_SHUNNED) {
            return true;
        }
    }
    return false;
}

const struct broker_link *brokers_owner(const struct brokers *brokers, int32_t slot)
{
    return owner_of(brokers, slot);
}

bool brokers_is_owner(const struct brokers *brokers, const struct broker_link *link, int32_t slot)
{
    return link == owner_of(brokers, slot);
}

/* ---- what the cluster says ---- */

/* The links of the brokers of a topology, by their index in it; NULL if there is none. */
static int find_members(struct brokers *brokers, const struct topology *topology,
                        struct broker_link **members)
{
    for (size_t i = 0; i < topology->broker_count; i++) {
        struct broker_view view;
        int err;

        codec_read_topology_broker(topology, i, &view);
        members[i] = find_link(brokers, view.grpc_address);
        if (members[i] != NULL) {
            continue;
        }
        err = new_link(brokers, slice_of(view.grpc_address), &members[i]);
        if (err == ERR_NO_MEMORY) {
            return err;
        }
        if (err != 0) {
            members[i] = NULL; // An address that we cannot read: others pass calls on to it.
        }
    }
    return 0;
}

static struct broker_link *find_owner(const struct topology *topology, size_t shard,
                                      struct broker_link *const *members)
{
    struct shard_owner_view view;

    codec_read_topology_shard(topology, shard, &view);
    for (size_t i = 0; i < topology->broker_count && view.owner[0] != '\0'; i++) {
        struct broker_view broker;

        codec_read_topology_broker(topology, i, &broker);
        if (strcmp(broker.name, view.owner) == 0 &&
            (view.instance[0] == '\0' || strcmp(broker.instance, view.instance) == 0)) {
            return members[i];
        }
    }
    return NULL;
}

static void drop_idle_links(struct brokers *brokers)
{
    list_foreach_safe (node, after, &brokers->links) {
        drop_idle_link(LIST_ENTRY(node, struct broker_link, node));
    }
}

/* Take the table over; members and owners are complete. */
static void take_over(struct brokers *brokers, const struct topology *topology,
                      struct broker_link *const *members, struct broker_link **owners)
{
    brokers->good_for_ms = LEARN_MS;
    for (size_t i = 0; i < topology->shard_count; i++) {
        struct shard_owner_view view;

        codec_read_topology_shard(topology, i, &view);
        if (view.shard < topology->head.shard_count) {
            owners[view.shard] = find_owner(topology, i, members);
            if (view.owner[0] == '\0') {
                brokers->good_for_ms = LEARN_REST_MS;
            }
        }
    }
    list_foreach (node, &brokers->links) {
        LIST_ENTRY(node, struct broker_link, node)->is_member = false;
    }
    brokers->member_count = 0;
    for (size_t i = 0; i < topology->broker_count; i++) {
        if (members[i] != NULL) {
            brokers->member_count += !members[i]->is_member;
            members[i]->is_member = true;
        }
    }
    mem_free(brokers->owners);
    brokers->owners = owners;
    brokers->shard_count = topology->head.shard_count;
    brokers->learned_count++;
}

static int learn(struct brokers *brokers, const struct topology *topology)
{
    struct broker_link **members;
    struct broker_link **owners;
    int err;

    if (topology->head.slot_count != SLOT_COUNT || topology->head.shard_count == 0 ||
        topology->head.shard_count > SHARD_COUNT_MAX || topology->broker_count > MEMBER_COUNT_MAX ||
        topology->shard_count > SHARD_COUNT_MAX) {
        return ERR_INVALID;
    }
    members = mem_new(topology->broker_count, sizeof(struct broker_link *));
    owners = mem_new(topology->head.shard_count, sizeof(struct broker_link *));
    err = members == NULL || owners == NULL ? ERR_NO_MEMORY
                                            : find_members(brokers, topology, members);
    if (err == 0) {
        take_over(brokers, topology, members, owners);
    } else {
        mem_free(owners);
    }
    mem_free(members);
    drop_idle_links(brokers); // Also those that were made for a table that was not taken over.
    return err;
}

int brokers_learn(struct brokers *brokers, struct slice bytes)
{
    struct topology topology;
    struct arena arena;
    struct fault fault;
    int err;

    arena_init(&arena, 0);
    err = codec_read_topology(bytes, &arena, &topology, &fault);
    if (err == 0) {
        err = learn(brokers, &topology);
    }
    arena_fini(&arena);
    return err;
}

/* ---- the question ---- */

/* Ask at that time, unless it is asked earlier. */
static void ask_at(struct brokers *brokers, boot_us at_us)
{
    bool may_ask = !brokers->is_closing && !brokers->options.is_servers_only;

    if (may_ask && brokers->asked == NULL &&
        (!brokers->timer.is_started || at_us < brokers->timer.node.key)) {
        loop_timer_start(&brokers->timer, at_us);
    }
}

static void on_topology(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    struct brokers *brokers = ctx;
    struct broker_link *asked = brokers->asked;
    span_ms next_ms = LEARN_AGAIN_MS;

    (void)request;
    brokers->asked = NULL;
    if (reply->status == RPC_OK && !brokers->is_closing &&
        brokers_learn(brokers, reply->payload) == 0) {
        next_ms = brokers->good_for_ms;
        brokers->options.on_learned(brokers->options.ctx);
    }
    if (next_ms < LEARN_MS && brokers->again_count < LEARN_AGAIN_MAX) {
        brokers->again_count++;
        brokers->is_used = true; // The call that wanted it has got no whole answer yet.
    }
    brokers_ended(asked, reply);
    ask_at(brokers, time_add(loop_now_us(brokers->options.loop), next_ms * US_PER_MS));
}

static void ask(struct brokers *brokers)
{
    boot_us now_us = loop_now_us(brokers->options.loop);
    struct broker_link *link;

    brokers->asked_us = now_us;
    brokers->is_used = false;
    link = pick(brokers, SLOT_ANY, NULL);
    brokers->question = (struct rpc_request){
        .path = TOPOLOGY_PATH,
        .deadline_us = time_add(now_us, LEARN_TIMEOUT_MS * US_PER_MS),
        .cb = on_topology,
        .ctx = brokers,
    };
    if (link != NULL && brokers_call(link, &brokers->question) == 0) {
        brokers->asked = link;
    } else {
        ask_at(brokers, time_add(now_us, LEARN_AGAIN_MS * US_PER_MS));
    }
}

/* A client that does nothing asks nothing. */
static void on_timer(struct loop_timer *timer, void *ctx)
{
    struct brokers *brokers = ctx;

    (void)timer;
    if (brokers->asked == NULL && brokers->is_used) {
        ask(brokers);
    }
}

/* A call is made: see to it that we learn, now or when it is time. */
static void ask_if_old(struct brokers *brokers)
{
    brokers->is_used = true;
    brokers->again_count = 0;
    if (brokers->asked_us == 0) {
        ask_at(brokers, 0);
    } else {
        ask_at(brokers, time_add(brokers->asked_us, brokers->good_for_ms * US_PER_MS));
    }
}

struct broker_link *brokers_pick(struct brokers *brokers, int32_t slot,
                                 const struct broker_link *avoid)
{
    ask_if_old(brokers);
    return pick(brokers, slot, avoid);
}

void brokers_doubt(struct brokers *brokers)
{
    brokers->is_used = true;
    brokers->again_count = 0;
    ask_at(brokers, time_add(brokers->asked_us, LEARN_AGAIN_MS * US_PER_MS));
}

/* ---- life ---- */

static int add_seed(struct brokers *brokers, struct slice target, struct fault *fault)
{
    char text[TARGET_TEXT_BYTES];
    struct broker_link *link;
    int err;

    if (target.len >= sizeof(text)) {
        fault_set(fault, RPC_INVALID_ARGUMENT, "SERVERS_INVALID", "servers",
                  "servers: \"%.60s…\" is too long; each must be host:port",
                  (const char *)target.data);
        return ERR_INVALID;
    }
    memcpy(text, target.data, target.len);
    text[target.len] = '\0';
    if (find_link(brokers, text) != NULL) {
        return 0;
    }
    if (brokers->channel_count == SEED_COUNT_MAX) {
        fault_set(fault, RPC_INVALID_ARGUMENT, "SERVERS_INVALID", "servers",
                  "servers: more than %d (SEED_COUNT_MAX); name some, the others are learned",
                  SEED_COUNT_MAX);
        return ERR_INVALID;
    }
    err = new_link(brokers, target, &link);
    if (err == ERR_INVALID) {
        fault_set(fault, RPC_INVALID_ARGUMENT, "SERVERS_INVALID", "servers",
                  "servers: \"%s\" must be host:port, as 127.0.0.1:7400", text);
    } else if (err != 0) {
        fault_set_err(fault, err, "cannot open a channel");
    } else {
        link->is_seed = true;
    }
    return err;
}

static int add_seeds(struct brokers *brokers, const char *text, struct fault *fault)
{
    int err = 0;

    while (*text != '\0' && err == 0) {
        size_t len = strcspn(text, ", ");

        if (len > 0) {
            err = add_seed(brokers, (struct slice){(const uint8_t *)text, len}, fault);
        }
        text += len;
        text += strspn(text, ", ");
    }
    if (err == 0 && list_is_empty(&brokers->links)) {
        fault_set(fault, RPC_INVALID_ARGUMENT, "SERVERS_INVALID", "servers",
                  "servers: names none; give host:port, several divided by commas");
        err = ERR_INVALID;
    }
    return err;
}

int brokers_open(const struct brokers_options *options, struct brokers **out, struct fault *fault)
{
    struct brokers *brokers = mem_new(1, sizeof(*brokers));

    *out = brokers;
    if (brokers == NULL) {
        fault_set_err(fault, ERR_NO_MEMORY, "cannot open the client");
        return ERR_NO_MEMORY;
    }
    brokers->options = *options;
    brokers->good_for_ms = LEARN_MS;
    list_init(&brokers->links);
    loop_timer_init(&brokers->timer, options->loop, on_timer, brokers);
    return add_seeds(brokers, options->servers, fault);
}

static void close_links(struct brokers *brokers)
{
    struct list *first;

    while ((first = list_first(&brokers->links)) != NULL) {
        struct broker_link *link = LIST_ENTRY(first, struct broker_link, node);

        REQUIRE(link->call_count == (link == brokers->asked));
        link->call_count = 0;
        brokers->asked = link == brokers->asked ? NULL : brokers->asked;
        free_link(link);
    }
}

/* The question that was out when the client closed. */
static void on_late_topology(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    (void)request;
    (void)reply;
    (void)ctx;
}

void brokers_close(struct brokers *brokers, brokers_cb cb, void *ctx)
{
    brokers->is_closing = true;
    brokers->cb = cb;
    brokers->ctx = ctx;
    brokers->question.cb = on_late_topology;
    loop_timer_stop(&brokers->timer);
    close_links(brokers);
    try_finish(brokers);
}

void brokers_get_stats(const struct brokers *brokers, struct brokers_stats *out)
{
    *out = (struct brokers_stats){.member_count = brokers->member_count,
                                  .learned_count = brokers->learned_count};
    list_foreach (node, &brokers->links) {
        out->link_count++;
    }
}
