/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot task watch and task explain: what becomes of a task, and what it waits for.
 */
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/moment.h"
#include "client/cli/options.h"
#include "client/cli/task_cmd.h"
#include "client/cli/task_view.h"
#include "client/cli/watch.h"
#include "lib/io/clock.h"
#include "proto/codec_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define EXPLAIN_PATH "/foliot.v1.TaskService/Explain"

/* How often a task is looked at. */
#define FOLLOW_INTERVAL_MS 500

/* ---- explain ---- */

static const struct output_column EXPLAIN_COLUMNS[] = {
    {"ID", false},    {"STATE", false},   {"WAITS FOR", false}, {"WHY", false},    {"DUE", false},
    {"UNTIL", false}, {"GOES ON", false}, {"SHARD", false},     {"BROKER", false},
};
static const struct output_layout EXPLAIN_LAYOUT = {EXPLAIN_COLUMNS, ARRAY_COUNT(EXPLAIN_COLUMNS),
                                                    0, NULL};

static const char *reason_name(enum wait_reason reason)
{
    switch (reason) {
    case WAIT_DUE_TIME:
        return "DUE_TIME";
    case WAIT_BACKOFF:
        return "BACKOFF";
    case WAIT_QUEUE_PAUSED:
        return "QUEUE_PAUSED";
    case WAIT_CONCURRENCY:
        return "CONCURRENCY";
    case WAIT_TARGET_BUSY:
        return "TARGET_BUSY";
    case WAIT_ATTEMPT:
        return "ATTEMPT";
    case WAIT_OUTCOME:
        return "OUTCOME";
    case WAIT_LOADING:
        return "LOADING";
    case WAIT_WRITE:
        return "WRITE";
    case WAIT_QUEUE_UNKNOWN:
        return "QUEUE_UNKNOWN";
    case WAIT_LINE:
        return "LINE";
    case WAIT_ORDER_KEY:
        return "ORDER_KEY";
    }
    return "UNSPECIFIED";
}

static void explain_json(struct json *json, const struct explain_reply *reply)
{
    char reason[40];

    (void)snprintf(reason, sizeof(reason), "WAIT_REASON_%s", reason_name(reply->reason));
    json_open(json, NULL, '{');
    task_view_json(json, "task", &reply->task);
    json_text(json, "reason", reason);
    json_text(json, "text", reply->text);
    json_time(json, "until", reply->until_ms);
    json_int(json, "shard", reply->shard);
    json_text(json, "broker", reply->broker);
    if (reply->behind.seq != 0) {
        char behind[TASK_ID_TEXT_LEN + 1];

        task_id_format(reply->behind, behind);
        json_text(json, "behind", behind);
    }
    json_close(json, '}');
}

static void explain_row(struct output *output, const struct explain_reply *reply)
{
    char id[TASK_ID_TEXT_LEN + 1];
    char shard[16];
    char due[TIMETEXT_BYTES];
    char until[TIMETEXT_BYTES];
    char until_in[TIMETEXT_BYTES];

    task_id_format(reply->task.id, id);
    (void)snprintf(shard, sizeof(shard), "%04" PRIu32, reply->shard);
    moment_write(reply->task.due_ms, due);
    moment_write(reply->until_ms, until);
    moment_write_relative(reply->until_ms, clock_wall_ms(), until_in);
    output_row(output, (const char *const[]){id, task_view_state_name(reply->task.state),
                                             reason_name(reply->reason), reply->text, due, until,
                                             until_in, shard, reply->broker});
}

static int task_explain(const struct args *args)
{
    struct explain_reply reply;
    struct task_name name;
    struct run run;
    int code = run_open(&run, args, &EXPLAIN_LAYOUT);

    if (code != CLI_OK) {
        return code;
    }
    code = options_task(args, &name);
    if (code == CLI_OK) {
        code = run_call(&run, codec_write_task_name(&name, &run.request), EXPLAIN_PATH, true,
                        "explain");
    }
    if (code == CLI_OK &&
        codec_read_explain_reply(buf_slice(&run.reply), &run.arena, &reply, &run.fault) != 0) {
        code = run_refuse_answer(&run);
    } else if (code == CLI_OK && output_wants_json(&run.output)) {
        explain_json(output_json(&run.output), &reply);
        output_json_done(&run.output);
        code = output_end(&run.output);
    } else if (code == CLI_OK) {
        explain_row(&run.output, &reply);
        code = output_end(&run.output);
    }
    return run_close(&run, code);
}

/* ---- watch ---- */

static const struct output_column WATCH_COLUMNS[] = {
    {"SEEN", false}, {"STATE", false}, {"ATTEMPT", false}, {"FAILURES", false}, {"DUE", false}};
/* A list: a line for each change. */
static const struct output_layout WATCH_LAYOUT = {WATCH_COLUMNS, ARRAY_COUNT(WATCH_COLUMNS), 1,
                                                  "changes"};

/* What of a task was shown last. */
struct seen {
    bool is_seen;
    enum task_view_state state;
    uint32_t attempt;
    uint32_t failures;
    wall_ms due_ms;
};

static bool has_changed(const struct seen *seen, const struct task_view *view)
{
    return !seen->is_seen || seen->state != view->state || seen->attempt != view->attempt ||
           seen->failures != view->failures || seen->due_ms != view->due_ms;
}

