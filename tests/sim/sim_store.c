/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages, delays and faults of requests to the memory store.
 */
#include "tests/sim/sim_store.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "tests/sim/check.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_link.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_store_reply.h"

/* A broker's own deadline for a request. source: RELIABILITY P-1 */
#define DEADLINE_US (3 * US_PER_S)

/* A bump waits this long for locks before it ends who holds them. source: DESIGN 7 */
#define LOCK_TIMEOUT_US (300 * US_PER_MS)

/* A request that waits for a lock is looked at again after this. */
#define WAIT_US (2 * US_PER_MS)

/* Share of commits that need one more message of the client after they have taken their locks. */
#define CUT_PIPELINE_PERMILLE 200

/* Share of orphans whose transaction the server rolls back. */
#define ABORT_PERMILLE 300

/* What is to be done with a request when its process runs. */
enum deed {
    DEED_NONE = 0,
    DEED_GIVE_UP,
    DEED_REFUSE,
    DEED_GREET /* a new connection is there, before anything is sent on it */
};

/* One door of one process. */
struct door {
    struct list link;
    struct store store; /* the core's */
    struct store *inner;
    struct sim_store *sim_store;
    struct sim_node *node;
    enum sim_store_fate fate;              /* of its next write */
    enum sim_store_fate nth;               /* of the request that is being made */
    int64_t executed;                      /* of the reply that is being delivered */
    uint32_t timeline[DATABASE_COUNT_MAX]; /* of the last connection; 0: there was none */
};

/* A request on its way. */
struct step {
    struct sim_event event;
    struct list link; /* in sim_store.steps */
    struct sim_store *sim_store;
    struct store_mem_request *request;
    struct door *door; /* NULL: an orphan */
    enum store_mem_kind kind;
    uint32_t database;
    int64_t submitted;
    int64_t executed;    /* true time */
    int64_t waits_since; /* 0: it does not */
    enum deed deed;
    bool is_doomed; /* its transaction is rolled back with the connection */
    enum sim_store_fate fate;
    /* the caller's own, put back before its callback */
    void *owner;
    union {
        store_batch_cb batch;
        store_read_cb read;
        store_bump_cb bump;
        store_queue_list_cb list;
    } cb;
};

struct sim_store {
    struct sim *sim;
    struct prng prng;
    struct list doors;
    struct list steps;
    uint32_t down;                         /* bit per database */
    uint32_t timeline[DATABASE_COUNT_MAX]; /* rises with each promotion */
    uint32_t doomed_count;
};

static void set_clocks(struct sim_store *store)
{
    for (uint32_t i = 0; i < store->sim->options.database_count; i++) {
        store_mem_set_clock(store->sim->mem, i, sim_clock(store->sim, i));
    }
}

/* --- replies --- */

static void on_batch(struct store_batch *batch)
{
    struct step *step = batch->owner;

    batch->owner = step->owner;
    batch->cb = step->cb.batch;
    sim_reply_batch(step->door->node, batch);
}

static void on_read(struct store_read *read)
{
    struct step *step = read->owner;

    read->owner = step->owner;
    read->cb = step->cb.read;
    sim_reply_read(step->door->node, &step->sim_store->prng, read);
}

static void on_bump(struct store_bump *bump)
{
    struct step *step = bump->owner;

    bump->owner = step->owner;
    bump->cb = step->cb.bump;
    sim_reply_bump(step->door->node, bump);
}

/* Of wire mode: in message mode the callback is the simulator's own. */
static void on_list(struct store_queue_list *list)
{
    struct step *step = list->owner;

    list->owner = step->owner;
    list->cb = step->cb.list;
    sim_reply_list(step->door->node, list);
}

static void on_clock(void *ctx, uint32_t database, boot_us sent, boot_us received,
                     int64_t database_us)
{
    struct door *door = ctx;
    struct clock_sample sample = {sent, received, database_us};

    sim_clock_heard(door->sim_store->sim, door->node->number, database, door->executed,
                    clock_estimate_add(&door->node->clocks[database], &sample));
}

