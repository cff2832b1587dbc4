/* SPDX-License-Identifier: Apache-2.0
 *
 * Users' calls: made up here, carried to a broker, forwarded, answered, asked again.
 */
#include "tests/sim/sim_load.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "tests/sim/sim_edge.h"
#include "tests/sim/sim_link.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_queues.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Tasks of an order key that its users have pending at once. */
#define ORDER_PENDING 20

#define EDGE_US     US_PER_S /* a call for a shard without an owner waits so long. DESIGN 6 */
#define LOOK_US     (50 * US_PER_MS)
#define LOST_US     US_PER_S /* how long a user waits for an answer that does not come */
#define BURST_COUNT 300
#define KEY_COUNT   400
#define SMALL_BYTES 16
#define LARGE_BYTES 1500

/* Absolute due times that lie long back, when what a take-over leaves for later is read. */
#define OLD_PERMILLE 60
#define OLD_MAX_MS   600000

/* One call of one user. */
struct sim_call {
    struct list link; /* in node.calls while inside a core */
    struct sim_event event;
    struct sim_errand errand; /* in wire mode: on its way */
    struct sim_load *load;
    struct sim_node *home; /* the broker that its user talks to; NULL: a story asks a core */
    uint32_t home_life;
    struct sim_node *node; /* where it is, or goes: home, or whom home has passed it on to */
    struct call call;
    struct call request; /* as it was asked */
    struct sim_answer *answer;
    uint64_t number;
    uint64_t key;
    uint64_t order;
    uint32_t tries;
    int64_t until; /* the edge gives up */
    bool is_inside;
    uint8_t payload[LARGE_BYTES]; /* at the end: most calls use its first bytes only */
};

/* A user who waits for a moment to cancel or update a task. */
struct chase {
    struct sim_event event;
    struct sim_load *load;
    struct check_known task;
};

struct sim_load {
    struct sim *sim;
    struct prng prng;
    struct prng order; /* draws of order keys, so that those of a seed before are the same */
    struct sim_event next;
    struct sim_event policy;
    struct store *store; /* where policy is changed, past all faults */
    bool is_stopped;
    bool is_roomy; /* no queue has less room than usual now */
    struct sim_answer **answers;
    size_t answer_count;
    wall_ms paused_until_ms; /* of the queues that are */
};

bool sim_load_is_at_most_once(const struct sim_load *load, uint32_t queue)
{
    return !sim_policies_bounds(load->sim->policies, queue)->was_repeating;
}

span_ms sim_load_result_memory_ms(const struct sim_load *load, uint32_t queue)
{
    return sim_policies_bounds(load->sim->policies, queue)->result_memory_ms;
}

bool sim_load_expires(const struct sim_load *load)
{
    return load->sim->options.expire_permille > 0;
}

wall_ms sim_load_paused_until(const struct sim_load *load, uint32_t queue)
{
    if (sim_policies_bounds(load->sim->policies, queue)->is_pause_changed) {
        return 0;
    }
    return load->sim->options.expire_permille > 0 && queue % 5 == 4 ? load->paused_until_ms : 0;
}

static uint16_t slot_of_key(uint32_t queue, uint64_t key)
{
    uint64_t hash = (key * 31 + queue) * UINT64_C(0x9e3779b97f4a7c15);

    return (uint16_t)((hash >> 40) % SLOT_COUNT);
}

/* Room for a call, as it is without its payload. */
static struct sim_call *call_room(void)
{
    struct sim_call *call = mem_resize(NULL, sizeof(*call));

    REQUIRE(call != NULL);
    return call;
}

/* Give it a payload of the usual or another length: its number, and zeros. */
static void set_payload_len(struct sim_call *call, size_t len)
{
    REQUIRE(len <= sizeof(call->payload));
    if (len > SMALL_BYTES) {
        memset(call->payload + SMALL_BYTES, 0, len - SMALL_BYTES);
    }
    call->request.task.payload = (struct slice){call->payload, len};
}

static void call_free(struct sim_call *call)
{
    mem_free(call);
}

/* What one tries again by itself. A redrive is looked at by a person first. */
static bool is_write(const struct sim_call *call)
{
    return call->request.kind != CALL_GET && call->request.kind != CALL_REDRIVE;
}

static void send(struct sim_call *call);

