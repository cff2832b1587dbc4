/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot queue create, get, list, update.
 */
#include "client/cli/queue_cmd.h"
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/options.h"
#include "client/cli/queue_view.h"
#include "client/cli/run.h"
#include "proto/codec_queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CREATE_PATH "/foliot.v1.QueueService/Create"
#define GET_PATH    "/foliot.v1.QueueService/Get"
#define LIST_PATH   "/foliot.v1.QueueService/List"
#define UPDATE_PATH "/foliot.v1.QueueService/Update"

/* 0 is the wire's word for the default: who writes it means something else. */
static int read_number(const struct args *args, const char *name, int64_t least, uint32_t *value)
{
    int64_t number = *value;
    int err = args_number(args, name, least, UINT32_MAX, &number);

    *value = (uint32_t)number;
    return err == 0 ? CLI_OK : CLI_USAGE;
}

static int read_order(const struct args *args, struct queue *queue)
{
    const char *text = args_text(args, "order-on-failure", NULL);

    if (text != NULL) {
        queue->order_policy = strcmp(text, "skip") == 0          ? ORDER_SKIP
                              : strcmp(text, "dead-letter") == 0 ? ORDER_DEAD
                                                                 : ORDER_BLOCK;
    }
    if (args_has(args, "order-failures") && queue->order_policy != ORDER_SKIP) {
        return cli_usage("--order-failures goes with --order-on-failure skip");
    }
    return CLI_OK;
}

/* What the options say; what they leave out stays. */
static int read_policy(const struct args *args, struct queue *queue)
{
    const char *target = args_text(args, "target", NULL);
    const char *delivery = args_text(args, "delivery", NULL);
    const struct {
        const char *name;
        span_ms *value;
    } spans[] = {
        {"attempt-timeout", &queue->attempt_timeout_ms},
        {"key-memory", &queue->key_memory_ms},
        {"backoff", &queue->retry.initial_ms},
        {"backoff-max", &queue->retry.max_ms},
        {"age-max", &queue->retry.age_max_ms},
        {"result-memory", &queue->result_memory_ms},
        {"expire-after", &queue->expire_after_ms},
    };
    const struct {
        const char *name;
        int64_t least;
        uint32_t *value;
    } numbers[] = {
        {"concurrency", 1, &queue->concurrency_max},
        {"failures-max", 1, &queue->retry.failures_max},
        {"unknowns-max", 1, &queue->retry.unknowns_max},
        {"jitter-permille", 0, &queue->retry.jitter_permille},
        {"multiplier-permille", 1, &queue->retry.multiplier_permille},
        {"order-failures", 1, &queue->order_failures},
    };
    int code = CLI_OK;

    if (delivery != NULL) {
        queue->at_most_once = strcmp(delivery, "at-most-once") == 0;
    }
    if (target != NULL) {
        code = options_copy("--target", target, "TARGET_BYTES_MAX", queue->target,
                            sizeof(queue->target));
    }
    for (size_t i = 0; i < ARRAY_COUNT(spans) && code == CLI_OK; i++) {
        code = args_span(args, spans[i].name, spans[i].value) == 0 ? CLI_OK : CLI_USAGE;
    }
    for (size_t i = 0; i < ARRAY_COUNT(numbers) && code == CLI_OK; i++) {
        code = read_number(args, numbers[i].name, numbers[i].least, numbers[i].value);
    }
    return code == CLI_OK ? read_order(args, queue) : code;
}

int queue_print(struct run *run)
{
    struct queue_reply reply;

    if (codec_read_queue_reply(buf_slice(&run->reply), &run->arena, &reply, &run->fault) != 0) {
        return run_refuse_answer(run);
    }
    if (output_wants_json(&run->output)) {
        struct json *json = output_json(&run->output);

        json_open(json, NULL, '{');
        queue_view_json(json, "queue", &reply.queue);
        json_texts(json, "unconfirmedBrokers", reply.unconfirmed, reply.unconfirmed_count);
        json_close(json, '}');
        output_json_done(&run->output);
        return output_end(&run->output);
    }
    queue_view_row(&run->output, &reply.queue);
    for (size_t i = 0; i < reply.unconfirmed_count; i++) {
        output_note(&run->output, "not yet known to %s", reply.unconfirmed[i]);
    }
    return output_end(&run->output);
}

