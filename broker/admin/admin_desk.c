/* SPDX-License-Identifier: Apache-2.0
 *
 * POSTs from their headers to their answers. A refusal before the body has come is sent behind the
 * body, which is dropped: a client that still sends would not read it.
 */
#include "broker/admin/admin_desk.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define PEER_BYTES 64

/* Longest name of a host in a Host header. */
#define HOST_BYTES 256

/* Largest answer. */
#define REPLY_BYTES_MAX ((size_t)64 << 20)

/* A body that is refused is read to so many times the limit, then the line is cut. */
#define DROPPED_TIMES 4

struct admin_post {
    struct admin_desk *desk;
    const struct admin_posts *posts;
    struct MHD_Connection *connection;
    const char *path;
    struct buf body;
    size_t dropped; /* bytes of a body that is refused */
    boot_us started_us;
    bool is_checked;  /* drop is owed */
    bool is_refused;  /* reply is the answer, behind the body */
    bool is_launched; /* the next call of the handler has the answer */
    struct admin_reply reply;
    void *ctx;
    char peer[PEER_BYTES];
};

/* ---- for who answers ---- */

const char *admin_post_path(const struct admin_post *post)
{
    return post->path;
}

const char *admin_post_peer(const struct admin_post *post)
{
    return post->peer;
}

const char *admin_post_header(const struct admin_post *post, const char *name)
{
    return MHD_lookup_connection_value(post->connection, MHD_HEADER_KIND, name);
}

struct walk {
    admin_header_cb cb;
    void *ctx;
};

static enum MHD_Result on_header(void *ctx, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
    const struct walk *walk = ctx;

    (void)kind;
    walk->cb(name, value == NULL ? "" : value, walk->ctx);
    return MHD_YES;
}

void admin_post_headers(const struct admin_post *post, admin_header_cb cb, void *ctx)
{
    struct walk walk = {cb, ctx};

    (void)MHD_get_connection_values(post->connection, MHD_HEADER_KIND, on_header, &walk);
}

struct slice admin_post_body(const struct admin_post *post)
{
    return buf_slice(&post->body);
}

void admin_post_set_ctx(struct admin_post *post, void *ctx)
{
    post->ctx = ctx;
}

void *admin_post_ctx(const struct admin_post *post)
{
    return post->ctx;
}

void admin_post_resume(struct admin_post *post)
{
    MHD_resume_connection(post->connection);
}

/* ---- answers ---- */

static void free_body(void *ctx)
{
    struct buf *body = ctx;

    buf_fini(body);
    mem_free(body);
}

/* The body of a reply as microhttpd wants it; it is freed with the response. */
static struct MHD_Response *new_response(struct admin_reply *reply)
{
    struct buf *body = mem_new(1, sizeof(*body));
    struct MHD_Response *response;
    static char nothing[1];
    size_t len;

    if (body == NULL) {
        return NULL;
    }
    *body = reply->body;
    buf_init(&reply->body, 0);
    len = buf_len(body);
    response = MHD_create_response_from_buffer_with_free_callback_cls(
        len, len == 0 ? (void *)nothing : body->data + body->start, free_body, body);
    if (response == NULL) {
        free_body(body);
    }
    return response;
}

static enum MHD_Result send_reply(struct admin_post *post)
{
    struct admin_reply *reply = &post->reply;
    struct MHD_Response *response = new_response(reply);
    enum MHD_Result result;

    if (response == NULL) {
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->type);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    (void)MHD_add_response_header(response, "Keep-Alive", ADMIN_KEEP_ALIVE);
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (reply->accept != NULL) {
        (void)MHD_add_response_header(response, "Accept-Post", reply->accept);
    }
    if (reply->retry_after_s > 0) {
        char text[16];

        (void)snprintf(text, sizeof(text), "%u", reply->retry_after_s);
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, text);
    }
    result = MHD_queue_response(post->connection, reply->status, response);
    MHD_destroy_response(response);
    return result;
}

static void refuse(struct admin_post *post, enum rpc_status status, const char *message)
{
    post->is_refused = true;
    buf_fini(&post->body);
    post->posts->refuse(&post->reply, status, message, post->posts->ctx);
}

/* ---- who may ask ---- */

/* "127.0.0.1:7401", "[::1]", "localhost": addresses that no name server can point elsewhere. */
static bool is_plain_host(const char *host)
{
    const char *end = host[0] == '[' ? strchr(host, ']') : strrchr(host, ':');
    char name[HOST_BYTES];
    struct in6_addr address;
    size_t skip = host[0] == '[';
    size_t len = end == NULL ? strlen(host) : (size_t)(end - host);

    if (len < skip || len - skip >= sizeof(name)) {
        return false;
    }
    memcpy(name, host + skip, len - skip);
    name[len - skip] = '\0';
    return strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &address) == 1 ||
           inet_pton(AF_INET6, name, &address) == 1;
}

/* A browser says which page asks. Only a page of this very port may: any other one would use its
 * reader's place in the network, also one whose name was made to point here. */
static bool is_foreign_page(const struct admin_post *post)
{
    const char *origin = admin_post_header(post, "Origin");
    const char *host = admin_post_header(post, "Host");
    const char *authority = origin == NULL ? NULL : strstr(origin, "://");

    if (origin == NULL) {
        return false;
    }
    return authority == NULL || host == NULL || strcasecmp(authority + 3, host) != 0 ||
           !is_plain_host(host);
}

/* ---- beginning ---- */