static boot_us boot_now(void *ctx)
{
    const struct door *door = ctx;

    return sim_node_boot(door->node);
}

/* --- stages --- */

static void step_free(struct step *step)
{
    list_del(&step->link);
    sim_cancel(step->sim_store->sim, &step->event);
    mem_free(step);
}

/* Steps whose request a crash or a termination has taken away. */
static void sweep(struct sim_store *store)
{
    struct store_mem *mem = store->sim->mem;

    list_foreach_safe (link, after, &store->steps) {
        struct step *step = CONTAINER_OF(link, struct step, link);
        bool is_found = false;

        for (size_t i = 0; i < store_mem_pending_count(mem) && !is_found; i++) {
            is_found = store_mem_pending(mem, i) == step->request;
        }
        if (!is_found) {
            step_free(step);
        }
    }
}

static int64_t stage_span(struct sim_store *store)
{
    const struct sim_options *options = &store->sim->options;

    if (!store->sim->is_healed && prng_chance(&store->prng, options->slow_permille)) {
        return prng_between(&store->prng, options->store_us, options->slow_us);
    }
    return sim_span(&store->prng, options->store_us);
}

/* Plan the next look at a request. needs_client: only while its process runs. */
static void plan(struct step *step, int64_t span, bool needs_client)
{
    struct sim_store *store = step->sim_store;

    step->event.host = needs_client ? step->door->node : NULL;
    sim_after(store->sim, &step->event, span);
}

/* The request will travel on the first connection to another server than before. */
static bool is_news(struct step *step)
{
    uint32_t *known = &step->door->timeline[step->database];

    if (*known == 0) {
        *known = step->sim_store->timeline[step->database];
    }
    return *known != step->sim_store->timeline[step->database];
}

/* The client is gone: what is left of the transaction goes on alone. */
static void make_orphan(struct step *step)
{
    struct sim_store *store = step->sim_store;
    int64_t rest_us = store->sim->is_healed ? 0 : store->sim->options.orphan_us;
    bool is_unsent = is_news(step); // No connection to this server was made that it could be on.

    step->door = NULL;
    step->deed = DEED_NONE;
    step->waits_since = 0;
    sim_cancel(store->sim, &step->event);
    step->is_doomed = step->is_doomed || is_unsent;
    if (step->fate == SIM_FATE_FREEZE && !is_unsent) {
        rest_us = 1000 * US_PER_S;
        plan(step, rest_us, false);
        return;
    }
    plan(step, prng_between(&store->prng, 0, rest_us), false);
}

static void give_up(struct step *step)
{
    struct sim_store *store = step->sim_store;
    struct store_mem_info info;
    bool lives_on;

    store_mem_info(step->request, &info);
    lives_on = info.kind != STORE_MEM_READ && info.kind != STORE_MEM_QUEUE_LIST &&
               info.stage != STORE_MEM_ENDED;
    if (!lives_on) {
        struct store_mem_request *request = step->request;

        store_mem_give_up(store->sim->mem, request); // Needs the step's door for the callback.
        step_free(step);
        return;
    }
    store_mem_give_up(store->sim->mem, step->request);
    if (step->is_doomed) {
        store_mem_abort(store->sim->mem, step->request);
        step_free(step);
        return;
    }
    make_orphan(step);
}

static void refuse(struct step *step)
{
    store_mem_refuse(step->sim_store->sim->mem, step->request);
    step_free(step);
}

/* An orphan's next stage, or its end. */
static void step_orphan(struct step *step)
{
    struct sim_store *store = step->sim_store;
    enum store_mem_event event;

    if (step->is_doomed ||
        (prng_chance(&store->prng, ABORT_PERMILLE) && step->fate == SIM_FATE_NONE)) {
        store_mem_abort(store->sim->mem, step->request);
        step_free(step);
        return;
    }
    event = store_mem_step(store->sim->mem, step->request);
    switch (event) {
    case STORE_MEM_GONE:
        step_free(step);
        break;
    case STORE_MEM_TERMINATED:
        plan(step, 0, false);
        sweep(store);
        break;
    case STORE_MEM_WAITS:
        plan(step, WAIT_US, false);
        break;
    case STORE_MEM_MOVED:
        plan(step, stage_span(store), false);
        break;
    }
}

