/* SPDX-License-Identifier: Apache-2.0
 *
 * What the codec promises about Create and BatchCreate: every limit is met with a clear status, and
 * nothing bad gets through.
 */
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/model/tags.h"
#include "proto/codec_task.h"
#include "tests/lib/wire.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <string.h>

/* Field numbers of CreateTaskRequest. */
enum {
    NAMESPACE = 1,
    QUEUE,
    DUE_TIME,
    DELAY,
    PAYLOAD,
    KEY,
    KEY_POLICY,
    LATEST_TIME
};

#define ITEMS 3

/* One attempt to read a request. */
struct
try {
    struct buf wire;
    struct arena arena;
    struct fault fault;
    struct create_request request;
    int64_t blocks;
};

static void try_init(struct try *try)
{
    memset(&try->fault, 0, sizeof(try->fault));
    try->blocks = mem_block_count();
    buf_init(&try->wire, 8 << 20);
    arena_init(&try->arena, 0);
}

static void try_fini(struct try *try)
{
    arena_fini(&try->arena);
    buf_fini(&try->wire);
    cr_assert_eq(mem_block_count(), try->blocks);
}

static int try_read(struct try *try)
{
    return codec_read_create(buf_slice(&try->wire), &try->arena, &try->request, &try->fault);
}

/* The request built so far is refused for this reason, and the message names field and limit. */
static void expect_refused(struct try *try, const char *reason, const char *field,
                           const char *in_message)
{
    cr_assert_eq(try_read(try), ERR_INVALID);
    cr_assert_eq(try->fault.status, RPC_INVALID_ARGUMENT);
    cr_assert_str_eq(try->fault.reason, reason);
    cr_assert_str_eq(try->fault.field, field);
    cr_assert(strstr(try->fault.message, in_message) != NULL, "%s", try->fault.message);
    try_fini(try);
}

static void expect_good(struct try *try)
{
    cr_assert_eq(try_read(try), 0, "%s", try->fault.message);
}

/* A request with a queue, to which the test adds its bad field. */
static void try_with_queue(struct try *try)
{
    try_init(try);
    wire_string(&try->wire, QUEUE, "mail");
}

Test(codec_create, fills_in_the_defaults_of_a_bare_request)
{
    struct try try;

    try_with_queue(&try);
    expect_good(&try);
    cr_assert_str_eq(try.request.queue.tenant, "default");
    cr_assert_str_eq(try.request.queue.name, "mail");
    cr_assert_eq(try.request.when.kind, WHEN_NONE);
    cr_assert_eq(try.request.payload.len, 0);
    cr_assert_eq(try.request.key.len, 0);
    cr_assert_eq(try.request.key_policy, KEY_KEEP);
    cr_assert_eq(try.request.latest_ms, 0);
    try_fini(&try);
}

Test(codec_create, survives_the_way_to_the_wire_and_back)
{
    struct create_request sent = {
        .queue = {"shop", "mail"},
        .when = {.kind = WHEN_DUE, .due_ms = 1700000000123},
        .payload = {(const uint8_t *)"a\0b", 3},
        .key = slice_of("order-\xc3\xa4-7"),
        .order_key = slice_of("account-7"),
        .key_policy = KEY_REPLACE,
        .latest_ms = 1700000009999,
        .expire_ms = 1700000099999,
        .tags = slice_of("colour=red\nsize=9\n"),
    };
    struct try try;

    try_init(&try);
    cr_assert_eq(codec_write_create(&sent, &try.wire), 0);
    expect_good(&try);
    cr_assert_str_eq(try.request.queue.tenant, "shop");
    cr_assert_str_eq(try.request.queue.name, "mail");
    cr_assert_eq(try.request.when.kind, WHEN_DUE);
    cr_assert_eq(try.request.when.due_ms, 1700000000123);
    cr_assert(slice_equal(try.request.payload, sent.payload));
    cr_assert(slice_equal(try.request.key, sent.key));
    cr_assert(slice_equal(try.request.order_key, sent.order_key));
    cr_assert(slice_equal(task_key_own(try.request.stored_key), sent.key));
    cr_assert_eq(try.request.key_policy, KEY_REPLACE);
    cr_assert_eq(try.request.latest_ms, 1700000009999);
    cr_assert_eq(try.request.expire_ms, 1700000099999);
    cr_assert(slice_equal(try.request.tags, sent.tags));
    try_fini(&try);
}

