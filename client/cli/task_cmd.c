/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot task create, get, cancel, update.
 */
#define _GNU_SOURCE /* strerrordesc_np */

#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/json.h"
#include "client/cli/session.h"
#include "client/cli/table.h"
#include "client/cli/timetext.h"
#include "lib/base/mem.h"
#include "proto/codec_task.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CREATE_PATH "/foliot.v1.TaskService/Create"
#define GET_PATH    "/foliot.v1.TaskService/Get"
#define CANCEL_PATH "/foliot.v1.TaskService/Cancel"
#define UPDATE_PATH "/foliot.v1.TaskService/Update"

/* Room for one answer as text: a payload in base64 and what is around it. */
#define OUTPUT_BYTES_MAX ((size_t)4 * PAYLOAD_BYTES_MAX)

/* What one command holds while it runs. */
struct task_run {
    struct session session;
    struct buf request;
    struct buf reply;
    struct buf output;
    struct buf payload;
    struct arena arena;
    struct fault fault;
    const struct args *args;
};

static int run_open(struct task_run *run, const struct args *args)
{
    run->args = args;
    buf_init(&run->request, RPC_MESSAGE_BYTES_MAX);
    buf_init(&run->reply, RPC_MESSAGE_BYTES_MAX);
    buf_init(&run->output, OUTPUT_BYTES_MAX);
    buf_init(&run->payload, PAYLOAD_BYTES_MAX);
    arena_init(&run->arena, 0);
    return session_open(&run->session, args);
}

static void run_close(struct task_run *run)
{
    arena_fini(&run->arena);
    buf_fini(&run->payload);
    buf_fini(&run->output);
    buf_fini(&run->reply);
    buf_fini(&run->request);
    session_close(&run->session);
}

/* Call; on success the reply is in run->reply. */
static int run_call(struct task_run *run, const char *path, bool is_repeatable, const char *what)
{
    int code = session_call(&run->session, path, buf_slice(&run->request), is_repeatable,
                            &run->reply, &run->fault);

    return code == CLI_OK ? CLI_OK : session_complain(&run->session, what, &run->fault);
}

/* The answer could not be read, or the request could not be written. */
static int refuse_message(struct task_run *run, const char *what)
{
    cli_say("%s: %s", what, run->fault.message);
    return CLI_ERROR;
}

static int read_stream(struct task_run *run, FILE *file, const char *path)
{
    uint8_t chunk[4096];
    size_t len = 1;

    while (len > 0) {
        len = fread(chunk, 1, sizeof(chunk), file);
        if (buf_append(&run->payload, chunk, len) != 0) {
            return cli_usage("payload \"%s\" has more than %d bytes (PAYLOAD_BYTES_MAX)", path,
                             PAYLOAD_BYTES_MAX);
        }
    }
    return ferror(file) != 0 ? cli_usage("cannot read \"%s\"", path) : CLI_OK;
}

static int read_payload_file(struct task_run *run, const char *path)
{
    FILE *file;
    int code;

    if (strcmp(path, "-") == 0) {
        return read_stream(run, stdin, path);
    }
    file = fopen(path, "rb");
    if (file == NULL) {
        return cli_usage("cannot open \"%s\": %s", path, strerrordesc_np(errno));
    }
    code = read_stream(run, file, path);
    (void)fclose(file);
    return code;
}

static int read_payload(struct task_run *run, struct slice *out)
{
    const char *text = args_text(run->args, "payload", NULL);
    const char *path = args_text(run->args, "payload-file", NULL);

    if (text != NULL && path != NULL) {
        return cli_usage("give --payload or --payload-file, not both");
    }
    if (path != NULL) {
        int code = read_payload_file(run, path);

        *out = buf_slice(&run->payload);
        return code;
    }
    *out = slice_of(text == NULL ? "" : text);
    return CLI_OK;
}

/* --delay, if it was given. */
static int read_delay(const struct args *args, struct when *out)
{
    if (!args_has(args, "delay")) {
        return CLI_OK;
    }
    if (args_has(args, "at")) {
        return cli_usage("give --at or --delay, not both");
    }
    out->kind = WHEN_DELAY;
    return args_span(args, "delay", &out->delay_ms) == 0 ? CLI_OK : CLI_USAGE;
}

