/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that wait for their answer, over the asynchronous client.
 */
#include "client/cli/session.h"

#include "client/cli/cli.h"
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"
#include "lib/io/resolve.h"
#include "lib/rpc/rpc_client.h"
#include "proto/codec.h"

#include <stdio.h>
#include <string.h>

/* A call that is being waited for. */
struct wait {
    struct rpc_request request;
    struct session *session;
    struct buf *reply;
    struct fault *fault;
    bool is_done;
    bool is_safe; /* nothing happened */
};

/* Servers of one text, divided by commas. */
static int add_servers(struct session *session, const char *text)
{
    while (*text != '\0') {
        size_t len = strcspn(text, ",");

        if (len > 0) {
            if (session->count == SERVER_COUNT_MAX) {
                return cli_usage("more than %d addresses", SERVER_COUNT_MAX);
            }
            if (len >= SERVER_NAME_BYTES) {
                return cli_usage("address \"%.60s…\" is too long", text);
            }
            (void)snprintf(session->names[session->count++], SERVER_NAME_BYTES, "%.*s", (int)len,
                           text);
        }
        text += len + (text[len] == ',');
    }
    return CLI_OK;
}

static int read_servers(struct session *session, const struct args *args)
{
    int code = CLI_OK;

    for (size_t i = 0; i < args->item_count && code == CLI_OK; i++) {
        if (strcmp(args->items[i].name, "address") == 0) {
            code = add_servers(session, args->items[i].value);
        }
    }
    if (code == CLI_OK && session->count == 0) {
        code = add_servers(session, SERVER_DEFAULT);
    }
    return code;
}

static int open_channels(struct session *session)
{
    for (size_t i = 0; i < session->count; i++) {
        struct rpc_channel_options options;
        int err;

        rpc_channel_options_init(&options);
        options.target = session->names[i];
        options.resolver = session->resolver;
        options.request_bytes_max = RPC_MESSAGE_BYTES_MAX;
        options.response_bytes_max = RPC_MESSAGE_BYTES_MAX;
        err = rpc_channel_open(session->loop, &options, &session->channels[i]);
        if (err != 0) {
            return err == ERR_INVALID
                       ? cli_usage("address \"%s\" must be host:port, as 127.0.0.1:7400",
                                   session->names[i])
                       : cli_usage("address \"%s\": %s", session->names[i], err_text(err));
        }
    }
    return CLI_OK;
}

int session_open(struct session *session, const struct args *args)
{
    struct resolver_options options;
    int code;

    memset(session, 0, sizeof(*session));
    session->timeout_ms = SESSION_TIMEOUT_MS;
    if (args_span(args, "timeout", &session->timeout_ms) != 0) {
        return CLI_USAGE;
    }
    session->timeout_ms = time_clamp(session->timeout_ms, 1, SESSION_TIMEOUT_MS_MAX);
    code = read_servers(session, args);
    if (code != CLI_OK) {
        return code;
    }
    resolver_options_init(&options);
    if (loop_open(&session->loop) != 0) {
        cli_say("no event loop: out of memory or descriptors");
        return CLI_ERROR;
    }
    if (resolver_open(session->loop, &options, &session->resolver) != 0) {
        cli_say("no resolver: out of memory or descriptors");
        code = CLI_ERROR;
    }
    if (code == CLI_OK) {
        code = open_channels(session);
    }
    if (code != CLI_OK) {
        session_close(session);
    }
    return code;
}

static void channel_closed(void *ctx)
{
    size_t *open_count = ctx;

    (*open_count)--;
}

void session_close(struct session *session)
{
    size_t open_count = 0;

    for (size_t i = 0; i < session->count; i++) {
        if (session->channels[i] != NULL) {
            open_count++;
            rpc_channel_close(session->channels[i], channel_closed, &open_count);
        }
    }
    while (open_count > 0) {
        loop_turn(session->loop, true);
    }
    if (session->resolver != NULL) {
        resolver_close(session->resolver);
    }
    loop_close(session->loop);
}

static void on_reply(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    struct wait *wait = ctx;

    (void)request;
    wait->is_done = true;
    if (reply->status == RPC_OK) {
        wait->fault->status = RPC_OK;
        if (buf_append(wait->reply, reply->payload.data, reply->payload.len) != 0) {
            fault_set_err(wait->fault, ERR_NO_MEMORY, "keep the answer");
        }
        return;
    }
    fault_decode(wait->fault, reply->status, reply->message, reply->details);
    wait->is_safe = reply->status == RPC_UNAVAILABLE && (reply->unprocessed || reply->from_peer);
}

/* One try at one server. */
static void call_one(struct session *session, struct wait *wait)
{
    int err;

    wait->is_done = false;
    wait->is_safe = false;
    err = rpc_channel_call(session->channels[session->current], &wait->request);
    if (err != 0) {
        fault_set_err(wait->fault, err, "start the call");
        return;
    }
    while (!wait->is_done) {
        loop_turn(session->loop, true);
    }
}

int session_call(struct session *session, const char *path, struct slice request,
                 bool is_repeatable, struct buf *reply, struct fault *fault)
{
    boot_us deadline_us =
        time_add(loop_sample_us(session->loop), time_mul(session->timeout_ms, US_PER_MS));
    struct wait wait = {.session = session, .reply = reply, .fault = fault};

    for (size_t tries = 1;; tries++) {
        wait.request = (struct rpc_request){
            .path = path,
            .payload = request,
            .deadline_us = deadline_us,
            .cb = on_reply,
            .ctx = &wait,
        };
        call_one(session, &wait);
        if (fault->status == RPC_OK) {
            return CLI_OK;
        }
        if (tries >= session->count || fault->status != RPC_UNAVAILABLE ||
            !(wait.is_safe || is_repeatable)) {
            break;
        }
        session->current = (session->current + 1) % session->count;
    }
    if (fault->status == RPC_UNAVAILABLE && !wait.is_safe && !is_repeatable) {
        fault_set(fault, RPC_UNKNOWN, "OUTCOME_UNKNOWN", NULL,
                  "the connection broke before the answer came; it may have happened");
    }
    return cli_exit_of(fault->status);
}

int session_complain(const struct session *session, const char *what, const struct fault *fault)
{
    char retry[64] = "";

    if (fault->retry_after_ms > 0) {
        (void)snprintf(retry, sizeof(retry), "; try again in %lld ms",
                       (long long)fault->retry_after_ms);
    }
    cli_say("%s: %s%s%s%s: %s%s", what, cli_status_name(fault->status),
            fault->reason[0] == '\0' ? "" : " (", fault->reason,
            fault->reason[0] == '\0' ? "" : ")", fault->message, retry);
    if (fault->status == RPC_UNAVAILABLE) {
        cli_say("asked %zu server%s, the last one was %s; name others with --address or "
                "FOLIOT_ADDRESS",
                session->count, session->count == 1 ? "" : "s", session->names[session->current]);
    }
    return cli_exit_of(fault->status);
}
