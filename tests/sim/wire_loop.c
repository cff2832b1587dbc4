/* SPDX-License-Identifier: Apache-2.0
 *
 * lib/io's loop, clock and entropy on virtual time: the same turn (first hooks, timers,
 * descriptors, or these first after a pause, tasks, hooks), one loop per process, each turn an
 * event of the simulator.
 */
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"
#include "lib/io/entropy.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/wire.h"

#include <string.h>

/* As in lib/io/loop.c. */
#define LOOP_TASK_ROUNDS 3

/* A turn takes at least this long. */
#define TURN_US 20

/* The clocks of processes that are no brokers. */
#define OTHER_BOOT_US (500 * US_PER_S)

struct loop {
    struct wire_proc *proc;
    struct sim_event turn;
    boot_us now_us;
    int64_t turned; /* true time of the last turn */
    uint64_t turn_count;
    struct heap timers;
    struct list tasks;
    struct list hooks;
    struct list first_hooks;
    struct list watches;
    struct list ready; /* watches of this turn that were not called yet */
    bool is_turning;
    uint8_t scratch[LOOP_SCRATCH_BYTES];
};

/* A descriptor that is watched. */
struct watch {
    struct list link;  /* in loop->watches */
    struct list ready; /* in loop->ready */
    struct loop_fd *watcher;
};

/* ---- clocks and random bits ---- */

static boot_us boot_of(const struct wire_proc *proc)
{
    return proc->node == NULL ? proc->sim->now + OTHER_BOOT_US : sim_node_boot(proc->node);
}

boot_us clock_boot_us(void)
{
    return boot_of(wire_current());
}

int64_t clock_wall_us(void)
{
    return sim_clock(wire_current()->sim, 0);
}

wall_ms clock_wall_ms(void)
{
    return clock_wall_us() / US_PER_MS;
}

void entropy_fill(void *bytes, size_t len)
{
    uint8_t *at = bytes;

    for (size_t i = 0; i < len; i++) {
        at[i] = (uint8_t)(entropy_u64() >> 32);
    }
}

uint64_t entropy_u64(void)
{
    return prng_next(&wire_current()->prng);
}

/* ---- when it turns ---- */

static void plan(struct loop *loop, int64_t at)
{
    struct sim *sim = loop->proc->sim;

    at = time_max(at, loop->turned + TURN_US);
    if (loop->turn.is_planned && loop->turn.node.key <= at) {
        return;
    }
    sim_cancel(sim, &loop->turn);
    sim_at(sim, &loop->turn, at);
}

void wire_loop_wake(struct loop *loop)
{
    struct sim *sim = loop->proc->sim;

    if (!loop->is_turning) {
        plan(loop, sim->now + prng_between(&loop->proc->prng, 0, sim->options.turn_us));
    }
}

static bool has_ready(const struct loop *loop)
{
    list_foreach (link, &loop->watches) {
        const struct loop_fd *watcher = LIST_ENTRY(link, struct watch, link)->watcher;

        if ((wire_net_ready(loop->proc->sim->wire->net, watcher->fd) & watcher->interest) != 0) {
            return true;
        }
    }
    return false;
}

/* True time at which the timer is due. */
static int64_t true_time_of(const struct loop *loop, boot_us due_us)
{
    const struct wire_proc *proc = loop->proc;

    if (proc->node == NULL) {
        return due_us - OTHER_BOOT_US;
    }
    return sim_node_true_time(proc->node, due_us);
}

static void plan_next(struct loop *loop)
{
    const struct heap_node *first = heap_first(&loop->timers);

    if (!list_is_empty(&loop->tasks) || has_ready(loop)) {
        wire_loop_wake(loop);
    }
    if (first != NULL) {
        plan(loop, true_time_of(loop, first->key));
    }
}

void wire_loop_drop(struct loop *loop)
{
    sim_cancel(loop->proc->sim, &loop->turn);
}

/* ---- the turn ---- */

