/* SPDX-License-Identifier: Apache-2.0
 *
 * One channel per address; those of brokers that are gone make room when many have come.
 */
#include "broker/peers.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/base/list.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"
#include "proto/codec.h"

#include <string.h>

/* Calls that may wait for one peer, and that may be in flight to it. */
#define PEER_QUEUE_MAX       20000
#define PEER_CONCURRENCY_MAX 20000

/* Addresses remembered: every broker, and as many that were there before. */
#define PEER_COUNT_MAX (2 * MEMBER_COUNT_MAX)

struct peer {
    struct list link; /* in peers.list, used longest ago first */
    struct peers *owner;
    char *address;
    struct rpc_channel *channel;
};

struct peers {
    struct loop *loop;
    struct resolver *resolver;
    struct tls *tls;
    struct rpc_metadata metadata; /* of every call */
    struct list list;
    uint32_t count;
    peers_cb cb;
    void *ctx;
    struct loop_task closed; /* when there is no channel to wait for */
};

int peers_open(const struct peers_options *options, struct peers **out)
{
    struct peers *peers = mem_new(1, sizeof(*peers));

    if (peers == NULL) {
        return ERR_NO_MEMORY;
    }
    peers->loop = options->loop;
    peers->resolver = options->resolver;
    peers->tls = options->tls;
    peers->metadata = (struct rpc_metadata){METADATA_FORWARDED, slice_of(options->name)};
    list_init(&peers->list);
    *out = peers;
    return 0;
}

static void free_peer(struct peer *peer)
{
    list_del(&peer->link);
    mem_free(peer->address);
    mem_free(peer);
}

static int open_peer(struct peers *peers, const char *address, struct peer **out)
{
    struct rpc_channel_options options;
    struct peer *peer = mem_new(1, sizeof(*peer));
    int err = ERR_NO_MEMORY;

    if (peer == NULL) {
        return ERR_NO_MEMORY;
    }
    list_init(&peer->link);
    peer->owner = peers;
    peer->address = mem_copy(address, strlen(address));
    rpc_channel_options_init(&options);
    options.target = peer->address;
    options.resolver = peers->resolver;
    options.tls = peers->tls;
    options.queue_max = PEER_QUEUE_MAX;
    options.concurrency_max = PEER_CONCURRENCY_MAX;
    options.request_bytes_max = RPC_MESSAGE_BYTES_MAX;
    options.response_bytes_max = RPC_MESSAGE_BYTES_MAX;
    options.backoff_max_ms = 1000; // a broker that restarts is wanted back at once
    if (peer->address != NULL) {
        err = rpc_channel_open(peers->loop, &options, &peer->channel);
    }
    if (err != 0) {
        free_peer(peer);
        return err;
    }
    list_add(&peers->list, &peer->link);
    peers->count++;
    *out = peer;
    return 0;
}

static int make_room(struct peers *peers)
{
    if (peers->count < PEER_COUNT_MAX) {
        return 0;
    }
    list_foreach (node, &peers->list) {
        struct peer *peer = LIST_ENTRY(node, struct peer, link);

        if (rpc_channel_call_count(peer->channel) == 0) {
            rpc_channel_close(peer->channel, NULL, NULL);
            free_peer(peer);
            peers->count--;
            return 0;
        }
    }
    return ERR_FULL;
}

static int find_peer(struct peers *peers, const char *address, struct peer **out)
{
    int err;

    list_foreach (node, &peers->list) {
        struct peer *peer = LIST_ENTRY(node, struct peer, link);

        if (strcmp(peer->address, address) == 0) {
            *out = peer;
            return 0;
        }
    }
    err = make_room(peers);
    return err != 0 ? err : open_peer(peers, address, out);
}

int peers_call(struct peers *peers, const char *address, struct rpc_request *request)
{
    struct peer *peer = NULL;
    int err = peers->cb != NULL ? ERR_CLOSED : find_peer(peers, address, &peer);

    if (err != 0) {
        return err;
    }
    list_del(&peer->link);
    list_add(&peers->list, &peer->link);
    request->metadata = &peers->metadata;
    request->metadata_count = 1;
    return rpc_channel_call(peer->channel, request);
}

/* ---- the end ---- */

static void finish_close(void *ctx)
{
    struct peers *peers = ctx;
    peers_cb cb = peers->cb;
    void *cb_ctx = peers->ctx;

    mem_free(peers);
    cb(cb_ctx);
}

static void on_channel_closed(void *ctx)
{
    struct peer *peer = ctx;
    struct peers *peers = peer->owner;

    free_peer(peer);
    if (--peers->count == 0) {
        finish_close(peers);
    }
}

void peers_close(struct peers *peers, peers_cb cb, void *ctx)
{
    REQUIRE(cb != NULL && peers->cb == NULL);
    peers->cb = cb;
    peers->ctx = ctx;
    if (peers->count == 0) {
        loop_task_init(&peers->closed, finish_close, peers);
        loop_post(peers->loop, &peers->closed);
        return;
    }
    list_foreach_safe (node, after, &peers->list) {
        struct peer *peer = LIST_ENTRY(node, struct peer, link);

        rpc_channel_close(peer->channel, on_channel_closed, peer);
    }
}
