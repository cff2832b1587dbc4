/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot-sim: runs seeds, each in a process of its own, so that a crash costs one seed. Prints for
 * each failure what was broken, the options, the last events and how to see it again.
 */
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "tests/sim/check.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_node.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Last events shown with a failure. */
#define EVENT_COUNT 60

/* Every so many seeds one is run twice. */
#define TWICE_EVERY 10

/* Blocks from this size on come from the system, zeroed by it when they are touched. */
#define MAP_BYTES (1 << 18)

/* Options that may be set by hand. */
#define SET_COUNT 16

/* Arguments of the program. */
struct arguments {
    uint64_t first;
    uint64_t count;
    uint32_t minutes;
    const char *corpus;          /* a file of seeds, one at the start of each line */
    const char *sets[SET_COUNT]; /* options that are not as the seed has them: NAME=VALUE */
    size_t set_count;
    bool is_one;     /* --seed: in this process */
    bool is_digests; /* the digest of each seed is printed */
    bool is_trace;   /* every event is printed */
    bool is_stopped; /* at the first seed that fails */
    bool is_list;    /* the mutants are printed, and nothing is run */
    enum sim_mutant mutant;
};

struct shown_event {
    const char *what;
    int64_t values[6];
    size_t count;
    int64_t at;
};

/* The last events of the run in this process. */
struct witness {
    const struct sim *sim;
    bool is_trace;
    struct shown_event events[EVENT_COUNT];
    uint64_t count;
};

/* What a child says of its seed. */
struct result {
    int32_t verdict;
    uint64_t digest;
    int64_t virtual_us;
    uint64_t event_count;
    struct check_figures figures;
};

static struct witness witness;
static struct arguments arguments;

static void print_event(const struct shown_event *event)
{
    printf("  %12.6f %-14s", (double)event->at / 1e6, event->what);
    for (size_t i = 0; i < event->count; i++) {
        printf(" %lld", (long long)event->values[i]);
    }
    printf("\n");
}

static void on_trace(void *ctx, const char *what, const int64_t *values, size_t count)
{
    struct witness *seen = ctx;
    struct shown_event *event = &seen->events[seen->count++ % EVENT_COUNT];

    event->what = what;
    event->count = count < ARRAY_COUNT(event->values) ? count : ARRAY_COUNT(event->values);
    memcpy(event->values, values, event->count * sizeof(values[0]));
    event->at = seen->sim == NULL ? 0 : seen->sim->now;
    if (seen->is_trace) {
        print_event(event);
    }
}

static void print_run(uint64_t seed, const struct sim_options *options)
{
    struct buf buf;

    buf_init(&buf, 8192);
    sim_options_print(options, &buf);
    printf("  options:%s\n", buf_text(&buf));
    buf_fini(&buf);
    if (!witness.is_trace) {
        uint64_t from = witness.count > EVENT_COUNT ? witness.count - EVENT_COUNT : 0;

        printf("  last events:\n");
        for (uint64_t i = from; i < witness.count; i++) {
            print_event(&witness.events[i % EVENT_COUNT]);
        }
    }
    printf("  again: foliot-sim --seed %llu --trace", (unsigned long long)seed);
    if (arguments.minutes > 0) {
        printf(" --minutes %u", arguments.minutes);
    }
    if (options->mutant != SIM_MUTANT_NONE) {
        printf(" --mutant %s", sim_mutant_name(options->mutant));
    }
    for (size_t i = 0; i < arguments.set_count; i++) {
        printf(" --set %s", arguments.sets[i]);
    }
    printf("\n");
}

static void on_check_failed(const char *condition, const char *file, int line)
{
    printf("seed %llu: CRASHED: %s at %s:%d\n", (unsigned long long)witness.sim->options.seed,
           condition, file, line);
    print_run(witness.sim->options.seed, &witness.sim->options);
    (void)fflush(stdout);
}

/* NAME=VALUE. False: that is not an option. */
static bool set_option(struct sim_options *options, const char *text)
{
    const char *equal = strchr(text, '=');

    return equal != NULL &&
           sim_options_set(options, text, (size_t)(equal - text), strtoll(equal + 1, NULL, 10));
}