/* Writes that wait for a connection were made by the rows of the server before. */
static void refuse_unsent(const struct step *greeting)
{
    list_foreach (link, &greeting->sim_store->steps) {
        struct step *step = CONTAINER_OF(link, struct step, link);
        struct store_mem_info info;

        store_mem_info(step->request, &info);
        if (step->door == greeting->door && step->database == greeting->database &&
            step->kind == STORE_MEM_WRITE && info.stage == STORE_MEM_SUBMITTED) {
            sim_cancel(step->sim_store->sim, &step->event);
            step->deed = DEED_REFUSE;
            plan(step, 0, true);
        }
    }
}

/* A connection has been made: the core hears first that it leads to another server. */
static void greet(struct step *step)
{
    struct sim_store *store = step->sim_store;
    uint32_t *known = &step->door->timeline[step->database];

    step->deed = DEED_NONE;
    if (*known != store->timeline[step->database]) { // Else another connection was faster.
        struct sim_node *node = step->door->node;
        struct now now;

        *known = store->timeline[step->database];
        TRACE(&store->sim->trace, "changed", node->number, step->database);
        sim_node_now(node, &now);
        sim_enter_core(store->sim);
        broker_on_timeline(node->broker, &now, step->database);
        sim_leave_core(store->sim);
        sim_node_touch(node);
        refuse_unsent(step);
    }
    if (step->deed == DEED_NONE) {
        plan(step, 0, false);
    }
}

/* What the process does with its request, now that it runs. */
static void do_deed(struct step *step)
{
    struct store_mem_info info;

    if (step->deed == DEED_GREET) {
        greet(step);
        return;
    }

    store_mem_info(step->request, &info);
    if (step->deed == DEED_REFUSE && info.stage == STORE_MEM_SUBMITTED) {
        refuse(step);
    } else {
        give_up(step);
    }
}

/* A fate of a story, or a fault of the seed, or none. True: the request is dealt with. */
static bool meet_fate(struct step *step, enum store_mem_stage stage)
{
    struct sim_store *store = step->sim_store;
    const struct sim_options *options = &store->sim->options;
    bool is_done = false;

    switch (step->fate) {
    case SIM_FATE_LOSE_COMMITTED:
        is_done = stage == STORE_MEM_ENDED;
        break;
    case SIM_FATE_LOSE_OPEN:
    case SIM_FATE_FREEZE:
        is_done = stage == STORE_MEM_EXECUTED;
        break;
    case SIM_FATE_LOSE_ABORTED:
        is_done = stage == STORE_MEM_EXECUTED;
        step->is_doomed = true;
        break;
    case SIM_FATE_GIVE_UP:
        is_done = stage == STORE_MEM_SUBMITTED;
        break;
    case SIM_FATE_NONE:
    case SIM_FATE_REFUSE:
    case SIM_FATE_COUNT:
        break;
    }
    if (is_done) {
        store->doomed_count++;
        step->deed = DEED_GIVE_UP;
        plan(step, 0, true);
        return true;
    }
    if (step->fate != SIM_FATE_NONE || store->sim->is_healed) {
        return false;
    }
    if (stage == STORE_MEM_SUBMITTED && prng_chance(&store->prng, options->refuse_permille)) {
        step->deed = DEED_REFUSE;
    } else if (prng_chance(&store->prng, options->give_up_permille)) {
        step->deed = DEED_GIVE_UP;
    } else {
        return false;
    }
    plan(step, sim_span(&store->prng, options->store_us), true);
    return true;
}

/* The database is not there: refused at once, or no answer until the own deadline. */
static void meet_down(struct step *step, enum store_mem_stage stage)
{
    struct sim_store *store = step->sim_store;
    bool is_refused = stage == STORE_MEM_SUBMITTED && prng_chance(&store->prng, 600);

    step->deed = is_refused ? DEED_REFUSE : DEED_GIVE_UP;
    step->is_doomed = true;
    plan(step, is_refused ? 1000 : time_max(step->submitted + DEADLINE_US - store->sim->now, 0),
         true);
}

