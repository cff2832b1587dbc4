/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot bench: what a cluster takes, and how late it is. Each mode is a command; without a mode
 * all of them run, one after the other.
 */
#include "client/cli/bench_report.h"
#include "client/cli/bench_run.h"
#include "client/cli/cli.h"
#include "client/cli/command.h"

#include <string.h>

/* What is run, and what came of it. */
struct runs {
    struct plan plans[BENCH_MODE_COUNT];
    struct bench_result results[BENCH_MODE_COUNT];
    size_t count;
};

static int report(const struct args *args, struct output *output, const struct runs *runs)
{
    bool wants_histogram = runs->count == 1 || args_has(args, "histogram");
    bool is_good = true;

    for (size_t i = 0; i < runs->count; i++) {
        bench_report_add(output, &runs->plans[i], &runs->results[i]);
        is_good = is_good && bench_result_is_good(&runs->results[i]);
    }
    for (size_t i = 0; i < runs->count && wants_histogram; i++) {
        bench_report_histogram(output, &runs->plans[i], &runs->results[i]);
    }
    return is_good ? CLI_OK : CLI_ERROR;
}

/* Each of them, until one ends with an error or is interrupted; what ran is shown. */
static int run_all(const struct args *args, struct runs *runs, size_t count)
{
    struct output output;
    int code = output_init(&output, args, &BENCH_LAYOUT);
    int shown;

    for (size_t i = 0; i < count && code == CLI_OK; i++) {
        runs->count = i + 1;
        code = bench_run(&runs->plans[i], args, &runs->results[i]);
        if (runs->results[i].is_interrupted) {
            break;
        }
    }
    if (runs->count > 0 && code != CLI_OK) {
        runs->count--; // The last one has nothing to say.
    }
    if (runs->count > 0) {
        int bad = report(args, &output, runs);

        shown = output_end(&output);
        code = code != CLI_OK ? code : shown != CLI_OK ? shown : bad;
    }
    output_fini(&output);
    return code;
}

static int run_modes(const struct args *args, const enum bench_mode *modes, size_t count)
{
    static struct runs runs; // large
    int code = CLI_OK;

    memset(&runs, 0, sizeof(runs));
    for (size_t i = 0; i < count && code == CLI_OK; i++) {
        code = plan_read(modes[i], args, &runs.plans[i]);
    }
    if (code == CLI_OK) {
        code = run_all(args, &runs, count);
    }
    for (size_t i = 0; i < count; i++) {
        plan_fini(&runs.plans[i]);
    }
    return code;
}

static int run_mode(const struct args *args, enum bench_mode mode)
{
    return run_modes(args, &mode, 1);
}

static int bench_precision(const struct args *args)
{
    return run_mode(args, BENCH_PRECISION);
}

static int bench_create(const struct args *args)
{
    return run_mode(args, BENCH_CREATE);
}

static int bench_create_batch(const struct args *args)
{
    return run_mode(args, BENCH_CREATE_BATCH);
}

static int bench_drain(const struct args *args)
{
    return run_mode(args, BENCH_DRAIN);
}

static int bench_steady(const struct args *args)
{
    return run_mode(args, BENCH_STEADY);
}

static int bench_cancel(const struct args *args)
{
    return run_mode(args, BENCH_CANCEL);
}

static int bench_mixed(const struct args *args)
{
    return run_mode(args, BENCH_MIXED);
}

static int bench_all(const struct args *args)
{
    enum bench_mode modes[BENCH_MODE_COUNT];

    for (int i = 0; i < BENCH_MODE_COUNT; i++) {
        modes[i] = (enum bench_mode)i;
    }
    return run_modes(args, modes, BENCH_MODE_COUNT);
}

