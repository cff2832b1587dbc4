/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding a command and the options that it knows, and running it.
 */
#define _GNU_SOURCE /* strerrordesc_np */

#include "client/cli/command.h"

#include "client/cli/cli.h"
#include "client/cli/complete.h"
#include "client/cli/context.h"
#include "client/cli/help.h"
#include "client/cli/watch.h"
#include "client/cli/zone.h"
#include "lib/base/buf.h"
#include "lib/base/check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Different words that are offered for a misspelt one. */
#define WORD_COUNT_MAX 128

static const struct cli_option CALL_OPTIONS[] = {
    {"address", 's', "HOST:PORT", "broker to ask; several are tried in turn (FOLIOT_ADDRESS)"},
    {"server", 0, "HOST:PORT", "=address"},
    {"context", 0, "NAME", "settings under a name, see foliot context (FOLIOT_CONTEXT)"},
    {"timeout", 0, "SPAN", "give up after this long (default 10s)"},
    {"tls", 0, "on|off", "encrypted, or not (default off; on with any --tls-…)"},
    {"tls-ca", 0, "FILE", "certificates of those we trust, PEM (default the system's)"},
    {"tls-cert", 0, "FILE", "our own certificate, PEM, if brokers want one"},
    {"tls-key", 0, "FILE", "its key, PEM"},
    {"tls-name", 0, "NAME", "name that the broker's certificate must have (default its host)"},
};
static const struct cli_option ROW_OPTIONS[] = {
    {"output", 'o', "table|wide|json|jsonl|name", "form of the output (default table)"},
    {"columns", 0, "NAME,NAME", "only these columns, in this order"},
    {"no-headers", 0, NULL, "leave out the headings"},
};
static const struct cli_option LINE_OPTIONS[] = {
    {"output", 'o', "table|json|jsonl", "form of the output (default table)"},
};
static const struct cli_option TIME_OPTIONS[] = {
    {"tz", 0, "ZONE", "zone of times that are read and shown, as Europe/Paris (default local)"},
    {"utc", 0, NULL, "the same as --tz UTC"},
};
static const struct cli_option WATCH_OPTIONS[] = {
    {"watch", 'w', NULL, "show it again and again, until Ctrl-C"},
    {"interval", 0, "SPAN", "with --watch: how often (default 2s)"},
};
static const struct cli_option HELP_OPTIONS[] = {
    {"help", 'h', NULL, "show this help"},
};

static const struct {
    const char *noun;
    const char *summary;
} NOUNS[] = {
    {"dev", "the whole product in one process, to try it"},
    {"task", "one thing to do at one due time"},
    {"queue", "named classes of tasks, with their policy and target"},
    {"dead", "dead letters: tasks that were given up"},
    {"cluster", "brokers, and who owns what"},
    {"context", "addresses and other settings of this command, under names"},
    {"receive", "a sample receiver"},
    {"bench", "load, to see what a cluster takes"},
    {"completion", "completion of words by the shell"},
    {"help", "help about everything, a noun, or a command"},
    {"version", "the version of this command"},
};

static const struct {
    const struct command *commands;
    const size_t *count;
} TABLES[] = {
    {DEV_COMMANDS, &DEV_COMMAND_COUNT},
    {TASK_COMMANDS, &TASK_COMMAND_COUNT},
    {TASK_LIST_COMMANDS, &TASK_LIST_COMMAND_COUNT},
    {TASK_WATCH_COMMANDS, &TASK_WATCH_COMMAND_COUNT},
    {QUEUE_COMMANDS, &QUEUE_COMMAND_COUNT},
    {QUEUE_LIFE_COMMANDS, &QUEUE_LIFE_COMMAND_COUNT},
    {DEAD_COMMANDS, &DEAD_COMMAND_COUNT},
    {CLUSTER_COMMANDS, &CLUSTER_COMMAND_COUNT},
    {MEMBERS_COMMANDS, &MEMBERS_COMMAND_COUNT},
    {CLUSTER_LIFE_COMMANDS, &CLUSTER_LIFE_COMMAND_COUNT},
    {CONTEXT_COMMANDS, &CONTEXT_COMMAND_COUNT},
    {RECEIVE_COMMANDS, &RECEIVE_COMMAND_COUNT},
    {BENCH_COMMANDS, &BENCH_COMMAND_COUNT},
    {BENCH_RECORD_COMMANDS, &BENCH_RECORD_COMMAND_COUNT},
    {OTHER_COMMANDS, &OTHER_COMMAND_COUNT},
};

