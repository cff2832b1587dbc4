/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot queue create, get, list, update.
 */
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/json.h"
#include "client/cli/session.h"
#include "client/cli/table.h"
#include "client/cli/timetext.h"
#include "proto/codec_queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CREATE_PATH "/foliot.v1.QueueService/Create"
#define GET_PATH    "/foliot.v1.QueueService/Get"
#define LIST_PATH   "/foliot.v1.QueueService/List"
#define UPDATE_PATH "/foliot.v1.QueueService/Update"

#define OUTPUT_BYTES_MAX ((size_t)16 << 20U)

struct queue_run {
    struct session session;
    struct buf request;
    struct buf reply;
    struct buf output;
    struct arena arena;
    struct fault fault;
    const struct args *args;
};

static int run_open(struct queue_run *run, const struct args *args)
{
    run->args = args;
    buf_init(&run->request, RPC_MESSAGE_BYTES_MAX);
    buf_init(&run->reply, RPC_MESSAGE_BYTES_MAX);
    buf_init(&run->output, OUTPUT_BYTES_MAX);
    arena_init(&run->arena, 0);
    return session_open(&run->session, args);
}

static void run_close(struct queue_run *run)
{
    arena_fini(&run->arena);
    buf_fini(&run->output);
    buf_fini(&run->reply);
    buf_fini(&run->request);
    session_close(&run->session);
}

static int run_call(struct queue_run *run, const char *path, bool is_repeatable, const char *what)
{
    int code;

    buf_clear(&run->reply);
    code = session_call(&run->session, path, buf_slice(&run->request), is_repeatable, &run->reply,
                        &run->fault);
    return code == CLI_OK ? CLI_OK : session_complain(&run->session, what, &run->fault);
}

static int refuse_message(struct queue_run *run)
{
    cli_say("read the answer: %s", run->fault.message);
    return CLI_ERROR;
}

static int copy_text(const char *what, const char *text, char *out, size_t size)
{
    if (strlen(text) >= size) {
        return cli_usage("%s has more than %zu bytes", what, size - 1);
    }
    (void)snprintf(out, size, "%s", text);
    return CLI_OK;
}

/* Names of a queue: one operand, and --namespace. */
static int read_names(const struct args *args, struct queue *queue)
{
    int code;

    if (args->operand_count != 1) {
        return cli_usage("name the queue");
    }
    code = copy_text("--namespace", args_text(args, "namespace", NAMESPACE_DEFAULT), queue->tenant,
                     sizeof(queue->tenant));
    return code != CLI_OK
               ? code
               : copy_text("the name", args->operands[0], queue->name, sizeof(queue->name));
}

/* 0 is the wire's word for the default: who writes it means something else. */
static int read_number(const struct args *args, const char *name, int64_t least, uint32_t *value)
{
    int64_t number = *value;
    int err = args_number(args, name, least, UINT32_MAX, &number);

    *value = (uint32_t)number;
    return err == 0 ? CLI_OK : CLI_USAGE;
}

static int read_delivery(const struct args *args, bool *at_most_once)
{
    const char *text =
        args_text(args, "delivery", *at_most_once ? "at-most-once" : "at-least-once");

    if (strcmp(text, "at-most-once") != 0 && strcmp(text, "at-least-once") != 0) {
        return cli_usage("--delivery \"%s\" must be at-least-once or at-most-once", text);
    }
    *at_most_once = strcmp(text, "at-most-once") == 0;
    return CLI_OK;
}

/* What the options say; what they leave out stays. */
static int read_policy(const struct args *args, struct queue *queue)
{
    const char *target = args_text(args, "target", NULL);
    const struct {
        const char *name;
        span_ms *value;
    } spans[] = {
        {"attempt-timeout", &queue->attempt_timeout_ms}, {"key-memory", &queue->key_memory_ms},
        {"backoff", &queue->retry.initial_ms},           {"backoff-max", &queue->retry.max_ms},
        {"age-max", &queue->retry.age_max_ms},
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
    };
    int code = read_delivery(args, &queue->at_most_once);

    if (code == CLI_OK && target != NULL) {
        code = copy_text("--target", target, queue->target, sizeof(queue->target));
    }
    for (size_t i = 0; i < ARRAY_COUNT(spans) && code == CLI_OK; i++) {
        code = args_span(args, spans[i].name, spans[i].value) == 0 ? CLI_OK : CLI_USAGE;
    }
    for (size_t i = 0; i < ARRAY_COUNT(numbers) && code == CLI_OK; i++) {
        code = read_number(args, numbers[i].name, numbers[i].least, numbers[i].value);
    }
    return code;
}

