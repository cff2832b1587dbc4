/* SPDX-License-Identifier: Apache-2.0
 *
 * The broker in its real world: builds every part in order, drives the core once per turn of the
 * loop, and takes everything down again in the right order. source: DESIGN 3 and 14
 *
 * Start: admin port → the backend's start (cluster from ZooKeeper, schema of every database) → gRPC
 * port → store → coordinator → core → services. What cannot be reached is tried again, with a log
 * line; meanwhile /livez says yes, /startupz and /readyz no. source: ADR 0037
 *
 * Drain (SIGTERM): health says NOT_SERVING → shards are released → clients are told to go elsewhere
 * → running attempts and open calls end, or the time is over → targets, ZooKeeper and databases are
 * closed → exit 0. A second signal skips the waiting.
 */
#ifndef FOLIOT_BROKER_SERVER_H
#define FOLIOT_BROKER_SERVER_H

#include "broker/config.h"

#include <stddef.h>

/* Exit statuses. */
#define SERVER_EXIT_OK     0
#define SERVER_EXIT_FAILED 1 /* it could not start, or not end in order */
#define SERVER_EXIT_USAGE  2 /* the settings are wrong */

struct backend;

/* ZooKeeper and PostgreSQL: what foliotd stands on. (broker/server_cluster.c) */
extern const struct backend SERVER_CLUSTER;

struct server_setup {
    const struct config *config;
    const char *warnings; /* lines for the log, or "" */
    const struct backend *backend;
    void *backend_ctx; /* the backend's own */
};

/* Most servers of one process. */
#define SERVER_COUNT_MAX 8

/*
 * Can the files of TLS be used that the settings name? For --check-config.
 *
 * errors: ERR_INVALID, ERR_NO_MEMORY; text then says why, in one line.
 */
MUST_USE int server_tls_check(const struct config *config, char *text, size_t size);

/*
 * Run until a signal asks for the end.
 *
 * shape:  1 … SERVER_COUNT_MAX setups: foliotd has one; more share a loop, and end together.
 * return: an exit status.
 */
int server_run(const struct server_setup *setups, size_t count);

#endif
