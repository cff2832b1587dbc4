/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a message of TaskService: what is let through is within every limit and survives the
 * way to the wire and back; what is not has a reason; nothing leaks. The first byte chooses the
 * message.
 */
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/model/tags.h"
#include "proto/codec_list.h"
#include "proto/message.h"
#include "tests/fuzz/fuzz_memory.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require_fault(int err, const struct fault *fault)
{
    REQUIRE(err == ERR_INVALID || err == ERR_TOO_LARGE);
    REQUIRE(fault->status == RPC_INVALID_ARGUMENT || fault->status == RPC_RESOURCE_EXHAUSTED);
    REQUIRE(fault->reason[0] != '\0' && fault->message[0] != '\0');
    REQUIRE(text_is_clean(slice_of(fault->message)) && text_is_clean(slice_of(fault->field)));
}

static void require_when(const struct when *when)
{
    REQUIRE(when->kind != WHEN_DUE || (when->due_ms >= 0 && when->due_ms <= DUE_WALL_MS_MAX));
    REQUIRE(when->kind != WHEN_DELAY || (when->delay_ms >= 0 && when->delay_ms <= DELAY_MS_MAX));
}

static void require_tags(struct slice text)
{
    struct tag tag;
    size_t count = 0;
    size_t at = 0;

    while (tags_next(text, &at, &tag)) {
        REQUIRE(tag.name.len >= 1 && tag.name.len <= TAG_NAME_BYTES_MAX);
        REQUIRE(tag.value.len <= TAG_VALUE_BYTES_MAX && text_is_clean(tag.value));
        count++;
    }
    REQUIRE(at == text.len && count <= TAG_COUNT_MAX);
}

static void require_create(const struct create_request *request)
{
    require_when(&request->when);
    REQUIRE(request->queue.name[0] != '\0' && strlen(request->queue.name) <= NAME_BYTES_MAX);
    REQUIRE(request->queue.tenant[0] != '\0' && strlen(request->queue.tenant) <= NAME_BYTES_MAX);
    REQUIRE(request->payload.len <= PAYLOAD_BYTES_MAX && request->key.len <= KEY_BYTES_MAX);
    REQUIRE(text_is_clean(request->key));
    REQUIRE(request->key_policy >= KEY_KEEP && request->key_policy <= KEY_REPLACE);
    REQUIRE(request->latest_ms >= 0 && request->latest_ms <= DUE_WALL_MS_MAX);
    REQUIRE(request->expire_ms >= 0 && request->expire_ms <= DUE_WALL_MS_MAX);
    require_tags(request->tags);
}

static void require_same(const struct create_request *first, const struct create_request *second)
{
    REQUIRE(slice_equal(first->key, second->key) && slice_equal(first->payload, second->payload));
    REQUIRE(slice_equal(first->tags, second->tags) && first->expire_ms == second->expire_ms);
    REQUIRE(first->when.kind == second->when.kind && first->latest_ms == second->latest_ms);
    REQUIRE(strcmp(first->queue.name, second->queue.name) == 0);
}

static void try_create(struct slice bytes, struct arena *arena)
{
    struct create_request first;
    struct create_request second;
    struct fault fault;
    struct buf out;
    int err = codec_read_create(bytes, arena, &first, &fault);

    if (err != 0) {
        require_fault(err, &fault);
        return;
    }
    require_create(&first);
    buf_init(&out, RPC_MESSAGE_BYTES_MAX);
    REQUIRE_MEMORY(codec_write_create(&first, &out) == 0);
    arena_allow(arena, RPC_MESSAGE_BYTES_MAX);
    if (codec_read_create(buf_slice(&out), arena, &second, &fault) != 0) {
        REQUIRE(fuzz_lacks_memory);
    } else if (!fuzz_lacks_memory) {
        require_same(&first, &second);
    }
    buf_fini(&out);
}

