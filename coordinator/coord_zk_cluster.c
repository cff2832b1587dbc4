/* SPDX-License-Identifier: Apache-2.0
 *
 * Creating and reading a cluster's znodes, before the broker's loop runs: on a loop and a link of
 * its own, turned until done. Four phases; each sends its calls at once, and is run again as a
 * whole if one of them has an unknown outcome: "create if absent" may be repeated.
 *
 *   ROOT    create the root and the cluster's znode, read it
 *   FRAME   create its children, list the shards; when adopting, the brokers
 *   ADOPT   when adopting: write the cluster's znode, unless it is as it should be
 *   SHARDS  create those that are absent
 *   READ    read every shard's database
 */
#include "coordinator/coord_zk.h"
#include "coordinator/coord_zk_link.h"
#include "coordinator/zk_body.h"
#include "coordinator/zk_path.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Between two tries to open a link, for names that do not resolve yet. */
#define REOPEN_MS 200

/* Longest body that is written here. */
#define BODY_BYTES_MAX 512

enum phase {
    PHASE_ROOT = 1,
    PHASE_FRAME,
    PHASE_ADOPT,
    PHASE_SHARDS,
    PHASE_READ,
    PHASE_DONE
};

struct founder {
    const struct coord_zk_place *place;
    const struct coord_zk_databases *databases;
    uint32_t shard_count; /* for a new cluster; 0: create nothing */
    const char *fresh_id;
    const struct coord_zk_adoption *adoption; /* NULL: nothing is adopted */
    size_t broker_count;                      /* registered; known when adopting */
    int32_t cluster_version;                  /* of the cluster's znode, as read last */
    bool is_created;                          /* by us, in this run */
    int64_t base_before;                      /* as read first; −1: not read yet, or created */
    struct coord_zk_found *found;
    struct loop *loop;
    struct zk_link *link;
    struct loop_timer limit_timer;
    struct loop_timer reopen_timer;
    struct zk_path cluster_path;
    enum phase phase;
    uint32_t call_count; /* in flight */
    bool is_connected;
    bool is_interrupted; /* a call of this phase has an unknown outcome: run it again */
    bool is_over;        /* result is set; the link is being closed */
    int result;
    bool is_present[SHARD_COUNT_MAX]; /* shards that exist */
};

static void run_phase(struct founder *founder);
static void open_link(struct founder *founder);

static void on_link_closed(void *ctx)
{
    struct founder *founder = ctx;

    founder->link = NULL;
    if (founder->is_over) {
        loop_stop(founder->loop);
    } else {
        loop_timer_start_in(&founder->reopen_timer, REOPEN_MS);
    }
}

static void finish(struct founder *founder, int result)
{
    if (founder->is_over) {
        return;
    }
    founder->is_over = true;
    founder->result = result;
    loop_timer_stop(&founder->limit_timer);
    loop_timer_stop(&founder->reopen_timer);
    if (founder->link == NULL) {
        loop_stop(founder->loop);
    } else {
        zk_link_close(founder->link, on_link_closed, founder);
    }
}

static void fail(struct founder *founder, int result, const char *format, ...) PRINTF_LIKE(3, 4);

static void fail(struct founder *founder, int result, const char *format, ...)
{
    va_list args;

    if (founder->is_over) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(founder->found->message, sizeof(founder->found->message), format, args);
    va_end(args);
    finish(founder, result);
}

/* ---- replies ---- */

/* One reply less. True: it says something. */
static bool take_reply(struct founder *founder, const struct zk_reply *reply)
{
    founder->call_count--;
    if (reply->code == ERR_OUTCOME_UNKNOWN) {
        founder->is_interrupted = true;
        return false;
    }
    return !founder->is_over;
}

/*
 * Step to the next phase once all replies of this one are in. True: there is a phase to start, the
 * next one, or the same again after an interruption.
 */
static bool step_phase(struct founder *founder)
{
    if (founder->call_count > 0 || founder->is_over) {
        return false;
    }
    if (founder->is_interrupted) {
        return founder->is_connected;
    }
    founder->phase = (enum phase)((int)founder->phase + 1);
    if (founder->phase == PHASE_ADOPT && founder->adoption == NULL) {
        founder->phase = PHASE_SHARDS;
    }
    if (founder->phase == PHASE_SHARDS && founder->shard_count == 0) {
        founder->phase = PHASE_READ;
    }
    if (founder->phase == PHASE_DONE) {
        finish(founder, 0);
        return false;
    }
    return true;
}