Test(codec_create, an_order_key_has_255_bytes_at_most)
{
    char key[ORDER_KEY_BYTES_MAX + 2];
    struct try try;

    memset(key, 'k', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    try_with_queue(&try);
    wire_string(&try.wire, 11, key + 1);
    expect_good(&try);
    cr_assert_eq(try.request.order_key.len, ORDER_KEY_BYTES_MAX);
    cr_assert_eq(try.request.stored_key.len, 0);
    try_fini(&try);
    try_with_queue(&try);
    wire_string(&try.wire, 11, key);
    expect_refused(&try, "ORDER_KEY_TOO_LONG", "order_key", "ORDER_KEY_BYTES_MAX");
}

Test(codec_create, refuses_a_task_that_expires_before_it_is_due)
{
    struct try try;

    try_with_queue(&try);
    wire_time(&try.wire, 3, 1000, 0);
    wire_time(&try.wire, 10, 999, 0);
    expect_refused(&try, "TIME_OUT_OF_RANGE", "expire_time", "due_time");
}

Test(codec_create, refuses_tags_beyond_their_limits)
{
    struct try try;

    try_with_queue(&try);
    for (int i = 0; i <= TAG_COUNT_MAX; i++) {
        char entry[] = "\x0a\x01"
                       "a";

        entry[2] = (char)('a' + i);
        wire_field(&try.wire, 9, entry, 3);
    }
    expect_refused(&try, "TAGS_INVALID", "tags", "TAG_COUNT_MAX");
}

Test(codec_create, gives_a_delay_as_a_delay)
{
    struct create_request sent = {
        .queue = {"default", "mail"},
        .when = {.kind = WHEN_DELAY, .delay_ms = 90500},
        .key_policy = KEY_KEEP,
    };
    struct try try;

    try_init(&try);
    cr_assert_eq(codec_write_create(&sent, &try.wire), 0);
    expect_good(&try);
    cr_assert_eq(try.request.when.kind, WHEN_DELAY);
    cr_assert_eq(try.request.when.delay_ms, 90500);
    try_fini(&try);
}

Test(codec_create, takes_payloads_from_nothing_to_the_limit)
{
    static uint8_t payload[PAYLOAD_BYTES_MAX + 1];
    const size_t lens[] = {0, 1, PAYLOAD_BYTES_MAX};
    struct try try;

    for (size_t i = 0; i < ARRAY_COUNT(lens); i++) {
        try_with_queue(&try);
        wire_field(&try.wire, PAYLOAD, payload, lens[i]);
        expect_good(&try);
        cr_assert_eq(try.request.payload.len, lens[i]);
        try_fini(&try);
    }
    try_with_queue(&try);
    wire_field(&try.wire, PAYLOAD, payload, PAYLOAD_BYTES_MAX + 1);
    expect_refused(&try, "PAYLOAD_TOO_LARGE", "payload", "PAYLOAD_BYTES_MAX");
}

Test(codec_create, takes_keys_up_to_the_limit_and_says_so_above)
{
    char key[KEY_BYTES_MAX + 2];
    struct try try;

    memset(key, 'k', sizeof(key));
    try_with_queue(&try);
    wire_field(&try.wire, KEY, key, KEY_BYTES_MAX);
    expect_good(&try);
    cr_assert_eq(try.request.key.len, KEY_BYTES_MAX);
    try_fini(&try);
    try_with_queue(&try);
    wire_field(&try.wire, KEY, key, KEY_BYTES_MAX + 1);
    expect_refused(&try, "KEY_TOO_LONG", "key", "at most 255");
}

Test(codec_create, refuses_text_with_nul_or_broken_utf8)
{
    const struct {
        const char *bytes;
        size_t len;
    } bad[] = {
        {"a\0b", 3},
        {"\0", 1},
        {"\xff", 1},
        {"\xc3", 1},
        {"\xc0\x80", 2},
        {"\xe0\x9f\xbf", 3},
        {"\xed\xa0\x80", 3},
        {"\xf4\x90\x80\x80", 4},
        {"\xf0\x8f\xbf\xbf", 4},
        {"ab\x80", 3},
        {"\xe2\x82", 2},
        {"\xf5\x80\x80\x80", 4},
    };
    struct try try;

    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        try_with_queue(&try);
        wire_field(&try.wire, KEY, bad[i].bytes, bad[i].len);
        expect_refused(&try, "TEXT_INVALID", "key", "UTF-8 without NUL");
        try_init(&try);
        wire_field(&try.wire, QUEUE, bad[i].bytes, bad[i].len);
        expect_refused(&try, "TEXT_INVALID", "queue", "UTF-8");
        try_with_queue(&try);
        wire_field(&try.wire, NAMESPACE, bad[i].bytes, bad[i].len);
        expect_refused(&try, "TEXT_INVALID", "namespace", "UTF-8");
    }
}

