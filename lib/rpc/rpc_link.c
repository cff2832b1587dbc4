/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels: addresses and connections. Looks names up, dials, backs off, spreads calls in turn, and
 * lets connections that are leaving finish what they have.
 */
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"
#include "lib/rpc/rpc_channel.h"

#include <stdio.h>

#include <unistd.h>

/* Bytes of calls that are put into a connection for one gathered write: what does not leave now
 * stays where it can be withdrawn. A call's headers count as this many. */
#define LINK_GATHER_BYTES (48U << 10)
#define LINK_HEADER_BYTES 256U

/* A connection that lived shorter than this without any use has failed. */
#define LINK_YOUNG_US US_PER_S

/* Back-off grows by 1.6 and is drawn ± 20 %. source: gRPC connection-backoff.md */
#define BACKOFF_NUMERATOR   8
#define BACKOFF_DENOMINATOR 5
#define BACKOFF_JITTER      5

/* ---- slots ---- */

static struct rpc_slot *find_slot(struct rpc_channel *channel, const struct address *address)
{
    list_foreach (node, &channel->slots) {
        struct rpc_slot *slot = LIST_ENTRY(node, struct rpc_slot, node);

        if (address_equal(&slot->address, address)) {
            return slot;
        }
    }
    return NULL;
}

/* The address failed: leave it alone for a while, and ask whether the name has others. */
static void fail_slot(struct rpc_slot *slot)
{
    struct rpc_channel *channel = slot->channel;
    span_ms jitter_ms = slot->backoff_ms / BACKOFF_JITTER;
    span_ms wait_ms = slot->backoff_ms + prng_between(&channel->prng, -jitter_ms, jitter_ms);

    slot->state = SLOT_WAITING;
    slot->backoff_ms =
        time_min(channel->options.backoff_max_ms,
                 time_mul(slot->backoff_ms, BACKOFF_NUMERATOR) / BACKOFF_DENOMINATOR);
    loop_timer_start_in(&slot->timer, wait_ms);
    channel->wants_resolve = true;
    rpc_channel_work_soon(channel);
}

static void on_slot_timer(struct loop_timer *timer, void *ctx)
{
    struct rpc_slot *slot = ctx;

    (void)timer;
    if (slot->state == SLOT_DIALLING) {
        slot->channel->failure = "no connection: it cannot be reached";
        dial_stop(&slot->dial);
        fail_slot(slot);
    } else if (slot->state == SLOT_GREETING) {
        conn_close(slot->wire->conn, ERR_TIMEOUT); // Its end fails the slot.
    } else if (slot->state == SLOT_WAITING) {
        slot->state = SLOT_IDLE;
        rpc_channel_work_soon(slot->channel);
    }
}

static void on_dialled(int err, int fd, void *ctx);

static int new_slot(struct rpc_channel *channel, const struct address *address)
{
    struct rpc_slot *slot = mem_new(1, sizeof(*slot));

    if (slot == NULL) {
        return ERR_NO_MEMORY;
    }
    slot->channel = channel;
    slot->address = *address;
    slot->is_known = true;
    slot->backoff_ms = channel->options.backoff_first_ms;
    dial_init(&slot->dial, channel->loop, on_dialled, slot);
    loop_timer_init(&slot->timer, channel->loop, on_slot_timer, slot);
    list_init(&slot->node);
    list_add(&channel->slots, &slot->node);
    return 0;
}

/* Why a connection that ended too soon was of no use. */
static void note_failure(struct rpc_wire *wire)
{
    struct rpc_channel *channel = wire->channel;

    if (wire->why != NULL && wire->why[0] != '\0') {
        (void)snprintf(channel->failure_text, sizeof(channel->failure_text), "no connection: %s",
                       wire->why);
        channel->failure = channel->failure_text;
    } else if (rpc_caller_is_ready(wire->caller)) {
        channel->failure = "no connection: it closes each one at once";
    } else {
        channel->failure = channel->options.tls == NULL
                               ? "no connection: no gRPC server greets there; does "
                                 "it want TLS?"
                               : "no connection: no gRPC server greets there";
    }
}

