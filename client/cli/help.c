/* SPDX-License-Identifier: Apache-2.0
 *
 * Help texts.
 */
#include "client/cli/help.h"

#include "client/cli/cli.h"
#include "client/cli/command.h"

#include <string.h>

/* Where the explanation of an option begins. */
#define HELP_COLUMN 30

/* Of the column of verbs. */
#define VERB_WIDTH 12

#define HELP_BYTES_MAX 65536

int help_overview(FILE *file)
{
    (void)fputs("foliot: create tasks, look at a Foliot cluster, receive what is due\n\n"
                "usage: foliot NOUN VERB [OPTION…] [OPERAND…]\n\ncommands:\n",
                file);
    for (size_t i = 0; i < command_count(); i++) {
        const struct command *command = command_at(i);

        (void)fprintf(file, "  %-10s %-*s %s\n", command->noun, VERB_WIDTH, command->verb,
                      command->summary);
    }
    (void)fputs("\nfoliot NOUN VERB --help shows options and examples.\n"
                "exit status: 0 ok, 1 error, 2 usage, 3 not found, 4 denied, 5 conflict, "
                "6 unavailable, 7 timeout\n",
                file);
    return fflush(file) == 0 ? CLI_OK : CLI_ERROR;
}

static void add_commands(struct buf *out, const char *noun)
{
    (void)buf_append_text(out, "\ncommands:\n");
    for (size_t i = 0; i < command_count(); i++) {
        const struct command *command = command_at(i);

        if (strcmp(command->noun, noun) == 0) {
            (void)buf_printf(out, "  foliot %s %-*s %s\n", noun, VERB_WIDTH, command->verb,
                             command->summary);
        }
    }
}

int help_noun(const char *noun)
{
    struct buf out;
    int code;

    buf_init(&out, HELP_BYTES_MAX);
    (void)buf_printf(&out, "foliot %s: %s\n", noun, command_noun_summary(noun));
    add_commands(&out, noun);
    (void)buf_printf(&out, "\nfoliot %s VERB --help shows options and examples.\n", noun);
    code = command_print(&out);
    buf_fini(&out);
    return code;
}

static bool has_verbs(const char *noun)
{
    size_t count = 0;

    for (size_t i = 0; i < command_count(); i++) {
        count += strcmp(command_at(i)->noun, noun) == 0;
    }
    return count > 1;
}

/* "--name=one|two" is long: then the explanation is on the next line. */
static void add_option(struct buf *out, const struct cli_option *option)
{
    char names[96];
    char letter[8] = "    ";

    if (option->letter != '\0') {
        (void)snprintf(letter, sizeof(letter), "-%c, ", option->letter);
    }
    (void)snprintf(names, sizeof(names), "%s--%s%s%s", letter, option->name,
                   option->value == NULL ? "" : " ", option->value == NULL ? "" : option->value);
    if (strlen(names) >= HELP_COLUMN) {
        (void)buf_printf(out, "  %s\n  %-*s %s\n", names, HELP_COLUMN, "", option->help);
    } else {
        (void)buf_printf(out, "  %-*s %s\n", HELP_COLUMN, names, option->help);
    }
}

int help_command(const struct command *command)
{
    struct args_tables tables;
    struct buf out;
    int code;

    command_tables(command, &tables);
    buf_init(&out, HELP_BYTES_MAX);
    (void)buf_printf(&out, "%s\n\nusage: foliot %s%s%s [OPTION…]%s%s\n", command->summary,
                     command->noun, command->verb[0] == '\0' ? "" : " ", command->verb,
                     command->operands[0] == '\0' ? "" : " ", command->operands);
    if (command->verb[0] == '\0' && has_verbs(command->noun)) {
        add_commands(&out, command->noun);
    }
    for (size_t i = 0; i < tables.count; i++) {
        const struct option_group *group = &tables.groups[i];

        (void)buf_printf(&out, "\n%s:\n", group->title);
        for (size_t j = 0; j < group->count; j++) {
            if (!args_is_alias(&group->options[j])) {
                add_option(&out, &group->options[j]);
            }
        }
    }
    (void)buf_printf(&out, "\nexamples:\n%s", command->examples);
    code = command_print(&out);
    buf_fini(&out);
    return code;
}

int help_run(const struct args *args)
{
    const char *noun = args->operand_count > 0 ? args->operands[0] : NULL;
    const char *verb = args->operand_count > 1 ? args->operands[1] : NULL;
    const struct command *command;

    if (noun == NULL) {
        return help_overview(stdout);
    }
    command = command_find(noun, verb == NULL ? "" : verb);
    if (command != NULL) {
        return help_command(command);
    }
    if (command_is_noun(noun) && verb == NULL) {
        return help_noun(noun);
    }
    return cli_usage("no command \"%s%s%s\"; see foliot --help", noun, verb == NULL ? "" : " ",
                     verb == NULL ? "" : verb);
}
