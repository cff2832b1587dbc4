/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a call.
 */
#include "client/lib/client.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"

#include <errno.h>
#include <string.h>

/* A call that could not be sent to a broker for so long is sent to another one. */
#define SEND_WITHIN_MS 1000

/* ---- in the caller's thread ---- */

void client_call_free(struct client_call *call)
{
    if (call != NULL) {
        parts_fini(call);
        buf_fini(&call->bytes);
        buf_fini(&call->reply);
        (void)sem_destroy(&call->ended);
        mem_free(call);
    }
}

/* errors: ERR_INVALID with fault filled in. */
static int take_timeout(const struct foliot_client *client,
                        const struct foliot_call_options *options, span_ms *out,
                        struct fault *fault)
{
    struct foliot_call_options taken = {.timeout_ms = 0};

    if (options != NULL && argument_take(options, &taken, sizeof(taken), "options", fault) != 0) {
        return ERR_INVALID;
    }
    if (taken.timeout_ms < 0) {
        fault_set(fault, RPC_INVALID_ARGUMENT, "VALUE_OUT_OF_RANGE", "options.timeout_ms",
                  "options.timeout_ms: %lld is negative; 0 takes the client's",
                  (long long)taken.timeout_ms);
        return ERR_INVALID;
    }
    *out = taken.timeout_ms == 0 ? client->timeout_ms : time_min(taken.timeout_ms, TIMEOUT_MS_MAX);
    return 0;
}

static struct client_call *new_call(struct foliot_client *client,
                                    const struct client_method *method)
{
    struct client_call *call = mem_new(1, sizeof(*call));

    if (call != NULL) {
        call->client = client;
        call->method = method;
        call->slot = SLOT_ANY;
        call->kind = method->kind;
        buf_init(&call->bytes, RPC_MESSAGE_BYTES_MAX);
        buf_init(&call->reply, RPC_MESSAGE_BYTES_MAX);
        (void)sem_init(&call->ended, 0, 0);
    }
    return call;
}

struct client_call *client_call_new(struct foliot_client *client,
                                    const struct client_method *method,
                                    const struct foliot_call_options *options, int *code,
                                    struct foliot_error *error)
{
    struct client_call *call;
    span_ms timeout_ms;
    struct fault fault;

    if (client == NULL) {
        *code = error_refuse(error, "CLIENT_MISSING", "client", "client: is NULL");
        return NULL;
    }
    if (take_timeout(client, options, &timeout_ms, &fault) != 0) {
        *code = error_fill(error, &fault);
        return NULL;
    }
    call = new_call(client, method);
    if (call == NULL) {
        fault_set_err(&fault, ERR_NO_MEMORY, method->what);
        *code = error_fill(error, &fault);
        return NULL;
    }
    call->deadline_us = time_add(clock_boot_us(), time_mul(timeout_ms, US_PER_MS));
    return call;
}

struct client_call *client_call_new_part(struct client_call *whole)
{
    struct client_call *part = new_call(whole->client, whole->method);

    if (part != NULL) {
        part->deadline_us = whole->deadline_us;
        part->whole = whole;
    }
    return part;
}

/* Free a call that was not sent; returns the code of its fault. */
static int drop(struct client_call *call, struct foliot_error *error)
{
    int code = error_fill(error, &call->fault);

    client_call_free(call);
    return code;
}

struct client_call *client_call_refuse(struct client_call *call, int *code,
                                       struct foliot_error *error)
{
    *code = drop(call, error);
    return NULL;
}

/* Give a call to the loop. errors: ERR_FULL or ERR_CLOSED, with call->fault filled in. */
static int submit(struct client_call *call)
{
    struct foliot_client *client = call->client;

    if (atomic_load(&client->is_stopped)) {
        fault_set(&call->fault, RPC_CANCELLED, "STOPPED", NULL, "%s: the client has been stopped",
                  call->method->what);
        return ERR_CLOSED;
    }
    if (atomic_fetch_add(&client->call_count, 1) >= client->calls_max ||
        mailbox_send(client->mailbox, &call->node) != 0) {
        atomic_fetch_sub(&client->call_count, 1);
        fault_set(&call->fault, RPC_RESOURCE_EXHAUSTED, "CALLS_MAX", NULL,
                  "%s: %u calls wait for their answer already (calls_max); wait for some of them, "
                  "or raise it",
                  call->method->what, client->calls_max);
        return ERR_FULL;
    }
    atomic_fetch_add(&client->begun_count, 1);
    return 0;
}

static void wait_for_end(struct client_call *call)
{
    while (sem_wait(&call->ended) != 0) {
        REQUIRE(errno == EINTR); // A signal handler of the program has run here.
    }
}

/* Read the answer of a call that went well; one that makes no sense is a fault of the broker. */
static void read_answer(struct client_call *call, void *result)
{
    struct fault why;

    if (call->fault.status == RPC_OK &&
        call->method->decode(buf_slice(&call->reply), result, &why) != 0) {
        fault_set(&call->fault, RPC_INTERNAL, "REPLY_INVALID", NULL,
                  "%s: the answer cannot be read: %s", call->method->what, why.message);
        call->may_have_happened = call->kind != REPEAT_READ;
    }
}