static int queue_create(const struct args *args)
{
    struct queue queue;
    struct run run;
    int code = run_open(&run, args, &QUEUE_LAYOUT);

    if (code != CLI_OK) {
        return code;
    }
    queue_init(&queue);
    code = options_queue_operand(args, &queue);
    if (code == CLI_OK && !args_has(args, "target")) {
        code = cli_usage("say where its tasks go: --target receiver://host:port or "
                         "grpc://host:port/package.Service/Method");
    }
    if (code == CLI_OK) {
        code = read_policy(args, &queue);
    }
    if (code == CLI_OK) {
        code =
            run_call(&run, codec_write_queue(&queue, &run.request), CREATE_PATH, false, "create");
    }
    if (code == CLI_OK) {
        code = queue_print(&run);
    }
    return run_close(&run, code);
}

/* Read the queue that the operand names; the reply is in run->reply. */
static int fetch_queue(struct run *run)
{
    struct queue names;
    struct queue_name name;
    int code = options_queue_operand(run->args, &names);

    if (code != CLI_OK) {
        return code;
    }
    name = (struct queue_name){names.tenant, names.name};
    return run_call(run, codec_write_queue_name(&name, &run->request), GET_PATH, true, "get");
}

static int queue_get(const struct args *args)
{
    struct run run;
    int code = run_open(&run, args, &QUEUE_LAYOUT);

    if (code != CLI_OK) {
        return code;
    }
    code = fetch_queue(&run);
    if (code == CLI_OK) {
        code = queue_print(&run);
    }
    return run_close(&run, code);
}

/* Write back what was read, with the changes and its version: a change by others is not undone. */
static int write_back(struct run *run)
{
    struct queue_reply reply;
    int code;

    if (codec_read_queue_reply(buf_slice(&run->reply), &run->arena, &reply, &run->fault) != 0) {
        return run_refuse_answer(run);
    }
    code = read_policy(run->args, &reply.queue);
    buf_clear(&run->request);
    return code != CLI_OK ? code
                          : run_call(run, codec_write_queue(&reply.queue, &run->request),
                                     UPDATE_PATH, false, "update");
}

static int queue_list_page(struct run *run, uint32_t *after_id)
{
    struct queue_list_reply page;
    struct queue queue;

    if (codec_read_queue_list_reply(buf_slice(&run->reply), &run->arena, &page, &run->fault) != 0) {
        return run_refuse_answer(run);
    }
    for (size_t i = 0; i < page.count; i++) {
        if (codec_read_queue_list_item(&page, i, &queue, &run->fault) != 0) {
            return run_refuse_answer(run);
        }
        if (output_wants_json(&run->output)) {
            queue_view_json(output_json(&run->output), NULL, &queue);
            output_json_done(&run->output);
        } else {
            queue_view_row(&run->output, &queue);
        }
    }
    *after_id = page.after_id;
    return output_page(&run->output);
}

static int queue_list(const struct args *args)
{
    struct queue_list_request request = {
        .tenant = args_text(args, "namespace", ""),
        .page_size = QUEUE_PAGE_COUNT_MAX,
    };
    struct run run;
    int code = run_open(&run, args, &QUEUE_LIST_LAYOUT);

    if (code != CLI_OK) {
        return code;
    }
    do {
        buf_clear(&run.request);
        code =
            run_call(&run, codec_write_queue_list(&request, &run.request), LIST_PATH, true, "list");
        if (code == CLI_OK) {
            code = queue_list_page(&run, &request.after_id);
        }
    } while (code == CLI_OK && request.after_id != 0);
    if (code == CLI_OK) {
        code = output_end(&run.output);
    }
    return run_close(&run, code);
}

/* ---- the table ---- */

