/* SPDX-License-Identifier: Apache-2.0
 *
 * The unary methods of a server in JSON on the admin port, as the Connect protocol has them: POST
 * /foliot.v1.TaskService/Create with application/json (or application/proto). Texts are read and
 * written in the admin port's thread; the loop sees what it sees of a gRPC call.
 * source: connectrpc.com, "Connect Protocol Reference", unary RPCs
 */
#ifndef FOLIOT_BROKER_JSON_API_H
#define FOLIOT_BROKER_JSON_API_H

#include "lib/base/attr.h"

struct admin;
struct json_api;
struct loop;
struct rpc_server;

/* A call that names no Connect-Timeout-Ms, and the longest that counts. */
#define JSON_API_TIMEOUT_MS     30000
#define JSON_API_TIMEOUT_MS_MAX 600000

/* Begin to answer POSTs on the admin port. errors: ERR_NO_MEMORY, ERR_IO. */
MUST_USE int json_api_open(struct loop *loop, struct rpc_server *server, struct admin *admin,
                           struct json_api **out);

/* The server is closed: calls are answered UNAVAILABLE from here on. */
void json_api_detach(struct json_api *api);

/*
 * Answer everything that waits, for good.
 *
 * shape: on the loop's thread, detached, before admin_close; json_api_free after that.
 */
void json_api_stop(struct json_api *api);

void json_api_free(struct json_api *api);

#endif