/* All tasks of an order key lie in one slot. */
static void set_order(struct sim_call *call, uint64_t order)
{
    call->order = order;
    call->request.task.order_key =
        (struct slice){(const uint8_t *)&call->order, sizeof(call->order)};
    call->request.task.id.slot = slot_of_key(call->request.task.queue, order);
    call->request.shard =
        shard_of_slot(call->request.task.id.slot, call->load->sim->options.shard_count);
}

/* The same as another call; NULL: it cannot be asked for twice. An absolute time of an update is
 * its name. */
static struct sim_call *call_repeat(const struct sim_call *call)
{
    struct sim_call *next;

    if (!is_write(call) || (call->request.kind == CALL_UPDATE && !call->request.is_delay)) {
        return NULL;
    }
    next = call_room();
    memcpy(next, call, offsetof(struct sim_call, payload) + call->request.task.payload.len);
    next->tries++;
    next->is_inside = false;
    next->number = check_call_new(call->load->sim->check);
    memcpy(next->payload, &next->number, sizeof(next->number));
    next->request.task.payload.data = next->payload;
    if (next->key != 0) {
        next->request.task.key = (struct slice){(const uint8_t *)&next->key, sizeof(next->key)};
    }
    if (next->order != 0) {
        set_order(next, next->order);
    }
    return next;
}

/* Ask again after a while, as another call: the answer was no, or did not come. */
static void again(struct sim_call *call)
{
    struct sim_load *load = call->load;
    struct sim_call *next;

    if (call->tries >= 3 || call->answer != NULL || load->is_stopped || !is_write(call) ||
        !prng_chance(&load->prng, 500)) {
        return;
    }
    next = call_repeat(call);
    if (next != NULL) {
        send(next);
    }
}

/* --- answers --- */

static void on_chase(struct sim *sim, struct sim_event *event, bool is_dropped);

/* Some users come back just when their task is due. */
static void chase(struct sim_load *load, const struct sim_call *call)
{
    const struct sim_options *options = &load->sim->options;
    uint32_t database = load->sim->cluster.database_of[call->call.shard];
    int64_t left_us = call->call.found_due_ms * US_PER_MS - sim_clock(load->sim, database);
    struct chase *chased;

    if (left_us < 0 || left_us > 3 * US_PER_S ||
        !prng_chance(&load->prng, options->cancel_permille + options->update_permille)) {
        return;
    }
    chased = sim_need(1, sizeof(*chased));
    chased->event = (struct sim_event){.fire = on_chase};
    chased->load = load;
    chased->task =
        (struct check_known){call->call.found, call->call.task.queue, call->call.found_due_ms, 0};
    sim_after(load->sim, &chased->event,
              left_us + prng_between(&load->prng, -10 * US_PER_MS, 4 * US_PER_MS));
}

static void finish(struct sim_call *call)
{
    int result = call->call.result;

    if (call->answer != NULL) {
        call->answer->is_there = true;
        call->answer->call = call->call;
    } else if (result == 0 && call->call.kind == CALL_CREATE && call->call.created) {
        chase(call->load, call);
    } else if (result == ERR_UNAVAILABLE || result == ERR_OUTCOME_UNKNOWN || result == ERR_FULL) {
        again(call);
    }
    call_free(call);
}

static void on_lost(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct sim_call *call = CONTAINER_OF(event, struct sim_call, event);

    (void)sim;
    if (is_dropped) {
        call_free(call);
        return;
    }
    call->call.result = ERR_OUTCOME_UNKNOWN; // The user's own word.
    finish(call);
}

/* A message of it got lost: the user waits in vain for a while. */
static void lose(struct sim_call *call)
{
    struct sim_load *load = call->load;

    call->event = (struct sim_event){.fire = on_lost};
    sim_after(load->sim, &call->event, sim_span(&load->prng, LOST_US));
}

static void on_arrival(struct sim *sim, struct sim_event *event, bool is_dropped);

/* One message, to a broker's edge. */
static void carry(struct sim_call *call, uint32_t from, struct sim_node *to)
{
    struct sim *sim = call->load->sim;
    int64_t spans[SIM_COPIES_MAX];

    if (sim_link_send(sim->links, from, SIM_END_NODE(to->number), spans) == 0) {
        lose(call);
        return;
    }
    call->node = to;
    call->event = (struct sim_event){.fire = on_arrival, .host = to};
    sim_after(sim, &call->event, spans[0]);
}

/* Home goes on waiting for whoever owns the shard. It is the same process that it was. */
static void return_home(struct sim_call *call)
{
    if (!call->home->is_up || call->home->life != call->home_life) {
        lose(call);
    } else if (call->node != call->home) {
        carry(call, SIM_END_NODE(call->node->number), call->home);
    } else {
        sim_after(call->load->sim, &call->event, LOOK_US);
    }
}