/*
 * Part a connection from its address: no new calls there. One that ended before it was ready, or at
 * once and without any use, counts as a failure of the address, or we would dial in a circle.
 */
static void part(struct rpc_wire *wire)
{
    struct rpc_slot *slot = wire->slot;
    boot_us young_us = time_add(wire->opened_us, LINK_YOUNG_US);
    bool is_failure = !rpc_caller_is_ready(wire->caller) ||
                      (!wire->is_useful && loop_now_us(wire->channel->loop) < young_us);

    if (slot == NULL) {
        return;
    }
    loop_timer_stop(&slot->timer);
    slot->state = SLOT_IDLE;
    slot->wire = NULL;
    wire->slot = NULL;
    if (is_failure) {
        note_failure(wire);
        fail_slot(slot);
    }
}

static void free_slot(struct rpc_slot *slot)
{
    if (slot->wire != NULL) {
        struct rpc_wire *wire = slot->wire;

        part(wire);
        rpc_caller_leave(wire->caller);
        conn_flush(wire->conn);
    }
    dial_stop(&slot->dial);
    loop_timer_stop(&slot->timer);
    list_del(&slot->node);
    mem_free(slot);
}

/* ---- connections ---- */

/* Give unsent calls of a connection back to the head of the queue, in their order. */
static void requeue_ready(struct rpc_wire *wire)
{
    struct rpc_channel *channel = wire->channel;

    while (!list_is_empty(&wire->ready)) {
        struct rpc_request *request = LIST_ENTRY(wire->ready.previous, struct rpc_request, node);

        list_del(&request->node);
        request->connection = NULL;
        list_add_first(&channel->queue, &request->node);
        channel->queue_count++;
        channel->active_count--;
    }
    wire->ready_count = 0;
}

static void on_conn_closed(void *ctx, int err)
{
    struct rpc_wire *wire = ctx;

    (void)err;
    part(wire);
    wire->channel->wants_resolve = true;
    requeue_ready(wire);
    loop_timer_stop(&wire->timer);
    list_del(&wire->node);
    rpc_channel_work_soon(wire->channel);
    rpc_caller_close(wire->caller);
    mem_free(wire->why);
    mem_free(wire);
}

static void arm_wire(struct rpc_wire *wire)
{
    boot_us idle_us = rpc_caller_idle_since_us(wire->caller);
    boot_us wake_us = rpc_caller_next_wake(wire->caller);

    if (idle_us != BOOT_NEVER) {
        idle_us = time_add(idle_us, time_mul(wire->channel->options.idle_ms, US_PER_MS));
        wake_us = time_min(wake_us, idle_us);
    }
    if (!wire->timer.is_started || wake_us < wire->timer.node.key) {
        loop_timer_start(&wire->timer, wake_us);
    }
}

static void after_work(struct rpc_wire *wire)
{
    if (rpc_caller_wants_write(wire->caller)) {
        conn_flush(wire->conn);
    }
    if (rpc_caller_is_done(wire->caller)) {
        conn_close_when_written(wire->conn, ERR_CLOSED);
    }
    arm_wire(wire);
}

static void on_wire_timer(struct loop_timer *timer, void *ctx)
{
    struct rpc_wire *wire = ctx;
    boot_us now_us = loop_now_us(wire->channel->loop);
    boot_us idle_us = rpc_caller_idle_since_us(wire->caller);

    (void)timer;
    if (rpc_caller_tick(wire->caller, now_us) != 0) {
        conn_close(wire->conn, ERR_TIMEOUT);
        return;
    }
    if (idle_us != BOOT_NEVER && wire->ready_count == 0 && wire->slot != NULL &&
        now_us >= time_add(idle_us, time_mul(wire->channel->options.idle_ms, US_PER_MS))) {
        part(wire);
        rpc_caller_leave(wire->caller);
    }
    after_work(wire);
}