static void write_peer(struct admin_post *post)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(post->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info == NULL ? NULL : info->client_addr;
    char text[INET6_ADDRSTRLEN] = "?";
    unsigned port = 0;

    if (address != NULL && address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;

        (void)inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
        port = ntohs(v4->sin_port);
    } else if (address != NULL && address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;

        (void)inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
        port = ntohs(v6->sin6_port);
    }
    (void)snprintf(post->peer, sizeof(post->peer), strchr(text, ':') == NULL ? "%s:%u" : "[%s]:%u",
                   text, port);
}

/* Bytes of the body as the client announces them; 0 if it does not. */
static uint64_t announced_bytes(const struct admin_post *post)
{
    const char *text = admin_post_header(post, MHD_HTTP_HEADER_CONTENT_LENGTH);

    return text == NULL ? 0 : strtoull(text, NULL, 10);
}

/* Refuse what needs no body to be refused. */
static void look_at_headers(struct admin_post *post)
{
    if (is_foreign_page(post)) {
        refuse(post, RPC_PERMISSION_DENIED,
               "a page of another site may not call this port: use its numeric address, or call "
               "it from a program");
    } else if (!post->posts->has_path(post->path, post->posts->ctx)) {
        refuse(post, RPC_UNIMPLEMENTED,
               "there is no such method; paths are like /foliot.v1.TaskService/Create");
    } else if (announced_bytes(post) > ADMIN_POST_BYTES_MAX) {
        refuse(post, RPC_RESOURCE_EXHAUSTED,
               "the body is larger than 6 MiB (ADMIN_POST_BYTES_MAX): send it in parts");
    } else if (post->desk->count > ADMIN_POST_COUNT_MAX ||
               post->desk->bytes + announced_bytes(post) > ADMIN_POST_BYTES_ALL) {
        refuse(post, RPC_RESOURCE_EXHAUSTED,
               "64 calls or 64 MiB of bodies (ADMIN_POST_COUNT_MAX, ADMIN_POST_BYTES_ALL) are "
               "being served here: try again in a second, or use gRPC");
        post->reply.retry_after_s = 1;
    } else {
        post->is_checked = true;
        post->is_refused = !post->posts->check(post, &post->reply, post->posts->ctx);
    }
}

static enum MHD_Result begin(struct admin_desk *desk, struct MHD_Connection *connection,
                             const char *path, void **state)
{
    struct admin_post *post = mem_new(1, sizeof(*post));

    if (post == NULL) {
        return MHD_NO;
    }
    post->desk = desk;
    post->posts = atomic_load(&desk->posts);
    post->connection = connection;
    post->path = path;
    post->started_us = desk->clock_us();
    buf_init(&post->body, ADMIN_POST_BYTES_MAX);
    buf_init(&post->reply.body, REPLY_BYTES_MAX);
    write_peer(post);
    desk->count++;
    *state = post;
    look_at_headers(post);
    if (post->is_refused && announced_bytes(post) > DROPPED_TIMES * ADMIN_POST_BYTES_MAX) {
        return send_reply(post); // Not worth reading.
    }
    return MHD_YES;
}

/* ---- body and answer ---- */

static enum MHD_Result take_chunk(struct admin_post *post, struct slice chunk)
{
    struct admin_desk *desk = post->desk;

    if (desk->clock_us() - post->started_us > ADMIN_POST_RECEIVE_MS * US_PER_MS) {
        return MHD_NO;
    }
    if (!post->is_refused) {
        if (desk->bytes + chunk.len <= ADMIN_POST_BYTES_ALL &&
            buf_append(&post->body, chunk.data, chunk.len) == 0) {
            desk->bytes += chunk.len;
            return MHD_YES;
        }
        desk->bytes -= buf_len(&post->body);
        refuse(post, RPC_RESOURCE_EXHAUSTED,
               "the body is larger than 6 MiB (ADMIN_POST_BYTES_MAX), or there is no room for it "
               "now: send it in parts");
    }
    post->dropped += chunk.len;
    return post->dropped > DROPPED_TIMES * ADMIN_POST_BYTES_MAX ? MHD_NO : MHD_YES;
}

/* The request is whole, or its answer is there. */
static enum MHD_Result go_on(struct admin_post *post)
{
    const struct admin_posts *posts = post->posts;

    if (post->is_launched) {
        posts->finish(post, &post->reply, posts->ctx);
        return send_reply(post);
    }
    if (post->is_refused || !posts->prepare(post, &post->reply, posts->ctx)) {
        return send_reply(post);
    }
    post->is_launched = true;
    MHD_suspend_connection(post->connection); // Before anybody can resume it.
    posts->launch(post, posts->ctx);
    return MHD_YES;
}

enum MHD_Result admin_desk_take(struct admin_desk *desk, struct MHD_Connection *connection,
                                const char *path, struct slice chunk, void **state)
{
    if (*state == NULL) {
        return begin(desk, connection, path, state);
    }
    return chunk.len > 0 ? take_chunk(*state, chunk) : go_on(*state);
}

void admin_desk_end(struct admin_desk *desk, void *state)
{
    struct admin_post *post = state;

    if (post->is_checked) {
        post->posts->drop(post, post->posts->ctx);
    }
    REQUIRE(desk->count > 0 && desk->bytes >= buf_len(&post->body));
    desk->count--;
    desk->bytes -= buf_len(&post->body);
    buf_fini(&post->body);
    buf_fini(&post->reply.body);
    mem_free(post);
}