static int read_at(const struct args *args, const char *name, struct when *out)
{
    const char *text = args_text(args, name, NULL);

    out->kind = WHEN_NONE;
    if (text != NULL && timetext_read_when(text, out) != 0) {
        return cli_usage("--%s \"%s\" must be +15m, now, or a time with its zone like "
                         "2026-01-02T03:04:05Z",
                         name, text);
    }
    return CLI_OK;
}

static void read_queue_option(const struct args *args, struct queue_name *out)
{
    out->tenant = args_text(args, "namespace", NAMESPACE_DEFAULT);
    out->name = args_text(args, "queue", "");
}

static int read_key_option(const struct args *args, struct slice *out)
{
    const char *key = args_text(args, "key", "");

    if (strlen(key) > KEY_BYTES_MAX) {
        return cli_usage("--key has more than %d bytes (KEY_BYTES_MAX)", KEY_BYTES_MAX);
    }
    *out = slice_of(key);
    return CLI_OK;
}

static int read_key_policy(const struct args *args, enum key_policy *out)
{
    const char *text = args_text(args, "key-policy", "keep");

    if (strcmp(text, "keep") == 0) {
        *out = KEY_KEEP;
    } else if (strcmp(text, "reject") == 0) {
        *out = KEY_REJECT;
    } else if (strcmp(text, "replace") == 0) {
        *out = KEY_REPLACE;
    } else {
        return cli_usage("--key-policy \"%s\" must be keep, reject or replace", text);
    }
    return CLI_OK;
}

static int read_latest(const struct args *args, struct create_request *request)
{
    struct when latest;
    int code = read_at(args, "latest", &latest);

    if (code == CLI_OK && args_has(args, "latest") && latest.kind != WHEN_DUE) {
        code = cli_usage("--latest must be a time with its zone like 2026-01-02T03:04:05Z");
    }
    request->latest_ms = latest.kind == WHEN_DUE ? time_max(latest.due_ms, 1) : 0;
    return code;
}

static int read_create(struct task_run *run, struct create_request *request)
{
    int code = read_payload(run, &request->payload);

    read_queue_option(run->args, &request->queue);
    if (code == CLI_OK && request->queue.name[0] == '\0') {
        code = cli_usage("name the queue: --queue NAME");
    }
    if (code == CLI_OK) {
        code = read_at(run->args, "at", &request->when);
    }
    if (code == CLI_OK) {
        code = read_delay(run->args, &request->when);
    }
    if (code == CLI_OK) {
        code = read_key_option(run->args, &request->key);
    }
    if (code == CLI_OK) {
        code = read_key_policy(run->args, &request->key_policy);
    }
    if (code == CLI_OK) {
        code = read_latest(run->args, request);
    }
    if (code == CLI_OK && request->key.len == 0 &&
        (args_has(run->args, "key-policy") || args_has(run->args, "latest"))) {
        code = cli_usage("--key-policy and --latest are about a key: add --key KEY");
    }
    return code;
}

static int print_created(struct task_run *run)
{
    struct create_reply reply;
    char id[TASK_ID_TEXT_LEN + 1];
    char due[TIMETEXT_BYTES];
    struct json json;

    if (codec_read_create_reply(buf_slice(&run->reply), &run->arena, &reply, &run->fault) != 0) {
        return refuse_message(run, "read the answer");
    }
    task_id_format(reply.id, id);
    if (command_wants_json(run->args)) {
        json_init(&json, &run->output);
        json_open(&json, NULL, '{');
        json_text(&json, "id", id);
        json_bool(&json, "created", reply.created);
        json_time(&json, "dueTime", reply.due_ms);
        json_close(&json, '}');
        (void)buf_append_text(&run->output, "\n");
    } else {
        timetext_write(reply.due_ms, due);
        (void)buf_printf(&run->output, "%s %s, due %s\n", id,
                         reply.created ? "created" : "exists already", due);
    }
    return command_print(&run->output);
}

