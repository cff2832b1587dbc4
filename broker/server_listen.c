/* SPDX-License-Identifier: Apache-2.0
 *
 * The port for gRPC calls: settings into options, and what is advertised.
 */
#include "broker/server_parts.h"
#include "lib/base/err.h"
#include "lib/io/clock.h"

#include <stdio.h>
#include <string.h>

/* A setting whose zero stands for "never". */
static span_ms span_of(span_ms setting)
{
    return setting == 0 ? SPAN_NEVER : setting;
}

static void fill_options(const struct config *config, struct rpc_server_options *options)
{
    rpc_server_options_init(options);
    options->version = FOLIOT_VERSION;
    options->connections_max = (uint32_t)config->limits_connections;
    options->address_connections = (uint32_t)config->limits_connections_per_address;
    options->streams_max = (uint32_t)config->limits_streams;
    options->compress_bytes_min = (size_t)config->gzip_from;
    options->idle_ms = span_of(config->connection_idle_ms);
    options->age_ms = span_of(config->connection_age_ms);
    options->age_grace_ms = config->connection_age_grace_ms;
    options->keepalive_ms = span_of(config->connection_ping_after_ms);
    options->keepalive_timeout_ms = config->connection_ping_timeout_ms;
    options->ping_interval_min_ms = config->connection_client_ping_interval_ms;
    options->ping_strikes_max = (uint32_t)config->connection_client_ping_strikes;
}

int server_listen(struct server *server)
{
    const struct config *config = server->config;
    char host[MEMBER_ADDRESS_LEN_MAX + 1];
    struct rpc_server_options options;
    int err;

    fill_options(config, &options);
    options.tls = server->tls.calls;
    options.refused = server_on_tls_refused;
    options.refused_ctx = server;
    options.address = host;
    err = config_split_address(config->listen, host, sizeof(host), &options.port);
    if (err == 0) {
        err = rpc_server_open(server->loop, &options, &server->rpc);
    }
    if (err != 0) {
        server_cannot_listen(server, "cannot listen for calls", "listen", config->listen, err);
        return err;
    }
    /* Port 0 took some port: what is advertised, and a name that was left empty, must name it. */
    (void)snprintf(server->advertise, sizeof(server->advertise), "%s", config->advertise);
    (void)snprintf(server->name, sizeof(server->name), "%s", config->name);
    if (options.port == 0 && strcmp(config->advertise, config->listen) == 0) {
        (void)snprintf(server->advertise, sizeof(server->advertise),
                       strchr(host, ':') == NULL ? "%s:%u" : "[%s]:%u", host,
                       (unsigned)rpc_server_port(server->rpc));
        if (strcmp(config->name, config->advertise) == 0) {
            memcpy(server->name, server->advertise, sizeof(server->advertise));
        }
    }
    return 0;
}
