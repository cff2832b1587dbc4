/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks as they go out to the caller: one, or a page of them. Texts stay in the arena that the
 * answer was read into, and live as long as the box around it.
 */
#ifndef FOLIOT_CLIENT_LIB_TASK_VIEW_H
#define FOLIOT_CLIENT_LIB_TASK_VIEW_H

#include "lib/base/attr.h"
#include "lib/model/tags.h"
#include "proto/codec_list.h"

#include <foliot/list.h>

/* A task with the list of its tags. */
struct task_item {
    struct foliot_task task; /* first */
    struct foliot_tag tags[TAG_COUNT_MAX];
};

/* One task; foliot_task_free() frees it. */
struct task_box {
    struct task_item item; /* first */
    struct arena arena;
};

/*
 * Fill in a task.
 *
 * shape: the view's texts are in an arena that lives as long as the item: its tags are cut up
 * there.
 */
void task_item_fill(struct task_item *item, const struct task_view *view);

/* A page; foliot_task_page_free() frees it. */
struct task_page_box {
    struct foliot_task_page page; /* first */
    struct task_item *items;
    const struct foliot_task **pointers;
    struct arena arena;
};

/*
 * How large a page is to be and where it begins.
 *
 * shape:  token may be NULL; page_size 0 is the default, one above the most is the most.
 * errors: ERR_INVALID with fault filled in: no token of ours.
 */
MUST_USE int page_take(const char *token, uint32_t page_size, uint32_t *size,
                       struct page_mark *mark, struct fault *fault);

/* Reads one page, and one item of it. */
typedef int (*task_page_read_fn)(struct slice bytes, struct arena *arena, struct list_reply *out,
                                 struct fault *fault);
typedef int (*task_page_item_fn)(const struct list_reply *reply, size_t index,
                                 struct task_view *out, struct fault *fault);

/* Read a page into *(const struct foliot_task_page **)result. errors: with fault filled in. */
MUST_USE int task_page_decode(struct slice bytes, task_page_read_fn read, task_page_item_fn item,
                              void *result, struct fault *fault);

/* deliver and release of a method whose result is a page. */
struct client_call;
void task_page_deliver(const struct client_call *call, const struct foliot_error *error,
                       const void *result);
void task_page_release(void *result);

#endif
