/* SPDX-License-Identifier: Apache-2.0
 *
 * What the codec promises about attempts, and about what a receiver that is not ours may answer.
 */
#include "lib/base/mem.h"
#include "proto/codec_cluster.h"
#include "proto/codec_receiver.h"
#include "tests/lib/wire.h"

#include <criterion/criterion.h>
#include <string.h>

/* Field numbers of AttemptResult. */
enum {
    OUTCOME = 1,
    ERROR,
    NOT_BEFORE,
    RETRY_AFTER
};

struct
try {
    struct buf wire;
    struct arena arena;
    struct fault fault;
    int64_t blocks;
};

static void try_init(struct try *try)
{
    try->blocks = mem_block_count();
    buf_init(&try->wire, 1 << 20);
    arena_init(&try->arena, 0);
}

static void try_fini(struct try *try)
{
    arena_fini(&try->arena);
    buf_fini(&try->wire);
    cr_assert_eq(mem_block_count(), try->blocks);
}

Test(codec_receiver, attempts_survive_the_way_to_the_wire_and_back)
{
    struct delivery sent = {
        .id = {.seq = 9, .slot = 1},
        .queue = {"shop", "mail"},
        .key = slice_of("k"),
        .order_key = slice_of("o"),
        .due_ms = 1700000000123,
        .deadline_ms = 1700000012123,
        .attempt = 2,
        .payload = {(const uint8_t *)"\0\1", 2},
        .tags = slice_of("a=1\n"),
        .expire_ms = 1700000099999,
        .traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    };
    struct delivery_batch batch;
    struct delivery got;
    struct try try;

    try_init(&try);
    cr_assert_eq(codec_write_delivery(&sent, &try.wire), 0);
    sent.attempt = 3;
    sent.key = (struct slice){NULL, 0};
    cr_assert_eq(codec_write_delivery(&sent, &try.wire), 0);
    cr_assert_eq(codec_read_deliver(buf_slice(&try.wire), &try.arena, &batch, &try.fault), 0);
    cr_assert_eq(batch.count, 2);
    cr_assert_eq(codec_read_delivery(&batch, 0, &got, &try.fault), 0);
    cr_assert_eq(got.due_ms, sent.due_ms);
    cr_assert_eq(got.deadline_ms, sent.deadline_ms);
    cr_assert_eq(got.attempt, 2);
    cr_assert_eq(got.key.len, 1);
    cr_assert(slice_equal(got.order_key, sent.order_key));
    cr_assert(slice_equal(got.payload, sent.payload));
    cr_assert_str_eq(got.traceparent, sent.traceparent);
    cr_assert_str_eq(got.tracestate, "");
    cr_assert(slice_equal(got.tags, sent.tags));
    cr_assert_eq(got.expire_ms, sent.expire_ms);
    cr_assert_eq(codec_read_delivery(&batch, 1, &got, &try.fault), 0);
    cr_assert_eq(got.attempt, 3);
    cr_assert_eq(got.key.len, 0);
    try_fini(&try);
}

Test(codec_receiver, an_answer_of_another_length_is_refused)
{
    const struct delivery_result done = {.outcome = DELIVERY_DONE};
    struct delivery_results results;
    struct try try;

    try_init(&try);
    for (size_t sent = 0; sent < 4; sent++) {
        for (size_t expected = 0; expected < 4; expected++) {
            int err = codec_read_deliver_reply(buf_slice(&try.wire), expected, &try.arena, &results,
                                               &try.fault);

            cr_assert_eq(err, sent == expected ? 0 : ERR_INVALID);
        }
        cr_assert_eq(codec_write_delivery_result(&done, &try.wire), 0);
    }
    try_fini(&try);
}

/* Read one hand-made result. */
static void read_one(struct try *try, struct buf *result, struct delivery_result *out)
{
    struct delivery_results results;

    buf_clear(&try->wire);
    wire_field(&try->wire, 1, buf_slice(result).data, buf_len(result));
    cr_assert_eq(
        codec_read_deliver_reply(buf_slice(&try->wire), 1, &try->arena, &results, &try->fault), 0);
    codec_read_delivery_result(&results, 0, out);
    buf_clear(result);
}

Test(codec_receiver, a_response_comes_along)
{
    struct delivery_result done = {.outcome = DELIVERY_DONE, .response = slice_of("42")};
    struct delivery_results results;
    struct delivery_result got;
    struct try try;

    try_init(&try);
    cr_assert_eq(codec_write_delivery_result(&done, &try.wire), 0);
    cr_assert_eq(
        codec_read_deliver_reply(buf_slice(&try.wire), 1, &try.arena, &results, &try.fault), 0);
    codec_read_delivery_result(&results, 0, &got);
    cr_assert(slice_equal(got.response, done.response));
    try_fini(&try);
}

