/* SPDX-License-Identifier: Apache-2.0
 *
 * Dead letters: tasks that were given up. List them, count them by their error, give them another
 * chance, forget them. The rules of all calls are in <foliot/client.h>.
 */
#ifndef FOLIOT_DEAD_H
#define FOLIOT_DEAD_H

#include <foliot/list.h>
#include <foliot/queue.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which dead letters. Each call says what it takes of it. */
struct foliot_dead_request {
    size_t struct_size;
    const char *name_space; /* empty: "default" */
    const char *queue;
    const char *error_contains; /* only those whose error has this in it; up to 255 bytes */
    const char *const *ids;     /* redrive, purge: these only, up to 500 */
    size_t id_count;            /* 0: all of the queue */
    double rate_per_second;     /* redrive: due times are spread by it; 0: all at once */
    uint32_t count_max;         /* letters of a page, or that one call handles; 0: the default;
                                   most 500 */
    const char *page_token;     /* next_page_token of the call before; empty: from the start */
    int with_payload;           /* list: payloads up to 1024 bytes come along */
};

static inline void foliot_dead_request_init(struct foliot_dead_request *request)
{
    memset(request, 0, sizeof(*request));
    request->struct_size = sizeof(*request);
}

/*
 * List dead letters, page by page: tasks whose state is FOLIOT_TASK_DEAD. Takes error_contains,
 * count_max, page_token and with_payload. The page is freed by foliot_task_page_free().
 *
 * repeats: always.
 * errors:  NOT_FOUND (QUEUE_NOT_FOUND), INVALID_ARGUMENT (TOKEN_INVALID, …), and those of all
 * calls.
 */
FOLIOT_API int foliot_dead_list(struct foliot_client *client,
                                const struct foliot_dead_request *request,
                                const struct foliot_call_options *options,
                                const struct foliot_task_page **out, struct foliot_error *error);

FOLIOT_API int foliot_dead_list_async(struct foliot_client *client,
                                      const struct foliot_dead_request *request,
                                      const struct foliot_call_options *options,
                                      foliot_task_page_cb cb, void *ctx,
                                      struct foliot_error *error);

/* Errors that differ in digits and hex numbers only are one group. */
struct foliot_dead_group {
    const char *error; /* with # for what differs */
    uint64_t count;
    char example_id[FOLIOT_ID_SIZE];
    int64_t first_ms; /* when the first and the last of them died */
    int64_t last_ms;
    int64_t reserved[2];
};

struct foliot_dead_groups {
    size_t count;
    const struct foliot_dead_group *groups; /* the largest first, at most 100 */
    uint64_t looked_at;                     /* dead letters that were counted */
    int is_partial; /* there are more: too many for one call, or a shard had no owner */
};

/*
 * Count the dead letters of a queue by their error.
 *
 * repeats: always.
 * errors:  NOT_FOUND (QUEUE_NOT_FOUND), and those of all calls.
 */
FOLIOT_API int foliot_dead_group(struct foliot_client *client, const struct foliot_queue_name *name,
                                 const struct foliot_call_options *options,
                                 const struct foliot_dead_groups **out, struct foliot_error *error);

typedef void (*foliot_dead_groups_cb)(const struct foliot_error *error,
                                      const struct foliot_dead_groups *groups, void *ctx);

FOLIOT_API int foliot_dead_group_async(struct foliot_client *client,
                                       const struct foliot_queue_name *name,
                                       const struct foliot_call_options *options,
                                       foliot_dead_groups_cb cb, void *ctx,
                                       struct foliot_error *error);

/* NULL is fine. */
FOLIOT_API void foliot_dead_groups_free(const struct foliot_dead_groups *groups);

/* What one call of redrive or purge has done. */
struct foliot_dead_done {
    uint64_t handled; /* redriven, or purged */
    uint64_t skipped; /* redrive: their key is held by another task, or they are gone */
    char next_page_token[FOLIOT_TOKEN_SIZE]; /* empty: that was all */
};

/*
 * Give dead letters another chance: pending again under their ids, failures back to 0, attempts
 * counted on. A call handles a bounded number: repeat it with next_page_token until that is empty.
 *
 * repeats: not if its outcome is unknown.
 * errors:  NOT_FOUND (QUEUE_NOT_FOUND), INVALID_ARGUMENT, and those of all calls.
 */
FOLIOT_API int foliot_dead_redrive(struct foliot_client *client,
                                   const struct foliot_dead_request *request,
                                   const struct foliot_call_options *options,
                                   struct foliot_dead_done *out, struct foliot_error *error);

typedef void (*foliot_dead_done_cb)(const struct foliot_error *error,
                                    const struct foliot_dead_done *done, void *ctx);

FOLIOT_API int foliot_dead_redrive_async(struct foliot_client *client,
                                         const struct foliot_dead_request *request,
                                         const struct foliot_call_options *options,
                                         foliot_dead_done_cb cb, void *ctx,
                                         struct foliot_error *error);

/*
 * Forget dead letters. A call handles a bounded number: repeat it with next_page_token until that
 * is empty.
 *
 * repeats: not if its outcome is unknown.
 * errors:  NOT_FOUND (QUEUE_NOT_FOUND), INVALID_ARGUMENT, and those of all calls.
 */
FOLIOT_API int foliot_dead_purge(struct foliot_client *client,
                                 const struct foliot_dead_request *request,
                                 const struct foliot_call_options *options,
                                 struct foliot_dead_done *out, struct foliot_error *error);

FOLIOT_API int foliot_dead_purge_async(struct foliot_client *client,
                                       const struct foliot_dead_request *request,
                                       const struct foliot_call_options *options,
                                       foliot_dead_done_cb cb, void *ctx,
                                       struct foliot_error *error);

#ifdef __cplusplus
}
#endif

#endif
