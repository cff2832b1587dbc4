/* SPDX-License-Identifier: Apache-2.0
 *
 * The receiver of a benchmark. Its thread owns loop, server and histogram; counts that others look
 * at meanwhile are atomic.
 */
#include "client/cli/bench_receiver.h"

#include "client/cli/bench_load.h"
#include "client/cli/cli.h"
#include "lib/base/err.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"
#include "lib/io/loop.h"
#include "lib/rpc/rpc_method.h"
#include "lib/rpc/rpc_server.h"
#include "proto/codec_receiver.h"

#include <pthread.h>
#include <stdatomic.h>

/* Tasks of one run: as many as a load has. */
#define SEEN_COUNT_MAX LOAD_COUNT_MAX

struct bench_receiver {
    struct loop *loop;
    struct rpc_server *server;
    struct rpc_method method;
    struct loop_waker *stopper;
    pthread_t thread;
    uint16_t port;
    struct buf reply;
    struct map seen;                /* tasks that have come, by id; the values mean nothing */
    struct arrival_figures figures; /* the thread's, until it has ended */
    atomic_llong measure_from_ms;
    atomic_ullong attempts;
    atomic_ullong first;
    atomic_ullong early;
    atomic_llong last_us;
};

/* Is it the first time that this task comes? Its attempt may have any number: the first one may
 * have been withdrawn before it was sent. */
static bool is_first(struct bench_receiver *receiver, struct task_id id)
{
    uint64_t key = (uint64_t)id.seq * SLOT_COUNT + id.slot;

    return map_put(&receiver->seen, key, receiver) != ERR_EXISTS;
}

static void note(struct bench_receiver *receiver, const struct delivery *delivery,
                 int64_t actual_us)
{
    int64_t lateness_us = actual_us - delivery->due_ms * US_PER_MS;
    int64_t from_ms = atomic_load_explicit(&receiver->measure_from_ms, memory_order_relaxed);

    atomic_fetch_add_explicit(&receiver->attempts, 1, memory_order_relaxed);
    if (lateness_us < 0) {
        atomic_fetch_add_explicit(&receiver->early, 1, memory_order_relaxed);
    }
    if (!is_first(receiver, delivery->id)) {
        return;
    }
    if (receiver->figures.first_us == 0) {
        receiver->figures.first_us = actual_us;
    }
    if (delivery->due_ms >= from_ms) {
        hist_record(&receiver->figures.lateness_us, lateness_us);
    }
    atomic_store_explicit(&receiver->last_us, actual_us, memory_order_relaxed);
    atomic_fetch_add_explicit(&receiver->first, 1, memory_order_release);
}

static void on_deliver(struct rpc_call *call, struct slice request, void *ctx)
{
    static const struct delivery_result done = {.outcome = DELIVERY_DONE};
    struct bench_receiver *receiver = ctx;
    int64_t actual_us = clock_wall_us();
    struct delivery_batch batch;
    struct delivery delivery;
    struct arena arena;
    struct fault fault;
    int err;

    arena_init(&arena, 0);
    buf_clear(&receiver->reply);
    err = codec_read_deliver(request, &arena, &batch, &fault);
    for (size_t i = 0; err == 0 && i < batch.count; i++) {
        err = codec_read_delivery(&batch, i, &delivery, &fault);
        if (err == 0) {
            note(receiver, &delivery, actual_us);
            err = codec_write_delivery_result(&done, &receiver->reply);
        }
    }
    if (err == 0) {
        rpc_call_reply(call, buf_slice(&receiver->reply));
    } else {
        rpc_call_fail(call, RPC_INTERNAL, "the benchmark's receiver cannot read this",
                      (struct slice){NULL, 0}, 0);
    }
    arena_fini(&arena);
}

/* ---- life ---- */

static void on_closed(void *ctx)
{
    struct bench_receiver *receiver = ctx;

    loop_stop(receiver->loop);
}

