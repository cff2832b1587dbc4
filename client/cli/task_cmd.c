/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot task create, get, cancel, update, run.
 */
#include "client/cli/task_cmd.h"
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/confirm.h"
#include "client/cli/moment.h"
#include "client/cli/options.h"
#include "client/cli/run.h"
#include "client/cli/task_filter.h"
#include "client/cli/task_view.h"
#include "lib/io/clock.h"
#include "proto/codec_task.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CREATE_PATH "/foliot.v1.TaskService/Create"
#define CANCEL_PATH "/foliot.v1.TaskService/Cancel"
#define UPDATE_PATH "/foliot.v1.TaskService/Update"
#define RUN_PATH    "/foliot.v1.TaskService/RunNow"

/* ---- what is answered about one task ---- */

static const struct output_column ANSWER_COLUMNS[] = {
    {"ID", false}, {"RESULT", false}, {"DUE", false}, {"ATTEMPT", false}};
static const struct output_layout ANSWER_LAYOUT = {ANSWER_COLUMNS, ARRAY_COUNT(ANSWER_COLUMNS), 0,
                                                   NULL};

struct answer {
    struct task_id id;  /* seq 0: not known */
    const char *result; /* "created" */
    bool is_due;        /* due_ms has a meaning, if it is not WALL_NEVER */
    wall_ms due_ms;
    uint32_t attempt; /* 0: nothing to say */
};

/* A sentence for people, cells for who asked for columns. JSON is the caller's. */
static int print_answer(struct run *run, const struct answer *answer, const char *remark)
{
    char id[TASK_ID_TEXT_LEN + 1] = "";
    char due[TIMETEXT_BYTES] = "";
    char from_now[TIMETEXT_BYTES] = "";
    char attempt[16] = "";

    if (answer->id.seq != 0) {
        task_id_format(answer->id, id);
    }
    if (answer->is_due) {
        moment_write(answer->due_ms, due);
        moment_write_relative(answer->due_ms, clock_wall_ms(), from_now);
    }
    if (answer->attempt != 0) {
        (void)snprintf(attempt, sizeof(attempt), "%" PRIu32, answer->attempt);
    }
    if (!run->output.is_record || run->output.format == OUTPUT_NAME) {
        output_row(&run->output, (const char *const[]){id, answer->result, due, attempt});
        return output_end(&run->output);
    }
    output_note(&run->output, "%s%s%s%s%s%s%s%s%s", id, id[0] == '\0' ? "" : " ", answer->result,
                due[0] == '\0' ? "" : ", due ", due,
                run->output.format == OUTPUT_WIDE && due[0] != '\0' ? " (" : "",
                run->output.format == OUTPUT_WIDE ? from_now : "",
                run->output.format == OUTPUT_WIDE && due[0] != '\0' ? ")" : "", remark);
    return output_end(&run->output);
}

static int print_json(struct run *run)
{
    output_json_done(&run->output);
    return output_end(&run->output);
}

/* ---- create ---- */

static enum key_policy read_key_policy(const struct args *args)
{
    const char *text = args_text(args, "key-policy", "keep");

    return strcmp(text, "reject") == 0    ? KEY_REJECT
           : strcmp(text, "replace") == 0 ? KEY_REPLACE
                                          : KEY_KEEP;
}

/* A bound that 0 stands for the lack of. */
static int read_bound(const struct args *args, const char *name, wall_ms *out)
{
    int code;

    *out = 0;
    code = moment_option_wall(args, name, out);
    if (code == CLI_OK && args_has(args, name)) {
        *out = time_max(*out, 1);
    }
    return code;
}

static int read_create(const struct args *args, struct buf *payload, struct create_request *request)
{
    int code = options_payload(args, payload, &request->payload);

    options_queue(args, &request->queue);
    if (code == CLI_OK && request->queue.name[0] == '\0') {
        code = cli_usage("name the queue: --queue NAME");
    }
    if (code == CLI_OK) {
        code = options_when(args, &request->when);
    }
    if (code == CLI_OK) {
        code = options_key(args, &request->key);
    }
    if (code == CLI_OK) {
        code = options_order_key(args, &request->order_key);
    }
    request->key_policy = read_key_policy(args);
    if (code == CLI_OK) {
        code = read_bound(args, "latest", &request->latest_ms);
    }
    if (code == CLI_OK) {
        code = read_bound(args, "expires", &request->expire_ms);
    }
    if (code == CLI_OK && request->key.len == 0 &&
        (args_has(args, "key-policy") || args_has(args, "latest"))) {
        code = cli_usage("--key-policy and --latest are about a key: add --key KEY");
    }
    return code;
}

