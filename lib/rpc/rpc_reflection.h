/* SPDX-License-Identifier: Apache-2.0
 *
 * The services grpc.reflection.v1.ServerReflection and its v1alpha: tell any client which services
 * there are and hand out their descriptors, so that tools can call them without our .proto files.
 */
#ifndef FOLIOT_LIB_RPC_RPC_REFLECTION_H
#define FOLIOT_LIB_RPC_RPC_REFLECTION_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"

struct rpc_reflection;
struct rpc_server;

/*
 * Add both services to a server, in the turn in which it was opened.
 *
 * shape:     set is a google.protobuf.FileDescriptorSet with all imports. Those of its services
 *            are listed that the server has.
 * ownership: set is borrowed for the life of the server.
 * errors:    ERR_EXISTS, ERR_FULL, ERR_NO_MEMORY.
 */
MUST_USE int rpc_reflection_open(struct rpc_server *server, struct slice set,
                                 struct rpc_reflection **out);

/* Free. shape: the server is closed. */
void rpc_reflection_close(struct rpc_reflection *reflection);

/* Whether the server has a service; ctx is the caller's. */
typedef bool (*rpc_reflection_has_fn)(const void *ctx, struct slice service);

/*
 * Append the answer to one request: the pure part of the service.
 *
 * errors: ERR_INVALID: the request is no ServerReflectionRequest; ERR_TOO_LARGE, ERR_NO_MEMORY.
 */
MUST_USE int rpc_reflection_answer(struct slice set, struct slice request,
                                   rpc_reflection_has_fn has, const void *ctx, struct buf *out);

#endif