/* True: the request does not get to the database, or its reply does not get back: given up at the
 * deadline. */
static bool meet_cut(struct step *step, enum store_mem_stage stage)
{
    struct sim_store *store = step->sim_store;
    uint32_t node = SIM_END_NODE(step->door->node->number);
    uint32_t database = SIM_END_DATABASE(step->database);
    bool is_cut =
        (stage == STORE_MEM_SUBMITTED && !sim_link_passes(store->sim->links, node, database)) ||
        (stage == STORE_MEM_ENDED && !sim_link_passes(store->sim->links, database, node));

    if (is_cut) {
        step->deed = DEED_GIVE_UP;
        plan(step, time_max(step->submitted + DEADLINE_US - store->sim->now, 0), true);
    }
    return is_cut;
}

/* True: a lock is waited for, and this is not the time to look at it. */
static bool still_waits(struct step *step)
{
    struct sim_store *store = step->sim_store;

    if (!store_mem_waits(step->request)) {
        step->waits_since = 0;
        return false;
    }
    if (step->waits_since == 0) {
        step->waits_since = store->sim->now;
    }
    if (step->kind == STORE_MEM_BUMP && store->sim->now - step->waits_since >= LOCK_TIMEOUT_US) {
        step->waits_since = 0;
        return false; // It ends who blocks it.
    }
    plan(step, WAIT_US, false);
    return true;
}

static void step_client(struct step *step)
{
    struct sim_store *store = step->sim_store;
    struct store_mem_info info;
    bool needs_client;

    store_mem_info(step->request, &info);
    if (info.stage == STORE_MEM_ENDED && step->event.host == NULL) {
        plan(step, stage_span(store), true); // A bump has terminated it: the news has to travel.
        return;
    }
    if ((store->down >> step->database & 1U) != 0 && info.stage != STORE_MEM_ENDED) {
        meet_down(step, info.stage);
        return;
    }
    if (meet_cut(step, info.stage) || meet_fate(step, info.stage)) {
        return;
    }
    if (store->sim->now - step->submitted > DEADLINE_US && info.stage != STORE_MEM_ENDED) {
        step->deed = DEED_GIVE_UP;
        plan(step, 0, true);
        return;
    }
    if (info.stage == STORE_MEM_SUBMITTED && is_news(step)) {
        step->deed = DEED_GREET;
        plan(step, 0, true);
        return;
    }
    if (info.stage == STORE_MEM_SUBMITTED && still_waits(step)) {
        return;
    }
    if (info.stage == STORE_MEM_SUBMITTED) {
        step->executed = store->sim->now;
    }
    step->door->executed = step->executed;
    switch (store_mem_step(store->sim->mem, step->request)) {
    case STORE_MEM_GONE:
        step_free(step);
        break;
    case STORE_MEM_TERMINATED:
        plan(step, WAIT_US, false);
        sweep(store);
        break;
    case STORE_MEM_WAITS:
        plan(step, WAIT_US, false);
        break;
    case STORE_MEM_MOVED:
        store_mem_info(step->request, &info);
        needs_client =
            info.stage == STORE_MEM_ENDED ||
            (info.kind == STORE_MEM_WRITE && prng_chance(&store->prng, CUT_PIPELINE_PERMILLE));
        plan(step, stage_span(store), needs_client);
        break;
    }
}

static void on_step(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct step *step = CONTAINER_OF(event, struct step, event);

    (void)sim;
    if (is_dropped) {
        // The run is over, or the process died: what lives on of it was taken over by the crash.
        if (step->door == NULL) {
            list_del(&step->link);
            mem_free(step);
        }
        return;
    }
    set_clocks(step->sim_store);
    if (step->door == NULL) {
        step_orphan(step);
    } else if (step->deed != DEED_NONE) {
        do_deed(step);
    } else {
        step_client(step);
    }
}

/* --- the core's door --- */

