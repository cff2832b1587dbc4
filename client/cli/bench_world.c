/* SPDX-License-Identifier: Apache-2.0
 *
 * Making and removing the queue of a run.
 */
#include "client/cli/bench_world.h"

#include "client/cli/cli.h"
#include "client/cli/watch.h"
#include "lib/io/entropy.h"
#include "proto/codec_queue_life.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A queue that drains gets this long to settle what has run, looked at so often. */
#define EMPTY_MS 30000
#define LOOK_MS  20

static int call(struct bench_world *world, const char *method, const struct buf *request,
                struct fault *fault)
{
    struct buf reply;
    char path[64];
    int code;

    (void)snprintf(path, sizeof(path), "/foliot.v1.QueueService/%s", method);
    buf_init(&reply, RPC_MESSAGE_BYTES_MAX);
    code = session_call(&world->session, path, buf_slice(request), false, &reply, fault);
    buf_fini(&reply);
    return code;
}

static int make_queue(struct bench_world *world)
{
    struct buf request;
    struct fault fault;
    int code = CLI_ERROR;

    buf_init(&request, RPC_MESSAGE_BYTES_MAX);
    if (codec_write_queue(&world->queue, &request) != 0) {
        cli_say("no memory for a queue");
    } else if ((code = call(world, "Create", &request, &fault)) != CLI_OK) {
        code = session_complain(&world->session, "create the queue of the benchmark", &fault);
    }
    buf_fini(&request);
    return code;
}

int bench_world_open(struct bench_world *world, const struct plan *plan, const struct args *args,
                     uint16_t port)
{
    const char *colon = strchr(plan->address, ':');
    int code;

    queue_init(&world->queue);
    (void)snprintf(world->queue.tenant, sizeof(world->queue.tenant), "%s",
                   args_text(args, "namespace", NAMESPACE_DEFAULT));
    (void)snprintf(world->queue.name, sizeof(world->queue.name), "bench-%016" PRIx64,
                   entropy_u64());
    (void)snprintf(world->queue.target, sizeof(world->queue.target), "receiver://%s%s%s:%u",
                   colon == NULL ? "" : "[", plan->address, colon == NULL ? "" : "]", port);
    world->queue.concurrency_max = plan->concurrency;
    code = session_open(&world->session, args);
    if (code != CLI_OK) {
        return code;
    }
    code = make_queue(world);
    if (code != CLI_OK) {
        session_close(&world->session);
    }
    return code;
}

static int drain_queue(struct bench_world *world, struct fault *fault)
{
    const struct queue_name name = {world->queue.tenant, world->queue.name};
    struct buf request;
    int code;

    buf_init(&request, RPC_MESSAGE_BYTES_MAX);
    code = codec_write_queue_name(&name, &request) == 0 ? call(world, "Drain", &request, fault)
                                                        : CLI_ERROR;
    buf_fini(&request);
    return code;
}

static int delete_queue(struct bench_world *world, struct fault *fault)
{
    const struct queue_delete_request wish = {.queue = {world->queue.tenant, world->queue.name}};
    struct buf request;
    int code;

    buf_init(&request, RPC_MESSAGE_BYTES_MAX);
    code = codec_write_queue_delete(&wish, &request) == 0 ? call(world, "Delete", &request, fault)
                                                          : CLI_ERROR;
    buf_fini(&request);
    return code;
}

int bench_world_remove(struct bench_world *world)
{
    struct fault fault = {.status = RPC_INTERNAL};
    int code = drain_queue(world, &fault);

    if (code != CLI_OK) {
        return session_complain(&world->session, "drain the queue of the benchmark", &fault);
    }
    for (span_ms waited = 0; waited < EMPTY_MS; waited += LOOK_MS) {
        code = delete_queue(world, &fault);
        if (code == CLI_OK || strcmp(fault.reason, "QUEUE_NOT_EMPTY") != 0) {
            break;
        }
        watch_sleep(LOOK_MS);
    }
    if (code != CLI_OK) {
        (void)session_complain(&world->session, "delete the queue of the benchmark", &fault);
        cli_say("left behind: queue %s of namespace %s", world->queue.name, world->queue.tenant);
    }
    return code;
}

void bench_world_close(struct bench_world *world)
{
    session_close(&world->session);
}
