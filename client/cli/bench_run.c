/* SPDX-License-Identifier: Apache-2.0
 *
 * A run.
 */
#include "client/cli/bench_run.h"

#include "client/cli/bench_progress.h"
#include "client/cli/bench_world.h"
#include "client/cli/cli.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"
#include "lib/io/clock.h"
#include "lib/io/loop.h"

#include <signal.h>
#include <string.h>
#include <time.h>

/* How often it is looked whether all have come. */
#define LOOK_MS 5

/* DRAIN, if no lead was given: time to make the tasks, at this rate, and some more. */
#define LEAD_MS          2000
#define LEAD_TASKS_PER_S 15000

/* Cancels of what is left, so many in a call and so many calls at once. */
#define CLEAR_BATCH       5000
#define CLEAR_OUTSTANDING 4

/* Tasks that CANCEL makes ahead, in such batches. */
#define AHEAD_BATCH       500
#define AHEAD_OUTSTANDING 8

/* Shares of what MIXED does, in percent; the rest are creates. */
#define MIXED_CANCEL 10
#define MIXED_UPDATE 5
#define MIXED_GET    5

/* Tasks that are far off, by their ids. */
struct pool {
    struct task_id *ids;
    size_t count;
    size_t size;
};

struct run_state {
    const struct plan *plan;
    struct bench_result *result;
    struct mix mix; /* of this run, with its queue */
    struct channels channels;
    struct bench_world world;
    struct bench_receiver *receiver;
    struct bench_progress progress;
    struct pool far;
    struct prng prng;     /* of MIXED */
    uint32_t next_number; /* of the next create of MIXED */
    wall_ms last_due_ms;  /* of those that are waited for */
    struct loop_signal *signals[2];
    bool is_over;  /* a signal came */
    bool is_short; /* no memory to keep an id */
};

/* ---- far tasks ---- */

static void pool_add(struct run_state *run, struct task_id id)
{
    struct pool *pool = &run->far;

    if (pool->count == pool->size) {
        size_t size = pool->size == 0 ? 4096 : pool->size * 2;
        struct task_id *ids = mem_resize(pool->ids, size * sizeof(*ids));

        if (ids == NULL) {
            run->is_short = true;
            return;
        }
        pool->ids = ids;
        pool->size = size;
    }
    pool->ids[pool->count++] = id;
}

/* Take one out, the last one moves into its place. shape: index below the count. */
static struct task_id pool_take(struct pool *pool, size_t index)
{
    struct task_id id = pool->ids[index];

    pool->ids[index] = pool->ids[--pool->count];
    return id;
}

static void on_created(uint32_t number, const struct create_reply *reply, void *ctx)
{
    struct run_state *run = ctx;
    bool is_awaited = reply->due_ms - clock_wall_ms() < run->plan->await_ms;

    (void)number;
    if (is_awaited) {
        run->result->awaited++;
        run->last_due_ms = time_max(run->last_due_ms, reply->due_ms);
    } else if (reply->created) {
        pool_add(run, reply->id);
    }
}

static enum load_op next_cancel(struct load_item *item, void *ctx)
{
    struct run_state *run = ctx;

    item->id = pool_take(&run->far, run->far.count - 1);
    return LOAD_CANCEL;
}

static enum load_op next_mixed(struct load_item *item, void *ctx)
{
    struct run_state *run = ctx;
    uint64_t draw = prng_below(&run->prng, 100);
    size_t index;

    if (run->far.count == 0 || draw >= MIXED_CANCEL + MIXED_UPDATE + MIXED_GET) {
        item->number = run->next_number++;
        return LOAD_CREATE;
    }
    index = prng_below(&run->prng, run->far.count);
    if (draw < MIXED_CANCEL) {
        item->id = pool_take(&run->far, index);
        return LOAD_CANCEL;
    }
    item->id = run->far.ids[index];
    return draw < MIXED_CANCEL + MIXED_UPDATE ? LOAD_UPDATE : LOAD_GET;
}

/* ---- loads ---- */

static struct load_options make_load(struct run_state *run)
{
    struct load_options load = run->plan->load;

    load.mix = &run->mix;
    load.created = on_created;
    load.ctx = run;
    load.is_over = &run->is_over;
    return load;
}

/* Tasks for CANCEL to cancel; their figures are nobody's. */
static int make_ahead(struct run_state *run)
{
    static struct load_result unseen;
    struct load_options load = make_load(run);

    memset(&unseen, 0, sizeof(unseen));
    load.count = run->plan->count;
    load.duration_ms = 0;
    load.rate = 0;
    load.batch = AHEAD_BATCH;
    load.is_batched = true;
    load.outstanding = AHEAD_OUTSTANDING;
    return load_run(&run->channels, &load, &unseen);
}

/* Cancel every far task that is left. */
static int clear_far(struct run_state *run)
{
    static struct load_result unseen;
    struct load_options load = make_load(run);

    if (run->far.count == 0) {
        return CLI_OK;
    }
    memset(&unseen, 0, sizeof(unseen));
    load.count = (int64_t)run->far.count;
    load.duration_ms = 0;
    load.rate = 0;
    load.batch = CLEAR_BATCH;
    load.is_batched = true;
    load.outstanding = CLEAR_OUTSTANDING;
    load.next = next_cancel;
    load.is_over = NULL; // Also after a signal.
    return load_run(&run->channels, &load, &unseen);
}

static int64_t client_cpu_us(void)
{
    struct timespec used;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * US_PER_S + used.tv_nsec / 1000;
}

static void set_due(struct run_state *run)
{
    const struct plan *plan = run->plan;
    span_ms lead_ms =
        plan->lead_ms > 0 ? plan->lead_ms : LEAD_MS + plan->count * MS_PER_S / LEAD_TASKS_PER_S;

    run->mix.at.kind = WHEN_DUE;
    run->mix.at.due_ms = clock_wall_ms() + lead_ms;
    run->result->due_us = run->mix.at.due_ms * US_PER_MS;
}

