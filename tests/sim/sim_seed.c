/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints for each failure what was broken, the options, the last events and how to see it again.
 */
#include "tests/sim/sim_seed.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Last events shown with a failure. */
#define EVENT_COUNT 60

/* The run in this process, and its last events. */
static struct witness {
    const struct sim_request *request;
    const struct sim_look *look;
    struct sim *sim;
    struct sim_told events[EVENT_COUNT];
    uint64_t count;
    bool is_over; /* what follows is only the end of the processes */
} witness;

bool sim_request_set(struct sim_request *request, const char *text, size_t len)
{
    struct sim_set *set = &request->sets[request->set_count];
    struct sim_options options = {0};
    const char *equal = memchr(text, '=', len);

    if (request->set_count == SIM_SETS_MAX || len >= sizeof(set->text) || equal == NULL ||
        !sim_options_set(&options, text, (size_t)(equal - text), 0)) {
        return false;
    }
    memcpy(set->text, text, len);
    set->text[len] = '\0';
    request->set_count++;
    return true;
}

/* What was drawn for many brokers, where a request wants fewer: somebody is there from the
 * beginning, and somebody is left. */
static void fit_brokers(struct sim_options *options)
{
    if (options->late_count >= options->node_count) {
        options->late_count = options->node_count - 1;
    }
    options->is_one_gone = options->is_one_gone && options->node_count > 1;
}

void sim_request_options(const struct sim_request *request, struct sim_options *options)
{
    if (request->is_quiet) {
        sim_options_quiet(options, request->seed);
    } else {
        sim_options_draw(options, request->seed, request->minutes);
    }
    sim_options_mutate(options, request->mutant);
    options->edge = request->edge;
    if (request->edge != NULL && !request->is_quiet) {
        sim_options_draw_wire(options);
    }
    for (size_t i = 0; i < request->set_count; i++) {
        const char *text = request->sets[i].text;
        const char *equal = strchr(text, '=');

        (void)sim_options_set(options, text, (size_t)(equal - text), strtoll(equal + 1, NULL, 10));
    }
    fit_brokers(options);
}

void sim_request_print(const struct sim_request *request)
{
    printf("--seed %llu", (unsigned long long)request->seed);
    if (request->is_quiet) {
        printf(" --quiet");
    }
    if (request->edge != NULL) {
        printf(" --wire");
    }
    if (request->minutes > 0) {
        printf(" --minutes %u", request->minutes);
    }
    if (request->mutant != SIM_MUTANT_NONE) {
        printf(" --mutant %s", sim_mutant_name(request->mutant));
    }
    for (size_t i = 0; i < request->set_count; i++) {
        printf(" --set %s", request->sets[i].text);
    }
    printf("\n");
}

static void print_event(const struct sim_told *event, const struct sim_tell_filter *filter)
{
    struct buf buf;

    buf_init(&buf, 1024);
    sim_tell(witness.sim, filter, event, &buf);
    printf("%s", buf_text(&buf));
    buf_fini(&buf);
}

static void on_trace(void *ctx, const char *what, const int64_t *values, size_t count)
{
    struct witness *seen = ctx;
    struct sim_told *event = &seen->events[seen->count++ % EVENT_COUNT];

    sim_told_set(event, seen->sim, what, values, count);
    if (seen->look->is_told && seen->sim != NULL && !seen->is_over) {
        bool was_in_core = sim_enter_world(seen->sim); // Memory for words is not the core's.

        print_event(event, &seen->look->filter);
        sim_leave_world(seen->sim, was_in_core);
    }
}

/* The id of the task that a message is about, or nothing. */
static struct slice find_task(const char *message)
{
    const char *place = strstr(message, "task ");
    struct slice text = {NULL, 0};
    struct task_id id;

    if (place != NULL && strlen(place + 5) >= TASK_ID_TEXT_LEN) {
        text = (struct slice){(const uint8_t *)place + 5, TASK_ID_TEXT_LEN};
    }
    return text.len > 0 && task_id_parse(text, &id) == 0 ? text : (struct slice){NULL, 0};
}

