/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls by another door than gRPC, to the methods of a server.
 */
#include "lib/io/clock.h"
#include "lib/rpc/rpc_local.h"
#include "tests/integration/rpc_world.h"
#include "tests/lib/must.h"

#include <stdio.h>
#include <string.h>

/* One call and what came of it. */
struct knock {
    struct world *world;
    struct rpc_local_options options;
    int answers;
    enum rpc_status status;
    span_ms retry_delay;
    char response[64];
    char message[128];
    char details[32];
};

static void copy(char *to, size_t max, struct slice from)
{
    (void)snprintf(to, max, "%.*s", (int)from.len,
                   from.data == NULL ? "" : (const char *)from.data);
}

static void on_answer(const struct rpc_answer *answer, void *ctx)
{
    struct knock *knock = ctx;

    knock->answers++;
    knock->status = answer->status;
    knock->retry_delay = answer->retry_delay;
    copy(knock->response, sizeof(knock->response), answer->response);
    copy(knock->message, sizeof(knock->message),
         slice_of(answer->message == NULL ? "" : answer->message));
    copy(knock->details, sizeof(knock->details), answer->details);
}

static void prepare_knock(struct knock *knock, struct world *world, const char *path,
                          const char *request)
{
    *knock = (struct knock){
        .world = world,
        .options = {.path = slice_of(path),
                    .request = slice_of(request),
                    .peer = "127.0.0.1:1",
                    .deadline_us = BOOT_NEVER,
                    .cb = on_answer},
    };
}

static void knock_on(struct knock *knock)
{
    knock->options.ctx = knock;
    rpc_server_call(knock->world->server, &knock->options);
}

/* Knock with a deadline that has not passed before the call is begun, however slow the machine. */
static void knock_in_time(struct knock *knock, struct world *world, const char *path)
{
    for (span_ms ms = 20; world->held == NULL; ms *= 2) {
        MUST_LE(ms, 10000);
        prepare_knock(knock, world, path, "");
        knock->options.deadline_us = clock_boot_us() + ms * US_PER_MS;
        knock_on(knock);
    }
    MUST_EQ(knock->answers, 0);
}

static uint64_t open_calls(const struct world *world)
{
    struct rpc_server_stats stats;

    rpc_server_get_stats(world->server, &stats);
    return stats.calls_open;
}

static void a_call_is_answered_as_over_grpc(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct knock knock;

    prepare_knock(&knock, world, ECHO, "hello");
    knock_on(&knock);
    MUST_EQ(knock.answers, 1);
    MUST_EQ(knock.status, RPC_OK);
    MUST_EQ_TEXT(knock.response, "hello");
    MUST_EQ(open_calls(world), 0);
    close_world(world);
}

static void metadata_details_and_delay_travel(void)
{
    const struct rpc_local_field fields[] = {
        {slice_of("x-text"), slice_of("some text")},
        {slice_of("x-raw-bin"), slice_of("AAEC")},
    };
    struct world *world = open_pair(NULL, NULL);
    struct knock knock;

    prepare_knock(&knock, world, TELL, "");
    knock.options.metadata = fields;
    knock.options.metadata_count = 2;
    knock_on(&knock);
    MUST_EQ(knock.status, RPC_ABORTED);
    MUST_EQ_TEXT(knock.message, "some text/3/\xc3\xa4%");
    MUST_EQ_TEXT(knock.details, "details");
    MUST_EQ(knock.retry_delay, 70);
    close_world(world);
}

static void what_the_server_would_refuse_is_refused(void)
{
    static uint8_t large[(4U << 20) + 1];
    struct world *world = open_pair(NULL, NULL);
    struct rpc_local_field field = {slice_of("x-long"), {large, 1U << 20}};
    struct knock knock;

    prepare_knock(&knock, world, "/foliot.test.Peer/Nothing", "");
    knock_on(&knock);
    MUST_EQ(knock.status, RPC_UNIMPLEMENTED);
    prepare_knock(&knock, world, ECHO, "");
    knock.options.request = (struct slice){large, sizeof(large)};
    knock_on(&knock);
    MUST_EQ(knock.status, RPC_RESOURCE_EXHAUSTED);
    prepare_knock(&knock, world, ECHO, "");
    knock.options.metadata = &field;
    knock.options.metadata_count = 1;
    knock_on(&knock);
    MUST_EQ(knock.status, RPC_RESOURCE_EXHAUSTED);
    MUST_EQ(knock.answers, 1);
    MUST_EQ(open_calls(world), 0);
    close_world(world);
}