static void check_phase(struct founder *founder)
{
    if (step_phase(founder)) {
        run_phase(founder);
    }
}

static void on_created(void *ctx, uint64_t tag, const struct zk_reply *reply)
{
    struct founder *founder = ctx;

    (void)tag;
    if (take_reply(founder, reply) && reply->code != 0 && reply->code != ERR_EXISTS) {
        fail(founder, reply->code == ERR_DENIED ? ERR_DENIED : ERR_CONFLICT,
             "cannot create a znode of cluster '%s': %s", founder->cluster_path.text,
             err_text(reply->code));
    }
    check_phase(founder);
}

/* What is absent or closed shows at once: the cluster's znode is created below it. */
static void on_root_created(void *ctx, uint64_t tag, const struct zk_reply *reply)
{
    struct zk_reply accepted = *reply;

    accepted.code = reply->code == ERR_DENIED || reply->code == ERR_NOT_FOUND ? 0 : reply->code;
    on_created(ctx, tag, &accepted);
}

static void on_acl(void *ctx, uint64_t tag, const struct zk_reply *reply)
{
    struct founder *founder = ctx;
    const char *root = founder->place->root;

    (void)tag;
    if (take_reply(founder, reply) && reply->code == 0 && reply->is_open) {
        fail(founder, ERR_DENIED,
             "anybody who reaches ZooKeeper may write to the root '%s', by its ACL: set "
             "zookeeper.auth to USER:PASSWORD and close what is there, in zkCli.sh 'addauth "
             "digest USER:PASSWORD' and 'setAcl -R %s auth::cdrwa'; or, if only brokers reach "
             "ZooKeeper, set zookeeper.open to on",
             root, root);
    }
    check_phase(founder);
}

static void read_cluster(struct founder *founder, struct slice data)
{
    struct zk_cluster_body body;
    struct cluster *cluster = &founder->found->cluster;
    int err = zk_body_read_cluster(data, &body);

    if (err == ERR_UNSUPPORTED) {
        fail(founder, err,
             "cluster '%s' has a layout that this version does not know: its format is not %d, or "
             "its slots are not %d; use the version that created it, or a newer one",
             founder->cluster_path.text, ZK_FORMAT, SLOT_COUNT);
    } else if (err != 0) {
        fail(founder, ERR_CONFLICT, "znode '%s' is not a Foliot cluster's",
             founder->cluster_path.text);
    } else {
        memcpy(cluster->id, body.id, sizeof(cluster->id));
        cluster->shard_count = body.shard_count;
        cluster->base = body.base;
        if (founder->base_before < 0 && !founder->is_created) {
            founder->base_before = body.base;
        }
    }
}

static void on_cluster(void *ctx, uint64_t tag, const struct zk_reply *reply)
{
    struct founder *founder = ctx;

    (void)tag;
    if (take_reply(founder, reply)) {
        if (reply->code == 0) {
            founder->cluster_version = reply->stat.version;
            read_cluster(founder, reply->data);
        } else {
            fail(founder, reply->code == ERR_NOT_FOUND ? ERR_NOT_FOUND : ERR_CONFLICT,
                 "cannot read cluster '%s': %s", founder->cluster_path.text, err_text(reply->code));
        }
    }
    check_phase(founder);
}

static void on_shards(void *ctx, uint64_t tag, const struct zk_reply *reply)
{
    struct founder *founder = ctx;

    (void)tag;
    if (take_reply(founder, reply)) {
        memset(founder->is_present, 0, sizeof(founder->is_present));
        for (size_t i = 0; i < reply->child_count; i++) {
            struct zk_path path;
            struct zk_path_parts parts;

            (void)snprintf(path.text, sizeof(path.text), "%.256s/shards/%.8s/owner",
                           founder->cluster_path.text, reply->child_names[i]);
            zk_path_parse(&founder->cluster_path, path.text, &parts);
            if (parts.kind == ZK_PATH_OWNER) {
                founder->is_present[parts.shard] = true;
            }
        }
        if (reply->code != 0) {
            fail(founder, ERR_CONFLICT, "cannot list the shards of cluster '%s': %s",
                 founder->cluster_path.text, err_text(reply->code));
        }
    }
    check_phase(founder);
}