static void on_stop(void *ctx)
{
    struct bench_receiver *receiver = ctx;

    if (receiver->server != NULL) {
        rpc_server_close(receiver->server, on_closed, receiver);
        receiver->server = NULL;
    }
}

static void *serve(void *ctx)
{
    struct bench_receiver *receiver = ctx;

    loop_run(receiver->loop);
    return NULL;
}

static int open_server(struct bench_receiver *receiver, const char *address, uint16_t port)
{
    struct rpc_server_options options;
    int err;

    rpc_server_options_init(&options);
    options.address = address;
    options.port = port;
    options.request_bytes_max = RPC_MESSAGE_BYTES_MAX;
    err = rpc_server_open(receiver->loop, &options, &receiver->server);
    if (err != 0) {
        cli_say("the receiver cannot listen on %s port %d: %s", address, (int)port,
                err == ERR_EXISTS    ? "the port is taken; --receiver-port 0 takes any"
                : err == ERR_INVALID ? "not a numeric address of this machine"
                                     : err_text(err));
        return err == ERR_EXISTS ? CLI_CONFLICT : err == ERR_INVALID ? CLI_USAGE : CLI_ERROR;
    }
    receiver->port = rpc_server_port(receiver->server);
    receiver->method =
        (struct rpc_method){.path = RECEIVER_DELIVER_PATH, .handler = on_deliver, .ctx = receiver};
    err = rpc_server_add(receiver->server, &receiver->method);
    if (err == 0) {
        err = loop_waker_open(receiver->loop, on_stop, receiver, &receiver->stopper);
    }
    if (err == 0 && pthread_create(&receiver->thread, NULL, serve, receiver) != 0) {
        loop_waker_close(receiver->stopper);
        err = ERR_NO_MEMORY;
    }
    if (err != 0) {
        cli_say("the receiver cannot serve: %s", err_text(err));
        on_stop(receiver);
        loop_run(receiver->loop);
    }
    return err == 0 ? CLI_OK : CLI_ERROR;
}

int bench_receiver_open(const char *address, uint16_t port, struct bench_receiver **out)
{
    struct bench_receiver *receiver = mem_new(1, sizeof(*receiver));
    int code;

    if (receiver == NULL || loop_open(&receiver->loop) != 0) {
        cli_say("no event loop for the receiver: out of memory or descriptors");
        mem_free(receiver);
        return CLI_ERROR;
    }
    buf_init(&receiver->reply, RPC_MESSAGE_BYTES_MAX);
    map_init(&receiver->seen, SEEN_COUNT_MAX);
    code = open_server(receiver, address, port);
    if (code != CLI_OK) {
        loop_close(receiver->loop);
        mem_free(receiver);
        return code;
    }
    *out = receiver;
    return CLI_OK;
}

uint16_t bench_receiver_port(const struct bench_receiver *receiver)
{
    return receiver->port;
}

void bench_receiver_measure_from(struct bench_receiver *receiver, wall_ms due_ms)
{
    atomic_store(&receiver->measure_from_ms, due_ms);
}

void bench_receiver_peek(const struct bench_receiver *receiver, struct arrivals *out)
{
    out->first = atomic_load_explicit(&receiver->first, memory_order_acquire);
    out->attempts = atomic_load(&receiver->attempts);
    out->early = atomic_load(&receiver->early);
    out->last_us = atomic_load(&receiver->last_us);
}

void bench_receiver_close(struct bench_receiver *receiver, struct arrival_figures *out)
{
    loop_waker_wake(receiver->stopper);
    (void)pthread_join(receiver->thread, NULL);
    loop_waker_close(receiver->stopper);
    bench_receiver_peek(receiver, &receiver->figures.arrivals);
    if (out != NULL) {
        *out = receiver->figures;
    }
    map_fini(&receiver->seen);
    buf_fini(&receiver->reply);
    loop_close(receiver->loop);
    mem_free(receiver);
}
