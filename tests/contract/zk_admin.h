/* SPDX-License-Identifier: Apache-2.0
 *
 * A person with zkCli, for tests: reads, writes and deletes znodes past the coordinator, through a
 * link of its own on the world's loop.
 */
#ifndef FOLIOT_TESTS_CONTRACT_ZK_ADMIN_H
#define FOLIOT_TESTS_CONTRACT_ZK_ADMIN_H

#include "coordinator/coord_zk_link.h"
#include "coordinator/zk_path.h"
#include "tests/contract/coord_world_zk.h"

static struct admin {
    struct zk_link *link;
    bool is_connected;
    bool is_closed;
    bool is_answered;
    int code;
    struct zk_stat stat;
    char data[4096];
} admin;

static void admin_on_connected(void *ctx, int64_t session_id, span_ms timeout_ms)
{
    (void)ctx;
    (void)session_id;
    (void)timeout_ms;
    admin.is_connected = true;
}

static void admin_on_away(void *ctx)
{
    (void)ctx;
    admin.is_connected = false;
}

static void admin_on_dead(void *ctx, const char *why)
{
    (void)ctx;
    must_fail(MUST_HERE, "the test's own session ended: %s", why);
}

static void admin_on_watch(void *ctx, const char *path)
{
    (void)ctx;
    (void)path;
}

static void admin_open(void)
{
    struct zk_link_options options = {
        .loop = world.loop,
        .hosts = world.fixture.zk_hosts,
        .session_timeout_ms = 30000,
        .events = {.on_connected = admin_on_connected,
                   .on_away = admin_on_away,
                   .on_dead = admin_on_dead,
                   .on_watch = admin_on_watch},
    };

    memset(&admin, 0, sizeof(admin));
    MUST_OK(zk_link_open(&options, &admin.link));
    WORLD_UNTIL(admin.is_connected);
}

static void admin_on_closed(void *ctx)
{
    (void)ctx;
    admin.is_closed = true;
}

static void admin_close(void)
{
    zk_link_close(admin.link, admin_on_closed, NULL);
    WORLD_UNTIL(admin.is_closed);
}

static void admin_on_reply(void *ctx, uint64_t tag, const struct zk_reply *reply)
{
    (void)ctx;
    (void)tag;
    admin.is_answered = true;
    admin.code = reply->code;
    admin.stat = reply->stat;
    MUST(reply->data.len < sizeof(admin.data));
    if (reply->data.len > 0) {
        memcpy(admin.data, reply->data.data, reply->data.len);
    }
    admin.data[reply->data.len] = '\0';
}

/* shape: path below the cluster, "" for itself; data NULL for none. */
static int admin_do(enum zk_call_kind kind, const char *path, const char *data)
{
    char full[ZK_PATH_SIZE];
    struct zk_call call = {
        .kind = kind,
        .path = full,
        .data = data == NULL ? (struct slice){NULL, 0} : slice_of(data),
        .version = -1,
        .cb = admin_on_reply,
    };

    (void)snprintf(full, sizeof(full), "/foliot/%s%s", world.fixture.name, path);
    admin.is_answered = false;
    MUST_OK(zk_link_call(admin.link, &call));
    WORLD_UNTIL(admin.is_answered);
    return admin.code;
}

#endif
