/* SPDX-License-Identifier: Apache-2.0
 *
 * What the event loop promises.
 */
#include "lib/base/err.h"
#include "lib/io/clock.h"
#include "lib/io/loop.h"

#include <criterion/criterion.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <unistd.h>

struct record {
    struct loop *loop;
    char order[64];
    size_t len;
    boot_us at_us;
    int left; /* events until the loop stops */
};

static void note(struct record *record, char what)
{
    record->order[record->len++] = what;
    if (--record->left == 0) {
        loop_stop(record->loop);
    }
}

static struct loop *open_loop(void)
{
    struct loop *loop = NULL;

    cr_assert_eq(loop_open(&loop), 0);
    return loop;
}

struct named_timer {
    struct loop_timer timer;
    struct record *record;
    char name;
};

static void on_named(struct loop_timer *timer, void *ctx)
{
    struct named_timer *named = ctx;

    cr_assert_eq(timer, &named->timer);
    named->record->at_us = loop_now_us(named->record->loop);
    note(named->record, named->name);
}

static void start_named(struct named_timer *named, struct record *record, char name, boot_us due_us)
{
    named->record = record;
    named->name = name;
    loop_timer_init(&named->timer, record->loop, on_named, named);
    loop_timer_start(&named->timer, due_us);
}

Test(loop, timers_run_in_order_of_due_time_then_of_start)
{
    struct record record = {.loop = open_loop(), .left = 4};
    struct named_timer timers[5];
    boot_us now_us = loop_now_us(record.loop);

    start_named(&timers[0], &record, 'c', now_us + 3000);
    start_named(&timers[1], &record, 'a', now_us + 1000);
    start_named(&timers[2], &record, 'b', now_us + 1000);
    start_named(&timers[3], &record, 'x', now_us + 2000);
    start_named(&timers[4], &record, 'd', now_us + 9000);
    loop_timer_stop(&timers[3].timer);
    loop_timer_start(&timers[4].timer, now_us + 4000);
    loop_run(record.loop);
    cr_assert_str_eq(record.order, "abcd");
    loop_close(record.loop);
}

Test(loop, timers_are_never_early_and_not_rounded_to_milliseconds)
{
    struct record record = {.loop = open_loop()};
    struct named_timer timer;
    int64_t best_us = INT64_MAX;

    for (int i = 0; i < 40; i++) {
        boot_us due_us = loop_sample_us(record.loop) + 1300;

        record.left = 1;
        record.len = 0;
        start_named(&timer, &record, 't', due_us);
        loop_run(record.loop);
        cr_assert_geq(record.at_us, due_us);
        best_us = time_min(best_us, record.at_us - due_us);
    }
    cr_assert_lt(best_us, 500, "best lateness %ld us", (long)best_us);
    loop_close(record.loop);
}

Test(loop, a_timer_far_away_or_in_the_past_does_no_harm)
{
    struct record record = {.loop = open_loop(), .left = 2};
    struct named_timer timers[4];

    start_named(&timers[0], &record, 'z', INT64_MAX - 1);
    start_named(&timers[1], &record, 'a', INT64_MIN);
    start_named(&timers[2], &record, 'b', 0);
    start_named(&timers[3], &record, 'n', BOOT_NEVER);
    cr_assert_not(timers[3].timer.is_started);
    loop_run(record.loop);
    cr_assert_str_eq(record.order, "ab");
    loop_timer_stop(&timers[0].timer);
    loop_close(record.loop);
}

struct poster {
    struct record *record;
    struct loop_task task;
    char name;
    struct poster *next; /* posted by this one's callback */
};

static void on_post(void *ctx)
{
    struct poster *poster = ctx;

    note(poster->record, poster->name);
    if (poster->next != NULL) {
        loop_post(poster->record->loop, &poster->next->task);
    }
}

static void on_hook(void *ctx)
{
    struct record *record = ctx;

    note(record, 'h');
}

Test(loop, posted_tasks_run_once_and_before_the_hooks_of_the_turn)
{
    struct record record = {.loop = open_loop(), .left = 100};
    struct poster second = {.record = &record, .name = 'b'};
    struct poster first = {.record = &record, .name = 'a', .next = &second};
    struct poster taken_back = {.record = &record, .name = 'x'};
    struct loop_hook hook;

    loop_task_init(&first.task, on_post, &first);
    loop_task_init(&second.task, on_post, &second);
    loop_task_init(&taken_back.task, on_post, &taken_back);
    loop_hook_add(record.loop, &hook, on_hook, &record);
    loop_post(record.loop, &first.task);
    loop_post(record.loop, &first.task);
    loop_post(record.loop, &taken_back.task);
    loop_unpost(&taken_back.task);
    cr_assert_eq(record.len, 0);
    loop_turn(record.loop, true); // Must not sleep: a task waits.
    cr_assert_str_eq(record.order, "abh");
    loop_turn(record.loop, false);
    loop_turn(record.loop, false);
    cr_assert_str_eq(record.order, "abhhh");
    loop_hook_del(&hook);
    loop_close(record.loop);
}

