/* SPDX-License-Identifier: Apache-2.0
 *
 * Played brokers.
 */
#include "tests/lib/played.h"

#include "lib/base/err.h"
#include "lib/io/loop.h"
#include "lib/rpc/rpc_server.h"
#include "tests/lib/must.h"

#include <stdio.h>
#include <string.h>

static void on_closed(void *ctx)
{
    struct played *played = ctx;

    loop_stop(played->loop);
}

static void on_end(void *ctx)
{
    struct played *played = ctx;

    rpc_server_close(played->server, on_closed, played);
}

static void *run(void *ctx)
{
    struct played *played = ctx;

    loop_run(played->loop);
    return NULL;
}

void played_start(struct played *played, const struct rpc_method *methods, size_t count)
{
    played_start_tls(played, methods, count, NULL);
}

void played_start_tls(struct played *played, const struct rpc_method *methods, size_t count,
                      struct tls *tls)
{
    struct rpc_server_options options;

    MUST_LE(count, PLAYED_METHODS_MAX);
    memset(played, 0, sizeof(*played));
    memcpy(played->methods, methods, count * sizeof(*methods));
    rpc_server_options_init(&options);
    options.tls = tls;
    MUST_OK(loop_open(&played->loop));
    MUST_OK(loop_waker_open(played->loop, on_end, played, &played->ender));
    MUST_OK(rpc_server_open(played->loop, &options, &played->server));
    MUST_OK(rpc_server_add_all(played->server, played->methods, count));
    (void)snprintf(played->address, sizeof(played->address), "127.0.0.1:%u",
                   rpc_server_port(played->server));
    MUST_EQ(pthread_create(&played->thread, NULL, run, played), 0);
}

void played_stop(struct played *played)
{
    loop_waker_wake(played->ender);
    MUST_EQ(pthread_join(played->thread, NULL), 0);
    loop_waker_close(played->ender);
    loop_close(played->loop);
}