static int task_create(const struct args *args)
{
    struct create_request request = {.key_policy = KEY_KEEP};
    struct task_run run;
    int code = run_open(&run, args);

    if (code != CLI_OK) {
        return code;
    }
    code = read_create(&run, &request);
    if (code == CLI_OK && codec_write_create(&request, &run.request) != 0) {
        code = cli_usage("the request is too large");
    }
    if (code == CLI_OK) {
        // A key makes it safe to ask again; without one a second task could be made.
        code = run_call(&run, CREATE_PATH, request.key.len > 0 && request.key_policy != KEY_REJECT,
                        "create");
    }
    if (code == CLI_OK) {
        code = print_created(&run);
    }
    run_close(&run);
    return code;
}

/* Which task a command is about: an id as operand, or --queue and --key. */
static int read_task(const struct args *args, struct task_name *out)
{
    int code;

    memset(out, 0, sizeof(*out));
    read_queue_option(args, &out->queue);
    code = read_key_option(args, &out->key);
    if (code != CLI_OK) {
        return code;
    }
    if (args->operand_count == 1) {
        if (out->key.len > 0) {
            return cli_usage("give an id or --key, not both");
        }
        if (task_id_parse(slice_of(args->operands[0]), &out->id) != 0) {
            return cli_usage("\"%s\" is no task id; one looks like 0a7-0000012300000001",
                             args->operands[0]);
        }
        return CLI_OK;
    }
    if (out->key.len == 0 || out->queue.name[0] == '\0') {
        return cli_usage("name the task: its id, or --queue NAME --key KEY");
    }
    return CLI_OK;
}

static const char *state_name(enum task_view_state state)
{
    switch (state) {
    case TASK_VIEW_WAITING:
        return "WAITING";
    case TASK_VIEW_READY:
        return "READY";
    case TASK_VIEW_RUNNING:
        return "RUNNING";
    case TASK_VIEW_RETRYING:
        return "RETRYING";
    case TASK_VIEW_DONE:
        return "DONE";
    case TASK_VIEW_OBSOLETE:
        return "OBSOLETE";
    case TASK_VIEW_DEAD:
        return "DEAD";
    case TASK_VIEW_EXPIRED:
        return "EXPIRED";
    }
    return "UNSPECIFIED";
}

static void write_view_json(struct buf *out, const struct task_view *view, const char *id)
{
    struct json json;
    char state[40];

    (void)snprintf(state, sizeof(state), "TASK_STATE_%s", state_name(view->state));
    json_init(&json, out);
    json_open(&json, NULL, '{');
    json_text(&json, "id", id);
    json_text(&json, "namespace", view->queue.tenant);
    json_text(&json, "queue", view->queue.name);
    json_slice(&json, "key", view->key);
    json_time(&json, "dueTime", view->due_ms);
    json_time(&json, "createTime", view->created_ms);
    json_bytes(&json, "payload", view->payload);
    json_text(&json, "state", state);
    json_int(&json, "attempt", view->attempt);
    json_int(&json, "failures", view->failures);
    json_close(&json, '}');
    (void)buf_append_text(out, "\n");
}

static void write_view_table(struct buf *out, const struct task_view *view, const char *id)
{
    char due[TIMETEXT_BYTES];
    char created[TIMETEXT_BYTES];

    timetext_write(view->due_ms, due);
    timetext_write(view->created_ms, created);
    (void)buf_printf(out, "id        %s\nqueue     %s/%s\n", id, view->queue.tenant,
                     view->queue.name);
    if (view->key.len > 0) {
        (void)buf_printf(out, "key       %.*s\n", (int)view->key.len, (const char *)view->key.data);
    }
    (void)buf_printf(out,
                     "state     %s\ndue       %s\ncreated   %s\nattempt   %" PRIu32
                     "\nfailures  %" PRIu32 "\npayload   %zu bytes\n",
                     state_name(view->state), due, created, view->attempt, view->failures,
                     view->payload.len);
}

static int print_view(struct task_run *run)
{
    struct task_view view;
    char id[TASK_ID_TEXT_LEN + 1];

    if (codec_read_get_reply(buf_slice(&run->reply), &run->arena, &view, &run->fault) != 0) {
        return refuse_message(run, "read the answer");
    }
    task_id_format(view.id, id);
    if (command_wants_json(run->args)) {
        write_view_json(&run->output, &view, id);
    } else {
        write_view_table(&run->output, &view, id);
    }
    return command_print(&run->output);
}

