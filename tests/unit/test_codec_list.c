/* SPDX-License-Identifier: Apache-2.0
 *
 * What the codec promises about lists of tasks, bulk cancels, Explain, and dead letters.
 */
#include "lib/base/mem.h"
#include "lib/model/tags.h"
#include "proto/codec_dead.h"
#include "proto/codec_list.h"
#include "tests/lib/wire.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Field numbers of the requests. */
enum {
    NAMESPACE = 1,
    QUEUE,
    LIST_STATES = 3,
    LIST_TAGS = 6,
    LIST_PAGE_SIZE = 7,
    LIST_TOKEN = 8,
    REDRIVE_IDS = 3,
    REDRIVE_CONTAINS = 4,
    REDRIVE_RATE = 5
};

static struct buf wire;
static struct arena arena;
static struct fault fault;
static int64_t blocks;

static void start(void)
{
    blocks = mem_block_count();
    buf_init(&wire, RPC_MESSAGE_BYTES_MAX);
    arena_init(&arena, 0);
}

static void finish(void)
{
    arena_fini(&arena);
    buf_fini(&wire);
    cr_assert_eq(mem_block_count(), blocks);
}

TestSuite(codec_list, .init = start, .fini = finish);

static void check_text(struct slice got, const char *wanted)
{
    cr_assert(slice_equal(got, slice_of(wanted)), "%.*s", (int)got.len, (const char *)got.data);
}

static struct task_view some_view(void)
{
    return (struct task_view){
        .id = {.slot = 7, .seq = 99},
        .queue = {"shop", "mail"},
        .key = slice_of("order-1"),
        .payload = slice_of("hello"),
        .due_ms = 1000,
        .created_ms = 500,
        .state = TASK_VIEW_RETRYING,
        .attempt = 3,
        .failures = 2,
        .tags = slice_of("colour=red\nsize=9\n"),
        .expire_ms = 9000,
        .ended_ms = WALL_NEVER,
        .forget_ms = WALL_NEVER,
    };
}

static void check_view(const struct task_view *got)
{
    cr_assert_eq(got->id.seq, 99);
    cr_assert_str_eq(got->queue.name, "mail");
    check_text(got->key, "order-1");
    check_text(got->payload, "hello");
    check_text(got->tags, "colour=red\nsize=9\n");
    cr_assert_eq(got->due_ms, 1000);
    cr_assert_eq(got->state, TASK_VIEW_RETRYING);
    cr_assert_eq(got->expire_ms, 9000);
}

Test(codec_list, a_list_request_comes_back)
{
    struct list_request sent = {
        .queue = {"shop", "mail"},
        .states = 1U << TASK_VIEW_READY | 1U << TASK_VIEW_RUNNING,
        .due_from_ms = 1000,
        .due_before_ms = 2000,
        .tags = slice_of("a=1\nb=\n"),
        .page_size = 7,
        .mark = {3, 4, 5, 6},
        .with_payload = true,
    };
    struct list_request got;

    cr_assert_eq(codec_write_list(&sent, &wire), 0);
    cr_assert_eq(codec_read_list(buf_slice(&wire), &arena, &got, &fault), 0, "%s", fault.message);
    cr_assert_str_eq(got.queue.tenant, "shop");
    cr_assert_eq(got.states, sent.states);
    cr_assert_eq(got.due_from_ms, 1000);
    cr_assert_eq(got.due_before_ms, 2000);
    check_text(got.tags, "a=1\nb=\n");
    cr_assert_eq(got.page_size, 7);
    cr_assert_eq(got.mark.seq, 5);
    cr_assert(got.with_payload);
}

Test(codec_list, an_empty_list_request_means_everything_of_the_default_namespace)
{
    struct list_request got;

    cr_assert_eq(codec_read_list(buf_slice(&wire), &arena, &got, &fault), 0);
    cr_assert_str_eq(got.queue.tenant, "default");
    cr_assert_str_eq(got.queue.name, "");
    cr_assert_eq(got.states, 0);
    cr_assert_eq(got.due_before_ms, WALL_NEVER);
    cr_assert_eq(got.page_size, LIST_PAGE_COUNT_DEFAULT);
    cr_assert_eq(got.mark.bucket, -1);
}

Test(codec_list, a_page_is_no_larger_than_it_may_be)
{
    struct list_request got;

    wire_varint(&wire, LIST_PAGE_SIZE, 1000000);
    cr_assert_eq(codec_read_list(buf_slice(&wire), &arena, &got, &fault), 0);
    cr_assert_eq(got.page_size, LIST_PAGE_COUNT_MAX);
}

