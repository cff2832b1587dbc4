/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks: one thing to do at one due time. The rules of all calls are in <foliot/client.h>.
 */
#ifndef FOLIOT_TASK_H
#define FOLIOT_TASK_H

#include <foliot/client.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For people and filters; go to the target with each attempt. Names of 1 to 63 bytes of a-z A-Z 0-9
 * . _ / - and values of up to 255 bytes without control characters; up to 16 for a task. */
struct foliot_tag {
    const char *name;
    const char *value;
};

/* What a create does when its key is taken. */
enum foliot_key_policy {
    FOLIOT_KEY_KEEP = 0,   /* OK with the id of the existing task, created is 0 */
    FOLIOT_KEY_REJECT = 1, /* FOLIOT_ALREADY_EXISTS */
    FOLIOT_KEY_REPLACE = 2 /* the existing task loses its key and its start; a new one is made */
};

/* ---- create ---- */

struct foliot_create_request {
    size_t struct_size;
    const char *name_space; /* empty: "default" */
    const char *queue;      /* must exist */
    enum foliot_when when;  /* unsaid, or a time in the past: at once */
    int64_t when_ms;
    const void *payload; /* may be NULL if payload_size is 0 */
    size_t payload_size; /* bytes, up to 65 536 */
    const char *key; /* the caller's own name for it, unique in its queue: up to 255 bytes; empty:
                        none. Repeating a create with its key makes no second task. */
    enum foliot_key_policy key_policy;
    int64_t latest_ms; /* with FOLIOT_KEY_REPLACE: however often it is replaced, it is not due later
                          than this point in time; 0: no bound */
    int64_t expire_ms; /* no attempt starts after this point in time; 0: as the queue says */
    const struct foliot_tag *tags;
    size_t tag_count;
    const char *order_key; /* tasks of a queue with the same one run one at a time, by due time: up
                              to 255 bytes; empty: none. A key is then unique among these. */
};

static inline void foliot_create_request_init(struct foliot_create_request *request)
{
    memset(request, 0, sizeof(*request));
    request->struct_size = sizeof(*request);
}

struct foliot_created {
    char id[FOLIOT_ID_SIZE];
    int created; /* 0: the key was taken and this is the task that holds it. If error->tries is
                    above 1, an earlier try of this very call may have made it. */
    int64_t
        due_ms; /* when it is due; FOLIOT_TIME_UNKNOWN if the task that holds the key has ended */
    int64_t reserved[4];
};

/*
 * Make a task. FOLIOT_OK means that it is durable.
 *
 * repeats: if its outcome is unknown: with a key and FOLIOT_KEY_KEEP.
 * errors:  NOT_FOUND (QUEUE_NOT_FOUND), ALREADY_EXISTS (KEY_EXISTS, with FOLIOT_KEY_REJECT),
 *          INVALID_ARGUMENT with the field, and those of all calls.
 */
FOLIOT_API int foliot_task_create(struct foliot_client *client,
                                  const struct foliot_create_request *request,
                                  const struct foliot_call_options *options,
                                  struct foliot_created *out, struct foliot_error *error);

typedef void (*foliot_created_cb)(const struct foliot_error *error,
                                  const struct foliot_created *created, void *ctx);

FOLIOT_API int foliot_task_create_async(struct foliot_client *client,
                                        const struct foliot_create_request *request,
                                        const struct foliot_call_options *options,
                                        foliot_created_cb cb, void *ctx,
                                        struct foliot_error *error);

/* ---- create many ---- */

/* What became of one item. */
struct foliot_batch_result {
    enum foliot_code
        code;    /* FOLIOT_OK, or why the item was refused; OUTCOME_UNKNOWN: it may exist */
    int created; /* as in struct foliot_created, if code is FOLIOT_OK */
    int64_t due_ms;
    char id[FOLIOT_ID_SIZE]; /* empty unless code is FOLIOT_OK */
    const char *reason;      /* never NULL; empty if code is FOLIOT_OK, as the next two */
    const char *field;
    const char *message;
    int64_t reserved[2];
};

struct foliot_batch {
    size_t count;  /* as many as items, in their order */
    size_t failed; /* results whose code is not FOLIOT_OK */
    const struct foliot_batch_result *results;
};

