/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot dev: the whole product in this process, and a sample receiver in it that prints what the
 * default queue fires. The only file of the command that knows a broker.
 */
#include "broker/dev.h"
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/json.h"
#include "client/cli/receive_report.h"
#include "lib/io/clock.h"
#include "lib/rpc/rpc_method.h"
#include "lib/rpc/rpc_server.h"
#include "proto/codec_receiver.h"

#include <stdio.h>
#include <string.h>

struct dev {
    struct report report;
    bool is_json;
};

/* ---- the sample receiver ---- */

static int deliver_one(struct dev *dev, const struct delivery *delivery, struct buf *reply)
{
    const struct delivery_result result = {.outcome = DELIVERY_DONE};
    struct attempt_line line = {
        .queue = delivery->queue,
        .key = delivery->key,
        .order_key = delivery->order_key,
        .attempt = delivery->attempt,
        .due_ms = delivery->due_ms,
        .deadline_ms = delivery->deadline_ms,
        .actual_us = clock_wall_us(),
    };

    task_id_format(delivery->id, line.task_id);
    report_add(&dev->report, &line);
    return codec_write_delivery_result(&result, reply);
}

static void on_deliver(struct rpc_call *call, struct slice request, void *ctx)
{
    struct dev *dev = ctx;
    struct delivery_batch batch;
    struct delivery delivery;
    struct arena arena;
    struct fault fault;
    struct buf reply;
    int err;

    arena_init(&arena, 0);
    buf_init(&reply, RPC_MESSAGE_BYTES_MAX);
    err = codec_read_deliver(request, &arena, &batch, &fault);
    for (size_t i = 0; err == 0 && i < batch.count; i++) {
        err = codec_read_delivery(&batch, i, &delivery, &fault);
        if (err == 0 && deliver_one(dev, &delivery, &reply) != 0) {
            err = ERR_NO_MEMORY;
            fault_set_err(&fault, err, "write the results");
        }
    }
    report_flush(&dev->report);
    if (err != 0) {
        buf_clear(&reply);
        (void)!fault_encode(&fault, &reply);
        rpc_call_fail(call, fault.status, fault.message, buf_slice(&reply), 0);
    } else {
        rpc_call_reply(call, buf_slice(&reply));
    }
    buf_fini(&reply);
    arena_fini(&arena);
}

/* ---- the banner ---- */

static void print_json(const struct dev_place *place)
{
    struct buf text;
    struct json json;

    buf_init(&text, 4096);
    json_init(&json, &text);
    json_open(&json, NULL, '{');
    json_text(&json, "address", place->address);
    json_text(&json, "addresses", place->addresses);
    json_text(&json, "adminAddress", place->admin_address);
    json_text(&json, "adminAddresses", place->admin_addresses);
    json_text(&json, "dbFile", place->db_file == NULL ? "" : place->db_file);
    json_close(&json, '}');
    (void)printf("%s\n", buf_text(&text));
    buf_fini(&text);
}

static void print_banner(const struct dev_place *place)
{
    char port[32] = "";
    const char *given = strrchr(place->address, ':');

    if (given != NULL && strcmp(given, ":7400") != 0) {
        (void)snprintf(port, sizeof(port), " --address %s", place->address);
    }
    (void)printf("Foliot " FOLIOT_VERSION
                 ": the whole product in this process. Not for production.\n\n"
                 "  calls   %s (gRPC)\n"
                 "  admin   http://%s/metrics%s\n",
                 place->addresses, place->admin_address,
                 strchr(place->addresses, ',') == NULL ? "" : ", and so on by twos");
    if (place->db_file == NULL) {
        (void)printf("  data    in memory: gone when this ends; --db-file FILE keeps it\n");
    } else {
        (void)printf("  data    kept in %s\n", place->db_file);
    }
    if (place->is_default_ours) {
        (void)printf("  queue   %s: what it fires is printed here\n", DEV_QUEUE);
    } else {
        (void)printf("  queue   %s: sends to another address; to print here what it fires:\n"
                     "          foliot queue update %s --target receiver://%s%s\n",
                     DEV_QUEUE, DEV_QUEUE, place->address, port);
    }
    (void)printf("\nIn another terminal:\n\n"
                 "  foliot task create --queue %s --delay 5s --payload hello%s\n\n"
                 "Ctrl-C ends it.\n\n",
                 DEV_QUEUE, port);
}