/* Tell the caller how its call ended; returns the code. */
static int fill_error(const struct client_call *call, struct foliot_error *error)
{
    int code = error_fill(error, &call->fault);

    if (error != NULL) {
        error->may_have_happened = call->may_have_happened;
        error->tries = call->tries;
        memcpy(error->broker, call->broker, sizeof(error->broker));
    }
    return code;
}

int client_call_wait(struct client_call *call, void *result, struct foliot_error *error)
{
    int code;

    if (result == NULL) {
        fault_set(&call->fault, RPC_INVALID_ARGUMENT, "ARGUMENT_MISSING", "out", "out: is NULL");
        return drop(call, error);
    }
    if (pthread_equal(pthread_self(), call->client->thread)) {
        fault_set(&call->fault, RPC_FAILED_PRECONDITION, "IN_CALLBACK", NULL,
                  "%s: a callback must not wait for a call; use the form with a callback",
                  call->method->what);
        return drop(call, error);
    }
    if (submit(call) != 0) {
        return drop(call, error);
    }
    wait_for_end(call);
    read_answer(call, result);
    code = fill_error(call, error);
    client_call_free(call);
    return code;
}

int client_call_start(struct client_call *call, client_any_fn cb, void *ctx,
                      struct foliot_error *error)
{
    const struct fault none = {.status = RPC_OK};

    if (cb == NULL) {
        fault_set(&call->fault, RPC_INVALID_ARGUMENT, "CALLBACK_MISSING", "cb", "cb: is NULL");
        return drop(call, error);
    }
    call->cb = cb;
    call->ctx = ctx;
    if (submit(call) != 0) {
        return drop(call, error);
    }
    return error_fill(error, &none);
}

/* ---- on the loop ---- */

static void deliver(struct client_call *call)
{
    _Alignas(16) unsigned char result[RESULT_BYTES] = {0};
    const struct client_method *method = call->method;
    struct foliot_error error;
    bool has_result;

    read_answer(call, result);
    (void)fill_error(call, &error);
    has_result = error.code == FOLIOT_OK;
    method->deliver(call, &error, has_result ? result : NULL);
    if (has_result && method->release != NULL) {
        method->release(result);
    }
    client_call_free(call);
}

/* Nothing will be tried any more: sum up what is known of it. */
static void settle(struct client_call *call)
{
    REQUIRE(call->link == NULL);
    loop_timer_stop(&call->pause);
    list_del(&call->member);
    call->may_have_happened = repeat_conclude(call->kind, call->is_unknown, &call->fault);
}

/* The end of a call; fault says how. The last part of a batch ends the whole. */
static void finish(struct client_call *call)
{
    struct foliot_client *client = call->client;

    settle(call);
    if (call->whole != NULL) {
        call = parts_ended(call);
        if (call == NULL) {
            return;
        }
        settle(call);
    }
    atomic_fetch_sub(&client->call_count, 1);
    if (call->cb == NULL) {
        (void)sem_post(&call->ended); // The call is not ours any more.
    } else {
        deliver(call);
    }
    client_try_close(client);
}

static void try_call(struct client_call *call);

static void on_pause(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    try_call(ctx);
}

/* Try again after a while, or end the call if that would be too late. */
static void try_later(struct client_call *call, bool has_other, span_ms asked_ms)
{
    struct foliot_client *client = call->client;
    uint32_t tries = call->tries == 0 ? 1 : call->tries;
    span_ms wait_ms = repeat_wait(&client->prng, tries, has_other, asked_ms);
    boot_us at_us = time_add(loop_now_us(client->loop), time_mul(wait_ms, US_PER_MS));

    if (client->is_stopping || at_us >= call->deadline_us ||
        (client->is_impatient && wait_ms > 0)) {
        finish(call);
        return;
    }
    loop_timer_start(&call->pause, at_us);
}

/* The reason of a status that was made on this side. */
static const char *reason_of(enum rpc_status status)
{
    if (status == RPC_UNAVAILABLE) {
        return "UNAVAILABLE";
    }
    if (status == RPC_CANCELLED) {
        return "STOPPED";
    }
    return status == RPC_DEADLINE_EXCEEDED ? "TIMEOUT" : "LINE_BROKEN";
}

/* What this side says of a try. That the time was up says nothing of why it was not enough: the try
 * before the last one may have been told. */
static void say_of_line(struct client_call *call, const struct rpc_reply *reply)
{
    const struct fault before = call->fault;
    bool is_over = loop_now_us(call->client->loop) >= call->deadline_us;
    bool is_told = is_over && reply->status == RPC_DEADLINE_EXCEEDED && before.status != RPC_OK;

    fault_set(&call->fault, reply->status, reason_of(reply->status), NULL, "%s: %.*s%s%s",
              call->method->what, (int)reply->message.len, (const char *)reply->message.data,
              is_told ? "; the try before it: " : "", is_told ? before.message : "");
}