static int on_take(void *ctx, struct slice bytes)
{
    struct rpc_wire *wire = ctx;
    int err = rpc_caller_take(wire->caller, loop_now_us(wire->channel->loop), bytes);

    if (err == 0) {
        after_work(wire);
    }
    return err;
}

/* Last look at a call before it goes out. errors: what keeps it from going. */
static int send_one(struct rpc_wire *wire, struct rpc_request *request, boot_us now_us)
{
    if (now_us >= request->deadline_us ||
        (request->start_by_us != 0 && now_us >= request->start_by_us)) {
        return ERR_TIMEOUT;
    }
    if (request->before_send != NULL && !request->before_send(request, request->ctx)) {
        return ERR_CANCELLED;
    }
    return rpc_caller_start(wire->caller, now_us, request);
}

static void withdraw(struct rpc_request *request, int err, boot_us now_us)
{
    request->connection = NULL;
    request->channel->active_count--;
    if (now_us >= request->deadline_us) {
        rpc_channel_finish(request, RPC_DEADLINE_EXCEEDED, "the deadline has passed", true);
    } else if (err == ERR_TOO_LARGE) {
        rpc_channel_finish(request, RPC_RESOURCE_EXHAUSTED,
                           "the header list is above the peer's limit", true);
    } else if (err == ERR_CANCELLED) {
        rpc_channel_finish(request, RPC_UNAVAILABLE, "withdrawn before it was sent", true);
    } else {
        rpc_channel_finish(request, RPC_UNAVAILABLE, "the call could not be sent in time", true);
    }
}

/* Put calls into the connection, as many as one gathered write can hold. */
static void send_ready(struct rpc_wire *wire)
{
    boot_us now_us = list_is_empty(&wire->ready) ? 0 : clock_boot_us();
    size_t gathered = 0;
    struct list *first;

    while ((first = list_first(&wire->ready)) != NULL && gathered < LINK_GATHER_BYTES &&
           rpc_caller_free_count(wire->caller) > 0) {
        struct rpc_request *request = LIST_ENTRY(first, struct rpc_request, node);
        int err;

        list_del(first);
        wire->ready_count--;
        gathered += LINK_HEADER_BYTES + request->payload.len;
        err = send_one(wire, request, now_us);
        if (err != 0) {
            withdraw(request, err, now_us);
        } else {
            wire->started_count++;
            rpc_channel_sent(request);
        }
    }
}

static int on_fill(void *ctx, uint8_t *space, size_t len)
{
    struct rpc_wire *wire = ctx;
    int filled;

    send_ready(wire);
    filled = rpc_caller_fill(wire->caller, space, len);
    if (filled == 0) {
        after_work(wire);
    }
    return filled;
}

static void on_written(void *ctx)
{
    struct rpc_wire *wire = ctx;

    rpc_caller_written(wire->caller, clock_boot_us());
}

static const struct conn_events wire_conn_events = {
    .take = on_take, .fill = on_fill, .written = on_written, .closed = on_conn_closed};

static void on_ready(void *ctx)
{
    struct rpc_wire *wire = ctx;
    struct rpc_slot *slot = wire->slot;

    if (slot != NULL) {
        slot->state = SLOT_READY;
        loop_timer_stop(&slot->timer);
        rpc_channel_work_soon(wire->channel);
    }
}

static void on_leaving(void *ctx, bool too_many_pings)
{
    struct rpc_wire *wire = ctx;
    struct rpc_channel *channel = wire->channel;

    if (too_many_pings) {
        channel->keepalive_ms = time_mul(channel->keepalive_ms, 2);
    }
    channel->wants_resolve = true;
    part(wire);
    requeue_ready(wire);
    rpc_channel_work_soon(channel);
}