static const struct cli_option CREATE_OPTIONS[] = {
    OPTION_NAMESPACE,
    {"target", 't', "URL", "receiver://host:port or grpc://host:port/package.Service/Method"},
    {"delivery", 0, "at-least-once|at-most-once",
     "whether an unknown outcome is repeated (default at-least-once)"},
    {"attempt-timeout", 0, "SPAN", "how long one attempt may take (default 10s)"},
    {"key-memory", 0, "SPAN", "how long a key is held after its task (default 10m)"},
    {"result-memory", 0, "SPAN", "how long results are kept (default 0s: not at all)"},
    {"expire-after", 0, "SPAN", "a task ends unstarted so long after its due time (default never)"},
    {"concurrency", 0, "N", "attempts in flight per broker (default 1000)"},
    {"backoff", 0, "SPAN", "wait after the first failure (default 1s)"},
    {"backoff-max", 0, "SPAN", "longest wait (default 10m)"},
    {"multiplier-permille", 0, "N", "growth of the wait (default 2000: it doubles)"},
    {"jitter-permille", 0, "N", "random share of the wait (default 100)"},
    {"failures-max", 0, "N", "give up after this many failures (default 10)"},
    {"unknowns-max", 0, "N", "give up after this many unknown outcomes (default 5)"},
    {"age-max", 0, "SPAN", "give up when older than this (default never)"},
    {"order-on-failure", 0, "block|skip|dead-letter",
     "what a failing task does to those of its order key (default block)"},
    {"order-failures", 0, "N", "with skip: how often it fails before they go first (default 1)"},
};
static const struct cli_option NAME_OPTIONS[] = {OPTION_NAMESPACE};
static const struct cli_option LIST_OPTIONS[] = {OPTION_NAMESPACE_FILTER};

/* Does an option say anything of the queue's policy? */
static bool says_policy(const struct args *args)
{
    bool is_said = false;

    for (size_t i = 1; i < ARRAY_COUNT(CREATE_OPTIONS) && !is_said; i++) { // the first one names it
        is_said = args_has(args, CREATE_OPTIONS[i].name);
    }
    return is_said;
}

static int queue_update(const struct args *args)
{
    struct run run;
    int code;

    if (!says_policy(args)) {
        return cli_usage("say what changes, for example --target URL; see --help");
    }
    code = run_open(&run, args, &QUEUE_LAYOUT);
    if (code != CLI_OK) {
        return code;
    }
    code = fetch_queue(&run);
    if (code == CLI_OK) {
        code = write_back(&run);
    }
    if (code == CLI_OK) {
        code = queue_print(&run);
    }
    return run_close(&run, code);
}

const struct command QUEUE_COMMANDS[] = {
    {"queue", "create", "NAME", 1, "Create a queue.",
     "  foliot queue create mail --target receiver://127.0.0.1:7500\n"
     "  foliot queue create bill -t grpc://billing:50051/shop.Billing/Charge "
     "--attempt-timeout 30s\n",
     CREATE_OPTIONS, ARRAY_COUNT(CREATE_OPTIONS), queue_create, COMMAND_CALLS | COMMAND_ROWS},
    {"queue", "get", "NAME", 1, "Show a queue and its policy.",
     "  foliot queue get mail\n  foliot queue get mail -o json\n", NAME_OPTIONS,
     ARRAY_COUNT(NAME_OPTIONS), queue_get, COMMAND_CALLS | COMMAND_ROWS | COMMAND_WATCH},
    {"queue", "list", "", 0, "List the queues.",
     "  foliot queue list\n  foliot queue list -o wide\n"
     "  foliot queue list --columns name,target --no-headers\n",
     LIST_OPTIONS, ARRAY_COUNT(LIST_OPTIONS), queue_list,
     COMMAND_CALLS | COMMAND_ROWS | COMMAND_WATCH},
    {"queue", "update", "NAME", 1, "Change a queue; what is not said stays.",
     "  foliot queue update mail --concurrency 50\n", CREATE_OPTIONS, ARRAY_COUNT(CREATE_OPTIONS),
     queue_update, COMMAND_CALLS | COMMAND_ROWS},
};
const size_t QUEUE_COMMAND_COUNT = ARRAY_COUNT(QUEUE_COMMANDS);
