/* SPDX-License-Identifier: Apache-2.0
 *
 * Time as plain numbers: wall-clock milliseconds for what is stored or crosses machines, boot-time
 * microseconds for sleeping and in-memory timeouts. Arithmetic saturates. Nothing here reads a
 * clock.
 */
#ifndef FOLIOT_LIB_BASE_INSTANT_H
#define FOLIOT_LIB_BASE_INSTANT_H

#include <stdint.h>

typedef int64_t wall_ms; /* milliseconds since 1970-01-01 UTC */
typedef int64_t span_ms; /* a length of time in milliseconds */
typedef int64_t boot_us; /* microseconds of CLOCK_BOOTTIME; never compared across machines */

#define SPAN_NEVER INT64_MAX
#define BOOT_NEVER INT64_MAX
#define WALL_NEVER INT64_MAX

#define US_PER_MS ((int64_t)1000)
#define US_PER_S  ((int64_t)1000000)
#define MS_PER_S  ((int64_t)1000)

/* Sum of two 64-bit times, held at the ends of the range instead of wrapping. */
static inline int64_t time_add(int64_t a, int64_t b)
{
    int64_t sum;

    if (__builtin_add_overflow(a, b, &sum)) {
        return a < 0 ? INT64_MIN : INT64_MAX;
    }
    return sum;
}

/* Difference of two 64-bit times, held at the ends of the range instead of wrapping. */
static inline int64_t time_sub(int64_t a, int64_t b)
{
    int64_t difference;

    if (__builtin_sub_overflow(a, b, &difference)) {
        return a < 0 ? INT64_MIN : INT64_MAX;
    }
    return difference;
}

/* Product of a time and a count, held at the ends of the range instead of wrapping. */
static inline int64_t time_mul(int64_t a, int64_t b)
{
    int64_t product;

    if (__builtin_mul_overflow(a, b, &product)) {
        return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
    }
    return product;
}

static inline int64_t time_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t time_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t time_clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* Milliseconds of microseconds, rounded down (towards the past) also below zero. */
static inline int64_t ms_floor(int64_t us)
{
    int64_t ms = us / US_PER_MS;

    return us % US_PER_MS < 0 ? ms - 1 : ms;
}

/* Milliseconds of microseconds, rounded up (towards the future). */
static inline int64_t ms_ceil(int64_t us)
{
    return -ms_floor(-us);
}

#endif
