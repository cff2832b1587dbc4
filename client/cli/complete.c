/* SPDX-License-Identifier: Apache-2.0
 *
 * What may come next on a command line.
 */
#include "client/cli/complete.h"

#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/context.h"

#include <stdio.h>
#include <string.h>

/* The shell waits for us: names from a broker come quickly or not at all. */
#define ASK_TIMEOUT "500ms"

static const char BASH_SCRIPT[] =
    "# foliot completion bash; in ~/.bashrc: . <(foliot completion bash)\n"
    "_foliot()\n"
    "{\n"
    "    local cur words cword\n"
    "    cur=${COMP_WORDS[COMP_CWORD]}\n"
    "    words=(\"${COMP_WORDS[@]:1:COMP_CWORD}\")\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$(foliot " COMPLETE_WORD
    " \"${words[@]}\" 2>/dev/null)\" -- \"$cur\")\n"
    "}\n"
    "complete -o default -F _foliot foliot\n";

static const char ZSH_SCRIPT[] =
    "#compdef foliot\n"
    "# foliot completion zsh; in a folder of $fpath: foliot completion zsh > _foliot\n"
    "_foliot()\n"
    "{\n"
    "    local -a found\n"
    "    found=(${(f)\"$(foliot " COMPLETE_WORD " \"${(@)words[2,CURRENT]}\" 2>/dev/null)\"})\n"
    "    if (( ${#found} )); then\n"
    "        compadd -a found\n"
    "    else\n"
    "        _files\n"
    "    fi\n"
    "}\n"
    "if [ \"$funcstack[1]\" = _foliot ]; then\n"
    "    _foliot \"$@\"\n"
    "else\n"
    "    compdef _foliot foliot\n"
    "fi\n";

static void offer(const char *word)
{
    (void)printf("%s\n", word);
}

static void offer_nouns(void)
{
    const char *last = "";

    for (size_t i = 0; i < command_count(); i++) {
        const char *noun = command_at(i)->noun;

        if (strcmp(noun, last) != 0) {
            offer(noun);
        }
        last = noun;
    }
}

static void offer_verbs(const char *noun)
{
    for (size_t i = 0; i < command_count(); i++) {
        if (strcmp(command_at(i)->noun, noun) == 0 && command_at(i)->verb[0] != '\0') {
            offer(command_at(i)->verb);
        }
    }
}

/* Words of "a|b". */
static void offer_choices(const char *choices)
{
    while (*choices != '\0') {
        size_t len = strcspn(choices, "|");

        (void)printf("%.*s\n", (int)len, choices);
        choices += len + (choices[len] == '|');
    }
}

static void offer_options(const struct args_tables *tables)
{
    for (size_t i = 0; i < tables->count; i++) {
        for (size_t j = 0; j < tables->groups[i].count; j++) {
            if (!args_is_alias(&tables->groups[i].options[j])) {
                (void)printf("--%s\n", tables->groups[i].options[j].name);
            }
        }
    }
}

static void offer_contexts(void)
{
    static struct contexts contexts;

    if (contexts_load(&contexts) == CLI_OK) {
        for (size_t i = 0; i < contexts.count; i++) {
            offer(contexts.items[i].name);
        }
    }
    contexts_fini(&contexts);
}

/* Ask the broker that the line is about. */
static void offer_queues(int count, char **words)
{
    static const char *const passed[] = {"--address", "--server",    "-s",
                                         "--context", "--namespace", "-n"};
    char *argv[32] = {(char *)(uintptr_t) "foliot",  (char *)(uintptr_t) "queue",
                      (char *)(uintptr_t) "list",    (char *)(uintptr_t) "--output",
                      (char *)(uintptr_t) "name",    (char *)(uintptr_t) "--timeout",
                      (char *)(uintptr_t)ASK_TIMEOUT};
    int argc = 7;

    for (int i = 0; i + 2 < count && argc + 2 < (int)ARRAY_COUNT(argv); i++) {
        for (size_t j = 0; j < ARRAY_COUNT(passed); j++) {
            if (strcmp(words[i], passed[j]) == 0) {
                argv[argc++] = words[i];
                argv[argc++] = words[i + 1];
                break;
            }
        }
    }
    (void)command_main(argc, argv);
}

/* The option that the word before the unfinished one waits for a value of, or NULL. */
static const struct cli_option *waiting_option(const struct args_tables *tables, const char *word)
{
    const struct cli_option *option = NULL;

    if (strncmp(word, "--", 2) == 0) {
        option = args_find_option(tables, word + 2, strlen(word + 2));
    } else if (word[0] == '-' && word[1] != '\0' && word[2] == '\0') {
        option = args_find_letter(tables, word[1]);
    }
    return option == NULL || option->value == NULL ? NULL : option;
}

static void offer_value(const struct cli_option *option, int count, char **words)
{
    if (strchr(option->value, '|') != NULL) {
        offer_choices(option->value);
    } else if (strcmp(option->name, "context") == 0) {
        offer_contexts();
    } else if (strcmp(option->name, "queue") == 0) {
        offer_queues(count, words);
    }
}

static void offer_operand(const struct command *command, int count, char **words)
{
    if (strchr(command->operands, '|') != NULL) {
        offer_choices(command->operands);
    } else if (strcmp(command->noun, "context") == 0 && command->operand_max > 0) {
        offer_contexts();
    } else if (strcmp(command->noun, "queue") == 0 && command->operand_max > 0 &&
               strcmp(command->verb, "create") != 0) {
        offer_queues(count, words);
    } else if (strcmp(command->noun, "help") == 0 && count == 2) {
        offer_nouns();
    } else if (strcmp(command->noun, "help") == 0 && count == 3) {
        offer_verbs(words[1]);
    }
}

int complete_words(int count, char **words)
{
    const struct command *command = count > 1 ? command_find(words[0], words[1]) : NULL;
    const struct cli_option *waiting;
    struct args_tables tables;

    if (count == 0) {
        return CLI_OK;
    }
    if (count == 1) {
        offer_nouns();
        return CLI_OK;
    }
    if (count == 2 && words[1][0] != '-') {
        offer_verbs(words[0]);
    }
    if (command == NULL || (count == 2 && command->verb[0] != '\0')) {
        return CLI_OK;
    }
    command_tables(command, &tables);
    waiting = waiting_option(&tables, words[count - 2]);
    if (waiting != NULL) {
        offer_value(waiting, count, words);
    } else if (words[count - 1][0] == '-') {
        offer_options(&tables);
    } else {
        offer_operand(command, count, words);
    }
    return CLI_OK;
}

const char *completion_script(const char *shell)
{
    return strcmp(shell, "bash") == 0 ? BASH_SCRIPT : strcmp(shell, "zsh") == 0 ? ZSH_SCRIPT : NULL;
}

int completion_run(const struct args *args)
{
    const char *shell = args->operand_count > 0 ? args->operands[0] : "";
    const char *script = completion_script(shell);
    struct buf out;
    int code;

    if (script == NULL) {
        return shell[0] == '\0' ? cli_usage("name the shell: foliot completion bash, or zsh")
                                : cli_usage("no completion for \"%s\"; there is one for bash and "
                                            "one for zsh",
                                            shell);
    }
    buf_init(&out, sizeof(BASH_SCRIPT) + sizeof(ZSH_SCRIPT));
    (void)buf_append_text(&out, script);
    code = command_print(&out);
    buf_fini(&out);
    return code;
}