static void on_ready(void *ctx, const struct dev_place *place)
{
    const struct dev *dev = ctx;

    if (dev->is_json) {
        print_json(place);
    } else {
        print_banner(place);
    }
    (void)fflush(stdout);
}

/* ---- the command ---- */

static bool is_level(const char *word)
{
    static const char *const levels[] = {"debug", "info", "warn", "error"};

    for (size_t i = 0; i < ARRAY_COUNT(levels); i++) {
        if (strcmp(word, levels[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int read_options(const struct args *args, struct dev_options *out)
{
    int64_t port = DEV_PORT_DEFAULT;
    int64_t admin_port = DEV_ADMIN_PORT_DEFAULT;
    int64_t broker_count = 1;

    out->db_file = args_has(args, "db-file") ? args_text(args, "db-file", "") : NULL;
    out->log_level = args_text(args, "log-level", "warn");
    out->log_format = command_wants_json(args) ? "json" : "text";
    out->allow = args_has(args, "allow") ? args_text(args, "allow", "") : NULL;
    // What SQLite takes for memory is no file, and the banner must not say that it is kept.
    if (out->db_file != NULL &&
        (out->db_file[0] == '\0' || strcmp(out->db_file, ":memory:") == 0)) {
        return cli_usage(
            "--db-file needs the name of a file; without the option data is in memory");
    }
    if (!is_level(out->log_level)) {
        return cli_usage("--log-level \"%s\" must be debug, info, warn or error", out->log_level);
    }
    if (args_number(args, "port", 0, 65535, &port) != 0 ||
        args_number(args, "admin-port", 0, 65535, &admin_port) != 0 ||
        args_number(args, "brokers", 1, DEV_BROKERS_MAX, &broker_count) != 0) {
        return CLI_USAGE;
    }
    if (port + 2 * (broker_count - 1) > 65535 || admin_port + 2 * (broker_count - 1) > 65535) {
        return cli_usage("the last of %d brokers would have a port above 65535: choose lower ones",
                         (int)broker_count);
    }
    out->broker_count = (uint32_t)broker_count;
    out->port = (uint16_t)port;
    out->admin_port = (uint16_t)admin_port;
    return CLI_OK;
}

static int run(const struct args *args)
{
    static struct dev dev;
    const struct rpc_method deliver = {
        .path = RECEIVER_DELIVER_PATH, .handler = on_deliver, .ctx = &dev};
    struct dev_options options = {
        .methods = &deliver, .method_count = 1, .on_ready = on_ready, .ctx = &dev};
    char errmsg[DEV_MESSAGE_LEN];
    int code = read_options(args, &options);
    int err;

    if (code != CLI_OK) {
        return code;
    }
    dev.is_json = command_wants_json(args);
    report_init(&dev.report, dev.is_json, false);
    err = dev_run(&options, errmsg);
    (void)report_fini(&dev.report);
    if (err != 0) {
        cli_say("%s", errmsg[0] != '\0' ? errmsg : "dev mode did not end in order, see the log");
    }
    return err == 0 ? CLI_OK : cli_exit_of(err_status(err));
}

static const struct cli_option DEV_OPTIONS[] = {
    {"db-file", 0, "FILE", "keep everything in this SQLite file (default: in memory)"},
    {"port", 'p', "PORT", "port for calls on 127.0.0.1 (default 7400); 0 takes any and prints it"},
    {"admin-port", 0, "PORT", "port of /metrics and /readyz (default 7401); 0 takes any"},
    {"brokers", 0, "N", "so many brokers in the process, 1 to 8 (default 1): port, port + 2, ..."},
    {"log-level", 0, "LEVEL", "debug, info, warn or error, to standard error (default warn)"},
    {"allow", 0, "PATTERNS",
     "host:port that queues may send to, \"*\" for all (default: this machine)"},
};

const struct command DEV_COMMANDS[] = {
    {"dev", "", "", 0, "Run the whole product in this process: nothing to install, to try it.",
     "  foliot dev\n"
     "  foliot dev --db-file tasks.db --port 7500\n",
     DEV_OPTIONS, ARRAY_COUNT(DEV_OPTIONS), run, COMMAND_LINES},
};
const size_t DEV_COMMAND_COUNT = ARRAY_COUNT(DEV_COMMANDS);
