/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads of the kernel's clocks.
 */
#include "lib/io/clock.h"

#include "lib/base/check.h"

#include <time.h>

#define NS_PER_US 1000

static int64_t read_us(clockid_t clock)
{
    struct timespec now;

    REQUIRE(clock_gettime(clock, &now) == 0);
    return (int64_t)now.tv_sec * US_PER_S + now.tv_nsec / NS_PER_US;
}

boot_us clock_boot_us(void)
{
    return read_us(CLOCK_BOOTTIME);
}

int64_t clock_wall_us(void)
{
    return read_us(CLOCK_REALTIME);
}

wall_ms clock_wall_ms(void)
{
    return ms_floor(clock_wall_us());
}
