/* SPDX-License-Identifier: Apache-2.0
 *
 * The receivers behind a real gRPC server: they do what they are asked, refuse it, are slow, never
 * answer, and now and then send everybody elsewhere or hang up.
 */
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/rpc/rpc_server.h"
#include "proto/codec_receiver.h"
#include "tests/sim/wire.h"

#include "foliot/v1/receiver.pb-c.h"

#include <string.h>

/* How long a server that leaves waits for what it has begun. */
#define GRACE_MS 2000

/* When it is there again. */
#define AGAIN_US (300 * US_PER_MS)

struct wire_receiver {
    struct wire_proc proc;
    struct rpc_server *server; /* NULL: it is away */
    struct rpc_method method;
    struct sim_event restart;
    struct prng draws;
    struct list orders; /* struct order: calls that are being worked on */
    bool is_over;
};

/* One Deliver. */
struct order {
    struct list link;
    struct wire_receiver *receiver;
    struct rpc_call *call;
    struct loop_timer timer;
    Foliot__V1__DeliverRequest *request;
    enum outcome *outcomes;
};

/* ---- what it says ---- */

static Foliot__V1__Outcome word_of(enum outcome outcome)
{
    switch (outcome) {
    case OUTCOME_DONE:
        return FOLIOT__V1__OUTCOME__OUTCOME_DONE;
    case OUTCOME_DEAD:
        return FOLIOT__V1__OUTCOME__OUTCOME_DEAD;
    case OUTCOME_OBSOLETE:
        return FOLIOT__V1__OUTCOME__OUTCOME_OBSOLETE;
    case OUTCOME_RETRY:
    case OUTCOME_UNKNOWN:
    case OUTCOME_NOT_STARTED:
        break;
    }
    return FOLIOT__V1__OUTCOME__OUTCOME_RETRY;
}

static void free_order(struct order *order)
{
    loop_timer_stop(&order->timer);
    list_del(&order->link);
    foliot__v1__deliver_request__free_unpacked(order->request, NULL);
    mem_free(order->outcomes);
    mem_free(order);
}

static void answer(struct order *order)
{
    size_t count = order->request->n_attempts;
    Foliot__V1__DeliverResponse response;
    Foliot__V1__AttemptResult *results = mem_new(count, sizeof(*results));
    Foliot__V1__AttemptResult **list = mem_new(count, sizeof(Foliot__V1__AttemptResult *));
    struct buf packed;
    uint8_t *space;
    size_t len;

    foliot__v1__deliver_response__init(&response);
    REQUIRE(results != NULL && list != NULL);
    for (size_t i = 0; i < count; i++) {
        foliot__v1__attempt_result__init(&results[i]);
        results[i].outcome = word_of(order->outcomes[i]);
        list[i] = &results[i];
    }
    response.n_results = count;
    response.results = list;
    len = foliot__v1__deliver_response__get_packed_size(&response);
    buf_init(&packed, len + 1);
    space = buf_reserve(&packed, len);
    REQUIRE(space != NULL);
    (void)foliot__v1__deliver_response__pack(&response, space);
    buf_commit(&packed, len);
    rpc_call_reply(order->call, buf_slice(&packed));
    buf_fini(&packed);
    mem_free(list);
    mem_free(results);
    free_order(order);
}

static void on_time(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    answer(ctx);
}

/* Nobody waits any more: it goes on, and tells nobody. */
static void on_cancel(struct rpc_call *call, void *ctx)
{
    const struct rpc_failure failure = {.status = RPC_CANCELLED};

    rpc_call_fail_with(call, &failure);
    free_order(ctx);
}

