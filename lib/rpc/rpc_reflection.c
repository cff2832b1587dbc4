/* SPDX-License-Identifier: Apache-2.0
 *
 * The reflection services: one answer for each request of the stream. Both versions have the same
 * messages, coded by hand because nothing but names and descriptor bytes is in them.
 */
#include "lib/rpc/rpc_reflection.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/rpc/descriptors.h"
#include "lib/rpc/proto_wire.h"
#include "lib/rpc/rpc_method.h"
#include "lib/rpc/rpc_server.h"

#include <stdio.h>

/* Numbers of fields. source: grpc/reflection/v1/reflection.proto */
enum {
    REQUEST_FILE_BY_NAME = 3,
    REQUEST_FILE_OF_SYMBOL = 4,
    REQUEST_FILE_OF_EXTENSION = 5,
    REQUEST_EXTENSIONS_OF_TYPE = 6,
    REQUEST_LIST_SERVICES = 7,
    RESPONSE_VALID_HOST = 1,
    RESPONSE_REQUEST = 2,
    RESPONSE_FILES = 4,
    RESPONSE_SERVICES = 6,
    RESPONSE_ERROR = 7,
    FILES_FILE = 1,
    SERVICES_SERVICE = 1,
    SERVICE_NAME = 1,
    ERROR_CODE = 1,
    ERROR_MESSAGE = 2
};

/* Longest request: a name or two. It comes back in the answer. */
#define REQUEST_BYTES_MAX 4096U

/* All files together, and what is around them. */
#define ANSWER_BYTES_MAX (1U << 20)

#define NAME_BYTES_MAX 512U

static const char *const PATHS[] = {
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
};

struct rpc_reflection {
    struct rpc_server *server;
    struct slice set;
    struct rpc_method methods[ARRAY_COUNT(PATHS)];
};

/* ---- answers ---- */

/* The host asked for, and the question: the last of the oneof counts. number 0: none was set. */
struct question {
    struct slice host;
    uint32_t number;
    struct slice text;
};

static int parse(struct slice request, struct question *out)
{
    struct question question = {.number = 0};
    struct slice rest = request;
    struct proto_field field;

    if (request.len > REQUEST_BYTES_MAX) {
        return ERR_INVALID;
    }
    while (rest.len > 0) {
        if (proto_wire_next(&rest, &field) != 0) {
            return ERR_INVALID;
        }
        if (field.type != PROTO_BYTES) {
            continue;
        }
        if (field.number == 1) {
            question.host = field.bytes;
        } else if (field.number >= REQUEST_FILE_BY_NAME && field.number <= REQUEST_LIST_SERVICES) {
            question.number = field.number;
            question.text = field.bytes;
        }
    }
    *out = question;
    return 0;
}

static int put_error(struct buf *out, enum rpc_status status, const char *what, struct slice name)
{
    char text[NAME_BYTES_MAX + 128];
    int shown = (int)(name.len < NAME_BYTES_MAX ? name.len : NAME_BYTES_MAX);
    struct slice message;
    size_t len;
    int err;

    (void)snprintf(text, sizeof(text), "%s%.*s", what, shown,
                   name.data == NULL ? "" : (const char *)name.data);
    message = slice_of(text);
    for (size_t i = 0; i < message.len; i++) { // The name may be anything, a text is UTF-8.
        text[i] = text[i] < 0x20 || text[i] > 0x7e ? '?' : text[i];
    }
    len = proto_wire_bytes_len(ERROR_MESSAGE, message.len) + 2;
    err = proto_wire_put_head(out, RESPONSE_ERROR, len);
    if (err == 0) {
        err = proto_wire_put_varint(out, ERROR_CODE, (uint64_t)status);
    }
    return err != 0 ? err : proto_wire_put_bytes(out, ERROR_MESSAGE, message);
}

static int put_files(struct buf *out, struct slice set, struct slice file)
{
    struct slice files[DESCRIPTOR_FILES_MAX];
    size_t count = descriptors_closure(set, file, files);
    size_t len = 0;
    int err;

    for (size_t i = 0; i < count; i++) {
        len += proto_wire_bytes_len(FILES_FILE, files[i].len);
    }
    err = proto_wire_put_head(out, RESPONSE_FILES, len);
    for (size_t i = 0; i < count && err == 0; i++) {
        err = proto_wire_put_bytes(out, FILES_FILE, files[i]);
    }
    return err;
}

/* Append "package.Service" as a ServiceResponse, if the server has it. */
static int put_service(struct buf *out, struct slice package, struct slice service,
                       rpc_reflection_has_fn has, const void *ctx)
{
    char text[NAME_BYTES_MAX];
    struct slice name;
    int err;

    if (package.len + service.len + 2 > sizeof(text)) {
        return 0;
    }
    (void)snprintf(text, sizeof(text), "%.*s%s%.*s", (int)package.len,
                   package.len == 0 ? "" : (const char *)package.data, package.len == 0 ? "" : ".",
                   (int)service.len, service.len == 0 ? "" : (const char *)service.data);
    name = slice_of(text);
    if (!has(ctx, name)) {
        return 0;
    }
    err = proto_wire_put_head(out, SERVICES_SERVICE, proto_wire_bytes_len(SERVICE_NAME, name.len));
    return err != 0 ? err : proto_wire_put_bytes(out, SERVICE_NAME, name);
}

