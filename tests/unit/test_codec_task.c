/* SPDX-License-Identifier: Apache-2.0
 *
 * What the codec promises about Get, Cancel and Update.
 */
#include "lib/base/mem.h"
#include "proto/codec_task.h"
#include "tests/lib/wire.h"

#include <criterion/criterion.h>
#include <string.h>

/* Field numbers of Get, Cancel and Update. */
enum {
    NAMESPACE = 1,
    QUEUE,
    ID,
    KEY,
    ORDER_KEY = 5, /* of all but Update */
    DUE_TIME = 5,
    DELAY,
    PAYLOAD
};

static const char *const ID_TEXT = "0a7-0000012300000001";

struct
try {
    struct buf wire;
    struct arena arena;
    struct fault fault;
    int64_t blocks;
};

static void try_init(struct try *try)
{
    memset(&try->fault, 0, sizeof(try->fault));
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

static void expect_name_refused(struct try *try, const char *reason, const char *field)
{
    struct task_name name;

    cr_assert_eq(codec_read_task_name(buf_slice(&try->wire), &try->arena, &name, &try->fault),
                 ERR_INVALID);
    cr_assert_str_eq(try->fault.reason, reason);
    cr_assert_str_eq(try->fault.field, field);
    try_fini(try);
}

Test(codec_task, an_order_key_goes_with_a_key)
{
    static const uint8_t stored[] = "\xff\xc3\xb6\xffk";
    struct task_name name;
    struct try try;

    try_init(&try);
    wire_string(&try.wire, QUEUE, "mail");
    wire_string(&try.wire, KEY, "k");
    wire_string(&try.wire, ORDER_KEY, "\xc3\xb6");
    cr_assert_eq(codec_read_task_name(buf_slice(&try.wire), &try.arena, &name, &try.fault), 0);
    cr_assert(slice_equal(name.key, slice_of("k")));
    cr_assert(slice_equal(name.order_key, slice_of("\xc3\xb6")));
    cr_assert(slice_equal(name.stored_key, (struct slice){stored, sizeof(stored) - 1}));
    cr_assert(slice_equal(task_key_own(name.stored_key), name.key));
    try_fini(&try);
    try_init(&try);
    wire_string(&try.wire, ID, ID_TEXT);
    wire_string(&try.wire, ORDER_KEY, "o");
    expect_name_refused(&try, "FIELD_UNUSED", "order_key");
}

Test(codec_task, a_key_alone_is_stored_as_it_is)
{
    const struct slice key = slice_of("k\xc3\xa4y");

    cr_assert(slice_equal(task_key_join((struct slice){NULL, 0}, key, NULL), key));
    cr_assert(slice_equal(task_key_own(key), key));
    cr_assert_eq(task_key_join(slice_of("o"), (struct slice){NULL, 0}, NULL).len, 0);
    cr_assert_eq(task_key_own((struct slice){NULL, 0}).len, 0);
}

Test(codec_task, an_id_alone_names_a_task)
{
    struct task_name name;
    struct try try;

    try_init(&try);
    wire_string(&try.wire, ID, ID_TEXT);
    cr_assert_eq(codec_read_task_name(buf_slice(&try.wire), &try.arena, &name, &try.fault), 0);
    cr_assert_eq(name.id.slot, 0x0a7);
    cr_assert_eq(name.id.seq, 0x12300000001);
    cr_assert_eq(name.key.len, 0);
    cr_assert_str_eq(name.queue.name, "");
    try_fini(&try);
}

Test(codec_task, refuses_names_that_name_nothing)
{
    const char *bad_ids[] = {"",
                             "0a7",
                             "0a7-000001230000000",
                             "0a7-00000123000000011",
                             "0A7-0000012300000001",
                             "0a7_0000012300000001",
                             "0a7-0000000000000000",
                             "0a7-8000000000000000",
                             "0a7-00000123000000g1",
                             "xa7-0000012300000001"};
    struct try try;

    for (size_t i = 0; i < ARRAY_COUNT(bad_ids); i++) {
        try_init(&try);
        wire_string(&try.wire, ID, bad_ids[i]);
        expect_name_refused(&try, "ID_INVALID", "id");
    }
    try_init(&try);
    wire_string(&try.wire, QUEUE, "mail");
    expect_name_refused(&try, "KEY_MISSING", "task");
    try_init(&try);
    wire_string(&try.wire, QUEUE, "mail");
    wire_string(&try.wire, KEY, "");
    expect_name_refused(&try, "KEY_MISSING", "key");
    try_init(&try);
    wire_string(&try.wire, KEY, "k");
    expect_name_refused(&try, "NAME_MISSING", "queue");
    try_init(&try);
    wire_string(&try.wire, QUEUE, "mail");
    wire_field(&try.wire, KEY, "a\0b", 3);
    expect_name_refused(&try, "TEXT_INVALID", "key");
}

Test(codec_task, names_survive_the_way_to_the_wire_and_back)
{
    const struct task_name sent[] = {
        {.queue = {"shop", ""}, .id = {.seq = 9, .slot = 4095}},
        {.queue = {"shop", "mail"}, .key = slice_of("k\xc3\xa4y")},
        {.queue = {"shop", "mail"}, .key = slice_of("k"), .order_key = slice_of("o")},
    };
    struct task_name got;
    struct try try;

    for (size_t i = 0; i < ARRAY_COUNT(sent); i++) {
        try_init(&try);
        cr_assert_eq(codec_write_task_name(&sent[i], &try.wire), 0);
        cr_assert_eq(codec_read_task_name(buf_slice(&try.wire), &try.arena, &got, &try.fault), 0);
        cr_assert_eq(got.id.seq, sent[i].id.seq);
        cr_assert_eq(got.id.slot, sent[i].id.slot);
        cr_assert(slice_equal(got.key, sent[i].key));
        cr_assert(slice_equal(got.order_key, sent[i].order_key));
        cr_assert_str_eq(got.queue.name, sent[i].queue.name);
        try_fini(&try);
    }
}

Test(codec_task, a_view_survives_the_way_to_the_wire_and_back)
{
    const struct task_view sent = {
        .id = {.seq = 9, .slot = 1},
        .queue = {"shop", "mail"},
        .key = slice_of("k"),
        .order_key = slice_of("o"),
        .payload = {(const uint8_t *)"\0\xff", 2},
        .due_ms = 1700000000123,
        .created_ms = 1600000000001,
        .state = TASK_VIEW_RETRYING,
        .attempt = 4,
        .failures = 3,
    };
    struct task_view got;
    struct try try;

    try_init(&try);
    cr_assert_eq(codec_write_get_reply(&sent, &try.wire), 0);
    cr_assert_eq(codec_read_get_reply(buf_slice(&try.wire), &try.arena, &got, &try.fault), 0);
    cr_assert_eq(got.id.seq, 9);
    cr_assert_eq(got.due_ms, sent.due_ms);
    cr_assert_eq(got.created_ms, sent.created_ms);
    cr_assert_eq(got.state, TASK_VIEW_RETRYING);
    cr_assert_eq(got.attempt, 4);
    cr_assert_eq(got.failures, 3);
    cr_assert(slice_equal(got.payload, sent.payload));
    cr_assert(slice_equal(got.key, sent.key));
    cr_assert(slice_equal(got.order_key, sent.order_key));
    try_fini(&try);
}

Test(codec_task, cancel_answers_survive_and_unknown_ones_are_refused)
{
    struct cancel_reply got;
    struct try try;

    for (int outcome = CANCEL_ANSWER_CANCELLED; outcome <= CANCEL_ANSWER_NOT_FOUND; outcome++) {
        struct cancel_reply sent = {.outcome = (enum cancel_answer)outcome, .attempt = 7};

        sent.id = (struct task_id){.seq = outcome == CANCEL_ANSWER_NOT_FOUND ? 0 : 5, .slot = 2};
        try_init(&try);
        cr_assert_eq(codec_write_cancel_reply(&sent, &try.wire), 0);
        cr_assert_eq(codec_read_cancel_reply(buf_slice(&try.wire), &try.arena, &got, &try.fault),
                     0);
        cr_assert_eq(got.outcome, sent.outcome);
        cr_assert_eq(got.attempt, 7);
        cr_assert_eq(got.id.seq, sent.id.seq);
        try_fini(&try);
    }
    try_init(&try);
    cr_assert_eq(codec_read_cancel_reply(buf_slice(&try.wire), &try.arena, &got, &try.fault),
                 ERR_INVALID);
    try_fini(&try);
}

Test(codec_task, an_update_says_what_changes)
{
    const struct update_request sent = {
        .task = {.queue = {"shop", "mail"}, .key = slice_of("k"), .order_key = slice_of("o")},
        .when = {.kind = WHEN_DELAY, .delay_ms = 1500},
        .set_payload = true,
    };
    struct update_request got;
    struct try try;

    try_init(&try);
    cr_assert_eq(codec_write_update(&sent, &try.wire), 0);
    cr_assert_eq(codec_read_update(buf_slice(&try.wire), &try.arena, &got, &try.fault), 0);
    cr_assert_eq(got.when.kind, WHEN_DELAY);
    cr_assert_eq(got.when.delay_ms, 1500);
    cr_assert(got.set_payload, "an empty payload is a payload");
    cr_assert_eq(got.payload.len, 0);
    try_fini(&try);
}

static void expect_update_refused(struct try *try, const char *reason, const char *field)
{
    struct update_request request;

    cr_assert_eq(codec_read_update(buf_slice(&try->wire), &try->arena, &request, &try->fault),
                 ERR_INVALID);
    cr_assert_str_eq(try->fault.reason, reason);
    cr_assert_str_eq(try->fault.field, field);
    try_fini(try);
}

Test(codec_task, refuses_an_update_of_nothing_or_beyond_a_limit)
{
    static uint8_t payload[PAYLOAD_BYTES_MAX + 1];
    struct try try;

    try_init(&try);
    wire_string(&try.wire, ID, ID_TEXT);
    expect_update_refused(&try, "CHANGE_MISSING", "when");
    try_init(&try);
    wire_string(&try.wire, ID, ID_TEXT);
    wire_field(&try.wire, PAYLOAD, payload, sizeof(payload));
    expect_update_refused(&try, "PAYLOAD_TOO_LARGE", "payload");
    try_init(&try);
    wire_string(&try.wire, ID, ID_TEXT);
    wire_time(&try.wire, DUE_TIME, INT64_MAX, 0);
    expect_update_refused(&try, "TIME_OUT_OF_RANGE", "due_time");
    try_init(&try);
    wire_string(&try.wire, ID, ID_TEXT);
    wire_time(&try.wire, DELAY, INT64_MAX, 0);
    expect_update_refused(&try, "TIME_OUT_OF_RANGE", "delay");
}

Test(codec_task, an_update_answer_names_the_attempt_that_may_be_running)
{
    const struct update_reply sent = {
        .id = {.seq = 9, .slot = 1}, .due_ms = WALL_NEVER, .may_be_running_attempt = 3};
    struct update_reply got;
    struct try try;

    try_init(&try);
    cr_assert_eq(codec_write_update_reply(&sent, &try.wire), 0);
    cr_assert_eq(codec_read_update_reply(buf_slice(&try.wire), &try.arena, &got, &try.fault), 0);
    cr_assert_eq(got.may_be_running_attempt, 3);
    cr_assert_eq(got.due_ms, WALL_NEVER);
    try_fini(&try);
}

Test(codec_task, times_before_1970_keep_their_millisecond)
{
    const struct create_reply sent = {.id = {.seq = 9, .slot = 1}, .due_ms = -1};
    struct create_reply got;
    struct try try;

    try_init(&try);
    cr_assert_eq(codec_write_create_reply(&sent, &try.wire), 0);
    cr_assert_eq(codec_read_create_reply(buf_slice(&try.wire), &try.arena, &got, &try.fault), 0);
    cr_assert_eq(got.due_ms, -1);
    try_fini(&try);
}