static void on_brokers(void *ctx, uint64_t tag, const struct zk_reply *reply)
{
    struct founder *founder = ctx;

    (void)tag;
    if (take_reply(founder, reply)) {
        founder->broker_count = reply->child_count;
        if (reply->code != 0) {
            fail(founder, ERR_CONFLICT, "cannot list the brokers of cluster '%s': %s",
                 founder->cluster_path.text, err_text(reply->code));
        }
    }
    check_phase(founder);
}

static void on_adopted(void *ctx, uint64_t tag, const struct zk_reply *reply)
{
    struct founder *founder = ctx;

    (void)tag;
    if (take_reply(founder, reply) && reply->code != 0 && reply->code != ERR_CONFLICT) {
        fail(founder, ERR_CONFLICT, "cannot write cluster '%s': %s", founder->cluster_path.text,
             err_text(reply->code));
    }
    // Written or not, by us or by somebody else: what is there now is read again.
    founder->phase = PHASE_ROOT;
    founder->is_interrupted = true;
    check_phase(founder);
}

static void on_cluster_created(void *ctx, uint64_t tag, const struct zk_reply *reply)
{
    struct founder *founder = ctx;
    const char *root = founder->place->root;

    founder->is_created |= reply->code == 0;
    if (reply->code == ERR_NOT_FOUND) {
        fail(
            founder, ERR_NOT_FOUND,
            "the root '%s' is missing in ZooKeeper, and we may not create it: create it with "
            "'create %s' in zkCli.sh and let brokers create below it, or set zookeeper.root to one "
            "that is there",
            root, root);
    } else if (reply->code == ERR_DENIED) {
        fail(founder, ERR_DENIED,
             "the ACL of the root '%s' in ZooKeeper does not let us write below it: set "
             "zookeeper.auth to the USER:PASSWORD that it names, or give us all permissions in "
             "zkCli.sh with 'setAcl -R %s'",
             root, root);
    }
    on_created(ctx, tag, reply);
}

/* What is adopted must lie where its znode says. */
static void check_place(struct founder *founder, uint32_t shard)
{
    const char *const *names = founder->databases->names;
    uint8_t named = founder->found->cluster.database_of[shard];

    if (founder->adoption != NULL && founder->adoption->database_of[shard] != named) {
        fail(founder, ERR_CONFLICT,
             "shard %u lies in database '%s', but its znode in '%s' says '%s': delete that znode, "
             "then adopt again",
             shard, names[founder->adoption->database_of[shard]], founder->cluster_path.text,
             names[named]);
    }
}

static void read_shard(struct founder *founder, uint32_t shard, const struct zk_reply *reply)
{
    char name[NAME_BYTES_MAX + 1];
    int err = reply->code == 0 ? zk_body_read_shard(reply->data, name) : reply->code;

    if (err != 0) {
        fail(founder, ERR_CONFLICT, "cannot read shard %u of cluster '%s': %s", shard,
             founder->cluster_path.text, err_text(err));
        return;
    }
    for (uint32_t i = 0; i < founder->databases->count; i++) {
        if (strcmp(founder->databases->names[i], name) == 0) {
            founder->found->cluster.database_of[shard] = (uint8_t)i;
            check_place(founder, shard);
            return;
        }
    }
    fail(founder, ERR_CONFLICT,
         "shard %u of cluster '%s' lies in database '%s', which is not configured here", shard,
         founder->cluster_path.text, name);
}

static void on_shard(void *ctx, uint64_t tag, const struct zk_reply *reply)
{
    struct founder *founder = ctx;

    if (take_reply(founder, reply)) {
        read_shard(founder, (uint32_t)tag, reply);
    }
    check_phase(founder);
}

/* ---- phases ---- */

