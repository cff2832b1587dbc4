/* SPDX-License-Identifier: Apache-2.0
 *
 * Counting, one shard of ours after the other, while the other brokers do the same.
 */
#include "broker/service_count.h"

#include "broker/core/inspect.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/base/mem.h"

#include <string.h>

#define STATS_PATH "/foliot.v1.QueueService/GetStats"

/* One other broker, being asked. */
struct count_ask {
    struct count_job *job;
    struct rpc_request request;
};

/*
 * 1. `waiting` asks have not called back, and one more while our own shards are counted.
 * 2. is_counted says of each shard whether somebody has counted it.
 */
struct count_job {
    struct service *service;
    uint32_t queue_id;
    boot_us end_us;
    count_cb cb;
    void *ctx;
    uint32_t waiting;
    uint32_t shard; /* of ours, the next to be counted */
    struct call call;
    struct store_read read;
    struct queue_stats sum;
    bool *is_counted;
    uint32_t *missing; /* filled in at the end */
    struct buf request;
    size_t ask_count;
    struct count_ask asks[];
};

static void count_next(struct count_job *job);

static uint32_t shard_count(const struct count_job *job)
{
    return broker_shard_count(job->service->options.broker);
}

static void free_job(struct count_job *job)
{
    struct service *service = job->service;

    buf_fini(&job->request);
    mem_free(job->is_counted);
    mem_free(job->missing);
    mem_free(job);
    service_leave(service, 0);
}

static void step(struct count_job *job)
{
    if (--job->waiting > 0) {
        return;
    }
    for (uint32_t i = 0; i < shard_count(job); i++) {
        if (!job->is_counted[i]) {
            job->missing[job->sum.missing_count++] = i;
        }
    }
    job->sum.missing = job->missing;
    job->cb(job->ctx, 0, &job->sum);
    free_job(job);
}

static void add(struct queue_stats *sum, const struct queue_stats *more)
{
    sum->pending += more->pending;
    sum->overdue += more->overdue;
    sum->dead += more->dead;
    sum->first_due_ms = time_min(sum->first_due_ms, more->first_due_ms);
    sum->count_ms = time_min(sum->count_ms, more->count_ms);
    sum->running += more->running;
    sum->done += more->done;
    sum->retried += more->retried;
    sum->died += more->died;
    sum->expired += more->expired;
    sum->unknown += more->unknown;
    sum->is_at_least = sum->is_at_least || more->is_at_least;
}

/* ---- here ---- */

static void take_counts(struct count_job *job)
{
    struct queue_stats more = {
        .first_due_ms = WALL_NEVER, .count_ms = job->read.now_ms, .is_at_least = job->read.is_cut};

    for (size_t i = 0; i < job->read.count_count; i++) {
        const struct queue_count *count = &job->read.counts[i];

        if (count->queue == job->queue_id) {
            more.pending = count->pending;
            more.overdue = count->overdue;
            more.dead = count->dead;
            more.first_due_ms = count->first_due_ms;
        }
    }
    add(&job->sum, &more);
    job->is_counted[job->shard] = true;
}

static void on_counted(struct call *call)
{
    struct count_job *job = call->owner;

    if (call->result == 0) {
        take_counts(job);
    }
    job->shard++;
    count_next(job);
}

static void count_next(struct count_job *job)
{
    struct broker *broker = job->service->options.broker;
    const char *address;

    while (job->shard < shard_count(job) &&
           broker_route(broker, job->shard, &address) != ROUTE_SELF) {
        job->shard++;
    }
    if (job->shard == shard_count(job) || loop_now_us(job->service->options.loop) >= job->end_us) {
        step(job);
        return;
    }
    job->read = (struct store_read){
        .kind = STORE_READ_COUNTS, .queue = job->queue_id, .limit = COUNTED_ROW_COUNT_MAX};
    job->call = (struct call){
        .kind = CALL_SCAN, .shard = job->shard, .scan = &job->read, .cb = on_counted, .owner = job};
    broker_call(broker, job->service->options.now, &job->call);
}

static void add_own(struct count_job *job)
{
    struct queue_stats own = {.first_due_ms = WALL_NEVER, .count_ms = WALL_NEVER};
    struct queue_counts counts;

    if (broker_inspect_queue(job->service->options.broker, job->queue_id, &counts, &own.running)) {
        own.done = counts.done;
        own.retried = counts.retried;
        own.died = counts.died;
        own.expired = counts.expired;
        own.unknown = counts.unknown;
        add(&job->sum, &own);
    }
}

/* ---- elsewhere ---- */

/* Everything that is not missing at the other broker was counted there. */
static void take_answer(struct count_job *job, struct slice payload)
{
    struct queue_stats stats;
    struct queue queue;
    struct arena arena;
    struct fault fault;
    size_t next = 0;

    arena_init(&arena, 0);
    if (codec_read_stats_reply(payload, &arena, &queue, &stats, &fault) == 0) {
        add(&job->sum, &stats);
        for (uint32_t i = 0; i < shard_count(job); i++) {
            if (next < stats.missing_count && stats.missing[next] == i) {
                next++;
            } else {
                job->is_counted[i] = true;
            }
        }
    }
    arena_fini(&arena);
}

static void on_answer(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    struct count_ask *ask = ctx;

    (void)request;
    if (reply->status == RPC_OK) {
        take_answer(ask->job, reply->payload);
    }
    step(ask->job);
}

static void ask_others(struct count_job *job)
{
    struct service *service = job->service;
    size_t count;
    const struct member *members = broker_members(service->options.broker, &count);

    for (size_t i = 0; i < count; i++) {
        struct count_ask *ask = &job->asks[job->ask_count];

        if (strcmp(members[i].name, service->options.name) == 0) {
            continue;
        }
        ask->job = job;
        ask->request = (struct rpc_request){
            .path = STATS_PATH,
            .payload = buf_slice(&job->request),
            .deadline_us = job->end_us,
            .cb = on_answer,
            .ctx = ask,
        };
        if (service_pass_on(service, members[i].grpc, &ask->request) == 0) {
            job->ask_count++;
            job->waiting++;
        }
    }
}

/* ---- the start ---- */

static struct count_job *new_job(struct service *service, const struct queue *queue)
{
    size_t count;
    struct count_job *job;

    (void)broker_members(service->options.broker, &count);
    job = mem_new(1, sizeof(*job) + count * sizeof(struct count_ask));
    if (job == NULL) {
        return NULL;
    }
    job->service = service;
    job->queue_id = queue->id;
    job->sum.first_due_ms = WALL_NEVER;
    job->sum.count_ms = WALL_NEVER;
    job->is_counted = mem_new(SHARD_COUNT_MAX, sizeof(*job->is_counted));
    job->missing = mem_new(SHARD_COUNT_MAX, sizeof(*job->missing));
    buf_init(&job->request, RPC_MESSAGE_BYTES_MAX);
    service_enter(service, 0);
    if (job->is_counted == NULL || job->missing == NULL ||
        codec_write_queue_name(&(struct queue_name){queue->tenant, queue->name}, &job->request) !=
            0) {
        free_job(job);
        return NULL;
    }
    return job;
}

void service_count(struct service *service, const struct queue *queue, bool local_only,
                   boot_us end_us, count_cb cb, void *ctx)
{
    struct count_job *job = new_job(service, queue);

    if (job == NULL) {
        cb(ctx, ERR_NO_MEMORY, NULL);
        return;
    }
    job->end_us = end_us;
    job->cb = cb;
    job->ctx = ctx;
    job->waiting = 1;
    add_own(job);
    if (!local_only) {
        ask_others(job);
    }
    count_next(job);
}