/* Whether the answer arrives: at home, if it was passed on, and at the user. */
static bool is_heard(const struct sim_call *call)
{
    struct sim_links *links = call->load->sim->links;
    uint32_t home = SIM_END_NODE(call->home->number);
    uint32_t node = SIM_END_NODE(call->node->number);
    int64_t spans[SIM_COPIES_MAX];

    if (call->node != call->home && (!call->home->is_up || call->home->life != call->home_life ||
                                     sim_link_send(links, node, home, spans) == 0)) {
        return false;
    }
    return sim_link_send(links, home, SIM_END_USERS, spans) > 0;
}

/* The core's callback. */
static void on_answer(struct call *core_call)
{
    struct sim_call *call = CONTAINER_OF(core_call, struct sim_call, call);
    struct sim *sim = call->load->sim;
    bool was_in_core = sim_enter_world(sim);
    int result = call->call.result;

    list_del(&call->link);
    call->is_inside = false;
    check_call_answer(sim->check, call->number, &call->call);
    if (call->home != NULL && sim->now < call->until &&
        (result == ERR_FENCED || (result == ERR_UNAVAILABLE && call->node != call->home))) {
        return_home(call); // Nothing has happened: the edge looks for the owner again.
    } else if (call->home != NULL && !is_heard(call)) {
        lose(call);
    } else {
        finish(call);
    }
    sim_leave_world(sim, was_in_core);
}

void sim_load_crash(struct sim_load *load, struct sim_node *node)
{
    struct list *link;

    while ((link = list_take_first(&node->calls)) != NULL) {
        struct sim_call *call = CONTAINER_OF(link, struct sim_call, link);

        check_call_lost(load->sim->check, call->number);
        if (call->answer == NULL && is_write(call)) {
            again(call);
        }
        call_free(call);
    }
}

/* --- at a broker --- */

static void enter(struct sim_call *call)
{
    struct sim_node *node = call->node;
    struct now now;

    call->call = call->request;
    call->call.task.payload.data = call->payload;
    call->is_inside = true;
    list_add(&node->calls, &call->link);
    check_call_begin(call->load->sim->check, call->number, &call->call);
    sim_node_now(node, &now);
    sim_enter_core(node->sim);
    broker_call(node->broker, &now, &call->call);
    sim_leave_core(node->sim);
    sim_node_touch(node);
}

/* A call is at a broker's edge: from its user, or passed on, or back. */
static void on_arrival(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct sim_call *call = CONTAINER_OF(event, struct sim_call, event);
    bool is_home = call->node == call->home;
    const char *address = NULL;
    struct sim_node *other;

    if (is_dropped) {
        call_free(call);
        return;
    }
    if (call->request.kind == CALL_CREATE && call->key == 0 && call->order == 0) {
        call->request.task.id.slot = broker_pick_slot(call->node->broker);
        call->request.shard = shard_of_slot(call->request.task.id.slot, sim->options.shard_count);
    }
    switch (broker_route(call->node->broker, call->request.shard, &address)) {
    case ROUTE_SELF:
        enter(call);
        return;
    case ROUTE_OTHER:
        other = sim_node_find(sim, address);
        if (other != NULL && other->is_up && is_home) { // A call is passed on once.
            carry(call, SIM_END_NODE(call->node->number), other);
            return;
        }
        break;
    case ROUTE_NOBODY:
        break;
    }
    if (sim->now < call->until) {
        return_home(call);
        return;
    }
    call->call.result = ERR_UNAVAILABLE; // The edge's own word: it was never in a core.
    finish(call);
}

/* Wire mode: the answer is there, or there will be none. */
static void on_errand(struct sim_errand *errand, bool is_lost)
{
    struct sim_call *call = CONTAINER_OF(errand, struct sim_call, errand);
    struct sim *sim = call->load->sim;

    if (!is_lost) {
        check_call_answer(sim->check, call->number, &call->call);
        finish(call);
        return;
    }
    check_call_lost(sim->check, call->number);
    again(call);
    call_free(call);
}

/* From here on it may take effect. */
static void send_by_wire(struct sim_call *call, struct sim_node *node)
{
    struct sim *sim = call->load->sim;

    call->call = call->request;
    call->call.task.payload.data = call->payload;
    check_call_begin(sim->check, call->number, &call->call);
    call->errand = (struct sim_errand){.call = &call->call,
                                       .number = call->number,
                                       .key = call->key,
                                       .to = node,
                                       .done = on_errand};
    sim->options.edge->carry(sim, &call->errand);
}

