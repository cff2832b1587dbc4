/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of libfoliot: what a client is made of, and the life of a call. A call is made and its
 * request written in the caller's thread, sent and tried again on the client's loop, and its answer
 * read by whoever wants it: the caller that waits, or the loop for a callback.
 */
#ifndef FOLIOT_CLIENT_LIB_CLIENT_H
#define FOLIOT_CLIENT_LIB_CLIENT_H

#include "client/lib/brokers.h"
#include "client/lib/parts.h"
#include "client/lib/repeat.h"
#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/list.h"
#include "lib/base/prng.h"
#include "lib/io/loop.h"
#include "lib/io/mailbox.h"
#include "lib/rpc/rpc_client.h"
#include "proto/codec.h"

#include <foliot/client.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

struct client_call;

/* Room for a broker's address in an error. */
#define BROKER_TEXT_BYTES sizeof(((struct foliot_error *)NULL)->broker)

/* Longest time-out: a year. */
#define TIMEOUT_MS_MAX INT64_C(31536000000)

struct foliot_client {
    /* fixed at open */
    struct loop *loop;
    struct resolver *resolver;
    struct tls *tls;            /* NULL: cleartext */
    char *tls_name;             /* NULL: none */
    struct mailbox *mailbox;    /* calls to the loop */
    struct loop_waker *stopper; /* foliot_client_stop to the loop */
    pthread_t thread;
    span_ms timeout_ms;
    span_ms try_timeout_ms;
    bool is_impatient;
    uint32_t calls_max;

    /* any thread */
    atomic_bool is_stopped;
    atomic_uint call_count; /* calls that wait for their answer */
    atomic_ullong begun_count;
    atomic_ullong try_count;
    atomic_ullong direct_count;
    atomic_ullong learned_count; /* copied from brokers by the loop, as the next */
    atomic_uint member_count;

    /* the loop's */
    struct brokers *brokers; /* NULL once closed */
    struct list calls;       /* not ended yet */
    struct prng prng;
    struct loop_timer tls_timer; /* the next look at the files */
    bool is_stopping;
    atomic_bool is_closing; /* set by close before it stops: end the loop when all is done */
};

/* Room for the result of any method. */
#define RESULT_BYTES 128

/* Read an answer into a result. errors: those of codec functions, with fault filled in. */
typedef int (*client_decode_fn)(struct slice reply, void *result, struct fault *fault);

/* Call the callback of a call. shape: result is NULL unless error->code is FOLIOT_OK. */
typedef void (*client_deliver_fn)(const struct client_call *call, const struct foliot_error *error,
                                  const void *result);

/* Append the result of an item that failed; NULL of a method that has no items. errors: as codec
 * functions that write. */
typedef int (*client_fault_fn)(const struct fault *fault, struct buf *out);

/* Free what hangs on a result; NULL if nothing does. */
typedef void (*client_release_fn)(void *result);

struct client_method {
    const char *path;
    const char *what;      /* "cannot create the task" */
    enum repeat_kind kind; /* of its calls, unless one says otherwise */
    client_decode_fn decode;
    client_deliver_fn deliver;
    client_release_fn release;
    client_fault_fn write_fault;
};

typedef void (*client_any_fn)(void);

/*
 * One call.
 * 1. It belongs to the caller's thread until it is sent, to the loop until it has ended, then to
 * the thread that waits, or, if there is a callback, to the loop until it is freed.
 */
struct client_call {
    struct mailbox_node node; /* first: on its way to the loop */
    struct list member;       /* in client->calls */
    struct foliot_client *client;
    const struct client_method *method;
    struct buf bytes;      /* the request */
    int32_t slot;          /* or SLOT_ANY */
    enum repeat_kind kind; /* that of the method, unless begin says otherwise */
    boot_us deadline_us;

    struct rpc_request request; /* the present try */
    struct broker_link *link;   /* that has it; NULL between tries */
    struct broker_link *avoid;  /* that failed last; compared, never followed */
    struct loop_timer pause;    /* until the next try */
    uint32_t tries;
    bool is_unknown;                /* some try may have happened */
    char broker[BROKER_TEXT_BYTES]; /* that was tried last, cut */

    struct part_item *items; /* of a batch, all of them; NULL of any other call */
    uint32_t *indices;       /* of a part: which items of the whole; NULL of any other call */
    size_t item_count;
    struct client_call *whole; /* of a part: what it is a part of; NULL of any other call */
    uint32_t parts_left;       /* of a batch that was divided: parts that have not ended */
    struct list ended_parts;   /* of it: those that have, by member */

    struct buf reply;
    struct fault fault; /* how it ended */
    bool may_have_happened;
    sem_t ended;
    client_any_fn cb; /* NULL: somebody waits */
    void *ctx;
};

/*
 * Make a call of a method, for the caller to write its request and to set slot and kind.
 *
 * shape:  options and error may be NULL; client may be too, which is refused.
 * return: a call, ended by one of the next three; or NULL with *code and error filled in.
 */
MUST_USE struct client_call *client_call_new(struct foliot_client *client,
                                             const struct client_method *method,
                                             const struct foliot_call_options *options, int *code,
                                             struct foliot_error *error);

/* Refuse a call that was not sent: free it, fill in *code and error from its fault, return NULL. */
struct client_call *client_call_refuse(struct client_call *call, int *code,
                                       struct foliot_error *error);

/*
 * Send a call, wait for its end, read the result, free the call.
 *
 * shape:  result is what the method's decode takes; written on FOLIOT_OK only.
 * return: a code, with error filled in.
 */
MUST_USE int client_call_wait(struct client_call *call, void *result, struct foliot_error *error);

/* Send a call whose callback comes later. return: a code, with error filled in; the call is not the
 * caller's any more. */
MUST_USE int client_call_start(struct client_call *call, client_any_fn cb, void *ctx,
                               struct foliot_error *error);

/* ---- for parts.c, on the loop ---- */

/* A call like another one, without its request. NULL: no memory. */
struct client_call *client_call_new_part(struct client_call *whole);

/* Start a call that has come to the loop, or was made there. */
void client_call_begin(struct client_call *call);

/* Free; NULL is fine. */
void client_call_free(struct client_call *call);

/* A call has come to the loop. */
void client_call_arrive(struct mailbox_node *node, void *ctx);

/* On the loop: end every call. */
void client_call_end_all(struct foliot_client *client);

/* The last call has ended, or the client stops: go on with closing, if it is time. */
void client_try_close(struct foliot_client *client);

/* ---- errors and arguments (argument.c) ---- */

/* Put a fault into a caller's error, which may be NULL; returns its code. The rest is zeroed. */
int error_fill(struct foliot_error *error, const struct fault *fault);

/* Refuse an argument: INVALID_ARGUMENT with a reason; returns the code. */
int error_refuse(struct foliot_error *error, const char *reason, const char *field,
                 const char *format, ...) PRINTF_LIKE(4, 5);

/*
 * Take a struct that the caller's header may know in another size: what it lacks is zeroed.
 *
 * shape:  given starts with its struct_size; NULL is refused.
 * errors: ERR_INVALID with fault filled in: not set up, or with fields that this library is too old
 *         to know.
 */
MUST_USE int argument_take(const void *given, void *out, size_t size, const char *what,
                           struct fault *fault);

/* The text, or what stands for it if it is NULL or empty. */
const char *argument_text(const char *text, const char *otherwise);

/* errors: ERR_INVALID with fault filled in: the text has more than bytes_max bytes. */
MUST_USE int argument_check_text(const char *text, size_t bytes_max, const char *field,
                                 const char *limit, struct fault *fault);

#endif
