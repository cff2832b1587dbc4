/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels.
 */
#include "client/cli/channels.h"

#include "client/cli/cli.h"
#include "lib/base/err.h"
#include "lib/io/loop.h"
#include "lib/io/resolve.h"
#include "lib/io/tls.h"
#include "lib/rpc/rpc_client.h"
#include "proto/codec.h"

#include <foliot/client.h>

#include <string.h>

/* shape: the texts of options stay while channels are opened. */
static int open_tls(struct channels *channels, const struct foliot_options *options)
{
    const struct tls_options files = {
        .ca_file = options->tls_ca, .cert_file = options->tls_cert, .key_file = options->tls_key};
    char why[TLS_WHY_BYTES] = "out of memory";

    if (options->tls == 0 && options->tls_ca == NULL && options->tls_cert == NULL &&
        options->tls_key == NULL && options->tls_name == NULL) {
        return CLI_OK;
    }
    return tls_open(&files, &channels->tls, why) == 0 ? CLI_OK : cli_usage("tls: %s", why);
}

static int open_list(struct channels *channels, const char *tls_name)
{
    while (channels->count < channels->servers.count) {
        struct rpc_channel_options options;
        int err;

        rpc_channel_options_init(&options);
        options.target = channels->servers.names[channels->count];
        options.resolver = channels->resolver;
        options.tls = channels->tls;
        options.tls_host = tls_name;
        options.request_bytes_max = RPC_MESSAGE_BYTES_MAX;
        options.response_bytes_max = RPC_MESSAGE_BYTES_MAX;
        err = rpc_channel_open(channels->loop, &options, &channels->list[channels->count]);
        if (err != 0) {
            return cli_usage("address \"%s\": %s", options.target, err_text(err));
        }
        channels->count++;
    }
    return CLI_OK;
}

int channels_open(struct channels *channels, const struct args *args)
{
    struct foliot_options tls = {.tls = 0};
    struct resolver_options options;
    int code;

    memset(channels, 0, sizeof(*channels));
    code = servers_read(&channels->servers, args);
    if (code != CLI_OK) {
        return code;
    }
    resolver_options_init(&options);
    if (loop_open(&channels->loop) != 0) {
        cli_say("no event loop: out of memory or descriptors");
        return CLI_ERROR;
    }
    if (resolver_open(channels->loop, &options, &channels->resolver) != 0) {
        cli_say("no resolver: out of memory or descriptors");
        code = CLI_ERROR;
    }
    session_take_tls(args, &tls);
    if (code == CLI_OK) {
        code = open_tls(channels, &tls);
    }
    if (code == CLI_OK) {
        code = open_list(channels, tls.tls_name);
    }
    if (code != CLI_OK) {
        channels_close(channels);
    }
    return code;
}

static void on_closed(void *ctx)
{
    size_t *open_count = ctx;

    (*open_count)--;
}

void channels_close(struct channels *channels)
{
    size_t open_count = channels->count;

    for (size_t i = 0; i < channels->count; i++) {
        rpc_channel_close(channels->list[i], on_closed, &open_count);
    }
    while (open_count > 0) {
        loop_turn(channels->loop, true);
    }
    if (channels->resolver != NULL) {
        resolver_close(channels->resolver);
    }
    if (channels->tls != NULL) {
        tls_close(channels->tls);
    }
    loop_close(channels->loop);
}