static int put_services(struct buf *out, struct slice set, rpc_reflection_has_fn has,
                        const void *ctx)
{
    struct buf list;
    struct slice file;
    int err = 0;

    buf_init(&list, ANSWER_BYTES_MAX);
    while (descriptors_next_file(&set, &file)) {
        struct slice package = descriptors_package(file);
        struct slice service;

        while (err == 0 && descriptors_next_service(&file, &service)) {
            err = put_service(&list, package, service, has, ctx);
        }
    }
    if (err == 0) {
        err = proto_wire_put_bytes(out, RESPONSE_SERVICES, buf_slice(&list));
    }
    buf_fini(&list);
    return err;
}

int rpc_reflection_answer(struct slice set, struct slice request, rpc_reflection_has_fn has,
                          const void *ctx, struct buf *out)
{
    struct question question;
    struct slice file;
    int err = parse(request, &question);

    if (err == 0) {
        err = proto_wire_put_bytes(out, RESPONSE_VALID_HOST, question.host);
    }
    if (err == 0) {
        err = proto_wire_put_bytes(out, RESPONSE_REQUEST, request);
    }
    if (err != 0) {
        return err;
    }
    switch (question.number) {
    case REQUEST_FILE_BY_NAME:
        return descriptors_find_file(set, question.text, &file)
                   ? put_files(out, set, file)
                   : put_error(out, RPC_NOT_FOUND, "there is no file ", question.text);
    case REQUEST_FILE_OF_SYMBOL:
        return descriptors_find_symbol(set, question.text, &file)
                   ? put_files(out, set, file)
                   : put_error(out, RPC_NOT_FOUND, "there is no symbol ", question.text);
    case REQUEST_FILE_OF_EXTENSION:
        return put_error(out, RPC_NOT_FOUND, "there are no extensions of ",
                         proto_wire_find(question.text, 1));
    case REQUEST_EXTENSIONS_OF_TYPE:
        return put_error(out, RPC_NOT_FOUND, "there are no extensions of ", question.text);
    case REQUEST_LIST_SERVICES:
        return put_services(out, set, has, ctx);
    default:
        return put_error(out, RPC_INVALID_ARGUMENT, "the request asks for nothing",
                         (struct slice){NULL, 0});
    }
}

/* ---- the stream ---- */

static void fail(struct rpc_call *call, enum rpc_status status, const char *message)
{
    rpc_call_fail(call, status, message, (struct slice){NULL, 0}, 0);
}

static bool has_service(const void *ctx, struct slice service)
{
    return rpc_server_has_service(ctx, service);
}

static void on_message(struct rpc_call *call, struct slice request, void *ctx)
{
    const struct rpc_reflection *reflection = ctx;
    struct buf answer;
    int err;

    buf_init(&answer, ANSWER_BYTES_MAX);
    err = rpc_reflection_answer(reflection->set, request, has_service, reflection->server, &answer);
    if (err == ERR_INVALID) {
        fail(call, RPC_INVALID_ARGUMENT, "the request is no ServerReflectionRequest");
    } else if (err != 0 || rpc_call_send(call, buf_slice(&answer)) != 0) {
        fail(call, RPC_RESOURCE_EXHAUSTED, "too many answers wait for this client to read them");
    }
    buf_fini(&answer);
}

static void on_end(struct rpc_call *call, struct slice nothing, void *ctx)
{
    (void)nothing;
    (void)ctx;
    rpc_call_end(call);
}

/* ---- life ---- */

int rpc_reflection_open(struct rpc_server *server, struct slice set, struct rpc_reflection **out)
{
    struct rpc_reflection *reflection = mem_new(1, sizeof(*reflection));
    int err = 0;

    if (reflection == NULL) {
        return ERR_NO_MEMORY;
    }
    reflection->server = server;
    reflection->set = set;
    for (size_t i = 0; i < ARRAY_COUNT(PATHS) && err == 0; i++) {
        reflection->methods[i] = (struct rpc_method){.path = PATHS[i],
                                                     .handler = on_end,
                                                     .on_message = on_message,
                                                     .ctx = reflection,
                                                     .is_endless = true};
        err = rpc_server_add(server, &reflection->methods[i]);
    }
    if (err != 0) { // A method that was added would point into freed memory: the server must go.
        mem_free(reflection);
        return err;
    }
    *out = reflection;
    return 0;
}

void rpc_reflection_close(struct rpc_reflection *reflection)
{
    mem_free(reflection);
}
