/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to broker/admin: how the port takes POSTs. Only the port's thread comes here.
 */
#ifndef FOLIOT_BROKER_ADMIN_ADMIN_DESK_H
#define FOLIOT_BROKER_ADMIN_ADMIN_DESK_H

#include "broker/admin/admin_post.h"
#include "lib/base/instant.h"

#include <microhttpd.h>

#include <stdint.h>

struct admin_desk {
    _Atomic(const struct admin_posts *) posts; /* NULL: nobody answers yet */
    boot_us (*clock_us)(void);
    uint32_t count; /* posts open */
    size_t bytes;   /* of their bodies */
};

/* An idle connection is closed after so long. */
#define ADMIN_TIMEOUT_S 10
/* Clients are told half of that, so that none sends a request into a connection that is being
 * closed. */
#define ADMIN_KEEP_ALIVE "timeout=5"

/* One call of microhttpd's handler for a POST; *state is the post's, NULL at first. */
enum MHD_Result admin_desk_take(struct admin_desk *desk, struct MHD_Connection *connection,
                                const char *path, struct slice chunk, void **state);

/* The request is over, answered or not. */
void admin_desk_end(struct admin_desk *desk, void *state);

#endif
