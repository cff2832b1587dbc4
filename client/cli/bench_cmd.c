/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot bench create: makes many tasks at a steady rate and writes down each one that was
 * answered, so that a checker can compare what was promised with what was received.
 */
#include "client/cli/bench_load.h"
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/json.h"
#include "client/cli/moment.h"
#include "lib/io/entropy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COUNT_DEFAULT       1000
#define COUNT_MAX           100000000
#define RATE_MAX            10000000
#define OUTSTANDING_DEFAULT 64
#define PAYLOAD_DEFAULT     100
#define PATIENCE_MS         30000

static int read_times(const struct args *args, struct load_options *out)
{
    if (args_span(args, "delay-min", &out->delay_min_ms) != 0 ||
        args_span(args, "delay-max", &out->delay_max_ms) != 0 ||
        args_span(args, "patience", &out->patience_ms) != 0) {
        return CLI_USAGE;
    }
    if (args_has(args, "delay-min") && !args_has(args, "delay-max")) {
        out->delay_max_ms = out->delay_min_ms;
    }
    if (out->delay_max_ms < out->delay_min_ms || out->delay_max_ms > DELAY_MS_MAX) {
        return cli_usage("--delay-max must be at least --delay-min and at most a hundred years "
                         "(DELAY_MS_MAX)");
    }
    if (args_has(args, "at")) {
        out->at.kind = WHEN_DUE; // one moment for all, however long the making takes
        return moment_option_wall(args, "at", &out->at.due_ms);
    }
    return CLI_OK;
}

static int read_options(const struct args *args, struct load_options *out)
{
    int64_t seed = -1;

    memset(out, 0, sizeof(*out));
    out->queue.tenant = args_text(args, "namespace", NAMESPACE_DEFAULT);
    out->queue.name = args_text(args, "queue", "");
    out->count = COUNT_DEFAULT;
    out->outstanding = OUTSTANDING_DEFAULT;
    out->batch = 1;
    out->payload_bytes = PAYLOAD_DEFAULT;
    out->patience_ms = PATIENCE_MS;
    if (out->queue.name[0] == '\0') {
        return cli_usage("name the queue: --queue NAME");
    }
    if (args_number(args, "count", 1, COUNT_MAX, &out->count) != 0 ||
        args_number(args, "rate", 0, RATE_MAX, &out->rate) != 0 ||
        args_number(args, "outstanding", 1, LOAD_OUTSTANDING_MAX, &out->outstanding) != 0 ||
        args_number(args, "batch", 1, BATCH_ITEM_COUNT_MAX, &out->batch) != 0 ||
        args_number(args, "payload-bytes", 0, PAYLOAD_BYTES_MAX, &out->payload_bytes) != 0 ||
        args_number(args, "seed", 0, INT64_MAX / 16, &seed) != 0) {
        return CLI_USAGE;
    }
    out->seed = seed < 0 ? entropy_u64() : (uint64_t)seed;
    if (args_has(args, "keyed")) {
        (void)snprintf(out->key_prefix, sizeof(out->key_prefix), "bench-%016" PRIx64 "-",
                       out->seed);
    }
    return read_times(args, out);
}

static void write_summary_json(const struct load_result *result, struct buf *out)
{
    struct json json;

    json_init(&json, out);
    json_open(&json, NULL, '{');
    json_int(&json, "created", (int64_t)result->created);
    json_int(&json, "existing", (int64_t)result->existing);
    json_int(&json, "failed", (int64_t)result->failed);
    json_int(&json, "unknown", (int64_t)result->unknown);
    json_int(&json, "retries", (int64_t)result->retries);
    json_int(&json, "elapsedUs", result->elapsed_us);
    json_int(&json, "answerP50Us", metric_quantile(&result->answer_us, 5000));
    json_int(&json, "answerP99Us", metric_quantile(&result->answer_us, 9900));
    json_int(&json, "answerMaxUs", result->answer_us.max);
    json_close(&json, '}');
    (void)buf_append_text(out, "\n");
}

