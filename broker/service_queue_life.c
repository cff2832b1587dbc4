/* SPDX-License-Identifier: Apache-2.0
 *
 * Pause, Resume, Drain, Delete and GetStats.
 */
#include "broker/service_count.h"
#include "broker/service_queue.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <inttypes.h>

/* The first of the configuration. */
#define HOME_DATABASE 0

/* Counting takes at most this. */
#define COUNT_MS 5000

/* ---- Pause, Resume, Drain ---- */

/* When a pause ends, by the home database's clock; 0: when it is resumed. */
static int pause_end(const struct queue_call *q, wall_ms *until_ms, struct fault *fault)
{
    int64_t upper_us = service_sample(q->service)->database[HOME_DATABASE].upper_us;

    *until_ms = q->pause.kind == WHEN_DUE ? q->pause.due_ms : 0;
    if (q->pause.kind != WHEN_DELAY) {
        return 0;
    }
    if (upper_us == INT64_MAX) {
        fault_set_err(fault, ERR_UNAVAILABLE, "the clock of the home database is not known yet");
        fault->retry_after_ms = SERVICE_RETRY_MS;
        return ERR_UNAVAILABLE;
    }
    *until_ms = time_max(time_add(ms_ceil(upper_us), q->pause.delay_ms), 1);
    return 0;
}

static int apply_pause(struct queue_call *q, const struct queue *present, struct fault *fault)
{
    q->put.queue = *present;
    q->put.queue.is_paused = true;
    return pause_end(q, &q->put.queue.paused_until_ms, fault);
}

static int apply_resume(struct queue_call *q, const struct queue *present,
                        struct fault *fault UNUSED)
{
    q->put.queue = *present;
    q->put.queue.is_paused = false;
    q->put.queue.paused_until_ms = 0;
    q->put.queue.is_draining = false;
    return 0;
}

static int apply_drain(struct queue_call *q, const struct queue *present,
                       struct fault *fault UNUSED)
{
    q->put.queue = *present;
    q->put.queue.is_draining = true;
    return 0;
}

void service_queue_pause(struct rpc_call *rpc, struct slice request, void *ctx)
{
    struct queue_call *q = queue_call_new(ctx, rpc);
    struct pause_request pause;
    struct fault fault;

    if (q == NULL) {
        return;
    }
    if (codec_read_pause(request, &q->arena, &pause, &fault) != 0) {
        queue_call_fail(q, &fault);
        return;
    }
    q->name = pause.queue;
    q->pause = pause.end;
    queue_call_change(q, apply_pause);
}

static void change_by_name(struct rpc_call *rpc, struct slice request, struct service *service,
                           queue_apply_fn apply)
{
    struct queue_call *q = queue_call_new(service, rpc);
    struct fault fault;

    if (q == NULL) {
        return;
    }
    if (codec_read_queue_name(request, &q->arena, &q->name, &fault) != 0) {
        queue_call_fail(q, &fault);
        return;
    }
    queue_call_change(q, apply);
}

void service_queue_resume(struct rpc_call *rpc, struct slice request, void *ctx)
{
    change_by_name(rpc, request, ctx, apply_resume);
}

void service_queue_drain(struct rpc_call *rpc, struct slice request, void *ctx)
{
    change_by_name(rpc, request, ctx, apply_drain);
}

/* ---- GetStats and Delete: both read home first ---- */

static void count(struct queue_call *q, count_cb cb)
{
    boot_us end_us = time_add(loop_now_us(q->service->options.loop), COUNT_MS * US_PER_MS);

    q->is_out = true;
    service_count(q->service, &q->put.queue, service_is_forwarded(q->rpc),
                  time_min(end_us, rpc_call_deadline_us(q->rpc)), cb, q);
}

static void on_stats(void *ctx, int err, const struct queue_stats *stats)
{
    struct queue_call *q = ctx;
    struct fault fault;

    q->is_out = false;
    if (err != 0) {
        fault_set_err(&fault, err, "cannot count the tasks of the queue");
        queue_call_fail(q, &fault);
        return;
    }
    queue_call_reply(q, codec_write_stats_reply(&q->put.queue, stats, service_scratch(q->service)));
}

static void on_home_for_stats(struct queue_wait *wait, int err)
{
    struct queue_call *q = CONTAINER_OF(wait, struct queue_call, wait);
    const struct queue *present = queue_call_present(q, err);

    if (present != NULL) {
        q->put.queue = *present;
        count(q, on_stats);
    }
}

void service_queue_stats(struct rpc_call *rpc, struct slice request, void *ctx)
{
    struct queue_call *q = queue_call_new(ctx, rpc);
    struct fault fault;

    if (q == NULL) {
        return;
    }
    if (codec_read_queue_name(request, &q->arena, &q->name, &fault) != 0) {
        queue_call_fail(q, &fault);
        return;
    }
    queue_call_read_home(q, on_home_for_stats);
}

/* ---- Delete ---- */

static int write_deleted(const struct queue_call *q, const char *const *names, size_t name_count,
                         struct buf *out)
{
    const struct queue_reply reply = {q->put.queue, names, name_count};

    return codec_write_queue_delete_reply(&reply, out);
}