static void try_batch(struct slice bytes, struct arena *arena)
{
    struct create_batch batch;
    struct create_request item;
    struct fault fault;
    int err = codec_read_batch(bytes, arena, &batch, &fault);

    if (err != 0) {
        require_fault(err, &fault);
        return;
    }
    REQUIRE(batch.count > 0 && batch.count <= BATCH_ITEM_COUNT_MAX);
    for (size_t i = 0; i < batch.count; i++) {
        err = codec_read_batch_item(&batch, i, &item, &fault);
        if (err != 0) {
            require_fault(err, &fault);
            REQUIRE(strncmp(fault.field, "items[", 6) == 0);
        } else {
            require_create(&item);
        }
    }
}

static void try_cancel_batch(struct slice bytes, struct arena *arena)
{
    struct create_batch batch;
    struct task_name item;
    struct fault fault;

    if (codec_read_batch(bytes, arena, &batch, &fault) != 0) {
        return;
    }
    for (size_t i = 0; i < batch.count; i++) {
        int err = codec_read_cancel_item(&batch, i, &item, &fault);

        if (err != 0) {
            require_fault(err, &fault);
            REQUIRE(strncmp(fault.field, "items[", 6) == 0);
        } else {
            REQUIRE((item.id.seq != 0) != (item.key.len != 0));
        }
    }
}

static void try_list(struct slice bytes, struct arena *arena)
{
    struct list_request request;
    struct fault fault;
    int err = codec_read_list(bytes, arena, &request, &fault);

    if (err != 0) {
        require_fault(err, &fault);
        return;
    }
    require_tags(request.tags);
    REQUIRE(request.page_size >= 1 && request.page_size <= LIST_PAGE_COUNT_MAX);
    REQUIRE(request.mark.shard < SHARD_COUNT_MAX && request.mark.bucket >= -1);
}

static void try_list_replies(struct slice bytes, struct arena *arena)
{
    struct create_results results;
    struct cancel_reply cancelled;
    struct explain_reply explained;
    struct list_reply list;
    struct task_view view;
    struct fault fault;
    bool failed;

    if (codec_read_list_reply(bytes, arena, &list, &fault) == 0) {
        for (size_t i = 0; i < list.count; i++) {
            (void)!codec_read_list_item(&list, i, &view, &fault);
        }
    }
    if (codec_read_cancel_results(bytes, arena, &results, &fault) == 0) {
        for (size_t i = 0; i < results.count; i++) {
            (void)!codec_read_cancel_result(&results, i, &cancelled, &failed, &fault);
        }
    }
    (void)!codec_read_explain_reply(bytes, arena, &explained, &fault);
}

static void try_name(struct slice bytes, struct arena *arena)
{
    struct task_name name;
    struct fault fault;
    int err = codec_read_task_name(bytes, arena, &name, &fault);

    if (err != 0) {
        require_fault(err, &fault);
        return;
    }
    REQUIRE((name.id.seq != 0) != (name.key.len != 0));
    REQUIRE(name.key.len <= KEY_BYTES_MAX && name.id.slot < SLOT_COUNT);
}

static void try_update(struct slice bytes, struct arena *arena)
{
    struct update_request request;
    struct fault fault;
    int err = codec_read_update(bytes, arena, &request, &fault);

    if (err != 0) {
        require_fault(err, &fault);
        return;
    }
    require_when(&request.when);
    REQUIRE(request.when.kind != WHEN_NONE || request.set_payload);
    REQUIRE(request.payload.len <= PAYLOAD_BYTES_MAX);
}

static void try_replies(struct slice bytes, struct arena *arena)
{
    struct create_results results;
    struct create_reply created;
    struct cancel_reply cancelled;
    struct update_reply updated;
    struct task_view view;
    struct fault fault;
    bool failed;

    if (codec_read_batch_reply(bytes, arena, &results, &fault) == 0) {
        for (size_t i = 0; i < results.count; i++) {
            (void)!codec_read_batch_result(&results, i, &created, &failed, &fault);
        }
    }
    (void)!codec_read_create_reply(bytes, arena, &created, &fault);
    (void)!codec_read_cancel_reply(bytes, arena, &cancelled, &fault);
    (void)!codec_read_update_reply(bytes, arena, &updated, &fault);
    (void)!codec_read_get_reply(bytes, arena, &view, &fault);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const tries[])(struct slice, struct arena *) = {
        try_create,  try_batch,        try_name, try_update,
        try_replies, try_cancel_batch, try_list, try_list_replies,
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
