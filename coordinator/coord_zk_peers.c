/* SPDX-License-Identifier: Apache-2.0
 *
 * The member list: a watched list of names, and the watched body of each. An event only marks what
 * is to be read again (Z-8). The list is told once all of its bodies have been read for the first
 * time, and then after each change, once per turn.
 */
#include "coordinator/coord_zk_parts.h"

#include "coordinator/zk_body.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

static struct zk_peer *peer_of(struct list *node)
{
    return LIST_ENTRY(node, struct zk_peer, node);
}

static struct zk_peer *find(struct coord_zk *zk, const char *node_name)
{
    list_foreach (node, &zk->peers.list) {
        if (strcmp(peer_of(node)->node_name, node_name) == 0) {
            return peer_of(node);
        }
    }
    return NULL;
}

static void peer_path(struct zk_path *out, const struct zk_peer *peer)
{
    zk_path_broker(out, &peer->zk->cluster_path, peer->node_name);
}

static void peer_free(struct zk_peer *peer)
{
    struct zk_path path;

    peer_path(&path, peer);
    zk_watch_del(peer->zk, &peer->is_watched, &path);
    list_del(&peer->node);
    peer->zk->peers.count--;
    mem_free(peer);
}

static struct zk_peer *peer_new(struct coord_zk *zk, const char *node_name)
{
    struct zk_peer *peer = mem_new(1, sizeof(*peer));

    if (peer == NULL) {
        return NULL;
    }
    peer->zk = zk;
    peer->is_stale = true;
    memcpy(peer->node_name, node_name, strlen(node_name) + 1);
    list_add(&zk->peers.list, &peer->node);
    zk->peers.count++;
    return peer;
}

/* ---- telling ---- */

/* Every body has been read at least once. */
static bool is_complete(struct coord_zk *zk)
{
    list_foreach (node, &zk->peers.list) {
        if (!peer_of(node)->is_read) {
            return false;
        }
    }
    return zk->peers.is_listed && !zk->peers.is_listing;
}

/* Of two znodes of one name the younger counts: the other is a session that will expire. */
static bool is_outdone(struct coord_zk *zk, const struct zk_peer *peer)
{
    list_foreach (node, &zk->peers.list) {
        const struct zk_peer *other = peer_of(node);

        if (other != peer && other->is_valid && other->created_zxid > peer->created_zxid &&
            strcmp(other->member.name, peer->member.name) == 0) {
            return true;
        }
    }
    return false;
}

static int compare_names(const void *left, const void *right)
{
    const struct member *const a = left;
    const struct member *const b = right;

    return strcmp(a->name, b->name);
}

static void tell(void *ctx)
{
    struct coord_zk *zk = ctx;
    struct member *members;
    size_t count = 0;

    if (zk->life != ZK_UP || !zk->peers.is_changed || !is_complete(zk)) {
        return;
    }
    members = mem_new((size_t)zk->peers.count + 1, sizeof(*members));
    if (members == NULL) {
        return; // is_changed stays: the tick comes back.
    }
    list_foreach (node, &zk->peers.list) {
        const struct zk_peer *peer = peer_of(node);

        if (peer->is_valid && !is_outdone(zk, peer)) {
            members[count++] = peer->member;
        } else if (peer->is_valid && strcmp(peer->node_name, zk->self.node_name) == 0) {
            zk_note(zk, "another broker runs under our name '%s': give each one a name of its own",
                    peer->member.name);
        }
    }
    qsort(members, count, sizeof(*members), compare_names);
    zk->peers.is_changed = false;
    zk->events.on_members(zk->events.ctx, members, count);
    mem_free(members);
}

static void changed(struct coord_zk *zk)
{
    zk->peers.is_changed = true;
    loop_post(zk->loop, &zk->peers.tell_task);
}

/* ---- reading ---- */

static void on_body(void *ctx, uint64_t tag, const struct zk_reply *reply)
{
    struct zk_peer *peer = ctx;
    struct coord_zk *zk = peer->zk;
    bool is_news = peer->is_valid || !peer->is_read;

    (void)tag;
    peer->is_busy = false;
    if (!peer->is_present || reply->code == ERR_NOT_FOUND) { // The list watch fires as well.
        bool is_self = strcmp(peer->node_name, zk->self.node_name) == 0;

        peer_free(peer);
        if (is_self) {
            zk_self_is_gone(zk);
        }
        changed(zk);
        return;
    }
    if (reply->code == ERR_OUTCOME_UNKNOWN || reply->code == ERR_IO || reply->code == ERR_DENIED) {
        peer->is_stale = true;
        return;
    }
    peer->is_read = true;
    peer->created_zxid = reply->stat.created_zxid;
    peer->is_valid = reply->code == 0 && zk_body_read_member(reply->data, peer->node_name,
                                                             &zk->databases, &peer->member) == 0;
    if (!peer->is_valid && is_news) {
        zk_note(zk, "broker '%s': cannot read its znode, left out", peer->node_name);
    }
    changed(zk);
    zk_peers_kick(zk);
}

