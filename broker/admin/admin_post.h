/* SPDX-License-Identifier: Apache-2.0
 *
 * POSTs on the admin port, for somebody else to answer. The port collects the body within its
 * limits, then the request waits, without a thread, until it is told that the answer is there.
 * Knows no methods, no messages.
 */
#ifndef FOLIOT_BROKER_ADMIN_ADMIN_POST_H
#define FOLIOT_BROKER_ADMIN_ADMIN_POST_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/err.h"

#include <stdbool.h>

/* Requests at one time, from the first byte of the body to the last of the answer. */
#define ADMIN_POST_COUNT_MAX 64

/* Largest body: a message of 4 MiB in base64 and what is around it. */
#define ADMIN_POST_BYTES_MAX ((size_t)6 << 20)

/* Bodies held at one time, all together. */
#define ADMIN_POST_BYTES_ALL ((size_t)64 << 20)

/* A body must be complete within. */
#define ADMIN_POST_RECEIVE_MS 30000

struct admin_post;

/* What the port sends. */
struct admin_reply {
    unsigned status;        /* HTTP */
    const char *type;       /* content type, static */
    unsigned retry_after_s; /* 0: not said */
    const char *accept;     /* content types that are taken, of a refusal for the type; or NULL */
    struct buf body;        /* open when given */
};

/*
 * Who answers. Everything but admin_post_resume runs in the port's thread.
 *
 *   has_path ─▶ check (headers) ─▶ body ─▶ prepare ─▶ launch … admin_post_resume ─▶ finish ─▶ drop
 */
struct admin_posts {
    bool (*has_path)(const char *path, void *ctx);
    /* Whether the headers will do; if not, the reply says why. */
    bool (*check)(struct admin_post *post, struct admin_reply *reply, void *ctx);
    /* The body is there. True: launch it; false: the reply is the answer. */
    bool (*prepare)(struct admin_post *post, struct admin_reply *reply, void *ctx);
    /* See that admin_post_resume is called exactly once; it may be at once. */
    void (*launch)(struct admin_post *post, void *ctx);
    void (*finish)(struct admin_post *post, struct admin_reply *reply, void *ctx);
    /* The last that is heard of a post that was checked. */
    void (*drop)(struct admin_post *post, void *ctx);
    /* Write a refusal of the port itself. */
    void (*refuse)(struct admin_reply *reply, enum rpc_status status, const char *message,
                   void *ctx);
    void *ctx;
};

const char *admin_post_path(const struct admin_post *post);

/* The client's address as text "127.0.0.1:4711". */
const char *admin_post_peer(const struct admin_post *post);

/* First value of a header, in any case; NULL if there is none. Valid until the reply. */
const char *admin_post_header(const struct admin_post *post, const char *name);

/* Each header. */
typedef void (*admin_header_cb)(const char *name, const char *value, void *ctx);
void admin_post_headers(const struct admin_post *post, admin_header_cb cb, void *ctx);

/* The whole body, valid until the reply. */
struct slice admin_post_body(const struct admin_post *post);

/* A pointer for who answers, NULL at first. */
void admin_post_set_ctx(struct admin_post *post, void *ctx);
void *admin_post_ctx(const struct admin_post *post);

/* The answer is there. Any thread; the post is not touched by the caller after it. */
void admin_post_resume(struct admin_post *post);

#endif
