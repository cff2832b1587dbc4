/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot receive: a sample receiver. Serves foliot.v1.Receiver/Deliver and, as a target of the
 * first kind, the methods that it is told, with an empty answer. Says of each attempt when it was
 * due, when it came by this machine's own clock, and how late that is; may play a slow, failing or
 * hanging target.
 */
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/receive_report.h"
#include "lib/base/check.h"
#include "lib/base/list.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"
#include "lib/base/utf8.h"
#include "lib/io/clock.h"
#include "lib/io/entropy.h"
#include "lib/io/loop.h"
#include "lib/rpc/rpc_method.h"
#include "lib/rpc/rpc_server.h"
#include "proto/codec_receiver.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT_DEFAULT 7500

/* Open calls get this long to end when the program is asked to. */
#define DRAIN_GRACE_MS 300

/* Metadata of an attempt at any gRPC method. source: docs/TARGETS.md */
#define METADATA_TASK_ID   "foliot-task-id"
#define METADATA_ATTEMPT   "foliot-attempt"
#define METADATA_DUE_TIME  "foliot-due-time"
#define METADATA_DEADLINE  "foliot-deadline"
#define METADATA_NAMESPACE "foliot-namespace"
#define METADATA_QUEUE     "foliot-queue"
#define METADATA_KEY       "foliot-key-bin"
#define METADATA_ORDER_KEY "foliot-order-key-bin"

/* How the receiver behaves. */
struct behaviour {
    span_ms delay_ms;      /* before each answer */
    int64_t fail_permille; /* share of attempts that are answered with a failure */
    bool hang;             /* never answer */
    int64_t count_max;     /* end after this many attempts; 0: never */
};

struct receiver {
    struct loop *loop;
    struct rpc_server *server;
    struct loop_hook hook;
    struct loop_signal *signals[2];
    struct rpc_method methods[2];
    struct behaviour behaviour;
    struct report report;
    struct prng prng;
    struct list pending; /* answers that wait */
    bool is_ending;
};

/* An answer that waits for its time, or for ever. */
struct pending {
    struct list link;
    struct loop_timer timer;
    struct rpc_call *call;
    struct buf reply;
    bool is_failure;
};

static void pending_finish(struct pending *pending)
{
    if (pending->is_failure) {
        rpc_call_fail(pending->call, RPC_UNAVAILABLE, "simulated failure", (struct slice){NULL, 0},
                      0);
    } else {
        rpc_call_reply(pending->call, buf_slice(&pending->reply));
    }
    loop_timer_stop(&pending->timer);
    list_del(&pending->link);
    buf_fini(&pending->reply);
    mem_free(pending);
}

static void pending_due(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    pending_finish(ctx);
}

static void pending_cancelled(struct rpc_call *call, void *ctx)
{
    (void)call;
    pending_finish(ctx);
}

/* Answer now, later, or never, as the behaviour says. */
static void answer(struct receiver *receiver, struct rpc_call *call, struct slice reply,
                   bool is_failure)
{
    struct pending *pending = mem_new(1, sizeof(*pending));

    if (pending == NULL) {
        rpc_call_fail(call, RPC_RESOURCE_EXHAUSTED, "out of memory", (struct slice){NULL, 0}, 0);
        return;
    }
    pending->call = call;
    pending->is_failure = is_failure;
    buf_init(&pending->reply, RPC_MESSAGE_BYTES_MAX);
    if (reply.len > 0 && buf_append(&pending->reply, reply.data, reply.len) != 0) {
        pending->is_failure = true;
    }
    list_add(&receiver->pending, &pending->link);
    loop_timer_init(&pending->timer, receiver->loop, pending_due, pending);
    if (!receiver->behaviour.hang && receiver->behaviour.delay_ms == 0) {
        pending_finish(pending);
        return;
    }
    rpc_call_on_cancel(call, pending_cancelled, pending);
    if (!receiver->behaviour.hang) {
        loop_timer_start_in(&pending->timer, receiver->behaviour.delay_ms);
    }
}

static bool draw_failure(struct receiver *receiver)
{
    return prng_chance(&receiver->prng, (uint32_t)receiver->behaviour.fail_permille);
}

static void end_soon(struct receiver *receiver);

static void report_attempt(struct receiver *receiver, const struct attempt_line *line)
{
    report_add(&receiver->report, line);
    if (receiver->behaviour.count_max > 0 &&
        receiver->report.count >= (uint64_t)receiver->behaviour.count_max) {
        end_soon(receiver);
    }
}

/* One attempt of a Deliver batch: report it, append its result. */
static int deliver_one(struct receiver *receiver, const struct delivery *delivery,
                       int64_t actual_us, struct buf *reply)
{
    struct delivery_result result = {.outcome = DELIVERY_DONE};
    struct attempt_line line = {
        .queue = delivery->queue,
        .key = delivery->key,
        .order_key = delivery->order_key,
        .attempt = delivery->attempt,
        .due_ms = delivery->due_ms,
        .deadline_ms = delivery->deadline_ms,
        .actual_us = actual_us,
    };

    task_id_format(delivery->id, line.task_id);
    if (draw_failure(receiver)) {
        result.outcome = DELIVERY_RETRY;
        result.error = slice_of("simulated failure");
        line.is_failure = true;
    }
    report_attempt(receiver, &line);
    return codec_write_delivery_result(&result, reply);
}

