/* SPDX-License-Identifier: Apache-2.0
 *
 * ClusterService, what concerns its members: which shards would move if some came or went, and the
 * wish that one goes.
 */
#include "broker/service_parts.h"

#include "broker/core/inspect.h"
#include "coordinator/assign.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/base/mem.h"
#include "proto/codec_plan.h"

#include <stdio.h>
#include <string.h>

/* A broker that does not answer whether it has begun to leave. */
#define DRAIN_ASK_MS 5000

static void not_found_fault(struct fault *fault, const char *name)
{
    fault_set(fault, RPC_NOT_FOUND, REASON_BROKER_NOT_FOUND, "broker",
              "no broker of this cluster is called \"%s\": GetTopology names those that there are",
              name);
}

/* ---- the plan ---- */

/* Two placements of the same shards. */
struct planning {
    const struct service *service;
    struct assign_member before[MEMBER_COUNT_MAX + 1];
    size_t before_count;
    struct assign_member after[2 * MEMBER_COUNT_MAX];
    size_t after_count;
    struct assign_shard shards[SHARD_COUNT_MAX];
    uint32_t owners_before[SHARD_COUNT_MAX];
    uint32_t owners_after[SHARD_COUNT_MAX];
};

static bool is_named(const char *const *names, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++) {
        if (slice_equal(slice_of(names[i]), name)) {
            return true;
        }
    }
    return false;
}

static bool has_member(const struct assign_member *members, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++) {
        if (slice_equal(members[i].name, name)) {
            return true;
        }
    }
    return false;
}

static void list_present(struct planning *p)
{
    const struct member *members[MEMBER_COUNT_MAX + 1];

    p->before_count = broker_placed_members(p->service->options.broker, members);
    for (size_t i = 0; i < p->before_count; i++) {
        p->before[i] = (struct assign_member){slice_of(members[i]->name), members[i]->cannot};
    }
}

static int list_future(struct planning *p, const struct plan_request *request, struct fault *fault)
{
    for (size_t i = 0; i < request->remove_count; i++) {
        if (!has_member(p->before, p->before_count, slice_of(request->remove[i]))) {
            not_found_fault(fault, request->remove[i]);
            (void)snprintf(fault->field, sizeof(fault->field), "remove");
            return ERR_NOT_FOUND;
        }
    }
    for (size_t i = 0; i < p->before_count; i++) {
        if (!is_named(request->remove, request->remove_count, p->before[i].name)) {
            p->after[p->after_count++] = p->before[i];
        }
    }
    for (size_t i = 0; i < request->add_count; i++) {
        struct slice name = slice_of(request->add[i]);

        if (has_member(p->after, p->after_count, name)) {
            fault_set(fault, RPC_ALREADY_EXISTS, REASON_BROKER_EXISTS, "add",
                      "broker \"%s\" is there already, or named twice", request->add[i]);
            return ERR_EXISTS;
        }
        p->after[p->after_count++] = (struct assign_member){name, 0};
    }
    if (p->after_count > MEMBER_COUNT_MAX) {
        fault_set(fault, RPC_INVALID_ARGUMENT, "VALUE_OUT_OF_RANGE", "add",
                  "that would be %zu brokers, a cluster has at most %d (MEMBER_COUNT_MAX)",
                  p->after_count, MEMBER_COUNT_MAX);
        return ERR_TOO_LARGE;
    }
    return 0;
}

static int place_both(struct planning *p, struct fault *fault)
{
    const struct cluster *cluster = p->service->options.cluster;
    uint32_t shard_count = cluster->shard_count;
    int err;

    for (uint32_t i = 0; i < shard_count; i++) {
        p->shards[i] = (struct assign_shard){i, cluster->database_of[i]};
    }
    err = assign(p->before, p->before_count, p->shards, shard_count, p->owners_before);
    if (err == 0) {
        err = assign(p->after, p->after_count, p->shards, shard_count, p->owners_after);
    }
    if (err != 0) {
        fault_set_err(fault, err, "cannot place the shards");
    }
    return err;
}

/* Texts of the answer's elements: an assign_member's name is one of a NUL-terminated text. */
static const char *name_of(const struct assign_member *members, uint32_t owner)
{
    return owner == ASSIGN_NONE ? "" : (const char *)members[owner].name.data;
}

static uint32_t count_of(const uint32_t *owners, uint32_t shard_count, size_t place)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < shard_count; i++) {
        count += owners[i] == place;
    }
    return count;
}

static int write_moves(const struct planning *p, struct buf *out)
{
    const struct cluster *cluster = p->service->options.cluster;
    char database[NAME_BYTES_MAX + 1];
    int err = 0;

    for (uint32_t i = 0; i < cluster->shard_count && err == 0; i++) {
        struct plan_move move = {.shard = i,
                                 .database = database,
                                 .from = name_of(p->before, p->owners_before[i]),
                                 .to = name_of(p->after, p->owners_after[i])};

        if (strcmp(move.from, move.to) != 0) {
            (void)config_database(p->service->options.config, cluster->database_of[i], database);
            err = codec_write_plan_move(&move, out);
        }
    }
    return err;
}

