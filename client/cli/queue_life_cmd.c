/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot queue pause, resume, drain, delete, stats.
 */
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/moment.h"
#include "client/cli/options.h"
#include "client/cli/queue_cmd.h"
#include "client/cli/queue_view.h"
#include "client/cli/run.h"
#include "lib/io/clock.h"
#include "proto/codec_queue_life.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PAUSE_PATH  "/foliot.v1.QueueService/Pause"
#define RESUME_PATH "/foliot.v1.QueueService/Resume"
#define DRAIN_PATH  "/foliot.v1.QueueService/Drain"
#define DELETE_PATH "/foliot.v1.QueueService/Delete"
#define STATS_PATH  "/foliot.v1.QueueService/GetStats"

static int read_end(const struct args *args, struct when *out)
{
    int code = CLI_OK;

    out->kind = WHEN_NONE;
    if (args_has(args, "for") && args_has(args, "until")) {
        return cli_usage("give --for or --until, not both");
    }
    if (args_has(args, "for")) {
        out->kind = WHEN_DELAY;
        code = args_span(args, "for", &out->delay_ms) == 0 ? CLI_OK : CLI_USAGE;
    } else if (args_has(args, "until")) {
        code = moment_option(args, "until", out);
        if (code == CLI_OK && out->kind == WHEN_NONE) {
            code = cli_usage("--until now is over already; \"foliot queue resume\" ends a pause");
        }
    }
    return code;
}

static int queue_pause(const struct args *args)
{
    struct pause_request request;
    struct queue names;
    struct run run;
    int code = run_open(&run, args, &QUEUE_LAYOUT);

    if (code != CLI_OK) {
        return code;
    }
    code = options_queue_operand(args, &names);
    request.queue = (struct queue_name){names.tenant, names.name};
    if (code == CLI_OK) {
        code = read_end(args, &request.end);
    }
    if (code == CLI_OK) {
        code = run_call(&run, codec_write_pause(&request, &run.request), PAUSE_PATH, true, "pause");
    }
    if (code == CLI_OK) {
        code = queue_print(&run);
    }
    return run_close(&run, code);
}

/* Resume and Drain. */
static int change_state(const struct args *args, const char *path, const char *what)
{
    struct queue names;
    struct run run;
    int code = run_open(&run, args, &QUEUE_LAYOUT);

    if (code != CLI_OK) {
        return code;
    }
    code = options_queue_operand(args, &names);
    if (code == CLI_OK) {
        const struct queue_name name = {names.tenant, names.name};

        code = run_call(&run, codec_write_queue_name(&name, &run.request), path, true, what);
    }
    if (code == CLI_OK) {
        code = queue_print(&run);
    }
    return run_close(&run, code);
}

static int queue_resume(const struct args *args)
{
    return change_state(args, RESUME_PATH, "resume");
}

static int queue_drain(const struct args *args)
{
    return change_state(args, DRAIN_PATH, "drain");
}

/* ---- delete ---- */

static const struct output_column DELETE_COLUMNS[] = {{"NAME", false}, {"RESULT", false}};
static const struct output_layout DELETE_LAYOUT = {DELETE_COLUMNS, ARRAY_COUNT(DELETE_COLUMNS), 0,
                                                   NULL};

static int print_deleted(struct run *run, const char *name)
{
    struct queue_reply reply;

    if (codec_read_queue_delete_reply(buf_slice(&run->reply), &run->arena, &reply, &run->fault) !=
        0) {
        return run_refuse_answer(run);
    }
    if (output_wants_json(&run->output)) {
        struct json *json = output_json(&run->output);

        json_open(json, NULL, '{');
        json_texts(json, "unconfirmedBrokers", reply.unconfirmed, reply.unconfirmed_count);
        json_close(json, '}');
        output_json_done(&run->output);
        return output_end(&run->output);
    }
    output_row(&run->output, (const char *const[]){name, "deleted"});
    for (size_t i = 0; i < reply.unconfirmed_count; i++) {
        output_note(&run->output, "not yet known to %s", reply.unconfirmed[i]);
    }
    return output_end(&run->output);
}

static int queue_delete(const struct args *args)
{
    struct queue_delete_request request = {.version = 0};
    struct queue names;
    struct run run;
    int code = run_open(&run, args, &DELETE_LAYOUT);

    if (code != CLI_OK) {
        return code;
    }
    code = options_queue_operand(args, &names);
    if (code == CLI_OK) {
        request.queue = (struct queue_name){names.tenant, names.name};
        code = run_call(&run, codec_write_queue_delete(&request, &run.request), DELETE_PATH, false,
                        "delete");
    }
    if (code == CLI_OK) {
        code = print_deleted(&run, names.name);
    }
    return run_close(&run, code);
}

/* ---- stats ---- */

static const struct output_column STATS_COLUMNS[] = {
    {"QUEUE", false},   {"STATE", false},   {"PENDING", false},   {"OVERDUE", false},
    {"RUNNING", false}, {"DEAD", false},    {"FIRST DUE", false}, {"WHEN", false},
    {"DONE", false},    {"RETRIED", false}, {"DIED", false},      {"EXPIRED", false},
    {"UNKNOWN", false}, {"COUNTED", false},
};
static const struct output_layout STATS_LAYOUT = {STATS_COLUMNS, ARRAY_COUNT(STATS_COLUMNS), 0,
                                                  NULL};