/*
 * Make 1 to 10 000 tasks, 4 MiB in all. Each item has its own result: a bad one harms no other, and
 * FOLIOT_OK of the call says nothing of the items: look at failed.
 *
 * shape:   items are `count` structs, all with the struct_size of the first.
 * repeats: if its outcome is unknown: if every item has a key and FOLIOT_KEY_KEEP.
 * errors:  INVALID_ARGUMENT (BATCH_EMPTY, BATCH_TOO_LARGE), and those of all calls.
 */
FOLIOT_API int foliot_task_create_batch(struct foliot_client *client,
                                        const struct foliot_create_request *items, size_t count,
                                        const struct foliot_call_options *options,
                                        const struct foliot_batch **out,
                                        struct foliot_error *error);

typedef void (*foliot_batch_cb)(const struct foliot_error *error, const struct foliot_batch *batch,
                                void *ctx);

/* The asynchronous form has its callback in one struct, to keep the list of arguments short. */
struct foliot_batch_callback {
    foliot_batch_cb cb;
    void *ctx;
};

FOLIOT_API int foliot_task_create_batch_async(struct foliot_client *client,
                                              const struct foliot_create_request *items,
                                              size_t count,
                                              const struct foliot_call_options *options,
                                              struct foliot_batch_callback callback,
                                              struct foliot_error *error);

/* NULL is fine. */
FOLIOT_API void foliot_batch_free(const struct foliot_batch *batch);

/* ---- one task by its name ---- */

/* Which task: by id, or by queue and key, and order key if it has one. With an id the queue may be
 * left out. */
struct foliot_task_name {
    size_t struct_size;
    const char *name_space; /* empty: "default" */
    const char *queue;
    const char *id;
    const char *key;
    const char *order_key;
};

static inline void foliot_task_name_init(struct foliot_task_name *name)
{
    memset(name, 0, sizeof(*name));
    name->struct_size = sizeof(*name);
}

enum foliot_task_state {
    FOLIOT_TASK_WAITING = 1,  /* for its due time */
    FOLIOT_TASK_READY = 2,    /* due, waits for room at its target */
    FOLIOT_TASK_RUNNING = 3,  /* an attempt is claimed: it starts now, or may be running */
    FOLIOT_TASK_RETRYING = 4, /* has failed, waits for its next due time */
    /* the rest have ended */
    FOLIOT_TASK_DONE = 5,
    FOLIOT_TASK_OBSOLETE = 6, /* its target no longer wanted it */
    FOLIOT_TASK_DEAD = 7,     /* a dead letter */
    FOLIOT_TASK_EXPIRED = 8   /* its time to start had passed */
};

/* A task. Texts are never NULL. */
struct foliot_task {
    char id[FOLIOT_ID_SIZE];
    const char *name_space;
    const char *queue;
    const char *key; /* empty: none */
    int64_t due_ms;
    int64_t created_ms;
    const void *payload;
    size_t payload_size;
    enum foliot_task_state state;
    uint32_t attempt;              /* the highest attempt that was issued; 0 before the first */
    uint32_t failures;             /* attempts that ended badly */
    const struct foliot_tag *tags; /* by name */
    size_t tag_count;
    int64_t expire_ms; /* 0: never */
    /* of a task that has ended */
    int64_t ended_ms;     /* FOLIOT_TIME_UNKNOWN while it is pending */
    int64_t forget_ms;    /* until when this is remembered; FOLIOT_TIME_UNKNOWN: until purged */
    const void *response; /* DONE: what the target answered, if the queue keeps results */
    size_t response_size;
    const char *error;     /* DEAD: the last error */
    const char *order_key; /* empty: none */
};

/*
 * Read a task that is pending, or has ended and is remembered: a dead letter, or a result of a
 * queue that keeps results.
 *
 * repeats: always.
 * errors:  NOT_FOUND (TASK_GONE: no longer pending; TASK_NOT_FOUND: was never made, or its key is
 *          unknown), and those of all calls.
 */
FOLIOT_API int foliot_task_get(struct foliot_client *client, const struct foliot_task_name *name,
                               const struct foliot_call_options *options,
                               const struct foliot_task **out, struct foliot_error *error);

typedef void (*foliot_task_cb)(const struct foliot_error *error, const struct foliot_task *task,
                               void *ctx);

FOLIOT_API int foliot_task_get_async(struct foliot_client *client,
                                     const struct foliot_task_name *name,
                                     const struct foliot_call_options *options, foliot_task_cb cb,
                                     void *ctx, struct foliot_error *error);

/* NULL is fine. */
FOLIOT_API void foliot_task_free(const struct foliot_task *task);

