/* SPDX-License-Identifier: Apache-2.0
 *
 * The core's way out: attempts to targets, outcomes back. Checks the allow list, translates the
 * database's times to ours, and asks the clock again just before and after each send.
 */
#ifndef FOLIOT_BROKER_OUTBOUND_H
#define FOLIOT_BROKER_OUTBOUND_H

#include "broker/config.h"
#include "broker/core/env.h"
#include "broker/failure_note.h"
#include "broker/target/target_pool.h"

struct loop;
struct edge_outbound;

/* All pointers outlive the outbound. */
struct outbound_options {
    struct loop *loop;
    struct target_pool_options pool;
    const struct config_list *allow; /* patterns of host:port */
    /* The queue of a number, NULL if unknown. */
    const struct queue *(*queue_find)(void *ctx, uint32_t id);
    /* A database's clock at a moment of CLOCK_BOOTTIME. */
    struct clock_bounds (*bounds_at)(void *ctx, uint32_t database, boot_us at_us);
    /* An attempt has ended; never called inside start. */
    void (*on_outcome)(void *ctx, struct attempt *attempt);
    /* Attempts of a queue fail: the first one at once, then once a minute how many have since. */
    void (*on_failing)(void *ctx, const char *queue, const char *target,
                       const struct failure_note *note);
    /* The shard of an attempt that has ended is another broker's: as outbound.report. */
    void (*on_report)(void *ctx, const struct report *report);
    void *ctx;
};

/* errors: ERR_NO_MEMORY. */
MUST_USE int outbound_open(const struct outbound_options *options, struct edge_outbound **out);

/* What the core is given. Valid until the close. */
struct outbound *outbound_interface(struct edge_outbound *outbound);

/* May queues send there? shape: target as in struct queue, checked by queue_check(). */
bool outbound_allows(const struct config_list *allow, const char *target);

/* Counters since the open, by enum outcome; and the gauges of the targets. */
struct outbound_stats {
    uint64_t outcomes[OUTCOME_NOT_STARTED + 1];
    uint64_t refused_full; /* starts refused for want of room */
    struct target_pool_stats targets;
};

void outbound_get_stats(const struct edge_outbound *outbound, struct outbound_stats *out);

typedef void (*outbound_cb)(void *ctx);

/* End all attempts, report their outcomes, free, then the callback. */
void outbound_close(struct edge_outbound *outbound, outbound_cb cb, void *ctx);

#endif
