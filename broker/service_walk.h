/* SPDX-License-Identifier: Apache-2.0
 *
 * A call that walks over the shards, page by page: reads those that are ours, asks the owners of
 * the others, in the order of the shards, until its page is full, its time is up or the end is
 * reached. Where it stopped is the page's token. Private to broker/service*.
 */
#ifndef FOLIOT_BROKER_SERVICE_WALK_H
#define FOLIOT_BROKER_SERVICE_WALK_H

#include "broker/service_parts.h"
#include "proto/page.h"

/* A page ends when it has taken this long. */
#define WALK_TIME_MS 2000

/* Reads, and calls to other brokers, of one page. */
#define WALK_STEPS_MAX 512

struct walk;

/* What the kinds of walks do not share. */
struct walk_verbs {
    const char *what; /* "cannot list the tasks" */
    const char *path; /* of the same call at another broker */
    /* Fill in kind and bounds of the next read of shard mark.shard, behind the mark. */
    void (*prepare)(struct walk *walk, struct store_read *read);
    /*
     * Take what a read has found and move the mark: behind what was looked at, or to the next shard
     * if that was all of this one. What is begun here and ends later is counted in walk->busy.
     */
    void (*take)(struct walk *walk, const struct store_read *read);
    /* Write the request for the rest of the page. errors: as buf_append. */
    int (*write)(struct walk *walk, struct buf *out);
    /* Take another broker's page; *token, in the arena, is where it stopped. errors: ERR_INVALID:
     * it cannot be read. */
    int (*merge)(struct walk *walk, struct slice payload, struct arena *arena, const char **token);
    /* Write the answer. errors: as buf_append. */
    int (*answer)(struct walk *walk, struct buf *out);
    /* Free what the walk has besides. shape: may be NULL. */
    void (*fini)(struct walk *walk);
};

/*
 * The first member of each kind's own struct.
 * 1. rpc is NULL once it has been answered; the struct lives on until what is out has come back.
 */
struct walk {
    const struct walk_verbs *verbs;
    struct service *service;
    struct rpc_call *rpc;
    bool is_forwarded;      /* to us: others are not asked */
    bool needs_queue;       /* the queue must exist, and queue_id is its number */
    bool has_looked;        /* home has been read for it */
    bool is_out;            /* `call`, `forward` or `wait` is with somebody else */
    bool changes_something; /* a walk that writes: its end may be unknown */
    uint32_t busy;          /* what `take` has begun and has not ended */
    uint32_t steps;
    uint32_t left; /* how many more fit the page */
    struct queue_name queue;
    uint32_t queue_id;
    struct page_mark mark;
    boot_us end_us;
    boot_us give_up_us; /* of waiting for an owner; 0: not waiting */
    struct call call;
    struct store_read read;
    struct queue_wait wait;
    struct loop_timer look;
    struct rpc_request forward;
    struct buf bytes; /* of the forwarded request */
    struct buf items; /* of the answer */
    struct arena arena;
};

/* A zeroed walk of a kind, of which it is the first member. NULL: the call has been answered.
 * shape: size is that of the kind's struct. */
MUST_USE struct walk *walk_new(size_t size, struct service *service, struct rpc_call *rpc,
                               const struct walk_verbs *verbs);

/* The request has been read: go. shape: queue, mark and left are filled in. */
void walk_start(struct walk *walk);

/* The request is wrong, or something cannot go on: answer so; the walk is freed when nothing is
 * out.
 */
void walk_fail(struct walk *walk, const struct fault *fault);

/* Something that `take` has begun has ended. */
void walk_done_one(struct walk *walk);

/* Move the mark to the shard behind this one. */
void walk_next_shard(struct walk *walk);

uint32_t walk_shard_count(const struct walk *walk);

#endif
