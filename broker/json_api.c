/* SPDX-License-Identifier: Apache-2.0
 *
 * A call's way: headers and body in the admin port's thread, the method on the loop, the answer in
 * the admin port's thread again. One call object goes along; it is never in two threads at once.
 */
#include "broker/json_api.h"

#include "broker/admin/admin.h"
#include "broker/admin/admin_post.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"
#include "lib/io/mailbox.h"
#include "lib/rpc/rpc_local.h"
#include "proto/codec.h"
#include "proto/transcode.h"

#include <pthread.h>
#include <string.h>
#include <strings.h>

#define TYPE_JSON  "application/json"
#define TYPE_PROTO "application/proto"

/* Headers that are handed to methods as metadata. */
#define FIELD_COUNT_MAX 32
#define FIELD_BYTES_MAX 16384

/* What a failure says and carries. */
#define MESSAGE_BYTES_MAX 2048
#define DETAILS_BYTES_MAX 16384

/* Longest number of milliseconds in Connect-Timeout-Ms. source: Connect protocol */
#define TIMEOUT_DIGITS 10

struct json_api {
    struct mailbox *mailbox;
    struct rpc_server *server; /* the loop's; NULL when it is closed */
    struct admin_posts posts;
    pthread_mutex_t mutex; /* for is_stopped, and what is sent before it */
    bool is_stopped;
};

struct call {
    struct mailbox_node node;
    struct json_api *api;
    struct admin_post *post;
    const struct ProtobufCMethodDescriptor *method;
    bool is_binary; /* application/proto */
    boot_us deadline_us;
    struct buf request;
    struct buf field_text; /* names in lower case and values of the fields */
    struct rpc_local_field fields[FIELD_COUNT_MAX];
    size_t field_count;
    bool is_starting; /* its handler is on the stack, and may read the request yet */
    /* the answer */
    bool is_answered;
    enum rpc_status status;
    span_ms retry_delay;
    struct buf response;
    struct buf message;
    struct buf details;
};

/* ---- failures ---- */

static void write_failure(struct admin_reply *reply, const struct transcode_failure *failure,
                          span_ms retry_ms)
{
    reply->status = transcode_http_status(failure->status);
    reply->type = TYPE_JSON;
    reply->retry_after_s = (unsigned)((retry_ms + MS_PER_S - 1) / MS_PER_S);
    (void)transcode_failure(failure, &reply->body);
}

/* A fault found here: the text is wrong, or the answer cannot be written. */
static void write_fault(struct admin_reply *reply, const struct fault *fault)
{
    struct buf details;

    buf_init(&details, DETAILS_BYTES_MAX);
    if (fault_encode(fault, &details) != 0) {
        buf_clear(&details);
    }
    write_failure(reply,
                  &(struct transcode_failure){.status = fault->status,
                                              .message = fault->message,
                                              .details = buf_slice(&details)},
                  fault->retry_after_ms);
    buf_fini(&details);
}

static void on_refuse(struct admin_reply *reply, enum rpc_status status, const char *message,
                      void *ctx)
{
    (void)ctx;
    write_failure(reply, &(struct transcode_failure){.status = status, .message = message}, 0);
}

/* The answer to a call that does not reach its method, or that its method has not given. */
static void set_failure(struct call *call, enum rpc_status status, const char *message)
{
    call->status = status;
    buf_clear(&call->message);
    (void)buf_append_text(&call->message, message);
}

/* ---- headers, in the admin port's thread ---- */

/* "application/json; charset=utf-8" is application/json. */
static bool is_type(const char *header, const char *type)
{
    size_t len = strlen(type);

    return strncasecmp(header, type, len) == 0 &&
           (header[len] == '\0' || header[len] == ';' || header[len] == ' ');
}

static bool refuse_type(struct admin_reply *reply)
{
    on_refuse(reply, RPC_INVALID_ARGUMENT,
              "the content type must be application/json, or application/proto for a serialized "
              "message",
              NULL);
    reply->status = 415;
    reply->accept = TYPE_JSON ", " TYPE_PROTO;
    return false;
}

/* Connect-Timeout-Ms; its default without one. */
static int read_timeout(const char *text, span_ms *out)
{
    span_ms timeout = 0;

    if (text == NULL) {
        *out = JSON_API_TIMEOUT_MS;
        return 0;
    }
    if (*text == '\0' || strlen(text) > TIMEOUT_DIGITS ||
        strspn(text, "0123456789") != strlen(text)) {
        return ERR_INVALID;
    }
    for (; *text != '\0'; text++) {
        timeout = timeout * 10 + (*text - '0');
    }
    *out = timeout < JSON_API_TIMEOUT_MS_MAX ? timeout : JSON_API_TIMEOUT_MS_MAX;
    return 0;
}

static bool on_has_path(const char *path, void *ctx)
{
    (void)ctx;
    return transcode_find(slice_of(path)) != NULL;
}

