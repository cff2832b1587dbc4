/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot cluster plan, drain, check.
 */
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/run.h"
#include "lib/base/buf.h"
#include "lib/base/limits.h"
#include "proto/codec_cluster.h"
#include "proto/codec_plan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PLAN_PATH     "/foliot.v1.ClusterService/PlanMembers"
#define DRAIN_PATH    "/foliot.v1.ClusterService/DrainBroker"
#define TOPOLOGY_PATH "/foliot.v1.ClusterService/GetTopology"

/* ---- plan ---- */

static const struct cli_option PLAN_OPTIONS[] = {
    {"add", 0, "NAME", "a broker that would come; may be given again"},
    {"remove", 0, "NAME", "a broker that would go; may be given again"},
    {"moves", 0, NULL, "list every shard that would move, not the brokers' shares"},
};

static const struct output_column SHARE_COLUMNS[] = {
    {"BROKER", false}, {"SHARDS NOW", false}, {"THEN", false}, {"CHANGE", false}};
static const struct output_column MOVE_COLUMNS[] = {
    {"SHARD", false}, {"DATABASE", false}, {"FROM", false}, {"TO", false}};
/* JSON is the whole plan for both: one document. */
static const struct output_layout SHARE_LAYOUT = {SHARE_COLUMNS, ARRAY_COUNT(SHARE_COLUMNS), 0,
                                                  "shares"};
static const struct output_layout MOVE_LAYOUT = {MOVE_COLUMNS, ARRAY_COUNT(MOVE_COLUMNS), 0,
                                                 "moves"};

/* All values of an option. shape: out has ARGS_ITEM_COUNT_MAX places. */
static size_t values_of(const struct args *args, const char *name, const char **out)
{
    size_t count = 0;

    for (size_t i = 0; i < args->item_count; i++) {
        if (strcmp(args->items[i].name, name) == 0) {
            out[count++] = args->items[i].value;
        }
    }
    return count;
}

static void write_move(struct json *json, const struct plan_move *move)
{
    json_open(json, NULL, '{');
    json_int(json, "shard", move->shard);
    json_text(json, "database", move->database);
    json_text(json, "from", move->from);
    json_text(json, "to", move->to);
    json_close(json, '}');
}

static void write_share(struct json *json, const struct plan_share *share)
{
    json_open(json, NULL, '{');
    json_text(json, "broker", share->broker);
    json_int(json, "before", share->before);
    json_int(json, "after", share->after);
    json_close(json, '}');
}

/* The answer as it is. */
static void write_plan(struct json *json, const struct plan *plan)
{
    struct plan_move move;
    struct plan_share share;

    json_open(json, NULL, '{');
    json_open(json, "moves", '[');
    for (size_t i = 0; i < plan->move_count; i++) {
        codec_read_plan_move(plan, i, &move);
        write_move(json, &move);
    }
    json_close(json, ']');
    json_open(json, "shares", '[');
    for (size_t i = 0; i < plan->share_count; i++) {
        codec_read_plan_share(plan, i, &share);
        write_share(json, &share);
    }
    json_close(json, ']');
    json_close(json, '}');
}

static void add_moves(struct output *output, const struct plan *plan)
{
    for (size_t i = 0; i < plan->move_count; i++) {
        struct plan_move move;
        char number[16];

        codec_read_plan_move(plan, i, &move);
        if (output_wants_json(output)) {
            write_move(output_json(output), &move);
            output_json_done(output);
            continue;
        }
        (void)snprintf(number, sizeof(number), "%04" PRIu32, move.shard);
        output_row(output, (const char *const[]){number, move.database, move.from, move.to});
    }
}

static void add_shares(struct output *output, const struct plan *plan)
{
    for (size_t i = 0; i < plan->share_count; i++) {
        struct plan_share share;
        char texts[3][24];

        codec_read_plan_share(plan, i, &share);
        if (output_wants_json(output)) {
            write_share(output_json(output), &share);
            output_json_done(output);
            continue;
        }
        (void)snprintf(texts[0], sizeof(texts[0]), "%" PRIu32, share.before);
        (void)snprintf(texts[1], sizeof(texts[1]), "%" PRIu32, share.after);
        (void)snprintf(texts[2], sizeof(texts[2]), "%+" PRId64,
                       (int64_t)share.after - (int64_t)share.before);
        output_row(output, (const char *const[]){share.broker, texts[0], texts[1], texts[2]});
    }
}

static int plan_print(struct run *run, bool wants_moves)
{
    struct plan plan;

    if (codec_read_plan_reply(buf_slice(&run->reply), &run->arena, &plan, &run->fault) != 0) {
        return run_refuse_answer(run);
    }
    if (run->output.format == OUTPUT_JSON) {
        write_plan(&run->output.json, &plan);
        (void)buf_append_text(&run->output.text, "\n");
        return output_flush(&run->output);
    }
    if (run->output.format != OUTPUT_JSONL) {
        output_head(&run->output, "%zu shard%s would move", plan.move_count,
                    plan.move_count == 1 ? "" : "s");
    }
    if (wants_moves) {
        add_moves(&run->output, &plan);
    } else {
        add_shares(&run->output, &plan);
    }
    return output_end(&run->output);
}

