/* SPDX-License-Identifier: Apache-2.0
 *
 * A queue as a plain value: a named class of tasks with its policy and target.
 */
#ifndef FOLIOT_LIB_MODEL_QUEUE_H
#define FOLIOT_LIB_MODEL_QUEUE_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/instant.h"
#include "lib/base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How an attempt leaves the house. */
enum target_kind {
    TARGET_GRPC_METHOD = 1, /* grpc://host:port/package.Service/Method, payload is the request */
    TARGET_RECEIVER = 2     /* receiver://host:port, foliot.v1.Receiver/Deliver */
};

/* What a create does when its key is taken. */
enum key_policy {
    KEY_KEEP = 1,   /* OK with the existing id, created = false */
    KEY_REJECT = 2, /* ALREADY_EXISTS */
    KEY_REPLACE = 3 /* the old task loses its key and its start, a new id is made */
};

/* What a failing task does to those of its order key that are due after it. Numbers are stored. */
enum order_policy {
    ORDER_BLOCK = 1, /* they wait until it has ended, and the limits of retries do not end it */
    ORDER_SKIP = 2,  /* they wait until it has failed order_failures times; then it has no place
                        before them any more */
    ORDER_DEAD =
        3 /* they wait until it has ended, also as a dead letter by the limits of retries */
};

/* When and how often a failed task is tried again. */
struct retry_policy {
    span_ms initial_ms;           /* back-off after the first failure */
    uint32_t multiplier_permille; /* growth of the back-off, 2000 doubles */
    span_ms max_ms;               /* longest back-off */
    uint32_t jitter_permille;     /* share of the back-off that is random, 0 … 1000 */
    uint32_t failures_max;        /* give up after this many failures */
    uint32_t unknowns_max;        /* give up after this many unknown outcomes */
    span_ms age_max_ms;           /* give up when older than this since first due; 0: no bound */
};

struct queue {
    uint32_t id;                       /* number, given at creation, never reused */
    uint32_t version;                  /* counts the changes */
    char tenant[NAME_BYTES_MAX + 1];   /* its namespace */
    char name[NAME_BYTES_MAX + 1];     /* unique in the namespace */
    enum target_kind target_kind;      /* derived from target */
    char target[TARGET_BYTES_MAX + 1]; /* as given: grpc://… or receiver://… */
    bool at_most_once;                 /* an unknown outcome is not repeated */
    span_ms attempt_timeout_ms;        /* ATTEMPT_TIMEOUT_MS_MIN … _MAX */
    span_ms key_memory_ms;             /* how long a key is held after its task has ended */
    uint32_t concurrency_max;          /* attempts in flight per broker */
    struct retry_policy retry;
    span_ms result_memory_ms; /* how long results are kept; 0: not at all */
    span_ms expire_after_ms;  /* a task expires this long after its first due time; 0: never */
    enum order_policy order_policy;
    uint32_t order_failures; /* SKIP: bad ends of a task until then */
    bool is_paused;          /* no attempt starts … */
    wall_ms paused_until_ms; /* … before this; 0: until resumed */
    bool is_draining;        /* takes no more tasks */
};

#define QUEUE_KEY_MEMORY_MS_DEFAULT  600000
#define QUEUE_KEY_MEMORY_MS_MAX      INT64_C(31536000000)
#define QUEUE_RESULT_MEMORY_MS_MAX   INT64_C(31536000000)
#define QUEUE_PAUSE_MS_MAX           INT64_C(31536000000)
#define QUEUE_CONCURRENCY_DEFAULT    1000
#define QUEUE_CONCURRENCY_MAX        100000
#define QUEUE_ORDER_FAILURES_DEFAULT 1
#define QUEUE_FAILURES_DEFAULT       10
#define QUEUE_FAILURES_MAX           1000
#define QUEUE_UNKNOWNS_DEFAULT       5
#define QUEUE_BACKOFF_INITIAL_MS     1000
#define QUEUE_BACKOFF_MAX_MS_DEFAULT 600000
#define QUEUE_BACKOFF_MS_MAX         INT64_C(86400000)

/*
 * How many bytes at the beginning of a text may be in the name of a queue or a namespace.
 *
 * shape:  a-z, 0-9, '.', '_' and '-'; stops at the NUL.
 */
size_t queue_name_span(const char *text);

/* Fill in the defaults of everything but names and target. */
void queue_init(struct queue *queue);

/*
 * Check names, target and every number of a queue; derive target_kind.
 *
 * shape:  errmsg has room for errmsg_size bytes; names the field, the value and the limit.
 * errors: ERR_INVALID with errmsg filled in.
 */
MUST_USE int queue_check(struct queue *queue, char *errmsg, size_t errmsg_size);

/* Parts of a target address: borrowed from the text. */
struct target_address {
    enum target_kind kind;
    struct slice authority; /* host:port */
    struct slice path;      /* /package.Service/Method; empty for a receiver */
    bool uses_tls;          /* grpcs:// or receivers:// */
};

/*
 * Split a target address.
 *
 * shape:  grpc://host:port/package.Service/Method or receiver://host:port, with TLS grpcs:// or
 *         receivers://; [v6]:port allowed.
 * errors: ERR_INVALID with errmsg saying what is wrong and what a right one looks like.
 */
MUST_USE int target_parse(const char *target, struct target_address *address, char *errmsg,
                          size_t errmsg_size);

#endif