/* What is wrong with the headers besides the type; NULL if nothing is. */
static const char *find_fault(const struct admin_post *post, span_ms *timeout_ms,
                              enum rpc_status *status)
{
    const char *version = admin_post_header(post, "Connect-Protocol-Version");
    const char *encoding = admin_post_header(post, "Content-Encoding");

    *status = RPC_UNIMPLEMENTED;
    if (encoding != NULL && strcasecmp(encoding, "identity") != 0) {
        return "bodies are taken without Content-Encoding only";
    }
    *status = RPC_INVALID_ARGUMENT;
    if (version != NULL && strcmp(version, "1") != 0) {
        return "Connect-Protocol-Version must be 1";
    }
    if (read_timeout(admin_post_header(post, "Connect-Timeout-Ms"), timeout_ms) != 0) {
        return "Connect-Timeout-Ms must be 1 to 10 digits: milliseconds";
    }
    return NULL;
}

static bool on_check(struct admin_post *post, struct admin_reply *reply, void *ctx)
{
    const char *type = admin_post_header(post, "Content-Type");
    enum rpc_status status;
    span_ms timeout_ms = 0;
    const char *fault = find_fault(post, &timeout_ms, &status);
    struct call *call;

    if (type == NULL || (!is_type(type, TYPE_JSON) && !is_type(type, TYPE_PROTO))) {
        return refuse_type(reply);
    }
    if (fault != NULL) {
        on_refuse(reply, status, fault, NULL);
        return false;
    }
    call = mem_new(1, sizeof(*call));
    if (call == NULL) {
        on_refuse(reply, RPC_RESOURCE_EXHAUSTED, "no memory for the call", NULL);
        return false;
    }
    call->api = ctx;
    call->post = post;
    call->method = transcode_find(slice_of(admin_post_path(post)));
    call->is_binary = is_type(type, TYPE_PROTO);
    call->deadline_us = time_add(clock_boot_us(), timeout_ms * US_PER_MS);
    buf_init(&call->request, RPC_MESSAGE_BYTES_MAX);
    buf_init(&call->field_text, FIELD_BYTES_MAX);
    buf_init(&call->response, RPC_MESSAGE_BYTES_MAX);
    buf_init(&call->message, MESSAGE_BYTES_MAX);
    buf_init(&call->details, DETAILS_BYTES_MAX);
    admin_post_set_ctx(post, call);
    return true;
}

/* Headers that are HTTP's own business, or the browser's. */
static bool is_metadata(const char *name)
{
    static const char *const own[] = {
        "accept",     "accept-charset", "accept-encoding", "accept-language", "cache-control",
        "connection", "content-length", "content-type",    "cookie",          "expect",
        "host",       "keep-alive",     "origin",          "pragma",          "referer",
        "te",         "trailer",        "upgrade",         "user-agent",      "transfer-encoding",
    };

    for (size_t i = 0; i < ARRAY_COUNT(own); i++) {
        if (strcasecmp(name, own[i]) == 0) {
            return false;
        }
    }
    return strncasecmp(name, "connect-", 8) != 0 && strncasecmp(name, "grpc-", 5) != 0 &&
           strncasecmp(name, "sec-", 4) != 0;
}

/* Append in lower case; ASCII only, whatever the locale. */
static void put_lower(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        char c = *text >= 'A' && *text <= 'Z' ? (char)(*text - 'A' + 'a') : *text;

        (void)buf_append(out, &c, 1);
    }
}

/* Copy a header: other threads must not read it. Slices into the text are made when it is whole. */
static void on_header(const char *name, const char *value, void *ctx)
{
    struct call *call = ctx;
    struct rpc_local_field *field = &call->fields[call->field_count];

    if (call->field_count == FIELD_COUNT_MAX || !is_metadata(name)) {
        return;
    }
    put_lower(&call->field_text, name);
    field->name.len = strlen(name);
    field->value.len = strlen(value);
    if (buf_append_text(&call->field_text, value) == 0) {
        call->field_count++;
    }
}

static void read_fields(struct call *call)
{
    const uint8_t *at;

    admin_post_headers(call->post, on_header, call);
    at = buf_slice(&call->field_text).data;
    for (size_t i = 0; i < call->field_count; i++) {
        call->fields[i].name.data = at;
        at += call->fields[i].name.len;
        call->fields[i].value.data = at;
        at += call->fields[i].value.len;
    }
}

/* ---- the body, in the admin port's thread ---- */

static bool on_prepare(struct admin_post *post, struct admin_reply *reply, void *ctx)
{
    struct call *call = admin_post_ctx(post);
    struct slice body = admin_post_body(post);
    struct fault fault;

    (void)ctx;
    if (!call->is_binary && transcode_request(call->method, body, &call->request, &fault) != 0) {
        write_fault(reply, &fault);
        return false;
    }
    if (call->is_binary && buf_append(&call->request, body.data, body.len) != 0) {
        on_refuse(reply, RPC_RESOURCE_EXHAUSTED,
                  "the message is larger than 4 MiB (RPC_MESSAGE_BYTES_MAX)", NULL);
        return false;
    }
    read_fields(call);
    return true;
}

