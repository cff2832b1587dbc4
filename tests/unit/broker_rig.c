/* SPDX-License-Identifier: Apache-2.0
 *
 * One broker and what stands around it.
 */
#include "tests/unit/broker_rig.h"

#include "lib/base/check.h"

#include <string.h>

uint32_t rig_entry_count_max = 10000;
span_ms rig_audit_ms = 0;
span_ms rig_window_ms = 60000;
uint32_t rig_database_count = 1;
uint32_t rig_waiting_op_max = 0;
uint32_t rig_stream_count = 1;
uint32_t rig_split_op_min = 0;
int64_t rig_settle_wait_us = 0;
int64_t rig_claim_wait_us = 0;
span_ms rig_apart_ms = 0;

static int rig_submit(struct coord *coord, struct coord_request *request)
{
    struct rig *rig = CONTAINER_OF(coord, struct rig, coord);

    list_add(&rig->requests, &request->link);
    return 0;
}

static int rig_start(struct outbound *outbound, struct attempt *attempt)
{
    struct rig *rig = CONTAINER_OF(outbound, struct rig, outbound);

    REQUIRE(rig->seen_count < ATTEMPTS_MAX);
    if (rig->is_full) {
        rig->refusals++;
        return ERR_FULL;
    }
    rig->running[rig->seen_count] = attempt;
    rig->seen[rig->seen_count] = *attempt;
    rig->seen_at[rig->seen_count] = ms_floor(rig->now.database[0].lower_us);
    rig->seen_count++;
    return 0;
}

static void rig_report(struct outbound *outbound, const struct report *report)
{
    struct rig *rig = CONTAINER_OF(outbound, struct rig, outbound);

    if (rig->on_report != NULL) {
        rig->on_report(rig, report);
    } else {
        cr_assert_eq(report->outcome, OUTCOME_DONE);
    }
    rig->reports++;
}

/* Note a request, so that its callback is seen when it enters the core. */
static struct rig_passage *pass(struct rig *rig, void *request, void *owner)
{
    for (size_t i = 0; i < PASSAGES_MAX; i++) {
        struct rig_passage *passage = &rig->passages[rig->passage_next++ % PASSAGES_MAX];

        if (passage->request == NULL) {
            passage->request = request;
            passage->owner = owner;
            passage->rig = rig;
            return passage;
        }
    }
    check_fail("a free passage", __FILE__, __LINE__);
}

static void on_batch(struct store_batch *batch)
{
    struct rig_passage passage = *(struct rig_passage *)batch->owner;

    memset(batch->owner, 0, sizeof(passage));
    batch->owner = passage.owner;
    passage.rig->writes--;
    passage.rig->in_core = true;
    passage.cb.batch(batch);
    passage.rig->in_core = false;
}

static void on_read(struct store_read *read)
{
    struct rig_passage passage = *(struct rig_passage *)read->owner;

    memset(read->owner, 0, sizeof(passage));
    read->owner = passage.owner;
    passage.rig->in_core = true;
    passage.cb.read(read);
    passage.rig->in_core = false;
}

static void on_bump(struct store_bump *bump)
{
    struct rig_passage passage = *(struct rig_passage *)bump->owner;

    memset(bump->owner, 0, sizeof(passage));
    bump->owner = passage.owner;
    passage.rig->in_core = true;
    passage.cb.bump(bump);
    passage.rig->in_core = false;
}

static int door_write(struct store *store, struct store_batch *batch)
{
    struct rig *rig = CONTAINER_OF(store, struct rig, door);
    struct rig_passage *passage = pass(rig, batch, batch->owner);
    int err;

    passage->cb.batch = batch->cb;
    if (rig->on_write != NULL) {
        rig->on_write(rig, batch);
    }
    rig->writes++;
    batch->cb = on_batch;
    batch->owner = passage;
    rig->in_core = false;
    err = rig->store->write(rig->store, batch);
    rig->in_core = true;
    if (err != 0) {
        rig->writes--;
        memset(passage, 0, sizeof(*passage));
    }
    return err;
}

static int door_read(struct store *store, struct store_read *read)
{
    struct rig *rig = CONTAINER_OF(store, struct rig, door);
    struct rig_passage *passage;
    int err;

    if (read == rig->refused) {
        return ERR_NO_MEMORY;
    }
    passage = pass(rig, read, read->owner);
    passage->cb.read = read->cb;
    rig->rows_read = read->kind == STORE_READ_TASKS ? read : rig->rows_read;
    read->cb = on_read;
    read->owner = passage;
    rig->in_core = false;
    err = rig->store->read(rig->store, read);
    rig->in_core = true;
    if (err != 0) {
        memset(passage, 0, sizeof(*passage));
    }
    return err;
}