static void keep_answer(struct client_call *call, const struct rpc_reply *reply)
{
    if (reply->status != RPC_OK && !reply->from_peer) {
        say_of_line(call, reply);
        return;
    }
    call->fault = (struct fault){.status = RPC_OK};
    if (reply->status != RPC_OK) {
        fault_decode(&call->fault, reply->status, reply->message, reply->details);
    } else if (buf_append(&call->reply, reply->payload.data, reply->payload.len) != 0) {
        fault_set_err(&call->fault, ERR_NO_MEMORY, "cannot keep the answer");
        call->is_unknown = call->kind != REPEAT_READ;
    }
}

static void on_reply(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    struct client_call *call = ctx;
    struct brokers *brokers = call->client->brokers;
    struct broker_link *link = call->link;
    struct repeat_verdict verdict;

    (void)request;
    call->link = NULL;
    keep_answer(call, reply);
    verdict = repeat_judge(call->kind, reply, &call->fault);
    call->is_unknown = call->is_unknown || verdict.is_unknown;
    call->avoid = verdict.is_broken ? link : NULL;
    if (verdict.is_broken ||
        (reply->was_forwarded && brokers_is_owner(brokers, link, call->slot))) {
        brokers_doubt(brokers);
    }
    brokers_ended(link, reply);
    if (!verdict.is_again) {
        finish(call);
        return;
    }
    try_later(call, verdict.is_broken && brokers_has_other(brokers, call->avoid), verdict.wait_ms);
}

/* No broker takes the call now. */
static void wait_for_brokers(struct client_call *call)
{
    if (call->tries == 0 || call->fault.status == RPC_OK) {
        fault_set(&call->fault, RPC_UNAVAILABLE, "UNAVAILABLE", NULL,
                  "%s: no broker can be reached; each has failed and is left alone for a moment",
                  call->method->what);
    }
    brokers_doubt(call->client->brokers);
    try_later(call, false, 0);
}

static void fill_request(struct client_call *call)
{
    struct foliot_client *client = call->client;
    boot_us now_us = loop_now_us(client->loop);
    boot_us try_us = time_add(now_us, time_mul(client->try_timeout_ms, US_PER_MS));

    call->request = (struct rpc_request){
        .path = call->method->path,
        .payload = buf_slice(&call->bytes),
        .deadline_us = call->deadline_us,
        .cb = on_reply,
        .ctx = call,
    };
    if (call->kind != REPEAT_NEVER) {
        call->request.deadline_us = time_min(call->deadline_us, try_us);
    }
    if (brokers_has_other(client->brokers, call->link)) {
        call->request.start_by_us = time_add(now_us, SEND_WITHIN_MS * US_PER_MS);
    }
}

static void note_broker(struct client_call *call)
{
    const char *target = broker_link_target(call->link);
    size_t len = strnlen(target, BROKER_TEXT_BYTES - 1);

    memcpy(call->broker, target, len);
    call->broker[len] = '\0';
}

static void try_call(struct client_call *call)
{
    struct foliot_client *client = call->client;
    int err;

    call->link = brokers_pick(client->brokers, call->slot, call->avoid);
    if (call->link == NULL) {
        wait_for_brokers(call);
        return;
    }
    if (brokers_is_owner(client->brokers, call->link, call->slot)) {
        atomic_fetch_add(&client->direct_count, 1);
    }
    fill_request(call);
    note_broker(call);
    call->tries++;
    atomic_fetch_add(&client->try_count, 1);
    err = brokers_call(call->link, &call->request);
    if (err != 0) {
        call->link = NULL;
        fault_set_err(&call->fault, err, call->method->what);
        finish(call);
    }
}

void client_call_begin(struct client_call *call)
{
    struct foliot_client *client = call->client;

    list_init(&call->member);
    list_add(&client->calls, &call->member);
    loop_timer_init(&call->pause, client->loop, on_pause, call);
    if (client->is_stopping) {
        fault_set(&call->fault, RPC_CANCELLED, "STOPPED", NULL, "%s: the client has been stopped",
                  call->method->what);
        finish(call);
    } else if (loop_now_us(client->loop) >= call->deadline_us) {
        fault_set(&call->fault, RPC_DEADLINE_EXCEEDED, "TIMEOUT", NULL,
                  "%s: the deadline had passed before it was sent", call->method->what);
        finish(call);
    } else {
        try_call(call);
    }
}

void client_call_arrive(struct mailbox_node *node, void *ctx)
{
    struct client_call *call = CONTAINER_OF(node, struct client_call, node);

    (void)ctx;
    list_init(&call->member);
    loop_timer_init(&call->pause, call->client->loop, on_pause, call);
    if (call->items == NULL || call->client->is_stopping || !parts_start(call)) {
        client_call_begin(call);
    }
}

void client_call_end_all(struct foliot_client *client)
{
    list_foreach_safe (node, after, &client->calls) {
        struct client_call *call = LIST_ENTRY(node, struct client_call, member);

        if (call->link != NULL) {
            rpc_channel_cancel(&call->request);
        } else {
            fault_set(&call->fault, RPC_CANCELLED, "STOPPED", NULL,
                      "%s: the client has been stopped", call->method->what);
            finish(call);
        }
    }
}
