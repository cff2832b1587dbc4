/* SPDX-License-Identifier: Apache-2.0
 *
 * The watchdog. It asks no clock how long the loop has been silent, it counts how often it woke up
 * itself meanwhile.
 */
#include "lib/io/watchdog.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Time for a core to be written before the process is killed without one. */
#define CORE_S 10

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

struct watchdog {
    struct loop *loop;
    struct loop_waker *waker;
    span_ms period_ms; /* between two wake-ups */
    watchdog_cb on_stuck;
    void *ctx;
    pthread_t thread;
    pthread_mutex_t lock; /* guards is_ended */
    pthread_cond_t ended;
    bool is_ended;
};

/* A turn has been made: that is all. */
static void on_wake(void *ctx)
{
    (void)ctx;
}

/* No log, no allocation: the loop may hold their locks. */
static void end_process(void)
{
    static const char text[] = "foliot: the event loop has not turned for a session timeout: "
                               "ending the process so that its shards move\n";

    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    (void)kill(getpid(), SIGABRT);
    (void)nanosleep(&(struct timespec){.tv_sec = CORE_S}, NULL);
    (void)kill(getpid(), SIGKILL);
}

/* True: the watchdog is being closed. False: a period has passed. */
static bool wait_period(struct watchdog *watchdog)
{
    struct timespec until;
    int64_t ns;
    int err = 0;
    bool is_ended;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    ns = until.tv_nsec + watchdog->period_ms % MS_PER_S * NS_PER_MS;
    until.tv_sec += watchdog->period_ms / MS_PER_S + ns / NS_PER_S;
    until.tv_nsec = ns % NS_PER_S;
    REQUIRE(pthread_mutex_lock(&watchdog->lock) == 0);
    while (!watchdog->is_ended && err == 0) {
        err = pthread_cond_timedwait(&watchdog->ended, &watchdog->lock, &until);
    }
    is_ended = watchdog->is_ended;
    REQUIRE(pthread_mutex_unlock(&watchdog->lock) == 0);
    return is_ended;
}

static void *watch(void *ctx)
{
    struct watchdog *watchdog = ctx;
    uint64_t seen = loop_turn_count(watchdog->loop);
    int silent_count = 0;

    while (!wait_period(watchdog)) {
        uint64_t now = loop_turn_count(watchdog->loop);

        silent_count = now == seen ? silent_count + 1 : 0;
        seen = now;
        if (silent_count > WATCHDOG_WAKE_COUNT) { // The first one only asked for a turn.
            silent_count = 0;
            watchdog->on_stuck == NULL ? end_process() : watchdog->on_stuck(watchdog->ctx);
        }
        if (silent_count > 0) {
            loop_waker_wake(watchdog->waker); // An idle loop is no stuck loop.
        }
    }
    return NULL;
}

/* Signals are for the loop's thread: the new thread inherits a full mask. */
static int start(struct watchdog *watchdog)
{
    sigset_t all;
    sigset_t kept;
    int err;

    (void)sigfillset(&all);
    (void)sigdelset(&all, SIGABRT);
    REQUIRE(pthread_sigmask(SIG_SETMASK, &all, &kept) == 0);
    err = pthread_create(&watchdog->thread, NULL, watch, watchdog);
    REQUIRE(pthread_sigmask(SIG_SETMASK, &kept, NULL) == 0);
    return err == 0 ? 0 : ERR_IO;
}

static void init_ended(struct watchdog *watchdog)
{
    pthread_condattr_t attributes;

    REQUIRE(pthread_condattr_init(&attributes) == 0);
    REQUIRE(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    REQUIRE(pthread_cond_init(&watchdog->ended, &attributes) == 0);
    REQUIRE(pthread_condattr_destroy(&attributes) == 0);
    REQUIRE(pthread_mutex_init(&watchdog->lock, NULL) == 0);
}

static void watchdog_free(struct watchdog *watchdog)
{
    loop_waker_close(watchdog->waker);
    REQUIRE(pthread_mutex_destroy(&watchdog->lock) == 0);
    REQUIRE(pthread_cond_destroy(&watchdog->ended) == 0);
    mem_free(watchdog);
}

int watchdog_open(struct loop *loop, span_ms limit_ms, watchdog_cb on_stuck, void *ctx,
                  struct watchdog **out)
{
    struct watchdog *watchdog = mem_new(1, sizeof(*watchdog));
    int err;

    REQUIRE(limit_ms >= WATCHDOG_WAKE_COUNT);
    if (watchdog == NULL) {
        return ERR_NO_MEMORY;
    }
    watchdog->loop = loop;
    watchdog->period_ms = limit_ms / WATCHDOG_WAKE_COUNT;
    watchdog->on_stuck = on_stuck;
    watchdog->ctx = ctx;
    err = loop_waker_open(loop, on_wake, watchdog, &watchdog->waker);
    if (err != 0) {
        mem_free(watchdog);
        return err;
    }
    init_ended(watchdog);
    err = start(watchdog);
    if (err != 0) {
        watchdog_free(watchdog);
        return err;
    }
    *out = watchdog;
    return 0;
}

void watchdog_close(struct watchdog *watchdog)
{
    REQUIRE(pthread_mutex_lock(&watchdog->lock) == 0);
    watchdog->is_ended = true;
    REQUIRE(pthread_cond_signal(&watchdog->ended) == 0);
    REQUIRE(pthread_mutex_unlock(&watchdog->lock) == 0);
    REQUIRE(pthread_join(watchdog->thread, NULL) == 0);
    watchdog_free(watchdog);
}