static int door_bump(struct store *store, struct store_bump *bump)
{
    struct rig *rig = CONTAINER_OF(store, struct rig, door);
    struct rig_passage *passage = pass(rig, bump, bump->owner);
    int err;

    passage->cb.bump = bump->cb;
    bump->cb = on_bump;
    bump->owner = passage;
    rig->in_core = false;
    err = rig->store->bump(rig->store, bump);
    rig->in_core = true;
    if (err != 0) {
        memset(passage, 0, sizeof(*passage));
    }
    return err;
}

/* Everything that the store has, but for the request that is held. */
static void run_store(struct rig *rig)
{
    size_t i = 0;

    while (i < store_mem_pending_count(rig->mem)) {
        struct store_mem_request *request = store_mem_pending(rig->mem, i);
        bool is_held = rig->held != NULL && request == store_mem_find(rig->mem, rig->held);

        i = is_held || store_mem_step(rig->mem, request) == STORE_MEM_WAITS ? i + 1 : 0;
    }
}

static void tick(struct rig *rig)
{
    rig->in_core = true;
    broker_tick(rig->broker, &rig->now);
    rig->in_core = false;
}

void rig_call(struct rig *rig, struct call *call)
{
    rig->in_core = true;
    broker_call(rig->broker, &rig->now, call);
    rig->in_core = false;
}

void rig_set_time(struct rig *rig, wall_ms ms)
{
    rig->now.boot = (ms - START_MS + 1000) * US_PER_MS;
    rig->now.database[0] = (struct clock_bounds){ms * US_PER_MS, ms * US_PER_MS + 200,
                                                 (ms - rig->held_ms) * US_PER_MS};
    store_mem_set_clock(rig->mem, 0, ms * US_PER_MS);
    for (uint32_t i = 1; i < rig_database_count; i++) {
        int64_t us = (ms + rig_apart_ms) * US_PER_MS;

        rig->now.database[i] = (struct clock_bounds){us, us + 200, us};
        store_mem_set_clock(rig->mem, i, us);
    }
    broker_set_now(rig->broker, &rig->now);
}

wall_ms rig_time(const struct rig *rig)
{
    return ms_floor(rig->now.database[0].lower_us);
}

/* One turn: replies, one tick. */
void rig_turn(struct rig *rig)
{
    struct list requests;

    list_init(&requests);
    list_move_all(&requests, &rig->requests);
    for (struct list *link; (link = list_take_first(&requests)) != NULL;) {
        struct coord_request *request = CONTAINER_OF(link, struct coord_request, link);

        request->result = 0;
        if (request->kind == COORD_ACQUIRE) {
            request->generation = ++rig->generation;
        }
        rig->in_core = true;
        request->cb(request);
        rig->in_core = false;
    }
    run_store(rig);
    tick(rig);
}

/* Turn until `span` has passed, a millisecond a turn. */
void rig_pass(struct rig *rig, span_ms span)
{
    for (wall_ms end = rig_time(rig) + span; rig_time(rig) < end;) {
        rig_set_time(rig, rig_time(rig) + 1);
        rig_turn(rig);
    }
}

void rig_turn_unread(struct rig *rig)
{
    size_t hanging = 0;

    while (hanging < store_mem_pending_count(rig->mem)) {
        struct store_mem_request *request = store_mem_pending(rig->mem, hanging);
        struct store_mem_info info;

        store_mem_info(request, &info);
        if (info.kind == STORE_MEM_READ) {
            hanging++;
        } else {
            (void)store_mem_step(rig->mem, request);
        }
    }
    broker_tick(rig->broker, &rig->now);
}

void rig_lose_shards(struct rig *rig)
{
    broker_on_session(rig->broker, &rig->now, COORD_LOST);
    cr_assert_eq(rig_entries(rig), 0);
    broker_on_session(rig->broker, &rig->now, COORD_NEW);
}

int rig_build(struct rig *rig)
{
    struct broker_options options = {.database_count = rig_database_count,
                                     .writer = 7,
                                     .session_timeout_ms = 4000,
                                     .entry_count_max = rig_entry_count_max,
                                     .window_ms = rig_window_ms,
                                     .audit_ms = rig_audit_ms,
                                     .waiting_op_max = rig_waiting_op_max,
                                     .split_op_min = rig_split_op_min,
                                     .settle_wait_us = rig_settle_wait_us,
                                     .claim_wait_us = rig_claim_wait_us};
    struct store_mem_options mem_options = {.shard_count = SHARDS,
                                            .database_count = rig_database_count,
                                            .database_of = options.cluster.database_of};
    struct store_mem_client_options client = {0};
    struct broker_env env = {.seed = 1};
    int err;

    memset(rig, 0, sizeof(*rig));
    for (uint32_t i = 0; i < SHARDS; i++) {
        options.cluster.database_of[i] = (uint8_t)(i % rig_database_count);
    }
    rig->mem = store_mem_new(&mem_options);
    rig->store = store_mem_client(rig->mem, &client);
    rig->door = (struct store){.stream_count = rig_stream_count,
                               .write = door_write,
                               .read = door_read,
                               .bump = door_bump};
    rig->coord.submit = rig_submit;
    rig->outbound.start = rig_start;
    rig->outbound.report = rig_report;
    list_init(&rig->requests);
    env.coord = &rig->coord;
    env.store = &rig->door;
    env.outbound = &rig->outbound;
    options.cluster.shard_count = SHARDS;
    memcpy(options.self.name, "one", 4);
    memcpy(options.self.instance, "0000000000000001", 17);
    rig->self = options.self;
    rig->in_core = true;
    err = broker_new(&env, &options, &rig->broker);
    rig->in_core = false;
    return err;
}