static struct step *step_new(struct door *door, enum store_mem_kind kind, const void *subject,
                             uint32_t database)
{
    struct step *step = sim_need(1, sizeof(*step));

    step->event = (struct sim_event){.fire = on_step};
    step->sim_store = door->sim_store;
    step->door = door;
    step->kind = kind;
    step->database = database;
    step->submitted = door->sim_store->sim->now;
    step->fate = door->nth;
    step->request = store_mem_find(door->sim_store->sim->mem, subject);
    REQUIRE(step->request != NULL);
    list_add(&door->sim_store->steps, &step->link);
    plan(step, stage_span(door->sim_store), false);
    return step;
}

static struct door *door_of(struct store *store)
{
    return CONTAINER_OF(store, struct door, store);
}

/* Requests may be refused when they are made. */
static bool has_no_room(const struct door *door)
{
    struct sim_store *store = door->sim_store;

    return !store->sim->is_healed &&
           prng_chance(&store->prng, store->sim->options.no_room_permille);
}

/* The answer comes to us first. member: of step.cb. */
#define DIVERT(step, request, member, handler) \
    do {                                       \
        (step)->owner = (request)->owner;      \
        (step)->cb.member = (request)->cb;     \
        (request)->owner = (step);             \
        (request)->cb = (handler);             \
    } while (0)

static int submit_write(struct door *door, struct store_batch *batch)
{
    int err = door->inner->write(door->inner, batch);

    if (err == 0) {
        struct step *step = step_new(door, STORE_MEM_WRITE, batch, batch->database);

        if (door->fate != SIM_FATE_NONE) {
            step->fate = door->fate;
            door->fate = SIM_FATE_NONE;
        }
        DIVERT(step, batch, batch, on_batch);
    }
    return err;
}

static int submit_read(struct door *door, struct store_read *read)
{
    int err = door->inner->read(door->inner, read);

    if (err == 0) {
        struct step *step = step_new(door, STORE_MEM_READ, read, read->database);

        DIVERT(step, read, read, on_read);
    }
    return err;
}

static int submit_bump(struct door *door, struct store_bump *bump)
{
    const struct sim *sim = door->sim_store->sim;
    int err;

    if (sim->options.mutant == SIM_MUTANT_EPOCH) {
        bump->epoch = store_mem_epoch(sim->mem, bump->shard) + 1; // The database counts by itself.
    }
    err = door->inner->bump(door->inner, bump);

    if (err == 0) {
        struct step *step = step_new(door, STORE_MEM_BUMP, bump, bump->database);

        DIVERT(step, bump, bump, on_bump);
    }
    return err;
}

static int submit_queue_list(struct door *door, struct store_queue_list *list)
{
    int err = door->inner->queue_list(door->inner, list);

    if (err == 0) {
        struct step *step = step_new(door, STORE_MEM_QUEUE_LIST, list, 0);

        if (door->node->sim->options.edge != NULL) {
            DIVERT(step, list, list, on_list);
        }
    }
    return err;
}

static int submit(struct door *door, enum store_mem_kind kind, void *request)
{
    door->nth = sim_nth_next(&door->sim_store->sim->store_requests);
    if (door->nth == SIM_FATE_REFUSE || has_no_room(door)) {
        return ERR_UNAVAILABLE;
    }
    switch (kind) {
    case STORE_MEM_WRITE:
        return submit_write(door, request);
    case STORE_MEM_READ:
        return submit_read(door, request);
    case STORE_MEM_BUMP:
        return submit_bump(door, request);
    case STORE_MEM_QUEUE_LIST:
        return submit_queue_list(door, request);
    case STORE_MEM_QUEUE_PUT:
    case STORE_MEM_QUEUE_DROP:
    case STORE_MEM_CLOSE:
        break;
    }
    UNREACHABLE(); // The core asks for nothing else.
}

static int pass(struct store *store, enum store_mem_kind kind, void *request)
{
    struct door *door = door_of(store);
    bool was_in_core = sim_enter_world(door->node->sim);
    int err = submit(door, kind, request);

    sim_leave_world(door->node->sim, was_in_core);
    return err;
}

static int door_write(struct store *store, struct store_batch *batch)
{
    return pass(store, STORE_MEM_WRITE, batch);
}

