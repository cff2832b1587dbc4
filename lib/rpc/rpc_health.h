/* SPDX-License-Identifier: Apache-2.0
 *
 * grpc.health.v1.Health on a server: Check, and Watch, which answers the present state and stays
 * open. Needs no authentication.
 */
#ifndef FOLIOT_LIB_RPC_RPC_HEALTH_H
#define FOLIOT_LIB_RPC_RPC_HEALTH_H

#include "lib/base/attr.h"

#include <stdbool.h>

struct rpc_server;
struct rpc_health;

/*
 * Serve grpc.health.v1.Health; every service of the server starts as not serving.
 *
 * errors: as rpc_server_add.
 */
MUST_USE int rpc_health_open(struct rpc_server *server, struct rpc_health **out);

/* Set the state that is told for "" and for every service of the server. Watchers are told. */
void rpc_health_set(struct rpc_health *health, bool is_serving);

/* Free. shape: after rpc_server_close has called back. */
void rpc_health_close(struct rpc_health *health);

#endif
