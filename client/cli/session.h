/* SPDX-License-Identifier: Apache-2.0
 *
 * The brokers that a command talks to, by libfoliot: calls that wait for their answer, and go to
 * the next server when it is sure that nothing happened.
 */
#ifndef FOLIOT_CLIENT_CLI_SESSION_H
#define FOLIOT_CLIENT_CLI_SESSION_H

#include "client/cli/args.h"
#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/instant.h"
#include "proto/fault.h"

#include <stddef.h>

struct foliot_client;
struct foliot_options;

#define SERVER_DEFAULT         "127.0.0.1:7400"
#define SERVER_COUNT_MAX       16
#define SERVER_NAME_BYTES      256
#define SESSION_TIMEOUT_MS     10000
#define SESSION_TIMEOUT_MS_MAX INT64_C(86400000)

/* Servers of --address (any number, or several with commas), else the default. What the environment
 * and the context say is among the options already (context.h). */
struct servers {
    char names[SERVER_COUNT_MAX][SERVER_NAME_BYTES];
    size_t count;
};

/* errors: an exit code after saying so on standard error. */
MUST_USE int servers_read(struct servers *servers, const struct args *args);

/* What --tls, --tls-ca, --tls-cert, --tls-key and --tls-name say; texts are borrowed from args. */
void session_take_tls(const struct args *args, struct foliot_options *options);

struct session {
    struct foliot_client *client;
    struct servers servers;
    char last[SERVER_NAME_BYTES]; /* server that was asked last, cut */
    span_ms timeout_ms;
};

/*
 * Open, with the servers of --address, and --timeout.
 *
 * errors: an exit code after saying so on standard error; then there is nothing to close.
 */
MUST_USE int session_open(struct session *session, const struct args *args);

void session_close(struct session *session);

/*
 * Call and wait.
 *
 * shape:  is_repeatable: doing it twice does no harm, so that a lost connection is tried elsewhere.
 * return: CLI_OK with the response appended to reply, or an exit code with fault filled in.
 */
MUST_USE int session_call(struct session *session, const char *path, struct slice request,
                          bool is_repeatable, struct buf *reply, struct fault *fault);

/* Say on standard error why a call failed, and return the exit code that belongs to it. */
int session_complain(const struct session *session, const char *what, const struct fault *fault);

#endif
