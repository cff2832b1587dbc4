/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues: named classes of tasks with their target and policy. The rules of all calls are in
 * <foliot/client.h>.
 */
#ifndef FOLIOT_QUEUE_H
#define FOLIOT_QUEUE_H

#include <foliot/client.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In a number of struct foliot_queue: what the broker takes when nothing is said. */
#define FOLIOT_DEFAULT (-1)

enum foliot_delivery {
    FOLIOT_AT_LEAST_ONCE = 0, /* an attempt whose outcome is unknown is repeated */
    FOLIOT_AT_MOST_ONCE = 1   /* it is recorded as such and not repeated */
};

/* What a failing task does to those of its order key that are due after it. */
enum foliot_order {
    FOLIOT_ORDER_BLOCK = 0, /* they wait until it has ended; the limits of retries do not end it */
    FOLIOT_ORDER_SKIP = 1,  /* they wait until it has failed order_failures times */
    FOLIOT_ORDER_DEAD = 2   /* they wait until it has ended, also as a dead letter */
};

/*
 * A queue. Going in: set it up by foliot_queue_init(), which says FOLIOT_DEFAULT everywhere, or by
 * foliot_queue_copy() from one that was read. Coming out: every number is said.
 */
struct foliot_queue {
    size_t struct_size;
    const char *name_space; /* empty: "default"; 1 to 63 of a-z 0-9 . _ - */
    const char *name;       /* 1 to 63 of a-z 0-9 . _ - */
    const char *target;     /* grpc://host:port/package.Service/Method or receiver://host:port */
    enum foliot_delivery delivery;
    int64_t attempt_timeout_ms;      /* default 10 s; 10 ms to one day */
    int64_t key_memory_ms;           /* a key is held so long after its task has ended: 10 min */
    int64_t concurrency_max;         /* attempts in flight per broker: 1000 */
    int64_t backoff_initial_ms;      /* after the first failure: 1 s */
    int64_t backoff_max_ms;          /* longest: 10 min */
    int64_t backoff_growth_permille; /* 2000, the default, doubles it with each failure */
    int64_t backoff_jitter_permille; /* random share of the back-off, 0 to 1000: 100 */
    int64_t failures_max;            /* dead letter after this many failures: 10 */
    int64_t unknowns_max;            /* dead letter after this many unknown outcomes: 5 */
    int64_t age_max_ms;              /* dead letter when older than this; 0, the default: never */
    uint32_t version; /* counts the changes. To foliot_queue_update(): the version that is to be
                         replaced, 0 for any */
    uint32_t id;      /* never reused; read only */
    int64_t result_memory_ms; /* how long results are kept; 0, the default: not at all */
    int64_t expire_after_ms;  /* a task expires so long after its due time; 0, the default: never */
    int is_paused;            /* read only, as the next two: no attempt starts … */
    int64_t paused_until_ms;  /* … before this; 0: until resumed */
    int is_draining;          /* takes no more tasks */
    enum foliot_order order_on_failure; /* what a failing task does to those of its order key */
    int64_t order_failures; /* FOLIOT_ORDER_SKIP: failures and unknown outcomes until then: 1 */
};

static inline void foliot_queue_init(struct foliot_queue *queue)
{
    memset(queue, 0, sizeof(*queue));
    queue->struct_size = sizeof(*queue);
    queue->attempt_timeout_ms = FOLIOT_DEFAULT;
    queue->key_memory_ms = FOLIOT_DEFAULT;
    queue->concurrency_max = FOLIOT_DEFAULT;
    queue->backoff_initial_ms = FOLIOT_DEFAULT;
    queue->backoff_max_ms = FOLIOT_DEFAULT;
    queue->backoff_growth_permille = FOLIOT_DEFAULT;
    queue->backoff_jitter_permille = FOLIOT_DEFAULT;
    queue->failures_max = FOLIOT_DEFAULT;
    queue->unknowns_max = FOLIOT_DEFAULT;
    queue->age_max_ms = FOLIOT_DEFAULT;
    queue->result_memory_ms = FOLIOT_DEFAULT;
    queue->expire_after_ms = FOLIOT_DEFAULT;
    queue->order_failures = FOLIOT_DEFAULT;
}

/* Take a queue that was read, to change it; its texts stay those of `from`. */
static inline void foliot_queue_copy(struct foliot_queue *queue, const struct foliot_queue *from)
{
    *queue = *from;
    queue->struct_size = sizeof(*queue);
}

/* A queue as it stands after a call. */
struct foliot_queue_reply {
    const struct foliot_queue *queue; /* NULL after foliot_queue_delete() */
    const char *const *unconfirmed; /* brokers that have not confirmed the change yet: they read it
                                       when they meet the queue */
    size_t unconfirmed_count;
};

typedef void (*foliot_queue_reply_cb)(const struct foliot_error *error,
                                      const struct foliot_queue_reply *reply, void *ctx);

/* NULL is fine. */
FOLIOT_API void foliot_queue_reply_free(const struct foliot_queue_reply *reply);

