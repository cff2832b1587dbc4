/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot bench record: makes many tasks at a steady rate and writes down each one that was
 * answered, so that a checker can compare what was promised with what was received.
 */
#include "client/cli/bench_load.h"
#include "client/cli/bench_plan.h"
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/json.h"
#include "client/cli/moment.h"
#include "lib/base/mem.h"
#include "lib/io/entropy.h"
#include "lib/io/loop.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COUNT_DEFAULT       1000
#define OUTSTANDING_DEFAULT 64
#define PAYLOAD_DEFAULT     100
#define PATIENCE_MS         30000
#define LINE_BYTES_MAX      4096

/* A load and the lines that it writes. */
struct record {
    struct mix mix;
    struct load_options options;
    struct load_result result;
    FILE *lines;
    struct buf line;
    struct loop_hook hook; /* lines are written out once a turn */
    bool is_json;
    bool has_lines;
    bool is_broken; /* they could not be written */
};

static int read_times(const struct args *args, struct record *record)
{
    struct delay_part part = {.is_exponential = false};

    if (args_span(args, "delay-min", &part.min_ms) != 0 ||
        args_span(args, "delay-max", &part.max_ms) != 0 ||
        args_span(args, "patience", &record->options.patience_ms) != 0) {
        return CLI_USAGE;
    }
    if (args_has(args, "delay-min") && !args_has(args, "delay-max")) {
        part.max_ms = part.min_ms;
    }
    if (part.max_ms < part.min_ms || part.max_ms > DELAY_MS_MAX) {
        return cli_usage("--delay-max must be at least --delay-min and at most a hundred years "
                         "(DELAY_MS_MAX)");
    }
    record->mix.delays.parts[0] = part;
    record->mix.delays.count = 1;
    if (args_has(args, "at")) {
        record->mix.at.kind = WHEN_DUE; // one moment for all, however long the making takes
        return moment_option_wall(args, "at", &record->mix.at.due_ms);
    }
    return CLI_OK;
}

static int read_options(const struct args *args, struct record *record)
{
    struct load_options *options = &record->options;
    int64_t payload_bytes = PAYLOAD_DEFAULT;
    int64_t seed = -1;

    record->mix.queue.tenant = args_text(args, "namespace", NAMESPACE_DEFAULT);
    record->mix.queue.name = args_text(args, "queue", "");
    options->mix = &record->mix;
    options->count = COUNT_DEFAULT;
    options->outstanding = OUTSTANDING_DEFAULT;
    options->batch = 1;
    options->patience_ms = PATIENCE_MS;
    if (record->mix.queue.name[0] == '\0') {
        return cli_usage("name the queue: --queue NAME");
    }
    if (args_number(args, "count", 1, LOAD_COUNT_MAX, &options->count) != 0 ||
        args_number(args, "rate", 0, PLAN_RATE_MAX, &options->rate) != 0 ||
        args_number(args, "outstanding", 1, LOAD_OUTSTANDING_MAX, &options->outstanding) != 0 ||
        args_number(args, "batch", 1, BATCH_ITEM_COUNT_MAX, &options->batch) != 0 ||
        args_number(args, "payload-bytes", 0, PAYLOAD_BYTES_MAX, &payload_bytes) != 0 ||
        args_number(args, "seed", 0, INT64_MAX / 16, &seed) != 0) {
        return CLI_USAGE;
    }
    options->is_batched = options->batch > 1;
    record->mix.seed = seed < 0 ? entropy_u64() : (uint64_t)seed;
    record->mix.keyed_permille = args_has(args, "keyed") ? 1000 : 0;
    if (plan_make_payload(payload_bytes, record->mix.seed, &record->mix.payload) != 0) {
        return CLI_ERROR;
    }
    return read_times(args, record);
}

/* ---- lines ---- */

static void write_line(uint32_t number, const struct create_reply *reply, void *ctx)
{
    struct record *record = ctx;
    struct create_request request;
    char key[MIX_KEY_BYTES] = "";
    char id[TASK_ID_TEXT_LEN + 1];
    struct json json;
    struct slice text;

    task_id_format(reply->id, id);
    buf_clear(&record->line);
    if (record->is_json) {
        mix_describe(&record->mix, number, key, &request);
        json_init(&json, &record->line);
        json_open(&json, NULL, '{');
        json_text(&json, "id", id);
        json_text(&json, "key", key);
        json_bool(&json, "created", reply->created);
        if (reply->due_ms != WALL_NEVER) {
            json_int(&json, "dueMs", reply->due_ms);
        }
        json_close(&json, '}');
        (void)buf_append_text(&record->line, "\n");
    } else {
        (void)buf_printf(&record->line, "%s\n", id);
    }
    text = buf_slice(&record->line);
    if (fwrite(text.data, 1, text.len, record->lines) != text.len) {
        record->is_broken = true;
    }
    record->has_lines = true;
}

/* Whoever follows the lines sees each one soon. */
static void before_poll(void *ctx)
{
    struct record *record = ctx;

    if (record->has_lines && fflush(record->lines) != 0) {
        record->is_broken = true;
    }
    record->has_lines = false;
}

/* ---- summary ---- */