static void send(struct founder *founder, struct zk_call *call)
{
    int err;

    if (founder->is_over) {
        return;
    }
    call->ctx = founder;
    err = zk_link_call(founder->link, call);
    if (err == 0) {
        founder->call_count++;
    } else if (err == ERR_CLOSED) { // on_dead is on its way.
        founder->is_interrupted = true;
    } else {
        fail(founder, err, "cannot send to ZooKeeper: %s", err_text(err));
    }
}

static void send_create(struct founder *founder, const char *path, struct buf *body)
{
    send(founder, &(struct zk_call){
                      .kind = ZK_CREATE,
                      .path = path,
                      .data = body == NULL ? (struct slice){NULL, 0} : buf_slice(body),
                      .cb = on_created,
                  });
}

/* Every prefix of the root: "/a" and "/a/b" of "/a/b". */
static void create_root(struct founder *founder)
{
    const char *root = founder->place->root;
    char prefix[ZK_ROOT_BYTES_MAX + 1];

    for (size_t i = 1; i <= strlen(root); i++) {
        if (root[i] == '/' || root[i] == '\0') {
            memcpy(prefix, root, i);
            prefix[i] = '\0';
            send(founder,
                 &(struct zk_call){.kind = ZK_CREATE, .path = prefix, .cb = on_root_created});
        }
    }
}

/* Above every generation that there was. */
static int64_t wanted_base(const struct founder *founder)
{
    return founder->adoption == NULL ? 0 : founder->adoption->generation_max + 1;
}

/* The cluster's znode as we would make it. */
static void write_wanted(const struct founder *founder, struct buf *body)
{
    struct zk_cluster_body cluster = {
        .format = ZK_FORMAT, .shard_count = founder->shard_count, .base = wanted_base(founder)};

    (void)snprintf(cluster.id, sizeof(cluster.id), "%s", founder->fresh_id);
    zk_body_write_cluster(body, &cluster);
}

static void run_root(struct founder *founder)
{
    if (founder->shard_count > 0) {
        struct buf body;

        buf_init(&body, BODY_BYTES_MAX);
        write_wanted(founder, &body);
        create_root(founder);
        send(founder, &(struct zk_call){.kind = ZK_CREATE,
                                        .path = founder->cluster_path.text,
                                        .data = buf_slice(&body),
                                        .cb = on_cluster_created});
        buf_fini(&body);
    }
    if (founder->place->is_guarded) {
        send(founder,
             &(struct zk_call){.kind = ZK_ACL, .path = founder->place->root, .cb = on_acl});
    }
    send(founder,
         &(struct zk_call){.kind = ZK_GET, .path = founder->cluster_path.text, .cb = on_cluster});
}

static void run_frame(struct founder *founder)
{
    struct zk_path path;

    if (founder->shard_count > 0) {
        struct buf body;

        buf_init(&body, BODY_BYTES_MAX);
        (void)buf_append_text(&body, "{}");
        zk_path_brokers(&path, &founder->cluster_path);
        send_create(founder, path.text, &body);
        zk_path_config(&path, &founder->cluster_path);
        send_create(founder, path.text, &body);
        zk_path_shards(&path, &founder->cluster_path);
        send_create(founder, path.text, &body);
        buf_fini(&body);
    }
    zk_path_shards(&path, &founder->cluster_path);
    send(founder, &(struct zk_call){.kind = ZK_LIST, .path = path.text, .cb = on_shards});
    if (founder->adoption != NULL) {
        zk_path_brokers(&path, &founder->cluster_path);
        send(founder, &(struct zk_call){.kind = ZK_LIST, .path = path.text, .cb = on_brokers});
    }
}

/* Never beside brokers: they have read the base when they started. */
static void run_adopt(struct founder *founder)
{
    const struct cluster *cluster = &founder->found->cluster;
    struct buf body;

    if (strcmp(cluster->id, founder->fresh_id) == 0 &&
        cluster->shard_count == founder->shard_count && cluster->base >= wanted_base(founder)) {
        return;
    }
    if (founder->broker_count > 0) {
        fail(founder, ERR_CONFLICT,
             "%zu brokers are registered in cluster '%s': stop them, then adopt",
             founder->broker_count, founder->cluster_path.text);
        return;
    }
    buf_init(&body, BODY_BYTES_MAX);
    write_wanted(founder, &body);
    send(founder, &(struct zk_call){.kind = ZK_SET,
                                    .path = founder->cluster_path.text,
                                    .data = buf_slice(&body),
                                    .version = founder->cluster_version,
                                    .cb = on_adopted});
    buf_fini(&body);
}

