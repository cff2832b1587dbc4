/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that ends the process when the loop has not turned for too long. ZooKeeper's library
 * keeps our session alive from a thread of its own, so a stuck loop would keep its shards for ever;
 * dead, it loses them. Knows nothing of shards. source: DESIGN 7 "Watchdog"
 */
#ifndef FOLIOT_LIB_IO_WATCHDOG_H
#define FOLIOT_LIB_IO_WATCHDOG_H

#include "lib/base/attr.h"
#include "lib/base/instant.h"

struct loop;
struct watchdog;

/* What to do about a stuck loop, on the watchdog's thread. The loop may hold any lock. */
typedef void (*watchdog_cb)(void *ctx);

/*
 * Start to watch a loop.
 *
 * shape:  limit_ms ≥ WATCHDOG_WAKE_COUNT; `on_stuck` NULL ends the process by SIGABRT, so that a
 *         core shows where the loop stands.
 * units:  the limit is counted in the watchdog's own wake-ups, of which WATCHDOG_WAKE_COUNT make a
 *         limit: a process that was stopped and goes on is not taken for stuck, for the watchdog
 *         was stopped as well.
 * note:   a loop that has nothing to do is woken by the watchdog and turns.
 * errors: ERR_NO_MEMORY, ERR_IO no thread.
 */
MUST_USE int watchdog_open(struct loop *loop, span_ms limit_ms, watchdog_cb on_stuck, void *ctx,
                           struct watchdog **out);

/* Wake-ups without a turn that make a loop stuck. */
#define WATCHDOG_WAKE_COUNT 4

/* Stop watching; on the loop's thread, before the loop is closed. Returns within a wake-up. */
void watchdog_close(struct watchdog *watchdog);

#endif