/*
 * Make a queue.
 *
 * repeats: not if its outcome is unknown.
 * errors:  ALREADY_EXISTS (QUEUE_EXISTS), PERMISSION_DENIED (TARGET_NOT_ALLOWED), INVALID_ARGUMENT
 *          with the field, RESOURCE_EXHAUSTED (QUEUE_COUNT_MAX), and those of all calls.
 */
FOLIOT_API int foliot_queue_create(struct foliot_client *client, const struct foliot_queue *queue,
                                   const struct foliot_call_options *options,
                                   const struct foliot_queue_reply **out,
                                   struct foliot_error *error);

FOLIOT_API int foliot_queue_create_async(struct foliot_client *client,
                                         const struct foliot_queue *queue,
                                         const struct foliot_call_options *options,
                                         foliot_queue_reply_cb cb, void *ctx,
                                         struct foliot_error *error);

/*
 * Replace target and policy as a whole: read, change, write back. A policy that the library is too
 * old to know is set to its default.
 *
 * repeats: not if its outcome is unknown.
 * errors:  NOT_FOUND (QUEUE_NOT_FOUND), FAILED_PRECONDITION (QUEUE_CHANGED: another version),
 *          PERMISSION_DENIED, INVALID_ARGUMENT, and those of all calls.
 */
FOLIOT_API int foliot_queue_update(struct foliot_client *client, const struct foliot_queue *queue,
                                   const struct foliot_call_options *options,
                                   const struct foliot_queue_reply **out,
                                   struct foliot_error *error);

FOLIOT_API int foliot_queue_update_async(struct foliot_client *client,
                                         const struct foliot_queue *queue,
                                         const struct foliot_call_options *options,
                                         foliot_queue_reply_cb cb, void *ctx,
                                         struct foliot_error *error);

/* Which queue. */
struct foliot_queue_name {
    size_t struct_size;
    const char *name_space; /* empty: "default" */
    const char *name;
};

static inline void foliot_queue_name_init(struct foliot_queue_name *name)
{
    memset(name, 0, sizeof(*name));
    name->struct_size = sizeof(*name);
}

/*
 * Read a queue.
 *
 * repeats: always.
 * errors:  NOT_FOUND (QUEUE_NOT_FOUND), and those of all calls.
 */
FOLIOT_API int foliot_queue_get(struct foliot_client *client, const struct foliot_queue_name *name,
                                const struct foliot_call_options *options,
                                const struct foliot_queue_reply **out, struct foliot_error *error);

FOLIOT_API int foliot_queue_get_async(struct foliot_client *client,
                                      const struct foliot_queue_name *name,
                                      const struct foliot_call_options *options,
                                      foliot_queue_reply_cb cb, void *ctx,
                                      struct foliot_error *error);

/* Which queues, page by page in the order of their ids. */
struct foliot_queue_list_request {
    size_t struct_size;
    const char *name_space; /* empty: all namespaces */
    uint32_t page_size;     /* 0: the default, which is also the most: 1000 */
    uint32_t after_id;      /* next_after_id of the page before; 0: from the start */
};

static inline void foliot_queue_list_request_init(struct foliot_queue_list_request *list)
{
    memset(list, 0, sizeof(*list));
    list->struct_size = sizeof(*list);
}

struct foliot_queue_page {
    const struct foliot_queue *const *queues;
    size_t count;
    uint32_t next_after_id; /* 0: this was the last page */
};

/*
 * List queues.
 *
 * repeats: always.
 * errors:  those of all calls.
 */
FOLIOT_API int foliot_queue_list(struct foliot_client *client,
                                 const struct foliot_queue_list_request *list,
                                 const struct foliot_call_options *options,
                                 const struct foliot_queue_page **out, struct foliot_error *error);

typedef void (*foliot_queue_page_cb)(const struct foliot_error *error,
                                     const struct foliot_queue_page *page, void *ctx);

FOLIOT_API int foliot_queue_list_async(struct foliot_client *client,
                                       const struct foliot_queue_list_request *list,
                                       const struct foliot_call_options *options,
                                       foliot_queue_page_cb cb, void *ctx,
                                       struct foliot_error *error);

/* NULL is fine. */
FOLIOT_API void foliot_queue_page_free(const struct foliot_queue_page *page);

/* ---- pause, resume, drain, delete ---- */

struct foliot_queue_pause_request {
    size_t struct_size;
    const char *name_space; /* empty: "default" */
    const char *name;
    enum foliot_when end; /* unsaid: until resumed */
    int64_t end_ms;       /* up to 365 days from now */
};

static inline void foliot_queue_pause_request_init(struct foliot_queue_pause_request *request)
{
    memset(request, 0, sizeof(*request));
    request->struct_size = sizeof(*request);
}

/*
 * Start no attempt of a queue, for a while or until it is resumed. Attempts that run go on, tasks
 * may be made.
 *
 * repeats: always.
 * errors:  NOT_FOUND (QUEUE_NOT_FOUND), INVALID_ARGUMENT, and those of all calls.
 */