static void send(struct sim_call *call)
{
    struct sim *sim = call->load->sim;
    struct sim_node *node = &sim->nodes[prng_below(&call->load->prng, sim->options.node_count)];

    if (!node->is_up && sim->options.edge == NULL) {
        call_free(call); // Connection refused.
        return;
    }
    if (sim->options.edge != NULL) {
        send_by_wire(call, node);
        return;
    }
    call->until = sim->now + EDGE_US;
    call->home = node;
    call->home_life = node->life;
    carry(call, SIM_END_USERS, node);
}

/* Some users are impatient: they ask twice at once, or their library does, at two brokers. */
static void launch(struct sim_call *call)
{
    struct sim_load *load = call->load;
    struct sim_call *next = NULL;

    if (!load->sim->is_healed && prng_chance(&load->prng, load->sim->options.link_twice_permille)) {
        next = call_repeat(call);
    }
    send(call);
    if (next != NULL) {
        send(next);
    }
}

/* --- what users want --- */

static struct sim_call *call_new(struct sim_load *load, enum call_kind kind)
{
    struct sim_call *call = call_room();

    memset(call, 0, offsetof(struct sim_call, payload) + SMALL_BYTES);
    call->load = load;
    call->number = check_call_new(load->sim->check);
    memcpy(call->payload, &call->number, sizeof(call->number));
    list_init(&call->link);
    call->request.kind = kind;
    call->request.cb = on_answer;
    set_payload_len(call, SMALL_BYTES);
    return call;
}

static void set_key(struct sim_call *call, uint64_t key)
{
    call->key = key;
    call->request.task.key = (struct slice){(const uint8_t *)&call->key, sizeof(call->key)};
    call->request.task.id.slot = slot_of_key(call->request.task.queue, key);
    call->request.shard =
        shard_of_slot(call->request.task.id.slot, call->load->sim->options.shard_count);
}

static span_ms draw_delay(struct sim_load *load)
{
    const struct sim_options *options = &load->sim->options;

    if (prng_chance(&load->prng, options->near_permille)) {
        return prng_between(&load->prng, 0, 1000);
    }
    if (prng_chance(&load->prng, options->far_permille) && options->window_ms <= 120000) {
        return prng_between(&load->prng, options->window_ms, 2 * options->window_ms);
    }
    return prng_between(&load->prng, 500, 20000);
}

/* Relative, or absolute by the user's own idea of time; sometimes in the past. */
static void draw_due(struct sim_call *call, uint32_t relative_permille)
{
    struct sim *sim = call->load->sim;
    span_ms delay_ms = draw_delay(call->load);

    call->request.is_delay = prng_chance(&call->load->prng, relative_permille);
    call->request.delay_ms = delay_ms;
    if (!call->request.is_delay) {
        // The last digits are the call's number: an update can be told by its due time.
        bool is_old = prng_chance(&call->load->prng, OLD_PERMILLE);
        span_ms ago_ms = is_old ? prng_between(&call->load->prng, 1000, OLD_MAX_MS) : 50;
        wall_ms due_ms = sim_clock(sim, 0) / US_PER_MS + delay_ms - ago_ms;

        call->request.task.due_ms = due_ms - due_ms % 1024 + (wall_ms)(call->number % 1024);
    }
}

/* Users of an order key wait for what they have asked for: else it would not end in time. */
static bool draw_order(struct sim_call *call)
{
    struct sim_load *load = call->load;
    const struct sim_options *options = &load->sim->options;
    uint64_t order;

    if (options->order_permille == 0 || !prng_chance(&load->order, options->order_permille)) {
        return false;
    }
    order = 1 + prng_below(&load->order, options->order_count);
    if (check_order_pending(load->sim->check, call->request.task.queue, order) >= ORDER_PENDING) {
        return false;
    }
    set_order(call, order);
    return true;
}

