/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tasks a command is about, when it is about many: the options, the request that asks for
 * them page by page, and the filter in words, so that who cancels sees what was understood.
 */
#ifndef FOLIOT_CLIENT_CLI_TASK_FILTER_H
#define FOLIOT_CLIENT_CLI_TASK_FILTER_H

#include "client/cli/args.h"
#include "client/cli/run.h"
#include "lib/base/attr.h"
#include "lib/model/tags.h"
#include "proto/codec_list.h"

#define OPTION_STATE                                                    \
    {                                                                   \
        "state", 0, "STATE",                                            \
            "only those: waiting, ready, running or retrying; several " \
            "with commas"                                               \
    }
#define OPTION_DUE_FROM                                        \
    {                                                          \
        "due-from", 0, "TIME", "only those due at or after it" \
    }
#define OPTION_DUE_BEFORE                                   \
    {                                                       \
        "due-before", 0, "TIME", "only those due before it" \
    }
#define OPTION_TAG_FILTER                                           \
    {                                                               \
        "tag", 0, "NAME=VALUE",                                     \
            "only those that have this tag; several times: all of " \
            "them"                                                  \
    }

struct task_filter {
    struct list_request request;
    char tags[TAGS_BYTES_MAX]; /* what request.tags points to */
};

/* Read the options. errors: CLI_USAGE after saying so. */
MUST_USE int task_filter_read(const struct args *args, struct task_filter *out);

/* Do the options say more than the queue? */
bool task_filter_is_narrow(const struct args *args);

/* Append the filter in words: "queue mail, state waiting". */
void task_filter_describe(const struct args *args, struct buf *out);

/* Given each task of a walk. Returns CLI_OK to go on. */
typedef int (*task_filter_cb)(void *ctx, const struct task_view *view);

/*
 * Ask for the tasks, page by page, up to count_max (0: all), and go on behind request.mark.
 *
 * shape:  next_token is "" if that was all; it has PAGE_TOKEN_BYTES_MAX + 1 bytes.
 * errors: an exit code after saying so; what the callback returned.
 */
MUST_USE int task_filter_walk(struct run *run, struct task_filter *filter, uint64_t count_max,
                              task_filter_cb cb, void *ctx, char *next_token);

#endif
