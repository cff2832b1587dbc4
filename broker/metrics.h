/* SPDX-License-Identifier: Apache-2.0
 *
 * What /metrics shows: the figures of all parts, gathered once a second on the loop and written as
 * text. Names follow docs/METRICS.md.
 */
#ifndef FOLIOT_BROKER_METRICS_H
#define FOLIOT_BROKER_METRICS_H

#include "broker/core/inspect.h"
#include "broker/outbound.h"
#include "broker/service.h"
#include "coordinator/coord_zk.h"
#include "lib/rpc/rpc_server.h"
#include "storage/store_pg.h"

struct broker_metrics;

/* Figures of one database. */
struct database_figures {
    const char *name;
    struct store_pg_stats store;
    int64_t clock_error_us;  /* width of the bounds; INT64_MAX if unknown */
    int64_t clock_offset_us; /* database minus this machine */
    int64_t clock_held_us;   /* so far due times are held after a step back */
    uint64_t clock_steps;    /* steps of the database's clock, forward and back */
    bool is_writable;
};

/* All figures of one moment. */
struct figures {
    struct broker_stats broker;
    struct outbound_stats outbound;
    struct service_stats service;
    struct rpc_server_stats rpc;
    struct coord_zk_stats coord;
    uint32_t shard_count;
    uint32_t shards_unowned; /* nobody is known to serve them */
    uint32_t members;
    uint64_t tls_expires_s; /* since 1970; 0: no TLS */
    bool is_ready;
    struct database_figures databases[DATABASE_COUNT_MAX];
    uint32_t database_count;
};

/* shape: version and name of this broker; copied. errors: ERR_NO_MEMORY. */
MUST_USE int metrics_open(const char *version, const char *name, struct broker_metrics **out);

/* A turn of the loop took so long, from its poll to the next. */
void metrics_turn(struct broker_metrics *metrics, int64_t busy_us);

/* Append everything. errors: those of the buffer. */
MUST_USE int metrics_text(struct broker_metrics *metrics, const struct figures *figures,
                          struct buf *out);

void metrics_close(struct broker_metrics *metrics);

#endif
