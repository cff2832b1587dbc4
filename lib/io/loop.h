/* SPDX-License-Identifier: Apache-2.0
 *
 * The event loop: file descriptors, timers, posted tasks, wake-ups from other threads, signals, and
 * a hook before each poll. Hides the library below. One thread runs a loop and all that hangs on
 * it; only loop_waker_wake may be called from elsewhere.
 *
 * A turn is: poll, sample the time, first hooks, due timers, descriptors, posted tasks, hooks. When
 * a timer is late by LOOP_HELD_UP_US, descriptors come before the timers: the process stood still,
 * and what has arrived meanwhile has arrived in time, as far as anybody can tell.
 * Callbacks may start, stop and free any watcher, also their own.
 */
#ifndef FOLIOT_LIB_IO_LOOP_H
#define FOLIOT_LIB_IO_LOOP_H

#include "lib/base/attr.h"
#include "lib/base/heap.h"
#include "lib/base/instant.h"
#include "lib/base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;

/* ---- life ---- */

/*
 * Make a loop.
 *
 * errors: ERR_NO_MEMORY; ERR_IO if the kernel gives no poll or timer descriptor.
 */
MUST_USE int loop_open(struct loop **out);

/* Free a stopped loop. shape: every watcher, waker and signal has been finished before. */
void loop_close(struct loop *loop);

/* Turn until loop_stop. */
void loop_run(struct loop *loop);

/*
 * Turn once.
 *
 * shape: wait = true polls until something happens, false only looks.
 * note:  for tests and for programs with their own outer loop.
 */
void loop_turn(struct loop *loop, bool wait);

/* Make loop_run return after this turn. */
void loop_stop(struct loop *loop);

/* The time of this turn: CLOCK_BOOTTIME, sampled when the poll returned. */
boot_us loop_now_us(const struct loop *loop);

/*
 * Sample the time again, for a callback that worked for long.
 *
 * note: returns the new value of loop_now_us.
 */
boot_us loop_sample_us(struct loop *loop);

/* A loop that comes this late to a timer was held up, and reads before it judges time limits. */
#define LOOP_HELD_UP_US (100 * US_PER_MS)

/* Bytes of the region that loop_scratch gives. */
#define LOOP_SCRATCH_BYTES 65536U

/*
 * One region of LOOP_SCRATCH_BYTES for reads and writes, so that idle connections own no buffers.
 *
 * ownership: the caller's until its callback returns; nothing that may use it is called meanwhile.
 */
uint8_t *loop_scratch(struct loop *loop);

/* Turns made so far: the watchdog's sign of life. Any thread may read it. */
uint64_t loop_turn_count(const struct loop *loop);

/* ---- one-shot timers ---- */

struct loop_timer;
typedef void (*loop_timer_cb)(struct loop_timer *timer, void *ctx);

/* Owned by the caller, embedded in the object that waits; must not move while it is started. */
struct loop_timer {
    struct heap_node node; /* in the loop's heap while started; key is the due time, boot_us */
    struct loop *loop;     /* borrowed */
    loop_timer_cb cb;
    void *ctx; /* the owner's */
    bool is_started;
};

/* Prepare a timer; it is not started. */
void loop_timer_init(struct loop_timer *timer, struct loop *loop, loop_timer_cb cb, void *ctx);

/*
 * Start, or move, a timer: its callback runs once, in the first turn whose time is ≥ due_us.
 *
 * shape: due_us in the past runs in the next turn; BOOT_NEVER stops the timer.
 * note:  all timers have the kernel's precision of timers on CLOCK_BOOTTIME, tens of microseconds;
 *        never early by loop_now_us. Two timers due at one time run in the order of their start.
 */
void loop_timer_start(struct loop_timer *timer, boot_us due_us);

/* Start a timer `delay_ms` after the time of this turn. */
void loop_timer_start_in(struct loop_timer *timer, span_ms delay_ms);

/* Stop; harmless if not started. */
void loop_timer_stop(struct loop_timer *timer);

/* ---- file descriptors ---- */