static void write_summary_text(const struct load_result *result, struct buf *out)
{
    int64_t elapsed_ms = result->elapsed_us / US_PER_MS;
    int64_t p50_us = metric_quantile(&result->answer_us, 5000);
    int64_t p99_us = metric_quantile(&result->answer_us, 9900);

    (void)buf_printf(out,
                     "created %" PRIu64 ", existing %" PRIu64 ", failed %" PRIu64
                     ", unknown %" PRIu64 ", tried again %" PRIu64 "\n",
                     result->created, result->existing, result->failed, result->unknown,
                     result->retries);
    (void)buf_printf(out,
                     "%" PRId64 ".%03d s, %" PRId64 " tasks/s; answer p50 %" PRId64
                     ".%03d ms, p99 %" PRId64 ".%03d ms, max %" PRId64 ".%03d ms\n",
                     elapsed_ms / 1000, (int)(elapsed_ms % 1000),
                     (int64_t)result->created * 1000 / time_max(elapsed_ms, 1), p50_us / 1000,
                     (int)(p50_us % 1000), p99_us / 1000, (int)(p99_us % 1000),
                     result->answer_us.max / 1000, (int)(result->answer_us.max % 1000));
}

/* The summary goes to standard output if the lines do not. */
static int print_summary(const struct args *args, const struct load_result *result)
{
    struct buf text;
    int code = CLI_OK;

    buf_init(&text, 4096);
    (command_wants_json(args) ? write_summary_json : write_summary_text)(result, &text);
    if (args_has(args, "out")) {
        code = command_print(&text);
    } else {
        (void)fputs(buf_text(&text), stderr);
    }
    buf_fini(&text);
    if (code == CLI_OK && result->failed + result->unknown > 0) {
        code = CLI_ERROR;
    }
    return code;
}

static int bench_create(const struct args *args)
{
    static struct load_result result;
    const char *path = args_text(args, "out", NULL);
    struct load_options options;
    struct channels channels;
    int code = read_options(args, &options);

    if (code != CLI_OK) {
        return code;
    }
    memset(&result, 0, sizeof(result));
    options.is_json = command_wants_json(args);
    options.lines = path == NULL ? stdout : fopen(path, "w");
    if (options.lines == NULL) {
        return cli_usage("cannot write \"%s\"", path);
    }
    code = channels_open(&channels, args);
    if (code == CLI_OK) {
        code = load_run(&channels, &options, &result);
        channels_close(&channels);
    }
    if (path != NULL && fclose(options.lines) != 0 && code == CLI_OK) {
        cli_say("could not write \"%s\"", path);
        code = CLI_ERROR;
    }
    return code == CLI_OK ? print_summary(args, &result) : code;
}

static const struct cli_option CREATE_OPTIONS[] = {
    {"namespace", 'n', "NAME", "namespace of the queue (default \"default\")"},
    {"queue", 'q', "NAME", "queue of the tasks"},
    {"count", 'c', "N", "tasks to make (default 1000)"},
    {"rate", 'r', "N", "tasks per second; 0 (default): as fast as they are answered"},
    {"outstanding", 0, "N", "calls that may wait for their answers (default 64)"},
    {"batch", 'b', "N", "tasks in one call: 1 (default) uses Create, more BatchCreate"},
    {"delay-min", 0, "SPAN", "shortest delay of a task (default 0ms)"},
    {"delay-max", 0, "SPAN", "longest delay (default as --delay-min)"},
    {"at", 'a', "TIME", "all due at one moment, instead of delays"},
    {"payload-bytes", 0, "N", "size of each payload (default 100)"},
    {"keyed", 0, NULL, "give each task a key: an unknown outcome is then tried again"},
    {"patience", 0, "SPAN",
     "try a task again for so long before it counts as failed (default 30s)"},
    {"seed", 0, "N", "draw keys and delays from this seed"},
    {"out", 0, "FILE", "write the lines there; the summary then goes to standard output"},
};

const struct command BENCH_COMMANDS[] = {
    {"bench", "create", "", 0, "Create many tasks and write down each one that was answered.",
     "  foliot bench create -q mail --rate 500 --count 5000 --delay-min 1s --delay-max 5s --keyed "
     "-o json\n"
     "  foliot bench create -q mail -c 100000 --batch 500 --at 2026-01-02T03:04:05Z --out ids\n",
     CREATE_OPTIONS, ARRAY_COUNT(CREATE_OPTIONS), bench_create,
     COMMAND_CALLS | COMMAND_LINES | COMMAND_TIMES},
};
const size_t BENCH_COMMAND_COUNT = ARRAY_COUNT(BENCH_COMMANDS);