struct queue rig_queue(uint32_t number, uint32_t concurrency)
{
    struct queue queue;

    queue_init(&queue);
    queue.id = number;
    queue.concurrency_max = concurrency;
    queue.attempt_timeout_ms = 1000000;
    queue.retry.jitter_permille = 0;
    return queue;
}

void rig_queues(struct rig *rig)
{
    struct queue queue;

    queue_init(&queue);
    queue.id = 1;
    queue.retry.jitter_permille = 0;
    rig->in_core = true;
    broker_on_queues(rig->broker, &rig->now, &queue, 1, 1);
    rig->in_core = false;
}

void rig_begin(struct rig *rig)
{
    for (size_t i = 1; i < DATABASE_COUNT_MAX; i++) {
        rig->now.database[i] = (struct clock_bounds){INT64_MIN, INT64_MAX, INT64_MIN};
    }
    rig_set_time(rig, START_MS);
    rig_queues(rig);
    rig->in_core = true;
    broker_on_session(rig->broker, &rig->now, COORD_NEW);
    broker_on_members(rig->broker, &rig->now, &rig->self, 1);
    rig->in_core = false;
    rig_pass(rig, 20);
}

void rig_open(struct rig *rig)
{
    cr_assert_eq(rig_build(rig), 0);
    rig_begin(rig);
}

void rig_close(struct rig *rig)
{
    store_mem_crash(rig->mem, rig->store);
    if (rig->broker != NULL) {
        broker_free(rig->broker);
    }
    store_mem_free(rig->mem);
}

static void on_answer(struct call *call)
{
    ((struct rig *)call->owner)->answered++;
}

struct call rig_create(struct rig *rig, uint16_t slot, wall_ms due_ms)
{
    struct call call = {.kind = CALL_CREATE, .cb = on_answer, .owner = rig};

    call.task.queue = 1;
    call.task.due_ms = due_ms;
    call.task.id.slot = slot;
    call.task.payload = slice_of("payload");
    call.shard = shard_of_slot(slot, SHARDS);
    return call;
}

/* Make a call and turn until it is answered. */
void rig_ask(struct rig *rig, struct call *call)
{
    size_t before = rig->answered;

    rig_call(rig, call);
    for (int i = 0; i < 100 && rig->answered == before; i++) {
        rig_turn(rig);
    }
    cr_assert_eq(rig->answered, before + 1, "the call is answered once");
}

struct call rig_by_id(struct rig *rig, enum call_kind kind, struct task_id id)
{
    struct call call = {.kind = kind, .cb = on_answer, .owner = rig, .task.id = id};

    call.task.queue = 1;
    call.shard = shard_of_slot(id.slot, SHARDS);
    return call;
}

void rig_end(struct rig *rig, size_t index, enum outcome outcome)
{
    rig->running[index]->outcome = outcome;
    rig->in_core = true;
    broker_on_outcome(rig->broker, &rig->now, rig->running[index]);
    rig->in_core = false;
}

uint32_t rig_entries(const struct rig *rig)
{
    struct broker_stats stats;

    broker_inspect(rig->broker, &stats);
    return stats.entries;
}

struct store_mem_request *rig_write(const struct rig *rig)
{
    for (size_t i = 0; i < store_mem_pending_count(rig->mem); i++) {
        struct store_mem_request *request = store_mem_pending(rig->mem, i);
        struct store_mem_info info;

        store_mem_info(request, &info);
        if (info.kind == STORE_MEM_WRITE && !info.orphan) {
            return request;
        }
    }
    return NULL;
}

void rig_bump(struct rig *rig, uint16_t slot)
{
    struct call call = rig_create(rig, slot, rig_time(rig) + 7200000);
    size_t before = rig->answered;
    struct shard_view old;
    struct shard_view new;

    broker_inspect_shard(rig->broker, call.shard, &old);
    rig_call(rig, &call);
    tick(rig);
    store_mem_give_up(rig->mem, rig_write(rig));
    for (int i = 0; i < 100 && rig->answered == before; i++) {
        rig_turn(rig);
    }
    broker_inspect_shard(rig->broker, call.shard, &new);
    cr_assert_eq(new.epoch, old.epoch + 1);
}