static int cluster_plan(const struct args *args)
{
    const char *add[ARGS_ITEM_COUNT_MAX];
    const char *remove[ARGS_ITEM_COUNT_MAX];
    const struct plan_request request = {add, values_of(args, "add", add), remove,
                                         values_of(args, "remove", remove)};
    bool wants_moves = args_has(args, "moves");
    struct run run;
    int code;

    if (request.add_count + request.remove_count == 0) {
        return cli_usage("say who would come or go: --add NAME, --remove NAME");
    }
    code = run_open(&run, args, wants_moves ? &MOVE_LAYOUT : &SHARE_LAYOUT);
    if (code != CLI_OK) {
        return code;
    }
    code = run_call(&run, codec_write_plan(&request, &run.request), PLAN_PATH, true, "plan");
    if (code == CLI_OK) {
        code = plan_print(&run, wants_moves);
    }
    return run_close(&run, code);
}

/* ---- drain ---- */

static const struct output_column DRAIN_COLUMNS[] = {
    {"BROKER", false}, {"SHARDS", false}, {"RESULT", false}, {"INSTANCE", true}};
static const struct output_layout DRAIN_LAYOUT = {DRAIN_COLUMNS, ARRAY_COUNT(DRAIN_COLUMNS), 0,
                                                  NULL};

static int drain_print(struct run *run)
{
    struct drain_reply reply;
    char shards[16];

    if (codec_read_drain_reply(buf_slice(&run->reply), &run->arena, &reply, &run->fault) != 0) {
        return run_refuse_answer(run);
    }
    if (output_wants_json(&run->output)) {
        struct json *json = output_json(&run->output);

        json_open(json, NULL, '{');
        json_text(json, "broker", reply.broker);
        json_text(json, "instance", reply.instance);
        json_int(json, "shardCount", reply.shard_count);
        json_close(json, '}');
        output_json_done(&run->output);
        return output_end(&run->output);
    }
    (void)snprintf(shards, sizeof(shards), "%" PRIu32, reply.shard_count);
    output_row(&run->output,
               (const char *const[]){reply.broker, shards, "draining", reply.instance});
    return output_end(&run->output);
}

static int cluster_drain(const struct args *args)
{
    struct run run;
    int code;

    if (args->operand_count != 1) {
        return cli_usage("name the broker; \"foliot cluster status\" lists them");
    }
    code = run_open(&run, args, &DRAIN_LAYOUT);
    if (code != CLI_OK) {
        return code;
    }
    code = run_call(&run, codec_write_drain(args->operands[0], &run.request), DRAIN_PATH, false,
                    "drain");
    if (code == CLI_OK) {
        code = drain_print(&run);
    }
    return run_close(&run, code);
}

/* ---- check ---- */

static const struct output_column CHECK_COLUMNS[] = {
    {"CHECK", false}, {"RESULT", false}, {"WHAT", false}};
static const struct output_layout CHECK_LAYOUT = {CHECK_COLUMNS, ARRAY_COUNT(CHECK_COLUMNS), 0,
                                                  "checks"};

#define WHAT_BYTES 512

/* One thing that should be so, and the first of those where it is not. */
struct check {
    const char *name;
    uint32_t fault_count;
    char what[WHAT_BYTES];
};

static void note(struct check *check, const char *format, ...) PRINTF_LIKE(2, 3);

static void note(struct check *check, const char *format, ...)
{
    size_t len = strlen(check->what);
    va_list args;

    if (check->fault_count++ < 3) {
        len += (size_t)snprintf(check->what + len, sizeof(check->what) - len, "%s",
                                len == 0 ? "" : "; ");
        va_start(args, format);
        (void)vsnprintf(check->what + len, sizeof(check->what) - len, format, args);
        va_end(args);
    }
}

/* Every shard has an owner that serves it, and one that has said so itself. */
static void check_shards(const struct topology *topology, struct check *owned,
                         struct check *serving, struct check *audit)
{
    for (size_t i = 0; i < topology->shard_count; i++) {
        struct shard_owner_view shard;

        codec_read_topology_shard(topology, i, &shard);
        if (shard.owner[0] == '\0') {
            note(owned, "shard %04" PRIu32 " in %s has none", shard.shard, shard.database);
        } else if (shard.state != SHARD_VIEW_ACTIVE || shard.epoch == 0) {
            note(serving, "shard %04" PRIu32 ": %s %s", shard.shard, shard.owner,
                 shard.epoch == 0 ? "does not answer" : "does not serve it yet");
        }
        if (shard.audit_faults > 0) {
            note(audit, "shard %04" PRIu32 ": %" PRIu32 ", the log of %s names them", shard.shard,
                 shard.audit_faults, shard.owner);
        }
    }
}

static void check_brokers(const struct topology *topology, struct check *writable,
                          struct check *alike, struct check *config)
{
    struct broker_view first = {.version = ""};