/* Those that are there, then those that would come. */
static int write_shares(const struct planning *p, struct buf *out)
{
    uint32_t shard_count = p->service->options.cluster->shard_count;
    int err = 0;

    for (size_t i = 0; i < p->before_count && err == 0; i++) {
        struct plan_share share = {.broker = name_of(p->before, (uint32_t)i),
                                   .before = count_of(p->owners_before, shard_count, i)};

        for (size_t j = 0; j < p->after_count; j++) {
            if (slice_equal(p->after[j].name, p->before[i].name)) {
                share.after = count_of(p->owners_after, shard_count, j);
            }
        }
        err = codec_write_plan_share(&share, out);
    }
    for (size_t i = 0; i < p->after_count && err == 0; i++) {
        if (!has_member(p->before, p->before_count, p->after[i].name)) {
            err = codec_write_plan_share(
                &(struct plan_share){.broker = name_of(p->after, (uint32_t)i),
                                     .after = count_of(p->owners_after, shard_count, i)},
                out);
        }
    }
    return err;
}

static void answer_plan(struct service *service, struct rpc_call *rpc,
                        const struct plan_request *request, struct fault *fault)
{
    struct planning *p = mem_new(1, sizeof(*p));
    int err;

    if (p == NULL) {
        fault_set_err(fault, ERR_NO_MEMORY, "cannot plan");
        service_fail(service, rpc, fault);
        return;
    }
    p->service = service;
    list_present(p);
    err = list_future(p, request, fault);
    if (err == 0) {
        err = place_both(p, fault);
    }
    if (err == 0) {
        struct buf *out = service_scratch(service);

        err = write_moves(p, out);
        service_reply(service, rpc, err != 0 ? err : write_shares(p, out));
    } else {
        service_fail(service, rpc, fault);
    }
    mem_free(p);
}

void service_plan_members(struct rpc_call *rpc, struct slice request, void *ctx)
{
    struct service *service = ctx;
    struct plan_request plan;
    struct arena arena;
    struct fault fault;

    arena_init(&arena, 0);
    if (codec_read_plan(request, &arena, &plan, &fault) == 0) {
        answer_plan(service, rpc, &plan, &fault);
    } else {
        service_fail(service, rpc, &fault);
    }
    arena_fini(&arena);
}

/* ---- drain ---- */

/* A wish that is passed on to the broker that is meant. */
struct passing {
    struct service *service;
    struct rpc_call *rpc;
    struct rpc_request request;
    struct buf bytes; /* of the request */
};

static void free_passing(struct passing *passing)
{
    struct service *service = passing->service;

    buf_fini(&passing->bytes);
    mem_free(passing);
    service_leave(service, 0);
}

static void on_passed(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    struct passing *passing = ctx;
    struct fault fault;

    (void)request;
    if (reply->status == RPC_OK) {
        rpc_call_reply(passing->rpc, reply->payload);
    } else {
        fault_decode(&fault, reply->status, reply->message, reply->details);
        service_fail(passing->service, passing->rpc, &fault);
    }
    free_passing(passing);
}

static void pass_on(struct service *service, struct rpc_call *rpc, const struct member *member,
                    struct slice request)
{
    struct passing *passing = mem_new(1, sizeof(*passing));
    struct fault fault;
    int err = passing == NULL ? ERR_NO_MEMORY : 0;

    if (err == 0) {
        boot_us end_us = time_add(loop_now_us(service->options.loop), DRAIN_ASK_MS * US_PER_MS);

        passing->service = service;
        passing->rpc = rpc;
        buf_init(&passing->bytes, RPC_MESSAGE_BYTES_MAX);
        service_enter(service, 0);
        err = buf_append(&passing->bytes, request.data, request.len);
        passing->request = (struct rpc_request){
            .path = rpc_call_path(rpc),
            .payload = buf_slice(&passing->bytes),
            .deadline_us = time_min(end_us, rpc_call_deadline_us(rpc)),
            .cb = on_passed,
            .ctx = passing,
        };
        if (err == 0) {
            err = service_pass_on(service, member->grpc, &passing->request);
        }
        if (err != 0) {
            free_passing(passing);
        }
    }
    if (err != 0) {
        fault_set_err(&fault, err, "cannot reach that broker");
        service_fail(service, rpc, &fault);
    }
}

static void begin_drain(struct service *service, struct rpc_call *rpc)
{
    const struct member *self = broker_self(service->options.broker);
    struct broker_stats stats;

    broker_inspect(service->options.broker, &stats);
    service_reply(service, rpc,
                  codec_write_drain_reply(&(struct drain_reply){.broker = self->name,
                                                                .instance = self->instance,
                                                                .shard_count = stats.shards_owned},
                                          service_scratch(service)));
    service->options.on_drain(service->options.ctx);
}

void service_drain_broker(struct rpc_call *rpc, struct slice request, void *ctx)
{
    struct service *service = ctx;
    const struct member *member;
    const char *name;
    struct arena arena;
    struct fault fault;

    arena_init(&arena, 0);
    if (codec_read_drain(request, &arena, &name, &fault) != 0) {
        service_fail(service, rpc, &fault);
    } else if ((member = broker_member_named(service->options.broker, name)) == NULL) {
        not_found_fault(&fault, name);
        service_fail(service, rpc, &fault);
    } else if (member == broker_self(service->options.broker)) {
        begin_drain(service, rpc);
    } else if (service_is_forwarded(rpc)) {
        not_found_fault(&fault, name);
        service_fail(service, rpc, &fault);
    } else {
        pass_on(service, rpc, member, request);
    }
    arena_fini(&arena);
}
