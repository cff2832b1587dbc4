/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot cluster init, adopt: what is done while no broker runs, by ZooKeeper and the databases
 * themselves. Its options are foliotd's settings, of the same names, files and environment.
 */
#include "broker/adopt.h"
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/output.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OPTION_SETTINGS                                                                          \
    {"config", 0, "FILE", "read foliotd's settings from this YAML file (FOLIOT_CONFIG)"},        \
        {"cluster-name", 0, "NAME", "cluster; default main"},                                    \
        {"zookeeper-hosts", 0, "HOST:PORT,...", "ZooKeeper servers; default 127.0.0.1:2181"},    \
        {"zookeeper-root", 0, "/PATH", "folder of all clusters in ZooKeeper; default /foliot"},  \
    {                                                                                            \
        "databases", 0, "NAME=CONNINFO",                                                         \
            "a database, by its name in the cluster; again for each one (FOLIOT_DATABASES_FILE)" \
    }

static const struct cli_option INIT_OPTIONS[] = {
    OPTION_SETTINGS,
    {"cluster-shards", 0, "N", "shards, for good; default 128: 32 times the most brokers"},
};
static const struct cli_option ADOPT_OPTIONS[] = {OPTION_SETTINGS};

/* Longest flag: a conninfo. */
#define FLAG_BYTES 2048

/* The options as foliotd's flags. */
struct flags {
    char texts[ARGS_ITEM_COUNT_MAX][FLAG_BYTES];
    char *argv[ARGS_ITEM_COUNT_MAX + 2];
    int argc;
};

typedef int (*adopt_fn)(int argc, char **argv, struct adopt_result *out, char *errmsg);

/* Those of the command's own options that say how to show the result are not foliotd's. */
static bool is_setting(const struct command *command, const char *name)
{
    for (size_t i = 0; i < command->option_count; i++) {
        if (strcmp(command->options[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static int fill_flags(const struct command *command, const struct args *args, struct flags *flags)
{
    flags->argv[flags->argc++] = flags->texts[0]; // The program's name; empty.
    for (size_t i = 0; i < args->item_count; i++) {
        char *text = flags->texts[flags->argc];
        int len;

        if (!is_setting(command, args->items[i].name)) {
            continue;
        }
        len = snprintf(text, FLAG_BYTES, "--%s=%s", args->items[i].name, args->items[i].value);
        if (len < 0 || (size_t)len >= FLAG_BYTES) {
            return cli_usage("--%s is longer than %d bytes; name it in a file: --config FILE",
                             args->items[i].name, FLAG_BYTES);
        }
        flags->argv[flags->argc++] = text;
    }
    return CLI_OK;
}

static int code_of(int err)
{
    switch (err) {
    case ERR_INVALID:
        return CLI_USAGE;
    case ERR_NOT_FOUND:
        return CLI_NOT_FOUND;
    case ERR_CONFLICT:
    case ERR_UNSUPPORTED:
        return CLI_CONFLICT;
    case ERR_UNAVAILABLE:
        return CLI_UNAVAILABLE;
    case ERR_DENIED:
        return CLI_DENIED;
    default:
        return CLI_ERROR;
    }
}

static const struct output_column COLUMNS[] = {{"CLUSTER", false},     {"ID", false},
                                               {"SHARDS", false},      {"DATABASES", false},
                                               {"GENERATIONS", false}, {"RESULT", false}};
static const struct output_layout LAYOUT = {COLUMNS, ARRAY_COUNT(COLUMNS), 0, NULL};

static void show(struct output *output, const struct adopt_result *result, const char *what)
{
    char shards[16];
    char databases[16];
    char base[32];

    if (output_wants_json(output)) {
        struct json *json = output_json(output);

        json_open(json, NULL, '{');
        json_text(json, "cluster", result->cluster);
        json_text(json, "id", result->id);
        json_int(json, "shardCount", result->shard_count);
        json_int(json, "databaseCount", result->database_count);
        json_int64(json, "generationMax", result->generation_max);
        json_int64(json, "baseBefore", result->base_before);
        json_int64(json, "base", result->base);
        json_close(json, '}');
        output_json_done(output);
        return;
    }
    (void)snprintf(shards, sizeof(shards), "%" PRIu32, result->shard_count);
    (void)snprintf(databases, sizeof(databases), "%" PRIu32, result->database_count);
    (void)snprintf(base, sizeof(base), "above %" PRId64, result->base);
    output_row(output,
               (const char *const[]){result->cluster, result->id, shards, databases, base, what});
}

static int run_adopt(const struct command *command, const struct args *args, adopt_fn act,
                     const char *what)
{
    struct adopt_result result;
    struct flags *flags = mem_new(1, sizeof(*flags));
    struct output output;
    char errmsg[ADOPT_MESSAGE_LEN];
    int code = output_init(&output, args, &LAYOUT);
    int err = 0;

    if (flags == NULL) {
        cli_say("out of memory");
        code = CLI_ERROR;
    }
    if (code == CLI_OK) {
        code = fill_flags(command, args, flags);
    }
    if (code == CLI_OK) {
        err = act(flags->argc, flags->argv, &result, errmsg);
        if (err != 0) {
            cli_say("%s: %s", command->verb, errmsg[0] != '\0' ? errmsg : err_text(err));
            code = code_of(err);
        }
    }
    if (code == CLI_OK) {
        show(&output, &result, what);
        code = output_end(&output);
    }
    mem_free(flags);
    output_fini(&output);
    return code;
}

static int cluster_init(const struct args *args)
{
    return run_adopt(command_find("cluster", "init"), args, adopt_init, "is there");
}

static int cluster_adopt(const struct args *args)
{
    return run_adopt(command_find("cluster", "adopt"), args, adopt_cluster, "adopted");
}

const struct command CLUSTER_LIFE_COMMANDS[] = {
    {"cluster", "init", "", 0,
     "Create a cluster in ZooKeeper and the schema of its databases, ahead of its brokers.",
     "  foliot cluster init --config /etc/foliot/foliotd.yaml\n"
     "  foliot cluster init --databases 'db0=host=pg dbname=foliot' --cluster-shards 256\n",
     INIT_OPTIONS, ARRAY_COUNT(INIT_OPTIONS), cluster_init, COMMAND_ROWS},
    {"cluster", "adopt", "", 0,
     "After a loss of ZooKeeper's data: make it say of the cluster what its databases say.",
     "  foliot cluster adopt --config /etc/foliot/foliotd.yaml\n", ADOPT_OPTIONS,
     ARRAY_COUNT(ADOPT_OPTIONS), cluster_adopt, COMMAND_ROWS},
};
const size_t CLUSTER_LIFE_COMMAND_COUNT = ARRAY_COUNT(CLUSTER_LIFE_COMMANDS);
