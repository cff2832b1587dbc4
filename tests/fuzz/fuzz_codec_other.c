/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a message of QueueService, ClusterService, Receiver or Peer, or as error details:
 * what is let through is within every limit, nothing leaks. The first byte chooses the message.
 */
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "proto/codec_cluster.h"
#include "proto/codec_dead.h"
#include "proto/codec_peer.h"
#include "proto/codec_plan.h"
#include "proto/codec_queue_life.h"
#include "proto/codec_receiver.h"
#include "proto/message.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_queue(struct slice bytes, struct arena *arena)
{
    char errmsg[512];
    struct queue queue;
    struct fault fault;
    int err = codec_read_queue(bytes, arena, &queue, &fault);

    REQUIRE(err != 0 || queue_check(&queue, errmsg, sizeof(errmsg)) == 0);
    REQUIRE(err == 0 || text_is_clean(slice_of(fault.message)));
}

static void try_queue_requests(struct slice bytes, struct arena *arena)
{
    struct queue_list_request list;
    struct queue_delete_request drop;
    struct pause_request pause;
    struct queue_name name;
    struct fault fault;

    if (codec_read_queue_list(bytes, arena, &list, &fault) == 0) {
        REQUIRE(list.page_size >= 1 && list.page_size <= QUEUE_PAGE_COUNT_MAX);
    }
    if (codec_read_pause(bytes, arena, &pause, &fault) == 0) {
        REQUIRE(pause.end.kind != WHEN_DELAY || pause.end.delay_ms <= QUEUE_PAUSE_MS_MAX);
        REQUIRE(pause.end.kind != WHEN_DUE || pause.end.due_ms > 0);
    }
    (void)!codec_read_queue_delete(bytes, arena, &drop, &fault);
    if (codec_read_queue_name(bytes, arena, &name, &fault) == 0) {
        REQUIRE(name.name[0] != '\0' && strlen(name.name) <= NAME_BYTES_MAX);
    }
}

static void try_queue_replies(struct slice bytes, struct arena *arena)
{
    struct queue_list_reply list;
    struct queue_reply reply;
    struct queue_stats stats;
    struct queue queue;
    struct fault fault;

    (void)!codec_read_stats_reply(bytes, arena, &queue, &stats, &fault);
    (void)!codec_read_queue_delete_reply(bytes, arena, &reply, &fault);
    (void)!codec_read_queue_reply(bytes, arena, &reply, &fault);
    if (codec_read_queue_list_reply(bytes, arena, &list, &fault) == 0) {
        for (size_t i = 0; i < list.count; i++) {
            (void)!codec_read_queue_list_item(&list, i, &queue, &fault);
        }
    }
}

static void try_deliver(struct slice bytes, struct arena *arena)
{
    struct delivery_batch batch;
    struct delivery delivery;
    struct fault fault;

    if (codec_read_deliver(bytes, arena, &batch, &fault) == 0) {
        for (size_t i = 0; i < batch.count; i++) {
            (void)!codec_read_delivery(&batch, i, &delivery, &fault);
        }
    }
}

static void try_deliver_reply(struct slice bytes, struct arena *arena)
{
    size_t expected = bytes.len == 0 ? 0 : bytes.data[0] % 4;
    struct delivery_results results;
    struct delivery_result result;
    struct fault fault;

    if (bytes.len > 0) {
        bytes = (struct slice){bytes.data + 1, bytes.len - 1};
    }
    if (codec_read_deliver_reply(bytes, expected, arena, &results, &fault) == 0) {
        REQUIRE(results.count == expected);
        for (size_t i = 0; i < results.count; i++) {
            codec_read_delivery_result(&results, i, &result);
            REQUIRE(result.outcome >= DELIVERY_DONE && result.outcome <= DELIVERY_OBSOLETE);
            REQUIRE(result.error.len <= ERROR_TEXT_BYTES_MAX && text_is_clean(result.error));
        }
    }
}

static void require_dead(const struct dead_request *request)
{
    REQUIRE(request->id_count <= DEAD_CALL_COUNT_MAX && request->rate_millis >= 0);
    REQUIRE(request->count_max >= 1 && request->count_max <= LIST_PAGE_COUNT_MAX);
    REQUIRE(request->error_contains.len <= DEAD_FILTER_BYTES_MAX);
    REQUIRE(request->mark.shard < SHARD_COUNT_MAX && request->mark.seq >= 0);
}