static void run_timers(struct loop *loop, uint64_t first_new)
{
    struct heap_node *first;

    while ((first = heap_first(&loop->timers)) != NULL && first->key <= loop->now_us &&
           first->sequence < first_new) {
        struct loop_timer *timer = CONTAINER_OF(first, struct loop_timer, node);

        heap_del(&loop->timers, first);
        timer->is_started = false;
        timer->cb(timer, timer->ctx);
    }
}

static bool is_held_up(const struct loop *loop)
{
    const struct heap_node *first = heap_first(&loop->timers);

    return first != NULL && time_sub(loop->now_us, first->key) >= LOOP_HELD_UP_US;
}

static unsigned ready_of(const struct loop *loop, const struct loop_fd *watcher)
{
    return wire_net_ready(loop->proc->sim->wire->net, watcher->fd) & watcher->interest;
}

/* The poll has told which are ready; what happens to others meanwhile is for the next turn. */
static void run_watches(struct loop *loop)
{
    struct list *link;

    list_foreach (node, &loop->watches) {
        struct watch *watch = LIST_ENTRY(node, struct watch, link);

        if (ready_of(loop, watch->watcher) != 0) {
            if (prng_chance(&loop->proc->prng, 500)) {
                list_add(&loop->ready, &watch->ready);
            } else {
                list_add_first(&loop->ready, &watch->ready);
            }
        }
    }
    while ((link = list_take_first(&loop->ready)) != NULL) {
        struct loop_fd *watcher = LIST_ENTRY(link, struct watch, ready)->watcher;
        unsigned ready = ready_of(loop, watcher);

        if (ready != 0) {
            watcher->cb(watcher, ready, watcher->ctx);
        }
    }
}

static void run_tasks(struct loop *loop)
{
    struct list tasks;
    struct list *first;

    list_init(&tasks);
    for (int round = 0; round < LOOP_TASK_ROUNDS; round++) {
        list_move_all(&tasks, &loop->tasks);
        while ((first = list_take_first(&tasks)) != NULL) {
            struct loop_task *task = LIST_ENTRY(first, struct loop_task, node);

            task->cb(task->ctx);
        }
    }
}

static void run_hooks(struct list *hooks)
{
    list_foreach_safe (node, after, hooks) {
        struct loop_hook *hook = LIST_ENTRY(node, struct loop_hook, node);

        hook->cb(hook->ctx);
    }
}

static void on_turn(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct loop *loop = CONTAINER_OF(event, struct loop, turn);
    struct wire_visit former;
    uint64_t first_new;
    bool is_late;

    if (is_dropped) {
        return;
    }
    former = wire_enter(loop->proc);
    loop->is_turning = true;
    loop->turned = sim->now;
    loop->turn_count++;
    (void)loop_sample_us(loop);
    run_hooks(&loop->first_hooks);
    first_new = loop->timers.sequence;
    is_late = is_held_up(loop);
    if (!is_late) {
        run_timers(loop, first_new);
    }
    run_watches(loop);
    if (is_late) {
        run_timers(loop, first_new);
    }
    run_tasks(loop);
    run_hooks(&loop->hooks);
    loop->is_turning = false;
    plan_next(loop);
    wire_leave(former);
}

/* ---- life ---- */

int loop_open(struct loop **out)
{
    struct loop *loop = mem_new(1, sizeof(*loop));

    if (loop == NULL) {
        return ERR_NO_MEMORY;
    }
    loop->proc = wire_current();
    loop->turn = (struct sim_event){.fire = on_turn, .host = loop->proc->node};
    loop->turned = -TURN_US;
    heap_init(&loop->timers);
    list_init(&loop->tasks);
    list_init(&loop->hooks);
    list_init(&loop->first_hooks);
    list_init(&loop->watches);
    list_init(&loop->ready);
    (void)loop_sample_us(loop);
    *out = loop;
    return 0;
}

void loop_close(struct loop *loop)
{
    REQUIRE(heap_count(&loop->timers) == 0);
    REQUIRE(list_is_empty(&loop->tasks));
    REQUIRE(list_is_empty(&loop->hooks) && list_is_empty(&loop->first_hooks));
    REQUIRE(list_is_empty(&loop->watches));
    wire_loop_drop(loop);
    mem_free(loop);
}

