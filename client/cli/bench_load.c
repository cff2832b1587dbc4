/* SPDX-License-Identifier: Apache-2.0
 *
 * The load. A call carries the numbers of its tasks; key and delay of a task follow from its number
 * and the seed, so that a second try asks for the same task.
 */
#include "client/cli/bench_load.h"

#include "client/cli/cli.h"
#include "client/cli/json.h"
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"
#include "lib/io/loop.h"
#include "lib/rpc/rpc_client.h"

#include <inttypes.h>
#include <string.h>

#define CREATE_PATH "/foliot.v1.TaskService/Create"
#define BATCH_PATH  "/foliot.v1.TaskService/BatchCreate"

/* Between two tries of a call, unless the server says otherwise. */
#define RETRY_MS 50

/* One try may take this long; the patience is for all of them. */
#define TRY_MS 5000

/* Failures that are told one by one; the rest is only counted. */
#define COMPLAINT_COUNT_MAX 5

struct load;

/* One call with its tasks. */
struct load_call {
    struct list link; /* in the load's idle list */
    struct load *load;
    struct rpc_request request;
    struct loop_timer retry;
    struct buf body;
    uint32_t *numbers; /* tasks that are not answered yet */
    size_t count;
    size_t server;
    boot_us first_us; /* start of the first try */
};

struct load {
    struct channels *channels;
    const struct load_options *options;
    struct load_result *result;
    struct load_call *calls;
    uint8_t *payload;
    struct list idle;
    struct loop_timer timer; /* next task of the schedule */
    struct buf line;
    struct arena arena;
    int64_t next;     /* number of the next task */
    size_t in_flight; /* calls that are not idle */
    size_t server;    /* for the next call: in turn */
    uint32_t complaints;
    boot_us start_us;
    struct loop_hook hook; /* lines are written out once a turn */
    bool has_lines;
    bool is_broken; /* they could not be */
};

static void load_pump(struct load *load);
static void call_send(struct load_call *call);

/* Key and delay of a task, from its number. */
static void describe(const struct load *load, uint32_t number, char *key, size_t key_size,
                     struct create_request *out)
{
    const struct load_options *options = load->options;
    struct prng prng;

    memset(out, 0, sizeof(*out));
    out->queue = options->queue;
    out->key_policy = KEY_KEEP;
    out->payload = (struct slice){load->payload, (size_t)options->payload_bytes};
    if (options->at.kind == WHEN_DUE) {
        out->when = options->at;
    } else {
        prng_init(&prng, options->seed + number);
        out->when.kind = WHEN_DELAY;
        out->when.delay_ms = prng_between(&prng, options->delay_min_ms, options->delay_max_ms);
    }
    if (options->key_prefix[0] != '\0') {
        (void)snprintf(key, key_size, "%s%" PRIu32, options->key_prefix, number);
        out->key = slice_of(key);
    }
}

static bool is_keyed(const struct load *load)
{
    return load->options->key_prefix[0] != '\0';
}

static void complain(struct load *load, const struct fault *fault)
{
    if (load->complaints < COMPLAINT_COUNT_MAX) {
        cli_say("create: %s (%s): %s", err_status_name(fault->status), fault->reason,
                fault->message);
    }
    load->complaints++;
}

static void write_line(struct load *load, uint32_t number, const struct create_reply *reply)
{
    struct create_request request;
    char key[KEY_BYTES_MAX + 1] = "";
    char id[TASK_ID_TEXT_LEN + 1];
    struct json json;
    struct slice text;

    task_id_format(reply->id, id);
    buf_clear(&load->line);
    if (load->options->is_json) {
        describe(load, number, key, sizeof(key), &request);
        json_init(&json, &load->line);
        json_open(&json, NULL, '{');
        json_text(&json, "id", id);
        json_text(&json, "key", key);
        json_bool(&json, "created", reply->created);
        if (reply->due_ms != WALL_NEVER) {
            json_int(&json, "dueMs", reply->due_ms);
        }
        json_close(&json, '}');
        (void)buf_append_text(&load->line, "\n");
    } else {
        (void)buf_printf(&load->line, "%s\n", id);
    }
    text = buf_slice(&load->line);
    if (fwrite(text.data, 1, text.len, load->options->lines) != text.len) {
        load->is_broken = true;
    }
    load->has_lines = true;
}

/* Whoever follows the lines sees each one soon. */
static void before_poll(void *ctx)
{
    struct load *load = ctx;

    if (load->has_lines && fflush(load->options->lines) != 0) {
        load->is_broken = true;
    }
    load->has_lines = false;
}

static void note_created(struct load *load, uint32_t number, const struct create_reply *reply)
{
    load->result->created += reply->created;
    load->result->existing += !reply->created;
    write_line(load, number, reply);
}