static void write_summary_json(const struct load_result *result, struct buf *out)
{
    const struct load_figures *created = &result->ops[LOAD_CREATE];
    struct json json;

    json_init(&json, out);
    json_open(&json, NULL, '{');
    json_int(&json, "created", (int64_t)created->done);
    json_int(&json, "existing", (int64_t)created->existing);
    json_int(&json, "failed", (int64_t)created->failed);
    json_int(&json, "unknown", (int64_t)created->unknown);
    json_int(&json, "retries", (int64_t)result->retries);
    json_int(&json, "elapsedUs", result->elapsed_us);
    json_int(&json, "answerP50Us", hist_quantile(&created->answer_us, 5000));
    json_int(&json, "answerP99Us", hist_quantile(&created->answer_us, 9900));
    json_int(&json, "answerMaxUs", created->answer_us.max);
    json_close(&json, '}');
    (void)buf_append_text(out, "\n");
}

static void write_summary_text(const struct load_result *result, struct buf *out)
{
    const struct load_figures *created = &result->ops[LOAD_CREATE];
    int64_t elapsed_ms = result->elapsed_us / US_PER_MS;
    int64_t p50_us = hist_quantile(&created->answer_us, 5000);
    int64_t p99_us = hist_quantile(&created->answer_us, 9900);

    (void)buf_printf(out,
                     "created %" PRIu64 ", existing %" PRIu64 ", failed %" PRIu64
                     ", unknown %" PRIu64 ", tried again %" PRIu64 "\n",
                     created->done, created->existing, created->failed, created->unknown,
                     result->retries);
    (void)buf_printf(out,
                     "%" PRId64 ".%03d s, %" PRId64 " tasks/s; answer p50 %" PRId64
                     ".%03d ms, p99 %" PRId64 ".%03d ms, max %" PRId64 ".%03d ms\n",
                     elapsed_ms / 1000, (int)(elapsed_ms % 1000),
                     (int64_t)created->done * 1000 / time_max(elapsed_ms, 1), p50_us / 1000,
                     (int)(p50_us % 1000), p99_us / 1000, (int)(p99_us % 1000),
                     created->answer_us.max / 1000, (int)(created->answer_us.max % 1000));
}

/* The summary goes to standard output if the lines do not. */
static int print_summary(const struct args *args, const struct load_result *result)
{
    const struct load_figures *created = &result->ops[LOAD_CREATE];
    struct buf text;
    int code = CLI_OK;

    buf_init(&text, LINE_BYTES_MAX);
    (command_wants_json(args) ? write_summary_json : write_summary_text)(result, &text);
    if (args_has(args, "out")) {
        code = command_print(&text);
    } else {
        (void)fputs(buf_text(&text), stderr);
    }
    buf_fini(&text);
    if (code == CLI_OK && created->failed + created->unknown > 0) {
        code = CLI_ERROR;
    }
    return code;
}

/* ---- running ---- */

static int run_load(struct record *record, const struct args *args)
{
    struct channels channels;
    int code = channels_open(&channels, args);

    if (code != CLI_OK) {
        return code;
    }
    record->options.created = write_line;
    record->options.ctx = record;
    loop_hook_add(channels.loop, &record->hook, before_poll, record);
    code = load_run(&channels, &record->options, &record->result);
    loop_hook_del(&record->hook);
    if (code == CLI_OK && (fflush(record->lines) != 0 || record->is_broken)) {
        cli_say("could not write the lines");
        code = CLI_ERROR;
    }
    channels_close(&channels);
    return code;
}

static int record_to(struct record *record, const struct args *args, const char *path)
{
    int code;

    record->is_json = command_wants_json(args);
    record->lines = path == NULL ? stdout : fopen(path, "w");
    if (record->lines == NULL) {
        return cli_usage("cannot write \"%s\"", path);
    }
    code = run_load(record, args);
    if (path != NULL && fclose(record->lines) != 0 && code == CLI_OK) {
        cli_say("could not write \"%s\"", path);
        code = CLI_ERROR;
    }
    return code == CLI_OK ? print_summary(args, &record->result) : code;
}

static int bench_record(const struct args *args)
{
    static struct record record;
    int code;

    memset(&record, 0, sizeof(record));
    buf_init(&record.line, LINE_BYTES_MAX);
    code = read_options(args, &record);
    if (code == CLI_OK) {
        code = record_to(&record, args, args_text(args, "out", NULL));
    }
    plan_free_payload(&record.mix.payload);
    buf_fini(&record.line);
    return code;
}

static const struct cli_option RECORD_OPTIONS[] = {
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

const struct command BENCH_RECORD_COMMANDS[] = {
    {"bench", "record", "", 0, "Create many tasks and write down each one that was answered.",
     "  foliot bench record -q mail --rate 500 --count 5000 --delay-min 1s --delay-max 5s --keyed "
     "-o json\n"
     "  foliot bench record -q mail -c 100000 --batch 500 --at 2026-01-02T03:04:05Z --out ids\n",
     RECORD_OPTIONS, ARRAY_COUNT(RECORD_OPTIONS), bench_record,
     COMMAND_CALLS | COMMAND_LINES | COMMAND_TIMES},
};
const size_t BENCH_RECORD_COMMAND_COUNT = ARRAY_COUNT(BENCH_RECORD_COMMANDS);