Test(codec_receiver, unknown_outcomes_are_retries_that_say_so)
{
    const uint64_t odd[] = {0, 5, 1000, UINT64_MAX};
    struct delivery_result got;
    struct buf result;
    struct try try;

    try_init(&try);
    buf_init(&result, 4096);
    for (size_t i = 0; i < ARRAY_COUNT(odd); i++) {
        wire_varint(&result, OUTCOME, odd[i]);
        read_one(&try, &result, &got);
        cr_assert_eq(got.outcome, DELIVERY_RETRY);
        cr_assert_gt(got.error.len, 0);
    }
    buf_fini(&result);
    try_fini(&try);
}

Test(codec_receiver, absurd_waits_are_left_out_and_good_ones_kept)
{
    struct delivery_result got;
    struct buf result;
    struct try try;

    try_init(&try);
    buf_init(&result, 4096);
    wire_varint(&result, OUTCOME, 2);
    wire_time(&result, RETRY_AFTER, INT64_MAX, 0);
    read_one(&try, &result, &got);
    cr_assert_eq(got.wait.kind, WHEN_NONE);
    wire_varint(&result, OUTCOME, 2);
    wire_time(&result, RETRY_AFTER, 3, 0);
    read_one(&try, &result, &got);
    cr_assert_eq(got.wait.kind, WHEN_DELAY);
    cr_assert_eq(got.wait.delay_ms, 3000);
    wire_time(&result, NOT_BEFORE, 1700000000, 1);
    read_one(&try, &result, &got);
    cr_assert_eq(got.wait.kind, WHEN_DUE);
    cr_assert_eq(got.wait.due_ms, 1700000000001);
    buf_fini(&result);
    try_fini(&try);
}

Test(codec_receiver, error_texts_are_cut_at_a_character)
{
    char error[ERROR_TEXT_BYTES_MAX + 8];
    struct delivery_result got;
    struct buf result;
    struct try try;

    memset(error, 'e', sizeof(error));
    error[ERROR_TEXT_BYTES_MAX - 1] = (char)0xc3;
    error[ERROR_TEXT_BYTES_MAX] = (char)0xa4;
    error[sizeof(error) - 1] = '\0';
    try_init(&try);
    buf_init(&result, 4096);
    wire_string(&result, ERROR, error);
    read_one(&try, &result, &got);
    cr_assert_eq(got.error.len, ERROR_TEXT_BYTES_MAX - 1);
    buf_fini(&result);
    try_fini(&try);
}

Test(codec_cluster, a_topology_is_read_as_it_was_written)
{
    static const char *const cannot[] = {"db1"};
    const struct topology_head head = {"demo", "b1", 16, 4096};
    const struct broker_view broker = {.name = "b1",
                                       .instance = "0123456789abcdef",
                                       .grpc_address = "127.0.0.1:7000",
                                       .admin_address = "",
                                       .version = "0.1.0",
                                       .started_ms = 1700000000000,
                                       .shard_count = 16,
                                       .cannot = cannot,
                                       .cannot_count = 1,
                                       .config_version = 17};
    const struct shard_owner_view shard = {.shard = 15,
                                           .database = "db0",
                                           .owner = "b1",
                                           .instance = "0123456789abcdef",
                                           .epoch = 256,
                                           .state = SHARD_VIEW_ACTIVE,
                                           .since_ms = WALL_NEVER};
    const struct database_view database = {"db0", UINT64_MAX, 2};
    struct shard_owner_view got_shard;
    struct broker_view got_broker;
    struct database_view got_database;
    struct topology got;
    struct try try;

    try_init(&try);
    cr_assert_eq(codec_write_topology_head(&head, &try.wire), 0);
    cr_assert_eq(codec_write_topology_broker(&broker, &try.wire), 0);
    cr_assert_eq(codec_write_topology_shard(&shard, &try.wire), 0);
    cr_assert_eq(codec_write_topology_database(&database, &try.wire), 0);
    cr_assert_eq(codec_read_topology(buf_slice(&try.wire), &try.arena, &got, &try.fault), 0);
    cr_assert_str_eq(got.head.cluster, "demo");
    cr_assert_eq(got.head.shard_count, 16);
    cr_assert_eq(got.broker_count, 1);
    cr_assert_eq(got.shard_count, 1);
    codec_read_topology_broker(&got, 0, &got_broker);
    cr_assert_str_eq(got_broker.grpc_address, "127.0.0.1:7000");
    cr_assert_eq(got_broker.cannot_count, 1);
    cr_assert_str_eq(got_broker.cannot[0], "db1");
    cr_assert_eq(got_broker.config_version, 17);
    codec_read_topology_shard(&got, 0, &got_shard);
    cr_assert_eq(got_shard.epoch, 256);
    cr_assert_eq(got_shard.state, SHARD_VIEW_ACTIVE);
    cr_assert_eq(got_shard.since_ms, WALL_NEVER);
    cr_assert_eq(got.database_count, 1);
    codec_read_topology_database(&got, 0, &got_database);
    cr_assert_str_eq(got_database.name, "db0");
    cr_assert_eq(got_database.system_id, UINT64_MAX);
    cr_assert_eq(got_database.timeline, 2);
    try_fini(&try);
}