static void on_ended(void *ctx, struct rpc_request *request, const struct rpc_reply *reply)
{
    struct rpc_wire *wire = ctx;

    request->connection = NULL;
    wire->is_useful = true;
    if (wire->slot != NULL) {
        wire->slot->backoff_ms = wire->channel->options.backoff_first_ms;
    }
    rpc_channel_ended(wire->channel, request, reply);
}

static const struct rpc_caller_events wire_caller_events = {
    .ready = on_ready, .leaving = on_leaving, .ended = on_ended};

/* Open the connection, with TLS if that is wanted. errors: as conn_open; fd is the caller's then.
 */
MUST_USE static int open_conn(struct rpc_wire *wire, int fd)
{
    struct rpc_channel *channel = wire->channel;
    struct conn_options options = {.fd = fd};
    struct tls_conn_options shaking = {.loop = channel->loop, .fd = fd, .host = channel->tls_host};
    int err = 0;

    if (channel->options.tls != NULL) {
        wire->why = mem_new(1, TLS_WHY_BYTES);
        shaking.why = wire->why;
        err =
            wire->why == NULL ? ERR_NO_MEMORY : tls_wrap(channel->options.tls, &shaking, &options);
    }
    if (err != 0) {
        return err;
    }
    err = conn_open(channel->loop, &options, &wire_conn_events, wire, &wire->conn);
    if (err != 0 && options.transport != NULL) {
        options.transport->free(options.transport_state);
    }
    return err;
}

static struct rpc_wire *new_wire(struct rpc_slot *slot, int fd)
{
    struct rpc_channel *channel = slot->channel;
    const struct rpc_caller_options options = {
        .authority = channel->authority,
        .scheme = channel->options.tls == NULL ? "http" : "https",
        .user_agent = channel->user_agent,
        .response_bytes_max = channel->options.response_bytes_max,
        .header_bytes_max = channel->options.header_bytes_max,
        .keepalive_ms = channel->keepalive_ms,
        .keepalive_timeout_ms = channel->options.keepalive_timeout_ms,
    };
    struct rpc_wire *wire = mem_new(1, sizeof(*wire));

    if (wire == NULL) {
        return NULL;
    }
    wire->channel = channel;
    wire->slot = slot;
    wire->opened_us = loop_now_us(channel->loop);
    list_init(&wire->node);
    list_init(&wire->ready);
    loop_timer_init(&wire->timer, channel->loop, on_wire_timer, wire);
    if (rpc_caller_open(&options, &wire_caller_events, wire, loop_now_us(channel->loop),
                        &wire->caller) != 0) {
        mem_free(wire);
        return NULL;
    }
    if (open_conn(wire, fd) != 0) {
        rpc_caller_close(wire->caller);
        mem_free(wire->why);
        mem_free(wire);
        return NULL;
    }
    list_add(&channel->wires, &wire->node);
    conn_flush(wire->conn);
    return wire;
}

static void on_dialled(int err, int fd, void *ctx)
{
    struct rpc_slot *slot = ctx;

    if (err != 0) {
        slot->channel->failure = err == ERR_UNAVAILABLE ? "no connection: nobody accepts it there"
                                                        : "no connection: it cannot be reached";
        fail_slot(slot);
        return;
    }
    slot->wire = new_wire(slot, fd);
    if (slot->wire == NULL) {
        (void)close(fd);
        slot->channel->failure = "no connection: no memory for it";
        fail_slot(slot);
        return;
    }
    slot->state = SLOT_GREETING;
}

static void start_dial(struct rpc_slot *slot)
{
    slot->state = SLOT_DIALLING;
    loop_timer_start_in(&slot->timer, slot->channel->options.connect_timeout_ms);
    dial_start(&slot->dial, &slot->address);
}

/* ---- names ---- */