static void expect_list_refused(const char *reason, const char *field)
{
    struct list_request got;

    cr_assert_eq(codec_read_list(buf_slice(&wire), &arena, &got, &fault), ERR_INVALID);
    cr_assert_str_eq(fault.reason, reason);
    cr_assert_str_eq(fault.field, field);
}

Test(codec_list, a_state_that_no_pending_task_has_is_refused)
{
    wire_varint(&wire, LIST_STATES, TASK_VIEW_DEAD);
    expect_list_refused("ENUM_UNKNOWN", "states");
}

Test(codec_list, a_token_of_somebody_else_is_refused)
{
    wire_string(&wire, LIST_TOKEN, "17");
    expect_list_refused("TOKEN_INVALID", "page_token");
}

Test(codec_list, bad_tags_are_refused)
{
    wire_field(&wire, LIST_TAGS, "\x0a\x01 \x12\x01x", 6);
    expect_list_refused("TAGS_INVALID", "tags");
}

Test(codec_list, a_page_of_tasks_comes_back)
{
    struct task_view view = some_view();
    struct list_reply reply;
    struct task_view got;

    cr_assert_eq(codec_write_list_item(&view, &wire), 0);
    cr_assert_eq(codec_write_list_item(&view, &wire), 0);
    cr_assert_eq(codec_write_list_end((struct page_mark){.shard = 2, .bucket = -1}, 16, &wire), 0);
    cr_assert_eq(codec_read_list_reply(buf_slice(&wire), &arena, &reply, &fault), 0);
    cr_assert_eq(reply.count, 2);
    cr_assert_str_eq(reply.next_token, "2.0.0.0");
    cr_assert_eq(codec_read_list_item(&reply, 1, &got, &fault), 0);
    check_view(&got);
}

/* The largest page that any broker can answer must be one that any client can read. */
Test(codec_list, the_fullest_page_can_be_read)
{
    static uint8_t payload[PAYLOAD_INLINE_BYTES_MAX];
    static char tags_text[TAGS_BYTES_MAX];
    static char value[TAG_VALUE_BYTES_MAX];
    struct tag tags[TAG_COUNT_MAX];
    char names[TAG_COUNT_MAX][TAG_NAME_BYTES_MAX];
    struct task_view view = some_view();
    struct list_reply reply;
    struct task_view got;
    char errmsg[200];
    size_t len;

    memset(value, 'v', sizeof(value));
    for (size_t i = 0; i < TAG_COUNT_MAX; i++) {
        memset(names[i], 'a' + (int)i, TAG_NAME_BYTES_MAX);
        tags[i].name = (struct slice){(uint8_t *)names[i], TAG_NAME_BYTES_MAX};
        tags[i].value = (struct slice){(uint8_t *)value, sizeof(value)};
    }
    cr_assert_eq(tags_write(tags, TAG_COUNT_MAX, tags_text, &len, errmsg, sizeof(errmsg)), 0);
    view.tags = (struct slice){(uint8_t *)tags_text, len};
    view.payload = (struct slice){payload, sizeof(payload)};
    for (int i = 0; i < LIST_PAGE_COUNT_MAX; i++) {
        cr_assert_eq(codec_write_list_item(&view, &wire), 0);
    }
    cr_assert_eq(codec_read_list_reply(buf_slice(&wire), &arena, &reply, &fault), 0, "%s",
                 fault.message);
    cr_assert_eq(codec_read_list_item(&reply, LIST_PAGE_COUNT_MAX - 1, &got, &fault), 0);
    cr_assert(slice_equal(got.tags, view.tags));
}

Test(codec_list, an_ended_task_says_how_it_ended)
{
    struct task_view view = some_view();
    struct task_view got;

    view.state = TASK_VIEW_DEAD;
    view.ended_ms = 5000;
    view.error = (struct slice){(const uint8_t *)"bad \xff\0end", 9};
    view.response = slice_of("yes");
    cr_assert_eq(codec_write_get_reply(&view, &wire), 0);
    cr_assert_eq(codec_read_get_reply(buf_slice(&wire), &arena, &got, &fault), 0, "%s",
                 fault.message);
    cr_assert_eq(got.state, TASK_VIEW_DEAD);
    cr_assert_eq(got.ended_ms, 5000);
    cr_assert_eq(got.forget_ms, WALL_NEVER);
    check_text(got.error, "bad ??end");
    check_text(got.response, "yes");
}

