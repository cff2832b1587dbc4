/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of option tables that several commands have, and how they are read.
 */
#ifndef FOLIOT_CLIENT_CLI_OPTIONS_H
#define FOLIOT_CLIENT_CLI_OPTIONS_H

#include "client/cli/args.h"
#include "lib/base/attr.h"
#include "lib/model/queue.h"
#include "proto/codec.h"

#define OPTION_NAMESPACE                                                         \
    {                                                                            \
        "namespace", 'n', "NAME", "namespace of the queue (default \"default\")" \
    }
#define OPTION_NAMESPACE_FILTER                         \
    {                                                   \
        "namespace", 'n', "NAME", "only this namespace" \
    }
#define OPTION_QUEUE                              \
    {                                             \
        "queue", 'q', "NAME", "queue of the task" \
    }
#define OPTION_KEY                                                   \
    {                                                                \
        "key", 'k', "KEY", "the task's own key, unique in its queue" \
    }
#define OPTION_ORDER_KEY                                                                \
    {                                                                                   \
        "order-key", 0, "KEY", "tasks with the same one run one at a time, by due time" \
    }
#define OPTION_ORDER_KEY_OF                                          \
    {                                                                \
        "order-key", 0, "KEY", "order key of the task, beside --key" \
    }
#define OPTION_ORDER_KEY_FILTER                                 \
    {                                                           \
        "order-key", 0, "KEY", "only those with this order key" \
    }
#define OPTION_AT                                                                  \
    {                                                                              \
        "at", 'a', "TIME", "when: +15m, now, tomorrow 09:00, 2026-01-02T03:04:05Z" \
    }
#define OPTION_DELAY                                                \
    {                                                               \
        "delay", 'd', "SPAN", "how long from now: 15m is --at +15m" \
    }
#define OPTION_PAYLOAD                                     \
    {                                                      \
        "payload", 'p', "TEXT", "what the target is given" \
    }
#define OPTION_PAYLOAD_FILE                                                           \
    {                                                                                 \
        "payload-file", 'f', "FILE", "the same, from a file; \"-\" is standard input" \
    }

#define OPTION_TAG                                                                         \
    {                                                                                      \
        "tag", 0, "NAME=VALUE", "a tag of the task, for people and filters; several times" \
    }

/* --namespace and --queue; a queue that is not said has an empty name. */
void options_queue(const struct args *args, struct queue_name *out);

/*
 * --key; empty if it was not given. errors: CLI_USAGE after saying so, as the others here.
 */
MUST_USE int options_key(const struct args *args, struct slice *out);

/* --order-key; empty if it was not given. */
MUST_USE int options_order_key(const struct args *args, struct slice *out);

/* Which task a command is about: an id as operand, or --queue and --key, and --order-key if it has
 * one. */
MUST_USE int options_task(const struct args *args, struct task_name *out);

/*
 * --payload, or what the file of --payload-file holds.
 *
 * ownership: *out points into `store` or to the option.
 */
MUST_USE int options_payload(const struct args *args, struct buf *store, struct slice *out);

/* All --tag, as the canonical text of lib/model/tags.h. shape: store has TAGS_BYTES_MAX. */
MUST_USE int options_tags(const struct args *args, char *store, struct slice *out);

/* --at or --delay: kind is WHEN_NONE if neither was given, and for "now". */
MUST_USE int options_when(const struct args *args, struct when *out);

/* Names of a queue: one operand, and --namespace. shape: as the arrays of struct queue. */
MUST_USE int options_queue_operand(const struct args *args, struct queue *out);

/* Copy a text. errors: CLI_USAGE after saying that `what` is too long, and the limit's name. */
MUST_USE int options_copy(const char *what, const char *text, const char *limit, char *out,
                          size_t size);

#endif