/* An address that the latest look-up did not give, or NULL. */
static struct rpc_slot *find_unknown(struct rpc_channel *channel)
{
    list_foreach (node, &channel->slots) {
        struct rpc_slot *slot = LIST_ENTRY(node, struct rpc_slot, node);

        if (!slot->is_known) {
            return slot;
        }
    }
    return NULL;
}

/* Take over the addresses that a name has now. */
static void reconcile(struct rpc_channel *channel, const struct address *addresses, size_t count)
{
    size_t max = channel->options.addresses_max;
    struct rpc_slot *gone;

    list_foreach (node, &channel->slots) {
        LIST_ENTRY(node, struct rpc_slot, node)->is_known = false;
    }
    for (size_t i = 0; i < count && i < max; i++) {
        struct rpc_slot *slot = find_slot(channel, &addresses[i]);

        if (slot != NULL) {
            slot->is_known = true;
        } else if (new_slot(channel, &addresses[i]) != 0) {
            break; // Out of memory: make do with the others.
        }
    }
    while ((gone = find_unknown(channel)) != NULL) {
        free_slot(gone);
    }
}

static void on_resolved(struct resolve_request *request, int err, const struct address *addresses,
                        size_t count, void *ctx)
{
    struct rpc_channel *channel = ctx;

    (void)request;
    channel->is_resolving = false;
    if (!channel->is_closing) {
        if (err == 0) {
            reconcile(channel, addresses, count);
        }
        if (list_is_empty(&channel->slots)) {
            rpc_channel_fail_queue(channel, err == ERR_NOT_FOUND
                                                ? "the host's name is unknown"
                                                : "the target's name could not be looked up");
        }
    }
    rpc_channel_work_soon(channel);
}

static void start_resolve(struct rpc_channel *channel, bool is_fresh)
{
    channel->wants_resolve = false;
    if (channel->target.is_numeric || channel->is_resolving) {
        return;
    }
    channel->resolving = (struct resolve_request){.host = channel->target.host,
                                                  .port = channel->target.port,
                                                  .is_fresh = is_fresh,
                                                  .cb = on_resolved,
                                                  .ctx = channel};
    channel->is_resolving = resolver_find(channel->options.resolver, &channel->resolving) == 0;
}

/* ---- for the calls' side ---- */

int rpc_link_open(struct rpc_channel *channel)
{
    struct address address;

    if (!channel->target.is_numeric) {
        return 0;
    }
    REQUIRE(address_parse(channel->target.host, channel->target.port, &address) == 0);
    return new_slot(channel, &address);
}

/* How many calls a slot's connection takes now. */
static uint32_t room(const struct rpc_slot *slot)
{
    uint32_t free_count;

    if (slot->state != SLOT_READY) {
        return 0;
    }
    free_count = rpc_caller_free_count(slot->wire->caller);
    return free_count > slot->wire->ready_count ? free_count - slot->wire->ready_count : 0;
}

struct rpc_wire *rpc_link_pick(struct rpc_channel *channel)
{
    struct rpc_slot *found = NULL;

    list_foreach (node, &channel->slots) {
        struct rpc_slot *slot = LIST_ENTRY(node, struct rpc_slot, node);

        if (room(slot) == 0) {
            continue;
        }
        if (!conn_is_blocked(slot->wire->conn)) {
            found = slot;
            break;
        }
        found = found == NULL ? slot : found; // Slow, but better than none.
    }
    if (found == NULL) {
        return NULL;
    }
    list_del(&found->node);
    list_add(&channel->slots, &found->node); // The others come first next time.
    return found->wire;
}

void rpc_link_give(struct rpc_wire *wire, struct rpc_request *request)
{
    request->connection = wire;
    list_add(&wire->ready, &request->node);
    wire->ready_count++;
    conn_flush(wire->conn);
}