Test(codec_create, takes_every_length_of_utf8)
{
    struct try try;

    try_with_queue(&try);
    wire_string(&try.wire, KEY,
                "a\xc2\x80\xe0\xa0\x80\xed\x9f\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
    expect_good(&try);
    try_fini(&try);
}

Test(codec_create, refuses_names_outside_their_alphabet)
{
    const char *bad[] = {"Mail", "a b", "a/b", "m\xc3\xa4il",
                         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    struct try try;

    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        try_init(&try);
        wire_string(&try.wire, QUEUE, bad[i]);
        expect_refused(&try, "NAME_INVALID", "queue", "NAME_BYTES_MAX");
        try_with_queue(&try);
        wire_string(&try.wire, NAMESPACE, bad[i]);
        expect_refused(&try, "NAME_INVALID", "namespace", "NAME_BYTES_MAX");
    }
    try_init(&try);
    expect_refused(&try, "NAME_MISSING", "queue", "name the queue");
}

/* Rows of due times: what is sent, and what comes out. */
struct time_row {
    int64_t seconds;
    int32_t nanos;
    int64_t ms; /* −1: refused */
};

Test(codec_create, due_times_are_rounded_up_and_bounded)
{
    const struct time_row rows[] = {
        {0, 0, 0},
        {-1, 0, 0},                     // the past runs at once
        {-62135596800, 0, 0},           // year 1
        {1668000000, 0, 1668000000000}, // years ago
        {1700000000, 1, 1700000000001}, // never early
        {1700000000, 999999999, 1700000001000},
        {1700000000, 1000000, 1700000000001},
        {4855680000, 0, 4855680000000}, // in about a hundred years
        {7289568000, 0, 7289568000000}, // the latest
        {7289568000, 1, -1},
        {253402300799, 0, -1}, // year 9999
        {253402300800, 0, -1},
        {INT64_MAX, 0, -1},
        {INT64_MAX, 999999999, -1},
        {INT64_MIN, 0, -1},
        {-62135596801, 0, -1},
        {1700000000, -1, -1},
        {1700000000, 1000000000, -1},
        {1700000000, INT32_MAX, -1},
        {1700000000, INT32_MIN, -1},
    };
    struct try try;

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        try_with_queue(&try);
        wire_time(&try.wire, DUE_TIME, rows[i].seconds, rows[i].nanos);
        if (rows[i].ms < 0) {
            expect_refused(&try, "TIME_OUT_OF_RANGE", "due_time", "due_time");
            continue;
        }
        expect_good(&try);
        cr_assert_eq(try.request.when.kind, WHEN_DUE);
        cr_assert_eq(try.request.when.due_ms, rows[i].ms, "row %zu: %" PRId64, i,
                     try.request.when.due_ms);
        try_fini(&try);
    }
}

Test(codec_create, delays_are_rounded_up_and_bounded)
{
    const struct time_row rows[] = {
        {0, 0, 0},
        {0, 1, 1},
        {1, 500000000, 1500},
        {-5, 0, 0},
        {-5, -999999999, 0},
        {0, -1, 0},
        {315576000, 0, 315576000000},   // ten years
        {3155760000, 0, 3155760000000}, // a hundred
        {3155760000, 1, -1},
        {315576000000, 0, -1},
        {315576000001, 0, -1},
        {INT64_MAX, 0, -1},
        {INT64_MAX, 999999999, -1},
        {INT64_MIN, 0, -1},
        {INT64_MIN, -999999999, -1},
        {9223372036854775, 807000000, -1},
        {1, -1, -1},
        {-1, 1, -1},
        {1, 1000000000, -1},
        {0, INT32_MIN, -1},
    };
    struct try try;

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        try_with_queue(&try);
        wire_time(&try.wire, DELAY, rows[i].seconds, rows[i].nanos);
        if (rows[i].ms < 0) {
            expect_refused(&try, "TIME_OUT_OF_RANGE", "delay", "delay");
            continue;
        }
        expect_good(&try);
        cr_assert_eq(try.request.when.kind, WHEN_DELAY);
        cr_assert_eq(try.request.when.delay_ms, rows[i].ms, "row %zu: %" PRId64, i,
                     try.request.when.delay_ms);
        try_fini(&try);
    }
}