static void write_queue_json(struct json *json, const char *name, const struct queue *queue)
{
    const struct retry_policy *retry = &queue->retry;

    json_open(json, name, '{');
    json_text(json, "namespace", queue->tenant);
    json_text(json, "name", queue->name);
    json_text(json, "target", queue->target);
    json_text(json, "delivery",
              queue->at_most_once ? "DELIVERY_AT_MOST_ONCE" : "DELIVERY_AT_LEAST_ONCE");
    json_span(json, "attemptTimeout", queue->attempt_timeout_ms);
    json_span(json, "keyMemory", queue->key_memory_ms);
    json_int(json, "concurrencyMax", queue->concurrency_max);
    json_open(json, "retry", '{');
    json_span(json, "initialBackoff", retry->initial_ms);
    json_span(json, "maxBackoff", retry->max_ms);
    json_int(json, "multiplierPermille", retry->multiplier_permille);
    json_int(json, "jitterPermille", retry->jitter_permille);
    json_int(json, "failuresMax", retry->failures_max);
    json_int(json, "unknownsMax", retry->unknowns_max);
    if (retry->age_max_ms != 0) {
        json_span(json, "ageMax", retry->age_max_ms);
    }
    json_close(json, '}');
    json_int(json, "version", queue->version);
    json_int(json, "id", queue->id);
    json_close(json, '}');
}

static void write_queue_table(struct buf *out, const struct queue *queue)
{
    const struct retry_policy *retry = &queue->retry;
    char spans[5][TIMETEXT_BYTES];

    timetext_write_span(queue->attempt_timeout_ms, spans[0]);
    timetext_write_span(queue->key_memory_ms, spans[1]);
    timetext_write_span(retry->initial_ms, spans[2]);
    timetext_write_span(retry->max_ms, spans[3]);
    timetext_write_span(retry->age_max_ms, spans[4]);
    (void)buf_printf(out, "queue            %s/%s (id %" PRIu32 ", version %" PRIu32 ")\n",
                     queue->tenant, queue->name, queue->id, queue->version);
    (void)buf_printf(out, "target           %s\ndelivery         %s\n", queue->target,
                     queue->at_most_once ? "at most once" : "at least once");
    (void)buf_printf(out,
                     "attempt timeout  %s\nkey memory       %s\nconcurrency      %" PRIu32 "\n",
                     spans[0], spans[1], queue->concurrency_max);
    (void)buf_printf(out,
                     "retry            %s to %s, x %" PRIu32 ".%03" PRIu32 ", jitter %" PRIu32
                     " permille, %" PRIu32 " failures, %" PRIu32 " unknowns, age %s\n",
                     spans[2], spans[3], retry->multiplier_permille / 1000,
                     retry->multiplier_permille % 1000, retry->jitter_permille, retry->failures_max,
                     retry->unknowns_max, retry->age_max_ms == 0 ? "any" : spans[4]);
}

static int print_queue(struct queue_run *run)
{
    struct queue_reply reply;
    struct json json;

    if (codec_read_queue_reply(buf_slice(&run->reply), &run->arena, &reply, &run->fault) != 0) {
        return refuse_message(run);
    }
    if (command_wants_json(run->args)) {
        json_init(&json, &run->output);
        json_open(&json, NULL, '{');
        write_queue_json(&json, "queue", &reply.queue);
        json_open(&json, "unconfirmedBrokers", '[');
        for (size_t i = 0; i < reply.unconfirmed_count; i++) {
            json_text(&json, NULL, reply.unconfirmed[i]);
        }
        json_close(&json, ']');
        json_close(&json, '}');
        (void)buf_append_text(&run->output, "\n");
        return command_print(&run->output);
    }
    write_queue_table(&run->output, &reply.queue);
    for (size_t i = 0; i < reply.unconfirmed_count; i++) {
        (void)buf_printf(&run->output, "not yet known to %s\n", reply.unconfirmed[i]);
    }
    return command_print(&run->output);
}