static int put_load(struct run_state *run)
{
    const struct plan *plan = run->plan;
    struct load_options load;
    int code = CLI_OK;

    if (plan->mode == BENCH_CANCEL) {
        code = make_ahead(run);
    }
    if (code != CLI_OK || run->is_over) {
        return code;
    }
    load = make_load(run);
    if (plan->mode == BENCH_DRAIN) {
        set_due(run);
    } else if (plan->mode == BENCH_MIXED) {
        load.next = next_mixed;
    } else if (plan->mode == BENCH_CANCEL) {
        load.next = next_cancel;
        load.count = time_min(load.count, (int64_t)run->far.count);
        if (load.count == 0) {
            cli_say("none of the tasks that are to be cancelled could be made%s",
                    delays_max(&plan->mix.delays) <= plan->await_ms
                        ? ": --delay must be above --await (default 1h, PLAN_AWAIT_MS)"
                        : "");
            return CLI_ERROR;
        }
    }
    bench_receiver_measure_from(run->receiver, clock_wall_ms() + load.warmup_ms);
    run->result->client_cpu_us = -client_cpu_us();
    code = load_run(&run->channels, &load, &run->result->load);
    run->result->created_us = clock_wall_us();
    return code;
}

/* ---- waiting ---- */

static void on_look(struct loop_timer *timer, void *ctx)
{
    const struct run_state *run = ctx;
    struct arrivals arrivals;
    bool is_too_late = clock_wall_ms() > run->last_due_ms + run->plan->load.patience_ms;

    bench_receiver_peek(run->receiver, &arrivals);
    if (arrivals.first >= run->result->awaited || is_too_late || run->is_over) {
        loop_stop(run->channels.loop);
    } else {
        loop_timer_start_in(timer, LOOK_MS);
    }
}

static void await_arrivals(struct run_state *run)
{
    struct loop_timer timer;

    loop_timer_init(&timer, run->channels.loop, on_look, run);
    loop_timer_start_in(&timer, 0);
    loop_run(run->channels.loop);
    loop_timer_stop(&timer);
    run->result->client_cpu_us += client_cpu_us();
}

static void on_signal(int number, void *ctx)
{
    struct run_state *run = ctx;

    (void)number;
    run->is_over = true;
    for (size_t i = 0; i < ARRAY_COUNT(run->signals); i++) { // The next one ends us at once.
        if (run->signals[i] != NULL) {
            loop_signal_close(run->signals[i]);
            run->signals[i] = NULL;
        }
    }
}

/* ---- a run ---- */

static int run_in_world(struct run_state *run)
{
    const struct plan *plan = run->plan;
    int code;
    int cleared = CLI_OK;

    run->mix = plan->mix;
    run->mix.queue = (struct queue_name){run->world.queue.tenant, run->world.queue.name};
    prng_init_named(&run->prng, plan->mix.seed, "mixed");
    run->progress.loop = run->channels.loop;
    run->progress.name = bench_mode_name(plan->mode);
    run->progress.load = &run->result->load;
    run->progress.receiver = run->receiver;
    bench_progress_start(&run->progress);
    code = put_load(run);
    if (code == CLI_OK) {
        await_arrivals(run);
    }
    if (!plan->keep) {
        cleared = clear_far(run);
    }
    bench_progress_stop(&run->progress);
    if (!plan->keep && cleared == CLI_OK) {
        cleared = bench_world_remove(&run->world);
    }
    if (run->is_short) {
        cli_say("out of memory for the ids of tasks: some are left in queue %s",
                run->world.queue.name);
    }
    run->result->is_interrupted = run->is_over;
    return code == CLI_OK ? cleared : code;
}

static int run_with_channels(struct run_state *run, const struct args *args)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    int code = bench_receiver_open(run->plan->address, run->plan->port, &run->receiver);

    if (code != CLI_OK) {
        return code;
    }
    code = bench_world_open(&run->world, run->plan, args, bench_receiver_port(run->receiver));
    for (size_t i = 0; i < ARRAY_COUNT(numbers) && code == CLI_OK; i++) {
        if (loop_signal_open(run->channels.loop, numbers[i], on_signal, run, &run->signals[i]) !=
            0) {
            run->signals[i] = NULL; // It then ends us at once, as everywhere.
        }
    }
    if (code == CLI_OK) {
        code = run_in_world(run);
        bench_world_close(&run->world);
    }
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        if (run->signals[i] != NULL) {
            loop_signal_close(run->signals[i]);
        }
    }
    bench_receiver_close(run->receiver, &run->result->arrivals);
    return code;
}

int bench_run(const struct plan *plan, const struct args *args, struct bench_result *result)
{
    static struct run_state run; // large
    int code;

    memset(&run, 0, sizeof(run));
    run.plan = plan;
    run.result = result;
    code = channels_open(&run.channels, args);
    if (code != CLI_OK) {
        return code;
    }
    code = run_with_channels(&run, args);
    channels_close(&run.channels);
    mem_free(run.far.ids);
    return code;
}

uint64_t bench_result_missing(const struct bench_result *result)
{
    uint64_t came = result->arrivals.arrivals.first;

    return result->awaited > came ? result->awaited - came : 0;
}

bool bench_result_is_good(const struct bench_result *result)
{
    uint64_t bad = result->arrivals.arrivals.early + bench_result_missing(result);

    for (size_t i = 0; i < LOAD_OP_COUNT; i++) {
        bad += result->load.ops[i].failed + result->load.ops[i].unknown;
    }
    return bad == 0;
}