Test(codec_create, key_policies_need_a_key_and_a_known_number)
{
    struct try try;

    try_with_queue(&try);
    wire_varint(&try.wire, KEY_POLICY, 2);
    expect_refused(&try, "KEY_MISSING", "key", "key_policy needs one");
    for (uint64_t policy = 4; policy < 8; policy++) {
        try_with_queue(&try);
        wire_string(&try.wire, KEY, "k");
        wire_varint(&try.wire, KEY_POLICY, policy);
        expect_refused(&try, "ENUM_UNKNOWN", "key_policy", "KEEP, REJECT or REPLACE");
    }
    try_with_queue(&try);
    wire_string(&try.wire, KEY, "k");
    wire_varint(&try.wire, KEY_POLICY, UINT64_MAX);
    expect_refused(&try, "ENUM_UNKNOWN", "key_policy", "-1");
}

Test(codec_create, a_latest_time_goes_with_replace_only_and_always_bounds)
{
    struct try try;

    try_with_queue(&try);
    wire_string(&try.wire, KEY, "k");
    wire_time(&try.wire, LATEST_TIME, 100, 0);
    expect_refused(&try, "FIELD_UNUSED", "latest_time", "REPLACE");
    try_with_queue(&try);
    wire_string(&try.wire, KEY, "k");
    wire_varint(&try.wire, KEY_POLICY, 3);
    wire_time(&try.wire, LATEST_TIME, 0, 0);
    expect_good(&try);
    cr_assert_eq(try.request.latest_ms, 1, "0 would mean no bound");
    try_fini(&try);
}

Test(codec_create, refuses_every_truncation_of_a_request)
{
    struct create_request sent = {
        .queue = {"shop", "mail"},
        .when = {.kind = WHEN_DUE, .due_ms = 1700000000123},
        .payload = slice_of("payload"),
        .key = slice_of("key"),
        .key_policy = KEY_REPLACE,
        .latest_ms = 1700000009999,
    };
    struct try try;
    struct slice whole;
    size_t refused_count = 0;

    try_init(&try);
    cr_assert_eq(codec_write_create(&sent, &try.wire), 0);
    whole = buf_slice(&try.wire);
    for (size_t len = 0; len < whole.len; len++) {
        uint8_t *exact = mem_new(len, 1); // so that a sanitizer sees a byte too far
        int err;

        memcpy(exact, whole.data, len);
        err = codec_read_create((struct slice){exact, len}, &try.arena, &try.request, &try.fault);
        // A cut between two fields is a smaller message, which is fine if it has a queue.
        cr_assert(err == 0 || err == ERR_INVALID);
        refused_count += err != 0;
        arena_fini(&try.arena);
        mem_free(exact);
    }
    cr_assert_gt(refused_count, whole.len / 2);
    try_fini(&try);
}

Test(codec_create, refuses_garbage_and_wrong_wire_types)
{
    const struct {
        const char *bytes;
        size_t len;
    } bad[] = {
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11}, // varint without end
        {"\x12", 1},                                          // tag without length
        {"\x12\x7f", 2},                                      // length beyond the end
        {"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11}, // length 2^64 − 1
        {"\x10\x01", 2},                                      // queue as a varint
        {"\x2d\x01\x02\x03\x04", 5},                          // payload as fixed32
        {"\x00\x00", 2},                                      // field number 0
        {"\x0b\x0c", 2},                                      // a group
        {"\x0f", 1},                                          // wire type 7
        {"\x3a\x01\x01", 3},                                  // enum as bytes
        {"\x22\x02\x08", 3},                                  // a duration that is cut
        {"\x22\x01\x08", 3},                                  // a duration with a tag only
        {"GET / HTTP/1.1\r\n\r\n", 18},
    };
    struct try try;

    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        try_init(&try);
        (void)buf_append(&try.wire, bad[i].bytes, bad[i].len);
        cr_assert_eq(try_read(&try), ERR_INVALID, "row %zu", i);
        cr_assert_str_eq(try.fault.reason, "MESSAGE_MALFORMED", "row %zu: %s", i, try.fault.reason);
        try_fini(&try);
    }
}

