/* SPDX-License-Identifier: Apache-2.0
 *
 * The admin port: /metrics, /livez, /readyz and /startupz over HTTP/1.1, in a thread of its own. It
 * shows what the loop has published last and never makes the loop wait. POSTs are answered by who
 * asks for them. Knows no core, no store, no messages.
 */
#ifndef FOLIOT_BROKER_ADMIN_ADMIN_H
#define FOLIOT_BROKER_ADMIN_ADMIN_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/instant.h"

#include <stdbool.h>
#include <stdint.h>

struct admin;
struct admin_posts;

struct admin_options {
    const char *host;          /* numeric */
    uint16_t port;             /* 0: any free one, see admin_port */
    boot_us (*clock_us)(void); /* CLOCK_BOOTTIME; any thread */
};

/*
 * Listen and answer: alive, not started, not ready, both for the reason "starting".
 *
 * errors: ERR_INVALID for the host, ERR_EXISTS if the port is taken, ERR_DENIED, ERR_IO if it
 * cannot listen there for another reason, ERR_NO_MEMORY.
 */
MUST_USE int admin_open(const struct admin_options *options, struct admin **out);

uint16_t admin_port(const struct admin *admin);

/* The loop has turned: call in each turn, or when it is known to be busy. Cheap. */
void admin_beat(struct admin *admin, boot_us now_us);

/* From here on a loop that was silent for so long is not alive. */
void admin_watch(struct admin *admin, span_ms stuck_ms);

/* Whether we are ready, and what is missing, lines for people: all that is missing if we are not,
 * what we are ready without if we are. Copied, cut at 1 KiB. With the first time that we are, we
 * have started, for good. */
void admin_set_ready(struct admin *admin, bool is_ready, const char *missing);

/* What /metrics shows from here on. Copied; without memory for the copy the old text stays. */
void admin_publish(struct admin *admin, struct slice metrics);

/* From here on POSTs are answered by these, borrowed until the close; before that they are refused.
 */
void admin_set_posts(struct admin *admin, const struct admin_posts *posts);

/*
 * Stop the thread and free. Answers that are being sent are cut.
 *
 * shape: every post that was launched has been resumed, and those that are launched from here on
 *        are so at once.
 */
void admin_close(struct admin *admin);

#endif