static void on_launch(struct admin_post *post, void *ctx)
{
    struct json_api *api = ctx;
    struct call *call = admin_post_ctx(post);
    int err = ERR_CLOSED;

    (void)pthread_mutex_lock(&api->mutex);
    if (!api->is_stopped) {
        err = mailbox_send(api->mailbox, &call->node);
    }
    (void)pthread_mutex_unlock(&api->mutex);
    if (err != 0) {
        set_failure(call, RPC_UNAVAILABLE, "this broker is ending: nothing happened");
        admin_post_resume(post);
    }
}

/* ---- the method, on the loop ---- */

static void on_answer(const struct rpc_answer *answer, void *ctx)
{
    struct call *call = ctx;
    int err;

    call->status = answer->status;
    call->retry_delay = answer->retry_delay;
    if (answer->message != NULL) {
        (void)buf_append_text(&call->message, answer->message);
    }
    (void)buf_append(&call->details, answer->details.data, answer->details.len);
    err = buf_append(&call->response, answer->response.data, answer->response.len);
    if (err != 0) { // It is done, only the answer cannot be given.
        set_failure(call, RPC_UNKNOWN, "no memory for the answer: it may have happened");
    }
    call->is_answered = true;
    if (!call->is_starting) {
        admin_post_resume(call->post);
    }
}

static void on_mail(struct mailbox_node *node, void *ctx)
{
    struct json_api *api = ctx;
    struct call *call = (struct call *)(void *)node;
    struct rpc_local_options options = {
        .path = slice_of(admin_post_path(call->post)),
        .request = buf_slice(&call->request),
        .peer = admin_post_peer(call->post),
        .metadata = call->fields,
        .metadata_count = call->field_count,
        .deadline_us = call->deadline_us,
        .cb = on_answer,
        .ctx = call,
    };

    if (api->server == NULL) {
        set_failure(call, RPC_UNAVAILABLE, "this broker is ending: nothing happened");
        admin_post_resume(call->post);
        return;
    }
    call->is_starting = true;
    rpc_server_call(api->server, &options);
    call->is_starting = false;
    if (call->is_answered) { // Not before: the other thread frees it then.
        admin_post_resume(call->post);
    }
}

/* ---- the answer, in the admin port's thread ---- */

static void write_response(struct call *call, struct admin_reply *reply)
{
    struct slice response = buf_slice(&call->response);
    struct fault fault;

    reply->status = 200;
    reply->type = call->is_binary ? TYPE_PROTO : TYPE_JSON;
    if (call->is_binary) {
        (void)buf_append(&reply->body, response.data, response.len);
    } else if (transcode_response(call->method, response, &reply->body, &fault) != 0) {
        buf_clear(&reply->body);
        write_fault(reply, &fault);
    }
}

static void on_finish(struct admin_post *post, struct admin_reply *reply, void *ctx)
{
    struct call *call = admin_post_ctx(post);

    (void)ctx;
    if (call->status == RPC_OK) {
        write_response(call, reply);
        return;
    }
    write_failure(reply,
                  &(struct transcode_failure){.status = call->status,
                                              .message = buf_text(&call->message),
                                              .details = buf_slice(&call->details)},
                  call->retry_delay);
}

static void on_drop(struct admin_post *post, void *ctx)
{
    struct call *call = admin_post_ctx(post);

    (void)ctx;
    if (call != NULL) {
        buf_fini(&call->request);
        buf_fini(&call->field_text);
        buf_fini(&call->response);
        buf_fini(&call->message);
        buf_fini(&call->details);
        mem_free(call);
    }
}

/* ---- life ---- */

int json_api_open(struct loop *loop, struct rpc_server *server, struct admin *admin,
                  struct json_api **out)
{
    struct json_api *api = mem_new(1, sizeof(*api));
    int err;

    if (api == NULL) {
        return ERR_NO_MEMORY;
    }
    api->server = server;
    api->posts = (struct admin_posts){
        .has_path = on_has_path,
        .check = on_check,
        .prepare = on_prepare,
        .launch = on_launch,
        .finish = on_finish,
        .drop = on_drop,
        .refuse = on_refuse,
        .ctx = api,
    };
    if (pthread_mutex_init(&api->mutex, NULL) != 0) {
        mem_free(api);
        return ERR_NO_MEMORY;
    }
    err = mailbox_open(loop, ADMIN_POST_COUNT_MAX, on_mail, api, &api->mailbox);
    if (err != 0) {
        (void)pthread_mutex_destroy(&api->mutex);
        mem_free(api);
        return err;
    }
    admin_set_posts(admin, &api->posts);
    *out = api;
    return 0;
}

void json_api_detach(struct json_api *api)
{
    api->server = NULL;
}

void json_api_stop(struct json_api *api)
{
    (void)pthread_mutex_lock(&api->mutex);
    api->is_stopped = true;
    (void)pthread_mutex_unlock(&api->mutex);
    mailbox_close(api->mailbox);
}

void json_api_free(struct json_api *api)
{
    (void)pthread_mutex_destroy(&api->mutex);
    mem_free(api);
}
