/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a broker should get calls: started with all, ready with any (ADR 0037). It knows what is
 * there and what is not, and says it in lines for people.
 */
#ifndef FOLIOT_BROKER_READINESS_H
#define FOLIOT_BROKER_READINESS_H

#include "lib/base/attr.h"
#include "lib/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

struct buf;

struct readiness_database {
    const char *name; /* borrowed */
    bool is_writable;
};

struct readiness {
    bool is_draining;
    bool has_session;
    bool has_queues;  /* they have been read once */
    bool has_started; /* it has been ready before: one database is enough from then on */
    uint32_t database_count;
    struct readiness_database databases[DATABASE_COUNT_MAX];
};

/* True if it should get calls. Appends a line for each thing that is missing, also when it is
 * ready without; lines that find no room in the buffer are left out. */
MUST_USE bool readiness_judge(const struct readiness *facts, struct buf *lines);

#endif