static void on_deliver(struct rpc_call *call, struct slice request, void *ctx)
{
    struct receiver *receiver = ctx;
    int64_t actual_us = clock_wall_us();
    struct delivery_batch batch;
    struct delivery delivery;
    struct arena arena;
    struct fault fault;
    struct buf reply;
    int err;

    arena_init(&arena, 0);
    buf_init(&reply, RPC_MESSAGE_BYTES_MAX);
    err = codec_read_deliver(request, &arena, &batch, &fault);
    for (size_t i = 0; err == 0 && i < batch.count; i++) {
        err = codec_read_delivery(&batch, i, &delivery, &fault);
        if (err == 0 && deliver_one(receiver, &delivery, actual_us, &reply) != 0) {
            err = ERR_NO_MEMORY;
            fault_set_err(&fault, err, "write the results");
        }
    }
    if (err != 0) {
        buf_clear(&reply);
        (void)!fault_encode(&fault, &reply);
        rpc_call_fail(call, fault.status, fault.message, buf_slice(&reply), 0);
    } else {
        answer(receiver, call, buf_slice(&reply), false);
    }
    buf_fini(&reply);
    arena_fini(&arena);
}

/* A number of the metadata; `otherwise` if it is absent or none. */
static int64_t read_metadata(const struct rpc_call *call, const char *name, int64_t otherwise)
{
    struct slice text = rpc_call_metadata(call, name);
    int64_t value = 0;

    if (text.len == 0 || text.len > 18) {
        return otherwise;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return otherwise;
        }
        value = value * 10 + (text.data[i] - '0');
    }
    return value;
}

static void copy_metadata(const struct rpc_call *call, const char *name, char *out, size_t size)
{
    struct slice text = rpc_call_metadata(call, name);

    out[0] = '\0';
    if (text.len > 0 && text.len < size && utf8_is_valid(text)) {
        memcpy(out, text.data, text.len);
        out[text.len] = '\0';
    }
}

/* Any method: the payload is its own business, the attempt is in the metadata. */
static void on_method(struct rpc_call *call, struct slice request, void *ctx)
{
    struct receiver *receiver = ctx;
    char tenant[NAME_BYTES_MAX + 1];
    char queue[NAME_BYTES_MAX + 1];
    struct slice key = rpc_call_metadata(call, METADATA_KEY);
    struct slice order_key = rpc_call_metadata(call, METADATA_ORDER_KEY);
    struct attempt_line line = {
        .queue = {tenant, queue},
        .actual_us = clock_wall_us(),
        .attempt = (uint32_t)read_metadata(call, METADATA_ATTEMPT, 0),
        .due_ms = read_metadata(call, METADATA_DUE_TIME, WALL_NEVER),
        .deadline_ms = read_metadata(call, METADATA_DEADLINE, WALL_NEVER),
        .is_failure = draw_failure(receiver),
    };

    (void)request;
    copy_metadata(call, METADATA_TASK_ID, line.task_id, sizeof(line.task_id));
    copy_metadata(call, METADATA_NAMESPACE, tenant, sizeof(tenant));
    copy_metadata(call, METADATA_QUEUE, queue, sizeof(queue));
    if (key.len > 0 && utf8_is_valid(key)) {
        line.key = key;
    }
    if (order_key.len > 0 && utf8_is_valid(order_key)) {
        line.order_key = order_key;
    }
    report_attempt(receiver, &line);
    answer(receiver, call, (struct slice){NULL, 0}, line.is_failure);
}

static void before_poll(void *ctx)
{
    struct receiver *receiver = ctx;

    report_flush(&receiver->report);
}

static void on_closed(void *ctx)
{
    struct receiver *receiver = ctx;

    loop_stop(receiver->loop);
}

static void on_drained(void *ctx)
{
    struct receiver *receiver = ctx;

    rpc_server_close(receiver->server, on_closed, receiver);
}

static void end_soon(struct receiver *receiver)
{
    if (!receiver->is_ending) {
        receiver->is_ending = true;
        rpc_server_drain(receiver->server, DRAIN_GRACE_MS, on_drained, receiver);
    }
}

static void on_signal(int signal_number, void *ctx)
{
    (void)signal_number;
    end_soon(ctx);
}

static int read_behaviour(const struct args *args, struct behaviour *out)
{
    memset(out, 0, sizeof(*out));
    out->hang = args_has(args, "hang");
    if (args_span(args, "delay", &out->delay_ms) != 0 ||
        args_number(args, "fail-permille", 0, 1000, &out->fail_permille) != 0 ||
        args_number(args, "count", 1, INT64_MAX / 16, &out->count_max) != 0) {
        return CLI_USAGE;
    }
    return CLI_OK;
}