    for (size_t i = 0; i < topology->broker_count; i++) {
        struct broker_view broker;

        codec_read_topology_broker(topology, i, &broker);
        for (size_t d = 0; d < broker.cannot_count; d++) {
            note(writable, "%s cannot write to %s", broker.name, broker.cannot[d]);
        }
        if (i == 0) {
            first = broker;
        } else if (strcmp(broker.version, first.version) != 0) {
            note(alike, "%s is %s, %s is %s", broker.name, broker.version, first.name,
                 first.version);
        }
        if (i > 0 && broker.config_version != first.config_version) {
            note(config, "%s has confirmed %" PRId64 ", %s %" PRId64, broker.name,
                 broker.config_version, first.name, first.config_version);
        }
    }
}

/* Members are within one shard of each other when all can serve every database. */
static void check_shares(const struct topology *topology, bool is_writable, struct check *even)
{
    uint32_t least = UINT32_MAX;
    uint32_t most = 0;

    for (size_t i = 0; i < topology->broker_count; i++) {
        struct broker_view broker;

        codec_read_topology_broker(topology, i, &broker);
        least = broker.shard_count < least ? broker.shard_count : least;
        most = broker.shard_count > most ? broker.shard_count : most;
    }
    if (is_writable && topology->broker_count > 0 && most - least > 1) {
        note(even, "between %" PRIu32 " and %" PRIu32 " shards: they are still moving", least,
             most);
    }
}

static int check_print(struct run *run, const struct check *checks, size_t count)
{
    bool is_well = true;

    for (size_t i = 0; i < count; i++) {
        const struct check *check = &checks[i];
        bool passed = check->fault_count == 0;

        is_well &= passed;
        if (output_wants_json(&run->output)) {
            struct json *json = output_json(&run->output);

            json_open(json, NULL, '{');
            json_text(json, "check", check->name);
            json_bool(json, "passed", passed);
            json_int(json, "faults", check->fault_count);
            json_text(json, "what", check->what);
            json_close(json, '}');
            output_json_done(&run->output);
        } else {
            output_row(&run->output,
                       (const char *const[]){check->name, passed ? "ok" : "FAULT", check->what});
        }
    }
    return output_end(&run->output) != CLI_OK || !is_well ? CLI_ERROR : CLI_OK;
}

static int cluster_check(const struct args *args)
{
    enum {
        OWNED,
        SERVING,
        WRITABLE,
        ALIKE,
        CONFIG,
        EVEN,
        AUDIT,
        CHECK_COUNT
    };
    struct check checks[CHECK_COUNT] = {
        [OWNED] = {.name = "every shard has an owner"},
        [SERVING] = {.name = "every owner serves"},
        [WRITABLE] = {.name = "every broker can write to every database"},
        [ALIKE] = {.name = "all brokers are of one version"},
        [CONFIG] = {.name = "all brokers know the same queues"},
        [EVEN] = {.name = "shards are shared out evenly"},
        [AUDIT] = {.name = "every due task is in somebody's hands"},
    };
    struct topology topology;
    struct run run;
    int code = run_open(&run, args, &CHECK_LAYOUT);

    if (code != CLI_OK) {
        return code;
    }
    code = run_call(&run, 0, TOPOLOGY_PATH, true, "read the topology");
    if (code == CLI_OK &&
        codec_read_topology(buf_slice(&run.reply), &run.arena, &topology, &run.fault) != 0) {
        code = run_refuse_answer(&run);
    }
    if (code == CLI_OK) {
        check_shards(&topology, &checks[OWNED], &checks[SERVING], &checks[AUDIT]);
        check_brokers(&topology, &checks[WRITABLE], &checks[ALIKE], &checks[CONFIG]);
        check_shares(&topology, checks[WRITABLE].fault_count == 0, &checks[EVEN]);
        code = check_print(&run, checks, CHECK_COUNT);
    }
    return run_close(&run, code);
}

const struct command MEMBERS_COMMANDS[] = {
    {"cluster", "plan", "", 0, "Show which shards would move if brokers came or went.",
     "  foliot cluster plan --add foliot-3 --add foliot-4\n"
     "  foliot cluster plan --remove foliot-0 --moves\n",
     PLAN_OPTIONS, ARRAY_COUNT(PLAN_OPTIONS), cluster_plan, COMMAND_CALLS | COMMAND_ROWS},
    {"cluster", "drain", "BROKER", 1,
     "Have a broker hand its shards over, finish what runs in it and end, as SIGTERM does.",
     "  foliot cluster drain foliot-2\n", NULL, 0, cluster_drain, COMMAND_CALLS | COMMAND_ROWS},
    {"cluster", "check", "", 0,
     "Check that every shard is served, all brokers agree and no auditor found anything; exit "
     "status 1 if "
     "not.",
     "  foliot cluster check\n  foliot cluster check -o json\n", NULL, 0, cluster_check,
     COMMAND_CALLS | COMMAND_ROWS},
};
const size_t MEMBERS_COMMAND_COUNT = ARRAY_COUNT(MEMBERS_COMMANDS);