static int print_created(struct run *run)
{
    struct create_reply reply;
    struct answer answer;
    char id[TASK_ID_TEXT_LEN + 1];

    if (codec_read_create_reply(buf_slice(&run->reply), &run->arena, &reply, &run->fault) != 0) {
        return run_refuse_answer(run);
    }
    if (output_wants_json(&run->output)) {
        struct json *json = output_json(&run->output);

        task_id_format(reply.id, id);
        json_open(json, NULL, '{');
        json_text(json, "id", id);
        json_bool(json, "created", reply.created);
        json_time(json, "dueTime", reply.due_ms);
        json_close(json, '}');
        return print_json(run);
    }
    answer = (struct answer){reply.id, reply.created ? "created" : "exists already",
                             reply.due_ms != WALL_NEVER, reply.due_ms, 0};
    return print_answer(run, &answer, "");
}

static int task_create(const struct args *args)
{
    struct create_request request = {.key_policy = KEY_KEEP};
    char tags[TAGS_BYTES_MAX];
    struct buf payload;
    struct run run;
    int code = run_open(&run, args, &ANSWER_LAYOUT);

    if (code != CLI_OK) {
        return code;
    }
    buf_init(&payload, PAYLOAD_BYTES_MAX);
    code = read_create(args, &payload, &request);
    if (code == CLI_OK) {
        code = options_tags(args, tags, &request.tags);
    }
    if (code == CLI_OK) {
        // A key makes it safe to ask again; without one a second task could be made.
        code = run_call(&run, codec_write_create(&request, &run.request), CREATE_PATH,
                        request.key.len > 0 && request.key_policy != KEY_REJECT, "create");
    }
    if (code == CLI_OK) {
        code = print_created(&run);
    }
    buf_fini(&payload);
    return run_close(&run, code);
}

/* ---- get and cancel ---- */

static int print_view(struct run *run)
{
    struct task_view view;

    if (codec_read_get_reply(buf_slice(&run->reply), &run->arena, &view, &run->fault) != 0) {
        return run_refuse_answer(run);
    }
    task_view_add(&run->output, &view);
    return output_end(&run->output);
}

static int show_cancelled(struct run *run, const struct cancel_reply *reply)
{
    static const char *const names[] = {"", "CANCELLED", "STOPPED", "GONE", "NOT_FOUND"};
    char remark[64] = "";
    char id[TASK_ID_TEXT_LEN + 1] = "";
    char outcome[40];

    if (output_wants_json(&run->output)) {
        struct json *json = output_json(&run->output);

        (void)snprintf(outcome, sizeof(outcome), "CANCEL_OUTCOME_%s", names[reply->outcome]);
        if (reply->id.seq != 0) {
            task_id_format(reply->id, id);
        }
        json_open(json, NULL, '{');
        json_text(json, "outcome", outcome);
        json_int(json, "attempt", reply->attempt);
        json_text(json, "id", id);
        json_close(json, '}');
        return print_json(run);
    }
    if (reply->outcome == CANCEL_ANSWER_STOPPED) {
        (void)snprintf(remark, sizeof(remark), ": attempt %" PRIu32 " may be running or has run",
                       reply->attempt);
    }
    return print_answer(
        run, &(struct answer){reply->id, names[reply->outcome], false, 0, reply->attempt}, remark);
}

static int print_cancelled(struct run *run)
{
    struct cancel_reply reply;
    int code;

    if (codec_read_cancel_reply(buf_slice(&run->reply), &run->arena, &reply, &run->fault) != 0) {
        return run_refuse_answer(run);
    }
    code = show_cancelled(run, &reply);
    if (code == CLI_OK && reply.outcome == CANCEL_ANSWER_NOT_FOUND) {
        return CLI_NOT_FOUND;
    }
    return code == CLI_OK && reply.outcome == CANCEL_ANSWER_GONE ? CLI_CONFLICT : code;
}