static int print_cancelled(struct task_run *run)
{
    static const char *const names[] = {"", "CANCELLED", "STOPPED", "GONE", "NOT_FOUND"};
    struct cancel_reply reply;
    char id[TASK_ID_TEXT_LEN + 1] = "";
    char outcome[40];
    struct json json;
    int code;

    if (codec_read_cancel_reply(buf_slice(&run->reply), &run->arena, &reply, &run->fault) != 0) {
        return refuse_message(run, "read the answer");
    }
    if (reply.id.seq != 0) {
        task_id_format(reply.id, id);
    }
    if (command_wants_json(run->args)) {
        (void)snprintf(outcome, sizeof(outcome), "CANCEL_OUTCOME_%s", names[reply.outcome]);
        json_init(&json, &run->output);
        json_open(&json, NULL, '{');
        json_text(&json, "outcome", outcome);
        json_int(&json, "attempt", reply.attempt);
        json_text(&json, "id", id);
        json_close(&json, '}');
        (void)buf_append_text(&run->output, "\n");
    } else if (reply.outcome == CANCEL_ANSWER_STOPPED) {
        (void)buf_printf(&run->output,
                         "%s STOPPED: attempt %" PRIu32 " may be running or has run\n", id,
                         reply.attempt);
    } else {
        (void)buf_printf(&run->output, "%s%s%s\n", id, id[0] == '\0' ? "" : " ",
                         names[reply.outcome]);
    }
    code = command_print(&run->output);
    if (code == CLI_OK && reply.outcome == CANCEL_ANSWER_NOT_FOUND) {
        return CLI_NOT_FOUND;
    }
    return code == CLI_OK && reply.outcome == CANCEL_ANSWER_GONE ? CLI_CONFLICT : code;
}

/* Get and Cancel: name a task, call, print. */
static int run_named(const struct args *args, const char *path, const char *what,
                     int (*print)(struct task_run *run))
{
    struct task_name name;
    struct task_run run;
    int code = run_open(&run, args);

    if (code != CLI_OK) {
        return code;
    }
    code = read_task(args, &name);
    if (code == CLI_OK && codec_write_task_name(&name, &run.request) != 0) {
        code = cli_usage("the request is too large");
    }
    if (code == CLI_OK) {
        code = run_call(&run, path, true, what);
    }
    if (code == CLI_OK) {
        code = print(&run);
    }
    run_close(&run);
    return code;
}

static int task_get(const struct args *args)
{
    return run_named(args, GET_PATH, "get", print_view);
}

static int task_cancel(const struct args *args)
{
    return run_named(args, CANCEL_PATH, "cancel", print_cancelled);
}

static int print_updated(struct task_run *run)
{
    struct update_reply reply;
    char id[TASK_ID_TEXT_LEN + 1];
    char due[TIMETEXT_BYTES];
    struct json json;

    if (codec_read_update_reply(buf_slice(&run->reply), &run->arena, &reply, &run->fault) != 0) {
        return refuse_message(run, "read the answer");
    }
    task_id_format(reply.id, id);
    if (command_wants_json(run->args)) {
        json_init(&json, &run->output);
        json_open(&json, NULL, '{');
        json_text(&json, "id", id);
        json_time(&json, "dueTime", reply.due_ms);
        json_int(&json, "mayBeRunningAttempt", reply.may_be_running_attempt);
        json_close(&json, '}');
        (void)buf_append_text(&run->output, "\n");
        return command_print(&run->output);
    }
    timetext_write(reply.due_ms, due);
    (void)buf_printf(&run->output, "%s updated, due %s\n", id, due);
    if (reply.may_be_running_attempt != 0) {
        (void)buf_printf(&run->output, "attempt %" PRIu32 " may be running with the old payload\n",
                         reply.may_be_running_attempt);
    }
    return command_print(&run->output);
}

static int read_update(struct task_run *run, struct update_request *request)
{
    int code = read_task(run->args, &request->task);

    if (code == CLI_OK) {
        code = read_at(run->args, "at", &request->when);
    }
    if (code == CLI_OK) {
        code = read_delay(run->args, &request->when);
    }
    if (code == CLI_OK) {
        code = read_payload(run, &request->payload);
    }
    if (args_has(run->args, "at") && request->when.kind == WHEN_NONE) {
        request->when = (struct when){.kind = WHEN_DELAY}; // "now"
    }
    request->set_payload = args_has(run->args, "payload") || args_has(run->args, "payload-file");
    if (code == CLI_OK && request->when.kind == WHEN_NONE && !request->set_payload) {
        code = cli_usage("say what changes: --at TIME, --payload TEXT, or both");
    }
    return code;
}

