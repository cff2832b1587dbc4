/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot-sim: runs seeds, one or many or those of a file, and adds up what they did. Arguments and
 * sums only; sim_seed.h runs them.
 */
#include "tests/sim/sim_seed.h"
#include "tests/sim/sim_shrink.h"
#include "tests/sim/wire.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* Every so many seeds one is run twice. */
#define TWICE_EVERY 10

/* Failures that are made smaller; those behind them are likely the same. */
#define SHRUNK_MAX 2

/* Blocks from this size on come from the system, zeroed by it when they are touched. */
#define MAP_BYTES (1 << 18)

/* Arguments of the program. */
struct arguments {
    struct sim_request request; /* but for the seed, of all of them */
    struct sim_look look;
    uint64_t first;
    uint64_t count;
    uint64_t step;      /* from one seed to the next: others run those in between */
    const char *corpus; /* a file of seeds */
    const char *failed; /* a file to which failing seeds are added */
    const char *task;   /* --task, looked at when the shards are known */
    uint64_t progress_s;
    uint64_t shrink_s; /* longest time to make a failure smaller */
    bool is_one;       /* --seed: in this process */
    bool is_digests;   /* the digest of each seed is printed */
    bool is_stopped;   /* at the first seed that fails */
    bool is_list;      /* the mutants are printed, and nothing is run */
    bool is_wire;      /* the real edge between, bytes over links */
};

static struct arguments arguments;

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
    sum->promotions += more->promotions;
    sum->lost_commits += more->lost_commits;
    sum->lost_tasks += more->lost_tasks;
    sum->lost_starts += more->lost_starts;
    sum->lost_overlaps += more->lost_overlaps;
    sum->excused_answers += more->excused_answers;
    sum->excused_bytes += more->excused_bytes;
    sum->excused_tellings += more->excused_tellings;
    sum->releases += more->releases;
    sum->hasty_releases += more->hasty_releases;
}

