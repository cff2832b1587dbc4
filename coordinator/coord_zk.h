/* SPDX-License-Identifier: Apache-2.0
 *
 * The coordinator on ZooKeeper: one session per process, registered for ever with back-off, the
 * owner znodes of our shards, the member list, the config nudge. Knows nothing of databases or
 * tasks. Asynchronous calls only; the library's threads post to a mailbox and touch nothing else.
 * source: DESIGN 5 to 7, RELIABILITY Z-1 to Z-24, docs/zookeeper.md
 */
#ifndef FOLIOT_COORDINATOR_COORD_ZK_H
#define FOLIOT_COORDINATOR_COORD_ZK_H

#include "coordinator/coord.h"
#include "lib/base/attr.h"
#include "lib/base/instant.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;

/* What ZooKeeper's servers allow with tickTime 500 is 1 to 10 s; below 2 s a loaded machine expires
 * by itself. The server may negotiate another value: coord_zk_session_timeout_ms(). */
#define ZK_SESSION_TIMEOUT_MS_DEFAULT 4000
#define ZK_SESSION_TIMEOUT_MS_MIN     1000
#define ZK_SESSION_TIMEOUT_MS_MAX     60000

/* Where a cluster lives. All borrowed; names as zk_path.h checks them. */
struct coord_zk_place {
    const char *hosts;          /* host:port,host:port…; no chroot (Z-22) */
    const char *root;           /* for example /foliot */
    const char *name;           /* the cluster's: [a-z0-9._-], 1 … NAME_BYTES_MAX */
    span_ms session_timeout_ms; /* asked for; ZK_SESSION_TIMEOUT_MS_MIN … _MAX */
    const char *auth;           /* USER:PASSWORD of the digest scheme; NULL or empty: none */
    bool is_guarded;            /* a root that anybody may write to is refused (Z-21) */
};

/* The configured databases in their order: index d is database d of struct cluster. Borrowed. */
struct coord_zk_databases {
    const char *const *names; /* [a-z0-9._-], 1 … NAME_BYTES_MAX, no two alike */
    uint32_t count;           /* 1 … DATABASE_COUNT_MAX */
};

/* Room for what coord_zk_init_cluster() has to say. */
#define COORD_ZK_MESSAGE_LEN 512

/* What coord_zk_init_cluster() and coord_zk_read_cluster() find. */
struct coord_zk_found {
    struct cluster cluster;
    span_ms session_timeout_ms;         /* the negotiated one: what broker and watchdog go by */
    char message[COORD_ZK_MESSAGE_LEN]; /* for people; written on failure */
};

/*
 * Create what is absent of a cluster's znodes, then read them. Several brokers may do this at once,
 * and one that died half-way is completed by the next.
 *
 * shape:  `fresh_id` (1 … 63 bytes of [a-z0-9-]) and `shard_count` hold only if this call is the
 *         one that creates the root; otherwise what is there counts, and a different shard count
 *         is not an error. New shards go round-robin over the databases.
 * units:  gives up after `limit_ms`; keeps trying to connect until then.
 * note:   blocks: it turns a loop of its own. Call it before coord_zk_open() and not beside it:
 *         there should be one handle per process (Z-17).
 * errors: ERR_INVALID bad option; ERR_UNAVAILABLE no answer within the limit; ERR_UNSUPPORTED a
 *         format that this version does not know; ERR_CONFLICT what is there cannot be used: not
 *         a cluster, or a shard in a database that is not configured; ERR_DENIED an ACL keeps us
 *         out, or lets everybody in although the place is guarded.
 */
MUST_USE int coord_zk_init_cluster(const struct coord_zk_place *place,
                                   const struct coord_zk_databases *databases, uint32_t shard_count,
                                   const char *fresh_id, span_ms limit_ms,
                                   struct coord_zk_found *out);

/*
 * Read a cluster that must exist.
 *
 * errors: as coord_zk_init_cluster(); ERR_NOT_FOUND there is none.
 */
MUST_USE int coord_zk_read_cluster(const struct coord_zk_place *place,
                                   const struct coord_zk_databases *databases, span_ms limit_ms,
                                   struct coord_zk_found *out);

/* What the databases say of a cluster whose znodes have been lost. */
struct coord_zk_adoption {
    const char *id;             /* 1 … 63 bytes of [a-z0-9-] */
    uint32_t shard_count;       /* 1 … SHARD_COUNT_MAX */
    int64_t generation_max;     /* no generation of any shard was higher */
    const uint8_t *database_of; /* of every shard; borrowed */
};

/*
 * Bring a cluster's znodes in line with what its databases say: create what is absent, give it the
 * databases' id, and raise `base` so that every generation from now on is above all of before.
 *
 * shape:  may be repeated: it changes nothing more. *base_before is the base that was there, −1 if
 *         there was no cluster. Blocks, as coord_zk_init_cluster() does.
 * errors: as coord_zk_init_cluster(); ERR_CONFLICT also while brokers are registered, and when a
 *         shard's znode names another database than the one that it lies in.
 */
MUST_USE int coord_zk_adopt_cluster(const struct coord_zk_place *place,
                                    const struct coord_zk_databases *databases,
                                    const struct coord_zk_adoption *adoption, span_ms limit_ms,
                                    struct coord_zk_found *out, int64_t *base_before);

struct coord_zk_options {
    struct loop *loop; /* borrowed until the close callback */
    struct coord_zk_place place;
    struct coord_zk_databases databases;
    const struct cluster *cluster; /* copied */
    const struct member *self;     /* copied: what is registered until the first COORD_PUBLISH */
    span_ms request_timeout_ms;    /* a request is answered by then; 0: the session timeout */
    struct coord_events events;
    /* Something that a person should know, one line; NULL: nobody listens. Borrowed. */
    void (*on_note)(void *ctx, const char *line); /* ctx: events.ctx */
};

/*
 * Open the coordinator: it connects, registers `self`, then says COORD_NEW; from then on until the
 * close it keeps or renews the session by itself.
 *
 * shape:  strings and structs of the options are copied.
 * note:   requests may be submitted at once; they wait for the session, at most their timeout.
 *         close() answers what is in flight with ERR_UNAVAILABLE; its callback may come up to 5 s
 *         later, for the library waits for a server that does not answer (Z-12).
 *         The process must ignore SIGPIPE, and must not exec a child that inherits descriptors
 *         (Z-16: ours are close-on-exec, but only from the moment of connecting).
 * errors: ERR_INVALID, ERR_NO_MEMORY, ERR_IO.
 */
MUST_USE int coord_zk_open(const struct coord_zk_options *options, struct coord **out);

/* The negotiated session timeout; what was asked for until the first connection. */
span_ms coord_zk_session_timeout_ms(const struct coord *coord);

/* Counters for /metrics; all since the open. */
struct coord_zk_stats {
    uint64_t session_count; /* sessions registered */
    uint64_t away_count;    /* times disconnected */
    uint64_t lost_count;    /* sessions lost */
    uint64_t call_count;    /* requests to ZooKeeper */
    uint64_t unknown_count; /* of these, without a known outcome */
    uint64_t watch_count;   /* watch events */
    uint32_t watched_bytes; /* length of all watched paths now (Z-10) */
    uint32_t held_count;    /* shards whose owner znode is ours */
};

void coord_zk_stats(const struct coord *coord, struct coord_zk_stats *out);

#endif
