/* SPDX-License-Identifier: Apache-2.0
 *
 * What the codec promises about queues.
 */
#include "lib/base/mem.h"
#include "proto/codec_queue_life.h"
#include "tests/lib/wire.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Field numbers of Queue, and of its retry policy. */
enum {
    NAMESPACE = 1,
    NAME,
    TARGET,
    DELIVERY,
    ATTEMPT_TIMEOUT,
    KEY_MEMORY,
    CONCURRENCY,
    RETRY,
    ORDER = 14
};
enum {
    INITIAL_BACKOFF = 1,
    MAX_BACKOFF,
    MULTIPLIER,
    JITTER
};

struct
try {
    struct buf queue; /* the Queue message */
    struct buf wire;  /* the request */
    struct arena arena;
    struct fault fault;
    struct queue out;
    int64_t blocks;
};

static void try_init(struct try *try)
{
    try->blocks = mem_block_count();
    buf_init(&try->queue, 1 << 16);
    buf_init(&try->wire, 1 << 16);
    arena_init(&try->arena, 0);
    wire_string(&try->queue, NAME, "mail");
    wire_string(&try->queue, TARGET, "receiver://localhost:7000");
}

static void try_fini(struct try *try)
{
    arena_fini(&try->arena);
    buf_fini(&try->queue);
    buf_fini(&try->wire);
    cr_assert_eq(mem_block_count(), try->blocks);
}

static int try_read(struct try *try)
{
    wire_field(&try->wire, 1, buf_slice(&try->queue).data, buf_len(&try->queue));
    return codec_read_queue(buf_slice(&try->wire), &try->arena, &try->out, &try->fault);
}

static void expect_refused(struct try *try, const char *reason, const char *field)
{
    cr_assert_eq(try_read(try), ERR_INVALID);
    cr_assert_eq(try->fault.status, RPC_INVALID_ARGUMENT);
    cr_assert_str_eq(try->fault.reason, reason);
    cr_assert_str_eq(try->fault.field, field);
    try_fini(try);
}

static void check_same_retry(const struct retry_policy *got, const struct retry_policy *sent)
{
    cr_assert_eq(got->initial_ms, sent->initial_ms);
    cr_assert_eq(got->multiplier_permille, sent->multiplier_permille);
    cr_assert_eq(got->max_ms, sent->max_ms);
    cr_assert_eq(got->jitter_permille, sent->jitter_permille);
    cr_assert_eq(got->failures_max, sent->failures_max);
    cr_assert_eq(got->unknowns_max, sent->unknowns_max);
    cr_assert_eq(got->age_max_ms, sent->age_max_ms);
}

Test(codec_queue, what_is_absent_has_its_default)
{
    struct queue defaults;
    struct try try;

    queue_init(&defaults);
    try_init(&try);
    cr_assert_eq(try_read(&try), 0, "%s", try.fault.message);
    cr_assert_str_eq(try.out.tenant, "default");
    cr_assert_eq(try.out.target_kind, TARGET_RECEIVER);
    cr_assert_eq(try.out.attempt_timeout_ms, defaults.attempt_timeout_ms);
    cr_assert_eq(try.out.key_memory_ms, defaults.key_memory_ms);
    cr_assert_eq(try.out.concurrency_max, defaults.concurrency_max);
    cr_assert_eq(try.out.retry.jitter_permille, defaults.retry.jitter_permille);
    cr_assert_eq(try.out.retry.failures_max, defaults.retry.failures_max);
    cr_assert(!try.out.at_most_once);
    cr_assert_eq(try.out.order_policy, ORDER_BLOCK);
    cr_assert_eq(try.out.order_failures, QUEUE_ORDER_FAILURES_DEFAULT);
    try_fini(&try);
}

Test(codec_queue, zero_can_be_said_where_it_means_something)
{
    struct buf retry;
    struct try try;

    try_init(&try);
    buf_init(&retry, 256);
    wire_time(&retry, INITIAL_BACKOFF, 0, 0);
    wire_varint(&retry, JITTER, 0);
    wire_field(&try.queue, RETRY, buf_slice(&retry).data, buf_len(&retry));
    wire_time(&try.queue, KEY_MEMORY, 0, 0);
    cr_assert_eq(try_read(&try), 0, "%s", try.fault.message);
    cr_assert_eq(try.out.retry.initial_ms, 0);
    cr_assert_eq(try.out.retry.jitter_permille, 0);
    cr_assert_eq(try.out.key_memory_ms, 0);
    buf_fini(&retry);
    try_fini(&try);
}