static void run_shards(struct founder *founder)
{
    const struct coord_zk_databases *databases = founder->databases;

    for (uint32_t shard = 0; shard < founder->found->cluster.shard_count; shard++) {
        struct zk_path path;
        struct buf body;

        if (founder->is_present[shard]) {
            continue;
        }
        zk_path_shard(&path, &founder->cluster_path, shard);
        buf_init(&body, BODY_BYTES_MAX);
        zk_body_write_shard(
            &body,
            databases->names[founder->adoption != NULL ? founder->adoption->database_of[shard]
                                                       : shard % databases->count]);
        send_create(founder, path.text, &body);
        buf_fini(&body);
    }
}

static void run_read(struct founder *founder)
{
    for (uint32_t shard = 0; shard < founder->found->cluster.shard_count; shard++) {
        struct zk_path path;

        zk_path_shard(&path, &founder->cluster_path, shard);
        send(founder,
             &(struct zk_call){.kind = ZK_GET, .path = path.text, .cb = on_shard, .tag = shard});
    }
}

static void start_phase(struct founder *founder)
{
    founder->is_interrupted = false;
    switch (founder->phase) {
    case PHASE_ROOT:
        run_root(founder);
        break;
    case PHASE_FRAME:
        run_frame(founder);
        break;
    case PHASE_ADOPT:
        run_adopt(founder);
        break;
    case PHASE_SHARDS:
        run_shards(founder);
        break;
    case PHASE_READ:
        run_read(founder);
        break;
    case PHASE_DONE:
        break;
    }
}

static void run_phase(struct founder *founder)
{
    do {
        start_phase(founder);
    } while (step_phase(founder)); // Perhaps there was nothing to send.
}

/* ---- the link ---- */

static void on_connected(void *ctx, int64_t session_id, span_ms timeout_ms)
{
    struct founder *founder = ctx;

    (void)session_id;
    founder->is_connected = true;
    founder->found->session_timeout_ms = timeout_ms;
    if (founder->call_count == 0) { // Else the last reply of the old connection runs it.
        run_phase(founder);
    }
}

static void on_away(void *ctx)
{
    struct founder *founder = ctx;

    founder->is_connected = false;
}

static void on_dead(void *ctx, const char *why)
{
    struct founder *founder = ctx;

    (void)why;
    founder->is_connected = false;
    founder->call_count = 0; // The closed link answers none of them.
    zk_link_close(founder->link, on_link_closed, founder);
}

static void on_watch(void *ctx, const char *path)
{
    (void)ctx;
    (void)path;
}

static void open_link(struct founder *founder)
{
    struct zk_link_options options = {
        .loop = founder->loop,
        .hosts = founder->place->hosts,
        .session_timeout_ms = founder->place->session_timeout_ms,
        .auth = founder->place->auth,
        .events = {.on_connected = on_connected,
                   .on_away = on_away,
                   .on_dead = on_dead,
                   .on_watch = on_watch,
                   .ctx = founder},
    };
    int err = zk_link_open(&options, &founder->link);

    if (err != 0) {
        founder->link = NULL;
        fail(founder, err, "cannot start a session with ZooKeeper: %s", err_text(err));
    }
}

static void on_reopen(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    open_link(ctx);
}

static void on_limit(struct loop_timer *timer, void *ctx)
{
    struct founder *founder = ctx;
    char log[256];
    bool has_log = zk_link_take_log(log, sizeof(log));

    (void)timer;
    fail(founder, ERR_UNAVAILABLE, "no answer from ZooKeeper at '%s'%s%s", founder->place->hosts,
         has_log ? ": " : "", has_log ? log : "");
}

/* ---- entry ---- */