void rpc_link_take_back(struct rpc_request *request)
{
    struct rpc_wire *wire = request->connection;

    if (request->stream != NULL) {
        rpc_caller_drop(wire->caller, request);
        conn_flush(wire->conn);
    } else {
        list_del(&request->node);
        wire->ready_count--;
    }
    request->connection = NULL;
    wire->channel->active_count--;
}

/* Make connections from addresses that have none. True if one is or may become ready. */
static bool dial_idle(struct rpc_channel *channel)
{
    bool is_hopeful = false;

    list_foreach (node, &channel->slots) {
        struct rpc_slot *slot = LIST_ENTRY(node, struct rpc_slot, node);

        if (slot->state == SLOT_IDLE) {
            start_dial(slot);
        }
        is_hopeful = is_hopeful || slot->state != SLOT_WAITING;
    }
    return is_hopeful;
}

bool rpc_link_connect(struct rpc_channel *channel)
{
    if (list_is_empty(&channel->slots) || channel->wants_resolve) {
        start_resolve(channel, channel->wants_resolve);
    }
    return dial_idle(channel) || channel->is_resolving;
}

uint32_t rpc_link_free_count(const struct rpc_channel *channel, bool *is_hopeful)
{
    uint32_t free_count = 0;

    *is_hopeful = list_is_empty(&channel->slots);
    list_foreach (node, &channel->slots) {
        const struct rpc_slot *slot = LIST_ENTRY(node, struct rpc_slot, node);

        free_count += room(slot);
        *is_hopeful = *is_hopeful || (slot->state != SLOT_WAITING && slot->state != SLOT_READY);
    }
    return free_count;
}

enum rpc_channel_state rpc_link_state(const struct rpc_channel *channel)
{
    bool is_trying = channel->is_resolving;
    bool is_waiting = false;

    list_foreach (node, &channel->slots) {
        const struct rpc_slot *slot = LIST_ENTRY(node, struct rpc_slot, node);

        if (slot->state == SLOT_READY) {
            return RPC_CHANNEL_READY;
        }
        is_trying = is_trying || slot->state == SLOT_DIALLING || slot->state == SLOT_GREETING;
        is_waiting = is_waiting || slot->state == SLOT_WAITING;
    }
    if (is_trying) {
        return RPC_CHANNEL_CONNECTING;
    }
    return is_waiting ? RPC_CHANNEL_FAILED : RPC_CHANNEL_IDLE;
}

void rpc_link_count(const struct rpc_channel *channel, struct rpc_channel_stats *out)
{
    *out = (struct rpc_channel_stats){.least_started = UINT64_MAX};
    list_foreach (node, &channel->slots) {
        const struct rpc_slot *slot = LIST_ENTRY(node, struct rpc_slot, node);
        uint64_t started;

        if (slot->state != SLOT_READY) {
            continue;
        }
        started = slot->wire->started_count;
        out->connection_count++;
        out->started_count += started;
        out->least_started = started < out->least_started ? started : out->least_started;
    }
    if (out->connection_count == 0) {
        out->least_started = 0;
    }
}

void rpc_link_cancel_all(struct rpc_wire *wire)
{
    struct rpc_request *request;

    while ((request = rpc_caller_first(wire->caller)) != NULL) {
        rpc_channel_cancel(request);
    }
    while (!list_is_empty(&wire->ready)) {
        rpc_channel_cancel(LIST_ENTRY(list_first(&wire->ready), struct rpc_request, node));
    }
}

bool rpc_link_close(struct rpc_channel *channel)
{
    struct list *first;

    while ((first = list_first(&channel->slots)) != NULL) {
        free_slot(LIST_ENTRY(first, struct rpc_slot, node));
    }
    list_foreach (node, &channel->wires) {
        conn_close(LIST_ENTRY(node, struct rpc_wire, node)->conn, ERR_CANCELLED);
    }
    if (channel->is_resolving) {
        resolver_cancel(channel->options.resolver, &channel->resolving);
    }
    return list_is_empty(&channel->wires) && !channel->is_resolving;
}