static int queue_create(const struct args *args)
{
    struct queue_run run;
    struct queue queue;
    int code = run_open(&run, args);

    if (code != CLI_OK) {
        return code;
    }
    queue_init(&queue);
    code = read_names(args, &queue);
    if (code == CLI_OK && !args_has(args, "target")) {
        code = cli_usage("say where its tasks go: --target receiver://host:port or "
                         "grpc://host:port/package.Service/Method");
    }
    if (code == CLI_OK) {
        code = read_policy(args, &queue);
    }
    if (code == CLI_OK && codec_write_queue(&queue, &run.request) != 0) {
        code = cli_usage("the request is too large");
    }
    if (code == CLI_OK) {
        code = run_call(&run, CREATE_PATH, false, "create");
    }
    if (code == CLI_OK) {
        code = print_queue(&run);
    }
    run_close(&run);
    return code;
}

/* Read the queue that the operand names; the reply is in run->reply. */
static int fetch_queue(struct queue_run *run)
{
    struct queue names;
    struct queue_name name;
    int code = read_names(run->args, &names);

    if (code != CLI_OK) {
        return code;
    }
    name = (struct queue_name){names.tenant, names.name};
    if (codec_write_queue_name(&name, &run->request) != 0) {
        return cli_usage("the request is too large");
    }
    return run_call(run, GET_PATH, true, "get");
}

static int queue_get(const struct args *args)
{
    struct queue_run run;
    int code = run_open(&run, args);

    if (code != CLI_OK) {
        return code;
    }
    code = fetch_queue(&run);
    if (code == CLI_OK) {
        code = print_queue(&run);
    }
    run_close(&run);
    return code;
}

/* Write back what was read, with the changes and its version: a change by others is not undone. */
static int write_back(struct queue_run *run)
{
    struct queue_reply reply;
    int code;

    if (codec_read_queue_reply(buf_slice(&run->reply), &run->arena, &reply, &run->fault) != 0) {
        return refuse_message(run);
    }
    code = read_policy(run->args, &reply.queue);
    buf_clear(&run->request);
    if (code == CLI_OK && codec_write_queue(&reply.queue, &run->request) != 0) {
        code = cli_usage("the request is too large");
    }
    return code != CLI_OK ? code : run_call(run, UPDATE_PATH, false, "update");
}

/* Does an option say anything of the queue's policy? */
static bool says_policy(const struct args *args)
{
    static const char *const others[] = {"namespace", "server", "timeout", "output"};

    for (size_t i = 0; i < args->item_count; i++) {
        bool is_other = false;

        for (size_t j = 0; j < ARRAY_COUNT(others); j++) {
            is_other = is_other || strcmp(args->items[i].name, others[j]) == 0;
        }
        if (!is_other) {
            return true;
        }
    }
    return false;
}

static int queue_update(const struct args *args)
{
    struct queue_run run;
    int code;

    if (!says_policy(args)) {
        return cli_usage("say what changes, for example --target URL; see --help");
    }
    code = run_open(&run, args);
    if (code != CLI_OK) {
        return code;
    }
    code = fetch_queue(&run);
    if (code == CLI_OK) {
        code = write_back(&run);
    }
    if (code == CLI_OK) {
        code = print_queue(&run);
    }
    run_close(&run);
    return code;
}

/* One page: rows into the table, or lines of JSON; says where the next one starts. */
static int add_page(struct queue_run *run, struct table *table, uint32_t *after_id)
{
    struct queue_list_reply page;
    struct queue queue;

    if (codec_read_queue_list_reply(buf_slice(&run->reply), &run->arena, &page, &run->fault) != 0) {
        return refuse_message(run);
    }
    for (size_t i = 0; i < page.count; i++) {
        char timeout[TIMETEXT_BYTES];
        char id[16];
        struct json json;

        if (codec_read_queue_list_item(&page, i, &queue, &run->fault) != 0) {
            return refuse_message(run);
        }
        if (command_wants_json(run->args)) {
            json_init(&json, &run->output);
            write_queue_json(&json, NULL, &queue);
            (void)buf_append_text(&run->output, "\n");
        } else {
            timetext_write_span(queue.attempt_timeout_ms, timeout);
            (void)snprintf(id, sizeof(id), "%" PRIu32, queue.id);
            table_add(table,
                      (const char *const[]){id, queue.tenant, queue.name, timeout, queue.target});
        }
    }
    *after_id = page.after_id;
    return CLI_OK;
}

