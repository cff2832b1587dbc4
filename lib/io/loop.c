/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop over libev. Timers are ours: a heap, and one timerfd on CLOCK_BOOTTIME for the nearest,
 * because libev rounds its sleep to whole milliseconds and runs on another clock.
 */
#include "lib/io/loop.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"

#include <ev.h>

#include <stdatomic.h>
#include <string.h>

#include <sys/timerfd.h>
#include <unistd.h>

#define NS_PER_US 1000

/* Rounds of posted tasks in one turn; the next turn does not sleep if more are waiting. */
#define LOOP_TASK_ROUNDS 3

/* What the timer descriptor is armed for when we do not know: it has fired. */
#define ARMED_UNKNOWN INT64_MIN

struct loop {
    struct ev_loop *ev;
    ev_check after_poll;
    ev_check after_fds;
    ev_prepare before_poll;
    ev_idle no_sleep; /* active while tasks wait: the poll must not sleep */
    ev_io alarm;
    int alarm_fd;
    boot_us armed_us; /* what alarm_fd is set to; BOOT_NEVER: disarmed */
    boot_us now_us;
    atomic_uint_fast64_t turn_count;
    struct heap timers;
    uint64_t first_new; /* sequence of the first timer that was started in this turn */
    struct list tasks;
    struct list hooks;
    struct list first_hooks;
    bool is_held_up; /* this turn's timers run after its descriptors */
    bool is_single;  /* inside loop_turn: a task that ran is all the caller waits for */
    uint8_t scratch[LOOP_SCRATCH_BYTES];
};

struct loop_waker {
    struct loop *loop;
    ev_async async;
    loop_task_cb cb;
    void *ctx;
};

struct loop_signal {
    struct loop *loop;
    ev_signal signal;
    loop_signal_cb cb;
    void *ctx;
};

/* ---- timers ---- */

static void arm(struct loop *loop)
{
    struct heap_node *first = heap_first(&loop->timers);
    boot_us due_us = first == NULL ? BOOT_NEVER : first->key;
    struct itimerspec at;

    if (due_us == loop->armed_us) {
        return;
    }
    memset(&at, 0, sizeof(at)); // All zero disarms.
    if (due_us != BOOT_NEVER) {
        boot_us at_us = due_us > 1 ? due_us : 1;

        at.it_value.tv_sec = at_us / US_PER_S;
        at.it_value.tv_nsec = (at_us % US_PER_S) * NS_PER_US;
    }
    REQUIRE(timerfd_settime(loop->alarm_fd, TFD_TIMER_ABSTIME, &at, NULL) == 0);
    loop->armed_us = due_us;
}

/* The descriptor has fired. Setting it again, which arm does before the next sleep, makes it
 * unreadable. */
static void on_alarm(struct ev_loop *ev, ev_io *watcher, int events)
{
    struct loop *loop = watcher->data;

    (void)ev;
    (void)events;
    loop->armed_us = ARMED_UNKNOWN;
}

/* Run what is due by the time of this turn; what a callback starts anew waits for the next turn. */
static void run_timers(struct loop *loop)
{
    struct heap_node *first;

    while ((first = heap_first(&loop->timers)) != NULL && first->key <= loop->now_us &&
           first->sequence < loop->first_new) {
        struct loop_timer *timer = CONTAINER_OF(first, struct loop_timer, node);

        heap_del(&loop->timers, first);
        timer->is_started = false;
        timer->cb(timer, timer->ctx);
    }
}

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

/* ---- the turn ---- */

static void run_hooks(struct list *hooks)
{
    list_foreach_safe (node, after, hooks) {
        struct loop_hook *hook = LIST_ENTRY(node, struct loop_hook, node);

        hook->cb(hook->ctx);
    }
}

static bool is_held_up(const struct loop *loop)
{
    const struct heap_node *first = heap_first(&loop->timers);

    return first != NULL && time_sub(loop->now_us, first->key) >= LOOP_HELD_UP_US;
}

static void on_after_poll(struct ev_loop *ev, ev_check *watcher, int events)
{
    struct loop *loop = watcher->data;

    (void)ev;
    (void)events;
    (void)loop_sample_us(loop);
    atomic_fetch_add_explicit(&loop->turn_count, 1, memory_order_relaxed);
    run_hooks(&loop->first_hooks);
    loop->first_new = loop->timers.sequence;
    loop->is_held_up = is_held_up(loop);
    if (!loop->is_held_up) {
        run_timers(loop);
    }
}

