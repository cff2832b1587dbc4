/* SPDX-License-Identifier: Apache-2.0
 *
 * One read of home at a time.
 */
#include "broker/queue_sync.h"

#include "lib/base/beat.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"

/* Home is read once in so many beats without any nudge: one may have been lost. */
#define POLL_BEATS 4

/* And this soon after a read that failed. */
#define RETRY_MS 500

/*
 * 1. reading: `list` is with the store, and `served` waits for it.
 * 2. `asked` waits for the read after that.
 */
struct queue_sync {
    struct queue_sync_options options;
    struct store_queue_list list;
    struct list asked;  /* struct queue_wait */
    struct list served; /* struct queue_wait */
    struct loop_timer poll;
    struct loop_task start;
    int64_t version;         /* last heard of */
    int64_t version_at_read; /* when the read under way began: what it is sure to show */
    bool is_reading;
    bool is_stopped;
    bool is_ready;
};

static void end_waits(struct queue_sync *sync, int err)
{
    struct list ended;
    struct list *node;

    list_init(&ended);
    list_move_all(&ended, &sync->served);
    while ((node = list_take_first(&ended)) != NULL) {
        struct queue_wait *wait = LIST_ENTRY(node, struct queue_wait, link);

        wait->cb(wait, err);
    }
}

static void read_home(struct queue_sync *sync)
{
    int err;

    if (sync->is_reading || sync->is_stopped) {
        return;
    }
    list_move_all(&sync->served, &sync->asked);
    sync->version_at_read = sync->version;
    err = sync->options.store->queue_list(sync->options.store, &sync->list);
    if (err == 0) {
        sync->is_reading = true;
        return;
    }
    loop_timer_start_in(&sync->poll, RETRY_MS);
    end_waits(sync, ERR_UNAVAILABLE);
}

static void on_list(struct store_queue_list *list)
{
    struct queue_sync *sync = list->owner;

    sync->is_reading = false;
    if (list->result == 0) {
        broker_on_queues(sync->options.broker, sync->options.now, list->rows, list->row_count,
                         sync->version_at_read);
        sync->is_ready = true;
    }
    if (list->result == 0) {
        loop_timer_start(&sync->poll, beat_after(loop_now_us(sync->options.loop),
                                                 POLL_BEATS * sync->options.beat_us));
    } else {
        loop_timer_start_in(&sync->poll, RETRY_MS);
    }
    end_waits(sync, list->result == 0 ? 0 : ERR_UNAVAILABLE);
    if (!list_is_empty(&sync->asked) || sync->version != sync->version_at_read) {
        loop_post(sync->options.loop, &sync->start);
    }
}

static void on_poll(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    read_home(ctx);
}

static void on_start(void *ctx)
{
    read_home(ctx);
}

int queue_sync_open(const struct queue_sync_options *options, struct queue_sync **out)
{
    struct queue_sync *sync = mem_new(1, sizeof(*sync));

    if (sync == NULL) {
        return ERR_NO_MEMORY;
    }
    sync->options = *options;
    list_init(&sync->asked);
    list_init(&sync->served);
    sync->list.cb = on_list;
    sync->list.owner = sync;
    loop_timer_init(&sync->poll, options->loop, on_poll, sync);
    loop_task_init(&sync->start, on_start, sync);
    loop_post(options->loop, &sync->start);
    *out = sync;
    return 0;
}

void queue_sync_on_config(struct queue_sync *sync, int64_t version)
{
    sync->version = version;
    loop_post(sync->options.loop, &sync->start);
}

void queue_sync_refresh(struct queue_sync *sync, struct queue_wait *wait)
{
    list_init(&wait->link);
    list_add(&sync->asked, &wait->link);
    loop_post(sync->options.loop, &sync->start);
}

void queue_sync_stop(struct queue_sync *sync)
{
    sync->is_stopped = true;
}

bool queue_sync_is_ready(const struct queue_sync *sync)
{
    return sync->is_ready;
}

void queue_sync_close(struct queue_sync *sync)
{
    REQUIRE(!sync->is_reading);
    end_waits(sync, ERR_UNAVAILABLE);
    list_move_all(&sync->served, &sync->asked);
    end_waits(sync, ERR_UNAVAILABLE);
    loop_timer_stop(&sync->poll);
    loop_unpost(&sync->start);
    mem_free(sync);
}
