/* SPDX-License-Identifier: Apache-2.0
 *
 * A running digest over named events: two runs of a deterministic program are the same if and, but
 * for a chance of 2^-64, only if their digests are. The simulator and its replays rest on it.
 */
#ifndef FOLIOT_LIB_BASE_TRACE_H
#define FOLIOT_LIB_BASE_TRACE_H

#include <stddef.h>
#include <stdint.h>

/* Sees each event as it is added. */
typedef void (*trace_fn)(void *ctx, const char *what, const int64_t *values, size_t count);

struct trace {
    uint64_t digest; /* of all events so far, in order */
    uint64_t count;  /* events so far */
    trace_fn fn;     /* NULL: nobody looks */
    void *ctx;
};

/* Start an empty trace. */
void trace_init(struct trace *trace, trace_fn fn, void *ctx);

/*
 * Add an event.
 *
 * shape: trace may be NULL: nothing happens. Values must not stem from addresses or hash order.
 */
void trace_add(struct trace *trace, const char *what, const int64_t *values, size_t count);

/* trace_add with the values listed. */
#define TRACE(trace, what, ...)                                \
    trace_add((trace), (what), (const int64_t[]){__VA_ARGS__}, \
              sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

#endif
