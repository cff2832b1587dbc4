/* SPDX-License-Identifier: Apache-2.0
 *
 * Each attempt on the wire: it leaves its broker when the call's headers do, a receiver has it once
 * or not at all, whole or not at all, and what is said to be provably not done was not done.
 */
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/rpc/rpc_caller.h"
#include "lib/rpc/rpc_method.h"
#include "proto/codec_receiver.h"
#include "tests/sim/check.h"
#include "tests/sim/check_parts.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/wire.h"

#include "foliot/v1/receiver.pb-c.h"

#include <string.h>

/* Attempts of one run. */
#define TRACK_COUNT_MAX 100000000

int wire_channel_call(struct rpc_channel *channel,
                      struct rpc_request *request) __asm__("__wrap_rpc_channel_call");
int real_channel_call(struct rpc_channel *channel,
                      struct rpc_request *request) __asm__("__real_rpc_channel_call");

int wire_caller_take(struct rpc_caller *caller, boot_us now_us,
                     struct slice bytes) __asm__("__wrap_rpc_caller_take");
int real_caller_take(struct rpc_caller *caller, boot_us now_us,
                     struct slice bytes) __asm__("__real_rpc_caller_take");
void wire_call_fail(struct rpc_call *call,
                    const struct rpc_failure *failure) __asm__("__wrap_rpc_call_fail_with");
void real_call_fail(struct rpc_call *call,
                    const struct rpc_failure *failure) __asm__("__real_rpc_call_fail_with");

/* An attempt that a core has handed out. */
struct track {
    struct list link;   /* in watch->tracks */
    struct track *next; /* of the same key in the map */
    struct task_id id;
    const struct sim_node *node;
    uint32_t life;
    struct attempt attempt; /* a copy; its bytes are borrowed while it is out */
    uint8_t *payload;
    uint8_t *key;
    bool is_out;  /* its outcome has not been told */
    bool is_sent; /* its headers have left */
    bool has_arrived;
    bool is_refuted;   /* its broker has been told that it was not done */
    enum outcome said; /* by its receiver; 0: nothing yet */
};

/* Beside a request of an outbound: its own before_send. */
struct tap {
    rpc_before_send_fn before_send;
    rpc_sent_fn sent;
    rpc_reply_cb cb;
    void *ctx;
    struct slice payload;
};

struct wire_watch {
    struct sim *sim;
    struct map by_key;
    struct list tracks;
};

uint8_t wire_pattern(uint64_t token, size_t at)
{
    return (uint8_t)((token + at) * UINT64_C(0x9e3779b97f4a7c15) >> 56);
}

static uint64_t key_of(struct task_id id, uint32_t attempt)
{
    return ((uint64_t)id.seq * 4096 + id.slot) * UINT64_C(0x9e3779b97f4a7c15) + attempt;
}

static bool is_of(const struct track *track, struct task_id id, uint32_t attempt,
                  wall_ms deadline_ms)
{
    return track->id.seq == id.seq && track->id.slot == id.slot &&
           track->attempt.attempt == attempt && track->attempt.deadline_ms == deadline_ms;
}

/* Its number alone does not name it: a promotion that has lost a claim gives it again, mostly with
 * another deadline. The last one. */
static struct track *find(const struct wire_watch *watch, struct task_id id, uint32_t attempt,
                          wall_ms deadline_ms)
{
    struct track *track = map_find(&watch->by_key, key_of(id, attempt));

    while (track != NULL && !is_of(track, id, attempt, deadline_ms)) {
        track = track->next;
    }
    return track;
}

/* The first one that the broker has out, and has not sent if that is asked for. */
static struct track *find_out(const struct wire_watch *watch, struct task_id id, uint32_t attempt,
                              wall_ms deadline_ms, bool is_unsent)
{
    struct track *found = NULL;

    for (struct track *track = find(watch, id, attempt, deadline_ms); track != NULL;
         track = track->next) {
        if (is_of(track, id, attempt, deadline_ms) && track->is_out &&
            (!is_unsent || !track->is_sent)) {
            found = track;
        }
    }
    return found;
}

/* ---- the broker's side ---- */

static void put(struct wire_watch *watch, struct track *track)
{
    uint64_t key = key_of(track->id, track->attempt.attempt);
    struct track *first = map_find(&watch->by_key, key);
    int err;

    track->next = first;
    err = first == NULL ? map_put(&watch->by_key, key, track)
                        : map_change(&watch->by_key, key, track);
    REQUIRE(err == 0);
    list_add(&watch->tracks, &track->link);
}