/* A call that does no harm when repeated, about a task that is named. */
struct named_call {
    const char *path;
    const char *what;
    const struct output_layout *layout;
    int (*print)(struct run *run);
};

static int run_named(const struct args *args, const struct named_call *call)
{
    struct task_name name;
    struct run run;
    int code = run_open(&run, args, call->layout);

    if (code != CLI_OK) {
        return code;
    }
    code = options_task(args, &name);
    if (code == CLI_OK) {
        code = run_call(&run, codec_write_task_name(&name, &run.request), call->path, true,
                        call->what);
    }
    if (code == CLI_OK) {
        code = call->print(&run);
    }
    return run_close(&run, code);
}

static int task_get(const struct args *args)
{
    return run_named(args, &(struct named_call){TASK_GET_PATH, "get", &TASK_LAYOUT, print_view});
}

static int task_cancel(const struct args *args)
{
    bool is_one = args->operand_count > 0 || args_has(args, "key");
    bool is_many = args_has(args, "all") || task_filter_is_narrow(args);

    if (is_one && is_many) {
        return cli_usage(
            "name one task, or say which by --all, --state, --due-before or --tag, not "
            "both");
    }
    if (is_many) {
        return task_cancel_many(args);
    }
    if (!is_one && args_has(args, "queue")) {
        return cli_usage("say which: an id, --key KEY, or for many --all, --state, --due-before or "
                         "--tag");
    }
    return run_named(args,
                     &(struct named_call){CANCEL_PATH, "cancel", &ANSWER_LAYOUT, print_cancelled});
}

/* ---- update ---- */

/* Response of Update and of RunNow. */
static int print_changed(struct run *run, const char *result, const char *running)
{
    struct update_reply reply;
    char id[TASK_ID_TEXT_LEN + 1];
    char remark[120] = "";

    if (codec_read_update_reply(buf_slice(&run->reply), &run->arena, &reply, &run->fault) != 0) {
        return run_refuse_answer(run);
    }
    if (output_wants_json(&run->output)) {
        struct json *json = output_json(&run->output);

        task_id_format(reply.id, id);
        json_open(json, NULL, '{');
        json_text(json, "id", id);
        json_time(json, "dueTime", reply.due_ms);
        json_int(json, "mayBeRunningAttempt", reply.may_be_running_attempt);
        json_close(json, '}');
        return print_json(run);
    }
    if (reply.may_be_running_attempt != 0) {
        (void)snprintf(remark, sizeof(remark), "\nattempt %" PRIu32 " may be running%s",
                       reply.may_be_running_attempt, running);
    }
    return print_answer(
        run, &(struct answer){reply.id, result, true, reply.due_ms, reply.may_be_running_attempt},
        remark);
}

static int print_updated(struct run *run)
{
    return print_changed(run, "updated", " with the old payload");
}

static int print_run(struct run *run)
{
    return print_changed(run, "runs now", ": another one follows only if it does not end well");
}

static int task_run_now(const struct args *args)
{
    return run_named(args, &(struct named_call){RUN_PATH, "run", &ANSWER_LAYOUT, print_run});
}

static int read_update(const struct args *args, struct buf *payload, struct update_request *request)
{
    int code = options_task(args, &request->task);

    if (code == CLI_OK) {
        code = options_when(args, &request->when);
    }
    if (code == CLI_OK) {
        code = options_payload(args, payload, &request->payload);
    }
    if (args_has(args, "at") && request->when.kind == WHEN_NONE) {
        request->when = (struct when){.kind = WHEN_DELAY}; // "now"
    }
    request->set_payload = args_has(args, "payload") || args_has(args, "payload-file");
    if (code == CLI_OK && request->when.kind == WHEN_NONE && !request->set_payload) {
        code = cli_usage("say what changes: --at TIME, --payload TEXT, or both");
    }
    return code;
}

static int task_update(const struct args *args)
{
    struct update_request request = {.set_payload = false};
    struct buf payload;
    struct run run;
    int code = run_open(&run, args, &ANSWER_LAYOUT);

    if (code != CLI_OK) {
        return code;
    }
    buf_init(&payload, PAYLOAD_BYTES_MAX);
    code = read_update(args, &payload, &request);
    if (code == CLI_OK) {
        code =
            run_call(&run, codec_write_update(&request, &run.request), UPDATE_PATH, true, "update");
    }
    if (code == CLI_OK) {
        code = print_updated(&run);
    }
    buf_fini(&payload);
    return run_close(&run, code);
}