static void on_after_fds(struct ev_loop *ev, ev_check *watcher, int events)
{
    struct loop *loop = watcher->data;

    (void)ev;
    (void)events;
    if (loop->is_held_up) {
        run_timers(loop);
    }
}

/* A few rounds, so that what one task posts (a call, then its write) still leaves in this turn. */
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

static void on_before_poll(struct ev_loop *ev, ev_prepare *watcher, int events)
{
    struct loop *loop = watcher->data;
    bool may_sleep = !loop->is_single || list_is_empty(&loop->tasks);

    (void)events;
    run_tasks(loop);
    run_hooks(&loop->hooks);
    if (may_sleep && list_is_empty(&loop->tasks)) {
        ev_idle_stop(ev, &loop->no_sleep);
        arm(loop);
    } else {
        ev_idle_start(ev, &loop->no_sleep);
    }
}

static void on_idle(struct ev_loop *ev, ev_idle *watcher, int events)
{
    (void)ev;
    (void)watcher;
    (void)events;
}

static void start_watchers(struct loop *loop)
{
    ev_check_init(&loop->after_poll, on_after_poll);
    ev_set_priority(&loop->after_poll, EV_MAXPRI); // Before every other event of the turn.
    loop->after_poll.data = loop;
    ev_check_start(loop->ev, &loop->after_poll);
    ev_check_init(&loop->after_fds, on_after_fds);
    ev_set_priority(&loop->after_fds, EV_MINPRI); // Behind every other.
    loop->after_fds.data = loop;
    ev_check_start(loop->ev, &loop->after_fds);
    ev_prepare_init(&loop->before_poll, on_before_poll);
    loop->before_poll.data = loop;
    ev_prepare_start(loop->ev, &loop->before_poll);
    ev_idle_init(&loop->no_sleep, on_idle);
    ev_io_init(&loop->alarm, on_alarm, loop->alarm_fd, EV_READ);
    loop->alarm.data = loop;
    ev_io_start(loop->ev, &loop->alarm);
}

int loop_open(struct loop **out)
{
    struct loop *loop = mem_new(1, sizeof(*loop));

    if (loop == NULL) {
        return ERR_NO_MEMORY;
    }
    loop->ev = ev_loop_new(EVFLAG_NOENV | EVBACKEND_EPOLL);
    if (loop->ev == NULL) {
        goto fail;
    }
    loop->alarm_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (loop->alarm_fd < 0) {
        goto fail_after_ev;
    }
    heap_init(&loop->timers);
    list_init(&loop->tasks);
    list_init(&loop->hooks);
    list_init(&loop->first_hooks);
    loop->armed_us = BOOT_NEVER;
    start_watchers(loop);
    (void)loop_sample_us(loop);
    *out = loop;
    return 0;

fail_after_ev:
    ev_loop_destroy(loop->ev);
fail:
    mem_free(loop);
    return ERR_IO;
}

void loop_close(struct loop *loop)
{
    REQUIRE(heap_count(&loop->timers) == 0);
    REQUIRE(list_is_empty(&loop->tasks));
    REQUIRE(list_is_empty(&loop->hooks) && list_is_empty(&loop->first_hooks));
    ev_io_stop(loop->ev, &loop->alarm);
    ev_idle_stop(loop->ev, &loop->no_sleep);
    ev_prepare_stop(loop->ev, &loop->before_poll);
    ev_check_stop(loop->ev, &loop->after_fds);
    ev_check_stop(loop->ev, &loop->after_poll);
    ev_loop_destroy(loop->ev);
    (void)close(loop->alarm_fd);
    mem_free(loop);
}

void loop_run(struct loop *loop)
{
    (void)ev_run(loop->ev, 0);
}

void loop_turn(struct loop *loop, bool wait)
{
    loop->is_single = true;
    (void)ev_run(loop->ev, wait ? EVRUN_ONCE : EVRUN_NOWAIT);
    loop->is_single = false;
}

void loop_stop(struct loop *loop)
{
    ev_break(loop->ev, EVBREAK_ALL);
}

boot_us loop_now_us(const struct loop *loop)
{
    return loop->now_us;
}

boot_us loop_sample_us(struct loop *loop)
{
    loop->now_us = clock_boot_us();
    return loop->now_us;
}

uint8_t *loop_scratch(struct loop *loop)
{
    return loop->scratch;
}

uint64_t loop_turn_count(const struct loop *loop)
{
    return atomic_load_explicit(&loop->turn_count, memory_order_relaxed);
}

/* ---- descriptors ---- */

