/* SPDX-License-Identifier: Apache-2.0
 *
 * Completion for shells: the shell's script asks this command which words may come next, so that
 * the table of commands is the only place that knows.
 */
#ifndef FOLIOT_CLIENT_CLI_COMPLETE_H
#define FOLIOT_CLIENT_CLI_COMPLETE_H

struct args;

/* First word of the question. Private between us and the scripts. */
#define COMPLETE_WORD "__complete"

/*
 * Print the words that may stand in place of the last one, one to a line.
 *
 * shape:  words behind the command's name; the last one is unfinished, maybe empty. Nothing is
 *         printed where a file name or free text stands.
 * return: CLI_OK in any case: a shell has no use for more.
 */
int complete_words(int count, char **words);

/* foliot completion bash|zsh: print the script. */
int completion_run(const struct args *args);

/* The script of a shell, "bash" or "zsh"; NULL for another. Static string. */
const char *completion_script(const char *shell);

#endif