static uint8_t *copy(struct slice bytes)
{
    uint8_t *own = sim_need(1, bytes.len + 1);

    if (bytes.len > 0) {
        memcpy(own, bytes.data, bytes.len);
    }
    return own;
}

void wire_watch_start(struct wire_watch *watch, const struct sim_node *node,
                      const struct attempt *attempt)
{
    struct track *track = find(watch, attempt->id, attempt->attempt, attempt->deadline_ms);
    const struct check_task *task = check_task_find(watch->sim->check, attempt->shard, attempt->id);

    // Of a claim that a promotion has lost the next one may have number and deadline.
    if (track != NULL && track->is_sent && !track->is_refuted &&
        (task == NULL || !check_is_doubled(task, attempt->attempt))) {
        sim_fail(watch->sim, SIM_UNSAFE, "K-2", "attempt %u of %llx is handed out again",
                 attempt->attempt, (unsigned long long)attempt->id.seq);
    }
    track = sim_need(1, sizeof(*track));
    track->id = attempt->id;
    track->node = node;
    track->life = node->life;
    track->attempt = *attempt;
    track->payload = copy(attempt->payload);
    track->key = copy(attempt->key);
    track->attempt.payload.data = track->payload;
    track->attempt.key.data = track->key;
    track->is_out = true;
    put(watch, track);
}

void wire_watch_end(struct wire_watch *watch, const struct sim_node *node,
                    const struct attempt *attempt)
{
    struct track *track =
        find_out(watch, attempt->id, attempt->attempt, attempt->deadline_ms, false);
    bool is_refuted;

    REQUIRE(track != NULL);
    is_refuted = attempt->outcome == OUTCOME_NOT_STARTED ||
                 (attempt->outcome == OUTCOME_RETRY && track->said != OUTCOME_RETRY);
    if (!track->is_sent && attempt->outcome == OUTCOME_RETRY) {
        check_unreached(watch->sim->check, node, attempt);
    }
    check_reported(watch->sim->check, node, attempt, attempt->outcome);
    track->is_out = false;
    track->is_refuted = is_refuted;
    if (is_refuted && track->has_arrived) {
        sim_fail(watch->sim, SIM_UNSAFE, "N-5",
                 "attempt %u of %llx is said not to have started, but its receiver has it",
                 attempt->attempt, (unsigned long long)attempt->id.seq);
    }
}

static wall_ms deadline_of(const Foliot__V1__Attempt *attempt)
{
    return attempt->deadline->seconds * MS_PER_S + attempt->deadline->nanos / 1000000;
}

/* The headers of a Deliver go out now. */
static void note_send(struct wire_watch *watch, struct slice message)
{
    Foliot__V1__DeliverRequest *request =
        foliot__v1__deliver_request__unpack(NULL, message.len, message.data);

    REQUIRE(request != NULL);
    for (size_t i = 0; i < request->n_attempts; i++) {
        const Foliot__V1__Attempt *attempt = request->attempts[i];
        struct task_id id;
        struct track *track;

        REQUIRE(task_id_parse(slice_of(attempt->task_id), &id) == 0);
        track = find_out(watch, id, attempt->attempt, deadline_of(attempt), true);
        if (track == NULL) { // It is sent again.
            track = find(watch, id, attempt->attempt, deadline_of(attempt));
        }
        REQUIRE(track != NULL && track->is_out);
        track->is_sent = true;
        check_start(watch->sim->check, track->node, &track->attempt);
    }
    foliot__v1__deliver_request__free_unpacked(request, NULL);
}

static bool before_send(struct rpc_request *request, void *ctx)
{
    struct tap *tap = ctx;
    struct sim *sim = wire_current()->sim;
    bool was_in_core;

    if (tap->before_send != NULL && !tap->before_send(request, tap->ctx)) {
        return false;
    }
    was_in_core = sim_enter_world(sim);
    note_send(sim->wire->watch, tap->payload);
    sim_leave_world(sim, was_in_core);
    return true;
}

static void on_sent(struct rpc_request *request, boot_us sent_us, void *ctx)
{
    struct tap *tap = ctx;

    tap->sent(request, sent_us, tap->ctx);
}

static void on_reply(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    struct tap tap = *(struct tap *)ctx;

    mem_free(ctx);
    TRACE(&wire_current()->sim->trace, "delivered", reply->status, reply->unprocessed,
          reply->from_peer);
    tap.cb(request, reply, tap.ctx);
}

