/* SPDX-License-Identifier: Apache-2.0
 *
 * The load. A call carries its items until each is answered; what may be tried again stays in it
 * for the next try, at the next server.
 */
#include "client/cli/bench_load.h"

#include "client/cli/bench_wire.h"
#include "client/cli/cli.h"
#include "lib/base/check.h"
#include "lib/base/list.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"
#include "lib/rpc/rpc_client.h"

#include <string.h>

/* Between two tries of a call, unless the server says otherwise. */
#define RETRY_MS 50

/* One try may take this long; the patience is for all of them. */
#define TRY_MS 5000

/* Failures that are told one by one; the rest is only counted. */
#define COMPLAINT_COUNT_MAX 5

/* How often a load that waits only for answers looks whether it is over. */
#define LOOK_MS 100

struct load;

/* One call with its items. */
struct load_call {
    struct list link; /* in the load's idle list */
    struct load *load;
    struct rpc_request request;
    struct loop_timer retry;
    struct buf body;
    enum load_op op;
    struct load_item *items; /* that are not answered yet */
    size_t count;
    size_t done; /* items that were answered as wished */
    size_t server;
    boot_us planned_us; /* moment from which the answer counts */
};

struct load {
    struct channels *channels;
    const struct load_options *options;
    struct load_result *result;
    struct load_call *calls;
    struct list idle;
    struct loop_timer timer; /* next item of the schedule */
    struct arena arena;
    int64_t next;     /* number of the next item */
    int64_t count;    /* items in all: fewer than asked for once it is over */
    size_t in_flight; /* calls that are not idle */
    size_t server;    /* for the next call: in turn */
    uint32_t complaints;
    boot_us start_us;
    boot_us measure_us; /* end of the warm-up */
    bool was_full;      /* no call was idle when the schedule wanted one */
};

static void load_pump(struct load *load);
static void call_send(struct load_call *call);

const char *load_op_name(enum load_op op)
{
    static const char *const names[LOAD_OP_COUNT] = {"create", "cancel", "get", "update"};

    return names[op];
}

static void complain(struct load *load, enum load_op op, const struct fault *fault)
{
    if (load->complaints < COMPLAINT_COUNT_MAX) {
        cli_say("%s: %s (%s): %s", load_op_name(op), err_status_name(fault->status), fault->reason,
                fault->message);
    }
    load->complaints++;
}

/* ---- answers ---- */

/* What becomes of an item after a failure. */
enum verdict {
    VERDICT_RETRY,
    VERDICT_FAILED,
    VERDICT_UNKNOWN
};

/* All but a create without a key can be done twice. */
static bool is_repeatable(const struct load_call *call, const struct load_item *item)
{
    return call->op != LOAD_CREATE || mix_is_keyed(call->load->options->mix, item->number);
}

/* is_sure: the failure is known to have had no effect. */
static enum verdict judge(const struct load_call *call, const struct load_item *item,
                          enum rpc_status status, bool is_sure)
{
    bool is_passing = status == RPC_UNAVAILABLE || status == RPC_RESOURCE_EXHAUSTED;
    bool is_unknown = status == RPC_UNKNOWN || status == RPC_DEADLINE_EXCEEDED ||
                      status == RPC_CANCELLED || status == RPC_INTERNAL || (is_passing && !is_sure);

    if (is_unknown) {
        return is_repeatable(call, item) ? VERDICT_RETRY : VERDICT_UNKNOWN;
    }
    return is_passing ? VERDICT_RETRY : VERDICT_FAILED;
}

static bool is_patient(const struct load_call *call)
{
    const struct load *load = call->load;

    return loop_now_us(load->channels->loop) - call->planned_us <
           load->options->patience_ms * US_PER_MS;
}

/* Keep an item in the call for the next try, or count it out. */
static void settle_failed(struct load_call *call, struct load_item item, bool is_sure,
                          const struct fault *fault)
{
    struct load *load = call->load;
    enum verdict verdict = judge(call, &item, fault->status, is_sure);
    struct load_figures *figures = &load->result->ops[call->op];

    if (verdict == VERDICT_RETRY && is_patient(call)) {
        call->items[call->count++] = item;
        return;
    }
    complain(load, call->op, fault);
    if (verdict == VERDICT_UNKNOWN || (verdict == VERDICT_RETRY && is_repeatable(call, &item))) {
        figures->unknown++;
    } else {
        figures->failed++;
    }
}

static void settle_done(struct load_call *call, const struct load_item *item,
                        const struct wire_answer *answer)
{
    const struct load_options *options = call->load->options;
    struct load_figures *figures = &call->load->result->ops[call->op];

    figures->done += !answer->is_spent;
    figures->existing += answer->is_spent;
    call->done++;
    if (call->op == LOAD_CREATE && options->created != NULL) {
        options->created(item->number, &answer->created, options->ctx);
    }
}

