/* SPDX-License-Identifier: Apache-2.0
 *
 * The beat: what every part looks after though no event announces it (checks, figures, lost events)
 * falls on whole multiples of one span of CLOCK_BOOTTIME, so that an idle process wakes once for
 * all of it. Pure. source: ACCEPTANCE D8
 */
#ifndef FOLIOT_LIB_BASE_BEAT_H
#define FOLIOT_LIB_BASE_BEAT_H

#include "lib/base/instant.h"

/* Longest beat: figures and looks are about a second old. */
#define BEAT_US_MAX (3 * US_PER_S / 2)

/* Epochs are checked this many times per session timeout. source: RELIABILITY H-8 */
#define BEAT_CHECKS_PER_SESSION 3

/* How many beats lie between two checks of the epochs. shape: session_timeout_ms ≥ 1. */
static inline int64_t beat_per_check(span_ms session_timeout_ms)
{
    int64_t check_us = session_timeout_ms * US_PER_MS / BEAT_CHECKS_PER_SESSION;

    return (check_us + BEAT_US_MAX - 1) / BEAT_US_MAX;
}

/* The beat that belongs to a session timeout: a whole part of a third of it. */
static inline int64_t beat_us(span_ms session_timeout_ms)
{
    return session_timeout_ms * US_PER_MS / BEAT_CHECKS_PER_SESSION /
           beat_per_check(session_timeout_ms);
}

/* The next multiple of a period after `now`. shape: period_us ≥ 1. */
static inline boot_us beat_after(boot_us now, int64_t period_us)
{
    return (now / period_us + 1) * period_us;
}

#endif