/* As sim_target.c: what it will say of one attempt, and when. */
static int64_t draw(struct wire_receiver *receiver, int64_t timeout_us, enum outcome *outcome)
{
    const struct sim_options *options = &receiver->proc.sim->options;
    struct prng *prng = &receiver->draws;
    int64_t span_us = sim_span(prng, options->target_us);

    *outcome = OUTCOME_DONE;
    if (prng_chance(prng, options->target_retry_permille)) {
        *outcome = OUTCOME_RETRY;
    } else if (prng_chance(prng, options->target_dead_permille)) {
        *outcome = prng_chance(prng, 500) ? OUTCOME_DEAD : OUTCOME_OBSOLETE;
    } else if (receiver->proc.sim->is_healed) {
        return span_us; // One that never answers keeps a stream: there may be only one.
    } else if (prng_chance(prng, options->target_never_permille)) {
        span_us = 4 * timeout_us;
    } else if (prng_chance(prng, options->target_late_permille)) {
        span_us += timeout_us * 9 / 10;
    }
    return span_us;
}

static struct wire_arrival arrival_of(const Foliot__V1__Attempt *attempt, struct task_id id)
{
    return (struct wire_arrival){
        .id = id,
        .attempt = attempt->attempt,
        .key = slice_of(attempt->key),
        .payload = {attempt->payload.data, attempt->payload.len},
        .queue = slice_of(attempt->queue),
        .deadline_ms = attempt->deadline->seconds * MS_PER_S + attempt->deadline->nanos / 1000000,
    };
}

/* Take one attempt. When it will be done, or a negative code. */
static int64_t take(struct order *order, size_t index)
{
    struct wire_watch *watch = order->receiver->proc.sim->wire->watch;
    const Foliot__V1__Attempt *attempt = order->request->attempts[index];
    struct wire_arrival arrival;
    struct task_id id;
    bool was_in_core;
    bool is_fine;
    int64_t span_us = 0;

    if (task_id_parse(slice_of(attempt->task_id), &id) != 0 || attempt->deadline == NULL) {
        sim_fail(order->receiver->proc.sim, SIM_UNSAFE, "wire", "an attempt arrived torn");
        return ERR_INVALID;
    }
    was_in_core = sim_enter_world(order->receiver->proc.sim);
    arrival = arrival_of(attempt, id);
    is_fine = wire_watch_arrive(watch, &arrival);
    if (is_fine && order->receiver->proc.sim->options.mutant == SIM_MUTANT_WIRE_DELIVER &&
        id.seq % 16 == 0) {
        is_fine = wire_watch_arrive(watch, &arrival);
    }
    if (is_fine) {
        span_us = draw(order->receiver, wire_watch_timeout(watch, &arrival) * US_PER_MS,
                       &order->outcomes[index]);
        wire_watch_say(watch, &arrival, order->outcomes[index]);
    }
    sim_leave_world(order->receiver->proc.sim, was_in_core);
    return is_fine ? span_us : ERR_INVALID;
}

static void on_deliver(struct rpc_call *call, struct slice request, void *ctx)
{
    struct wire_receiver *receiver = ctx;
    struct order *order = mem_new(1, sizeof(*order));
    int64_t latest_us = 0;

    REQUIRE(order != NULL);
    list_add(&receiver->orders, &order->link);
    order->receiver = receiver;
    order->call = call;
    loop_timer_init(&order->timer, receiver->proc.loop, on_time, order);
    order->request = foliot__v1__deliver_request__unpack(NULL, request.len, request.data);
    if (order->request == NULL) {
        sim_fail(receiver->proc.sim, SIM_UNSAFE, "wire", "a Deliver arrived torn");
        on_cancel(call, order);
        return;
    }
    order->outcomes = mem_new(order->request->n_attempts, sizeof(enum outcome));
    REQUIRE(order->outcomes != NULL);
    for (size_t i = 0; i < order->request->n_attempts; i++) {
        int64_t span_us = take(order, i);

        if (span_us < 0) {
            on_cancel(call, order);
            return;
        }
        latest_us = time_max(latest_us, span_us);
    }
    rpc_call_on_cancel(call, on_cancel, order);
    loop_timer_start(&order->timer, loop_now_us(receiver->proc.loop) + latest_us);
}

