/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines.
 */
#include "client/cli/args.h"

#include "client/cli/cli.h"
#include "client/cli/timetext.h"
#include "lib/base/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Longest word that is compared with others. */
#define WORD_LEN_MAX 40

/* Names of one command line that can be meant. */
#define NAME_COUNT_MAX 64

const struct cli_option *args_find_option(const struct args_tables *tables, const char *name,
                                          size_t len)
{
    for (size_t i = 0; i < tables->count; i++) {
        const struct option_group *group = &tables->groups[i];

        for (size_t j = 0; j < group->count; j++) {
            const struct cli_option *option = &group->options[j];

            if (strlen(option->name) == len && memcmp(option->name, name, len) == 0) {
                return option;
            }
        }
    }
    return NULL;
}

const struct cli_option *args_find_letter(const struct args_tables *tables, char letter)
{
    for (size_t i = 0; i < tables->count; i++) {
        const struct option_group *group = &tables->groups[i];

        for (size_t j = 0; j < group->count; j++) {
            if (group->options[j].letter == letter && letter != '\0') {
                return &group->options[j];
            }
        }
    }
    return NULL;
}

/* Edits that make one word of the other. */
static size_t distance(const char *a, const char *b)
{
    size_t row[WORD_LEN_MAX + 1];
    size_t b_len = strlen(b);

    if (strlen(a) > WORD_LEN_MAX || b_len > WORD_LEN_MAX) {
        return WORD_LEN_MAX;
    }
    for (size_t j = 0; j <= b_len; j++) {
        row[j] = j;
    }
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            size_t best = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;

            diagonal = row[j];
            row[j] = change < best ? change : best;
        }
    }
    return row[b_len];
}

/* Edits from what was typed to a name; a beginning of it counts as two. More than two, or two that
 * leave little of a short word, make another word. */
static size_t edits_to(const char *word, const char *name)
{
    size_t len = strlen(word);
    size_t edits = distance(word, name);

    if (edits > 2 && len >= 2 && strncmp(word, name, len) == 0) {
        return 2;
    }
    return edits == 2 && len <= 3 && word[0] != name[0] ? WORD_LEN_MAX : edits;
}

const char *args_nearest(const char *word, const char *const *words, size_t count)
{
    const char *nearest = NULL;
    size_t least = 3; // More edits than two are another word.

    for (size_t i = 0; i < count; i++) {
        size_t edits = edits_to(word, words[i]);

        if (edits < least && edits < strlen(words[i])) {
            least = edits;
            nearest = words[i];
        }
    }
    return nearest;
}

/* Names of all options; returns their number. */
static size_t list_names(const struct args_tables *tables, const char **names)
{
    size_t count = 0;

    for (size_t i = 0; i < tables->count; i++) {
        for (size_t j = 0; j < tables->groups[i].count && count < NAME_COUNT_MAX; j++) {
            names[count++] = tables->groups[i].options[j].name;
        }
    }
    return count;
}

static int refuse_unknown(const struct args_tables *tables, const char *word, char *errmsg,
                          size_t errmsg_size)
{
    const char *names[NAME_COUNT_MAX];
    const char *nearest;
    char name[WORD_LEN_MAX + 1];
    size_t count = list_names(tables, names);

    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
    nearest = strncmp(word, "--", 2) == 0 ? args_nearest(name, names, count) : NULL;
    if (nearest != NULL) {
        (void)snprintf(errmsg, errmsg_size, "unknown option \"%s\"; did you mean \"--%s\"?", word,
                       nearest);
    } else {
        (void)snprintf(errmsg, errmsg_size, "unknown option \"%s\"; see --help", word);
    }
    return ERR_INVALID;
}

int args_add(struct args *args, const char *name, const char *value)
{
    if (args->item_count == ARGS_ITEM_COUNT_MAX) {
        return ERR_FULL;
    }
    args->items[args->item_count++] = (struct args_item){name, value};
    return 0;
}

static int add_item(struct args *args, const struct cli_option *option, const char *value,
                    char *errmsg, size_t errmsg_size)
{
    const char *name = args_is_alias(option) ? option->help + 1 : option->name;

    if (args_add(args, name, value) != 0) {
        (void)snprintf(errmsg, errmsg_size, "more than %d options (ARGS_ITEM_COUNT_MAX)",
                       ARGS_ITEM_COUNT_MAX);
        return ERR_INVALID;
    }
    return 0;
}

/* A command line on its way through the parser. */
struct parse {
    const struct args_tables *tables;
    int argc;
    char **argv;
    int index; /* word being read */
    struct args *args;
    char *errmsg;
    size_t errmsg_size;
};

/* The option that a word names, and the value that is written in the same word, or NULL. */
static const struct cli_option *split_word(const struct parse *parse, const char *word,
                                           const char **value)
{
    if (word[1] == '-') {
        size_t len = strcspn(word + 2, "=");

        *value = word[2 + len] == '=' ? word + 2 + len + 1 : NULL;
        return args_find_option(parse->tables, word + 2, len);
    }
    *value = word[2] != '\0' ? word + 2 : NULL;
    return args_find_letter(parse->tables, word[1]);
}