static double seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double usage_s(int who)
{
    struct rusage usage;

    (void)getrusage(who, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Processor time of this process and of its children that have ended. */
static double processor_s(void)
{
    return usage_s(RUSAGE_SELF) + usage_s(RUSAGE_CHILDREN);
}

/* Sums over all seeds of this program. */
struct total {
    struct check_figures figures;
    uint64_t count;
    uint64_t failed;
    uint64_t twice;
    uint64_t shrunk;
    int32_t worst;
    double virtual_s;
    double begun_s;
    double told_s;
};

static void tell_progress(struct total *total)
{
    double now_s = seconds();

    if (arguments.progress_s == 0 || now_s - total->told_s < (double)arguments.progress_s) {
        return;
    }
    total->told_s = now_s;
    (void)fprintf(stderr, "sim: %llu of %llu seeds, %llu failed, %.0f s, %.0f times real time\n",
                  (unsigned long long)total->count, (unsigned long long)arguments.count,
                  (unsigned long long)total->failed, now_s - total->begun_s,
                  total->virtual_s / processor_s());
}

static void keep_failed(const struct sim_request *request, const struct sim_result *result)
{
    FILE *file = arguments.failed == NULL ? NULL : fopen(arguments.failed, "a");

    if (file == NULL) {
        return;
    }
    (void)fprintf(file, "%llu", (unsigned long long)request->seed);
    if (request->is_quiet) {
        (void)fprintf(file, " quiet=1");
    }
    if (request->edge != NULL) {
        (void)fprintf(file, " wire=1");
    }
    if (request->minutes > 0) {
        (void)fprintf(file, " minutes=%u", request->minutes);
    }
    for (size_t i = 0; i < request->set_count; i++) {
        (void)fprintf(file, " %s", request->sets[i].text);
    }
    (void)fprintf(file, " verdict %d %s\n", result->verdict, result->promise);
    (void)fclose(file);
}

static void shrink(struct total *total, const struct sim_request *failed,
                   const struct sim_result *result)
{
    struct sim_request request = *failed;
    uint32_t runs;

    if (arguments.shrink_s == 0 || total->shrunk == SHRUNK_MAX || result->verdict == SIM_UNSTEADY) {
        return;
    }
    total->shrunk++;
    runs = sim_shrink(&request, result, (uint32_t)arguments.shrink_s);
    printf("  smaller, after %u runs: foliot-sim --trace ", runs);
    sim_request_print(&request);
}

/* False: no process could be had. */
static bool add_seed(struct total *total, const struct sim_request *request)
{
    struct sim_result result;
    struct sim_result second;

    if (!sim_seed_fork(request, &arguments.look, &result)) {
        return false;
    }
    if (result.verdict == SIM_PASSED && total->count % TWICE_EVERY == 0) {
        total->twice++;
        if (!sim_seed_fork(request, &arguments.look, &second) || second.digest != result.digest) {
            printf("seed %llu: UNSTEADY: two runs differ\n", (unsigned long long)request->seed);
            result.verdict = SIM_UNSTEADY;
        }
        total->virtual_s += (double)second.virtual_us / 1e6;
    }
    if (arguments.is_digests) {
        printf("seed %llu: digest %016llx\n", (unsigned long long)request->seed,
               (unsigned long long)result.digest);
    }
    total->count++;
    total->worst = result.verdict > total->worst ? result.verdict : total->worst;
    total->virtual_s += (double)result.virtual_us / 1e6;
    add_figures(&total->figures, &result.figures);
    if (result.verdict != SIM_PASSED) {
        total->failed++;
        keep_failed(request, &result);
        shrink(total, request, &result);
    }
    tell_progress(total);
    return true;
}

/* "SEED [quiet=1] [minutes=M] [OPTION=VALUE]... what it guards". False: an option that there is
 * not. */
static bool parse_line(char *line, struct sim_request *request, bool *has_seed)
{
    char *rest = NULL;
    char *end = NULL;
    char *word = strtok_r(line, " \n", &rest);

    *request = arguments.request;
    request->seed = word == NULL ? 0 : strtoull(word, &end, 10);
    *has_seed = word != NULL && end != word;
    while (*has_seed && (word = strtok_r(NULL, " \n", &rest)) != NULL &&
           strchr(word, '=') != NULL) {
        if (strcmp(word, "quiet=1") == 0) {
            request->is_quiet = true;
        } else if (strcmp(word, "wire=1") == 0) {
            request->edge = &wire_edge;
        } else if (strncmp(word, "minutes=", 8) == 0) {
            request->minutes = (uint32_t)strtoul(word + 8, NULL, 10);
        } else if (!sim_request_set(request, word, strlen(word))) {
            printf("%s: seed %llu: there is no option %s\n", arguments.corpus,
                   (unsigned long long)request->seed, word);
            return false;
        }
    }
    return true;
}

/* With --first and --step only some of its lines: others run those in between. */
static bool add_corpus(struct total *total)
{
    FILE *file = fopen(arguments.corpus, "r");
    char line[512];
    bool is_fine = file != NULL;

    for (uint64_t i = 1; is_fine && fgets(line, sizeof(line), file) != NULL; i++) {
        struct sim_request request;
        bool has_seed = false;

        is_fine = parse_line(line, &request, &has_seed);
        if (is_fine && has_seed && i % arguments.step == arguments.first % arguments.step) {
            is_fine = add_seed(total, &request);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return is_fine;
}

static void print_total(const struct total *total)
{
    const struct check_figures *sum = &total->figures;

    printf("created %llu, done %llu, cancelled %llu, dead %llu, expired %llu, redriven %llu; "
           "starts %llu, updates %llu, "
           "unknown answers %llu, refusals %llu\n",
           (unsigned long long)sum->created, (unsigned long long)sum->done,
           (unsigned long long)sum->cancelled, (unsigned long long)sum->dead,
           (unsigned long long)sum->expired, (unsigned long long)sum->redriven,
           (unsigned long long)sum->starts, (unsigned long long)sum->updates,
           (unsigned long long)sum->unknown_answers, (unsigned long long)sum->refusals);
    printf("promotions %llu: lost commits %llu, lost tasks %llu; excused by them: starts %llu, "
           "overlaps %llu, answers %llu, payloads %llu, outcomes told %llu\n",
           (unsigned long long)sum->promotions, (unsigned long long)sum->lost_commits,
           (unsigned long long)sum->lost_tasks, (unsigned long long)sum->lost_starts,
           (unsigned long long)sum->lost_overlaps, (unsigned long long)sum->excused_answers,
           (unsigned long long)sum->excused_bytes, (unsigned long long)sum->excused_tellings);
    printf("shards given away in good order %llu, %llu of them before all was written\n",
           (unsigned long long)sum->releases, (unsigned long long)sum->hasty_releases);
    printf("%.0f virtual seconds in %.1f s, %.1f s of one core: %.0f times real time; "
           "%llu seeds run twice alike\n",
           total->virtual_s, seconds() - total->begun_s, processor_s(),
           total->virtual_s / processor_s(), (unsigned long long)total->twice);
    printf("%llu passed, %llu failed\n", (unsigned long long)(total->count - total->failed),
           (unsigned long long)total->failed);
}

static int run_seeds(void)
{
    struct total total = {.worst = SIM_PASSED, .begun_s = seconds(), .told_s = seconds()};
    struct sim_request request = arguments.request;
    bool is_fine = true;

    if (arguments.corpus != NULL) {
        is_fine = add_corpus(&total);
    }
    for (uint64_t i = 0; is_fine && arguments.corpus == NULL && i < arguments.count; i++) {
        request.seed = arguments.first + i * arguments.step;
        is_fine = add_seed(&total, &request);
        if (arguments.is_stopped && total.failed > 0) {
            break;
        }
    }
    if (!is_fine) {
        printf("cannot start a process or read the seeds\n");
        return EXIT_FAILURE;
    }
    print_total(&total);
    return total.worst;
}

static int run_one(void)
{
    struct sim_request request = arguments.request;
    struct sim_result result;

    (void)setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    request.seed = arguments.first;
    sim_seed_run(&request, &arguments.look, &result);
    printf("seed %llu: digest %016llx, %llu events, %.1f virtual seconds in %.3f s of one core: "
           "%.0f times real time; %llu created, %llu starts, first start at most %.3f ms late\n",
           (unsigned long long)request.seed, (unsigned long long)result.digest,
           (unsigned long long)result.event_count, (double)result.virtual_us / 1e6, processor_s(),
           (double)result.virtual_us / 1e6 / processor_s(),
           (unsigned long long)result.figures.created, (unsigned long long)result.figures.starts,
           (double)result.figures.late_us_max / 1e3);
    if (result.verdict != SIM_PASSED) {
        shrink(&(struct total){0}, &request, &result);
    }
    printf("%d passed, %d failed\n", result.verdict == SIM_PASSED, result.verdict != SIM_PASSED);
    return result.verdict;
}

static bool parse_mutant(const char *name)
{
    for (int i = 0; i < SIM_MUTANT_COUNT; i++) {
        if (strcmp(sim_mutant_name((enum sim_mutant)i), name) == 0) {
            arguments.request.mutant = (enum sim_mutant)i;
            arguments.is_wire |= i >= SIM_MUTANT_WIRE_LOSE;
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

/* NODESxSHARDS. */
static bool parse_shape(const char *text)
{
    char set[32];
    char *x = NULL;
    char *end = NULL;
    unsigned long nodes = strtoul(text, &x, 10);
    unsigned long shards = *x == 'x' ? strtoul(x + 1, &end, 10) : 0;
    int len = snprintf(set, sizeof(set), "nodes=%lu", nodes);

    if (end == NULL || *end != '\0' || nodes < 1 || nodes > SIM_NODE_COUNT_MAX || shards < 1 ||
        shards > SHARD_COUNT_MAX || !sim_request_set(&arguments.request, set, (size_t)len)) {
        return false;
    }
    len = snprintf(set, sizeof(set), "shards=%lu", shards);
    return sim_request_set(&arguments.request, set, (size_t)len);
}

/* An argument that has a value. */
static bool parse_valued(const char *name, const char *value)
{
    uint64_t number = 0;

    if (strcmp(name, "--set") == 0) {
        return sim_request_set(&arguments.request, value, strlen(value));
    }
    if (strcmp(name, "--shape") == 0) {
        return parse_shape(value);
    }
    if (strcmp(name, "--mutant") == 0) {
        return parse_mutant(value);
    }
    if (strcmp(name, "--corpus") == 0) {
        arguments.corpus = value;
        return value[0] != '\0';
    }
    if (strcmp(name, "--failed") == 0) {
        arguments.failed = value;
        return value[0] != '\0';
    }
    if (strcmp(name, "--task") == 0) {
        arguments.task = value;
        return value[0] != '\0';
    }
    if (!parse_number(value, &number)) {
        return false;
    }
    if (strcmp(name, "--seeds") == 0) {
        arguments.count = number;
    } else if (strcmp(name, "--first") == 0) {
        arguments.first = number;
    } else if (strcmp(name, "--step") == 0) {
        arguments.step = number;
    } else if (strcmp(name, "--seed") == 0) {
        arguments.first = number;
        arguments.is_one = true;
    } else if (strcmp(name, "--minutes") == 0) {
        arguments.request.minutes = (uint32_t)number;
    } else if (strcmp(name, "--shard") == 0) {
        arguments.look.filter.has_shard = true;
        arguments.look.filter.shard = (uint32_t)number;
    } else if (strcmp(name, "--progress") == 0) {
        arguments.progress_s = number;
    } else if (strcmp(name, "--shrink") == 0) {
        arguments.shrink_s = number;
    } else {
        return false;
    }
    return true;
}

/* A task's id says its shard, once it is known how many there are. */
static bool parse_task(void)
{
    struct sim_request request = arguments.request;
    struct sim_options options;

    request.seed = arguments.first;
    sim_request_options(&request, &options);
    return arguments.task == NULL ||
           sim_tell_want_task(&arguments.look.filter, arguments.task, options.shard_count);
}

/* An argument that has no value. */
static bool parse_switch(const char *text)
{
    bool *const places[] = {&arguments.look.is_told,     &arguments.is_digests,
                            &arguments.is_stopped,       &arguments.is_list,
                            &arguments.request.is_quiet, &arguments.is_wire};
    const char *const names[] = {"--trace",   "--digests", "--stop",
                                 "--mutants", "--quiet",   "--wire"};

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
    arguments = (struct arguments){.first = 1, .count = 20, .step = 1};
    for (int i = 1; i < argc; i++) {
        if (parse_switch(argv[i])) {
            continue;
        }
        if (i + 1 < argc && parse_valued(argv[i], argv[i + 1])) {
            i++;
        } else {
            (void)fprintf(stderr, "foliot-sim: no such argument, or not its kind of value: %s %s\n",
                          argv[i], i + 1 < argc ? argv[i + 1] : "");
            return false;
        }
    }
    arguments.request.edge = arguments.is_wire ? &wire_edge : NULL;
    return parse_task();
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
        (void)fprintf(
            stderr,
            "usage: foliot-sim [--seeds N] [--first S] [--step K] [--seed S] [--corpus FILE]\n"
            "                  [--minutes M] [--shape NODESxSHARDS] [--set OPTION=VALUE]...\n"
            "                  [--quiet] [--mutant NAME] [--trace [--shard N] [--task ID]]\n"
            "                  [--digests] [--stop] [--shrink SECONDS] [--progress SECONDS]\n"
            "                  [--failed FILE] [--wire]\n"
            "       foliot-sim --mutants\n");
        return EXIT_FAILURE;
    }
    if (arguments.is_list) {
        return list_mutants();
    }
    return arguments.is_one ? run_one() : run_seeds();
}
