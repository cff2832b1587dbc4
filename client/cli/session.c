/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the command, over libfoliot.
 */
#include "client/cli/session.h"

#include "client/cli/cli.h"
#include "client/lib/brokers.h"
#include "client/lib/raw_call.h"
#include "lib/io/clock.h"
#include "lib/rpc/rpc_target.h"

#include <stdio.h>
#include <string.h>

/* Servers of one text, divided by commas. */
static int add_servers(struct servers *servers, const char *text)
{
    while (*text != '\0') {
        size_t len = strcspn(text, ",");

        if (len > 0) {
            if (servers->count == SERVER_COUNT_MAX) {
                return cli_usage("more than %d addresses (SERVER_COUNT_MAX)", SERVER_COUNT_MAX);
            }
            if (len >= SERVER_NAME_BYTES) {
                return cli_usage("address \"%.60s…\" has more than %d bytes (SERVER_NAME_BYTES)",
                                 text, SERVER_NAME_BYTES - 1);
            }
            (void)snprintf(servers->names[servers->count++], SERVER_NAME_BYTES, "%.*s", (int)len,
                           text);
        }
        text += len + (text[len] == ',');
    }
    return CLI_OK;
}

static int check_servers(const struct servers *servers)
{
    for (size_t i = 0; i < servers->count; i++) {
        struct rpc_target target;

        if (rpc_target_parse(servers->names[i], &target) != 0) {
            return cli_usage("address \"%s\" must be host:port, as 127.0.0.1:7400",
                             servers->names[i]);
        }
    }
    return CLI_OK;
}

int servers_read(struct servers *servers, const struct args *args)
{
    int code = CLI_OK;

    servers->count = 0;
    for (size_t i = 0; i < args->item_count && code == CLI_OK; i++) {
        if (strcmp(args->items[i].name, "address") == 0) {
            code = add_servers(servers, args->items[i].value);
        }
    }
    if (code == CLI_OK && servers->count == 0) {
        code = add_servers(servers, SERVER_DEFAULT);
    }
    return code == CLI_OK ? check_servers(servers) : code;
}

void session_take_tls(const struct args *args, struct foliot_options *options)
{
    const char *tls = args_text(args, "tls", "");

    if (strcmp(tls, "off") != 0) {
        options->tls = strcmp(tls, "on") == 0;
        options->tls_ca = args_text(args, "tls-ca", NULL);
        options->tls_cert = args_text(args, "tls-cert", NULL);
        options->tls_key = args_text(args, "tls-key", NULL);
        options->tls_name = args_text(args, "tls-name", NULL);
    }
}

static int open_client(struct session *session, const struct args *args)
{
    char servers[SERVER_COUNT_MAX * SERVER_NAME_BYTES] = "";
    struct foliot_options options;
    struct foliot_error error;
    size_t len = 0;

    for (size_t i = 0; i < session->servers.count; i++) {
        len += (size_t)snprintf(servers + len, sizeof(servers) - len, "%s%s", i == 0 ? "" : ",",
                                session->servers.names[i]);
    }
    foliot_options_init(&options);
    options.servers = servers;
    options.servers_only = 1; // Those that were named, and no other behind our user's back.
    options.timeout_ms = session->timeout_ms;
    options.try_timeout_ms = session->timeout_ms;
    options.impatient = 1; // A person waits: what cannot be done now is said at once.
    session_take_tls(args, &options);
    switch (foliot_client_open(&options, &session->client, &error)) {
    case FOLIOT_OK:
        return CLI_OK;
    case FOLIOT_INVALID_ARGUMENT: // Addresses have been looked at: it is a file of TLS.
        return cli_usage("%s", error.message);
    default:
        cli_say("%s", error.message);
        return CLI_ERROR;
    }
}

int session_open(struct session *session, const struct args *args)
{
    int code;

    memset(session, 0, sizeof(*session));
    session->timeout_ms = SESSION_TIMEOUT_MS;
    if (args_span(args, "timeout", &session->timeout_ms) != 0) {
        return CLI_USAGE;
    }
    if (session->timeout_ms < 1 || session->timeout_ms > SESSION_TIMEOUT_MS_MAX) {
        return cli_usage("--timeout must be 1ms to 1d (SESSION_TIMEOUT_MS_MAX)");
    }
    code = servers_read(&session->servers, args);
    return code == CLI_OK ? open_client(session, args) : code;
}

