/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding a command, its help, and its options.
 */
#define _GNU_SOURCE /* strerrordesc_np */

#include "client/cli/command.h"

#include "client/cli/cli.h"
#include "lib/base/buf.h"
#include "lib/base/check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define COMMAND_COUNT_MAX 32

#ifndef FOLIOT_VERSION
#define FOLIOT_VERSION "0.1.0"
#endif

static const struct cli_option COMMON[] = {
    {"server", 's', "HOST:PORT", "broker to ask; several are tried in turn (FOLIOT_SERVER)"},
    {"timeout", 0, "SPAN", "give up after this long (default 10s)"},
    {"output", 'o', "table|json", "form of the output (default table)"},
    {"help", 'h', NULL, "show this help"},
};

/* All commands, in the order of the help; returns their number. */
static size_t list_commands(const struct command **out)
{
    const struct {
        const struct command *commands;
        size_t count;
    } tables[] = {
        {TASK_COMMANDS, TASK_COMMAND_COUNT},       {QUEUE_COMMANDS, QUEUE_COMMAND_COUNT},
        {CLUSTER_COMMANDS, CLUSTER_COMMAND_COUNT}, {RECEIVE_COMMANDS, RECEIVE_COMMAND_COUNT},
        {BENCH_COMMANDS, BENCH_COMMAND_COUNT},
    };
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_COUNT(tables); i++) {
        for (size_t j = 0; j < tables[i].count; j++) {
            REQUIRE(count < COMMAND_COUNT_MAX);
            out[count++] = &tables[i].commands[j];
        }
    }
    return count;
}

static void print_overview(FILE *file)
{
    const struct command *commands[COMMAND_COUNT_MAX];
    size_t count = list_commands(commands);

    (void)fputs("foliot: create tasks, look at a Foliot cluster, receive what is due\n\n"
                "usage: foliot COMMAND [OPTION…] [OPERAND…]\n\ncommands:\n",
                file);
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(file, "  %-8s %-8s %s\n", commands[i]->noun, commands[i]->verb,
                      commands[i]->summary);
    }
    (void)fputs("  version           print the version\n"
                "\nfoliot COMMAND --help shows options and examples.\n"
                "exit status: 0 ok, 1 error, 2 usage, 3 not found, 4 denied, 5 conflict, "
                "6 unavailable, 7 timeout\n",
                file);
}

static void print_options(const struct cli_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char names[64];
        char letter[8] = "    ";

        if (options[i].letter != '\0') {
            (void)snprintf(letter, sizeof(letter), "-%c, ", options[i].letter);
        }
        (void)snprintf(names, sizeof(names), "%s--%s %s", letter, options[i].name,
                       options[i].value == NULL ? "" : options[i].value);
        (void)printf("  %-30s %s\n", names, options[i].help);
    }
}

static void print_help(const struct command *command)
{
    (void)printf("%s\n\nusage: foliot %s%s%s [OPTION…]%s%s\n\noptions:\n", command->summary,
                 command->noun, command->verb[0] == '\0' ? "" : " ", command->verb,
                 command->operands[0] == '\0' ? "" : " ", command->operands);
    print_options(command->options, command->option_count);
    print_options(COMMON, ARRAY_COUNT(COMMON));
    (void)printf("\nexamples:\n%s", command->examples);
}

static int refuse_verb(const char *noun, const char *verb, const char *const *verbs, size_t count)
{
    char known[128] = "";
    size_t len = 0;

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
    const struct command *commands[COMMAND_COUNT_MAX];
    const char *words[COMMAND_COUNT_MAX];
    size_t count = list_commands(commands);
    size_t word_count = 0;
    const char *nearest;

    for (size_t i = 0; i < count; i++) {
        if (strcmp(commands[i]->noun, noun) == 0) {
            words[word_count++] = commands[i]->verb;
        }
    }
    if (word_count > 0) {
        nearest = args_nearest(verb, words, word_count);
        if (nearest == NULL) {
            return refuse_verb(noun, verb, words, word_count);
        }
        return cli_usage("no command \"%s %s\"; did you mean \"foliot %s %s\"?", noun, verb, noun,
                         nearest);
    }
    for (size_t i = 0; i < count; i++) {
        words[i] = commands[i]->noun;
    }
    nearest = args_nearest(noun, words, count);
    if (nearest == NULL) {
        return cli_usage("no command \"%s\"; see foliot --help", noun);
    }
    return cli_usage("no command \"%s\"; did you mean \"foliot %s\"?", noun, nearest);
}

static const struct command *find_command(const char *noun, const char *verb)
{
    const struct command *commands[COMMAND_COUNT_MAX];
    size_t count = list_commands(commands);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(commands[i]->noun, noun) == 0 &&
            (commands[i]->verb[0] == '\0' || strcmp(commands[i]->verb, verb) == 0)) {
            return commands[i];
        }
    }
    return NULL;
}

static int check_output(const struct args *args)
{
    const char *output = args_text(args, "output", "table");

    if (strcmp(output, "table") != 0 && strcmp(output, "json") != 0) {
        return cli_usage("--output \"%s\" must be table or json", output);
    }
    return CLI_OK;
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

static int run_command(const struct command *command, int argc, char **argv)
{
    const struct args_tables tables = {command->options, command->option_count, COMMON,
                                       ARRAY_COUNT(COMMON)};
    struct args args;
    char errmsg[256];

    if (wants_help(argc, argv)) {
        print_help(command);
        return CLI_OK;
    }
    if (args_parse(&tables, argc, argv, &args, errmsg, sizeof(errmsg)) != 0) {
        return cli_usage("%s", errmsg);
    }
    if (args.operand_count > command->operand_max) {
        return cli_usage("\"%s\" is one operand too many; see --help",
                         args.operands[command->operand_max]);
    }
    if (check_output(&args) != CLI_OK) {
        return CLI_USAGE;
    }
    return command->run(&args);
}

bool command_wants_json(const struct args *args)
{
    return strcmp(args_text(args, "output", "table"), "json") == 0;
}

int command_print(const struct buf *out)
{
    struct slice text = buf_slice(out);

    if (out->failed || fwrite(text.data, 1, text.len, stdout) != text.len || fflush(stdout) != 0) {
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
        print_overview(stderr);
        return CLI_USAGE;
    }
    if (strcmp(noun, "--help") == 0 || strcmp(noun, "-h") == 0 || strcmp(noun, "help") == 0) {
        print_overview(stdout);
        return CLI_OK;
    }
    if (strcmp(noun, "version") == 0 || strcmp(noun, "--version") == 0) {
        (void)printf("foliot %s\n", FOLIOT_VERSION);
        return CLI_OK;
    }
    command = find_command(noun, verb);
    if (command == NULL) {
        return refuse_command(noun, verb);
    }
    argc -= command->verb[0] == '\0' ? 2 : 3;
    argv += command->verb[0] == '\0' ? 2 : 3;
    return run_command(command, argc, argv);
}