static void read_body(struct coord_zk *zk, struct zk_peer *peer)
{
    struct zk_path path;

    peer_path(&path, peer);
    peer->is_stale = false;
    peer->is_busy = zk_send(zk, &(struct zk_call){
                                    .kind = ZK_GET,
                                    .path = path.text,
                                    .is_watched = zk_watch_add(zk, &peer->is_watched, &path),
                                    .cb = on_body,
                                    .ctx = peer,
                                });
    peer->is_stale = !peer->is_busy;
}

static void drop_absent(struct coord_zk *zk)
{
    list_foreach_safe (node, after, &zk->peers.list) {
        struct zk_peer *peer = peer_of(node);

        if (!peer->is_present && !peer->is_busy) { // Else its reply frees it.
            peer_free(peer);
        }
    }
}

static void take_name(struct coord_zk *zk, const char *node_name)
{
    char name[MEMBER_NAME_BYTES_MAX + 1];
    char instance[INSTANCE_TEXT_LEN + 1];
    struct zk_peer *peer = find(zk, node_name);

    if (peer == NULL && zk_path_split_node_name(node_name, name, instance) != 0) {
        zk_note(zk, "brokers has a child that is no broker's name, left out");
        return;
    }
    if (peer == NULL && zk->peers.count == MEMBER_COUNT_MAX) {
        zk_note(zk, "more than %d brokers, '%s' left out", MEMBER_COUNT_MAX, node_name);
        return;
    }
    if (peer == NULL) {
        peer = peer_new(zk, node_name);
    }
    if (peer == NULL) {
        zk->peers.is_list_wanted = true;
        return;
    }
    peer->is_present = true;
}

static void on_list(void *ctx, uint64_t tag, const struct zk_reply *reply)
{
    struct coord_zk *zk = ctx;

    (void)tag;
    zk->peers.is_listing = false;
    if (reply->code != 0) {
        zk->peers.is_list_wanted = true; // Tried again by the tick, or after the reconnect.
        if (reply->code != ERR_OUTCOME_UNKNOWN) {
            zk_note(zk, "cannot list the brokers: %s", err_text(reply->code));
        }
        return;
    }
    list_foreach (node, &zk->peers.list) {
        peer_of(node)->is_present = false;
    }
    for (size_t i = 0; i < reply->child_count; i++) {
        take_name(zk, reply->child_names[i]);
    }
    drop_absent(zk);
    if (find(zk, zk->self.node_name) == NULL) { // We had created it before we asked.
        zk_self_is_gone(zk);
    }
    zk->peers.is_listed = true;
    changed(zk);
    zk_peers_kick(zk);
}

void zk_peers_kick(struct coord_zk *zk)
{
    struct zk_peers *peers = &zk->peers;

    if (!zk_is_ready(zk)) {
        return;
    }
    if (peers->is_list_wanted && !peers->is_listing) {
        struct zk_path path;

        zk_path_brokers(&path, &zk->cluster_path);
        peers->is_listing =
            zk_send(zk, &(struct zk_call){
                            .kind = ZK_LIST,
                            .path = path.text,
                            .is_watched = zk_watch_add(zk, &peers->is_list_watched, &path),
                            .cb = on_list,
                            .ctx = zk,
                        });
        peers->is_list_wanted = !peers->is_listing;
    }
    list_foreach (node, &peers->list) {
        if (peer_of(node)->is_stale && !peer_of(node)->is_busy) {
            read_body(zk, peer_of(node));
        }
    }
    if (peers->is_changed) {
        loop_post(zk->loop, &peers->tell_task);
    }
}

void zk_peers_refresh(struct coord_zk *zk)
{
    zk->peers.is_list_wanted = true;
    list_foreach (node, &zk->peers.list) {
        peer_of(node)->is_stale = true;
    }
    zk_peers_kick(zk);
}

void zk_peers_on_list_watch(struct coord_zk *zk)
{
    struct zk_path path;

    zk_path_brokers(&path, &zk->cluster_path);
    zk_watch_del(zk, &zk->peers.is_list_watched, &path);
    zk->peers.is_list_wanted = true;
    zk_peers_kick(zk);
}

void zk_peers_on_watch(struct coord_zk *zk, const char *node_name)
{
    struct zk_peer *peer = find(zk, node_name);
    struct zk_path path;

    if (peer == NULL) {
        return;
    }
    peer_path(&path, peer);
    zk_watch_del(zk, &peer->is_watched, &path);
    peer->is_stale = true;
    zk_peers_kick(zk);
}

void zk_peers_reset(struct coord_zk *zk)
{
    struct zk_path path;

    list_foreach_safe (node, after, &zk->peers.list) {
        peer_free(peer_of(node));
    }
    zk_path_brokers(&path, &zk->cluster_path);
    zk_watch_del(zk, &zk->peers.is_list_watched, &path);
    zk->peers.is_listing = false;
    zk->peers.is_listed = false;
    zk->peers.is_list_wanted = true;
    zk->peers.is_changed = false;
}

void zk_peers_init(struct coord_zk *zk)
{
    list_init(&zk->peers.list);
    zk->peers.is_list_wanted = true;
    loop_task_init(&zk->peers.tell_task, tell, zk);
}