Test(codec_list, items_of_a_bulk_cancel_stand_for_themselves)
{
    struct task_name by_id = {.queue = {"", ""}, .id = {.slot = 1, .seq = 2}};
    struct task_name by_key = {.queue = {"shop", "mail"}, .key = slice_of("k")};
    struct create_batch batch;
    struct task_name got;

    cr_assert_eq(codec_write_cancel_item(&by_id, &wire), 0);
    wire_string(&wire, 3, "garbage that is no message");
    cr_assert_eq(codec_write_cancel_item(&by_key, &wire), 0);
    cr_assert_eq(codec_read_batch(buf_slice(&wire), &arena, &batch, &fault), 0);
    cr_assert_eq(batch.count, 3);
    cr_assert_eq(codec_read_cancel_item(&batch, 0, &got, &fault), 0);
    cr_assert_eq(got.id.seq, 2);
    cr_assert_eq(codec_read_cancel_item(&batch, 1, &got, &fault), ERR_INVALID);
    cr_assert_eq(strncmp(fault.field, "items[1]", 8), 0);
    cr_assert_eq(codec_read_cancel_item(&batch, 2, &got, &fault), 0);
    check_text(got.key, "k");
}

Test(codec_list, results_of_a_bulk_cancel_come_back)
{
    struct cancel_reply sent = {CANCEL_ANSWER_STOPPED, 4, {.slot = 1, .seq = 2}};
    struct fault refused;
    struct create_results results;
    struct cancel_reply got;
    bool failed;

    fault_set(&refused, RPC_UNKNOWN, "OUTCOME_UNKNOWN", NULL, "look again");
    cr_assert_eq(codec_write_cancel_result(&sent, NULL, &wire), 0);
    cr_assert_eq(codec_write_cancel_result(NULL, &refused, &wire), 0);
    cr_assert_eq(codec_read_cancel_results(buf_slice(&wire), &arena, &results, &fault), 0);
    cr_assert_eq(codec_read_cancel_result(&results, 0, &got, &failed, &fault), 0);
    cr_assert(!failed && got.outcome == CANCEL_ANSWER_STOPPED && got.attempt == 4);
    cr_assert_eq(got.id.seq, 2);
    cr_assert_eq(codec_read_cancel_result(&results, 1, &got, &failed, &fault), 0);
    cr_assert(failed);
    cr_assert_str_eq(fault.reason, "OUTCOME_UNKNOWN");
}

Test(codec_list, an_explanation_comes_back)
{
    struct explain_reply sent = {
        .task = some_view(),
        .reason = WAIT_CONCURRENCY,
        .text = "10 of 10 attempts run",
        .until_ms = 3000,
        .shard = 9,
        .broker = "b1",
    };
    struct explain_reply got;

    cr_assert_eq(codec_write_explain_reply(&sent, &wire), 0);
    cr_assert_eq(codec_read_explain_reply(buf_slice(&wire), &arena, &got, &fault), 0);
    cr_assert_eq(got.reason, WAIT_CONCURRENCY);
    cr_assert_str_eq(got.text, sent.text);
    cr_assert_eq(got.until_ms, 3000);
    cr_assert_eq(got.shard, 9);
    cr_assert_str_eq(got.broker, "b1");
    check_view(&got.task);
}

Test(codec_list, requests_about_dead_letters_come_back)
{
    struct task_id ids[] = {{.slot = 1, .seq = 2}, {.slot = 3, .seq = 4}};
    struct dead_request sent = {
        .queue = {"shop", "mail"},
        .error_contains = slice_of("timeout"),
        .ids = ids,
        .id_count = 2,
        .rate_millis = 2500,
        .count_max = 17,
        .mark = {1, 2, 3, 4},
        .with_payload = true,
    };
    struct dead_request got;

    cr_assert_eq(codec_write_dead_redrive(&sent, &wire), 0);
    cr_assert_eq(codec_read_dead_redrive(buf_slice(&wire), &arena, &got, &fault), 0, "%s",
                 fault.message);
    cr_assert_eq(got.id_count, 2);
    cr_assert_eq(got.ids[1].seq, 4);
    cr_assert_eq(got.rate_millis, 2500);
    cr_assert_eq(got.count_max, 17);
    cr_assert_eq(got.mark.count, 4);
    check_text(got.error_contains, "timeout");
    buf_clear(&wire);
    cr_assert_eq(codec_write_dead_purge(&sent, &wire), 0);
    cr_assert_eq(codec_read_dead_purge(buf_slice(&wire), &arena, &got, &fault), 0);
    cr_assert_eq(got.ids[0].slot, 1);
    buf_clear(&wire);
    cr_assert_eq(codec_write_dead_list(&sent, &wire), 0);
    cr_assert_eq(codec_read_dead_list(buf_slice(&wire), &arena, &got, &fault), 0);
    cr_assert(got.with_payload && got.count_max == 17);
    buf_clear(&wire);
    cr_assert_eq(codec_write_dead_group(&sent, &wire), 0);
    cr_assert_eq(codec_read_dead_group(buf_slice(&wire), &arena, &got, &fault), 0);
    cr_assert_str_eq(got.queue.name, "mail");
}

