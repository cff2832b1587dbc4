/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues in the home database.
 */
#ifndef FOLIOT_STORAGE_PG_QUEUE_H
#define FOLIOT_STORAGE_PG_QUEUE_H

#include "storage/pg_conn.h"
#include "storage/store.h"

struct pg_queue_env {
    void (*on_answered)(void *ctx); /* a request is over: its callback has returned */
    void *ctx;
};

/* Start a put, on a connection with a lock timeout. `env` is kept. errors: ERR_NO_MEMORY. */
MUST_USE int pg_queue_put_start(struct pg_conn *conn, const struct pg_queue_env *env,
                                struct store_queue_put *put);

/* Start a drop, on a connection with a lock timeout. errors: ERR_NO_MEMORY. */
MUST_USE int pg_queue_drop_start(struct pg_conn *conn, const struct pg_queue_env *env,
                                 struct store_queue_drop *drop);

/* Start a list. errors: ERR_NO_MEMORY. */
MUST_USE int pg_queue_list_start(struct pg_conn *conn, const struct pg_queue_env *env,
                                 struct store_queue_list *list);

#endif