/* What all modes know, and what each one knows besides; the defaults are those of bench_plan.c. */
#define COMMON_OPTIONS                                                                             \
    {"namespace", 'n', "NAME",                                                                     \
     "namespace of the queue that is made for it (default \"default\")"},                          \
        {"duration", 0, "SPAN", "measure for so long (default 5s)"},                               \
        {"warmup", 0, "SPAN", "do the same for so long before (default 1s; drain and cancel 0s)"}, \
        {"count", 'c', "N", "end after so many items (drain: 100000, cancel: 50000 are made)"},    \
        {"payload-bytes", 0, "N", "size of each payload (default 100)"},                           \
        {"keyed", 0, "PERCENT", "share of tasks with a key (default 0)"},                          \
        {"concurrency", 0, "N", "of the queue: attempts in flight per broker (default 20000)"},    \
        {"receiver", 0, "ADDRESS",                                                                 \
         "numeric address of this machine that brokers send attempts to (default 127.0.0.1)"},     \
        {"receiver-port", 0, "PORT", "its port (default 0: any)"},                                 \
        {"await", 0, "SPAN",                                                                       \
         "wait for the tasks that are due within so long; 0s: for none (default 1h)"},             \
        {"patience", 0, "SPAN",                                                                    \
         "wait for what is missing, and try again, for so long (default 30s)"},                    \
        {"seed", 0, "N", "draw keys, delays and calls from this seed"},                            \
        {"histogram", 0, NULL, "also show a histogram of each mode; one alone always has it"},     \
    {                                                                                              \
        "keep", 0, NULL, "leave the queue and its tasks behind"                                    \
    }

static const struct cli_option ALL_OPTIONS[] = {COMMON_OPTIONS};
static const struct cli_option MODE_OPTIONS[] = {
    {"rate", 'r', "N",
     "items per second, by a schedule that waits for no answer; 0: as fast as they are answered"},
    {"outstanding", 0, "N", "calls that may wait for their answers (default 64, of batches 8)"},
    {"batch", 'b', "N", "items in one call (default 1, 100 or 500)"},
    {"delay", 'd', "SPAN",
     "of each task: 5s, 1s..10s, exp:30s, or several with commas, drawn equally often"},
    {"lead", 0, "SPAN", "drain: how far ahead the instant is at which all are due"},
    COMMON_OPTIONS,
};

#define MODE(verb, summary, examples, run)                                                     \
    {                                                                                          \
        "bench", verb, "", 0, summary, examples, MODE_OPTIONS, ARRAY_COUNT(MODE_OPTIONS), run, \
            COMMAND_CALLS | COMMAND_ROWS                                                       \
    }

const struct command BENCH_COMMANDS[] = {
    {"bench", "", "", 0, "Run every mode for some seconds, one after the other.",
     "  foliot bench\n  foliot bench --duration 2s --keyed 50 -o json\n", ALL_OPTIONS,
     ARRAY_COUNT(ALL_OPTIONS), bench_all, COMMAND_CALLS | COMMAND_ROWS},
    MODE("precision", "How late few tasks a second are: 500/s, one call each.",
         "  foliot bench precision\n  foliot bench precision --rate 1000 --delay exp:2s\n",
         bench_precision),
    MODE("create", "How many single creates are answered: 64 calls wait.",
         "  foliot bench create\n  foliot bench create --rate 2000 --outstanding 512\n",
         bench_create),
    MODE("create-batch", "How many tasks are created in batches.",
         "  foliot bench create-batch --batch 1000 --keyed 100 --delay 0s..1h,0s..30d\n",
         bench_create_batch),
    MODE("drain", "How fast tasks run that are all due at one instant.",
         "  foliot bench drain --count 1000000 --lead 20s\n", bench_drain),
    MODE("steady", "Create, run and settle at a rate, all at once.",
         "  foliot bench steady --rate 20000 --duration 30s\n", bench_steady),
    MODE("cancel", "How many cancels of tasks that are not due are answered.",
         "  foliot bench cancel\n  foliot bench cancel --batch 500 --outstanding 8\n",
         bench_cancel),
    MODE("mixed", "Creates, cancels, updates and gets at a rate.",
         "  foliot bench mixed --rate 5000 -o wide\n", bench_mixed),
};
const size_t BENCH_COMMAND_COUNT = ARRAY_COUNT(BENCH_COMMANDS);