static void add_line(struct output *output, const char *state, const struct task_view *view)
{
    char times[2][TIMETEXT_BYTES];
    char attempt[16] = "";
    char failures[16] = "";

    moment_write(clock_wall_ms(), times[0]);
    times[1][0] = '\0';
    if (view != NULL) {
        moment_write(view->due_ms, times[1]);
        (void)snprintf(attempt, sizeof(attempt), "%" PRIu32, view->attempt);
        (void)snprintf(failures, sizeof(failures), "%" PRIu32, view->failures);
    }
    output_row(output, (const char *const[]){times[0], state, attempt, failures, times[1]});
}

static int show_change(struct run *run, struct seen *seen, const struct task_view *view)
{
    *seen = (struct seen){true, view->state, view->attempt, view->failures, view->due_ms};
    if (output_wants_json(&run->output)) {
        task_view_json(output_json(&run->output), NULL, view);
        output_json_done(&run->output);
    } else {
        add_line(&run->output, task_view_state_name(view->state), view);
        if (view->error.len > 0) {
            output_note(&run->output, "%.*s", (int)view->error.len, (const char *)view->error.data);
        }
    }
    return output_flush(&run->output);
}

/* It was pending and is not known any more: it has ended, and no result is kept. */
static int show_gone(struct run *run)
{
    if (!output_wants_json(&run->output)) {
        add_line(&run->output, "GONE", NULL);
    }
    cli_say("it has ended; how is not kept: foliot queue update NAME --result-memory 1h keeps it");
    return output_end(&run->output);
}

/* One look; *is_over says whether there is nothing more to see. */
static int look(struct run *run, struct seen *seen, bool *is_over)
{
    struct task_view view;
    int code;

    arena_fini(&run->arena);
    buf_clear(&run->reply);
    code = session_call(&run->session, TASK_GET_PATH, buf_slice(&run->request), true, &run->reply,
                        &run->fault);
    if (code == CLI_NOT_FOUND && seen->is_seen) {
        *is_over = true;
        return show_gone(run);
    }
    if (seen->is_seen && (code == CLI_UNAVAILABLE || code == CLI_TIMEOUT)) {
        (void)session_complain(&run->session, "watch", &run->fault);
        return CLI_OK; // A broker that is away comes back.
    }
    if (code != CLI_OK) {
        return session_complain(&run->session, "watch", &run->fault);
    }
    if (codec_read_get_reply(buf_slice(&run->reply), &run->arena, &view, &run->fault) != 0) {
        return run_refuse_answer(run);
    }
    if (has_changed(seen, &view)) {
        code = show_change(run, seen, &view);
    }
    *is_over = task_view_has_ended(view.state);
    return code;
}

static int follow(struct run *run, span_ms interval_ms)
{
    struct seen seen = {.is_seen = false};
    bool is_over = false;
    int code = CLI_OK;

    while (code == CLI_OK && !is_over) {
        code = look(run, &seen, &is_over);
        if (code == CLI_OK && !is_over) {
            watch_sleep(interval_ms);
        }
    }
    if (code == CLI_OK && (seen.state == TASK_VIEW_DEAD || seen.state == TASK_VIEW_EXPIRED)) {
        code = CLI_ERROR;
    }
    return code;
}

static int task_watch(const struct args *args)
{
    span_ms interval_ms = FOLLOW_INTERVAL_MS;
    struct task_name name;
    struct run run;
    int code;

    if (args_span(args, "interval", &interval_ms) != 0) {
        return CLI_USAGE;
    }
    if (interval_ms < WATCH_INTERVAL_MS_MIN || interval_ms > WATCH_INTERVAL_MS_MAX) {
        return watch_refuse_interval();
    }
    code = run_open(&run, args, &WATCH_LAYOUT);
    if (code != CLI_OK) {
        return code;
    }
    if (run.output.format == OUTPUT_JSON) {
        run.output.format = OUTPUT_JSONL; // it is written as it happens
    }
    code = options_task(args, &name);
    if (code == CLI_OK && codec_write_task_name(&name, &run.request) != 0) {
        code = cli_usage("the name of the task is too long");
    }
    if (code == CLI_OK) {
        code = follow(&run, interval_ms);
    }
    return run_close(&run, code);
}

static const struct cli_option NAME_OPTIONS[] = {OPTION_QUEUE, OPTION_NAMESPACE, OPTION_KEY,
                                                 OPTION_ORDER_KEY_OF};
static const struct cli_option WATCH_OPTIONS[] = {
    OPTION_QUEUE,
    OPTION_NAMESPACE,
    OPTION_KEY,
    OPTION_ORDER_KEY_OF,
    {"interval", 0, "SPAN", "how often it is looked at (default 500ms)"},
};

const struct command TASK_WATCH_COMMANDS[] = {
    {"task", "explain", "[ID]", 1, "Say what a task waits for.",
     "  foliot task explain 0a7-0000012300000001\n"
     "  foliot task explain -q mail -k order-17 -o json\n",
     NAME_OPTIONS, ARRAY_COUNT(NAME_OPTIONS), task_explain,
     COMMAND_CALLS | COMMAND_ROWS | COMMAND_WATCH},
    {"task", "watch", "[ID]", 1, "Follow a task until it ends: a line for each change.",
     "  foliot task watch 0a7-0000012300000001\n"
     "  foliot task watch -q mail -k order-17 --interval 2s -o jsonl\n",
     WATCH_OPTIONS, ARRAY_COUNT(WATCH_OPTIONS), task_watch, COMMAND_CALLS | COMMAND_ROWS},
};
const size_t TASK_WATCH_COMMAND_COUNT = ARRAY_COUNT(TASK_WATCH_COMMANDS);
