/* SPDX-License-Identifier: Apache-2.0
 *
 * Many tasks: list them page by page, cancel many in one call; and why one of them waits. The rules
 * of all calls are in <foliot/client.h>.
 */
#ifndef FOLIOT_LIST_H
#define FOLIOT_LIST_H

#include <foliot/task.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- list ---- */

/* Bit of a state in foliot_list_request.states. */
#define FOLIOT_STATE_BIT(state) (UINT32_C(1) << (state))

struct foliot_list_request {
    size_t struct_size;
    const char *name_space; /* empty: "default" */
    const char *queue;      /* empty: all queues of the namespace */
    uint32_t states;        /* FOLIOT_STATE_BIT() of the pending states that are wanted; 0: all */
    int64_t due_from_ms;    /* due at or after it; 0: no bound */
    int64_t due_before_ms;  /* due before it; 0: no bound */
    const struct foliot_tag *tags; /* that have all of these */
    size_t tag_count;
    uint32_t page_size;     /* 0: the default, 100; most 500 */
    const char *page_token; /* next_page_token of the page before; empty: from the start */
    int with_payload;       /* not 0: payloads up to 1024 bytes come along */
    const char *order_key;  /* only tasks with this one; empty: all */
};

static inline void foliot_list_request_init(struct foliot_list_request *request)
{
    memset(request, 0, sizeof(*request));
    request->struct_size = sizeof(*request);
}

struct foliot_task_page {
    const struct foliot_task *const *tasks;
    size_t count;
    /* Empty: this was the last page. A page may have fewer tasks than asked for, or none, and still
     * not be the last one: the time of a call and what it looks at are bounded. */
    const char *next_page_token;
};

/*
 * List pending tasks: shard after shard, and in a shard by due time. A task that is there all the
 * while and keeps its due time is listed exactly once.
 *
 * repeats: always.
 * errors:  NOT_FOUND (QUEUE_NOT_FOUND), INVALID_ARGUMENT (TOKEN_INVALID, …), and those of all
 * calls.
 */
FOLIOT_API int foliot_task_list(struct foliot_client *client,
                                const struct foliot_list_request *request,
                                const struct foliot_call_options *options,
                                const struct foliot_task_page **out, struct foliot_error *error);

typedef void (*foliot_task_page_cb)(const struct foliot_error *error,
                                    const struct foliot_task_page *page, void *ctx);

FOLIOT_API int foliot_task_list_async(struct foliot_client *client,
                                      const struct foliot_list_request *request,
                                      const struct foliot_call_options *options,
                                      foliot_task_page_cb cb, void *ctx,
                                      struct foliot_error *error);

/* NULL is fine. */
FOLIOT_API void foliot_task_page_free(const struct foliot_task_page *page);

/* ---- cancel many ---- */

/* What became of one item. */
struct foliot_cancel_result {
    enum foliot_code code; /* FOLIOT_OK, or why the item was refused; OUTCOME_UNKNOWN: it may be
                              cancelled */
    enum foliot_cancel_outcome outcome; /* if code is FOLIOT_OK, as the next two */
    uint32_t attempt;
    char id[FOLIOT_ID_SIZE];
    const char *reason; /* never NULL; empty if code is FOLIOT_OK, as the next two */
    const char *field;
    const char *message;
    int64_t reserved[2];
};

struct foliot_cancel_batch {
    size_t count;  /* as many as names, in their order */
    size_t failed; /* results whose code is not FOLIOT_OK */
    const struct foliot_cancel_result *results;
};

/*
 * Cancel 1 to 10 000 tasks. Each has its own result, as foliot_task_cancel() would give it.
 *
 * shape:   names are `count` structs, all with the struct_size of the first.
 * repeats: always.
 * errors:  INVALID_ARGUMENT (BATCH_EMPTY, BATCH_TOO_LARGE), and those of all calls.
 */
FOLIOT_API int foliot_task_cancel_batch(struct foliot_client *client,
                                        const struct foliot_task_name *names, size_t count,
                                        const struct foliot_call_options *options,
                                        const struct foliot_cancel_batch **out,
                                        struct foliot_error *error);

typedef void (*foliot_cancel_batch_cb)(const struct foliot_error *error,
                                       const struct foliot_cancel_batch *batch, void *ctx);

struct foliot_cancel_batch_callback {
    foliot_cancel_batch_cb cb;
    void *ctx;
};

FOLIOT_API int foliot_task_cancel_batch_async(struct foliot_client *client,
                                              const struct foliot_task_name *names, size_t count,
                                              const struct foliot_call_options *options,
                                              struct foliot_cancel_batch_callback callback,
                                              struct foliot_error *error);

/* NULL is fine. */
FOLIOT_API void foliot_cancel_batch_free(const struct foliot_cancel_batch *batch);

/* ---- explain ---- */

/* What a task waits for. */
enum foliot_wait {
    FOLIOT_WAIT_UNKNOWN = 0,        /* something that this library does not know */
    FOLIOT_WAIT_DUE_TIME = 1,       /* its due time */
    FOLIOT_WAIT_BACKOFF = 2,        /* its next due time after a failure */
    FOLIOT_WAIT_QUEUE_PAUSED = 3,   /* the queue is paused */
    FOLIOT_WAIT_CONCURRENCY = 4,    /* as many attempts of its queue run as may */
    FOLIOT_WAIT_TARGET_BUSY = 5,    /* its target had no room a moment ago */
    FOLIOT_WAIT_ATTEMPT = 6,        /* an attempt is claimed or running */
    FOLIOT_WAIT_OUTCOME = 7,        /* an attempt whose outcome is unknown, until its deadline */
    FOLIOT_WAIT_LOADING = 8,        /* its shard has just been taken over */
    FOLIOT_WAIT_WRITE = 9,          /* a write of it is on its way to the database */
    FOLIOT_WAIT_QUEUE_UNKNOWN = 10, /* its queue is not in the home database */
    FOLIOT_WAIT_LINE = 11,          /* tasks of its queue that were due before it */
    FOLIOT_WAIT_ORDER_KEY = 12      /* the task before it of its order key */
};

struct foliot_explanation {
    const struct foliot_task *task;
    enum foliot_wait reason;
    const char *text; /* for people: the reason with its figures, and what to do */
    int64_t until_ms; /* when it may go on; FOLIOT_TIME_UNKNOWN */
    uint32_t shard;
    const char *broker; /* name of the owner */
};

/*
 * Why has this task not run: what it waits for, as its owner sees it now.
 *
 * repeats: always.
 * errors:  NOT_FOUND (TASK_GONE, TASK_NOT_FOUND), and those of all calls.
 */
FOLIOT_API int foliot_task_explain(struct foliot_client *client,
                                   const struct foliot_task_name *name,
                                   const struct foliot_call_options *options,
                                   const struct foliot_explanation **out,
                                   struct foliot_error *error);

typedef void (*foliot_explanation_cb)(const struct foliot_error *error,
                                      const struct foliot_explanation *explanation, void *ctx);

FOLIOT_API int foliot_task_explain_async(struct foliot_client *client,
                                         const struct foliot_task_name *name,
                                         const struct foliot_call_options *options,
                                         foliot_explanation_cb cb, void *ctx,
                                         struct foliot_error *error);

/* NULL is fine. */
FOLIOT_API void foliot_explanation_free(const struct foliot_explanation *explanation);

#ifdef __cplusplus
}
#endif

#endif