static void on_drop(struct store_queue_drop *drop)
{
    struct queue_call *q = drop->owner;
    struct fault fault;

    q->is_out = false;
    switch (drop->result) {
    case 0:
        queue_call_changed(q);
        return;
    case ERR_NOT_FOUND:
        service_queue_fault(&fault, &q->name);
        break;
    case ERR_CONFLICT:
        fault_set(&fault, RPC_FAILED_PRECONDITION, REASON_QUEUE_CHANGED, "version",
                  "queue \"%s\" was changed meanwhile: look at it, and delete it again",
                  q->name.name);
        break;
    case ERR_OUTCOME_UNKNOWN:
        service_unknown_fault(&fault);
        break;
    default:
        fault_set_err(&fault, drop->result, "cannot delete the queue in the home database");
        fault.retry_after_ms = SERVICE_RETRY_MS;
        break;
    }
    queue_call_fail(q, &fault);
}

/* Nothing may be left, in any shard. */
static int check_empty(const struct queue_call *q, const struct queue_stats *stats,
                       struct fault *fault)
{
    if (stats->missing_count > 0) {
        fault_set(fault, RPC_UNAVAILABLE, REASON_OWNER_UNKNOWN, NULL,
                  "%zu shards could not be counted, the first is %" PRIu32
                  ": nothing happened, try again",
                  stats->missing_count, stats->missing[0]);
        fault->retry_after_ms = SERVICE_RETRY_MS;
        return ERR_UNAVAILABLE;
    }
    if (stats->pending == 0 && stats->dead == 0) {
        return 0;
    }
    fault_set(fault, RPC_FAILED_PRECONDITION, REASON_QUEUE_NOT_EMPTY, NULL,
              "queue \"%s\" still has %" PRIu64 " tasks and %" PRIu64
              " dead letters: let them run or cancel them, redrive or purge the dead letters, then "
              "delete it",
              q->name.name, stats->pending, stats->dead);
    return ERR_CONFLICT;
}

static void on_counted(void *ctx, int err, const struct queue_stats *stats)
{
    struct queue_call *q = ctx;
    struct store *store = q->service->options.store;
    struct fault fault;

    q->is_out = false;
    if (err != 0) {
        fault_set_err(&fault, err, "cannot count the tasks of the queue");
        queue_call_fail(q, &fault);
        return;
    }
    if (q->rpc == NULL || check_empty(q, stats, &fault) != 0) {
        queue_call_fail(q, &fault);
        return;
    }
    list_init(&q->drop.link);
    q->drop.cb = on_drop;
    q->drop.owner = q;
    err = store->queue_drop(store, &q->drop);
    if (err != 0) {
        fault_set_err(&fault, err, "cannot delete the queue in the home database");
        fault.retry_after_ms = SERVICE_RETRY_MS;
        queue_call_fail(q, &fault);
        return;
    }
    q->is_out = true;
    q->was_sent = true;
}

/* Who has not read the drain yet could still take a task. */
static int check_drained(const struct queue_call *q, const struct queue *present,
                         struct fault *fault)
{
    const struct broker *broker = q->service->options.broker;
    size_t member_count;
    const struct member *members = broker_members(broker, &member_count);
    int64_t newest = 0;

    if (q->version != 0 && q->version != present->version) {
        fault_set(fault, RPC_FAILED_PRECONDITION, REASON_QUEUE_CHANGED, "version",
                  "queue \"%s\" has version %" PRIu32 ", not %" PRIu32 ": look at it again",
                  q->name.name, present->version, q->version);
        return ERR_CONFLICT;
    }
    if (!present->is_draining) {
        fault_set(fault, RPC_FAILED_PRECONDITION, REASON_QUEUE_NOT_DRAINING, NULL,
                  "queue \"%s\" still takes tasks: drain it by foliot.v1.QueueService/Drain first",
                  q->name.name);
        return ERR_CONFLICT;
    }
    for (size_t i = 0; i < member_count; i++) {
        newest = time_max(newest, members[i].config);
    }
    for (size_t i = 0; i < member_count; i++) {
        if (members[i].config < newest) {
            fault_set(fault, RPC_UNAVAILABLE, REASON_QUEUE_UNCONFIRMED, NULL,
                      "broker \"%s\" has not read the latest change of the queues yet, and could "
                      "still take a task: nothing happened, try again",
                      members[i].name);
            fault->retry_after_ms = SERVICE_RETRY_MS;
            return ERR_UNAVAILABLE;
        }
    }
    return 0;
}

static void on_home_for_delete(struct queue_wait *wait, int err)
{
    struct queue_call *q = CONTAINER_OF(wait, struct queue_call, wait);
    const struct queue *present = queue_call_present(q, err);
    struct fault fault;

    if (present == NULL) {
        return;
    }
    if (check_drained(q, present, &fault) != 0) {
        queue_call_fail(q, &fault);
        return;
    }
    q->put.queue = *present;
    q->drop.id = present->id;
    q->drop.expected_version = present->version;
    count(q, on_counted);
}

void service_queue_delete(struct rpc_call *rpc, struct slice request, void *ctx)
{
    struct queue_call *q = queue_call_new(ctx, rpc);
    struct queue_delete_request wanted;
    struct fault fault;

    if (q == NULL) {
        return;
    }
    if (codec_read_queue_delete(request, &q->arena, &wanted, &fault) != 0) {
        queue_call_fail(q, &fault);
        return;
    }
    q->name = wanted.queue;
    q->version = wanted.version;
    q->answer = write_deleted;
    queue_call_read_home(q, on_home_for_delete);
}