static void create(struct sim_load *load)
{
    const struct sim_options *options = &load->sim->options;
    struct sim_call *call = call_new(load, CALL_CREATE);

    call->request.task.queue = (uint32_t)prng_between(&load->prng, 1, load->sim->queue_count);
    draw_due(call, 700);
    if (prng_chance(&load->prng, options->large_permille)) {
        set_payload_len(call, LARGE_BYTES);
    }
    if (prng_chance(&load->prng, options->expire_permille)) {
        call->request.task.expire_ms =
            sim_clock(load->sim, 0) / US_PER_MS + prng_between(&load->prng, 1, 30000);
    }
    if (draw_order(call)) {
        send(call);
        return;
    }
    if (prng_chance(&load->prng, options->keyed_permille)) {
        set_key(call, 1 + prng_below(&load->prng, KEY_COUNT));
        call->request.key_policy =
            (enum key_policy)prng_between(&load->prng, KEY_KEEP, KEY_REPLACE);
        if (prng_chance(&load->prng, 300)) {
            call->request.replace_latest_ms = sim_clock(load->sim, 0) / US_PER_MS + 5000;
        }
    }
    launch(call);
}

static void set_target(struct sim_call *call, const struct check_known *task)
{
    struct prng *prng = &call->load->prng;

    call->request.task.queue = task->queue;
    if (task->key != 0 && prng_chance(prng, 300)) {
        set_key(call, task->key);
        return;
    }
    call->request.task.id = task->id;
    call->request.shard = shard_of_slot(task->id.slot, call->load->sim->options.shard_count);
}

static void change(struct sim_load *load, enum call_kind kind, const struct check_known *task)
{
    struct sim_call *call = call_new(load, kind);

    set_target(call, task);
    if (kind == CALL_UPDATE) {
        call->request.set_due = prng_chance(&load->prng, 800);
        call->request.set_payload = !call->request.set_due || prng_chance(&load->prng, 500);
        draw_due(call, 400);
        call->request.is_delay = call->request.is_delay && call->request.set_due;
        if (prng_chance(&load->prng, load->sim->options.large_permille)) {
            set_payload_len(call, LARGE_BYTES);
        }
    }
    launch(call);
}

static void on_chase(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct chase *chased = CONTAINER_OF(event, struct chase, event);
    struct sim_load *load = chased->load;
    uint32_t both = sim->options.cancel_permille + sim->options.update_permille;

    if (!is_dropped) {
        change(load,
               prng_below(&load->prng, both) < sim->options.cancel_permille ? CALL_CANCEL
                                                                            : CALL_UPDATE,
               &chased->task);
    }
    mem_free(chased);
}

static void redrive(struct sim_load *load, const struct check_letter *letter)
{
    struct sim_call *call = call_new(load, CALL_REDRIVE);

    memcpy(call->payload, &letter->token, sizeof(letter->token));
    call->request.task.id = letter->id;
    call->request.shard = letter->shard;
    call->request.task.queue = letter->queue;
    call->request.task.attempt = letter->attempt;
    set_payload_len(call, letter->payload_len);
    call->request.task.payload_len = (uint32_t)letter->payload_len;
    call->request.is_delay = true;
    call->request.delay_ms = prng_between(&load->prng, 0, 2000);
    if (letter->order != 0) {
        call->order = letter->order;
        call->request.task.order_key =
            (struct slice){(const uint8_t *)&call->order, sizeof(call->order)};
    }
    if (letter->key != 0) {
        call->key = letter->key;
        call->request.task.key = (struct slice){(const uint8_t *)&call->key, sizeof(call->key)};
    }
    launch(call);
}

static void act(struct sim_load *load)
{
    const struct sim_options *options = &load->sim->options;
    struct check_letter letter;
    struct check_known task;
    uint64_t draw = prng_below(&load->prng, 1000);

    if (prng_chance(&load->prng, options->redrive_permille) &&
        check_pick_dead(load->sim->check, &load->prng, &letter)) {
        redrive(load, &letter);
        return;
    }
    if (!check_pick(load->sim->check, &load->prng, &task)) {
        create(load);
    } else if (draw < options->cancel_permille) {
        change(load, CALL_CANCEL, &task);
    } else if (draw < options->cancel_permille + options->update_permille) {
        change(load, CALL_UPDATE, &task);
    } else if (draw < options->cancel_permille + options->update_permille + options->get_permille) {
        change(load, CALL_GET, &task);
    } else {
        create(load);
    }
}

static void on_next(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct sim_load *load = CONTAINER_OF(event, struct sim_load, next);
    uint32_t count = 1;

    if (is_dropped || load->is_stopped) {
        return;
    }
    if (prng_chance(&load->prng, sim->options.burst_permille)) {
        count = BURST_COUNT;
    }
    for (uint32_t i = 0; i < count; i++) {
        act(load);
    }
    sim_after(sim, event, sim_span(&load->prng, sim->options.call_every_us));
}