/* ---- the table ---- */

static const struct cli_option CREATE_OPTIONS[] = {
    OPTION_QUEUE,
    OPTION_NAMESPACE,
    OPTION_AT,
    OPTION_DELAY,
    OPTION_PAYLOAD,
    OPTION_PAYLOAD_FILE,
    OPTION_KEY,
    {"key-policy", 0, "keep|reject|replace", "what to do if the key is taken (default keep)"},
    {"latest", 0, "TIME", "with replace: not due later than this"},
    {"expires", 0, "TIME", "do not start it after this (default as the queue says)"},
    OPTION_ORDER_KEY,
    OPTION_TAG,
};

static const struct cli_option CANCEL_OPTIONS[] = {
    OPTION_QUEUE,
    OPTION_NAMESPACE,
    OPTION_KEY,
    {"all", 0, NULL, "all tasks of the queue"},
    OPTION_STATE,
    OPTION_DUE_FROM,
    OPTION_DUE_BEFORE,
    OPTION_TAG_FILTER,
    OPTION_DRY_RUN,
    OPTION_YES,
    {"order-key", 0, "KEY", "order key of the task, beside --key; else only those with this one"},
};

static const struct cli_option NAME_OPTIONS[] = {OPTION_QUEUE, OPTION_NAMESPACE, OPTION_KEY,
                                                 OPTION_ORDER_KEY_OF};

static const struct cli_option UPDATE_OPTIONS[] = {
    OPTION_QUEUE, OPTION_NAMESPACE, OPTION_KEY,          OPTION_AT,
    OPTION_DELAY, OPTION_PAYLOAD,   OPTION_PAYLOAD_FILE, OPTION_ORDER_KEY_OF,
};

const struct command TASK_COMMANDS[] = {
    {"task", "create", "", 0, "Create a task, due at once unless a time is given.",
     "  foliot task create --queue mail --at +15m --payload '{\"to\":\"a@example.org\"}'\n"
     "  foliot task create -q mail -a 'tomorrow 09:00' --tz Europe/Paris -k order-17\n"
     "  foliot task create -q mail -a 2026-01-02T03:04:05Z -f request.bin -o json\n"
     "  foliot task create -q mail --order-key account-7 --payload first\n",
     CREATE_OPTIONS, ARRAY_COUNT(CREATE_OPTIONS), task_create, COMMAND_CALLS | COMMAND_ROWS},
    {"task", "get", "[ID]", 1, "Show a task.",
     "  foliot task get 0a7-0000012300000001\n  foliot task get -q mail -k order-17 -o json\n",
     NAME_OPTIONS, ARRAY_COUNT(NAME_OPTIONS), task_get,
     COMMAND_CALLS | COMMAND_ROWS | COMMAND_WATCH},
    {"task", "cancel", "[ID]", 1,
     "Prevent every attempt of a task, or of many, that has not started.",
     "  foliot task cancel 0a7-0000012300000001\n"
     "  foliot task cancel -q mail -k order-17\n"
     "  foliot task cancel -q mail --tag shop=7 --dry-run\n"
     "  foliot task cancel -q mail --all --yes\n",
     CANCEL_OPTIONS, ARRAY_COUNT(CANCEL_OPTIONS), task_cancel, COMMAND_CALLS | COMMAND_ROWS},
    {"task", "update", "[ID]", 1, "Give a pending task a new time, a new payload, or both.",
     "  foliot task update 0a7-0000012300000001 --at +1h\n"
     "  foliot task update -q mail -k order-17 --payload later\n",
     UPDATE_OPTIONS, ARRAY_COUNT(UPDATE_OPTIONS), task_update, COMMAND_CALLS | COMMAND_ROWS},
    {"task", "run", "[ID]", 1, "Make a pending task due now.",
     "  foliot task run 0a7-0000012300000001\n  foliot task run -q mail -k order-17\n",
     NAME_OPTIONS, ARRAY_COUNT(NAME_OPTIONS), task_run_now, COMMAND_CALLS | COMMAND_ROWS},
};
const size_t TASK_COMMAND_COUNT = ARRAY_COUNT(TASK_COMMANDS);