Test(codec_create, ignores_unknown_fields)
{
    struct try try;

    try_with_queue(&try);
    wire_varint(&try.wire, 15, 7);
    wire_field(&try.wire, 500, "\0\xff", 2);
    wire_raw_varint(&try.wire, 501U << 3U | 1U);
    (void)buf_append(&try.wire, "12345678", 8);
    wire_raw_varint(&try.wire, 502U << 3U | 5U);
    (void)buf_append(&try.wire, "1234", 4);
    expect_good(&try);
    try_fini(&try);
}

Test(codec_create, refuses_a_sub_message_that_comes_twice)
{
    struct try try;

    try_with_queue(&try);
    wire_time(&try.wire, DELAY, 1, 0);
    wire_time(&try.wire, DELAY, 2, 0);
    expect_refused(&try, "MESSAGE_MALFORMED", "delay", "comes twice");
}

Test(codec_create, the_last_of_two_members_of_a_oneof_counts)
{
    struct try try;

    try_with_queue(&try);
    wire_time(&try.wire, DUE_TIME, 1, 0);
    wire_time(&try.wire, DELAY, 2, 0);
    expect_good(&try);
    cr_assert_eq(try.request.when.kind, WHEN_DELAY);
    cr_assert_eq(try.request.when.delay_ms, 2000);
    try_fini(&try);
}

/* Unknown fields: each costs a row in the decoder's table. */
static void expect_too_costly(int field_count, const char *in_message)
{
    struct try try;

    try_with_queue(&try);
    for (int i = 0; i < field_count; i++) {
        wire_varint(&try.wire, 1000, 0);
    }
    cr_assert_eq(try_read(&try), ERR_TOO_LARGE);
    cr_assert_eq(try.fault.status, RPC_RESOURCE_EXHAUSTED);
    cr_assert_str_eq(try.fault.reason, "MESSAGE_TOO_COSTLY");
    cr_assert(strstr(try.fault.message, in_message) != NULL, "%s", try.fault.message);
    try_fini(&try);
}

Test(codec_create, refuses_a_message_that_unfolds_beyond_its_budget)
{
    expect_too_costly(150000, "bytes of memory");
}

Test(codec_create, refuses_more_fields_than_a_message_can_have)
{
    expect_too_costly(20 * BATCH_ITEM_COUNT_MAX, "fields");
}

static bool refuse_nth(size_t size UNUSED, void *ctx)
{
    int *left = ctx;

    return (*left)-- != 0;
}

Test(codec_create, out_of_memory_is_a_clean_refusal)
{
    static uint8_t payload[8192];
    struct try try;
    int err = ERR_NO_MEMORY;

    for (int n = 0; err != 0; n++) {
        int left = n;

        try_with_queue(&try);
        wire_field(&try.wire, PAYLOAD, payload, sizeof(payload));
        wire_string(&try.wire, KEY, "k");
        mem_set_hook(refuse_nth, &left);
        err = try_read(&try);
        mem_set_hook(NULL, NULL);
        cr_assert(err == 0 || err == ERR_NO_MEMORY);
        cr_assert(n < 100);
        try_fini(&try);
    }
}

/* ---- batches ---- */

static void add_item(struct try *try, const char *queue, int64_t delay_s, size_t payload_len)
{
    static uint8_t payload[PAYLOAD_BYTES_MAX + 1];
    struct buf item;

    buf_init(&item, 1 << 20);
    if (queue != NULL) {
        wire_string(&item, QUEUE, queue);
    }
    if (delay_s >= 0) {
        wire_time(&item, DELAY, delay_s, 0);
    }
    if (payload_len > 0) {
        wire_field(&item, PAYLOAD, payload, payload_len);
    }
    wire_field(&try->wire, ITEMS, buf_slice(&item).data, buf_len(&item));
    buf_fini(&item);
}

static int try_batch(struct try *try, struct create_batch *batch)
{
    return codec_read_batch(buf_slice(&try->wire), &try->arena, batch, &try->fault);
}