void sim_load_start(struct sim_load *load)
{
    if (load->sim->options.call_every_us > 0) {
        sim_after(load->sim, &load->next, US_PER_S);
    }
    if (load->sim->options.room_every_us > 0) {
        sim_after(load->sim, &load->policy,
                  sim_span(&load->prng, load->sim->options.room_every_us));
    }
}

void sim_load_stop(struct sim_load *load)
{
    load->is_stopped = true;
    sim_cancel(load->sim, &load->next);
}

const struct sim_answer *sim_load_ask(struct sim_load *load, struct sim_node *node,
                                      const struct sim_ask *ask)
{
    struct sim_call *call = call_new(load, ask->kind);
    struct sim_answer *answer = sim_need(1, sizeof(*answer));

    load->answers =
        mem_resize(load->answers, (load->answer_count + 1) * sizeof(struct sim_answer *));
    REQUIRE(load->answers != NULL);
    load->answers[load->answer_count++] = answer;
    call->answer = answer;
    call->node = node;
    call->request.task.queue = ask->task.queue;
    if (ask->kind == CALL_CREATE) {
        call->request.task.queue = ask->queue == 0 ? 1 : ask->queue;
    }
    if (ask->kind == CALL_CREATE) {
        call->request.task.id.slot = (uint16_t)ask->shard;
        call->request.shard = ask->shard;
        call->request.key_policy = ask->policy;
        if (ask->order != 0) { // The story says where it lies.
            call->order = ask->order;
            call->request.task.order_key =
                (struct slice){(const uint8_t *)&call->order, sizeof(call->order)};
        }
        if (ask->key != 0) {
            call->key = ask->key;
            call->request.task.key = (struct slice){(const uint8_t *)&call->key, sizeof(call->key)};
        }
    } else {
        call->request.task.id = ask->task.id;
        call->request.shard = shard_of_slot(ask->task.id.slot, load->sim->options.shard_count);
    }
    call->request.is_delay = ask->kind == CALL_CREATE || ask->kind == CALL_UPDATE;
    call->request.set_due = ask->kind == CALL_UPDATE;
    call->request.set_payload = ask->kind == CALL_UPDATE;
    call->request.delay_ms = ask->delay_ms;
    enter(call);
    return answer;
}

/* --- queues --- */

/* Make or change a queue at once. */
static void put_queue(struct sim_load *load, uint32_t number, uint32_t room)
{
    sim_queue_put(load->sim, load, load->store, number, room);
}

static void set_room(struct sim_load *load, bool is_roomy)
{
    uint32_t room = is_roomy ? ROOM_USUAL : load->sim->options.room;

    if (load->is_roomy == is_roomy) {
        return;
    }
    load->is_roomy = is_roomy;
    for (uint32_t i = 1; i <= load->sim->queue_count; i++) {
        if (QUEUE_HAS_OWN_ROOM(i)) {
            put_queue(load, i, room);
        }
    }
}

void sim_load_put(struct sim_load *load, uint32_t queue)
{
    put_queue(load, queue, load->is_roomy ? ROOM_USUAL : load->sim->options.room);
}

void sim_load_heal(struct sim_load *load)
{
    sim_cancel(load->sim, &load->policy);
    set_room(load, true);
}

static void on_policy(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct sim_load *load = CONTAINER_OF(event, struct sim_load, policy);

    if (!is_dropped) {
        set_room(load, !load->is_roomy);
        sim_after(sim, event, sim_span(&load->prng, sim->options.room_every_us));
    }
}

struct sim_load *sim_load_new(struct sim *sim)
{
    struct sim_load *load = sim_need(1, sizeof(*load));

    load->sim = sim;
    load->next = (struct sim_event){.fire = on_next};
    load->policy = (struct sim_event){.fire = on_policy};
    load->paused_until_ms = sim_clock(sim, 0) / US_PER_MS + 20000;
    prng_init_named(&load->prng, sim->options.seed, "load");
    prng_init_named(&load->order, sim->options.seed, "order");
    load->store = store_mem_client(sim->mem, NULL);
    REQUIRE(load->store != NULL);
    sim->queue_count = sim->options.queue_count;
    for (uint32_t i = 1; i <= sim->queue_count; i++) {
        put_queue(load, i, sim->options.room);
    }
    return load;
}

void sim_load_free(struct sim_load *load)
{
    for (size_t i = 0; i < load->answer_count; i++) {
        mem_free(load->answers[i]);
    }
    mem_free(load->answers);
    mem_free(load);
}
