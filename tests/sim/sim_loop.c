/* SPDX-License-Identifier: Apache-2.0
 *
 * Timers in a heap, tasks in a list, one event of the simulation for both.
 */
#include "tests/sim/sim_loop.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"
#include "lib/io/entropy.h"
#include "lib/io/loop.h"
#include "tests/sim/sim_node.h"

struct loop {
    struct sim_node *node;
    void *owner;
    struct heap timers;
    struct list tasks;
    struct sim_event turn;
};

static struct sim *current;
static struct prng entropy;

void sim_loop_set_sim(struct sim *sim)
{
    current = sim;
    if (sim != NULL) {
        prng_init_named(&entropy, sim->options.seed, "entropy");
    }
}

wall_ms clock_wall_ms(void)
{
    return sim_clock(current, 0) / US_PER_MS;
}

uint64_t entropy_u64(void)
{
    return prng_next(&entropy);
}

boot_us loop_now_us(const struct loop *loop)
{
    return sim_node_boot(loop->node);
}

static void plan(struct loop *loop)
{
    const struct heap_node *first = heap_first(&loop->timers);
    struct sim *sim = loop->node->sim;
    int64_t at = INT64_MAX;

    if (!list_is_empty(&loop->tasks)) {
        at = sim->now;
    } else if (first != NULL) {
        at = sim_node_true_time(loop->node, first->key);
    }
    if (loop->turn.is_planned && loop->turn.node.key <= at) {
        return; // Early is harmless.
    }
    sim_cancel(sim, &loop->turn);
    if (at != INT64_MAX) {
        sim_at(sim, &loop->turn, at);
    }
}

static void run_timers(struct loop *loop)
{
    boot_us now = loop_now_us(loop);

    for (struct heap_node *first; (first = heap_first(&loop->timers)) != NULL;) {
        struct loop_timer *timer = CONTAINER_OF(first, struct loop_timer, node);

        if (first->key > now) {
            break;
        }
        loop_timer_stop(timer);
        timer->cb(timer, timer->ctx);
    }
}

void sim_loop_drain(struct loop *loop)
{
    for (struct list *link; (link = list_take_first(&loop->tasks)) != NULL;) {
        struct loop_task *task = CONTAINER_OF(link, struct loop_task, node);

        task->cb(task->ctx);
    }
}

static void on_turn(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct loop *loop = CONTAINER_OF(event, struct loop, turn);

    (void)sim;
    if (!is_dropped) {
        run_timers(loop);
        sim_loop_drain(loop);
        plan(loop);
    }
}

void loop_timer_init(struct loop_timer *timer, struct loop *loop, loop_timer_cb cb, void *ctx)
{
    *timer = (struct loop_timer){.loop = loop, .cb = cb, .ctx = ctx};
}

void loop_timer_stop(struct loop_timer *timer)
{
    if (timer->is_started) {
        timer->is_started = false;
        heap_del(&timer->loop->timers, &timer->node);
    }
}

void loop_timer_start(struct loop_timer *timer, boot_us due_us)
{
    loop_timer_stop(timer);
    if (due_us != BOOT_NEVER) {
        timer->is_started = true;
        heap_add(&timer->loop->timers, &timer->node, due_us);
        plan(timer->loop);
    }
}

void loop_timer_start_in(struct loop_timer *timer, span_ms delay_ms)
{
    loop_timer_start(timer, loop_now_us(timer->loop) + delay_ms * US_PER_MS);
}

void loop_task_init(struct loop_task *task, loop_task_cb cb, void *ctx)
{
    *task = (struct loop_task){.cb = cb, .ctx = ctx};
    list_init(&task->node);
}

void loop_post(struct loop *loop, struct loop_task *task)
{
    if (list_is_empty(&task->node)) {
        list_add(&loop->tasks, &task->node);
        plan(loop);
    }
}

void loop_unpost(struct loop_task *task)
{
    list_del(&task->node);
}

struct loop *sim_loop_new(struct sim_node *node, void *owner)
{
    struct loop *loop = sim_need(1, sizeof(*loop));

    loop->node = node;
    loop->owner = owner;
    heap_init(&loop->timers);
    list_init(&loop->tasks);
    loop->turn = (struct sim_event){.fire = on_turn, .host = node};
    return loop;
}

void *sim_loop_owner(const struct loop *loop)
{
    return loop->owner;
}

void sim_loop_free(struct loop *loop)
{
    REQUIRE(heap_count(&loop->timers) == 0);
    sim_cancel(loop->node->sim, &loop->turn);
    mem_free(loop);
}