/* What becomes of tasks after a failure. */
enum verdict {
    VERDICT_RETRY,
    VERDICT_FAILED,
    VERDICT_UNKNOWN
};

/* is_sure: the failure is known to have had no effect. */
static enum verdict judge(const struct load *load, enum rpc_status status, bool is_sure)
{
    bool is_passing = status == RPC_UNAVAILABLE || status == RPC_RESOURCE_EXHAUSTED;
    bool is_unknown = status == RPC_UNKNOWN || status == RPC_DEADLINE_EXCEEDED ||
                      status == RPC_CANCELLED || status == RPC_INTERNAL || (is_passing && !is_sure);

    if (is_unknown) {
        return is_keyed(load) ? VERDICT_RETRY : VERDICT_UNKNOWN;
    }
    return is_passing ? VERDICT_RETRY : VERDICT_FAILED;
}

static bool is_patient(const struct load_call *call)
{
    const struct load *load = call->load;

    return loop_now_us(load->channels->loop) - call->first_us <
           load->options->patience_ms * US_PER_MS;
}

/* Keep a task in the call for the next try, or count it out. */
static void settle_failed(struct load_call *call, uint32_t number, enum verdict verdict,
                          const struct fault *fault)
{
    struct load *load = call->load;

    if (verdict == VERDICT_RETRY && is_patient(call)) {
        call->numbers[call->count++] = number;
        return;
    }
    complain(load, fault);
    if (verdict == VERDICT_UNKNOWN || (verdict == VERDICT_RETRY && is_keyed(load))) {
        load->result->unknown++;
    } else {
        load->result->failed++;
    }
}

static void settle_all_failed(struct load_call *call, enum verdict verdict,
                              const struct fault *fault)
{
    size_t count = call->count;

    call->count = 0;
    for (size_t i = 0; i < count; i++) {
        settle_failed(call, call->numbers[i], verdict, fault);
    }
}

static void settle_one(struct load_call *call, struct slice payload)
{
    struct load *load = call->load;
    struct create_reply reply;
    struct fault fault;

    if (codec_read_create_reply(payload, &load->arena, &reply, &fault) == 0) {
        call->count = 0;
        note_created(load, call->numbers[0], &reply);
    } else {
        settle_all_failed(call, VERDICT_UNKNOWN, &fault);
    }
}

static void settle_batch(struct load_call *call, struct slice payload)
{
    struct load *load = call->load;
    struct create_results results;
    struct fault fault;
    size_t count = call->count;

    if (codec_read_batch_reply(payload, &load->arena, &results, &fault) != 0 ||
        results.count != count) {
        fault_set(&fault, RPC_INTERNAL, "REPLY_INVALID", NULL, "the answer has other results");
        settle_all_failed(call, VERDICT_UNKNOWN, &fault);
        return;
    }
    call->count = 0;
    for (size_t i = 0; i < count; i++) {
        struct create_reply reply;
        bool failed;

        if (codec_read_batch_result(&results, i, &reply, &failed, &fault) != 0) {
            settle_failed(call, call->numbers[i], VERDICT_UNKNOWN, &fault);
        } else if (failed) {
            settle_failed(call, call->numbers[i], judge(load, fault.status, true), &fault);
        } else {
            note_created(load, call->numbers[i], &reply);
        }
    }
}

static void call_end(struct load_call *call)
{
    struct load *load = call->load;
    int64_t answer_us = loop_now_us(load->channels->loop) - call->first_us;

    metric_record(&load->result->answer_us, answer_us);
    load->in_flight--;
    list_add(&load->idle, &call->link);
    load_pump(load);
}

