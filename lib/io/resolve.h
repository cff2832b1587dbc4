/* SPDX-License-Identifier: Apache-2.0
 *
 * Names to addresses without blocking the loop: numeric ones at once, others by DNS and the hosts
 * file, with a cap on what is outstanding, a time-out, and a short memory for answers and failures.
 */
#ifndef FOLIOT_LIB_IO_RESOLVE_H
#define FOLIOT_LIB_IO_RESOLVE_H

#include "lib/base/attr.h"
#include "lib/base/instant.h"
#include "lib/base/list.h"
#include "lib/io/address.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;
struct resolver;
struct resolve_request;

/* Fill by resolver_options_init, then change what matters. */
struct resolver_options {
    uint32_t outstanding_max; /* names being looked up; more are refused */
    uint32_t cache_max;       /* names remembered; the oldest goes first */
    span_ms timeout_ms;       /* one look-up in all */
    span_ms positive_ms;      /* an answer is remembered for */
    span_ms negative_ms;      /* a failure is remembered for */
    const char *servers;      /* "127.0.0.1:5353,…"; NULL: as the system is configured */
};

void resolver_options_init(struct resolver_options *options);

/* errors: ERR_NO_MEMORY, ERR_INVALID (servers), ERR_IO. */
MUST_USE int resolver_open(struct loop *loop, const struct resolver_options *options,
                           struct resolver **out);

/*
 * The look-up ended.
 *
 * shape: err is 0 with count ≥ 1 addresses, or ERR_NOT_FOUND (no such name), ERR_TIMEOUT,
 *        ERR_UNAVAILABLE (no server answers), ERR_CANCELLED, ERR_NO_MEMORY, with count 0.
 * note:  addresses are borrowed for the callback; their port is the request's.
 */
typedef void (*resolve_cb)(struct resolve_request *request, int err,
                           const struct address *addresses, size_t count, void *ctx);

/* Owned by the caller, embedded; must not move until the callback begins. */
struct resolve_request {
    const char *host; /* numeric or a name; borrowed until the callback */
    uint16_t port;
    bool is_fresh; /* do not answer from the memory of earlier answers (failures still count) */
    resolve_cb cb;
    void *ctx; /* the caller's */

    struct list node; /* private to resolve.c from here on */
    void *lookup;
    int err;
};

/*
 * Look a name up. Asynchronous contract: zero means exactly one callback, later, on the loop.
 *
 * errors: ERR_FULL (outstanding_max), ERR_INVALID (host empty or too long).
 */
MUST_USE int resolver_find(struct resolver *resolver, struct resolve_request *request);

/* Wish for an end: the callback comes, later, with ERR_CANCELLED or the true result. */
void resolver_cancel(struct resolver *resolver, struct resolve_request *request);

/* Free. shape: no request is outstanding. */
void resolver_close(struct resolver *resolver);

#endif
