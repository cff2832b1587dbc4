/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads: made up here, asked of an owner, their answers given to the checkers.
 */
#include "tests/sim/sim_reads.h"

#include "broker/core/call.h"
#include "broker/core/inspect.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "tests/sim/check_reads.h"
#include "tests/sim/sim_node.h"

#include <string.h>

/* Rows of a page are at most this many, so that lists have several. */
#define PAGE_MAX 60

/* A list begins anywhere or at the beginning, and is read on for so many pages. */
#define PAGES_MAX 4

struct sim_read {
    struct list link; /* in node.reads while inside a core */
    struct sim_event event;
    struct sim_reads *reads;
    struct sim_node *node;
    struct call call;
    struct store_read scan;
    struct task_id id;
    int64_t begun;
    uint32_t pages; /* read so far */
    bool is_scan;
    bool is_inside;
};

struct sim_reads {
    struct sim *sim;
    struct prng prng;
    struct sim_event next;
    size_t open_count;
    bool is_stopped;
};

static void finish(struct sim_read *read)
{
    mem_free(read);
}

static void carry(struct sim_read *read)
{
    struct sim_reads *reads = read->reads;

    sim_after(reads->sim, &read->event, sim_span(&reads->prng, reads->sim->options.network_us));
}

/* The next page of a list, from where this one has ended. */
static bool read_on(struct sim_read *read)
{
    struct store_read *scan = &read->scan;
    const struct task *last = scan->row_count == 0 ? NULL : &scan->rows[scan->row_count - 1];

    if (scan->kind != STORE_READ_SLICE || !scan->has_more || last == NULL ||
        ++read->pages == PAGES_MAX || read->reads->is_stopped) {
        return false;
    }
    scan->after_bucket = due_bucket(last->due_ms);
    scan->after_seq = last->id.seq;
    carry(read);
    return true;
}

static void check_scan(struct sim_read *read)
{
    struct check *check = read->reads->sim->check;

    switch (read->scan.kind) {
    case STORE_READ_SLICE:
        check_read_page(check, &read->scan, read->begun);
        break;
    case STORE_READ_COUNTS:
        check_read_counts(check, &read->scan, read->begun);
        break;
    case STORE_READ_DEAD:
        check_read_letters(check, &read->scan, read->begun);
        break;
    case STORE_READ_ENDED:
        check_read_results(check, &read->scan, read->begun);
        break;
    case STORE_READ_CLAIMS:
    case STORE_READ_OVERDUE:
    case STORE_READ_TASKS:
    case STORE_READ_EPOCHS:
    case STORE_READ_KEY:
    case STORE_READ_ORDER:
        UNREACHABLE(); // Nobody asks for these.
    }
}

/* The core's callback. */
static void on_answer(struct call *core_call)
{
    struct sim_read *read = CONTAINER_OF(core_call, struct sim_read, call);
    struct sim *sim = read->reads->sim;
    bool was_in_core = sim_enter_world(sim);
    struct task_wait wait;

    list_del(&read->link);
    read->is_inside = false;
    read->reads->open_count--;
    TRACE(&sim->trace, "read", read->node->number, read->call.shard, read->call.kind,
          read->is_scan ? (int64_t)read->scan.kind : 0, read->call.result);
    if (read->call.kind == CALL_PURGE) {
        check_purge_answer(sim->check, &read->call, read->begun);
    } else if (read->call.result == 0 && read->is_scan) {
        check_scan(read);
        if (read_on(read)) {
            sim_leave_world(sim, was_in_core);
            return;
        }
    } else if (read->call.result == 0) {
        broker_explain(read->node->broker, read->call.shard, &read->call.row, &wait);
        check_read_task(sim->check, read->node, &read->call, &wait, read->begun);
    }
    finish(read);
    sim_leave_world(sim, was_in_core);
}

static void on_arrival(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct sim_read *read = CONTAINER_OF(event, struct sim_read, event);
    const char *address = NULL;
    struct now now;

    if (is_dropped || broker_route(read->node->broker, read->call.shard, &address) != ROUTE_SELF) {
        finish(read);
        return;
    }
    read->begun = sim->now;
    read->is_inside = true;
    read->reads->open_count++;
    list_add(&read->node->reads, &read->link);
    if (read->call.kind == CALL_PURGE) {
        check_purge_begin(sim->check, read->call.shard, read->id);
    }
    read->call.scan = read->is_scan ? &read->scan : NULL;
    sim_node_now(read->node, &now);
    sim_enter_core(sim);
    broker_call(read->node->broker, &now, &read->call);
    sim_leave_core(sim);
    sim_node_touch(read->node);
}