boot_us loop_now_us(const struct loop *loop)
{
    return loop->now_us;
}

boot_us loop_sample_us(struct loop *loop)
{
    loop->now_us = boot_of(loop->proc);
    return loop->now_us;
}

uint8_t *loop_scratch(struct loop *loop)
{
    return loop->scratch;
}

uint64_t loop_turn_count(const struct loop *loop)
{
    return loop->turn_count;
}

/* ---- timers ---- */

void loop_timer_init(struct loop_timer *timer, struct loop *loop, loop_timer_cb cb, void *ctx)
{
    memset(timer, 0, sizeof(*timer));
    timer->loop = loop;
    timer->cb = cb;
    timer->ctx = ctx;
}

void loop_timer_start(struct loop_timer *timer, boot_us due_us)
{
    loop_timer_stop(timer);
    if (due_us == BOOT_NEVER) {
        return;
    }
    heap_add(&timer->loop->timers, &timer->node, due_us);
    timer->is_started = true;
    if (!timer->loop->is_turning) {
        plan(timer->loop, true_time_of(timer->loop, due_us));
    }
}

void loop_timer_start_in(struct loop_timer *timer, span_ms delay_ms)
{
    loop_timer_start(timer, time_add(timer->loop->now_us, time_mul(delay_ms, US_PER_MS)));
}

void loop_timer_stop(struct loop_timer *timer)
{
    if (timer->is_started) {
        heap_del(&timer->loop->timers, &timer->node);
        timer->is_started = false;
    }
}

/* ---- descriptors ---- */

int loop_fd_init(struct loop_fd *watcher, struct loop *loop, int fd, loop_fd_cb cb, void *ctx)
{
    struct watch *watch = mem_new(1, sizeof(*watch));

    if (watch == NULL) {
        return ERR_NO_MEMORY;
    }
    *watcher = (struct loop_fd){
        .loop = loop, .cb = cb, .ctx = ctx, .fd = fd, .interest = 0, .watcher = watch};
    watch->watcher = watcher;
    list_init(&watch->ready);
    list_add(&loop->watches, &watch->link);
    return 0;
}

void loop_fd_set(struct loop_fd *watcher, unsigned interest)
{
    watcher->interest = interest;
    if (ready_of(watcher->loop, watcher) != 0) {
        wire_loop_wake(watcher->loop);
    }
}

void loop_fd_fini(struct loop_fd *watcher)
{
    struct watch *watch = watcher->watcher;

    if (watch == NULL) {
        return;
    }
    list_del(&watch->ready);
    list_del(&watch->link);
    mem_free(watch);
    watcher->watcher = NULL;
}

/* ---- tasks and hooks ---- */

void loop_task_init(struct loop_task *task, loop_task_cb cb, void *ctx)
{
    list_init(&task->node);
    task->cb = cb;
    task->ctx = ctx;
}

void loop_post(struct loop *loop, struct loop_task *task)
{
    if (list_is_empty(&task->node)) {
        list_add(&loop->tasks, &task->node);
        wire_loop_wake(loop);
    }
}

void loop_unpost(struct loop_task *task)
{
    list_del(&task->node);
}

static void add_hook(struct list *hooks, struct loop_hook *hook, loop_hook_cb cb, void *ctx)
{
    list_init(&hook->node);
    hook->cb = cb;
    hook->ctx = ctx;
    list_add(hooks, &hook->node);
}

void loop_hook_add(struct loop *loop, struct loop_hook *hook, loop_hook_cb cb, void *ctx)
{
    add_hook(&loop->hooks, hook, cb, ctx);
}

void loop_hook_add_first(struct loop *loop, struct loop_hook *hook, loop_hook_cb cb, void *ctx)
{
    add_hook(&loop->first_hooks, hook, cb, ctx);
}

void loop_hook_del(struct loop_hook *hook)
{
    list_del(&hook->node);
}
