/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets sorted by address. An address that is not in use makes room for a new one when the pool
 * is full.
 */
#include "broker/target/target_pool.h"

#include "broker/target/grpc_target.h"
#include "broker/target/receiver_target.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <string.h>

/* A Deliver and its framing, or one payload. */
#define REQUEST_BYTES_MAX (DELIVER_BYTES_MAX + 65536)
#define ANSWER_BYTES_MAX  4194304

/*
 * 1. targets[0 … count) are sorted by authority and TLS, without repeats; count ≤
 * options.target_count_max.
 * 2. closing: closing_count channels have not called back; their targets are still in the pool.
 */
struct target_pool {
    struct target_pool_options options;
    struct target **targets;
    uint32_t count;
    uint64_t used; /* rises with every start */
    bool is_closing;
    uint32_t closing_count;
    target_pool_cb cb;
    void *ctx;
    struct loop_task closed; /* for a pool that has no channel to wait for */
};

int target_pool_open(const struct target_pool_options *options, struct target_pool **out)
{
    struct target_pool *pool = mem_new(1, sizeof(*pool));

    if (pool == NULL) {
        return ERR_NO_MEMORY;
    }
    pool->options = *options;
    pool->targets = mem_new(options->target_count_max, sizeof(struct target *));
    if (pool->targets == NULL) {
        mem_free(pool);
        return ERR_NO_MEMORY;
    }
    *out = pool;
    return 0;
}

/* ---- the sorted list ---- */

static int compare(const struct target_address *address, const struct target *target)
{
    struct slice authority = address->authority;
    size_t len = strlen(target->authority);
    size_t common = authority.len < len ? authority.len : len;
    int order = memcmp(authority.data, target->authority, common);

    if (order == 0) {
        order = (authority.len > len) - (authority.len < len);
    }
    return order != 0 ? order : (int)address->uses_tls - (int)target->uses_tls;
}

/* Where an address is, or where it belongs. */
static uint32_t place_of(const struct target_pool *pool, const struct target_address *address,
                         bool *is_there)
{
    uint32_t low = 0;
    uint32_t high = pool->count;

    *is_there = false;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = compare(address, pool->targets[middle]);

        if (order == 0) {
            *is_there = true;
            return middle;
        }
        low = order > 0 ? middle + 1 : low;
        high = order > 0 ? high : middle;
    }
    return low;
}

/* The address of a target, for looking it up. */
static struct target_address address_of(const struct target *target)
{
    return (struct target_address){.authority = slice_of(target->authority),
                                   .uses_tls = target->uses_tls};
}

static void add_target(struct target_pool *pool, struct target *target)
{
    struct target_address address = address_of(target);
    bool is_there;
    uint32_t at = place_of(pool, &address, &is_there);

    REQUIRE(!is_there && pool->count < pool->options.target_count_max);
    memmove(&pool->targets[at + 1], &pool->targets[at],
            (pool->count - at) * sizeof(struct target *));
    pool->targets[at] = target;
    pool->count++;
}

static void del_target(struct target_pool *pool, const struct target *target)
{
    struct target_address address = address_of(target);
    bool is_there;
    uint32_t at = place_of(pool, &address, &is_there);

    REQUIRE(is_there && pool->targets[at] == target);
    pool->count--;
    memmove(&pool->targets[at], &pool->targets[at + 1],
            (pool->count - at) * sizeof(struct target *));
}

/* ---- targets ---- */

static void on_flush(void *ctx)
{
    receiver_target_flush(ctx);
}

static int open_channel(const struct target_pool *pool, struct target *target)
{
    struct rpc_channel_options options;

    rpc_channel_options_init(&options);
    options.target = target->authority;
    options.resolver = pool->options.resolver;
    options.tls = target->uses_tls ? pool->options.tls : NULL;
    options.keepalive_ms =
        pool->options.keepalive_ms == 0 ? SPAN_NEVER : pool->options.keepalive_ms;
    options.queue_max = pool->options.queue_max;
    options.concurrency_max = pool->options.concurrency_max;
    options.request_bytes_max = REQUEST_BYTES_MAX;
    options.response_bytes_max = ANSWER_BYTES_MAX;
    return rpc_channel_open(pool->options.loop, &options, &target->channel);
}

static void free_target(struct target *target)
{
    loop_unpost(&target->flush);
    mem_free(target->authority);
    mem_free(target);
}

