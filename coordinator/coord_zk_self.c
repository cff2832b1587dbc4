/* SPDX-License-Identifier: Apache-2.0
 *
 * Our own znode below brokers/, and the config-version znode. As with a shard, the next call
 * follows from whose the znode is known to be, and what is uncertain is read first. The body is
 * written again until the latest revision stands in it.
 */
#include "coordinator/coord_zk_parts.h"

#include "coordinator/zk_body.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/io/clock.h"

#include <string.h>

enum call {
    CALL_CREATE = 1,
    CALL_READ,
    CALL_WRITE
};

static void on_reply(void *ctx, uint64_t tag, const struct zk_reply *reply);

static void send(struct coord_zk *zk, enum call kind, struct zk_call *call)
{
    struct zk_path path;

    zk_path_broker(&path, &zk->cluster_path, zk->self.node_name);
    call->path = path.text;
    call->cb = on_reply;
    call->ctx = zk;
    call->tag = (uint64_t)kind;
    zk->self.is_busy = zk_send(zk, call);
}

/* Create or write: both carry the latest revision. */
static void send_body(struct coord_zk *zk, enum call kind)
{
    struct zk_self *self = &zk->self;
    struct buf body;

    buf_init(&body, ZK_BODY_BYTES_MAX);
    zk_body_write_member(&body, &self->member, &zk->databases);
    if (!body.failed) {
        send(zk, kind,
             &(struct zk_call){
                 .kind = kind == CALL_CREATE ? ZK_CREATE : ZK_SET,
                 .data = buf_slice(&body),
                 .is_ephemeral = true,
                 .version = self->version, // Not over a newer one, if it is held back.
             });
    }
    buf_fini(&body);
    if (self->is_busy) {
        self->sent_revision = self->wanted_revision;
        list_move_all(&self->sent, &self->waiting);
    }
}

void zk_self_kick(struct coord_zk *zk)
{
    struct zk_self *self = &zk->self;

    // Not zk_is_ready(): to register is what makes it so.
    if (!zk->is_linked || !zk->is_cluster_known || self->is_busy ||
        (zk->life != ZK_JOINING && zk->life != ZK_UP)) {
        return;
    }
    switch (self->known) {
    case ZK_NOBODY:
        send_body(zk, CALL_CREATE);
        return;
    case ZK_UNCERTAIN:
        send(zk, CALL_READ, &(struct zk_call){.kind = ZK_EXISTS});
        return;
    case ZK_OURS:
        if (self->written_revision != self->wanted_revision) {
            send_body(zk, CALL_WRITE);
        }
        return;
    case ZK_OTHERS: // Our own of an older session: the tick reads again until it has expired (Z-4).
        return;
    }
}

static void on_written(struct coord_zk *zk, int32_t version)
{
    struct zk_self *self = &zk->self;
    struct list *node;

    self->known = ZK_OURS;
    self->version = version;
    self->written_revision = self->sent_revision;
    while ((node = list_first(&self->sent)) != NULL) {
        zk_answer(zk, LIST_ENTRY(node, struct coord_request, link), 0);
    }
}

static void on_read(struct coord_zk *zk, const struct zk_reply *reply)
{
    struct zk_self *self = &zk->self;

    if (reply->code == ERR_NOT_FOUND) {
        self->known = ZK_NOBODY;
    } else if (reply->code == 0 && reply->stat.owner_session == zk->session_id) {
        self->known = ZK_OURS;
        if (self->version != reply->stat.version) {
            self->version = reply->stat.version;
            self->written_revision = 0; // Not what we wrote last.
        }
    } else if (reply->code == 0) {
        self->known = ZK_OTHERS;
        zk_note(zk, "our znode '%s' is of an older session: waiting for its expiry",
                self->node_name);
    }
}

static void on_reply(void *ctx, uint64_t tag, const struct zk_reply *reply)
{
    struct coord_zk *zk = ctx;
    struct zk_self *self = &zk->self;
    bool is_refused = reply->code == ERR_DENIED || reply->code == ERR_IO ||
                      (tag == CALL_CREATE && reply->code == ERR_NOT_FOUND);

    self->is_busy = false;
    if (is_refused) {
        zk_note(zk, "cannot register '%s': %s", self->node_name, err_text(reply->code));
        return; // The tick tries again.
    }
    if (tag == CALL_READ) {
        on_read(zk, reply);
    } else if (reply->code == 0) {
        on_written(zk, reply->stat.version);
    } else {
        self->known = reply->code == ERR_NOT_FOUND ? ZK_NOBODY : ZK_UNCERTAIN;
        self->written_revision = 0; // Which body stands there is unknown: written again.
    }
    if (self->known == ZK_OURS) {
        if (self->is_to_verify) {
            self->is_to_verify = false;
            zk_verified(zk);
        }
        zk_joined(zk);
    }
    zk_self_kick(zk);
}