static void on_first_hook(void *ctx)
{
    struct record *record = ctx;

    note(record, 'f');
}

Test(loop, first_hooks_run_before_the_timers_of_the_turn)
{
    struct record record = {.loop = open_loop(), .left = 100};
    struct named_timer timer;
    struct loop_hook first;
    struct loop_hook last;

    loop_hook_add(record.loop, &last, on_hook, &record);
    loop_hook_add_first(record.loop, &first, on_first_hook, &record);
    start_named(&timer, &record, 't', 1);
    while (strchr(record.order, 't') == NULL) {
        loop_turn(record.loop, true);
    }
    loop_turn(record.loop, false); // Other hooks run when a turn is done, before the next poll.
    cr_assert_eq(strchr(record.order, 't')[-1], 'f');
    cr_assert_eq(strchr(record.order, 't')[1], 'h');
    loop_hook_del(&first);
    loop_hook_del(&last);
    loop_close(record.loop);
}

struct pipe_end {
    struct loop_fd watcher;
    struct record *record;
};

static void on_pipe(struct loop_fd *watcher, unsigned ready, void *ctx)
{
    struct pipe_end *end = ctx;
    char byte;

    cr_assert_eq(ready, LOOP_READ);
    cr_assert_eq(read(watcher->fd, &byte, 1), 1);
    note(end->record, byte);
    if (byte == 'q') {
        loop_fd_fini(watcher);
    }
}

Test(loop, a_descriptor_is_reported_while_ready_and_wanted)
{
    struct record record = {.loop = open_loop(), .left = 3};
    struct pipe_end end = {.record = &record};
    int fds[2];

    cr_assert_eq(pipe(fds), 0);
    cr_assert_eq(loop_fd_init(&end.watcher, record.loop, fds[0], on_pipe, &end), 0);
    cr_assert_eq(write(fds[1], "abq", 3), 3);
    loop_turn(record.loop, false);
    cr_assert_eq(record.len, 0, "an empty interest reports nothing");
    loop_fd_set(&end.watcher, LOOP_READ);
    loop_run(record.loop);
    cr_assert_str_eq(record.order, "abq");
    loop_fd_fini(&end.watcher);
    (void)close(fds[0]);
    (void)close(fds[1]);
    loop_close(record.loop);
}

/* A pipe that can be read and a timer that is late by at least `late_us`: what runs first. Returns
 * how late it was. */
static int64_t run_both(struct record *record, int64_t late_us)
{
    boot_us due_us = clock_boot_us() - late_us;
    struct pipe_end end = {.record = record};
    struct named_timer timer;
    int fds[2];

    *record = (struct record){.loop = open_loop(), .left = 100};
    cr_assert_eq(pipe(fds), 0);
    cr_assert_eq(loop_fd_init(&end.watcher, record->loop, fds[0], on_pipe, &end), 0);
    loop_fd_set(&end.watcher, LOOP_READ);
    loop_turn(record->loop, false);
    cr_assert_eq(write(fds[1], "q", 1), 1);
    start_named(&timer, record, 't', due_us);
    loop_turn(record->loop, false);
    cr_assert_eq(record->len, 2);
    (void)close(fds[0]);
    (void)close(fds[1]);
    loop_close(record->loop);
    return record->at_us - due_us;
}

Test(loop, timers_come_first_unless_the_loop_was_held_up)
{
    struct record record;

    (void)run_both(&record, LOOP_HELD_UP_US);
    cr_assert_str_eq(record.order, "qt");
    while (run_both(&record, 0) >= LOOP_HELD_UP_US) { // We were held up ourselves.
    }
    cr_assert_str_eq(record.order, "tq");
}

static void on_signal(int signal_number, void *ctx)
{
    struct record *record = ctx;

    cr_assert_eq(signal_number, SIGUSR1);
    note(record, 's');
}

Test(loop, a_signal_arrives_as_an_event)
{
    struct record record = {.loop = open_loop(), .left = 1};
    struct loop_signal *watcher = NULL;

    cr_assert_eq(loop_signal_open(record.loop, SIGUSR1, on_signal, &record, &watcher), 0);
    cr_assert_eq(raise(SIGUSR1), 0);
    loop_run(record.loop);
    cr_assert_str_eq(record.order, "s");
    loop_signal_close(watcher);
    loop_close(record.loop);
}

Test(loop, turns_are_counted_and_the_time_of_a_turn_stands_still)
{
    struct loop *loop = open_loop();
    uint64_t before = loop_turn_count(loop);
    boot_us now_us;

    loop_turn(loop, false);
    now_us = loop_now_us(loop);
    cr_assert_eq(loop_turn_count(loop), before + 1);
    while (clock_boot_us() < now_us + 50) {
    }
    cr_assert_eq(loop_now_us(loop), now_us);
    cr_assert_geq(loop_sample_us(loop), now_us + 50);
    loop_close(loop);
}