static int new_target(struct target_pool *pool, const struct target_address *address,
                      struct target **out)
{
    struct target *target = mem_new(1, sizeof(*target));
    int err;

    if (target == NULL) {
        return ERR_NO_MEMORY;
    }
    target->pool = pool;
    list_init(&target->gathering);
    loop_task_init(&target->flush, on_flush, target);
    target->loop = pool->options.loop;
    target->live_max = pool->options.concurrency_max + pool->options.queue_max;
    target->batch_max = pool->options.batch_max;
    target->uses_tls = address->uses_tls;
    target->authority = mem_copy(address->authority.data, address->authority.len);
    err = target->authority == NULL ? ERR_NO_MEMORY : open_channel(pool, target);
    if (err != 0) {
        free_target(target);
        return err;
    }
    add_target(pool, target);
    *out = target;
    return 0;
}

/* Close the address that was used longest ago and is not in use; ERR_FULL if all are in use. */
static int make_room(struct target_pool *pool)
{
    struct target *oldest = NULL;

    if (pool->count < pool->options.target_count_max) {
        return 0;
    }
    for (uint32_t i = 0; i < pool->count; i++) {
        struct target *target = pool->targets[i];

        if (target->live == 0 && (oldest == NULL || target->used < oldest->used)) {
            oldest = target;
        }
    }
    if (oldest == NULL) {
        return ERR_FULL;
    }
    del_target(pool, oldest);
    receiver_target_flush(oldest);
    rpc_channel_close(oldest->channel, NULL, NULL);
    free_target(oldest);
    return 0;
}

static int find_target(struct target_pool *pool, const struct target_address *address,
                       struct target **out)
{
    bool is_there;
    uint32_t at = place_of(pool, address, &is_there);
    int err;

    if (is_there) {
        *out = pool->targets[at];
        return 0;
    }
    err = make_room(pool);
    return err != 0 ? err : new_target(pool, address, out);
}

int target_pool_start(struct target_pool *pool, const struct target_address *address,
                      struct target_call *call)
{
    struct target *target = NULL;
    int err;

    if (address->uses_tls && pool->options.tls == NULL) {
        return ERR_INVALID;
    }
    err = pool->is_closing ? ERR_FULL : find_target(pool, address, &target);
    if (err != 0 || target == NULL) {
        return err;
    }
    target->used = ++pool->used;
    switch (address->kind) {
    case TARGET_GRPC_METHOD:
        return grpc_target_start(target, call);
    case TARGET_RECEIVER:
        return receiver_target_start(target, call);
    }
    return ERR_INVALID;
}

void target_pool_stats(const struct target_pool *pool, struct target_pool_stats *out)
{
    memset(out, 0, sizeof(*out));
    out->targets = pool->count;
    for (uint32_t i = 0; i < pool->count; i++) {
        const struct target *target = pool->targets[i];

        out->attempts += target->live;
        out->unreachable += rpc_channel_get_state(target->channel) == RPC_CHANNEL_FAILED;
    }
}

/* ---- the end ---- */

static void finish_close(struct target_pool *pool)
{
    target_pool_cb cb = pool->cb;
    void *ctx = pool->ctx;

    ENSURE(pool->count == 0);
    mem_free(pool->targets);
    mem_free(pool);
    cb(ctx);
}

static void on_closed(void *ctx)
{
    finish_close(ctx);
}

static void on_channel_closed(void *ctx)
{
    struct target *target = ctx;
    struct target_pool *pool = target->pool;

    REQUIRE(target->live == 0);
    del_target(pool, target);
    free_target(target);
    REQUIRE(pool->closing_count > 0);
    if (--pool->closing_count == 0) {
        finish_close(pool);
    }
}

void target_pool_close(struct target_pool *pool, target_pool_cb cb, void *ctx)
{
    pool->is_closing = true;
    pool->cb = cb;
    pool->ctx = ctx;
    pool->closing_count = pool->count;
    if (pool->count == 0) {
        loop_task_init(&pool->closed, on_closed, pool);
        loop_post(pool->options.loop, &pool->closed);
        return;
    }
    for (uint32_t i = 0; i < pool->count; i++) {
        struct target *target = pool->targets[i];

        receiver_target_flush(target);
        rpc_channel_close(target->channel, on_channel_closed, target);
    }
}