/* Tasks are left: another try, at the next server. */
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
        (load->options->batch == 1 ? settle_one : settle_batch)(call, reply->payload);
    } else {
        fault_decode(&fault, reply->status, reply->message, reply->details);
        wait_ms = time_max(wait_ms, time_min(fault.retry_after_ms, TRY_MS));
        settle_all_failed(call, judge(load, reply->status, reply->unprocessed || reply->from_peer),
                          &fault);
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

static int write_body(struct load_call *call)
{
    const struct load *load = call->load;
    int err = 0;

    buf_clear(&call->body);
    for (size_t i = 0; i < call->count && err == 0; i++) {
        struct create_request request;
        char key[KEY_BYTES_MAX + 1];

        describe(load, call->numbers[i], key, sizeof(key), &request);
        err = load->options->batch == 1 ? codec_write_create(&request, &call->body)
                                        : codec_write_batch_item(&request, &call->body);
    }
    return err;
}

static void call_send(struct load_call *call)
{
    struct load *load = call->load;
    struct channels *channels = load->channels;
    int err = write_body(call);

    call->request = (struct rpc_request){
        .path = load->options->batch == 1 ? CREATE_PATH : BATCH_PATH,
        .payload = buf_slice(&call->body),
        .deadline_us = loop_now_us(channels->loop) + TRY_MS * US_PER_MS,
        .cb = on_reply,
        .ctx = call,
    };
    if (err == 0) {
        err = rpc_channel_call(channels->list[call->server], &call->request);
    }
    if (err != 0) {
        struct fault fault;

        fault_set_err(&fault, err, "send a call");
        settle_all_failed(call, judge(load, fault.status, true), &fault);
        // Not call_end: that would come back here without end while the channel refuses.
        call_again(call, RETRY_MS);
    }
}

/* Tasks whose time has come by the schedule. */
static int64_t due_count(const struct load *load)
{
    int64_t elapsed_us = loop_now_us(load->channels->loop) - load->start_us;
    int64_t due = load->options->count;

    if (load->options->rate > 0) {
        due = time_mul(elapsed_us, load->options->rate) / US_PER_S + 1;
    }
    return time_min(due, load->options->count);
}

/* Start a call with the next tasks. */
static void call_start(struct load *load, int64_t count)
{
    struct list *link = list_take_first(&load->idle);
    struct load_call *call = CONTAINER_OF(link, struct load_call, link);

    REQUIRE(link != NULL);
    call->count = (size_t)count;
    for (int64_t i = 0; i < count; i++) {
        call->numbers[i] = (uint32_t)(load->next + i);
    }
    load->next += count;
    load->in_flight++;
    call->server = load->server;
    load->server = (load->server + 1) % load->channels->count;
    call->first_us = loop_now_us(load->channels->loop);
    call_send(call);
}

/* Start what is due and has room; else wait for an answer or for the schedule. */
static void load_pump(struct load *load)
{
    const struct load_options *options = load->options;
    int64_t due = due_count(load);

    while (!list_is_empty(&load->idle) && load->next < due) {
        int64_t left = due - load->next;

        // A batch waits until it is full, unless it is the last one.
        if (left < options->batch && due < options->count) {
            break;
        }
        call_start(load, time_min(left, options->batch));
    }
    if (load->next < options->count) {
        if (options->rate > 0 && !list_is_empty(&load->idle)) {
            int64_t wanted = time_min(load->next + options->batch, options->count);

            loop_timer_start(&load->timer,
                             load->start_us + (wanted - 1) * US_PER_S / options->rate + 1);
        }
    } else if (load->in_flight == 0) {
        loop_stop(load->channels->loop);
    }
}

static void on_timer(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    load_pump(ctx);
}

static int load_open(struct load *load)
{
    const struct load_options *options = load->options;
    size_t call_count = (size_t)options->outstanding;
    struct prng prng;

    buf_init(&load->line, 4096);
    arena_init(&load->arena, 0);
    list_init(&load->idle);
    loop_timer_init(&load->timer, load->channels->loop, on_timer, load);
    load->payload = mem_new((size_t)options->payload_bytes, 1);
    load->calls = mem_new(call_count, sizeof(*load->calls));
    if (load->payload == NULL || load->calls == NULL) {
        return ERR_NO_MEMORY;
    }
    prng_init(&prng, options->seed);
    for (int64_t i = 0; i < options->payload_bytes; i++) {
        load->payload[i] = (uint8_t)('a' + prng_below(&prng, 26));
    }
    for (size_t i = 0; i < call_count; i++) {
        struct load_call *call = &load->calls[i];

        call->load = load;
        buf_init(&call->body, RPC_MESSAGE_BYTES_MAX);
        loop_timer_init(&call->retry, load->channels->loop, on_retry, call);
        list_add(&load->idle, &call->link);
        call->numbers = mem_new((size_t)options->batch, sizeof(*call->numbers));
        if (call->numbers == NULL) {
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
            mem_free(load->calls[i].numbers);
        }
    }
    mem_free(load->calls);
    mem_free(load->payload);
    buf_fini(&load->line);
}

int load_run(struct channels *channels, const struct load_options *options,
             struct load_result *result)
{
    struct load load = {.channels = channels, .options = options, .result = result};
    int err = load_open(&load);

    if (err == 0) {
        loop_hook_add(channels->loop, &load.hook, before_poll, &load);
        load.start_us = loop_sample_us(channels->loop);
        load_pump(&load);
        loop_run(channels->loop);
        loop_hook_del(&load.hook);
        result->elapsed_us = loop_now_us(channels->loop) - load.start_us;
    } else {
        cli_say("the load: %s", err_text(err));
    }
    load_close(&load);
    if (err == 0 && (fflush(options->lines) != 0 || load.is_broken)) {
        cli_say("could not write the lines");
        return CLI_ERROR;
    }
    return err == 0 ? CLI_OK : CLI_ERROR;
}
