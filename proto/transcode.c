/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of services, and errors as Connect has them.
 */
#include "proto/transcode.h"

#include "lib/base/base64.h"
#include "lib/base/json_text.h"
#include "proto/message.h"
#include "proto/protojson.h"

#include <foliot/v1/cluster.pb-c.h>
#include <foliot/v1/queue.pb-c.h>
#include <foliot/v1/task.pb-c.h>
#include <google/rpc/error_details.pb-c.h>
#include <google/rpc/status.pb-c.h>
#include <stdio.h>
#include <string.h>

/* One detail of an error in JSON. */
#define DETAIL_BYTES_MAX 8192

/* What brokers serve to everybody. */
static const ProtobufCServiceDescriptor *const SERVICES[] = {
    &foliot__v1__cluster_service__descriptor,
    &foliot__v1__queue_service__descriptor,
    &foliot__v1__task_service__descriptor,
};

/* Details that are shown as JSON besides their bytes. */
static const ProtobufCMessageDescriptor *const DETAILS[] = {
    &google__rpc__bad_request__descriptor,
    &google__rpc__error_info__descriptor,
    &google__rpc__retry_info__descriptor,
};

/* ---- methods ---- */

static const ProtobufCMethodDescriptor *find_method(const ProtobufCServiceDescriptor *service,
                                                    struct slice name)
{
    for (unsigned i = 0; i < service->n_methods; i++) {
        if (slice_equal(slice_of(service->methods[i].name), name)) {
            return &service->methods[i];
        }
    }
    return NULL;
}

const struct ProtobufCMethodDescriptor *transcode_find(struct slice path)
{
    for (size_t i = 0; i < ARRAY_COUNT(SERVICES); i++) {
        size_t len = strlen(SERVICES[i]->name);

        if (path.len > len + 2 && path.data[0] == '/' && path.data[len + 1] == '/' &&
            memcmp(path.data + 1, SERVICES[i]->name, len) == 0) {
            return find_method(SERVICES[i],
                               (struct slice){path.data + len + 2, path.len - len - 2});
        }
    }
    return NULL;
}

bool transcode_path(size_t index, char out[TRANSCODE_PATH_BYTES])
{
    for (size_t i = 0; i < ARRAY_COUNT(SERVICES); i++) {
        if (index < SERVICES[i]->n_methods) {
            (void)snprintf(out, TRANSCODE_PATH_BYTES, "/%s/%s", SERVICES[i]->name,
                           SERVICES[i]->methods[index].name);
            return true;
        }
        index -= SERVICES[i]->n_methods;
    }
    return false;
}

/* ---- messages ---- */

int transcode_request(const struct ProtobufCMethodDescriptor *method, struct slice json,
                      struct buf *out, struct fault *fault)
{
    if (json.len == 0) {
        return 0;
    }
    return protojson_read(method->input, json, out, fault);
}

/* Unpack and write; `arena` is the caller's, started. */
static int write_bytes(const ProtobufCMessageDescriptor *type, struct slice bytes,
                       struct arena *arena, struct buf *json, struct fault *fault)
{
    ProtobufCMessage *message;
    int err = message_read(type, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    err = protojson_write(message, json);
    if (err != 0) {
        fault_set_err(fault, err, "write the answer as JSON");
    }
    return err;
}

int transcode_response(const struct ProtobufCMethodDescriptor *method, struct slice bytes,
                       struct buf *json, struct fault *fault)
{
    struct arena arena;
    int err;