Test(codec_queue, every_value_survives_the_way_to_the_wire_and_back)
{
    static const char *const unconfirmed[] = {"broker-2", "broker-3"};
    struct queue_reply sent = {.unconfirmed = unconfirmed, .unconfirmed_count = 2};
    struct queue_reply got;
    struct try try;

    queue_init(&sent.queue);
    (void)snprintf(sent.queue.tenant, sizeof(sent.queue.tenant), "shop");
    (void)snprintf(sent.queue.name, sizeof(sent.queue.name), "mail");
    (void)snprintf(sent.queue.target, sizeof(sent.queue.target),
                   "grpc://mail.shop:7000/shop.Mail/Send");
    sent.queue.id = 12;
    sent.queue.version = 4;
    sent.queue.at_most_once = true;
    sent.queue.attempt_timeout_ms = 1234;
    sent.queue.order_policy = ORDER_SKIP;
    sent.queue.order_failures = 7;
    sent.queue.retry = (struct retry_policy){10, 1500, 20, 0, 30, 40, 50};
    try_init(&try);
    cr_assert_eq(codec_write_queue_reply(&sent, &try.wire), 0);
    cr_assert_eq(codec_read_queue_reply(buf_slice(&try.wire), &try.arena, &got, &try.fault), 0,
                 "%s", try.fault.message);
    sent.queue.target_kind = TARGET_GRPC_METHOD;
    check_same_retry(&got.queue.retry, &sent.queue.retry);
    cr_assert_str_eq(got.queue.target, sent.queue.target);
    cr_assert_eq(got.queue.id, 12);
    cr_assert_eq(got.queue.version, 4);
    cr_assert(got.queue.at_most_once);
    cr_assert_eq(got.queue.attempt_timeout_ms, 1234);
    cr_assert_eq(got.queue.order_policy, ORDER_SKIP);
    cr_assert_eq(got.queue.order_failures, 7);
    cr_assert_eq(got.queue.target_kind, TARGET_GRPC_METHOD);
    cr_assert_eq(got.unconfirmed_count, 2);
    cr_assert_str_eq(got.unconfirmed[1], "broker-3");
    try_fini(&try);
}

Test(codec_queue, refusals_name_the_field)
{
    char target[TARGET_BYTES_MAX + 2];
    struct buf retry;
    struct try try;

    try_init(&try);
    wire_string(&try.queue, NAME, "Mail");
    expect_refused(&try, "NAME_INVALID", "queue.name");
    try_init(&try);
    wire_string(&try.queue, TARGET, "http://x");
    expect_refused(&try, "TARGET_INVALID", "queue.target");
    memset(target, 'a', sizeof(target) - 1);
    target[sizeof(target) - 1] = '\0';
    try_init(&try);
    wire_string(&try.queue, TARGET, target);
    expect_refused(&try, "TARGET_INVALID", "queue.target");
    try_init(&try);
    wire_varint(&try.queue, DELIVERY, 3);
    expect_refused(&try, "ENUM_UNKNOWN", "queue.delivery");
    try_init(&try);
    wire_time(&try.queue, ATTEMPT_TIMEOUT, -1, 0);
    expect_refused(&try, "VALUE_OUT_OF_RANGE", "queue.attempt_timeout");
    try_init(&try);
    wire_time(&try.queue, ATTEMPT_TIMEOUT, INT64_MAX, 0);
    expect_refused(&try, "TIME_OUT_OF_RANGE", "queue.attempt_timeout");
    try_init(&try);
    wire_varint(&try.queue, CONCURRENCY, UINT32_MAX);
    expect_refused(&try, "VALUE_OUT_OF_RANGE", "queue.concurrency_max");
    try_init(&try);
    buf_init(&retry, 256);
    wire_time(&retry, MAX_BACKOFF, 0, 500000000);
    wire_field(&try.queue, RETRY, buf_slice(&retry).data, buf_len(&retry));
    buf_fini(&retry);
    expect_refused(&try, "VALUE_OUT_OF_RANGE", "queue.retry.max_backoff");
    try_init(&try);
    buf_init(&retry, 256);
    wire_varint(&retry, 2, 3);
    wire_field(&try.queue, ORDER, buf_slice(&retry).data, buf_len(&retry));
    buf_fini(&retry);
    expect_refused(&try, "FIELD_UNUSED", "queue.order.failures");
}