size_t command_count(void)
{
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_COUNT(TABLES); i++) {
        count += *TABLES[i].count;
    }
    return count;
}

const struct command *command_at(size_t index)
{
    size_t i = 0;

    while (index >= *TABLES[i].count) {
        index -= *TABLES[i++].count;
        REQUIRE(i < ARRAY_COUNT(TABLES));
    }
    return &TABLES[i].commands[index];
}

const struct command *command_find(const char *noun, const char *verb)
{
    const struct command *alone = NULL;
    size_t count = 0;

    for (size_t i = 0; i < command_count(); i++) {
        const struct command *command = command_at(i);

        if (strcmp(command->noun, noun) != 0) {
            continue;
        }
        if (command->verb[0] != '\0' && strcmp(command->verb, verb) == 0) {
            return command;
        }
        alone = command->verb[0] == '\0' ? command : alone;
        count++;
    }
    return count <= 1 || verb[0] == '\0' || verb[0] == '-' ? alone : NULL;
}

bool command_is_noun(const char *noun)
{
    bool is_found = false;

    for (size_t i = 0; i < command_count() && !is_found; i++) {
        is_found = strcmp(command_at(i)->noun, noun) == 0;
    }
    return is_found;
}

const char *command_noun_summary(const char *noun)
{
    for (size_t i = 0; i < ARRAY_COUNT(NOUNS); i++) {
        if (strcmp(NOUNS[i].noun, noun) == 0) {
            return NOUNS[i].summary;
        }
    }
    return "";
}

static void add_group(struct args_tables *out, const char *title, const struct cli_option *options,
                      size_t count)
{
    if (count > 0) {
        out->groups[out->count++] = (struct option_group){title, options, count};
    }
}

void command_tables(const struct command *command, struct args_tables *out)
{
    memset(out, 0, sizeof(*out));
    add_group(out, "options", command->options, command->option_count);
    if ((command->traits & COMMAND_ROWS) != 0) {
        add_group(out, "output", ROW_OPTIONS, ARRAY_COUNT(ROW_OPTIONS));
    }
    if ((command->traits & COMMAND_LINES) != 0) {
        add_group(out, "output", LINE_OPTIONS, ARRAY_COUNT(LINE_OPTIONS));
    }
    if ((command->traits & (COMMAND_TIMES | COMMAND_ROWS)) != 0) {
        add_group(out, "times", TIME_OPTIONS, ARRAY_COUNT(TIME_OPTIONS));
    }
    if ((command->traits & COMMAND_WATCH) != 0) {
        add_group(out, "watching", WATCH_OPTIONS, ARRAY_COUNT(WATCH_OPTIONS));
    }
    if ((command->traits & COMMAND_CALLS) != 0) {
        add_group(out, "brokers", CALL_OPTIONS, ARRAY_COUNT(CALL_OPTIONS));
    }
    add_group(out, "help", HELP_OPTIONS, ARRAY_COUNT(HELP_OPTIONS));
}

/* ---- words that name no command ---- */

static int refuse_verb(const char *noun, const char *verb)
{
    const char *verbs[WORD_COUNT_MAX];
    const char *nearest;
    char known[256] = "";
    size_t count = 0;
    size_t len = 0;

    for (size_t i = 0; i < command_count(); i++) {
        if (strcmp(command_at(i)->noun, noun) == 0 && command_at(i)->verb[0] != '\0' &&
            count < WORD_COUNT_MAX) {
            verbs[count++] = command_at(i)->verb;
        }
    }
    nearest = args_nearest(verb, verbs, count);
    if (nearest != NULL) {
        return cli_usage("no command \"%s %s\"; did you mean \"foliot %s %s\"?", noun, verb, noun,
                         nearest);
    }
    for (size_t i = 0; i < count && len < sizeof(known); i++) {
        len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s",
                                i == 0           ? ""
                                : i + 1 == count ? " or "
                                                 : ", ",
                                verbs[i]);
    }
    return verb[0] == '\0' || verb[0] == '-'
               ? cli_usage("\"foliot %s\" needs a verb: %s", noun, known)
               : cli_usage("no command \"%s %s\"; \"foliot %s\" knows %s", noun, verb, noun, known);
}

