/* SPDX-License-Identifier: Apache-2.0
 *
 * Manual pages of the command.
 */
#include "client/cli/manual.h"

#include "client/cli/command.h"
#include "lib/base/roff.h"

#include <stdio.h>
#include <string.h>

static bool begins_noun(size_t index)
{
    return index == 0 || strcmp(command_at(index - 1)->noun, command_at(index)->noun) != 0;
}

size_t manual_count(void)
{
    size_t count = 1; // foliot(1)

    for (size_t i = 0; i < command_count(); i++) {
        count += begins_noun(i);
    }
    return count;
}

static void put_synopsis(struct buf *out, const struct command *command)
{
    char name[80];

    (void)snprintf(name, sizeof(name), "foliot %s%s%s", command->noun,
                   command->verb[0] == '\0' ? "" : " ", command->verb);
    roff_bold(out, name);
    roff_text(out, " [OPTION...]");
    if (command->operands[0] != '\0') {
        roff_text(out, " ");
        roff_text(out, command->operands);
    }
    roff_line(out);
}

static void put_option(struct buf *out, const struct cli_option *option)
{
    char word[64];

    if (args_is_alias(option)) {
        return;
    }
    if (option->letter == '\0') {
        (void)snprintf(word, sizeof(word), "--%s", option->name);
    } else {
        (void)snprintf(word, sizeof(word), "-%c, --%s", option->letter, option->name);
    }
    roff_item(out, word, option->value, option->help);
}

static void put_command(struct buf *out, const struct command *command)
{
    struct args_tables tables;
    char title[64];

    (void)snprintf(title, sizeof(title), "foliot %s%s%s", command->noun,
                   command->verb[0] == '\0' ? "" : " ", command->verb);
    roff_subheading(out, title);
    roff_text(out, command->summary);
    roff_line(out);
    command_tables(command, &tables);
    for (size_t i = 0; i < tables.count; i++) {
        for (size_t j = 0; j < tables.groups[i].count; j++) {
            put_option(out, &tables.groups[i].options[j]);
        }
    }
    roff_paragraph(out);
    roff_text(out, "Examples:");
    roff_line(out);
    roff_example(out, command->examples);
}

static void put_exit_status(struct buf *out)
{
    static const char *const rows[][2] = {
        {"0", "Ok."},
        {"1", "Error, also an unknown outcome: it may have happened."},
        {"2", "The command line, or a value in it, is wrong."},
        {"3", "Not found: no such task, queue, context or method."},
        {"4", "Denied."},
        {"5", "Conflict: it exists already, or is not in a state that allows this."},
        {"6", "Unavailable: nothing happened, try again."},
        {"7", "No answer in time."},
    };

    roff_heading(out, "Exit status");
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        roff_item(out, rows[i][0], NULL, rows[i][1]);
    }
}

static void write_noun(const char *noun, struct buf *out)
{
    char name[48];

    (void)snprintf(name, sizeof(name), "foliot-%s", noun);
    roff_begin(out, name, 1, FOLIOT_VERSION, command_noun_summary(noun));
    roff_heading(out, "Synopsis");
    for (size_t i = 0, count = 0; i < command_count(); i++) {
        if (strcmp(command_at(i)->noun, noun) == 0) {
            if (count++ > 0) {
                (void)buf_append_text(out, ".br\n");
            }
            put_synopsis(out, command_at(i));
        }
    }
    roff_heading(out, "Commands");
    for (size_t i = 0; i < command_count(); i++) {
        if (strcmp(command_at(i)->noun, noun) == 0) {
            put_command(out, command_at(i));
        }
    }
    put_exit_status(out);
    roff_heading(out, "See also");
    roff_bold(out, "foliot");
    roff_text(out, "(1)");
    roff_line(out);
}

static void put_environment(struct buf *out)
{
    roff_heading(out, "Environment");
    roff_item(out, "FOLIOT_ADDRESS", NULL, "Brokers to ask, with commas, if --address says none.");
    roff_item(out, "FOLIOT_NAMESPACE", NULL, "Namespace, if --namespace says none.");
    roff_item(out, "FOLIOT_CONTEXT", NULL, "Context, in place of the one in use.");
    roff_item(out, "NO_COLOR", NULL, "If it is not empty, headings are not bold.");
    roff_item(out, "TZ", NULL, "Zone of times that are read and shown, if --tz says none.");
    roff_heading(out, "Files");
    roff_item(out, "$XDG_CONFIG_HOME/foliot/contexts.yaml", NULL,
              "Contexts; ~/.config in place of XDG_CONFIG_HOME if that is not set.");
}

static void write_overview(struct buf *out)
{
    char names[64];

    roff_begin(out, "foliot", 1, FOLIOT_VERSION,
               "create tasks, look at a Foliot cluster, receive what is due");
    roff_heading(out, "Synopsis");
    roff_bold(out, "foliot");
    roff_text(out, " NOUN VERB [OPTION...] [OPERAND...]");
    roff_line(out);
    roff_heading(out, "Description");
    roff_text(out, "Noun, then verb, then options. Each noun has a page of its own. Data goes to "
                   "standard output, everything else to standard error.");
    roff_line(out);
    roff_heading(out, "Commands");
    for (size_t i = 0; i < command_count(); i++) {
        const struct command *command = command_at(i);

        (void)snprintf(names, sizeof(names), "%s%s%s", command->noun,
                       command->verb[0] == '\0' ? "" : " ", command->verb);
        roff_item(out, names, NULL, command->summary);
    }
    put_environment(out);
    put_exit_status(out);
    roff_heading(out, "See also");
    for (size_t i = 0; i < command_count(); i++) {
        if (begins_noun(i)) {
            (void)snprintf(names, sizeof(names), "foliot-%s", command_at(i)->noun);
            roff_bold(out, names);
            roff_text(out, "(1),\n");
        }
    }
    roff_bold(out, "foliotd");
    roff_text(out, "(8)");
    roff_line(out);
}

void manual_write(size_t index, struct buf *out, char *name, size_t name_size)
{
    size_t at = 0;

    if (index == 0) {
        (void)snprintf(name, name_size, "foliot.1");
        write_overview(out);
        return;
    }
    for (size_t count = begins_noun(0); count < index; count += begins_noun(at)) {
        at++;
    }
    (void)snprintf(name, name_size, "foliot-%s.1", command_at(at)->noun);
    write_noun(command_at(at)->noun, out);
}
