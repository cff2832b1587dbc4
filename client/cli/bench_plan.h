/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run of `foliot bench` does: the modes, what each does if nothing is said, and how the
 * options change that.
 */
#ifndef FOLIOT_CLIENT_CLI_BENCH_PLAN_H
#define FOLIOT_CLIENT_CLI_BENCH_PLAN_H

#include "client/cli/args.h"
#include "client/cli/bench_load.h"
#include "lib/base/attr.h"

#include <stdbool.h>
#include <stdint.h>

/* Items per second that can be asked for. */
#define PLAN_RATE_MAX 10000000

/* A task that is due later than this after its create is not waited for, unless --await says more.
 */
#define PLAN_AWAIT_MS INT64_C(3600000)

enum bench_mode {
    BENCH_PRECISION,    /* few tasks a second: how late they are */
    BENCH_CREATE,       /* single creates of far tasks, as fast as they are answered */
    BENCH_CREATE_BATCH, /* the same in batches */
    BENCH_DRAIN,        /* many tasks due at one instant */
    BENCH_STEADY,       /* create, run and settle at a rate, all at once */
    BENCH_CANCEL,       /* cancels of far tasks */
    BENCH_MIXED,        /* creates of near and far tasks, cancels, updates, gets */
    BENCH_MODE_COUNT
};

/* "create-batch". Static string. */
const char *bench_mode_name(enum bench_mode mode);

struct plan {
    enum bench_mode mode;
    struct mix mix;           /* without its queue */
    struct load_options load; /* without mix and callbacks */
    const char *delay;        /* as it was given */
    int64_t count;            /* DRAIN, CANCEL: tasks; else 0 unless it was given */
    span_ms duration_ms;      /* of what is measured, without the warm-up */
    span_ms lead_ms;          /* DRAIN: from the first create to the due time; 0: by the count */
    span_ms await_ms;         /* wait for tasks that are due within so long of their create */
    uint32_t concurrency;     /* of the queue, per broker */
    const char *address;      /* of the receiver */
    uint16_t port;            /* 0: any */
    bool keep;                /* leave queue and tasks behind */
};

/*
 * Make the plan of a mode.
 *
 * errors: CLI_USAGE, after saying so on standard error. plan_fini() is right in any case.
 */
MUST_USE int plan_read(enum bench_mode mode, const struct args *args, struct plan *out);
void plan_fini(struct plan *plan);

/*
 * A payload of letters.
 *
 * ownership: out->data is freed by plan_free_payload().
 * errors:    ERR_NO_MEMORY, after saying so.
 */
MUST_USE int plan_make_payload(int64_t bytes, uint64_t seed, struct slice *out);
void plan_free_payload(struct slice *payload);

#endif