static void fill_scan(struct sim_read *read, enum store_read_kind kind)
{
    struct sim_reads *reads = read->reads;
    bool is_one = prng_chance(&reads->prng, 600);

    read->is_scan = true;
    read->call.kind = CALL_SCAN;
    read->scan = (struct store_read){
        .kind = kind,
        .limit = (uint32_t)prng_between(&reads->prng, 1, PAGE_MAX),
        .after_bucket = INT64_MIN,
        .to_bucket = INT64_MAX,
        .queue = (uint32_t)prng_between(&reads->prng, 1, reads->sim->queue_count),
    };
    if (!is_one && kind != STORE_READ_DEAD) {
        read->scan.queue = 0;
    }
    if (kind == STORE_READ_COUNTS) {
        read->scan.limit = store_read_limit_max(kind);
    } else if (kind == STORE_READ_ENDED) {
        read->scan.ids = &read->id;
        read->scan.id_count = 1;
    }
}

/* What this one wants to know. False: there is nothing to be asked. */
static bool fill(struct sim_read *read)
{
    struct sim *sim = read->reads->sim;
    struct prng *prng = &read->reads->prng;
    struct check_known task;
    uint64_t draw = prng_below(prng, 1000);

    read->call.shard = (uint32_t)prng_below(prng, sim->options.shard_count);
    if (draw < 150) {
        fill_scan(read, STORE_READ_SLICE);
    } else if (draw < 300) {
        fill_scan(read, STORE_READ_COUNTS);
    } else if (draw < 450) {
        fill_scan(read, STORE_READ_DEAD);
    } else if (draw < 550) {
        read->call.kind = CALL_PURGE;
        return check_pick_letter(sim->check, prng, &read->call.shard, &read->id);
    } else if (!check_pick(sim->check, prng, &task)) {
        return false;
    } else {
        read->id = task.id;
        read->call.shard = shard_of_slot(task.id.slot, sim->options.shard_count);
        read->call.kind = CALL_GET;
        if (draw < 750) {
            fill_scan(read, STORE_READ_ENDED);
        }
    }
    return true;
}

/* The owner, as the edge finds it; NULL: nobody says that he is. */
static struct sim_node *find_owner(struct sim *sim, uint32_t shard)
{
    for (uint32_t i = 0; i < sim->options.node_count; i++) {
        struct sim_node *node = &sim->nodes[i];
        const char *address = NULL;

        if (node->is_up && !node->is_paused &&
            broker_route(node->broker, shard, &address) == ROUTE_SELF) {
            return node;
        }
    }
    return NULL;
}

static void on_next(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct sim_reads *reads = CONTAINER_OF(event, struct sim_reads, next);
    struct sim_read *read;

    if (is_dropped || reads->is_stopped) {
        return;
    }
    read = sim_need(1, sizeof(*read));
    read->reads = reads;
    list_init(&read->link);
    read->call.cb = on_answer;
    read->node = fill(read) ? find_owner(sim, read->call.shard) : NULL;
    if (read->node == NULL) {
        finish(read);
    } else {
        read->call.task.id = read->id;
        read->event = (struct sim_event){.fire = on_arrival, .host = read->node};
        carry(read);
    }
    sim_after(sim, event, sim_span(&reads->prng, sim->options.read_every_us));
}

void sim_reads_crash(struct sim_reads *reads, struct sim_node *node)
{
    struct list *link;

    while ((link = list_take_first(&node->reads)) != NULL) {
        reads->open_count--;
        finish(CONTAINER_OF(link, struct sim_read, link));
    }
}

size_t sim_reads_open_count(const struct sim_reads *reads)
{
    return reads->open_count;
}

void sim_reads_start(struct sim_reads *reads)
{
    if (reads->sim->options.read_every_us > 0) {
        sim_after(reads->sim, &reads->next, US_PER_S);
    }
}

void sim_reads_stop(struct sim_reads *reads)
{
    reads->is_stopped = true;
    sim_cancel(reads->sim, &reads->next);
}

struct sim_reads *sim_reads_new(struct sim *sim)
{
    struct sim_reads *reads = sim_need(1, sizeof(*reads));

    reads->sim = sim;
    reads->next = (struct sim_event){.fire = on_next};
    prng_init_named(&reads->prng, sim->options.seed, "readers");
    return reads;
}

void sim_reads_free(struct sim_reads *reads)
{
    mem_free(reads);
}