/* ---- there and away ---- */

static void open_server(struct wire_receiver *receiver)
{
    struct wire_visit former = wire_enter(&receiver->proc);
    struct rpc_server_options options;

    rpc_server_options_init(&options);
    options.address = WIRE_RECEIVER_HOST;
    options.port = WIRE_RECEIVER_PORT;
    options.streams_max = receiver->proc.sim->options.wire_target_streams;
    REQUIRE(rpc_server_open(receiver->proc.loop, &options, &receiver->server) == 0);
    REQUIRE(rpc_server_add(receiver->server, &receiver->method) == 0);
    wire_leave(former);
}

static void on_closed(void *ctx)
{
    struct wire_receiver *receiver = ctx;

    if (!receiver->is_over) {
        sim_after(receiver->proc.sim, &receiver->restart, AGAIN_US);
    }
}

static void on_drained(void *ctx)
{
    struct wire_receiver *receiver = ctx;
    struct rpc_server *server = receiver->server;

    receiver->server = NULL;
    rpc_server_close(server, on_closed, receiver);
}

/* Leave: politely, or at once. */
static void leave(struct wire_receiver *receiver)
{
    struct wire_visit former = wire_enter(&receiver->proc);

    TRACE(&receiver->proc.sim->trace, "receiver-leaves", receiver->proc.sim->now);
    if (prng_chance(&receiver->draws, 700)) {
        rpc_server_drain(receiver->server, GRACE_MS, on_drained, receiver);
    } else {
        on_drained(receiver);
    }
    wire_leave(former);
}

static void plan_restart(struct wire_receiver *receiver)
{
    struct sim *sim = receiver->proc.sim;

    if (sim->options.wire_restart_every_us > 0 && !sim->is_healed) {
        sim_after(sim, &receiver->restart,
                  sim_span(&receiver->draws, sim->options.wire_restart_every_us));
    }
}

static void on_restart(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct wire_receiver *receiver = CONTAINER_OF(event, struct wire_receiver, restart);

    (void)sim;
    if (is_dropped) {
        return;
    }
    if (receiver->server != NULL) {
        leave(receiver);
        return;
    }
    open_server(receiver);
    plan_restart(receiver);
}

struct wire_receiver *wire_receiver_new(struct sim *sim)
{
    struct wire_receiver *receiver = sim_need(1, sizeof(*receiver));
    struct wire_visit former;

    wire_proc_init(&receiver->proc, sim, NULL, WIRE_RECEIVER_HOST);
    prng_init_named(&receiver->draws, sim->options.seed, "wire-receiver");
    list_init(&receiver->orders);
    receiver->restart = (struct sim_event){.fire = on_restart};
    receiver->method =
        (struct rpc_method){.path = RECEIVER_DELIVER_PATH, .handler = on_deliver, .ctx = receiver};
    former = wire_enter(&receiver->proc);
    REQUIRE(loop_open(&receiver->proc.loop) == 0);
    wire_leave(former);
    open_server(receiver);
    return receiver;
}

void wire_receiver_start(struct wire_receiver *receiver)
{
    plan_restart(receiver);
}

void wire_receiver_heal(struct wire_receiver *receiver)
{
    if (receiver->server != NULL) {
        sim_cancel(receiver->proc.sim, &receiver->restart);
    }
}

void wire_receiver_free(struct wire_receiver *receiver)
{
    struct list *link;

    receiver->is_over = true;
    while ((link = list_take_first(&receiver->orders)) != NULL) {
        foliot__v1__deliver_request__free_unpacked(LIST_ENTRY(link, struct order, link)->request,
                                                   NULL);
    }
    wire_loop_drop(receiver->proc.loop);
    sim_cancel(receiver->proc.sim, &receiver->restart);
    wire_proc_forget(&receiver->proc);
    mem_free(receiver);
}