static int list_pages(struct queue_run *run, struct table *table)
{
    struct queue_list_request request = {
        .tenant = args_text(run->args, "namespace", ""),
        .page_size = QUEUE_PAGE_COUNT_MAX,
    };
    int code;

    do {
        buf_clear(&run->request);
        if (codec_write_queue_list(&request, &run->request) != 0) {
            return cli_usage("the request is too large");
        }
        code = run_call(run, LIST_PATH, true, "list");
        if (code == CLI_OK) {
            code = add_page(run, table, &request.after_id);
        }
        arena_fini(&run->arena);
    } while (code == CLI_OK && request.after_id != 0);
    return code;
}

static int queue_list(const struct args *args)
{
    static const char *const headings[] = {"ID", "NAMESPACE", "NAME", "TIMEOUT", "TARGET"};
    struct table table;
    struct queue_run run;
    int code = run_open(&run, args);

    if (code != CLI_OK) {
        return code;
    }
    table_init(&table, headings, ARRAY_COUNT(headings));
    code = list_pages(&run, &table);
    if (code == CLI_OK && !command_wants_json(args)) {
        table_write(&table, &run.output);
    }
    if (code == CLI_OK) {
        code = command_print(&run.output);
    }
    table_fini(&table);
    run_close(&run);
    return code;
}

#define OPTION_NAMESPACE                                                         \
    {                                                                            \
        "namespace", 'n', "NAME", "namespace of the queue (default \"default\")" \
    }

static const struct cli_option POLICY_OPTIONS[] = {
    OPTION_NAMESPACE,
    {"target", 't', "URL", "receiver://host:port or grpc://host:port/package.Service/Method"},
    {"delivery", 0, "WHAT", "at-least-once (default) or at-most-once"},
    {"attempt-timeout", 0, "SPAN", "how long one attempt may take (default 10s)"},
    {"key-memory", 0, "SPAN", "how long a key is held after its task (default 10m)"},
    {"concurrency", 0, "N", "attempts in flight per broker (default 1000)"},
    {"backoff", 0, "SPAN", "wait after the first failure (default 1s)"},
    {"backoff-max", 0, "SPAN", "longest wait (default 10m)"},
    {"multiplier-permille", 0, "N", "growth of the wait (default 2000: it doubles)"},
    {"jitter-permille", 0, "N", "random share of the wait (default 100)"},
    {"failures-max", 0, "N", "give up after this many failures (default 10)"},
    {"unknowns-max", 0, "N", "give up after this many unknown outcomes (default 5)"},
    {"age-max", 0, "SPAN", "give up when older than this (default never)"},
};
static const struct cli_option NAME_OPTIONS[] = {OPTION_NAMESPACE};
static const struct cli_option LIST_OPTIONS[] = {
    {"namespace", 'n', "NAME", "only this namespace"},
};

const struct command QUEUE_COMMANDS[] = {
    {"queue", "create", "NAME", 1, "Create a queue.",
     "  foliot queue create mail --target receiver://127.0.0.1:7500\n"
     "  foliot queue create bill -t grpc://billing:50051/shop.Billing/Charge "
     "--attempt-timeout 30s\n",
     POLICY_OPTIONS, ARRAY_COUNT(POLICY_OPTIONS), queue_create},
    {"queue", "get", "NAME", 1, "Show a queue and its policy.", "  foliot queue get mail -o json\n",
     NAME_OPTIONS, ARRAY_COUNT(NAME_OPTIONS), queue_get},
    {"queue", "list", "", 0, "List the queues.", "  foliot queue list\n", LIST_OPTIONS,
     ARRAY_COUNT(LIST_OPTIONS), queue_list},
    {"queue", "update", "NAME", 1, "Change a queue; what is not said stays.",
     "  foliot queue update mail --concurrency 50\n", POLICY_OPTIONS, ARRAY_COUNT(POLICY_OPTIONS),
     queue_update},
};
const size_t QUEUE_COMMAND_COUNT = ARRAY_COUNT(QUEUE_COMMANDS);