/* NULL, or what is wrong. */
static const char *check(const struct coord_zk_place *place,
                         const struct coord_zk_databases *databases)
{
    if (place->hosts[0] == '\0' || strchr(place->hosts, '/') != NULL) {
        return "the list of ZooKeeper servers must be host:port,host:port without a chroot";
    }
    if (!zk_path_is_root(place->root)) {
        return "the root must be an absolute path of [A-Za-z0-9._-]";
    }
    if (!zk_path_is_name(place->name)) {
        return "the cluster's name must be 1 to 63 bytes of [a-z0-9._-]";
    }
    if (place->session_timeout_ms < ZK_SESSION_TIMEOUT_MS_MIN ||
        place->session_timeout_ms > ZK_SESSION_TIMEOUT_MS_MAX) {
        return "the session timeout must be 1000 to 60000 ms";
    }
    if (databases->count < 1 || databases->count > DATABASE_COUNT_MAX) {
        return "there must be 1 to 16 databases";
    }
    for (uint32_t i = 0; i < databases->count; i++) {
        if (!zk_path_is_name(databases->names[i])) {
            return "a database's name must be 1 to 63 bytes of [a-z0-9._-]";
        }
    }
    return NULL;
}

static int run(struct founder *founder, span_ms limit_ms)
{
    int err = loop_open(&founder->loop);

    if (err != 0) {
        return err;
    }
    zk_path_cluster(&founder->cluster_path, founder->place->root, founder->place->name);
    founder->phase = PHASE_ROOT;
    loop_timer_init(&founder->limit_timer, founder->loop, on_limit, founder);
    loop_timer_init(&founder->reopen_timer, founder->loop, on_reopen, founder);
    loop_timer_start_in(&founder->limit_timer, limit_ms);
    open_link(founder);
    if (founder->link != NULL) {
        loop_run(founder->loop);
    }
    loop_close(founder->loop);
    return founder->result;
}

static int found_or_read(const struct founder *wanted, span_ms limit_ms, int64_t *base_before)
{
    struct founder *founder;
    const char *wrong = check(wanted->place, wanted->databases);
    int err;

    memset(wanted->found, 0, sizeof(*wanted->found));
    if (wrong != NULL) {
        (void)snprintf(wanted->found->message, sizeof(wanted->found->message), "%s", wrong);
        return ERR_INVALID;
    }
    founder = mem_new(1, sizeof(*founder));
    if (founder == NULL) {
        return ERR_NO_MEMORY;
    }
    *founder = *wanted;
    founder->base_before = -1;
    err = run(founder, limit_ms);
    if (base_before != NULL) {
        *base_before = founder->base_before;
    }
    mem_free(founder);
    return err;
}

int coord_zk_init_cluster(const struct coord_zk_place *place,
                          const struct coord_zk_databases *databases, uint32_t shard_count,
                          const char *fresh_id, span_ms limit_ms, struct coord_zk_found *out)
{
    size_t id_len = strspn(fresh_id, "abcdefghijklmnopqrstuvwxyz0123456789-");

    REQUIRE(shard_count >= 1 && shard_count <= SHARD_COUNT_MAX);
    REQUIRE(id_len >= 1 && id_len < sizeof(out->cluster.id) && fresh_id[id_len] == '\0');
    return found_or_read(
        &(struct founder){
            .place = place,
            .databases = databases,
            .shard_count = shard_count,
            .fresh_id = fresh_id,
            .found = out,
        },
        limit_ms, NULL);
}

int coord_zk_adopt_cluster(const struct coord_zk_place *place,
                           const struct coord_zk_databases *databases,
                           const struct coord_zk_adoption *adoption, span_ms limit_ms,
                           struct coord_zk_found *out, int64_t *base_before)
{
    REQUIRE(adoption->shard_count >= 1 && adoption->shard_count <= SHARD_COUNT_MAX);
    return found_or_read(
        &(struct founder){
            .place = place,
            .databases = databases,
            .shard_count = adoption->shard_count,
            .fresh_id = adoption->id,
            .adoption = adoption,
            .found = out,
        },
        limit_ms, base_before);
}

int coord_zk_read_cluster(const struct coord_zk_place *place,
                          const struct coord_zk_databases *databases, span_ms limit_ms,
                          struct coord_zk_found *out)
{
    return found_or_read(&(struct founder){.place = place, .databases = databases, .found = out},
                         limit_ms, NULL);
}