void session_close(struct session *session)
{
    (void)foliot_client_close(session->client);
}

/* Methods that change nothing begin so. */
static bool is_read(const char *path)
{
    static const char *const verbs[] = {"Get", "List", "Explain", "Group"};
    const char *method = strrchr(path, '/') + 1;

    for (size_t i = 0; i < ARRAY_COUNT(verbs); i++) {
        if (strncmp(method, verbs[i], strlen(verbs[i])) == 0) {
            return true;
        }
    }
    return false;
}

static void read_error(const struct foliot_error *error, struct fault *fault)
{
    fault_set(fault, (enum rpc_status)error->code, error->reason, error->field, "%s",
              error->message);
    fault->retry_after_ms = error->retry_after_ms;
}

int session_call(struct session *session, const char *path, struct slice request,
                 bool is_repeatable, struct buf *reply, struct fault *fault)
{
    boot_us deadline_us = time_add(clock_boot_us(), time_mul(session->timeout_ms, US_PER_MS));
    const struct raw_call call = {
        .path = path,
        .what = "no answer",
        .request = request,
        .kind = is_read(path)   ? REPEAT_READ
                : is_repeatable ? REPEAT_SAFELY
                                : REPEAT_NEVER,
        .slot = SLOT_ANY,
    };
    struct foliot_error error;

    if (raw_call(session->client, &call, reply, &error) == FOLIOT_OK) {
        fault->status = RPC_OK;
        return CLI_OK;
    }
    (void)snprintf(session->last, sizeof(session->last), "%s",
                   error.broker[0] == '\0' ? session->servers.names[0] : error.broker);
    read_error(&error, fault);
    if (error.code == FOLIOT_OUTCOME_UNKNOWN && clock_boot_us() >= deadline_us) {
        fault->status = RPC_DEADLINE_EXCEEDED; // What the exit status says; the text says the rest.
    }
    return cli_exit_of(fault->status);
}

/* The command that comes next, for reasons whose message names a method of the API. */
static const char *next_command(const char *reason)
{
    static const struct {
        const char *reason;
        const char *command;
    } rows[] = {
        {"QUEUE_NOT_FOUND", "foliot queue list, or foliot queue create NAME --target URL"},
        {"QUEUE_EXISTS", "foliot queue get NAME, or foliot queue update NAME"},
        {"QUEUE_DRAINING", "foliot queue resume NAME"},
        {"QUEUE_NOT_DRAINING", "foliot queue drain NAME"},
        {"QUEUE_NOT_EMPTY",
         "foliot queue stats NAME, then foliot task cancel --queue NAME --all, and foliot dead "
         "redrive or purge --queue NAME"},
        {"TASK_GONE", "foliot dead list --queue NAME, which shows those that died"},
        {"TARGET_NOT_ALLOWED", "foliot dev --allow HOST:PORT; of a cluster, ask its operator"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (strcmp(reason, rows[i].reason) == 0) {
            return rows[i].command;
        }
    }
    return NULL;
}

int session_complain(const struct session *session, const char *what, const struct fault *fault)
{
    const char *next = next_command(fault->reason);
    char retry[64] = "";

    if (fault->retry_after_ms > 0) {
        (void)snprintf(retry, sizeof(retry), "; try again in %lld ms",
                       (long long)fault->retry_after_ms);
    }
    cli_say("%s: %s%s%s%s: %s%s", what, err_status_name(fault->status),
            fault->reason[0] == '\0' ? "" : " (", fault->reason,
            fault->reason[0] == '\0' ? "" : ")", fault->message, retry);
    if (next != NULL) {
        cli_say("next: %s", next);
    }
    if (fault->status == RPC_UNIMPLEMENTED) {
        cli_say(
            "whoever answered does not know this: a broker older than this command, or no broker");
    }
    if (fault->status == RPC_UNAVAILABLE) {
        cli_say("asked %zu server%s, the last one was %s; name others with --address or "
                "FOLIOT_ADDRESS; foliot dev starts one to try",
                session->servers.count, session->servers.count == 1 ? "" : "s", session->last);
    }
    return cli_exit_of(fault->status);
}
