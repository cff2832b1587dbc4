/* SPDX-License-Identifier: Apache-2.0
 *
 * Membership and shard ownership as the core sees them. The coordinator says who should own a shard
 * and wakes people up; nothing that must be true rests on it alone (the epoch in the database does
 * that). Implementations: ZooKeeper, standalone for one process, the simulator's.
 *
 * Contract of every request: as in storage/store.h, rules 1 to 5. Events come on the loop, never
 * inside a request.
 */
#ifndef FOLIOT_COORDINATOR_COORD_H
#define FOLIOT_COORDINATOR_COORD_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/instant.h"
#include "lib/base/limits.h"
#include "lib/base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define INSTANCE_TEXT_LEN      16 /* hex digits of the random instance id */
#define MEMBER_ADDRESS_LEN_MAX 255

/* A set of shards or databases, one bit each. */
struct shard_set {
    uint64_t bits[SHARD_COUNT_MAX / 64];
};

static inline bool shard_set_has(const struct shard_set *set, uint32_t shard)
{
    return (set->bits[shard / 64] >> (shard % 64) & 1U) != 0;
}

static inline void shard_set_add(struct shard_set *set, uint32_t shard)
{
    set->bits[shard / 64] |= UINT64_C(1) << (shard % 64);
}

static inline void shard_set_del(struct shard_set *set, uint32_t shard)
{
    set->bits[shard / 64] &= ~(UINT64_C(1) << (shard % 64));
}

/* One broker, as its znode says. source: DESIGN 6 */
struct member {
    char name[MEMBER_NAME_BYTES_MAX + 1];   /* stable: what placement scores */
    char instance[INSTANCE_TEXT_LEN + 1];   /* random per process start: who it is */
    char grpc[MEMBER_ADDRESS_LEN_MAX + 1];  /* host:port for calls */
    char admin[MEMBER_ADDRESS_LEN_MAX + 1]; /* host:port of its admin port; may be empty */
    char version[32];
    wall_ms started_ms;
    uint32_t cannot;       /* bit d: it cannot write to database d */
    int64_t config;        /* config version it has confirmed */
    struct shard_set owns; /* shards it serves: where forwarders go */
};

enum coord_session {
    COORD_AWAY = 1,  /* disconnected: go on with what we hold */
    COORD_CONNECTED, /* connected, same session: owner znodes have been found still ours */
    COORD_NEW,       /* connected with a new session: we hold nothing, we are registered */
    COORD_LOST       /* session expired: drop every shard now */
};

enum coord_shard_state {
    COORD_LOADING = 1,
    COORD_ACTIVE,
    COORD_DRAINING
};

/* What the coordinator tells; each runs on the loop. */
struct coord_events {
    /* The session changed. COORD_LOST comes before any COORD_NEW that follows it. */
    void (*on_session)(void *ctx, enum coord_session session);
    /* The whole member list, after each change and once a minute; borrowed for the call. At most
     * MEMBER_COUNT_MAX, one entry per name: of two znodes of one name (a restart that came sooner
     * than the old session's expiry) the younger one is told. Sorted by name. */
    void (*on_members)(void *ctx, const struct member *members, size_t count);
    /* The owner znode of a shard that we failed to acquire (ERR_EXISTS) is gone: try again. */
    void (*on_shard_free)(void *ctx, uint32_t shard);
    /* An owner znode of ours has vanished or is not ours: drop the shard. */
    void (*on_shard_lost)(void *ctx, uint32_t shard);
    /* Queues have changed somewhere. */
    void (*on_config)(void *ctx, int64_t version);
    void *ctx;
};

struct coord_request;
typedef void (*coord_cb)(struct coord_request *request);

enum coord_request_kind {
    /*
     * Own a shard: create its ephemeral owner znode (or find it ours already), write the shard's
     * znode, take the version in the reply as generation (plus the cluster's base), check that the
     * owner znode is still ours. Asked again for a shard that we hold, it gives a new generation.
     * ERR_EXISTS: another session's znode is there, on_shard_free will follow.
     */
    COORD_ACQUIRE = 1,
    /*
     * Delete our owner znode; not finding it ours any more is success. ERR_UNAVAILABLE: it may
     * still be there; the coordinator goes on deleting it until it is gone or asked for again.
     */
    COORD_RELEASE,
    /* Write {epoch, state} into our owner znode: for people. ERR_FENCED: we do not hold it. */
    COORD_STATE,
    /* Write our member znode: owns, cannot, config. Of several in flight the last one counts. What
     * was published last is written again with a new session, without `owns`. */
    COORD_PUBLISH,
    /* Raise config-version: a nudge to all brokers; the new version in `generation`. */
    COORD_NUDGE
};

struct coord_request {
    struct list link;    /* the coordinator's while in flight */
    boot_us deadline_us; /* the coordinator's while in flight */
    enum coord_request_kind kind;
    uint32_t shard;
    int64_t epoch;                /* STATE */
    enum coord_shard_state state; /* STATE */
    const struct member *member;  /* PUBLISH: kept until the callback */
    coord_cb cb;
    void *owner; /* the caller's */
    /* results */
    int result; /* 0, ERR_EXISTS, ERR_FENCED (not ours any more), ERR_UNAVAILABLE (also after
                   the coordinator's own deadline), ERR_FULL (generations are used up) */
    int64_t generation; /* ACQUIRE: 1 … GENERATION_MAX; NUDGE: the version */
};

typedef void (*coord_close_cb)(void *ctx);

/* The table that an implementation fills in; the first member of every implementation's struct. */
struct coord {
    int (*submit)(struct coord *coord, struct coord_request *request);
    /* Leave: end the session so that our znodes go at once; then the callback. */
    void (*close)(struct coord *coord, coord_close_cb cb, void *ctx);
};

/* What is fixed at creation of a cluster and read once at start. source: DESIGN 6 */
struct cluster {
    char id[64];
    uint32_t shard_count;
    int64_t base;                         /* added to every generation */
    uint8_t database_of[SHARD_COUNT_MAX]; /* shard → index of its database, by name order of
                                             the configuration */
};

#endif
