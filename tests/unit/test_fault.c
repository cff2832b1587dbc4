/* SPDX-License-Identifier: Apache-2.0
 *
 * What faults promise: texts are cut and clean, and details are what gRPC clients read.
 */
#include "proto/fault.h"

#include "lib/base/mem.h"
#include "proto/arena.h"

#include <criterion/criterion.h>
#include <string.h>

Test(fault, survives_the_way_to_the_wire_and_back)
{
    int64_t blocks = mem_block_count();
    struct fault sent;
    struct fault got;
    struct buf out;

    fault_set(&sent, RPC_RESOURCE_EXHAUSTED, "QUEUE_FULL", "items[3].queue", "%s is full", "it");
    sent.retry_after_ms = 1250;
    buf_init(&out, 4096);
    cr_assert_eq(fault_encode(&sent, &out), 0);
    fault_decode(&got, RPC_RESOURCE_EXHAUSTED, slice_of("it is full"), buf_slice(&out));
    cr_assert_eq(got.status, RPC_RESOURCE_EXHAUSTED);
    cr_assert_str_eq(got.reason, "QUEUE_FULL");
    cr_assert_str_eq(got.field, "items[3].queue");
    cr_assert_str_eq(got.message, "it is full");
    cr_assert_eq(got.retry_after_ms, 1250);
    buf_fini(&out);
    cr_assert_eq(mem_block_count(), blocks);
}

Test(fault, the_longest_one_encodes)
{
    struct fault fault;
    struct buf out;

    fault_set(&fault, RPC_INTERNAL, "R", NULL, "x");
    memset(fault.reason, 'R', sizeof(fault.reason) - 1);
    memset(fault.field, 'f', sizeof(fault.field) - 1);
    memset(fault.message, 'm', sizeof(fault.message) - 1);
    fault.reason[sizeof(fault.reason) - 1] = '\0';
    fault.field[sizeof(fault.field) - 1] = '\0';
    fault.message[sizeof(fault.message) - 1] = '\0';
    fault.retry_after_ms = INT64_MAX;
    buf_init(&out, 8192);
    cr_assert_eq(fault_encode(&fault, &out), 0);
    buf_fini(&out);
}

Test(fault, garbage_details_leave_status_and_message)
{
    const char *garbage[] = {"", "\xff", "\x1a\x7f", "plain text", "\x0a\x01"};
    struct fault got;

    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        fault_decode(&got, RPC_UNAVAILABLE, slice_of("away"), slice_of(garbage[i]));
        cr_assert_eq(got.status, RPC_UNAVAILABLE);
        cr_assert_str_eq(got.message, "away");
        cr_assert_str_eq(got.reason, "");
        cr_assert_eq(got.retry_after_ms, 0);
    }
}

Test(fault, texts_are_cut_at_a_character_and_clean)
{
    char text[FAULT_MESSAGE_BYTES + 2];
    struct fault fault;

    memset(text, 'm', sizeof(text));
    text[FAULT_MESSAGE_BYTES - 2] = (char)0xc3;
    text[FAULT_MESSAGE_BYTES - 1] = (char)0xa4;
    text[sizeof(text) - 1] = '\0';
    fault_set(&fault, RPC_INTERNAL, "R", NULL, "%s", text);
    cr_assert_eq(strlen(fault.message), FAULT_MESSAGE_BYTES - 2);
    fault_set(&fault, RPC_INTERNAL, "R", NULL, "\"%.1s\" \xff", "\xc3\xa4");
    cr_assert_str_eq(fault.message, "\"?\" ?");
}

Test(fault, errors_have_status_reason_and_words)
{
    struct fault fault;

    fault_set_err(&fault, ERR_OUTCOME_UNKNOWN, "create the task");
    cr_assert_eq(fault.status, RPC_UNKNOWN);
    cr_assert_str_eq(fault.reason, "OUTCOME_UNKNOWN");
    cr_assert_str_eq(fault.message, "create the task: the outcome is unknown");
    cr_assert_str_eq(fault_reason(-9999), "INTERNAL");
}

Test(arena, holds_its_budget_and_gives_everything_back)
{
    int64_t blocks = mem_block_count();
    struct arena arena;
    void *large;

    arena_init(&arena, 10000);
    large = arena_new(&arena, 6000);
    cr_assert(large != NULL);
    cr_assert(arena_new(&arena, 6000) == NULL);
    cr_assert(arena.over);
    arena_del(&arena, large);
    cr_assert(arena_new(&arena, 6000) != NULL);
    for (int i = 0; i < 200; i++) {
        uint8_t *small = arena_new(&arena, 10);

        cr_assert(small != NULL);
        cr_assert_eq((uintptr_t)small % 16, 0);
        memset(small, 0xff, 10);
    }
    cr_assert(arena_new(&arena, SIZE_MAX) == NULL);
    cr_assert_leq(arena.used, arena.budget);
    arena_fini(&arena);
    cr_assert_eq(arena.used, 0);
    cr_assert_eq(mem_block_count(), blocks);
}