static void expect_redrive_refused(const char *reason, const char *field)
{
    struct dead_request got;

    wire_string(&wire, QUEUE, "mail");
    cr_assert_eq(codec_read_dead_redrive(buf_slice(&wire), &arena, &got, &fault), ERR_INVALID);
    cr_assert_str_eq(fault.reason, reason);
    cr_assert_str_eq(fault.field, field);
}

Test(codec_list, a_bad_id_of_a_redrive_is_named)
{
    wire_string(&wire, REDRIVE_IDS, "0a7-0000012300000001");
    wire_string(&wire, REDRIVE_IDS, "what");
    expect_redrive_refused("ID_INVALID", "ids[1]");
}

Test(codec_list, a_long_filter_is_refused_with_its_limit)
{
    char text[DEAD_FILTER_BYTES_MAX + 2];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    wire_string(&wire, REDRIVE_CONTAINS, text);
    expect_redrive_refused("FILTER_TOO_LONG", "error_contains");
    cr_assert_not_null(strstr(fault.message, "DEAD_FILTER_BYTES_MAX"));
}

static void put_double(uint32_t number, double value)
{
    wire_raw_varint(&wire, (uint64_t)number << 3U | 1U);
    (void)buf_append(&wire, &value, sizeof(value));
}

Test(codec_list, a_negative_rate_is_refused)
{
    put_double(REDRIVE_RATE, -1);
    expect_redrive_refused("VALUE_OUT_OF_RANGE", "rate_per_second");
}

Test(codec_list, a_rate_that_is_no_number_is_refused)
{
    put_double(REDRIVE_RATE, 0.0 / strtod("0", NULL));
    expect_redrive_refused("VALUE_OUT_OF_RANGE", "rate_per_second");
}

Test(codec_list, a_page_of_dead_letters_comes_back)
{
    struct task_view view = some_view();
    struct list_reply reply;
    struct task_view got;

    view.ended_ms = 7000;
    view.error = slice_of("refused");
    cr_assert_eq(codec_write_dead_item(&view, &wire), 0);
    cr_assert_eq(codec_write_dead_end((struct page_mark){.shard = 16}, 16, &wire), 0);
    cr_assert_eq(codec_read_dead_reply(buf_slice(&wire), &arena, &reply, &fault), 0);
    cr_assert_eq(reply.count, 1);
    cr_assert_str_eq(reply.next_token, "");
    cr_assert_eq(codec_read_dead_item(&reply, 0, &got, &fault), 0);
    cr_assert_eq(got.ended_ms, 7000);
    check_text(got.error, "refused");
    check_text(got.tags, "colour=red\nsize=9\n");
}

Test(codec_list, groups_of_dead_letters_come_back)
{
    struct dead_group sent = {slice_of("code #"), 12, {.slot = 1, .seq = 2}, 10, 20};
    struct dead_groups groups;
    struct dead_group got;

    cr_assert_eq(codec_write_dead_group_item(&sent, &wire), 0);
    cr_assert_eq(codec_write_dead_group_end(12, true, &wire), 0);
    cr_assert_eq(codec_read_dead_groups(buf_slice(&wire), &arena, &groups, &fault), 0);
    cr_assert(groups.count == 1 && groups.looked_at == 12 && groups.is_partial);
    cr_assert_eq(codec_read_dead_group_item(&groups, 0, &got, &fault), 0);
    check_text(got.error, "code #");
    cr_assert_eq(got.count, 12);
    cr_assert_eq(got.last_ms, 20);
}

Test(codec_list, answers_of_redrive_and_purge_come_back)
{
    struct dead_done sent = {3, 1, "2.0.0.0"};
    struct dead_done got;

    cr_assert_eq(codec_write_redrive_reply(&sent, &wire), 0);
    cr_assert_eq(codec_read_redrive_reply(buf_slice(&wire), &arena, &got, &fault), 0);
    cr_assert(got.handled == 3 && got.skipped == 1);
    cr_assert_str_eq(got.next_token, "2.0.0.0");
    buf_clear(&wire);
    cr_assert_eq(codec_write_purge_reply(&sent, &wire), 0);
    cr_assert_eq(codec_read_purge_reply(buf_slice(&wire), &arena, &got, &fault), 0);
    cr_assert_eq(got.handled, 3);
}