static int add_methods(struct receiver *receiver)
{
    int err;

    receiver->methods[0] =
        (struct rpc_method){.path = RECEIVER_DELIVER_PATH, .handler = on_deliver, .ctx = receiver};
    receiver->methods[1] =
        (struct rpc_method){.path = RPC_PATH_ANY, .handler = on_method, .ctx = receiver};
    err = rpc_server_add_all(receiver->server, receiver->methods, ARRAY_COUNT(receiver->methods));
    if (err != 0) {
        cli_say("cannot serve: %s", err_text(err));
    }
    return err == 0 ? CLI_OK : CLI_ERROR;
}

static int open_server(struct receiver *receiver, const struct args *args)
{
    struct rpc_server_options options;
    int64_t port = PORT_DEFAULT;
    int err;

    if (args_number(args, "port", 0, 65535, &port) != 0) {
        return CLI_USAGE;
    }
    rpc_server_options_init(&options);
    options.address = args_text(args, "address", "127.0.0.1");
    options.port = (uint16_t)port;
    options.request_bytes_max = RPC_MESSAGE_BYTES_MAX;
    err = rpc_server_open(receiver->loop, &options, &receiver->server);
    if (err != 0) {
        cli_say("cannot listen on %s port %d: %s; choose another --port, 0 takes any",
                options.address, (int)port,
                err == ERR_EXISTS    ? "the port is taken"
                : err == ERR_INVALID ? "not an address of this machine"
                                     : err_text(err));
        return err == ERR_EXISTS ? CLI_CONFLICT : CLI_ERROR;
    }
    return CLI_OK;
}

static int open_signals(struct receiver *receiver)
{
    static const int numbers[] = {SIGINT, SIGTERM};

    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        if (loop_signal_open(receiver->loop, numbers[i], on_signal, receiver,
                             &receiver->signals[i]) != 0) {
            cli_say("cannot watch signals");
            return CLI_ERROR;
        }
    }
    return CLI_OK;
}

/* Close what was opened, in reverse; the server is closed when the loop has ended. */
static void receiver_close(struct receiver *receiver)
{
    for (size_t i = 0; i < ARRAY_COUNT(receiver->signals); i++) {
        if (receiver->signals[i] != NULL) {
            loop_signal_close(receiver->signals[i]);
        }
    }
    loop_hook_del(&receiver->hook);
    loop_close(receiver->loop);
}

static int receiver_run(struct receiver *receiver, const struct args *args)
{
    int code = open_signals(receiver);

    if (code == CLI_OK) {
        code = open_server(receiver, args);
    }
    if (code != CLI_OK) {
        return code;
    }
    code = add_methods(receiver);
    if (code == CLI_OK) {
        report_listening(&receiver->report, args_text(args, "address", "127.0.0.1"),
                         rpc_server_port(receiver->server));
    } else {
        receiver->is_ending = true;
        rpc_server_close(receiver->server, on_closed, receiver);
    }
    loop_run(receiver->loop);
    return code;
}

static int receive(const struct args *args)
{
    static struct receiver receiver;
    int code;

    memset(&receiver, 0, sizeof(receiver));
    if (read_behaviour(args, &receiver.behaviour) != CLI_OK) {
        return CLI_USAGE;
    }
    if (loop_open(&receiver.loop) != 0) {
        cli_say("no event loop: out of memory or descriptors");
        return CLI_ERROR;
    }
    prng_init(&receiver.prng, entropy_u64());
    list_init(&receiver.pending);
    report_init(&receiver.report, command_wants_json(args), args_has(args, "summary"));
    loop_hook_add(receiver.loop, &receiver.hook, before_poll, &receiver);
    code = receiver_run(&receiver, args);
    if (code == CLI_OK) {
        report_summary(&receiver.report);
    }
    if (!report_fini(&receiver.report) && code == CLI_OK) {
        code = CLI_ERROR;
    }
    receiver_close(&receiver);
    return code;
}

static const struct cli_option RECEIVE_OPTIONS[] = {
    {"address", 0, "ADDRESS", "numeric address to listen on (default 127.0.0.1)"},
    {"port", 'p', "PORT", "port to listen on (default 7500); 0 takes any and prints it"},
    {"summary", 0, NULL, "print only the summary at the end"},
    {"count", 0, "N", "end after so many attempts"},
    {"delay", 0, "SPAN", "answer so much later"},
    {"fail-permille", 0, "N", "answer a share of the attempts with a failure"},
    {"hang", 0, NULL, "never answer"},
};

const struct command RECEIVE_COMMANDS[] = {
    {"receive", "", "", 0, "Receive attempts and say how late they come.",
     "  foliot receive --port 7500\n"
     "  foliot receive -p 0 --delay 50ms --fail-permille 10 -o json\n",
     RECEIVE_OPTIONS, ARRAY_COUNT(RECEIVE_OPTIONS), receive, COMMAND_LINES},
};
const size_t RECEIVE_COMMAND_COUNT = ARRAY_COUNT(RECEIVE_COMMANDS);