static void a_deadline_ends_the_call_and_tells_the_handler(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct knock knock;

    knock_in_time(&knock, world, WAIT);
    TURN_UNTIL(world, knock.answers > 0);
    MUST_EQ(knock.status, RPC_DEADLINE_EXCEEDED);
    MUST_EQ(world->cancelled_count, 1); // Its handler has answered late, inside of that.
    MUST_EQ(open_calls(world), 0);
    close_world(world);
}

/* Holds its call and does not ask to be told. */
static void on_deaf(struct rpc_call *call, struct slice request, void *ctx)
{
    struct world *world = ctx;

    (void)request;
    world->held = call;
}

/* A caller in another thread reads the clock itself: the loop's own moment may be older. */
static void a_call_that_comes_too_late_is_not_begun(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct knock knock;
    boot_us due_us = clock_boot_us();

    MUST(due_us > loop_now_us(world->loop));
    prepare_knock(&knock, world, ECHO, "hello");
    knock.options.deadline_us = due_us;
    knock_on(&knock);
    MUST_EQ(knock.answers, 1);
    MUST_EQ(knock.status, RPC_DEADLINE_EXCEEDED);
    MUST(strstr(knock.message, "nothing happened") != NULL);
    close_world(world);
}

static void an_answer_after_the_deadline_is_dropped(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct rpc_method method = {.path = "/foliot.test.Peer/Deaf", .handler = on_deaf, .ctx = world};
    struct knock knock;

    MUST_OK(rpc_server_add(world->server, &method));
    knock_in_time(&knock, world, method.path);
    TURN_UNTIL(world, knock.answers > 0);
    MUST_EQ(knock.status, RPC_DEADLINE_EXCEEDED);
    MUST_EQ(open_calls(world), 1);
    rpc_call_reply(world->held, slice_of("late"));
    MUST_EQ(knock.answers, 1);
    MUST_EQ(open_calls(world), 0);
    close_world(world);
}

static void an_answer_may_come_later(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct knock knock;

    prepare_knock(&knock, world, WAIT, "");
    knock.options.deadline_us = in_ms(world, 60000);
    knock_on(&knock);
    MUST_EQ(knock.answers, 0);
    rpc_call_reply(world->held, slice_of("now"));
    MUST_EQ(knock.answers, 1);
    MUST_EQ_TEXT(knock.response, "now");
    close_world(world);
}

static void a_drain_waits_for_what_is_open_and_takes_nothing_new(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct knock knocks[2];

    prepare_knock(&knocks[0], world, WAIT, "");
    prepare_knock(&knocks[1], world, ECHO, "");
    knock_on(&knocks[0]);
    rpc_server_drain(world->server, 10000, on_drained, world);
    knock_on(&knocks[1]);
    MUST_EQ(knocks[1].status, RPC_UNAVAILABLE);
    for (int i = 0; i < 10; i++) {
        loop_turn(world->loop, false);
    }
    MUST(!world->is_drained);
    rpc_call_reply(world->held, slice_of("done"));
    MUST_EQ(knocks[0].status, RPC_OK);
    TURN_UNTIL(world, world->is_drained);
    close_world(world);
}

static void a_close_answers_what_is_open(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct knock knocks[3];

    for (int i = 0; i < 3; i++) {
        prepare_knock(&knocks[i], world, WAIT, "");
        knock_on(&knocks[i]);
    }
    close_server(world);
    for (int i = 0; i < 3; i++) {
        MUST_EQ(knocks[i].answers, 1);
        MUST_EQ(knocks[i].status, RPC_UNKNOWN);
    }
    MUST_EQ(world->cancelled_count, 3);
    close_world(world);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(a_call_is_answered_as_over_grpc),
        MUST_CASE(metadata_details_and_delay_travel),
        MUST_CASE(what_the_server_would_refuse_is_refused),
        MUST_CASE(a_deadline_ends_the_call_and_tells_the_handler),
        MUST_CASE(a_call_that_comes_too_late_is_not_begun),
        MUST_CASE(an_answer_after_the_deadline_is_dropped),
        MUST_CASE(an_answer_may_come_later),
        MUST_CASE(a_drain_waits_for_what_is_open_and_takes_nothing_new),
        MUST_CASE(a_close_answers_what_is_open),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