void zk_self_publish(struct coord_zk *zk, struct coord_request *request)
{
    struct zk_self *self = &zk->self;

    REQUIRE(request->member != NULL);
    REQUIRE(strcmp(request->member->name, self->member.name) == 0);
    REQUIRE(strcmp(request->member->instance, self->member.instance) == 0);
    self->member = *request->member;
    self->wanted_revision++;
    list_add(&self->waiting, &request->link);
    zk_self_kick(zk);
}

void zk_self_is_gone(struct coord_zk *zk)
{
    if (!zk->self.is_busy) {
        zk->self.known = ZK_UNCERTAIN;
        zk_self_kick(zk);
    }
}

void zk_self_reset(struct coord_zk *zk)
{
    struct zk_self *self = &zk->self;

    memset(&self->member.owns, 0, sizeof(self->member.owns));
    self->known = ZK_NOBODY;
    self->is_busy = false;
    self->is_to_verify = false;
    self->wanted_revision++;
}

/* ---- config-version ---- */

static void on_config(struct coord_zk *zk, int64_t version)
{
    if (version != zk->config.version) {
        zk->config.version = version;
        zk->events.on_config(zk->events.ctx, version);
    }
}

static void on_config_read(void *ctx, uint64_t tag, const struct zk_reply *reply)
{
    struct coord_zk *zk = ctx;

    (void)tag;
    zk->config.is_reading = false;
    if (reply->code == 0) {
        on_config(zk, reply->stat.version);
    } else {
        zk->config.is_wanted = true; // Tried again by the tick, or after the reconnect.
    }
}

static void on_nudged(void *ctx, uint64_t tag, const struct zk_reply *reply)
{
    struct coord_zk *zk = ctx;
    struct list *head = list_first(&zk->config.nudges);

    (void)tag;
    zk->config.is_nudging = false;
    // Ran out of time, or to be repeated: one nudge too many harms nobody.
    if (reply->code == 0 && head != NULL) {
        struct coord_request *request = LIST_ENTRY(head, struct coord_request, link);

        request->generation = reply->stat.version;
        zk_answer(zk, request, 0);
        zk_config_kick(zk);
    } else if (reply->code != ERR_OUTCOME_UNKNOWN && reply->code != 0) {
        zk_note(zk, "cannot write config-version: %s", err_text(reply->code));
    }
}

static void send_nudge(struct coord_zk *zk, const struct zk_path *path)
{
    struct zk_config_body body = {.at_ms = clock_wall_ms()};
    struct buf text;

    memcpy(body.broker, zk->self.member.name, sizeof(body.broker));
    buf_init(&text, ZK_BODY_BYTES_MAX);
    zk_body_write_config(&text, &body);
    if (!text.failed) {
        zk->config.is_nudging = zk_send(zk, &(struct zk_call){
                                                .kind = ZK_SET,
                                                .path = path->text,
                                                .data = buf_slice(&text),
                                                .version = -1,
                                                .cb = on_nudged,
                                                .ctx = zk,
                                            });
    }
    buf_fini(&text);
}

void zk_config_kick(struct coord_zk *zk)
{
    struct zk_config *config = &zk->config;
    struct zk_path path;

    if (!zk_is_ready(zk)) {
        return;
    }
    zk_path_config(&path, &zk->cluster_path);
    if (config->is_wanted && !config->is_reading) {
        config->is_wanted = false;
        config->is_reading =
            zk_send(zk, &(struct zk_call){
                            .kind = ZK_EXISTS,
                            .path = path.text,
                            .is_watched = zk_watch_add(zk, &config->is_watched, &path),
                            .cb = on_config_read,
                            .ctx = zk,
                        });
        config->is_wanted = !config->is_reading;
    }
    if (!list_is_empty(&config->nudges) && !config->is_nudging) {
        send_nudge(zk, &path);
    }
}

void zk_config_nudge(struct coord_zk *zk, struct coord_request *request)
{
    list_add(&zk->config.nudges, &request->link);
    zk_config_kick(zk);
}

void zk_config_refresh(struct coord_zk *zk)
{
    zk->config.is_wanted = true;
    zk_config_kick(zk);
}

void zk_config_on_watch(struct coord_zk *zk)
{
    struct zk_path path;

    zk_path_config(&path, &zk->cluster_path);
    zk_watch_del(zk, &zk->config.is_watched, &path);
    zk_config_refresh(zk);
}

void zk_config_reset(struct coord_zk *zk)
{
    struct zk_path path;

    zk_path_config(&path, &zk->cluster_path);
    zk_watch_del(zk, &zk->config.is_watched, &path);
    zk->config.is_reading = false;
    zk->config.is_nudging = false;
    zk->config.is_wanted = true;
}