static void stats_json(struct json *json, const struct queue *queue,
                       const struct queue_stats *stats)
{
    json_open(json, NULL, '{');
    queue_view_json(json, "queue", queue);
    json_open(json, "stats", '{');
    json_int64(json, "pending", (int64_t)stats->pending);
    json_int64(json, "overdue", (int64_t)stats->overdue);
    json_int64(json, "dead", (int64_t)stats->dead);
    json_time(json, "firstDueTime", stats->first_due_ms);
    json_time(json, "countTime", stats->count_ms);
    json_int(json, "running", stats->running);
    json_int64(json, "done", (int64_t)stats->done);
    json_int64(json, "retried", (int64_t)stats->retried);
    json_int64(json, "died", (int64_t)stats->died);
    json_int64(json, "expired", (int64_t)stats->expired);
    json_int64(json, "unknown", (int64_t)stats->unknown);
    json_bool(json, "isAtLeast", stats->is_at_least);
    json_open(json, "missingShards", '[');
    for (size_t i = 0; i < stats->missing_count; i++) {
        json_int(json, NULL, stats->missing[i]);
    }
    json_close(json, ']');
    json_close(json, '}');
    json_close(json, '}');
}

static void stats_row(struct output *output, const struct queue *queue,
                      const struct queue_stats *stats)
{
    const uint64_t numbers[] = {stats->pending, stats->overdue, stats->running,
                                stats->dead,    stats->done,    stats->retried,
                                stats->died,    stats->expired, stats->unknown};
    char texts[ARRAY_COUNT(numbers)][24];
    char times[3][TIMETEXT_BYTES];

    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "%" PRIu64, numbers[i]);
    }
    moment_write(stats->first_due_ms, times[0]);
    moment_write_relative(stats->first_due_ms, clock_wall_ms(), times[1]);
    moment_write(stats->count_ms, times[2]);
    output_row(output,
               (const char *const[]){queue->name, queue_view_state(queue), texts[0], texts[1],
                                     texts[2], texts[3], times[0], times[1], texts[4], texts[5],
                                     texts[6], texts[7], texts[8], times[2]});
    if (stats->is_at_least) {
        output_note(output, "there are more than were counted");
    }
    if (stats->missing_count > 0) {
        output_note(output, "%zu shards did not answer: what is theirs is missing",
                    stats->missing_count);
    }
}

static int queue_stats_run(const struct args *args)
{
    struct queue_stats stats;
    struct queue queue;
    struct run run;
    int code = run_open(&run, args, &STATS_LAYOUT);

    if (code != CLI_OK) {
        return code;
    }
    code = options_queue_operand(args, &queue);
    if (code == CLI_OK) {
        const struct queue_name name = {queue.tenant, queue.name};

        code = run_call(&run, codec_write_queue_name(&name, &run.request), STATS_PATH, true,
                        "read the figures");
    }
    if (code == CLI_OK && codec_read_stats_reply(buf_slice(&run.reply), &run.arena, &queue, &stats,
                                                 &run.fault) != 0) {
        code = run_refuse_answer(&run);
    } else if (code == CLI_OK && output_wants_json(&run.output)) {
        stats_json(output_json(&run.output), &queue, &stats);
        output_json_done(&run.output);
        code = output_end(&run.output);
    } else if (code == CLI_OK) {
        stats_row(&run.output, &queue, &stats);
        code = output_end(&run.output);
    }
    return run_close(&run, code);
}

static const struct cli_option PAUSE_OPTIONS[] = {
    OPTION_NAMESPACE,
    {"for", 0, "SPAN", "for so long (default until it is resumed)"},
    {"until", 0, "TIME", "until then"},
};
static const struct cli_option NAME_OPTIONS[] = {OPTION_NAMESPACE};

const struct command QUEUE_LIFE_COMMANDS[] = {
    {"queue", "pause", "NAME", 1, "Start no attempt of its tasks; creates go on.",
     "  foliot queue pause mail --for 1h\n  foliot queue pause mail --until 'tomorrow 09:00'\n",
     PAUSE_OPTIONS, ARRAY_COUNT(PAUSE_OPTIONS), queue_pause, COMMAND_CALLS | COMMAND_ROWS},
    {"queue", "resume", "NAME", 1, "End a pause, and a drain.", "  foliot queue resume mail\n",
     NAME_OPTIONS, ARRAY_COUNT(NAME_OPTIONS), queue_resume, COMMAND_CALLS | COMMAND_ROWS},
    {"queue", "drain", "NAME", 1, "Take no more tasks; those that are there run on.",
     "  foliot queue drain mail\n", NAME_OPTIONS, ARRAY_COUNT(NAME_OPTIONS), queue_drain,
     COMMAND_CALLS | COMMAND_ROWS},
    {"queue", "delete", "NAME", 1, "Remove a queue that is drained and has no dead letters.",
     "  foliot queue drain mail && foliot queue stats mail && foliot queue delete mail\n",
     NAME_OPTIONS, ARRAY_COUNT(NAME_OPTIONS), queue_delete, COMMAND_CALLS | COMMAND_ROWS},
    {"queue", "stats", "NAME", 1, "Show how much a queue has to do, and what became of it.",
     "  foliot queue stats mail --watch\n", NAME_OPTIONS, ARRAY_COUNT(NAME_OPTIONS),
     queue_stats_run, COMMAND_CALLS | COMMAND_ROWS | COMMAND_WATCH},
};
const size_t QUEUE_LIFE_COMMAND_COUNT = ARRAY_COUNT(QUEUE_LIFE_COMMANDS);