Test(codec_queue, a_target_is_taken_only_if_it_can_be_dialled)
{
    static const char *const good[] = {"receiver://a:1",
                                       "receivers://a:1",
                                       "grpcs://a:1/b.C/d",
                                       "receiver://a.b-c_d.example:65535",
                                       "receiver://127.0.0.1:80/",
                                       "receiver://[::1]:80",
                                       "receiver://[::]:80",
                                       "receiver://[1:2:3:4:5:6:7:8]:80",
                                       "receiver://[1:2:3:4:5:6:7::]:80",
                                       "receiver://[1:2:3:4:5:6:0.0.0.255]:80",
                                       "grpc://[fe80::1:2.3.4.5]:80/a.B/C",
                                       "grpc://dns:80/a.B/C"};
    static const char *const bad[] = {"receiver://a",
                                      "receiver://a:",
                                      "receiver://a:0",
                                      "receiver://a:65536",
                                      "receiver://:80",
                                      "receiver://a:b:80",
                                      "receiver://::1:80",
                                      "receiver://[::1:80",
                                      "receiver://S::1]:80",
                                      "receiver://[]:80",
                                      "receiver://[1:2]:80",
                                      "receiver://[1::2::3]:80",
                                      "receiver://[1:::2]:80",
                                      "receiver://[:1::]:80",
                                      "receiver://[1::2:]:80",
                                      "receiver://[1:2:3:4:5:6:7:8:9]:80",
                                      "receiver://[1::3:4:5:6:7:8:9]:80",
                                      "receiver://[12345::]:80",
                                      "receiver://[::1.2.3]:80",
                                      "receiver://[::1.2.3.256]:80",
                                      "receiver://[::1.2.3.04]:80",
                                      "receiver://[::1.2.3.4:5]:80",
                                      "receiver://[a]:80",
                                      "receiver://[::1%lo]:80",
                                      "receiver://a b:80",
                                      "receiver://a:8 0",
                                      "receiver://a:000080",
                                      "grpc://a:80",
                                      "grpc://a:80/B",
                                      "grpc://a:80//B/C",
                                      "grpc://a:80/a.B/",
                                      "receiver://a:80/b",
                                      "http://a:80",
                                      "receiverss://a:80",
                                      "grpcs://a:80",
                                      "receiver:/a:80",
                                      ""};
    char host[300];
    char target[400];
    struct target_address address;
    char errmsg[512];

    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        cr_assert_eq(target_parse(good[i], &address, errmsg, sizeof(errmsg)), 0, "%s", good[i]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        cr_assert_eq(target_parse(bad[i], &address, errmsg, sizeof(errmsg)), ERR_INVALID, "%s",
                     bad[i]);
    }
    memset(host, 'a', sizeof(host));
    for (int len = HOST_BYTES_MAX; len <= HOST_BYTES_MAX + 1; len++) {
        (void)snprintf(target, sizeof(target), "receiver://%.*s:80", len, host);
        cr_assert_eq(target_parse(target, &address, errmsg, sizeof(errmsg)) == 0,
                     len == HOST_BYTES_MAX);
    }
}

Test(codec_queue, a_request_without_a_queue_is_refused)
{
    struct try try;

    try_init(&try);
    cr_assert_eq(codec_read_queue((struct slice){NULL, 0}, &try.arena, &try.out, &try.fault),
                 ERR_INVALID);
    cr_assert_str_eq(try.fault.field, "queue");
    try_fini(&try);
}

