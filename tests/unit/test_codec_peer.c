/* SPDX-License-Identifier: Apache-2.0
 *
 * What the codec promises about what brokers tell each other: what it lets through is within every
 * limit, whoever sent it.
 */
#include "lib/base/mem.h"
#include "proto/codec_peer.h"
#include "tests/lib/wire.h"

#include <criterion/criterion.h>
#include <string.h>

/* Field numbers of ReportRequest. */
enum {
    TASK_ID = 1,
    ATTEMPT,
    OUTCOME,
    ERROR,
    RETRY_AFTER,
    DEADLINE
};

struct
try {
    struct buf wire;
    struct arena arena;
    struct fault fault;
    struct peer_report got;
    int64_t blocks;
};

static void try_init(struct try *try)
{
    try->blocks = mem_block_count();
    buf_init(&try->wire, 1 << 16);
    arena_init(&try->arena, 0);
}

static void try_fini(struct try *try)
{
    arena_fini(&try->arena);
    buf_fini(&try->wire);
    cr_assert_eq(mem_block_count(), try->blocks);
}

/* A report that is fine but for what is added to it: the last value of a field counts. */
static void fill(struct try *try)
{
    buf_clear(&try->wire);
    wire_string(&try->wire, TASK_ID, "0a7-0000012300000001");
    wire_varint(&try->wire, ATTEMPT, 1);
    wire_varint(&try->wire, OUTCOME, DELIVERY_DONE);
}

static int read_it(struct try *try)
{
    return codec_read_report(buf_slice(&try->wire), &try->arena, &try->got, &try->fault);
}

static void refused(struct try *try, const char *reason, const char *field)
{
    cr_assert_eq(read_it(try), ERR_INVALID);
    cr_assert_eq(try->fault.status, RPC_INVALID_ARGUMENT);
    cr_assert_str_eq(try->fault.reason, reason);
    cr_assert_str_eq(try->fault.field, field);
    fill(try);
}

Test(codec_peer, a_report_survives_the_way_to_the_wire_and_back)
{
    static const uint8_t words[] = {'n', 'o', 0, 0xff, 0x80};
    struct peer_report sent = {
        .id = {.seq = 0x12300000001, .slot = 4095},
        .attempt = 7,
        .outcome = DELIVERY_RETRY,
        .error = {words, sizeof(words)},
        .retry_after_ms = 1234,
        .deadline_ms = 1700000012123,
    };
    struct try try;

    try_init(&try);
    for (int outcome = DELIVERY_DONE; outcome <= DELIVERY_OBSOLETE; outcome++) {
        sent.outcome = (enum delivery_outcome)outcome;
        buf_clear(&try.wire);
        cr_assert_eq(codec_write_report(&sent, &try.wire), 0);
        cr_assert_eq(read_it(&try), 0);
        cr_assert_eq(try.got.id.seq, sent.id.seq);
        cr_assert_eq(try.got.id.slot, sent.id.slot);
        cr_assert_eq(try.got.attempt, sent.attempt);
        cr_assert_eq(try.got.outcome, sent.outcome);
        cr_assert(slice_equal(try.got.error, sent.error));
        cr_assert_eq(try.got.retry_after_ms, sent.retry_after_ms);
        cr_assert_eq(try.got.deadline_ms, sent.deadline_ms);
    }
    try_fini(&try);
}

Test(codec_peer, what_was_left_out_is_nothing)
{
    struct try try;

    try_init(&try);
    fill(&try);
    cr_assert_eq(read_it(&try), 0);
    cr_assert_eq(try.got.error.len, 0);
    cr_assert_eq(try.got.retry_after_ms, 0);
    cr_assert_eq(try.got.deadline_ms, WALL_NEVER);
    try_fini(&try);
}

Test(codec_peer, a_report_of_no_attempt_or_no_outcome_is_refused)
{
    const uint64_t odd[] = {0, 5, 1000, UINT32_MAX};
    uint8_t words[ERROR_TEXT_BYTES_MAX + 1];
    struct try try;

    try_init(&try);
    memset(words, 'x', sizeof(words));
    fill(&try);
    wire_varint(&try.wire, ATTEMPT, 0);
    refused(&try, "VALUE_OUT_OF_RANGE", "attempt");
    for (size_t i = 0; i < ARRAY_COUNT(odd); i++) {
        wire_varint(&try.wire, OUTCOME, odd[i]);
        refused(&try, "ENUM_UNKNOWN", "outcome");
    }
    wire_string(&try.wire, TASK_ID, "0a7-0000000000000000");
    refused(&try, "ID_INVALID", "task_id");
    wire_string(&try.wire, TASK_ID, "fffff");
    refused(&try, "ID_INVALID", "task_id");
    wire_field(&try.wire, ERROR, words, sizeof(words));
    refused(&try, "VALUE_OUT_OF_RANGE", "error");
    wire_field(&try.wire, ERROR, words, sizeof(words) - 1);
    cr_assert_eq(read_it(&try), 0);
    cr_assert_eq(try.got.error.len, ERROR_TEXT_BYTES_MAX);
    wire_time(&try.wire, RETRY_AFTER, INT64_MAX, 0);
    refused(&try, "TIME_OUT_OF_RANGE", "retry_after");
    wire_time(&try.wire, RETRY_AFTER, -5, 0);
    cr_assert_eq(read_it(&try), 0);
    cr_assert_eq(try.got.retry_after_ms, 0);
    try_fini(&try);
}
