/* SPDX-License-Identifier: Apache-2.0
 *
 * Owner znodes. A shard's next call follows from three things: the request at the head of its
 * queue, whose the znode is known to be, and whether a generation has been got. A reply changes
 * only what is known; an unknown outcome makes the znode uncertain, and what is uncertain is read
 * before anything else (Z-3). So one path serves retries, reconnects and requests that ran out of
 * time.
 *
 *   ACQUIRE   nobody: create    ours: set the shard's znode, read again, answer    others: answer
 *   RELEASE   uncertain: read   ours: delete                                    else: answer
 *   STATE     ours: set
 *   none      not held, uncertain or ours: read, delete what is ours
 */
#include "coordinator/coord_zk_parts.h"

#include "coordinator/zk_body.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/io/clock.h"

#include <string.h>

/* Longest that a request is held back in the network after its connection broke, and arrives all
 * the same; or the session timeout, by which its server has closed that connection too. */
#define STRAY_MS_MAX 5000

/* Most that the server that we read from is behind what has arrived. */
#define BEHIND_MS_MAX 5000

/* Longest owner or shard body: a member name, twice its length if it were all escapes, and words.
 */
#define OWNER_BYTES_MAX 1024

/* What a call was, in its tag beside the shard. */
enum call {
    CALL_CREATE = 1,
    CALL_READ,
    CALL_RAISE, /* set the shard's znode: its version is the generation */
    CALL_WRITE, /* set the owner znode's body */
    CALL_DELETE
};

static void on_reply(void *ctx, uint64_t tag, const struct zk_reply *reply);

static struct coord_request *head_of(struct zk_shard *shard)
{
    struct list *first = list_first(&shard->requests);

    return first == NULL ? NULL : LIST_ENTRY(first, struct coord_request, link);
}

static bool is_head(struct zk_shard *shard, enum coord_request_kind kind)
{
    const struct coord_request *head = head_of(shard);

    return head != NULL && head->kind == kind;
}

static void answer_head(struct coord_zk *zk, struct zk_shard *shard, int result)
{
    struct coord_request *head = head_of(shard);

    REQUIRE(head != NULL);
    shard->is_begun = false;
    zk_answer(zk, head, result);
}

/* ---- calls ---- */

static void send(struct coord_zk *zk, uint32_t number, enum call kind, struct zk_call *call)
{
    call->cb = on_reply;
    call->ctx = zk;
    call->tag = (uint64_t)number << 8 | (uint64_t)kind;
    zk->shards[number].is_busy = zk_send(zk, call);
}

static void send_read(struct coord_zk *zk, uint32_t number)
{
    struct zk_shard *shard = &zk->shards[number];
    struct zk_path path;

    zk_path_owner(&path, &zk->cluster_path, number);
    send(zk, number, CALL_READ,
         &(struct zk_call){
             .kind = ZK_EXISTS,
             .path = path.text,
             .is_watched = shard->is_contended && zk_watch_add(zk, &shard->is_watched, &path),
         });
}

/* The body of the owner znode. shape: request is NULL for a new one. */
static void write_body(struct coord_zk *zk, const struct zk_shard *shard,
                       const struct coord_request *request, struct buf *out)
{
    struct zk_owner_body body = {
        .epoch = request == NULL ? 0 : request->epoch,
        .state = request == NULL ? COORD_LOADING : request->state,
        .since_ms = shard->since_ms,
    };

    memcpy(body.broker, zk->self.member.name, sizeof(body.broker));
    memcpy(body.instance, zk->self.member.instance, sizeof(body.instance));
    zk_body_write_owner(out, &body);
}

static void send_create(struct coord_zk *zk, uint32_t number)
{
    struct zk_shard *shard = &zk->shards[number];
    struct zk_path path;
    struct buf body;

    shard->since_ms = clock_wall_ms();
    shard->is_touched = true;
    zk_path_owner(&path, &zk->cluster_path, number);
    buf_init(&body, OWNER_BYTES_MAX);
    write_body(zk, shard, NULL, &body);
    if (!body.failed) {
        send(zk, number, CALL_CREATE,
             &(struct zk_call){
                 .kind = ZK_CREATE,
                 .path = path.text,
                 .data = buf_slice(&body),
                 .is_ephemeral = true,
             });
    }
    buf_fini(&body);
}

static void send_write(struct coord_zk *zk, uint32_t number)
{
    struct zk_shard *shard = &zk->shards[number];
    struct zk_path path;
    struct buf body;

    zk_path_owner(&path, &zk->cluster_path, number);
    buf_init(&body, OWNER_BYTES_MAX);
    write_body(zk, shard, head_of(shard), &body);
    if (!body.failed) {
        send(zk, number, CALL_WRITE,
             &(struct zk_call){
                 .kind = ZK_SET,
                 .path = path.text,
                 .data = buf_slice(&body),
                 .version = shard->version, // Not over the body of somebody else's node.
             });
    }
    buf_fini(&body);
}

