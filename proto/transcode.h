/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of the public API in JSON: which methods there are, their requests and answers, and
 * errors in the form of the Connect protocol. Every unary method of a service in the table of
 * transcode.c is there; nothing is written for a single method.
 */
#ifndef FOLIOT_PROTO_TRANSCODE_H
#define FOLIOT_PROTO_TRANSCODE_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "proto/fault.h"

#include <stdbool.h>
#include <stddef.h>

/* protobuf-c's; opaque outside of proto/. */
struct ProtobufCMethodDescriptor;

/* The method of "/foliot.v1.TaskService/Create", or NULL. */
const struct ProtobufCMethodDescriptor *transcode_find(struct slice path);

/* Longest path of a method. */
#define TRANSCODE_PATH_BYTES 128

/* Path of method `index` of all of them, with its NUL; false behind the last one. */
bool transcode_path(size_t index, char out[TRANSCODE_PATH_BYTES]);

/*
 * Append the serialized request for a JSON text. An empty text is an empty message.
 *
 * errors: ERR_INVALID, ERR_TOO_LARGE, ERR_NO_MEMORY, each with fault filled in.
 */
MUST_USE int transcode_request(const struct ProtobufCMethodDescriptor *method, struct slice json,
                               struct buf *out, struct fault *fault);

/* Append the JSON text of a serialized response. errors: as above. */
MUST_USE int transcode_response(const struct ProtobufCMethodDescriptor *method, struct slice bytes,
                                struct buf *json, struct fault *fault);

/* How a call failed, as lib/rpc says it; all borrowed. */
struct transcode_failure {
    enum rpc_status status; /* not RPC_OK */
    const char *message;    /* may be NULL */
    struct slice details;   /* google.rpc.Status, serialized; empty for none */
};

/*
 * Append {"code": …, "message": …, "details": […]}. Details that cannot be read are left out.
 *
 * errors: as buf_append.
 * source: connectrpc.com, "Connect Protocol Reference", Error end-stream and codes
 */
int transcode_failure(const struct transcode_failure *failure, struct buf *json);

/* The HTTP status that a gRPC status is answered with. source: as above */
unsigned transcode_http_status(enum rpc_status status);

#endif