Test(codec_batch, refuses_an_empty_batch)
{
    struct create_batch batch;
    struct try try;

    try_with_queue(&try);
    cr_assert_eq(try_batch(&try, &batch), ERR_INVALID);
    cr_assert_str_eq(try.fault.reason, "BATCH_EMPTY");
    cr_assert_str_eq(try.fault.field, "items");
    try_fini(&try);
}

Test(codec_batch, takes_ten_thousand_items_and_not_one_more)
{
    const size_t payload_lens[] = {0, 1, 100};
    struct create_batch batch;
    struct try try;

    for (size_t i = 0; i < ARRAY_COUNT(payload_lens); i++) {
        try_with_queue(&try);
        for (int item = 0; item < BATCH_ITEM_COUNT_MAX; item++) {
            add_item(&try, NULL, i == 0 ? -1 : 5, payload_lens[i]);
        }
        cr_assert_eq(try_batch(&try, &batch), 0, "%s", try.fault.message);
        cr_assert_eq(batch.count, BATCH_ITEM_COUNT_MAX);
        for (size_t item = 0; item < BATCH_ITEM_COUNT_MAX; item++) {
            cr_assert_eq(codec_read_batch_item(&batch, item, &try.request, &try.fault), 0, "%s",
                         try.fault.message);
        }
        cr_assert_str_eq(try.request.queue.name, "mail");
        arena_fini(&try.arena);
        add_item(&try, NULL, 5, 0);
        cr_assert_eq(try_batch(&try, &batch), ERR_INVALID);
        cr_assert_eq(try.fault.status, RPC_INVALID_ARGUMENT);
        cr_assert_str_eq(try.fault.reason, "BATCH_TOO_LARGE");
        cr_assert(strstr(try.fault.message, "BATCH_ITEM_COUNT_MAX") != NULL);
        try_fini(&try);
    }
}

Test(codec_batch, a_bad_item_is_refused_alone_and_by_its_index)
{
    struct create_batch batch;
    struct try try;

    try_init(&try);
    wire_string(&try.wire, NAMESPACE, "shop");
    add_item(&try, "mail", 1, 1);
    add_item(&try, NULL, 1, 1);
    add_item(&try, "mail", 1, PAYLOAD_BYTES_MAX + 1);
    add_item(&try, "sms", INT64_C(9223372036854775807), 1);
    add_item(&try, "sms", 1, 1);
    cr_assert_eq(try_batch(&try, &batch), 0);
    cr_assert_eq(batch.count, 5);
    cr_assert_eq(codec_read_batch_item(&batch, 0, &try.request, &try.fault), 0);
    cr_assert_str_eq(try.request.queue.tenant, "shop");
    cr_assert_eq(codec_read_batch_item(&batch, 1, &try.request, &try.fault), ERR_INVALID);
    cr_assert_str_eq(try.fault.field, "items[1].queue");
    cr_assert_eq(codec_read_batch_item(&batch, 2, &try.request, &try.fault), ERR_INVALID);
    cr_assert_str_eq(try.fault.field, "items[2].payload");
    cr_assert_eq(codec_read_batch_item(&batch, 3, &try.request, &try.fault), ERR_INVALID);
    cr_assert_str_eq(try.fault.field, "items[3].delay");
    cr_assert_eq(codec_read_batch_item(&batch, 4, &try.request, &try.fault), 0);
    cr_assert_str_eq(try.request.queue.name, "sms");
    try_fini(&try);
}

Test(codec_batch, bad_bytes_in_one_item_harm_no_other)
{
    struct create_batch batch;
    struct try try;

    try_init(&try);
    add_item(&try, "mail", 1, 1);
    add_item(&try, "ma\xff", 1, 1);
    wire_field(&try.wire, ITEMS, "\x12\x7fx", 3);
    wire_field(&try.wire, ITEMS, "\x12\x01\0", 3);
    add_item(&try, "mail", 1, 1);
    cr_assert_eq(try_batch(&try, &batch), 0);
    cr_assert_eq(codec_read_batch_item(&batch, 0, &try.request, &try.fault), 0);
    cr_assert_eq(codec_read_batch_item(&batch, 1, &try.request, &try.fault), ERR_INVALID);
    cr_assert_str_eq(try.fault.reason, "TEXT_INVALID");
    cr_assert_str_eq(try.fault.field, "items[1].queue");
    cr_assert_eq(codec_read_batch_item(&batch, 2, &try.request, &try.fault), ERR_INVALID);
    cr_assert_str_eq(try.fault.reason, "MESSAGE_MALFORMED");
    cr_assert_str_eq(try.fault.field, "items[2].queue");
    cr_assert_eq(codec_read_batch_item(&batch, 3, &try.request, &try.fault), ERR_INVALID);
    cr_assert_str_eq(try.fault.reason, "TEXT_INVALID");
    cr_assert_eq(codec_read_batch_item(&batch, 4, &try.request, &try.fault), 0);
    try_fini(&try);
}