static void send_raise(struct coord_zk *zk, uint32_t number)
{
    struct zk_path path;
    struct buf body;

    zk_read_base(zk); // The server has seen our create by now: it tells what was there before it.
    zk_path_shard(&path, &zk->cluster_path, number);
    buf_init(&body, OWNER_BYTES_MAX);
    zk_body_write_shard(&body, zk->databases.names[zk->cluster.database_of[number]]);
    if (!body.failed) {
        send(zk, number, CALL_RAISE,
             &(struct zk_call){
                 .kind = ZK_SET, .path = path.text, .data = buf_slice(&body), .version = -1});
    }
    buf_fini(&body);
}

static void send_delete(struct coord_zk *zk, uint32_t number)
{
    struct zk_path path;

    zk_path_owner(&path, &zk->cluster_path, number);
    send(zk, number, CALL_DELETE,
         &(struct zk_call){
             .kind = ZK_DELETE, .path = path.text, .version = zk->shards[number].version});
}

/* ---- what is next ---- */

/* The first look at a request. What was believed before it is read again, because it decides. */
static void begin(struct zk_shard *shard, const struct coord_request *head)
{
    shard->is_begun = true;
    shard->generation = 0;
    if (head->kind == COORD_STATE) {
        return;
    }
    if (shard->known != ZK_NOBODY) {
        shard->known = ZK_UNCERTAIN;
    }
    if (head->kind == COORD_RELEASE) {
        shard->is_held = false;
    }
    shard->is_contended = head->kind == COORD_ACQUIRE && !shard->is_held;
    shard->is_awaited = false;
}

static void next_acquire(struct coord_zk *zk, uint32_t number)
{
    struct zk_shard *shard = &zk->shards[number];
    struct coord_request *head = head_of(shard);

    if (shard->generation > 0) {
        if (shard->known == ZK_OURS) {
            shard->is_held = true;
            head->generation = shard->generation;
            answer_head(zk, shard, 0);
        } else {
            answer_head(zk, shard, ERR_FENCED);
        }
        return;
    }
    switch (shard->known) {
    case ZK_NOBODY:
        send_create(zk, number);
        return;
    case ZK_OURS:
        send_raise(zk, number);
        return;
    case ZK_OTHERS:
        shard->is_awaited = true;
        answer_head(zk, shard, ERR_EXISTS);
        return;
    case ZK_UNCERTAIN:
        return;
    }
}

static void next_release(struct coord_zk *zk, uint32_t number)
{
    struct zk_shard *shard = &zk->shards[number];

    if (shard->known == ZK_OURS) {
        send_delete(zk, number);
    } else {
        answer_head(zk, shard, 0);
    }
}

static void next_request(struct coord_zk *zk, uint32_t number, const struct coord_request *head)
{
    struct zk_shard *shard = &zk->shards[number];

    switch (head->kind) {
    case COORD_ACQUIRE:
        next_acquire(zk, number);
        return;
    case COORD_RELEASE:
        next_release(zk, number);
        return;
    case COORD_STATE:
        if (!shard->is_held) {
            answer_head(zk, shard, ERR_FENCED);
        } else {
            send_write(zk, number);
        }
        return;
    case COORD_PUBLISH:
    case COORD_NUDGE:
        UNREACHABLE();
    }
}

/* One step. False: nothing more can be done now. */
static bool step(struct coord_zk *zk, uint32_t number)
{
    struct zk_shard *shard = &zk->shards[number];
    struct coord_request *head = head_of(shard);

    if (shard->is_busy || shard->is_stalled) {
        return false;
    }
    if (head != NULL && !shard->is_begun) {
        begin(shard, head);
    }
    if (shard->known == ZK_UNCERTAIN || shard->is_to_verify) {
        send_read(zk, number);
        return false;
    }
    if (head != NULL) {
        next_request(zk, number, head);
        return head_of(shard) != head; // Answered: look at the next one.
    }
    if (shard->known == ZK_OURS && !shard->is_held) {
        send_delete(zk, number);
    }
    return false;
}

void zk_shard_kick(struct coord_zk *zk, uint32_t number)
{
    bool is_more = zk_is_ready(zk);

    while (is_more) {
        is_more = step(zk, number);
    }
}

void zk_shard_kick_all(struct coord_zk *zk)
{
    for (uint32_t number = 0; number < zk->cluster.shard_count; number++) {
        zk_shard_kick(zk, number);
    }
}

/* ---- replies ---- */

static void verified(struct coord_zk *zk, struct zk_shard *shard)
{
    if (shard->is_to_verify) {
        shard->is_to_verify = false;
        zk_verified(zk);
    }
}

