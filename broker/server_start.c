/* SPDX-License-Identifier: Apache-2.0
 *
 * The start before there is a loop: the admin port, then whatever the backend needs.
 */
#include "broker/server_parts.h"

#include "lib/base/err.h"
#include "lib/io/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static const char *listen_problem(int err)
{
    switch (err) {
    case ERR_EXISTS:
        return "the port is taken: end what listens there, or choose another one";
    case ERR_DENIED:
        return "not allowed: ports below 1024 are root's";
    case ERR_INVALID:
        return "not an address of this machine";
    default:
        return err_text(err);
    }
}

void server_cannot_listen(struct server *server, const char *message, const char *setting,
                          const char *address, int err)
{
    char line[512];

    if (server->backend->on_refused != NULL) {
        (void)snprintf(line, sizeof(line), "%s on %s: %s", message, address, listen_problem(err));
        server->backend->on_refused(server, err, line);
        return;
    }
    SERVER_LOG(server, LOG_LEVEL_ERROR, message, log_text("setting", setting),
               log_text("address", address), log_text("why", listen_problem(err)), log_err(err));
}

static bool open_admin(struct server *server)
{
    const struct config *config = server->config;
    char host[MEMBER_ADDRESS_LEN_MAX + 1];
    struct admin_options options = {
        .host = host,
        .clock_us = clock_boot_us,
    };
    int err;

    if (strcmp(config->admin_listen, "off") == 0) {
        return true;
    }
    err = config_split_address(config->admin_listen, host, sizeof(host), &options.port);
    if (err == 0) {
        err = admin_open(&options, &server->admin);
    }
    if (err != 0) {
        server_cannot_listen(server, "cannot open the admin port", "admin.listen",
                             config->admin_listen, err);
        return false;
    }
    (void)snprintf(server->admin_address, sizeof(server->admin_address),
                   strchr(host, ':') == NULL ? "%s:%u" : "[%s]:%u", host,
                   (unsigned)admin_port(server->admin));
    SERVER_LOG(server, LOG_LEVEL_INFO, "admin port is open",
               log_text("address", server->admin_address));
    return true;
}

/* Every connection is a descriptor: take as many as we may have. */
static void raise_descriptor_limit(struct server *server)
{
    struct rlimit limit;
    int64_t wanted = server->config->limits_connections + server->config->targets_max;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return;
    }
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || (rlim_t)wanted > limit.rlim_max) {
        SERVER_LOG(server, LOG_LEVEL_WARN,
                   "the limit of open files is below limits.connections and targets.max together",
                   log_uint("limit", limit.rlim_max), log_int("wanted", wanted));
    }
}

bool server_prepare(struct server *server)
{
    raise_descriptor_limit(server);
    return open_admin(server) && server->backend->prepare(server);
}