Test(codec_queue, pages_are_bounded_and_tokens_checked)
{
    const char *bad_tokens[] = {"x", "-1", "99999999999999999999", "1 "};
    struct queue_list_request request;
    struct try try;

    for (size_t i = 0; i < ARRAY_COUNT(bad_tokens); i++) {
        int err;

        try_init(&try);
        wire_string(&try.wire, 3, bad_tokens[i]);
        err = codec_read_queue_list(buf_slice(&try.wire), &try.arena, &request, &try.fault);
        cr_assert_eq(err, ERR_INVALID);
        cr_assert_str_eq(try.fault.reason, "TOKEN_INVALID");
        try_fini(&try);
    }
    try_init(&try);
    wire_varint(&try.wire, 2, 4000000000);
    wire_string(&try.wire, 3, "17");
    cr_assert_eq(codec_read_queue_list(buf_slice(&try.wire), &try.arena, &request, &try.fault), 0);
    cr_assert_eq(request.page_size, QUEUE_PAGE_COUNT_MAX);
    cr_assert_eq(request.after_id, 17);
    cr_assert_str_eq(request.tenant, "");
    try_fini(&try);
}

Test(codec_queue, a_list_is_read_as_it_was_written)
{
    struct queue_list_reply reply;
    struct queue queue;
    struct try try;

    try_init(&try);
    queue_init(&queue);
    (void)snprintf(queue.tenant, sizeof(queue.tenant), "default");
    (void)snprintf(queue.target, sizeof(queue.target), "receiver://h:1");
    for (uint32_t i = 1; i <= 3; i++) {
        queue.id = i;
        (void)snprintf(queue.name, sizeof(queue.name), "q%u", i);
        cr_assert_eq(codec_write_queue_list_item(&queue, &try.wire), 0);
    }
    cr_assert_eq(codec_write_queue_list_end(3, &try.wire), 0);
    cr_assert_eq(codec_read_queue_list_reply(buf_slice(&try.wire), &try.arena, &reply, &try.fault),
                 0);
    cr_assert_eq(reply.count, 3);
    cr_assert_eq(reply.after_id, 3);
    cr_assert_eq(codec_read_queue_list_item(&reply, 2, &queue, &try.fault), 0);
    cr_assert_str_eq(queue.name, "q3");
    cr_assert_eq(queue.id, 3);
    try_fini(&try);
}

static struct queue some_queue(void)
{
    struct queue queue;

    queue_init(&queue);
    (void)snprintf(queue.tenant, sizeof(queue.tenant), "shop");
    (void)snprintf(queue.name, sizeof(queue.name), "mail");
    (void)snprintf(queue.target, sizeof(queue.target), "receiver://localhost:7000");
    queue.id = 5;
    queue.version = 3;
    return queue;
}

Test(codec_queue, pause_drain_results_and_expiry_are_shown)
{
    struct try try;
    struct queue_reply sent = {.queue = some_queue()};
    struct queue_reply got;

    try_init(&try);
    sent.queue.is_paused = true;
    sent.queue.paused_until_ms = 123456;
    sent.queue.is_draining = true;
    sent.queue.result_memory_ms = 3600000;
    sent.queue.expire_after_ms = 60000;
    cr_assert_eq(codec_write_queue_reply(&sent, &try.wire), 0);
    cr_assert_eq(codec_read_queue_reply(buf_slice(&try.wire), &try.arena, &got, &try.fault), 0);
    cr_assert(got.queue.is_paused && got.queue.is_draining);
    cr_assert_eq(got.queue.paused_until_ms, 123456);
    cr_assert_eq(got.queue.result_memory_ms, 3600000);
    cr_assert_eq(got.queue.expire_after_ms, 60000);
    try_fini(&try);
}

/* A client that writes back what it has read must not end a pause that began meanwhile. */
Test(codec_queue, a_caller_cannot_say_the_state)
{
    struct try try;
    struct queue sent = some_queue();

    try_init(&try);
    sent.is_paused = true;
    sent.paused_until_ms = 5;
    sent.is_draining = true;
    buf_clear(&try.wire);
    cr_assert_eq(codec_write_queue(&sent, &try.wire), 0);
    cr_assert_eq(codec_read_queue(buf_slice(&try.wire), &try.arena, &try.out, &try.fault), 0);
    cr_assert(!try.out.is_paused && !try.out.is_draining);
    cr_assert_eq(try.out.paused_until_ms, 0);
    try_fini(&try);
}