/* What we hold has turned out not to be ours. */
static void check_held(struct coord_zk *zk, uint32_t number)
{
    struct zk_shard *shard = &zk->shards[number];
    bool is_lost = shard->is_held && (shard->known == ZK_NOBODY || shard->known == ZK_OTHERS);

    if (is_lost) {
        shard->is_held = false;
        zk_note(zk, "shard %u: our owner znode is gone, shard dropped", number);
        zk->events.on_shard_lost(zk->events.ctx, number);
    }
}

static void check_awaited(struct coord_zk *zk, uint32_t number)
{
    struct zk_shard *shard = &zk->shards[number];

    if (shard->is_awaited && shard->known == ZK_NOBODY) {
        shard->is_awaited = false;
        zk->events.on_shard_free(zk->events.ctx, number);
    }
}

static void on_read(struct coord_zk *zk, uint32_t number, const struct zk_reply *reply)
{
    struct zk_shard *shard = &zk->shards[number];

    if (reply->code == ERR_OUTCOME_UNKNOWN) {
        return;
    }
    if (reply->code != 0 && reply->code != ERR_NOT_FOUND) {
        shard->is_stalled = true;
        zk_note(zk, "shard %u: cannot read its owner znode: %s", number, err_text(reply->code));
        return;
    }
    shard->known = reply->code == ERR_NOT_FOUND                  ? ZK_NOBODY
                   : reply->stat.owner_session == zk->session_id ? ZK_OURS
                                                                 : ZK_OTHERS;
    shard->version = reply->stat.version;
    shard->is_contended = false;
    check_held(zk, number);
    verified(zk, shard); // After the loss: COORD_CONNECTED comes when it has been told.
    check_awaited(zk, number);
}

/* Until when a create without a known outcome may still come to light: after a read that found
 * nothing, and even after it was done again and what it made has been deleted. */
static boot_us suspect_until_us(const struct coord_zk *zk)
{
    span_ms held_ms = time_max(zk->session_timeout_ms, STRAY_MS_MAX);

    return time_add(loop_now_us(zk->loop), (held_ms + BEHIND_MS_MAX) * US_PER_MS);
}

static void on_created(struct coord_zk *zk, uint32_t number, const struct zk_reply *reply)
{
    struct zk_shard *shard = &zk->shards[number];

    switch (reply->code) {
    case 0:
        shard->known = ZK_OURS;
        shard->version = 0;
        return;
    case ERR_EXISTS: // Ours after a lost reply, or another's: the read tells, and leaves a watch.
        shard->known = ZK_UNCERTAIN;
        shard->is_contended = true;
        return;
    case ERR_OUTCOME_UNKNOWN:
        shard->known = ZK_UNCERTAIN;
        shard->suspect_until_us = suspect_until_us(zk);
        return;
    default:
        shard->is_stalled = true;
        zk_note(zk, "shard %u: cannot create its owner znode: %s", number, err_text(reply->code));
        return;
    }
}

static void on_raised(struct coord_zk *zk, uint32_t number, const struct zk_reply *reply)
{
    struct zk_shard *shard = &zk->shards[number];
    int64_t generation = zk->cluster.base + reply->stat.version;

    shard->known = ZK_UNCERTAIN; // The check that the znode is still ours is a read after this.
    if (reply->code == ERR_OUTCOME_UNKNOWN || !is_head(shard, COORD_ACQUIRE)) {
        return;
    }
    if (reply->code != 0) {
        shard->is_stalled = true;
        zk_note(zk, "shard %u: cannot write its znode: %s", number, err_text(reply->code));
        return;
    }
    if (generation < 1 || generation > GENERATION_MAX) {
        zk_note(zk, "shard %u: generation %lld is beyond the limit", number, (long long)generation);
        answer_head(zk, shard, ERR_FULL);
        return;
    }
    shard->generation = generation;
}

static void on_written(struct coord_zk *zk, uint32_t number, const struct zk_reply *reply)
{
    struct zk_shard *shard = &zk->shards[number];

    if (reply->code == 0) {
        shard->version = reply->stat.version;
        if (is_head(shard, COORD_STATE)) {
            answer_head(zk, shard, 0);
        }
        return;
    }
    if (reply->code == ERR_NOT_FOUND) {
        shard->known = ZK_NOBODY;
        check_held(zk, number);
        return;
    }
    shard->known = ZK_UNCERTAIN;
    shard->is_stalled = reply->code != ERR_OUTCOME_UNKNOWN && reply->code != ERR_CONFLICT;
}

static void on_deleted(struct zk_shard *shard, const struct zk_reply *reply)
{
    if (reply->code == 0 || reply->code == ERR_NOT_FOUND) {
        shard->known = ZK_NOBODY;
        return;
    }
    shard->known = ZK_UNCERTAIN;
    shard->is_stalled = reply->code != ERR_OUTCOME_UNKNOWN && reply->code != ERR_CONFLICT;
}