static void print_run(const struct sim_options *options)
{
    static const struct sim_tell_filter all = {0};
    struct slice task;
    struct buf buf;

    buf_init(&buf, 8192);
    sim_options_print(options, &buf);
    printf("  options:%s\n", buf_text(&buf));
    buf_fini(&buf);
    if (!witness.look->is_told) {
        uint64_t from = witness.count > EVENT_COUNT ? witness.count - EVENT_COUNT : 0;

        printf("  last events:\n");
        for (uint64_t i = from; i < witness.count; i++) {
            print_event(&witness.events[i % EVENT_COUNT], &all);
        }
    }
    task = find_task(witness.sim->message);
    printf("  again: foliot-sim --trace ");
    if (task.len > 0) { // Its story; without this, everybody's.
        printf("--task %.*s ", (int)task.len, (const char *)task.data);
    }
    sim_request_print(witness.request);
}

static void on_check_failed(const char *condition, const char *file, int line)
{
    if (witness.look->is_quiet) {
        return;
    }
    printf("seed %llu: CRASHED: %s at %s:%d\n", (unsigned long long)witness.request->seed,
           condition, file, line);
    (void)sim_enter_world(witness.sim);
    print_run(&witness.sim->options);
    (void)fflush(stdout);
}

static void tell_end(const struct sim *sim)
{
    if (sim->verdict != SIM_PASSED && !witness.look->is_quiet) {
        printf("seed %llu: %s: %s: %s\n", (unsigned long long)witness.request->seed,
               sim->verdict == SIM_STUCK ? "STUCK" : "UNSAFE", sim->promise, sim->message);
        print_run(&sim->options);
    }
}

void sim_seed_run(const struct sim_request *request, const struct sim_look *look,
                  struct sim_result *result)
{
    struct sim_options options;
    struct sim *sim;
    int64_t blocks = mem_block_count();

    sim_request_options(request, &options);
    witness = (struct witness){.request = request, .look = look};
    sim = sim_new(&options, on_trace, &witness);
    witness.sim = sim;
    check_set_hook(on_check_failed);
    (void)sim_run(sim);
    *result = (struct sim_result){.verdict = (int32_t)sim->verdict,
                                  .digest = sim->trace.digest,
                                  .virtual_us = sim->now,
                                  .event_count = sim->event_count};
    memcpy(result->promise, sim->promise, sizeof(result->promise));
    check_get_figures(sim->check, &result->figures);
    tell_end(sim);
    witness.is_over = true;
    sim_free(sim);
    witness.sim = NULL;
    if (mem_block_count() != blocks && result->verdict == SIM_PASSED) {
        printf("seed %llu: %lld blocks of memory were not given back\n",
               (unsigned long long)request->seed, (long long)(mem_block_count() - blocks));
        result->verdict = SIM_CRASHED;
    }
    (void)fflush(stdout);
}

_Noreturn static void run_as_child(const struct sim_request *request, const struct sim_look *look,
                                   int end)
{
    struct sim_result own;
    ssize_t written;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // Whoever ends the program ends the seed, too.
    sim_seed_run(request, look, &own);
    written = write(end, &own, sizeof(own));
    _exit(written == (ssize_t)sizeof(own) ? 0 : 1);
}

bool sim_seed_fork(const struct sim_request *request, const struct sim_look *look,
                   struct sim_result *result)
{
    int ends[2];
    pid_t child;
    int status = 0;

    *result = (struct sim_result){.verdict = SIM_CRASHED};
    (void)fflush(stdout);
    if (pipe(ends) != 0) {
        return false;
    }
    child = fork();
    if (child == 0) {
        (void)close(ends[0]);
        run_as_child(request, look, ends[1]);
    }
    (void)close(ends[1]);
    if (child > 0 && read(ends[0], result, sizeof(*result)) != (ssize_t)sizeof(*result)) {
        *result = (struct sim_result){.verdict = SIM_CRASHED};
    }
    (void)close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (child > 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
        if (!look->is_quiet) {
            printf("seed %llu: CRASHED, status %d\n", (unsigned long long)request->seed, status);
        }
        result->verdict = SIM_CRASHED;
    }
    return child > 0;
}