bool args_is_alias(const struct cli_option *option)
{
    return option->help[0] == '=';
}

bool args_is_choice(const char *choices, const char *word)
{
    size_t len = strlen(word);

    while (*choices != '\0') {
        size_t choice_len = strcspn(choices, "|");

        if (choice_len == len && memcmp(choices, word, len) == 0) {
            return true;
        }
        choices += choice_len + (choices[choice_len] == '|');
    }
    return false;
}

/* "a|b|c" as "a, b or c". */
static int refuse_choice(const struct cli_option *option, const char *value, char *errmsg,
                         size_t errmsg_size)
{
    const char *choices = option->value;
    char words[128] = "";
    size_t len = 0;

    while (*choices != '\0' && len < sizeof(words)) {
        size_t choice_len = strcspn(choices, "|");
        bool is_last = choices[choice_len] == '\0';

        len += (size_t)snprintf(words + len, sizeof(words) - len, "%s%.*s",
                                len == 0  ? ""
                                : is_last ? " or "
                                          : ", ",
                                (int)choice_len, choices);
        choices += choice_len + !is_last;
    }
    (void)snprintf(errmsg, errmsg_size, "--%s \"%s\" must be %s", option->name, value, words);
    return ERR_INVALID;
}

/* One option; its value may be the next word. */
static int parse_option(struct parse *parse)
{
    const char *word = parse->argv[parse->index];
    const char *value;
    const struct cli_option *option = split_word(parse, word, &value);

    if (option == NULL) {
        return refuse_unknown(parse->tables, word, parse->errmsg, parse->errmsg_size);
    }
    if (option->value == NULL && value != NULL) {
        (void)snprintf(parse->errmsg, parse->errmsg_size, "--%s takes no value", option->name);
        return ERR_INVALID;
    }
    if (option->value != NULL && value == NULL) {
        if (parse->index + 1 == parse->argc) {
            (void)snprintf(parse->errmsg, parse->errmsg_size, "--%s needs a value: --%s %s",
                           option->name, option->name, option->value);
            return ERR_INVALID;
        }
        value = parse->argv[++parse->index];
    }
    if (option->value != NULL && strchr(option->value, '|') != NULL &&
        !args_is_choice(option->value, value)) {
        return refuse_choice(option, value, parse->errmsg, parse->errmsg_size);
    }
    return add_item(parse->args, option, value == NULL ? "" : value, parse->errmsg,
                    parse->errmsg_size);
}

int args_parse(const struct args_tables *tables, int argc, char **argv, struct args *out,
               char *errmsg, size_t errmsg_size)
{
    struct parse parse = {tables, argc, argv, 0, out, errmsg, errmsg_size};
    bool is_ended = false;
    int err = 0;

    memset(out, 0, sizeof(*out));
    for (; parse.index < argc && err == 0; parse.index++) {
        char *word = argv[parse.index];

        if (!is_ended && strcmp(word, "--") == 0) {
            is_ended = true;
        } else if (!is_ended && word[0] == '-' && word[1] != '\0') {
            err = parse_option(&parse);
        } else if (out->operand_count == ARGS_OPERAND_COUNT_MAX) {
            (void)snprintf(errmsg, errmsg_size, "more than %d operands (ARGS_OPERAND_COUNT_MAX)",
                           ARGS_OPERAND_COUNT_MAX);
            err = ERR_INVALID;
        } else {
            out->operands[out->operand_count++] = word;
        }
    }
    return err;
}

const char *args_text(const struct args *args, const char *name, const char *otherwise)
{
    for (size_t i = args->item_count; i > 0; i--) {
        if (strcmp(args->items[i - 1].name, name) == 0) {
            return args->items[i - 1].value;
        }
    }
    return otherwise;
}

bool args_has(const struct args *args, const char *name)
{
    return args_text(args, name, NULL) != NULL;
}

int args_number(const struct args *args, const char *name, int64_t low, int64_t high,
                int64_t *value)
{
    const char *text = args_text(args, name, NULL);
    int64_t number = 0;
    size_t i = 0;

    if (text == NULL) {
        return 0;
    }
    for (; text[i] >= '0' && text[i] <= '9' && number <= high; i++) {
        number = time_add(time_mul(number, 10), text[i] - '0');
    }
    if (i == 0 || text[i] != '\0' || number < low || number > high) {
        (void)cli_usage("--%s \"%s\" must be a whole number from %" PRId64 " to %" PRId64, name,
                        text, low, high);
        return ERR_INVALID;
    }
    *value = number;
    return 0;
}

int args_span(const struct args *args, const char *name, int64_t *value_ms)
{
    const char *text = args_text(args, name, NULL);

    if (text == NULL) {
        return 0;
    }
    if (timetext_read_span(text, value_ms) != 0) {
        (void)cli_usage("--%s \"%s\" must be a time like 500ms, 10s, 15m, 2h, 1d or 1h30m", name,
                        text);
        return ERR_INVALID;
    }
    return 0;
}