static int door_read(struct store *store, struct store_read *read)
{
    return pass(store, STORE_MEM_READ, read);
}

static int door_bump(struct store *store, struct store_bump *bump)
{
    return pass(store, STORE_MEM_BUMP, bump);
}

static int door_queue_list(struct store *store, struct store_queue_list *list)
{
    return pass(store, STORE_MEM_QUEUE_LIST, list);
}

struct store *sim_store_open(struct sim_store *store, struct sim_node *node)
{
    struct door *door = sim_need(1, sizeof(*door));
    struct store_mem_client_options options = {
        .on_clock = on_clock, .boot_now = boot_now, .ctx = door};

    *door = (struct door){.sim_store = store, .node = node};
    door->inner = store_mem_client(store->sim->mem, &options);
    REQUIRE(door->inner != NULL);
    door->store = (struct store){
        .write = door_write, .read = door_read, .bump = door_bump, .queue_list = door_queue_list};
    door->store.stream_count = door->inner->stream_count;
    list_add(&store->doors, &door->link);
    return &door->store;
}

void sim_store_crash(struct sim_store *store, struct sim_node *node)
{
    struct door *door = door_of(node->store);

    store_mem_crash(store->sim->mem, door->inner);
    list_foreach (link, &store->steps) {
        struct step *step = CONTAINER_OF(link, struct step, link);

        if (step->door == door) {
            make_orphan(step);
        }
    }
    sweep(store);
    list_del(&door->link);
    mem_free(door);
    node->store = NULL;
}

void sim_store_down(struct sim_store *store, uint32_t database)
{
    TRACE(&store->sim->trace, "database-down", database);
    store->down |= 1U << database;
    list_foreach_safe (link, after, &store->steps) {
        struct step *step = CONTAINER_OF(link, struct step, link);

        if (step->database == database && step->door == NULL) {
            store_mem_abort(store->sim->mem,
                            step->request); // Its transaction ends with the server.
            step_free(step);
        }
    }
}

void sim_store_up(struct sim_store *store, uint32_t database)
{
    TRACE(&store->sim->trace, "database-up", database);
    store->down &= ~(1U << database);
}

bool sim_store_is_down(const struct sim_store *store, uint32_t database)
{
    return (store->down >> database & 1U) != 0;
}

/* The connection that a request lives on breaks. */
static void cut_step(struct step *step)
{
    struct sim_store *store = step->sim_store;

    if (step->deed != DEED_NONE || prng_chance(&store->prng, 500)) {
        return; // It was not sent yet, or its reply is here already.
    }
    sim_cancel(store->sim, &step->event);
    step->deed = DEED_GIVE_UP;
    step->is_doomed = true;
    plan(step, sim_span(&store->prng, store->sim->options.store_us), true);
}

uint64_t sim_store_promote(struct sim_store *store, uint32_t database)
{
    uint64_t number = store_mem_promote(store->sim->mem, database);

    store->timeline[database]++;
    sweep(store); // Orphans were open on the old server.
    list_foreach_safe (link, after, &store->steps) {
        struct step *step = CONTAINER_OF(link, struct step, link);

        if (step->database == database && step->door != NULL) {
            cut_step(step);
        }
    }
    return number;
}

void sim_store_doom(struct sim_store *store, const struct sim_node *node, enum sim_store_fate fate)
{
    (void)store;
    door_of(node->store)->fate = fate;
}

uint32_t sim_store_doomed_count(const struct sim_store *store)
{
    return store->doomed_count;
}

struct sim_store *sim_store_new(struct sim *sim)
{
    struct sim_store *store = sim_need(1, sizeof(*store));

    store->sim = sim;
    prng_init_named(&store->prng, sim->options.seed, "store");
    list_init(&store->doors);
    list_init(&store->steps);
    for (uint32_t i = 0; i < DATABASE_COUNT_MAX; i++) {
        store->timeline[i] = 1;
    }
    return store;
}

void sim_store_free(struct sim_store *store)
{
    REQUIRE(list_is_empty(&store->doors) && list_is_empty(&store->steps));
    mem_free(store);
}
