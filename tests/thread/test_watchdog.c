/* SPDX-License-Identifier: Apache-2.0
 *
 * The watchdog tells a stuck loop from an idle one and from a stopped process.
 */
#include "lib/io/watchdog.h"

#include "lib/io/loop.h"
#include "tests/lib/must.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIMIT_MS 400

static atomic_int stuck_count;
static atomic_llong stuck_ms;

static void on_stuck(void *ctx)
{
    (void)ctx;
    atomic_store(&stuck_ms, must_now_ms());
    (void)atomic_fetch_add(&stuck_count, 1);
}

static void on_stop(struct loop_timer *timer, void *ctx)
{
    (void)ctx;
    loop_stop(timer->loop);
}

static void nothing(int number)
{
    (void)number;
}

/* Reports about an idle loop. */
static int idle_reports(void)
{
    struct loop *loop;
    struct watchdog *watchdog;
    struct loop_timer stop;

    atomic_store(&stuck_count, 0);
    MUST_OK(loop_open(&loop));
    MUST_OK(watchdog_open(loop, LIMIT_MS, on_stuck, NULL, &watchdog));
    loop_timer_init(&stop, loop, on_stop, NULL);
    loop_timer_start_in(&stop, 4 * LIMIT_MS);
    loop_run(loop);
    watchdog_close(watchdog);
    loop_close(loop);
    return atomic_load(&stuck_count);
}

static void an_idle_loop_is_not_stuck(void)
{
    MUST_LE_ONCE(idle_reports(), 0);
}

/* When a loop that nobody turns is reported. */
static int64_t reported_after_ms(void)
{
    struct loop *loop;
    struct watchdog *watchdog;
    int64_t begin_ms;
    int64_t after_ms;

    atomic_store(&stuck_count, 0);
    MUST_OK(loop_open(&loop));
    loop_turn(loop, false);
    begin_ms = must_now_ms();
    MUST_OK(watchdog_open(loop, LIMIT_MS, on_stuck, NULL, &watchdog));
    MUST_SOON(atomic_load(&stuck_count) > 0, 20 * LIMIT_MS); // Nobody turns it.
    after_ms = atomic_load(&stuck_ms) - begin_ms;
    MUST_LE(LIMIT_MS, after_ms);
    watchdog_close(watchdog);
    loop_close(loop);
    return after_ms;
}

static void a_loop_that_does_not_turn_is_reported_after_the_limit(void)
{
    MUST_LE_ONCE(reported_after_ms(), 3 * LIMIT_MS);
}

/* A child with an idle loop, watched, that goes on until a byte arrives or its parent is gone. */
static pid_t fork_watched(watchdog_cb callback, bool is_turning, int *done)
{
    int ends[2];
    pid_t pid;

    MUST_EQ(pipe(ends), 0);
    pid = fork();
    MUST(pid >= 0);
    if (pid == 0) {
        struct loop *loop;
        struct watchdog *watchdog;
        struct loop_timer stop;
        const struct rlimit no_core = {0, 0};

        MUST_EQ(setrlimit(RLIMIT_CORE, &no_core), 0);
        MUST_OK(loop_open(&loop));
        MUST_OK(watchdog_open(loop, LIMIT_MS, callback, NULL, &watchdog));
        loop_timer_init(&stop, loop, on_stop, NULL);
        MUST_EQ(write(ends[1], "+", 1), 1);
        if (is_turning) {
            loop_timer_start_in(&stop, 6 * LIMIT_MS);
            loop_run(loop);
        } else {
            (void)sleep(60);
        }
        watchdog_close(watchdog);
        loop_close(loop);
        _exit(atomic_load(&stuck_count) == 0 ? 0 : 3);
    }
    (void)close(ends[1]);
    *done = ends[0];
    return pid;
}

static void await_byte(int fd)
{
    char byte;

    MUST_EQ(read(fd, &byte, 1), 1);
}

/* The status of a process that has been stopped, and goes on to its end unless it is reported. */
static int stopped_status(void)
{
    int ready;
    int status;
    pid_t pid = fork_watched(on_stuck, true, &ready);
    const struct timespec pause = {.tv_sec = 4 * LIMIT_MS / 1000,
                                   .tv_nsec = 4 * LIMIT_MS % 1000 * 1000000};

    await_byte(ready);
    for (int i = 0; i < 2; i++) {
        MUST_EQ(kill(pid, SIGSTOP), 0);
        (void)nanosleep(&pause, NULL); // The stop is the event: it must last.
        MUST_EQ(kill(pid, SIGCONT), 0);
    }
    MUST_EQ(waitpid(pid, &status, 0), pid);
    MUST(WIFEXITED(status));
    (void)close(ready);
    return WEXITSTATUS(status);
}

static void a_process_that_was_stopped_and_goes_on_is_not_stuck(void)
{
    MUST_LE_ONCE(stopped_status(), 0);
}

static void a_stuck_process_ends_by_itself(void)
{
    int ready;
    int status;
    pid_t pid = fork_watched(NULL, false, &ready);
    int64_t begin_ms;

    await_byte(ready);
    begin_ms = must_now_ms();
    MUST_EQ(waitpid(pid, &status, 0), pid);
    MUST(WIFSIGNALED(status));
    MUST_EQ(WTERMSIG(status), SIGABRT);
    MUST_LE(must_now_ms() - begin_ms, 5000);
    (void)close(ready);
}

static void a_signal_is_not_taken_by_the_watchdogs_thread(void)
{
    struct loop *loop;
    struct watchdog *watchdog;
    struct sigaction action = {.sa_handler = nothing};
    sigset_t blocked;
    sigset_t pending;

    MUST_OK(loop_open(&loop));
    MUST_OK(watchdog_open(loop, LIMIT_MS, on_stuck, NULL, &watchdog));
    MUST_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    MUST_EQ(sigemptyset(&blocked), 0);
    MUST_EQ(sigaddset(&blocked, SIGUSR1), 0);
    MUST_EQ(sigprocmask(SIG_BLOCK, &blocked, NULL), 0);
    MUST_EQ(kill(getpid(), SIGUSR1), 0);
    MUST_EQ(sigpending(&pending), 0);
    MUST_EQ(sigismember(&pending, SIGUSR1), 1);
    watchdog_close(watchdog);
    loop_close(loop);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(an_idle_loop_is_not_stuck),
        MUST_CASE(a_loop_that_does_not_turn_is_reported_after_the_limit),
        MUST_CASE(a_process_that_was_stopped_and_goes_on_is_not_stuck),
        MUST_CASE(a_stuck_process_ends_by_itself),
        MUST_CASE(a_signal_is_not_taken_by_the_watchdogs_thread),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