static int task_update(const struct args *args)
{
    struct update_request request = {.set_payload = false};
    struct task_run run;
    int code = run_open(&run, args);

    if (code != CLI_OK) {
        return code;
    }
    code = read_update(&run, &request);
    if (code == CLI_OK && codec_write_update(&request, &run.request) != 0) {
        code = cli_usage("the request is too large");
    }
    if (code == CLI_OK) {
        code = run_call(&run, UPDATE_PATH, true, "update");
    }
    if (code == CLI_OK) {
        code = print_updated(&run);
    }
    run_close(&run);
    return code;
}

#define OPTION_NAMESPACE                                                         \
    {                                                                            \
        "namespace", 'n', "NAME", "namespace of the queue (default \"default\")" \
    }
#define OPTION_QUEUE                              \
    {                                             \
        "queue", 'q', "NAME", "queue of the task" \
    }
#define OPTION_KEY                                                   \
    {                                                                \
        "key", 'k', "KEY", "the task's own key, unique in its queue" \
    }
#define OPTION_AT                                                  \
    {                                                              \
        "at", 'a', "TIME", "when: +15m, now, 2026-01-02T03:04:05Z" \
    }
#define OPTION_DELAY                                                \
    {                                                               \
        "delay", 'd', "SPAN", "how long from now: 15m is --at +15m" \
    }
#define OPTION_PAYLOAD                                     \
    {                                                      \
        "payload", 'p', "TEXT", "what the target is given" \
    }
#define OPTION_FILE                                                                   \
    {                                                                                 \
        "payload-file", 'f', "FILE", "the same, from a file; \"-\" is standard input" \
    }

static const struct cli_option CREATE_OPTIONS[] = {
    OPTION_NAMESPACE,
    OPTION_QUEUE,
    OPTION_AT,
    OPTION_DELAY,
    OPTION_PAYLOAD,
    OPTION_FILE,
    OPTION_KEY,
    {"key-policy", 0, "WHAT", "if the key is taken: keep (default), reject or replace"},
    {"latest", 0, "TIME", "with replace: not due later than this"},
};

static const struct cli_option NAME_OPTIONS[] = {OPTION_NAMESPACE, OPTION_QUEUE, OPTION_KEY};

static const struct cli_option UPDATE_OPTIONS[] = {
    OPTION_NAMESPACE, OPTION_QUEUE,   OPTION_KEY,  OPTION_AT,
    OPTION_DELAY,     OPTION_PAYLOAD, OPTION_FILE,
};

const struct command TASK_COMMANDS[] = {
    {"task", "create", "", 0, "Create a task, due at once unless a time is given.",
     "  foliot task create --queue mail --at +15m --payload '{\"to\":\"a@example.org\"}'\n"
     "  foliot task create -q mail -a 2026-01-02T03:04:05Z -k order-17 -f request.bin\n",
     CREATE_OPTIONS, ARRAY_COUNT(CREATE_OPTIONS), task_create},
    {"task", "get", "[ID]", 1, "Show a pending task.",
     "  foliot task get 0a7-0000012300000001\n  foliot task get -q mail -k order-17 -o json\n",
     NAME_OPTIONS, ARRAY_COUNT(NAME_OPTIONS), task_get},
    {"task", "cancel", "[ID]", 1, "Prevent every attempt of a task that has not started.",
     "  foliot task cancel 0a7-0000012300000001\n  foliot task cancel -q mail -k order-17\n",
     NAME_OPTIONS, ARRAY_COUNT(NAME_OPTIONS), task_cancel},
    {"task", "update", "[ID]", 1, "Give a pending task a new time, a new payload, or both.",
     "  foliot task update 0a7-0000012300000001 --at +1h\n"
     "  foliot task update -q mail -k order-17 --payload later\n",
     UPDATE_OPTIONS, ARRAY_COUNT(UPDATE_OPTIONS), task_update},
};
const size_t TASK_COMMAND_COUNT = ARRAY_COUNT(TASK_COMMANDS);