static void try_dead(struct slice bytes, struct arena *arena)
{
    struct dead_request request;
    struct fault fault;

    if (codec_read_dead_list(bytes, arena, &request, &fault) == 0) {
        require_dead(&request);
    }
    if (codec_read_dead_redrive(bytes, arena, &request, &fault) == 0) {
        require_dead(&request);
    }
    if (codec_read_dead_purge(bytes, arena, &request, &fault) == 0) {
        require_dead(&request);
    }
    (void)!codec_read_dead_group(bytes, arena, &request, &fault);
}

static void try_dead_replies(struct slice bytes, struct arena *arena)
{
    struct dead_groups groups;
    struct list_reply list;
    struct dead_done done;
    struct task_view view;
    struct dead_group group;
    struct fault fault;

    if (codec_read_dead_reply(bytes, arena, &list, &fault) == 0) {
        for (size_t i = 0; i < list.count; i++) {
            (void)!codec_read_dead_item(&list, i, &view, &fault);
        }
    }
    if (codec_read_dead_groups(bytes, arena, &groups, &fault) == 0) {
        for (size_t i = 0; i < groups.count; i++) {
            (void)!codec_read_dead_group_item(&groups, i, &group, &fault);
        }
    }
    (void)!codec_read_redrive_reply(bytes, arena, &done, &fault);
    (void)!codec_read_purge_reply(bytes, arena, &done, &fault);
}

static void try_topology(struct slice bytes, struct arena *arena)
{
    struct topology topology;
    struct broker_view broker;
    struct shard_owner_view shard;
    struct fault fault;

    (void)!codec_read_topology_request(bytes, arena, &fault);
    if (codec_read_topology(bytes, arena, &topology, &fault) != 0) {
        return;
    }
    for (size_t i = 0; i < topology.broker_count; i++) {
        codec_read_topology_broker(&topology, i, &broker);
    }
    for (size_t i = 0; i < topology.shard_count; i++) {
        codec_read_topology_shard(&topology, i, &shard);
    }
}

static void try_plan(struct slice bytes, struct arena *arena)
{
    struct plan_request request;
    struct plan plan;
    struct plan_move move;
    struct plan_share share;
    struct drain_reply drained;
    struct fault fault;
    const char *name;

    (void)!codec_read_plan(bytes, arena, &request, &fault);
    (void)!codec_read_drain(bytes, arena, &name, &fault);
    (void)!codec_read_drain_reply(bytes, arena, &drained, &fault);
    if (codec_read_plan_reply(bytes, arena, &plan, &fault) != 0) {
        return;
    }
    for (size_t i = 0; i < plan.move_count; i++) {
        codec_read_plan_move(&plan, i, &move);
    }
    for (size_t i = 0; i < plan.share_count; i++) {
        codec_read_plan_share(&plan, i, &share);
    }
}

static void try_report(struct slice bytes, struct arena *arena)
{
    struct peer_report report;
    struct fault fault;

    if (codec_read_report(bytes, arena, &report, &fault) == 0) {
        REQUIRE(report.outcome >= DELIVERY_DONE && report.outcome <= DELIVERY_OBSOLETE);
        REQUIRE(report.id.seq > 0 && report.id.slot < SLOT_COUNT && report.attempt > 0);
        REQUIRE(report.error.len <= ERROR_TEXT_BYTES_MAX && report.retry_after_ms >= 0);
    }
}

static void try_details(struct slice bytes, struct arena *arena UNUSED)
{
    struct fault fault;

    fault_decode(&fault, RPC_UNKNOWN, bytes, bytes);
    REQUIRE(text_is_clean(slice_of(fault.message)) && text_is_clean(slice_of(fault.reason)));
    REQUIRE(fault.retry_after_ms >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const tries[])(struct slice, struct arena *) = {
        try_queue,         try_queue_requests, try_queue_replies, try_deliver,
        try_deliver_reply, try_topology,       try_details,       try_report,
        try_dead,          try_dead_replies,   try_plan,
    };
    int64_t blocks = mem_block_count();
    struct arena arena;

    if (size == 0) {
        return 0;
    }
    arena_init(&arena, 0);
    tries[data[0] % ARRAY_COUNT(tries)]((struct slice){data + 1, size - 1}, &arena);
    REQUIRE(arena.used <= arena.budget);
    arena_fini(&arena);
    REQUIRE(mem_block_count() == blocks);
    return 0;
}
