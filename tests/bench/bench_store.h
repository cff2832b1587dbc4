/* SPDX-License-Identifier: Apache-2.0
 *
 * What the rows of bench_store share: figures, and the store measured as one of the rows.
 */
#ifndef FOLIOT_TESTS_BENCH_BENCH_STORE_H
#define FOLIOT_TESTS_BENCH_BENCH_STORE_H

#include "tests/lib/fixture.h"

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#define TASK_COUNT  500 /* K: tasks of one transaction */
#define TABLE_COUNT 128
#define PAYLOAD_LEN 100
#define KEPT_COUNT  100000 /* tasks that are there before a measurement starts */

/* What is measured: tasks that went through, and the processor time that they took. */
struct figures {
    double wall_s;
    double server_s;
    double client_s;
    int64_t tasks;
    int64_t wal_bytes; /* written meanwhile by the server, others included */
};

/* Begin to measure: backend is the server's process, link asks for its log position. */
void figures_begin(struct figures *figures, int backend, PGconn *link);
void figures_end(struct figures *figures, int backend, PGconn *link);

/* Seconds since figures_begin. */
double figures_elapsed_s(const struct figures *figures);

/* What the store itself is to do. */
struct store_load {
    const char *name;
    int tables_per_commit;
    bool has_tags;     /* with tags and an expiry */
    bool keeps_result; /* the delete leaves a result behind */
};

/* One row: the store itself. */
struct figures bench_store_itself(const struct fixture *fixture, const struct store_load *load,
                                  double seconds);

#endif