Test(codec_batch, an_answer_to_ten_thousand_bad_items_fits_a_message)
{
    struct fault fault;
    struct buf out;

    buf_init(&out, RPC_MESSAGE_BYTES_MAX);
    fault_set(&fault, RPC_INVALID_ARGUMENT, "AN_UNUSUALLY_LONG_REASON_FOR_SOMETHING",
              "items[9999].payload", "%0350d", 0);
    for (int i = 0; i < BATCH_ITEM_COUNT_MAX; i++) {
        cr_assert_eq(codec_write_batch_result(NULL, &fault, &out), 0);
    }
    buf_fini(&out);
}

Test(codec_batch, results_come_back_in_order_with_their_errors)
{
    struct create_reply reply = {.id = {.seq = 77, .slot = 5}, .created = true, .due_ms = 1234};
    struct create_results results;
    struct create_reply got;
    struct fault fault;
    struct try try;
    bool failed;

    try_init(&try);
    fault_set(&fault, RPC_NOT_FOUND, "QUEUE_NOT_FOUND", "items[1].queue", "no such queue");
    cr_assert_eq(codec_write_batch_result(&reply, NULL, &try.wire), 0);
    cr_assert_eq(codec_write_batch_result(NULL, &fault, &try.wire), 0);
    cr_assert_eq(codec_read_batch_reply(buf_slice(&try.wire), &try.arena, &results, &try.fault), 0);
    cr_assert_eq(results.count, 2);
    cr_assert_eq(codec_read_batch_result(&results, 0, &got, &failed, &try.fault), 0);
    cr_assert(!failed);
    cr_assert_eq(got.id.seq, 77);
    cr_assert_eq(got.id.slot, 5);
    cr_assert_eq(got.due_ms, 1234);
    cr_assert_eq(codec_read_batch_result(&results, 1, &got, &failed, &try.fault), 0);
    cr_assert(failed);
    cr_assert_eq(try.fault.status, RPC_NOT_FOUND);
    cr_assert_str_eq(try.fault.reason, "QUEUE_NOT_FOUND");
    cr_assert_str_eq(try.fault.field, "items[1].queue");
    try_fini(&try);
}

Test(codec_batch, items_written_one_by_one_are_read_as_a_batch)
{
    struct create_request sent = {
        .queue = {"shop", "mail"},
        .when = {.kind = WHEN_DELAY, .delay_ms = 1},
        .payload = slice_of("x"),
        .key = slice_of("k"),
        .key_policy = KEY_REJECT,
    };
    struct create_batch batch;
    struct try try;

    try_init(&try);
    for (int i = 0; i < 3; i++) {
        sent.when.delay_ms = i;
        cr_assert_eq(codec_write_batch_item(&sent, &try.wire), 0);
    }
    cr_assert_eq(try_batch(&try, &batch), 0);
    cr_assert_eq(batch.count, 3);
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(codec_read_batch_item(&batch, i, &try.request, &try.fault), 0);
        cr_assert_eq(try.request.when.delay_ms, (span_ms)i);
        cr_assert_eq(try.request.key_policy, KEY_REJECT);
    }
    try_fini(&try);
}

Test(codec_batch, a_full_buffer_holds_no_half_result)
{
    struct create_reply reply = {.id = {.seq = 77, .slot = 5}, .created = true, .due_ms = 1234};
    size_t len = 0;

    for (size_t max = 0; max < 64; max++) {
        struct buf out;
        int err;

        buf_init(&out, max);
        err = codec_write_batch_result(&reply, NULL, &out);
        cr_assert(err == 0 || err == ERR_TOO_LARGE);
        cr_assert(IMPLIES(err != 0, buf_len(&out) == 0));
        len = buf_len(&out);
        buf_fini(&out);
    }
    cr_assert_gt(len, 20);
}