static void run_seed(uint64_t seed, struct result *result)
{
    struct sim_options options;
    struct sim *sim;
    int64_t blocks = mem_block_count();

    sim_options_draw(&options, seed, arguments.minutes);
    options.mutant = arguments.mutant;
    for (size_t i = 0; i < arguments.set_count; i++) {
        (void)set_option(&options, arguments.sets[i]);
    }
    witness = (struct witness){.is_trace = arguments.is_trace};
    sim = sim_new(&options, on_trace, &witness);
    witness.sim = sim;
    check_set_hook(on_check_failed);
    (void)sim_run(sim);
    *result = (struct result){.verdict = (int32_t)sim->verdict,
                              .digest = sim->trace.digest,
                              .virtual_us = sim->now,
                              .event_count = sim->event_count};
    check_get_figures(sim->check, &result->figures);
    if (sim->verdict != SIM_PASSED) {
        printf("seed %llu: %s: %s: %s\n", (unsigned long long)seed,
               sim->verdict == SIM_STUCK ? "STUCK" : "UNSAFE", sim->promise, sim->message);
        print_run(seed, &options);
    }
    sim_free(sim);
    witness.sim = NULL;
    if (mem_block_count() != blocks && result->verdict == SIM_PASSED) {
        printf("seed %llu: %lld blocks of memory were not given back\n", (unsigned long long)seed,
               (long long)(mem_block_count() - blocks));
        result->verdict = SIM_CRASHED;
    }
    (void)fflush(stdout);
}

/* Run a seed in a child. False: no child could be had. */
static bool run_child(uint64_t seed, struct result *result)
{
    int ends[2];
    pid_t child;
    int status = 0;

    *result = (struct result){.verdict = SIM_CRASHED};
    (void)fflush(stdout);
    if (pipe(ends) != 0) {
        return false;
    }
    child = fork();
    if (child == 0) {
        struct result own;
        ssize_t written;

        (void)close(ends[0]);
        run_seed(seed, &own);
        written = write(ends[1], &own, sizeof(own));
        _exit(written == (ssize_t)sizeof(own) ? 0 : 1);
    }
    (void)close(ends[1]);
    if (child > 0 && read(ends[0], result, sizeof(*result)) != (ssize_t)sizeof(*result)) {
        *result = (struct result){.verdict = SIM_CRASHED};
    }
    (void)close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (child > 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
        printf("seed %llu: CRASHED, status %d\n", (unsigned long long)seed, status);
        result->verdict = SIM_CRASHED;
    }
    return child > 0;
}

static void add_figures(struct check_figures *sum, const struct check_figures *more)
{
    sum->created += more->created;
    sum->done += more->done;
    sum->cancelled += more->cancelled;
    sum->dead += more->dead;
    sum->expired += more->expired;
    sum->redriven += more->redriven;
    sum->starts += more->starts;
    sum->updates += more->updates;
    sum->unknown_answers += more->unknown_answers;
    sum->refusals += more->refusals;
}

static double seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Sums over all seeds of this program. */
struct total {
    struct check_figures figures;
    uint64_t count;
    uint64_t failed;
    uint64_t twice;
    int32_t worst;
    double virtual_s;
};

/* False: no process could be had. */
static bool add_seed(struct total *total, uint64_t seed)
{
    struct result result;
    struct result second;

    if (!run_child(seed, &result)) {
        return false;
    }
    if (result.verdict == SIM_PASSED && total->count % TWICE_EVERY == 0) {
        total->twice++;
        if (!run_child(seed, &second) || second.digest != result.digest) {
            printf("seed %llu: UNSTEADY: two runs differ\n", (unsigned long long)seed);
            result.verdict = SIM_UNSTEADY;
        }
        total->virtual_s += (double)second.virtual_us / 1e6;
    }
    if (arguments.is_digests) {
        printf("seed %llu: digest %016llx\n", (unsigned long long)seed,
               (unsigned long long)result.digest);
    }
    total->count++;
    total->failed += result.verdict != SIM_PASSED;
    total->worst = result.verdict > total->worst ? result.verdict : total->worst;
    total->virtual_s += (double)result.virtual_us / 1e6;
    add_figures(&total->figures, &result.figures);
    return true;
}