/* ---- cancel ---- */

enum foliot_cancel_outcome {
    FOLIOT_CANCEL_CANCELLED = 1, /* no attempt has run and none will */
    FOLIOT_CANCEL_STOPPED = 2,   /* `attempt` may be running, or has run; none will run after it */
    FOLIOT_CANCEL_GONE = 3,      /* was issued, is no longer pending */
    FOLIOT_CANCEL_NOT_FOUND = 4  /* an id that was never issued, a key that is unknown */
};

struct foliot_cancelled {
    enum foliot_cancel_outcome outcome;
    uint32_t attempt;        /* FOLIOT_CANCEL_STOPPED: the last attempt that was issued */
    char id[FOLIOT_ID_SIZE]; /* empty if the key is unknown */
    int64_t reserved[4];
};

/*
 * Prevent every attempt that has not started. All four outcomes are FOLIOT_OK.
 *
 * repeats: always. A repeated cancel is answered as the first one for as long as the broker
 * remembers it; then FOLIOT_CANCEL_GONE. errors:  those of all calls.
 */
FOLIOT_API int foliot_task_cancel(struct foliot_client *client, const struct foliot_task_name *name,
                                  const struct foliot_call_options *options,
                                  struct foliot_cancelled *out, struct foliot_error *error);

typedef void (*foliot_cancelled_cb)(const struct foliot_error *error,
                                    const struct foliot_cancelled *cancelled, void *ctx);

FOLIOT_API int foliot_task_cancel_async(struct foliot_client *client,
                                        const struct foliot_task_name *name,
                                        const struct foliot_call_options *options,
                                        foliot_cancelled_cb cb, void *ctx,
                                        struct foliot_error *error);

/* ---- update ---- */

/* A new time, a new payload, or both. */
struct foliot_update_request {
    size_t struct_size;
    const struct foliot_task_name *name;
    enum foliot_when when; /* FOLIOT_WHEN_UNSAID: the time stays */
    int64_t when_ms;
    int set_payload; /* not 0: the payload is replaced, also by an empty one */
    const void *payload;
    size_t payload_size;
};

static inline void foliot_update_request_init(struct foliot_update_request *request)
{
    memset(request, 0, sizeof(*request));
    request->struct_size = sizeof(*request);
}

struct foliot_updated {
    char id[FOLIOT_ID_SIZE];
    int64_t due_ms; /* FOLIOT_TIME_UNKNOWN: not known */
    /* Not 0: this attempt, with the old payload, may be running or has run with its outcome still
     * unknown. If it ends well the task has ended; else the change holds for the next attempt. */
    uint32_t may_be_running_attempt;
    int64_t reserved[4];
};

/*
 * Give a pending task a new time, a new payload, or both.
 *
 * repeats: always; a delay then counts from the repetition.
 * errors:  NOT_FOUND (TASK_GONE, TASK_NOT_FOUND), INVALID_ARGUMENT (CHANGE_MISSING, …), and those
 * of all calls.
 */
FOLIOT_API int foliot_task_update(struct foliot_client *client,
                                  const struct foliot_update_request *request,
                                  const struct foliot_call_options *options,
                                  struct foliot_updated *out, struct foliot_error *error);

typedef void (*foliot_updated_cb)(const struct foliot_error *error,
                                  const struct foliot_updated *updated, void *ctx);

FOLIOT_API int foliot_task_update_async(struct foliot_client *client,
                                        const struct foliot_update_request *request,
                                        const struct foliot_call_options *options,
                                        foliot_updated_cb cb, void *ctx,
                                        struct foliot_error *error);

/*
 * Make a pending task due at once. As an update, it ends no attempt that may be running: another
 * one follows only if that does not end well.
 *
 * repeats: not if its outcome is unknown.
 * errors:  NOT_FOUND (TASK_GONE, TASK_NOT_FOUND), and those of all calls.
 */
FOLIOT_API int foliot_task_run_now(struct foliot_client *client,
                                   const struct foliot_task_name *name,
                                   const struct foliot_call_options *options,
                                   struct foliot_updated *out, struct foliot_error *error);

FOLIOT_API int foliot_task_run_now_async(struct foliot_client *client,
                                         const struct foliot_task_name *name,
                                         const struct foliot_call_options *options,
                                         foliot_updated_cb cb, void *ctx,
                                         struct foliot_error *error);

#ifdef __cplusplus
}
#endif

#endif