static void settle_all_failed(struct load_call *call, bool is_sure, const struct fault *fault)
{
    size_t count = call->count;

    call->count = 0;
    for (size_t i = 0; i < count; i++) {
        settle_failed(call, call->items[i], is_sure, fault);
    }
}

/* An answer that cannot be read leaves it open what has happened. */
static void settle_answer(struct load_call *call, struct slice payload)
{
    struct load *load = call->load;
    struct wire_reply reply;
    struct fault fault;
    size_t count = call->count;

    if (wire_open_reply(call->op, load->options->is_batched, payload, &load->arena, &reply,
                        &fault) != 0 ||
        reply.count != count) {
        fault_set(&fault, RPC_INTERNAL, "REPLY_INVALID", NULL, "the answer has other results");
        settle_all_failed(call, false, &fault);
        return;
    }
    call->count = 0;
    for (size_t i = 0; i < count; i++) {
        struct load_item item = call->items[i]; // The place may be taken by one that is kept.
        struct wire_answer answer;

        if (wire_read_answer(&reply, i, &answer, &fault) != 0) {
            fault.status = RPC_INTERNAL;
            settle_failed(call, item, false, &fault);
        } else if (answer.has_failed) {
            settle_failed(call, item, true, &fault);
        } else {
            settle_done(call, &item, &answer);
        }
    }
}

static void call_end(struct load_call *call)
{
    struct load *load = call->load;
    struct load_figures *figures = &load->result->ops[call->op];
    boot_us now_us = loop_now_us(load->channels->loop);

    if (call->planned_us >= load->measure_us && call->done > 0) {
        hist_record(&figures->answer_us, now_us - call->planned_us);
        figures->measured += call->done;
        load->result->measured_us = now_us - load->measure_us;
    }
    load->result->elapsed_us = now_us - load->start_us;
    load->in_flight--;
    list_add(&load->idle, &call->link);
    load_pump(load);
}

/* Items are left: another try, at the next server. */
static void call_again(struct load_call *call, span_ms wait_ms)
{
    struct load *load = call->load;

    load->result->retries++;
    call->server = (call->server + 1) % load->channels->count;
    loop_timer_start_in(&call->retry, wait_ms);
}

static void on_reply(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    struct load_call *call = ctx;
    struct load *load = call->load;
    span_ms wait_ms = RETRY_MS;
    struct fault fault;

    (void)request;
    if (reply->status == RPC_OK) {
        settle_answer(call, reply->payload);
    } else {
        fault_decode(&fault, reply->status, reply->message, reply->details);
        wait_ms = time_max(wait_ms, time_min(fault.retry_after_ms, TRY_MS));
        settle_all_failed(call, reply->unprocessed || reply->from_peer, &fault);
    }
    arena_fini(&load->arena);
    if (call->count > 0) {
        call_again(call, wait_ms);
    } else {
        call_end(call);
    }
}

static void on_retry(struct loop_timer *timer, void *ctx)
{
    struct load_call *call = ctx;

    (void)timer;
    if (call->count > 0) {
        call_send(call);
    } else {
        call_end(call);
    }
}

/* ---- calls ---- */

static void call_send(struct load_call *call)
{
    struct load *load = call->load;
    const struct load_options *options = load->options;
    int err = 0;

    buf_clear(&call->body);
    for (size_t i = 0; i < call->count && err == 0; i++) {
        err = wire_write(call->op, options->is_batched, options->mix, &call->items[i], &call->body);
    }
    call->request = (struct rpc_request){
        .path = wire_path(call->op, options->is_batched),
        .payload = buf_slice(&call->body),
        .deadline_us = loop_now_us(load->channels->loop) + TRY_MS * US_PER_MS,
        .cb = on_reply,
        .ctx = call,
    };
    if (err == 0) {
        err = rpc_channel_call(load->channels->list[call->server], &call->request);
    }
    if (err != 0) {
        struct fault fault;

        fault_set_err(&fault, err, "send a call");
        settle_all_failed(call, true, &fault);
        // Not call_end: that would come back here without end while the channel refuses.
        call_again(call, RETRY_MS);
    }
}

/* Moment at which the schedule wants an item. shape: there is a rate. */
static boot_us planned_us(const struct load *load, int64_t number)
{
    return load->start_us + time_mul(number, US_PER_S) / load->options->rate;
}

/* Start a call with the next items. */
static void call_start(struct load *load, int64_t count)
{
    const struct load_options *options = load->options;
    struct list *link = list_take_first(&load->idle);
    struct load_call *call = CONTAINER_OF(link, struct load_call, link);

    REQUIRE(link != NULL);
    call->count = (size_t)count;
    call->done = 0;
    call->op = LOAD_CREATE;
    for (int64_t i = 0; i < count; i++) {
        call->items[i].number = (uint32_t)(load->next + i);
        if (options->next != NULL) {
            call->op = options->next(&call->items[i], options->ctx);
        }
    }
    load->next += count;
    load->in_flight++;
    call->server = load->server;
    load->server = (load->server + 1) % load->channels->count;
    // A batch is planned for when its last item is.
    call->planned_us =
        options->rate > 0 ? planned_us(load, load->next - 1) : loop_now_us(load->channels->loop);
    load->result->late_starts += load->was_full && options->rate > 0;
    call_send(call);
}