static bool add_corpus(struct total *total)
{
    FILE *file = fopen(arguments.corpus, "r");
    char line[256];
    bool is_fine = file != NULL;

    while (is_fine && fgets(line, sizeof(line), file) != NULL) {
        char *end = line;
        uint64_t seed = strtoull(line, &end, 10);

        is_fine = end == line || add_seed(total, seed);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return is_fine;
}

static int run_seeds(void)
{
    struct total total = {.worst = SIM_PASSED};
    const struct check_figures *sum = &total.figures;
    double start = seconds();
    bool is_fine = true;

    if (arguments.corpus != NULL) {
        is_fine = add_corpus(&total);
    }
    for (uint64_t i = 0; is_fine && arguments.corpus == NULL && i < arguments.count; i++) {
        is_fine = add_seed(&total, arguments.first + i);
        if (arguments.is_stopped && total.failed > 0) {
            break;
        }
    }
    if (!is_fine) {
        printf("cannot start a process or read the seeds\n");
        return EXIT_FAILURE;
    }
    printf("created %llu, done %llu, cancelled %llu, dead %llu, expired %llu, redriven %llu; "
           "starts %llu, updates %llu, "
           "unknown answers %llu, refusals %llu\n",
           (unsigned long long)sum->created, (unsigned long long)sum->done,
           (unsigned long long)sum->cancelled, (unsigned long long)sum->dead,
           (unsigned long long)sum->expired, (unsigned long long)sum->redriven,
           (unsigned long long)sum->starts, (unsigned long long)sum->updates,
           (unsigned long long)sum->unknown_answers, (unsigned long long)sum->refusals);
    printf("%.0f virtual seconds in %.1f s: %.0f times real time; %llu seeds run twice alike\n",
           total.virtual_s, seconds() - start, total.virtual_s / (seconds() - start),
           (unsigned long long)total.twice);
    printf("%llu passed, %llu failed\n", (unsigned long long)(total.count - total.failed),
           (unsigned long long)total.failed);
    return total.worst;
}

static int run_one(void)
{
    struct result result;

    (void)setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    run_seed(arguments.first, &result);
    printf(
        "seed %llu: digest %016llx, %llu events, %.1f virtual seconds, %llu created, %llu starts, "
        "first start at most %.3f ms late\n",
        (unsigned long long)arguments.first, (unsigned long long)result.digest,
        (unsigned long long)result.event_count, (double)result.virtual_us / 1e6,
        (unsigned long long)result.figures.created, (unsigned long long)result.figures.starts,
        (double)result.figures.late_us_max / 1e3);
    printf("%d passed, %d failed\n", result.verdict == SIM_PASSED, result.verdict != SIM_PASSED);
    return result.verdict;
}

static bool parse_mutant(const char *name)
{
    for (int i = 0; i < SIM_MUTANT_COUNT; i++) {
        if (strcmp(sim_mutant_name((enum sim_mutant)i), name) == 0) {
            arguments.mutant = (enum sim_mutant)i;
            return true;
        }
    }
    return false;
}

static bool parse_number(const char *text, uint64_t *out)
{
    char *end = NULL;

    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0';
}

/* An argument that has no value. */
static bool parse_switch(const char *text)
{
    bool *const places[] = {&arguments.is_trace, &arguments.is_digests, &arguments.is_stopped,
                            &arguments.is_list};
    const char *const names[] = {"--trace", "--digests", "--stop", "--mutants"};

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *places[i] = true;
            return true;
        }
    }
    return false;
}

static bool parse(int argc, char **argv)
{
    arguments = (struct arguments){.first = 1, .count = 20};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        uint64_t minutes = 0;

        if (parse_switch(argv[i])) {
            continue;
        }
        i++;
        if (strcmp(argv[i - 1], "--seeds") == 0 && parse_number(value, &arguments.count)) {
            continue;
        }
        if (strcmp(argv[i - 1], "--first") == 0 && parse_number(value, &arguments.first)) {
            continue;
        }
        if (strcmp(argv[i - 1], "--seed") == 0 && parse_number(value, &arguments.first)) {
            arguments.is_one = true;
            continue;
        }
        if (strcmp(argv[i - 1], "--minutes") == 0 && parse_number(value, &minutes)) {
            arguments.minutes = (uint32_t)minutes;
            continue;
        }
        if (strcmp(argv[i - 1], "--corpus") == 0 && value[0] != '\0') {
            arguments.corpus = value;
            continue;
        }
        if (strcmp(argv[i - 1], "--set") == 0 && arguments.set_count < SET_COUNT &&
            set_option(&(struct sim_options){0}, value)) {
            arguments.sets[arguments.set_count++] = value;
            continue;
        }
        if (strcmp(argv[i - 1], "--mutant") == 0 && parse_mutant(value)) {
            continue;
        }
        return false;
    }
    return true;
}

/* One a line: its name, and who has to catch it. */
static int list_mutants(void)
{
    for (int i = SIM_MUTANT_NONE + 1; i < SIM_MUTANT_COUNT; i++) {
        printf("%s %s\n", sim_mutant_name((enum sim_mutant)i),
               sim_mutant_checkers((enum sim_mutant)i));
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    // Brokers come and go: their large arrays are mapped each time, zero without being written.
    (void)mallopt(M_MMAP_THRESHOLD, MAP_BYTES);
    if (!parse(argc, argv)) {
        (void)fprintf(stderr,
                      "usage: foliot-sim [--seeds N] [--first S] [--seed S] [--trace] [--digests] "
                      "[--minutes M] [--mutant NAME] [--corpus FILE] [--set OPTION=VALUE]... "
                      "[--stop] [--mutants]\n");
        return EXIT_FAILURE;
    }
    if (arguments.is_list) {
        return list_mutants();
    }
    return arguments.is_one ? run_one() : run_seeds();
}