static void check_pause(struct pause_request sent, enum when_kind kind)
{
    struct try try;
    struct pause_request got;

    try_init(&try);
    sent.queue = (struct queue_name){"shop", "mail"};
    cr_assert_eq(codec_write_pause(&sent, &try.wire), 0);
    cr_assert_eq(codec_read_pause(buf_slice(&try.wire), &try.arena, &got, &try.fault), 0);
    cr_assert_eq(got.end.kind, kind);
    cr_assert_str_eq(got.queue.name, "mail");
    if (kind != WHEN_NONE) {
        cr_assert_eq(kind == WHEN_DUE ? got.end.due_ms : got.end.delay_ms, 5000);
    }
    try_fini(&try);
}

Test(codec_queue, a_pause_ends_at_a_time_or_after_a_time_or_never)
{
    check_pause((struct pause_request){.end = {.kind = WHEN_NONE}}, WHEN_NONE);
    check_pause((struct pause_request){.end = {.kind = WHEN_DUE, .due_ms = 5000}}, WHEN_DUE);
    check_pause((struct pause_request){.end = {.kind = WHEN_DELAY, .delay_ms = 5000}}, WHEN_DELAY);
}

Test(codec_queue, a_pause_of_more_than_a_year_is_refused_with_its_limit)
{
    struct try try;
    struct pause_request got;
    struct pause_request sent = {
        .queue = {"shop", "mail"},
        .end = {.kind = WHEN_DELAY, .delay_ms = QUEUE_PAUSE_MS_MAX + 1},
    };

    try_init(&try);
    cr_assert_eq(codec_write_pause(&sent, &try.wire), 0);
    cr_assert_eq(codec_read_pause(buf_slice(&try.wire), &try.arena, &got, &try.fault), ERR_INVALID);
    cr_assert_str_eq(try.fault.field, "duration");
    cr_assert_not_null(strstr(try.fault.message, "QUEUE_PAUSE_MS_MAX"));
    try_fini(&try);
}

Test(codec_queue, a_delete_names_the_version_it_means)
{
    struct try try;
    struct queue_delete_request sent = {{"shop", "mail"}, 4};
    struct queue_delete_request got;

    try_init(&try);
    cr_assert_eq(codec_write_queue_delete(&sent, &try.wire), 0);
    cr_assert_eq(codec_read_queue_delete(buf_slice(&try.wire), &try.arena, &got, &try.fault), 0);
    cr_assert_eq(got.version, 4);
    cr_assert_str_eq(got.queue.tenant, "shop");
    try_fini(&try);
}

Test(codec_queue, figures_come_back)
{
    struct try try;
    const uint32_t missing[] = {3, 300};
    struct queue queue = some_queue();
    struct queue_stats sent = {
        .pending = UINT64_C(1) << 40,
        .overdue = 2,
        .dead = 3,
        .first_due_ms = 1000,
        .count_ms = 2000,
        .running = 4,
        .done = 5,
        .retried = 6,
        .died = 7,
        .expired = 8,
        .unknown = 9,
        .is_at_least = true,
        .missing = missing,
        .missing_count = 2,
    };
    struct queue_stats got;

    try_init(&try);
    cr_assert_eq(codec_write_stats_reply(&queue, &sent, &try.wire), 0);
    cr_assert_eq(
        codec_read_stats_reply(buf_slice(&try.wire), &try.arena, &try.out, &got, &try.fault), 0);
    cr_assert_eq(try.out.id, 5);
    cr_assert_eq(got.pending, UINT64_C(1) << 40);
    cr_assert_eq(got.first_due_ms, 1000);
    cr_assert_eq(got.count_ms, 2000);
    cr_assert_eq(got.running, 4);
    cr_assert_eq(got.unknown, 9);
    cr_assert(got.is_at_least);
    cr_assert(got.missing_count == 2 && got.missing[1] == 300);
    try_fini(&try);
}