FOLIOT_API int foliot_queue_pause(struct foliot_client *client,
                                  const struct foliot_queue_pause_request *request,
                                  const struct foliot_call_options *options,
                                  const struct foliot_queue_reply **out,
                                  struct foliot_error *error);

FOLIOT_API int foliot_queue_pause_async(struct foliot_client *client,
                                        const struct foliot_queue_pause_request *request,
                                        const struct foliot_call_options *options,
                                        foliot_queue_reply_cb cb, void *ctx,
                                        struct foliot_error *error);

/*
 * End a pause and a drain.
 *
 * repeats: always.
 * errors:  NOT_FOUND (QUEUE_NOT_FOUND), and those of all calls.
 */
FOLIOT_API int foliot_queue_resume(struct foliot_client *client,
                                   const struct foliot_queue_name *name,
                                   const struct foliot_call_options *options,
                                   const struct foliot_queue_reply **out,
                                   struct foliot_error *error);

FOLIOT_API int foliot_queue_resume_async(struct foliot_client *client,
                                         const struct foliot_queue_name *name,
                                         const struct foliot_call_options *options,
                                         foliot_queue_reply_cb cb, void *ctx,
                                         struct foliot_error *error);

/*
 * Take no more tasks; those that are there go on.
 *
 * repeats: always.
 * errors:  NOT_FOUND (QUEUE_NOT_FOUND), and those of all calls.
 */
FOLIOT_API int foliot_queue_drain(struct foliot_client *client,
                                  const struct foliot_queue_name *name,
                                  const struct foliot_call_options *options,
                                  const struct foliot_queue_reply **out,
                                  struct foliot_error *error);

FOLIOT_API int foliot_queue_drain_async(struct foliot_client *client,
                                        const struct foliot_queue_name *name,
                                        const struct foliot_call_options *options,
                                        foliot_queue_reply_cb cb, void *ctx,
                                        struct foliot_error *error);

struct foliot_queue_delete_request {
    size_t struct_size;
    const char *name_space; /* empty: "default" */
    const char *name;
    uint32_t version; /* above 0: the present version must be this one */
};

static inline void foliot_queue_delete_request_init(struct foliot_queue_delete_request *request)
{
    memset(request, 0, sizeof(*request));
    request->struct_size = sizeof(*request);
}

/*
 * Delete a queue that is draining and has neither tasks nor dead letters.
 *
 * repeats: not if its outcome is unknown.
 * errors:  NOT_FOUND (QUEUE_NOT_FOUND), FAILED_PRECONDITION (the reason says what it still holds,
 * or QUEUE_CHANGED), and those of all calls.
 */
FOLIOT_API int foliot_queue_delete(struct foliot_client *client,
                                   const struct foliot_queue_delete_request *request,
                                   const struct foliot_call_options *options,
                                   const struct foliot_queue_reply **out,
                                   struct foliot_error *error);

FOLIOT_API int foliot_queue_delete_async(struct foliot_client *client,
                                         const struct foliot_queue_delete_request *request,
                                         const struct foliot_call_options *options,
                                         foliot_queue_reply_cb cb, void *ctx,
                                         struct foliot_error *error);

/* ---- figures ---- */

/* Rows are counted by the owners of the shards; a count may be some seconds old. */
struct foliot_queue_stats {
    const struct foliot_queue *queue;
    uint64_t pending;     /* tasks that have not ended */
    uint64_t overdue;     /* of these, due at counted_ms */
    uint64_t dead;        /* dead letters */
    int64_t first_due_ms; /* earliest of the pending; FOLIOT_TIME_UNKNOWN: none */
    int64_t counted_ms;   /* oldest of the counts; FOLIOT_TIME_UNKNOWN: nothing was counted */
    uint32_t running;     /* attempts claimed or running now */
    uint64_t done;        /* attempts since the owners of now have started, by their outcome */
    uint64_t retried;
    uint64_t died;
    uint64_t expired;
    uint64_t unknown;
    const uint32_t *missing; /* shards whose owner did not answer: theirs is missing above */
    size_t missing_count;
    int is_at_least; /* not 0: pending, overdue and dead are lower bounds */
};

/*
 * Read the figures of a queue.
 *
 * repeats: always.
 * errors:  NOT_FOUND (QUEUE_NOT_FOUND), and those of all calls.
 */
FOLIOT_API int foliot_queue_stats_get(struct foliot_client *client,
                                      const struct foliot_queue_name *name,
                                      const struct foliot_call_options *options,
                                      const struct foliot_queue_stats **out,
                                      struct foliot_error *error);

typedef void (*foliot_queue_stats_cb)(const struct foliot_error *error,
                                      const struct foliot_queue_stats *stats, void *ctx);

FOLIOT_API int foliot_queue_stats_get_async(struct foliot_client *client,
                                            const struct foliot_queue_name *name,
                                            const struct foliot_call_options *options,
                                            foliot_queue_stats_cb cb, void *ctx,
                                            struct foliot_error *error);

/* NULL is fine. */
FOLIOT_API void foliot_queue_stats_free(const struct foliot_queue_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