/* Items whose time has come by the schedule. */
static int64_t due_count(const struct load *load)
{
    int64_t elapsed_us = loop_now_us(load->channels->loop) - load->start_us;

    if (load->options->rate == 0) {
        return load->count;
    }
    return time_min(time_mul(elapsed_us, load->options->rate) / US_PER_S + 1, load->count);
}

/* No more items after the time that was given, or when somebody says so. */
static void look_whether_over(struct load *load)
{
    const struct load_options *options = load->options;
    int64_t elapsed_us = loop_now_us(load->channels->loop) - load->start_us;
    bool is_over = options->is_over != NULL && *options->is_over;

    // A schedule has a last item: those that are planned and late are still to be started.
    if (options->duration_ms > 0 && options->rate == 0) {
        is_over = is_over || elapsed_us >= options->duration_ms * US_PER_MS;
    }
    if (is_over) {
        load->count = time_min(load->count, load->next);
    }
}

/* Come back when the next call is due, or to look whether it is over. */
static void load_wait(struct load *load)
{
    const struct load_options *options = load->options;
    boot_us at_us = loop_now_us(load->channels->loop) + LOOK_MS * US_PER_MS;

    if (options->rate > 0 && !list_is_empty(&load->idle)) {
        int64_t wanted = time_min(load->next + options->batch, load->count);

        at_us = time_min(at_us, planned_us(load, wanted - 1) + 1);
    }
    loop_timer_start(&load->timer, at_us);
}

/* Start what is due and has room; else wait for an answer or for the schedule. */
static void load_pump(struct load *load)
{
    const struct load_options *options = load->options;
    int64_t due;

    look_whether_over(load);
    due = due_count(load);
    while (!list_is_empty(&load->idle) && load->next < due) {
        int64_t left = due - load->next;

        // A batch waits until it is full, unless it is the last one.
        if (left < options->batch && due < load->count) {
            break;
        }
        call_start(load, time_min(left, options->batch));
    }
    load->was_full = list_is_empty(&load->idle);
    if (load->next < load->count) {
        load_wait(load);
    } else if (load->in_flight == 0) {
        loop_timer_stop(&load->timer);
        loop_stop(load->channels->loop);
    }
}

static void on_timer(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    load_pump(ctx);
}

/* ---- life ---- */

static int load_open(struct load *load)
{
    const struct load_options *options = load->options;
    size_t call_count = (size_t)options->outstanding;

    arena_init(&load->arena, 0);
    list_init(&load->idle);
    loop_timer_init(&load->timer, load->channels->loop, on_timer, load);
    load->calls = mem_new(call_count, sizeof(*load->calls));
    if (load->calls == NULL) {
        return ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < call_count; i++) {
        struct load_call *call = &load->calls[i];

        call->load = load;
        buf_init(&call->body, RPC_MESSAGE_BYTES_MAX);
        loop_timer_init(&call->retry, load->channels->loop, on_retry, call);
        list_add(&load->idle, &call->link);
        call->items = mem_new((size_t)options->batch, sizeof(*call->items));
        if (call->items == NULL) {
            return ERR_NO_MEMORY;
        }
    }
    return 0;
}

static void load_close(struct load *load)
{
    if (load->calls != NULL) {
        for (int64_t i = 0; i < load->options->outstanding; i++) {
            buf_fini(&load->calls[i].body);
            mem_free(load->calls[i].items);
        }
    }
    mem_free(load->calls);
}

/* Items of the schedule, if that ends before the count. */
static int64_t planned_count(const struct load_options *options)
{
    if (options->rate == 0 || options->duration_ms == 0) {
        return options->count;
    }
    return time_max(
        1, time_min(options->count, time_mul(options->rate, options->duration_ms) / MS_PER_S));
}

int load_run(struct channels *channels, const struct load_options *options,
             struct load_result *result)
{
    struct load load = {.channels = channels, .options = options, .result = result};
    int err;

    REQUIRE(options->is_batched || options->batch == 1);
    load.count = planned_count(options);
    err = load_open(&load);
    if (err == 0) {
        load.start_us = loop_sample_us(channels->loop);
        load.measure_us = load.start_us + options->warmup_ms * US_PER_MS;
        load_pump(&load);
        loop_run(channels->loop);
    } else {
        cli_say("the load: %s", err_text(err));
    }
    load_close(&load);
    return err == 0 ? CLI_OK : CLI_ERROR;
}