static void on_fd(struct ev_loop *ev, ev_io *io, int events)
{
    struct loop_fd *watcher = io->data;
    unsigned ready = 0;

    (void)ev;
    ready |= (events & EV_READ) != 0 ? LOOP_READ : 0;
    ready |= (events & EV_WRITE) != 0 ? LOOP_WRITE : 0;
    ready &= watcher->interest;
    if (ready != 0) {
        watcher->cb(watcher, ready, watcher->ctx);
    }
}

int loop_fd_init(struct loop_fd *watcher, struct loop *loop, int fd, loop_fd_cb cb, void *ctx)
{
    ev_io *io = mem_new(1, sizeof(*io));

    if (io == NULL) {
        return ERR_NO_MEMORY;
    }
    ev_io_init(io, on_fd, fd, 0);
    io->data = watcher;
    *watcher = (struct loop_fd){
        .loop = loop, .cb = cb, .ctx = ctx, .fd = fd, .interest = 0, .watcher = io};
    return 0;
}

void loop_fd_set(struct loop_fd *watcher, unsigned interest)
{
    ev_io *io = watcher->watcher;
    int events = 0;

    if (interest == watcher->interest) {
        return;
    }
    watcher->interest = interest;
    ev_io_stop(watcher->loop->ev, io);
    if (interest == 0) {
        return;
    }
    events |= (interest & LOOP_READ) != 0 ? EV_READ : 0;
    events |= (interest & LOOP_WRITE) != 0 ? EV_WRITE : 0;
    ev_io_set(io, watcher->fd, events);
    ev_io_start(watcher->loop->ev, io);
}

void loop_fd_fini(struct loop_fd *watcher)
{
    if (watcher->watcher == NULL) {
        return;
    }
    loop_fd_set(watcher, 0);
    mem_free(watcher->watcher);
    watcher->watcher = NULL;
}

/* ---- posted tasks and hooks ---- */

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
    }
}

void loop_unpost(struct loop_task *task)
{
    list_del(&task->node);
}

void loop_hook_add(struct loop *loop, struct loop_hook *hook, loop_hook_cb cb, void *ctx)
{
    list_init(&hook->node);
    hook->cb = cb;
    hook->ctx = ctx;
    list_add(&loop->hooks, &hook->node);
}

void loop_hook_add_first(struct loop *loop, struct loop_hook *hook, loop_hook_cb cb, void *ctx)
{
    list_init(&hook->node);
    hook->cb = cb;
    hook->ctx = ctx;
    list_add(&loop->first_hooks, &hook->node);
}

void loop_hook_del(struct loop_hook *hook)
{
    list_del(&hook->node);
}

/* ---- wake-ups and signals ---- */

static void on_wake(struct ev_loop *ev, ev_async *async, int events)
{
    struct loop_waker *waker = async->data;

    (void)ev;
    (void)events;
    waker->cb(waker->ctx);
}

int loop_waker_open(struct loop *loop, loop_task_cb cb, void *ctx, struct loop_waker **out)
{
    struct loop_waker *waker = mem_new(1, sizeof(*waker));

    if (waker == NULL) {
        return ERR_NO_MEMORY;
    }
    waker->loop = loop;
    waker->cb = cb;
    waker->ctx = ctx;
    ev_async_init(&waker->async, on_wake);
    waker->async.data = waker;
    ev_async_start(loop->ev, &waker->async);
    *out = waker;
    return 0;
}

void loop_waker_wake(struct loop_waker *waker)
{
    ev_async_send(waker->loop->ev, &waker->async);
}

void loop_waker_close(struct loop_waker *waker)
{
    ev_async_stop(waker->loop->ev, &waker->async);
    mem_free(waker);
}

static void on_signal(struct ev_loop *ev, ev_signal *signal, int events)
{
    struct loop_signal *watcher = signal->data;

    (void)ev;
    (void)events;
    watcher->cb(signal->signum, watcher->ctx);
}

int loop_signal_open(struct loop *loop, int signal_number, loop_signal_cb cb, void *ctx,
                     struct loop_signal **out)
{
    struct loop_signal *watcher = mem_new(1, sizeof(*watcher));

    if (watcher == NULL) {
        return ERR_NO_MEMORY;
    }
    watcher->loop = loop;
    watcher->cb = cb;
    watcher->ctx = ctx;
    ev_signal_init(&watcher->signal, on_signal, signal_number);
    watcher->signal.data = watcher;
    ev_signal_start(loop->ev, &watcher->signal);
    *out = watcher;
    return 0;
}

void loop_signal_close(struct loop_signal *watcher)
{
    ev_signal_stop(watcher->loop->ev, &watcher->signal);
    mem_free(watcher);
}