/* Say that there is no such command, and what may have been meant. */
static int refuse_command(const char *noun, const char *verb)
{
    const char *words[WORD_COUNT_MAX];
    const char *nearest;
    size_t count = 0;

    if (command_is_noun(noun)) {
        return refuse_verb(noun, verb);
    }
    if (noun[0] == '-') {
        return cli_usage("\"%s\" comes before the command; options follow it: "
                         "foliot NOUN VERB [OPTION…]",
                         noun);
    }
    for (size_t i = 0; i < command_count() && count < WORD_COUNT_MAX; i++) {
        words[count++] = command_at(i)->noun;
    }
    nearest = args_nearest(noun, words, count);
    if (nearest == NULL) {
        return cli_usage("no command \"%s\"; see foliot --help", noun);
    }
    return cli_usage("no command \"%s\"; did you mean \"foliot %s\"?", noun, nearest);
}

/* ---- running ---- */

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

/* What options mean for every command alike. */
static int apply_common(const struct args *args)
{
    const char *zone = args_text(args, "tz", NULL);

    if (args_has(args, "utc")) {
        if (zone != NULL && strcmp(zone, "UTC") != 0) {
            return cli_usage("give --utc or --tz, not both");
        }
        zone = "UTC";
    }
    if (zone != NULL && zone_use(zone) != 0) {
        return cli_usage("--tz \"%s\" is no time zone of this machine; one looks like "
                         "Europe/Paris, see /usr/share/zoneinfo (package tzdata)",
                         zone);
    }
    return CLI_OK;
}

/* Queues are operands of "foliot queue" only: elsewhere one may have been meant. */
static int refuse_operand(const struct args_tables *tables, const struct args *args,
                          const char *operand)
{
    if (args_find_option(tables, "queue", strlen("queue")) != NULL && !args_has(args, "queue")) {
        return cli_usage("\"%s\" is one operand too many; if it is a queue: --queue %s", operand,
                         operand);
    }
    return cli_usage("\"%s\" is one operand too many; see --help", operand);
}

static int run_command(const struct command *command, int argc, char **argv)
{
    static struct contexts contexts; // args borrows values from it
    static struct args args;         // large
    struct args_tables tables;
    char errmsg[256];
    int code;

    if (wants_help(argc, argv)) {
        return help_command(command);
    }
    command_tables(command, &tables);
    if (args_parse(&tables, argc, argv, &args, errmsg, sizeof(errmsg)) != 0) {
        return cli_usage("%s", errmsg);
    }
    if (args.operand_count > command->operand_max) {
        return refuse_operand(&tables, &args, args.operands[command->operand_max]);
    }
    code = context_apply(&contexts, &tables, &args);
    if (code == CLI_OK) {
        code = apply_common(&args);
    }
    if (code == CLI_OK) {
        code = args_has(&args, "watch") ? watch_run(command->run, &args) : command->run(&args);
    }
    contexts_fini(&contexts);
    return code;
}

bool command_wants_json(const struct args *args)
{
    const char *output = args_text(args, "output", "table");

    return strcmp(output, "json") == 0 || strcmp(output, "jsonl") == 0;
}

int command_print(const struct buf *out)
{
    struct slice text = buf_slice(out);

    if (out->failed || watch_write(text) != 0 || fflush(stdout) != 0) {
        if (errno != EPIPE) { // Whoever read us has had enough: nothing to complain of.
            cli_say("could not write the output: %s", strerrordesc_np(errno));
        }
        return CLI_ERROR;
    }
    return CLI_OK;
}

int command_main(int argc, char **argv)
{
    const char *noun = argc > 1 ? argv[1] : "";
    const char *verb = argc > 2 ? argv[2] : "";
    const struct command *command;

    if (argc < 2) {
        help_overview(stderr);
        return CLI_USAGE;
    }
    if (strcmp(noun, "--help") == 0 || strcmp(noun, "-h") == 0) {
        return help_overview(stdout);
    }
    if (strcmp(noun, COMPLETE_WORD) == 0) {
        return complete_words(argc - 2, argv + 2);
    }
    if (strcmp(noun, "--version") == 0) {
        noun = "version";
    }
    command = command_find(noun, verb);
    if (command == NULL && command_is_noun(noun) && wants_help(argc - 2, argv + 2)) {
        return help_noun(noun);
    }
    if (command == NULL) {
        return refuse_command(noun, verb);
    }
    argc -= command->verb[0] == '\0' ? 2 : 3;
    argv += command->verb[0] == '\0' ? 2 : 3;
    return run_command(command, argc, argv);
}
