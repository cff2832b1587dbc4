/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands around a broker in a test: one loop with a client that makes calls and waits for
 * them, and a server that is the target: any method of it takes attempts, and Receiver/Deliver
 * takes batches. Everything that arrives is kept, with the moment by this machine's clock.
 */
#ifndef FOLIOT_TESTS_LIB_WORLD_H
#define FOLIOT_TESTS_LIB_WORLD_H

#include "lib/base/buf.h"
#include "lib/rpc/rpc_client.h"
#include "lib/rpc/rpc_method.h"
#include "proto/codec_queue.h"
#include "proto/codec_receiver.h"
#include "proto/codec_task.h"

#include <stdbool.h>

/* The method of the target that takes attempts of kind 1. */
#define WORLD_METHOD "/test.Sink/Take"

#define WORLD_PAYLOAD_MAX 256

/* One attempt as it arrived. */
struct arrival {
    struct task_id id;
    uint32_t attempt;
    wall_ms due_ms;
    wall_ms deadline_ms;
    int64_t at_us; /* this machine's wall clock */
    char queue[64];
    char key[256];
    uint8_t payload[WORLD_PAYLOAD_MAX]; /* its start */
    size_t payload_len;
    bool by_method; /* kind 1; else Deliver */
};

/* How the target answers the attempt that has just arrived. Kind 1: a status; Deliver: an outcome.
 */
struct verdict_of {
    bool is_silent; /* never answer */
    enum rpc_status status;
    const char *reason; /* of an ErrorInfo; NULL for none */
    enum delivery_outcome outcome;
};

struct world;
typedef struct verdict_of (*world_answer_fn)(struct world *world, const struct arrival *arrival);

struct world {
    struct loop *loop;
    struct resolver *resolver;
    struct rpc_server *server;
    struct rpc_call **silent; /* calls that are never answered */
    size_t silent_count;
    char target[64]; /* "127.0.0.1:port" of the server */
    struct arrival *arrivals;
    size_t arrival_count;
    size_t deliver_count;   /* calls of Deliver */
    world_answer_fn answer; /* NULL: everything is done */
    struct rpc_channel *channels[8];
    char addresses[8][64];
    size_t channel_count;
};

void world_open(struct world *world);

/* Turn the loop until the condition holds; false after limit_ms. */
#define WORLD_UNTIL(world, condition, limit_ms)                                                    \
    do {                                                                                           \
        int64_t world_end_ms = must_now_ms() + (limit_ms);                                         \
        while (!(condition)) {                                                                     \
            if (must_now_ms() > world_end_ms) {                                                    \
                must_fail(MUST_HERE, "not within %lld ms: %s", (long long)(limit_ms), #condition); \
            }                                                                                      \
            world_turn(world);                                                                     \
        }                                                                                          \
    } while (0)

/* One turn; sleeps a few milliseconds at most. */
void world_turn(struct world *world);

/* Turn for so long. */
void world_wait(struct world *world, int64_t ms);

/* What a call came to. payload and details are kept in it. */
struct answer {
    enum rpc_status status;
    struct buf payload;
    struct fault fault;
    bool has_come;
    bool from_peer;
};

/* Begin a call; the request and the answer must not move until answer->has_come. */
void world_start(struct world *world, const char *address, struct rpc_request *request,
                 struct answer *answer);

/*
 * Make a call and wait for its end; the case fails after 30 s.
 *
 * ownership: answer_fini() frees it.
 */
void world_call(struct world *world, const char *address, const char *path, struct slice request,
                struct answer *answer);
void answer_fini(struct answer *answer);

/* ---- calls of foliot.v1 ---- */

/* A queue with defaults that sends to a target; ends the case unless it is OK. */
void world_create_queue(struct world *world, const char *address, const char *name,
                        const char *target);

/* The same with a queue of the caller's own; ends the case unless it is OK. */
void world_put_queue(struct world *world, const char *address, const struct queue *queue);

/* The target addresses of this world's server. */
void world_method_target(const struct world *world, char *out, size_t size);
void world_receiver_target(const struct world *world, char *out, size_t size);

/* Create a task in a queue of the default namespace. */
enum rpc_status world_create(struct world *world, const char *address,
                             const struct create_request *request, struct create_reply *reply,
                             struct fault *fault);

/* Create a task without key, due in delay_ms; ends the case unless it is OK. */
struct task_id world_create_in(struct world *world, const char *address, const char *queue,
                               span_ms delay_ms, const char *payload);

enum rpc_status world_cancel(struct world *world, const char *address, const struct task_name *name,
                             struct cancel_reply *reply, struct fault *fault);

/* Arrivals of a task; the last of them, or NULL. */
size_t world_count(const struct world *world, struct task_id id);
const struct arrival *world_last(const struct world *world, struct task_id id);

void world_close(struct world *world);

#endif
