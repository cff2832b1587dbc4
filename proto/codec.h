/* SPDX-License-Identifier: Apache-2.0
 *
 * Wire messages to plain values and back, with all validation: what codec_read_… lets through is
 * within every limit of lib/base/limits.h. Pure: no I/O, no clock; a relative delay comes out as a
 * delay, for the core to add to the database's clock.
 *
 * The rules of every function here, and in the codec_*.h beside this file:
 * 1. codec_read_…(bytes, arena, out, fault) returns 0, or a negative code with fault filled in:
 *    status, reason, the field by its path, its limit, and what to do. ERR_INVALID: the message is
 *    wrong. ERR_TOO_LARGE: it unfolds to too much memory. ERR_NO_MEMORY.
 * 2. What it puts out borrows from the arena and not from bytes; it is valid until arena_fini().
 *    arena_init(arena, 0) will do: the reader gives it the budget that the size allows.
 * 3. codec_write_…(value, out) appends the serialized message to a buffer and returns 0,
 *    ERR_TOO_LARGE (above the buffer's maximum) or ERR_NO_MEMORY; the buffer then has no half
 *    message. It trusts its values: they come from us.
 * 4. Readers of requests are for servers, readers of replies for clients; both check alike.
 */
#ifndef FOLIOT_PROTO_CODEC_H
#define FOLIOT_PROTO_CODEC_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/instant.h"
#include "lib/base/limits.h"
#include "lib/model/queue.h"
#include "lib/model/task.h"
#include "proto/arena.h"
#include "proto/fault.h"

/* Largest message of a call, in and out; a batch of 10 000 tasks has 419 bytes for each. */
#define RPC_MESSAGE_BYTES_MAX 4194304

/* Namespace of who names none. */
#define NAMESPACE_DEFAULT "default"

/* A queue by its names, NUL-terminated and checked. */
struct queue_name {
    const char *tenant; /* never empty */
    const char *name;   /* "" if it was left out beside a task id */
};

/* A task by its id, or by queue and key. */
struct task_name {
    struct queue_name queue;
    struct task_id id;       /* seq 0: by key */
    struct slice key;        /* empty: by id */
    struct slice order_key;  /* beside a key; empty: none */
    struct slice stored_key; /* when read: both, as they are stored; see task_key_join() */
};

enum when_kind {
    WHEN_NONE = 0, /* nothing was said */
    WHEN_DUE,      /* at due_ms */
    WHEN_DELAY     /* delay_ms after now, by the database's clock */
};

/* When something is to happen: rounded up to milliseconds. */
struct when {
    enum when_kind kind;
    wall_ms due_ms;   /* 0 … DUE_WALL_MS_MAX; what was before 1970 counts as 0 */
    span_ms delay_ms; /* 0 … DELAY_MS_MAX; what was negative counts as 0 */
};

#endif