static void on_reply(void *ctx, uint64_t tag, const struct zk_reply *reply)
{
    struct coord_zk *zk = ctx;
    uint32_t number = (uint32_t)(tag >> 8);
    struct zk_shard *shard = &zk->shards[number];

    shard->is_busy = false;
    switch ((enum call)(tag & 0xffU)) {
    case CALL_CREATE:
        on_created(zk, number, reply);
        break;
    case CALL_READ:
        on_read(zk, number, reply);
        break;
    case CALL_RAISE:
        on_raised(zk, number, reply);
        break;
    case CALL_WRITE:
        on_written(zk, number, reply);
        break;
    case CALL_DELETE:
        on_deleted(shard, reply);
        break;
    }
    zk_shard_kick(zk, number);
}

/* ---- from outside ---- */

void zk_shard_submit(struct coord_zk *zk, struct coord_request *request)
{
    struct zk_shard *shard = &zk->shards[request->shard];

    list_add(&shard->requests, &request->link);
    zk_shard_kick(zk, request->shard);
}

void zk_shard_withdraw(struct coord_zk *zk, struct coord_request *request)
{
    struct zk_shard *shard = &zk->shards[request->shard];

    if (head_of(shard) == request) {
        shard->is_begun = false;
        shard->generation = 0;
    } else if (request->kind == COORD_RELEASE) {
        shard->is_held = false; // Never begun, but meant: what is left is deleted.
    }
    list_del(&request->link);
}

void zk_shard_on_watch(struct coord_zk *zk, uint32_t number)
{
    struct zk_shard *shard = &zk->shards[number];
    struct zk_path path;

    zk_path_owner(&path, &zk->cluster_path, number);
    zk_watch_del(zk, &shard->is_watched, &path);
    if (shard->is_awaited) {
        shard->known = ZK_UNCERTAIN;
        shard->is_contended = true;
        zk_shard_kick(zk, number);
    }
}

/* Read it again at the next kick. What is known to be nobody's needs no read. */
static void doubt(struct zk_shard *shard)
{
    if (shard->known != ZK_NOBODY) {
        shard->known = ZK_UNCERTAIN;
    }
    shard->is_contended = shard->is_contended || shard->is_awaited;
    shard->is_stalled = false;
}

uint32_t zk_shard_verify_all(struct coord_zk *zk)
{
    uint32_t count = 0;

    for (uint32_t number = 0; number < zk->cluster.shard_count; number++) {
        struct zk_shard *shard = &zk->shards[number];

        doubt(shard);
        shard->is_to_verify = shard->is_held;
        count += shard->is_held ? 1 : 0;
    }
    return count;
}

void zk_shard_reset_all(struct coord_zk *zk)
{
    for (uint32_t number = 0; number < zk->cluster.shard_count; number++) {
        struct zk_shard *shard = &zk->shards[number];
        struct zk_path path;

        zk_path_owner(&path, &zk->cluster_path, number);
        zk_watch_del(zk, &shard->is_watched, &path);
        shard->known = ZK_NOBODY;
        shard->generation = 0;
        shard->is_busy = false;
        shard->is_begun = false;
        shard->is_held = false;
        shard->is_awaited = false;
        shard->is_contended = false;
        shard->is_to_verify = false;
        shard->is_stalled = false;
        shard->is_touched = false;
        shard->suspect_until_us = 0;
    }
}

/* It is read at each beat, and once more when nothing can come any more: a time and no count of
 * reads, for beats are as short as the session timeout has them. */
static void look_at_suspect(struct zk_shard *shard, boot_us now)
{
    if (shard->suspect_until_us == 0 || shard->is_busy) {
        return;
    }
    if (now >= shard->suspect_until_us) {
        shard->suspect_until_us = 0;
    }
    shard->known = ZK_UNCERTAIN;
}

void zk_shard_second(struct coord_zk *zk)
{
    for (uint32_t number = 0; number < zk->cluster.shard_count; number++) {
        struct zk_shard *shard = &zk->shards[number];

        shard->is_stalled = false;
        look_at_suspect(shard, loop_now_us(zk->loop));
        if (shard->is_awaited && !shard->is_watched) { // The limit of watches: polled.
            shard->known = ZK_UNCERTAIN;
            shard->is_contended = true;
        }
        zk_shard_kick(zk, number);
    }
}

void zk_shard_minute(struct coord_zk *zk)
{
    for (uint32_t number = 0; number < zk->cluster.shard_count; number++) {
        struct zk_shard *shard = &zk->shards[number];

        if (!shard->is_busy && (shard->is_touched || shard->is_awaited)) {
            shard->known = ZK_UNCERTAIN;
        }
        shard->is_contended = shard->is_contended || shard->is_awaited;
        zk_shard_kick(zk, number);
    }
}