#define LOOP_READ  1U
#define LOOP_WRITE 2U

struct loop_fd;

/* ready: a non-empty set of LOOP_READ and LOOP_WRITE, part of the interest. Level-triggered. */
typedef void (*loop_fd_cb)(struct loop_fd *watcher, unsigned ready, void *ctx);

/* Owned by the caller; must not move between init and fini. */
struct loop_fd {
    struct loop *loop; /* borrowed */
    loop_fd_cb cb;
    void *ctx;         /* the owner's */
    int fd;            /* borrowed: not closed here */
    unsigned interest; /* LOOP_READ | LOOP_WRITE */
    void *watcher;     /* private to loop.c */
};

/*
 * Prepare to watch a descriptor, with an empty interest.
 *
 * errors: ERR_NO_MEMORY.
 */
MUST_USE int loop_fd_init(struct loop_fd *watcher, struct loop *loop, int fd, loop_fd_cb cb,
                          void *ctx);

/* Replace the interest; 0 stops watching. Cheap if unchanged. */
void loop_fd_set(struct loop_fd *watcher, unsigned interest);

/* Stop watching, before the descriptor is closed. Harmless if repeated. */
void loop_fd_fini(struct loop_fd *watcher);

/* ---- posted tasks ---- */

typedef void (*loop_task_cb)(void *ctx);

/* Owned by the caller; must not move while it is posted. */
struct loop_task {
    struct list node; /* in the loop's queue while posted */
    loop_task_cb cb;
    void *ctx; /* the owner's */
};

void loop_task_init(struct loop_task *task, loop_task_cb cb, void *ctx);

/*
 * Run the task's callback once, soon, on this loop but never inside this call.
 *
 * note: in this turn after the events, or in the next one if posted by a hook or at the end of a
 *       chain of tasks; tasks run in the order of posting. Posting a posted task changes nothing.
 *       The callback may free the task.
 */
void loop_post(struct loop *loop, struct loop_task *task);

/* Take a task back; harmless if it is not posted. */
void loop_unpost(struct loop_task *task);

/* ---- hooks before the poll ---- */

typedef void (*loop_hook_cb)(void *ctx);

struct loop_hook {
    struct list node;
    loop_hook_cb cb;
    void *ctx; /* the owner's */
};

/*
 * Call `cb` once in each turn, after all events and posted tasks, just before the loop sleeps.
 *
 * note: hooks run in the order of adding. What a hook starts or posts keeps the loop from
 *       oversleeping. A hook may delete itself, not others.
 */
void loop_hook_add(struct loop *loop, struct loop_hook *hook, loop_hook_cb cb, void *ctx);

/*
 * Call `cb` once in each turn, right after the poll, when the time has been sampled and before any
 * event of the turn. Otherwise as loop_hook_add.
 */
void loop_hook_add_first(struct loop *loop, struct loop_hook *hook, loop_hook_cb cb, void *ctx);

void loop_hook_del(struct loop_hook *hook);

/* ---- wake-ups from other threads ---- */

struct loop_waker;

/* errors: ERR_NO_MEMORY. The callback runs on the loop, once or more after each wake. */
MUST_USE int loop_waker_open(struct loop *loop, loop_task_cb cb, void *ctx,
                             struct loop_waker **out);

/* Make the waker's callback run soon. Any thread, also inside a signal handler; never blocks. */
void loop_waker_wake(struct loop_waker *waker);

/* Free. shape: no thread calls loop_waker_wake any more. */
void loop_waker_close(struct loop_waker *waker);

/* ---- signals ---- */

struct loop_signal;
typedef void (*loop_signal_cb)(int signal_number, void *ctx);

/*
 * Have a signal delivered as an event of this loop, instead of its default effect.
 *
 * shape:  one loop per signal number and process.
 * errors: ERR_NO_MEMORY.
 */
MUST_USE int loop_signal_open(struct loop *loop, int signal_number, loop_signal_cb cb, void *ctx,
                              struct loop_signal **out);

/* Stop and free; the signal has its former effect again. */
void loop_signal_close(struct loop_signal *watcher);

#endif
