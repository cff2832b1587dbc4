/* SPDX-License-Identifier: Apache-2.0
 *
 * The clocks of this machine. Everything but the edge is given the time instead of reading it.
 */
#ifndef FOLIOT_LIB_IO_CLOCK_H
#define FOLIOT_LIB_IO_CLOCK_H

#include "lib/base/instant.h"

/*
 * Microseconds of CLOCK_BOOTTIME: it never steps and counts the time in which the machine slept.
 *
 * note: any thread. For the time of this loop turn use loop_now_us.
 */
boot_us clock_boot_us(void);

/* Microseconds since 1970-01-01 UTC by this machine's clock, which may step. Any thread. */
int64_t clock_wall_us(void);

/* Milliseconds since 1970-01-01 UTC, rounded down, by this machine's clock. Any thread. */
wall_ms clock_wall_ms(void);

#endif