    arena_init(&arena, 0);
    err = write_bytes(method->output, bytes, &arena, json, fault);
    arena_fini(&arena);
    return err;
}

/* ---- errors ---- */

struct status_name {
    const char *code;
    unsigned http;
};

static const struct status_name STATUSES[] = {
    [RPC_OK] = {"ok", 200},
    [RPC_CANCELLED] = {"canceled", 499},
    [RPC_UNKNOWN] = {"unknown", 500},
    [RPC_INVALID_ARGUMENT] = {"invalid_argument", 400},
    [RPC_DEADLINE_EXCEEDED] = {"deadline_exceeded", 504},
    [RPC_NOT_FOUND] = {"not_found", 404},
    [RPC_ALREADY_EXISTS] = {"already_exists", 409},
    [RPC_PERMISSION_DENIED] = {"permission_denied", 403},
    [RPC_RESOURCE_EXHAUSTED] = {"resource_exhausted", 429},
    [RPC_FAILED_PRECONDITION] = {"failed_precondition", 400},
    [RPC_ABORTED] = {"aborted", 409},
    [RPC_OUT_OF_RANGE] = {"out_of_range", 400},
    [RPC_UNIMPLEMENTED] = {"unimplemented", 501},
    [RPC_INTERNAL] = {"internal", 500},
    [RPC_UNAVAILABLE] = {"unavailable", 503},
    [RPC_DATA_LOSS] = {"data_loss", 500},
    [RPC_UNAUTHENTICATED] = {"unauthenticated", 401},
};

/* A number that gRPC has no name for counts as UNKNOWN. */
static const struct status_name *name_of(enum rpc_status status)
{
    return &STATUSES[(size_t)status < ARRAY_COUNT(STATUSES) ? status : RPC_UNKNOWN];
}

unsigned transcode_http_status(enum rpc_status status)
{
    return name_of(status)->http;
}

/* The bytes of a detail as JSON, if we know its type. */
static void put_debug(const char *type, struct slice value, struct buf *json)
{
    struct arena arena;
    struct fault ignored;
    struct buf text;

    buf_init(&text, DETAIL_BYTES_MAX);
    arena_init(&arena, 0);
    for (size_t i = 0; i < ARRAY_COUNT(DETAILS); i++) {
        if (strcmp(DETAILS[i]->name, type) == 0 &&
            write_bytes(DETAILS[i], value, &arena, &text, &ignored) == 0) {
            (void)buf_append_text(json, ",\"debug\":");
            (void)buf_append(json, buf_slice(&text).data, buf_len(&text));
        }
    }
    arena_fini(&arena);
    buf_fini(&text);
}

static void put_detail(const Google__Protobuf__Any *any, struct buf *json)
{
    const char *slash = strrchr(any->type_url, '/');
    const char *type = slash == NULL ? any->type_url : slash + 1;
    struct slice value = {any->value.data, any->value.len};

    (void)buf_append_text(json, "{\"type\":\"");
    (void)json_text_put(json, slice_of(type));
    (void)buf_append_text(json, "\",\"value\":\"");
    (void)base64_encode(value, false, json);
    (void)buf_append_text(json, "\"");
    put_debug(type, value, json);
    (void)buf_append_text(json, "}");
}

static void put_details(struct slice details, struct buf *json)
{
    struct arena arena;
    struct fault ignored;
    ProtobufCMessage *message;

    arena_init(&arena, 0);
    if (message_read(&google__rpc__status__descriptor, details, &arena, &message, &ignored) == 0) {
        const Google__Rpc__Status *status = (const Google__Rpc__Status *)(void *)message;

        (void)buf_append_text(json, ",\"details\":[");
        for (size_t i = 0; i < status->n_details; i++) {
            (void)buf_append(json, ",", i > 0);
            put_detail(status->details[i], json);
        }
        (void)buf_append_text(json, "]");
    }
    arena_fini(&arena);
}

int transcode_failure(const struct transcode_failure *failure, struct buf *json)
{
    const char *message = failure->message == NULL ? "" : failure->message;

    (void)buf_printf(json, "{\"code\":\"%s\",\"message\":\"", name_of(failure->status)->code);
    (void)json_text_put(json, slice_of(message));
    (void)buf_append_text(json, "\"");
    if (failure->details.len > 0) {
        put_details(failure->details, json);
    }
    return buf_append_text(json, "}");
}
