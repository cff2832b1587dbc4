/* SPDX-License-Identifier: Apache-2.0
 *
 * The hosts of a conninfo as addresses: libpq would look names up itself and block the loop. Socket
 * paths and numeric addresses are left as they are. source: RELIABILITY P-2
 */
#ifndef FOLIOT_STORAGE_PG_HOST_H
#define FOLIOT_STORAGE_PG_HOST_H

#include "lib/base/attr.h"
#include "lib/io/resolve.h"

/* Hosts of one conninfo: a primary and a few standbys. */
#define PG_HOST_COUNT_MAX 8

#define PG_HOST_BYTES_MAX     256
#define PG_HOSTADDR_BYTES_MAX 512

struct pg_hosts;

/* Every name has an address (0), or one has none: the first error. */
typedef void (*pg_hosts_cb)(struct pg_hosts *hosts, int err, void *ctx);

/* Owned by the caller; must not move while a look-up is under way. */
struct pg_hosts {
    struct resolver *resolver;
    pg_hosts_cb cb;
    void *ctx;
    uint32_t count;
    uint32_t pending; /* look-ups that are under way */
    int err;
    struct pg_hosts_one {
        struct resolve_request request;
        struct pg_hosts *hosts;
        char name[PG_HOST_BYTES_MAX];
        char address[ADDRESS_TEXT_BYTES]; /* empty: libpq takes the name as it is */
        bool is_looked_up;
        bool is_pending;
    } all[PG_HOST_COUNT_MAX];
    char hostaddr[PG_HOSTADDR_BYTES_MAX]; /* for libpq, when the callback says 0 */
};

void pg_hosts_init(struct pg_hosts *hosts, struct resolver *resolver, pg_hosts_cb cb, void *ctx);

/*
 * Look the names of a comma-separated list up.
 *
 * shape:  no look-up is under way. *started is true if the callback will come; false if there is
 *         nothing to look up, and libpq can have the list as it is.
 * errors: ERR_TOO_LARGE (too many hosts, or a name too long), ERR_FULL: no callback.
 */
MUST_USE int pg_hosts_find(struct pg_hosts *hosts, const char *list, bool *started);

/* Wish for an end of what is under way; the callback still comes. */
void pg_hosts_cancel(struct pg_hosts *hosts);

#endif