/* The outbound's calls are seen on their way to the channel. */
int wire_channel_call(struct rpc_channel *channel, struct rpc_request *request)
{
    struct tap *tap;
    int err;

    if (strcmp(request->path, RECEIVER_DELIVER_PATH) != 0) {
        return real_channel_call(channel, request);
    }
    tap = mem_new(1, sizeof(*tap));
    if (tap == NULL) {
        return ERR_NO_MEMORY;
    }
    *tap = (struct tap){request->before_send, request->sent, request->cb, request->ctx,
                        request->payload};
    request->before_send = before_send;
    request->sent = request->sent == NULL ? NULL : on_sent;
    request->cb = on_reply;
    request->ctx = tap;
    err = real_channel_call(channel, request);
    if (err != 0) {
        request->ctx = tap->ctx;
        mem_free(tap);
    }
    return err;
}

/* Links lose and change nothing, so what a client cannot read is a fault of ours. */
int wire_caller_take(struct rpc_caller *caller, boot_us now_us, struct slice bytes)
{
    struct sim *sim = wire_current()->sim;
    int err = real_caller_take(caller, now_us, bytes);

    if (err == ERR_PROTOCOL && sim->options.no_memory_permille == 0) {
        sim_fail(sim, SIM_UNSAFE, "N-2", "a client of ours cannot read what a server has sent");
    }
    return err;
}

void wire_call_fail(struct rpc_call *call, const struct rpc_failure *failure)
{
    struct rpc_failure changed = *failure;

    if (wire_current()->sim->options.mutant == SIM_MUTANT_WIRE_EARLY &&
        changed.status == RPC_UNKNOWN) {
        changed.status = RPC_UNAVAILABLE;
        changed.details = (struct slice){NULL, 0};
    }
    real_call_fail(call, &changed);
}

/* ---- the receiver's side ---- */

static bool is_whole(const struct track *track, const struct wire_arrival *arrival)
{
    const struct attempt *attempt = &track->attempt;
    uint64_t token = check_token(arrival->payload);

    for (size_t i = sizeof(token); i < arrival->payload.len; i++) {
        if (arrival->payload.data[i] != wire_pattern(token, i)) {
            return false;
        }
    }
    return arrival->payload.len == attempt->payload.len &&
           memcmp(arrival->payload.data, attempt->payload.data, attempt->payload.len) == 0 &&
           arrival->key.len == attempt->key.len &&
           memcmp(arrival->key.data, attempt->key.data, attempt->key.len) == 0 &&
           arrival->deadline_ms == attempt->deadline_ms;
}

bool wire_watch_arrive(struct wire_watch *watch, const struct wire_arrival *arrival)
{
    struct track *track = find(watch, arrival->id, arrival->attempt, arrival->deadline_ms);
    const char *wrong = NULL;

    TRACE(&watch->sim->trace, "arrive", arrival->id.seq, arrival->attempt);
    if (track == NULL || !track->is_sent) {
        wrong = "never left a broker";
    } else if (track->has_arrived) {
        wrong = "has arrived twice";
    } else if (!is_whole(track, arrival)) {
        wrong = "has other bytes than it left with";
    } else if (track->is_refuted) {
        wrong = "was said not to have started";
    }
    if (wrong != NULL) {
        sim_fail(watch->sim, SIM_UNSAFE, "wire", "attempt %u of %llx %s", arrival->attempt,
                 (unsigned long long)arrival->id.seq, wrong);
        return false;
    }
    track->has_arrived = true;
    return true;
}

void wire_watch_say(struct wire_watch *watch, const struct wire_arrival *arrival,
                    enum outcome outcome)
{
    struct track *track = find(watch, arrival->id, arrival->attempt, arrival->deadline_ms);

    track->said = outcome;
    check_receiver(watch->sim->check, &track->attempt, outcome);
}

span_ms wire_watch_timeout(const struct wire_watch *watch, const struct wire_arrival *arrival)
{
    return find(watch, arrival->id, arrival->attempt, arrival->deadline_ms)->attempt.timeout_ms;
}

/* ---- life ---- */

struct wire_watch *wire_watch_new(struct sim *sim)
{
    struct wire_watch *watch = sim_need(1, sizeof(*watch));

    watch->sim = sim;
    map_init(&watch->by_key, TRACK_COUNT_MAX);
    list_init(&watch->tracks);
    return watch;
}

void wire_watch_free(struct wire_watch *watch)
{
    struct list *link;

    while ((link = list_take_first(&watch->tracks)) != NULL) {
        struct track *track = LIST_ENTRY(link, struct track, link);

        mem_free(track->payload);
        mem_free(track->key);
        mem_free(track);
    }
    map_fini(&watch->by_key);
    mem_free(watch);
}
