/* SPDX-License-Identifier: Apache-2.0
 *
 * What the command promises about its command line, its exit codes and its JSON.
 */
#include "client/cli/args.h"
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/json.h"
#include "client/cli/table.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <string.h>

static const struct cli_option OWN[] = {
    {"queue", 'q', "NAME", ""},
    {"keyed", 0, NULL, ""},
    {"count", 'c', "N", ""},
    {"delay", 0, "SPAN", ""},
};
static const struct cli_option COMMON[] = {
    {"address", 's', "HOST:PORT", ""},
    {"server", 0, "HOST:PORT", "=address"},
    {"output", 'o', "table|wide|json", ""},
};
static const struct args_tables TABLES = {
    {{"own", OWN, ARRAY_COUNT(OWN)}, {"common", COMMON, ARRAY_COUNT(COMMON)}}, 2};

static char errmsg[256];

/* Parse words up to a NULL. */
static int parse(struct args *args, const char *const *words)
{
    char *argv[ARGS_ITEM_COUNT_MAX * 2];
    int argc = 0;

    for (; words[argc] != NULL; argc++) {
        argv[argc] = (char *)(uintptr_t)words[argc];
    }
    return args_parse(&TABLES, argc, argv, args, errmsg, sizeof(errmsg));
}

#define PARSE(args, ...) parse(args, (const char *const[]){__VA_ARGS__, NULL})

Test(args, takes_every_form_of_an_option)
{
    struct args args;
    int64_t count = 7;
    int64_t delay_ms = 0;

    cr_assert_eq(PARSE(&args, "ID", "--queue", "a", "-q", "b", "--queue=c=d", "-c12", "--keyed",
                       "--delay", "1h30m", "--server=h:1", "-s", "h:2"),
                 0, "%s", errmsg);
    cr_assert_str_eq(args_text(&args, "queue", ""), "c=d");
    cr_assert(args_has(&args, "keyed"));
    cr_assert(!args_has(&args, "hang"));
    cr_assert_eq(args_number(&args, "count", 0, 100, &count), 0);
    cr_assert_eq(count, 12);
    cr_assert_eq(args_span(&args, "delay", &delay_ms), 0);
    cr_assert_eq(delay_ms, 5400000);
    cr_assert_eq(args.operand_count, 1);
    cr_assert_str_eq(args.operands[0], "ID");
    cr_assert_str_eq(args_text(&args, "address", ""), "h:2");
    cr_assert(!args_has(&args, "server"), "another name is the same option");
}

Test(args, an_option_of_several_words_takes_no_other)
{
    struct args args;

    cr_assert_eq(PARSE(&args, "-o", "wide"), 0);
    cr_assert_eq(PARSE(&args, "-o", "wid"), ERR_INVALID);
    cr_assert_str_eq(errmsg, "--output \"wid\" must be table, wide or json");
    cr_assert_eq(PARSE(&args, "--output="), ERR_INVALID);
    cr_assert(!args_is_choice("a|b", "a|b"));
}

Test(args, two_dashes_end_the_options_and_one_is_an_operand)
{
    struct args args;

    cr_assert_eq(PARSE(&args, "-", "--", "--queue", "-x"), 0);
    cr_assert_eq(args.operand_count, 3);
    cr_assert_str_eq(args.operands[2], "-x");
}

Test(args, refuses_with_the_nearest_name)
{
    struct args args;

    cr_assert_eq(PARSE(&args, "--quue", "a"), ERR_INVALID);
    cr_assert(strstr(errmsg, "did you mean \"--queue\"?") != NULL, "%s", errmsg);
    cr_assert_eq(PARSE(&args, "--servr=h"), ERR_INVALID);
    cr_assert(strstr(errmsg, "--server") != NULL, "%s", errmsg);
    cr_assert_eq(PARSE(&args, "--something-else"), ERR_INVALID);
    cr_assert(strstr(errmsg, "see --help") != NULL, "%s", errmsg);
    cr_assert_eq(PARSE(&args, "-x"), ERR_INVALID);
    cr_assert_eq(PARSE(&args, "--queue"), ERR_INVALID);
    cr_assert(strstr(errmsg, "needs a value") != NULL, "%s", errmsg);
    cr_assert_eq(PARSE(&args, "--keyed=yes"), ERR_INVALID);
}

Test(args, refuses_more_than_it_can_hold)
{
    char *argv[ARGS_ITEM_COUNT_MAX + 1];
    struct args args;

    for (int i = 0; i <= ARGS_ITEM_COUNT_MAX; i++) {
        argv[i] = (char *)(uintptr_t) "--keyed";
    }
    cr_assert_eq(args_parse(&TABLES, ARGS_ITEM_COUNT_MAX, argv, &args, errmsg, sizeof(errmsg)), 0);
    cr_assert_eq(args_parse(&TABLES, ARGS_ITEM_COUNT_MAX + 1, argv, &args, errmsg, sizeof(errmsg)),
                 ERR_INVALID);
}

Test(args, numbers_are_whole_and_in_range, .init = cr_redirect_stderr)
{
    const char *bad[] = {"", "x", "-1", "1x", "101", "99999999999999999999", " 1", "0x10"};
    struct args args;
    int64_t count = 7;

    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        cr_assert_eq(PARSE(&args, "--count", bad[i]), 0);
        cr_assert_eq(args_number(&args, "count", 0, 100, &count), ERR_INVALID, "%s", bad[i]);
        cr_assert_eq(count, 7);
    }
}

static int run(const char *const *words)
{
    char *argv[16];
    int argc = 0;

    for (; words[argc] != NULL; argc++) {
        argv[argc] = (char *)(uintptr_t)words[argc];
    }
    argv[argc] = NULL;
    return command_main(argc, argv);
}

#define RUN(...) run((const char *const[]){"foliot", __VA_ARGS__, NULL})

static void redirect(void)
{
    cr_redirect_stdout();
    cr_redirect_stderr();
}

Test(command, wrong_command_lines_exit_with_usage, .init = redirect)
{
    cr_assert_eq(run((const char *const[]){"foliot", NULL}), CLI_USAGE);
    cr_assert_eq(RUN("tsk"), CLI_USAGE);
    cr_assert_eq(RUN("task"), CLI_USAGE);
    cr_assert_eq(RUN("task", "creat"), CLI_USAGE);
    cr_assert_eq(RUN("task", "create", "--nope"), CLI_USAGE);
    cr_assert_eq(RUN("task", "create"), CLI_USAGE);
    cr_assert_eq(RUN("task", "create", "-q", "m", "extra"), CLI_USAGE);
    cr_assert_eq(RUN("task", "create", "-q", "m", "--at", "never"), CLI_USAGE);
    cr_assert_eq(RUN("task", "create", "-q", "m", "-o", "xml"), CLI_USAGE);
    cr_assert_eq(RUN("task", "create", "-q", "m", "--key-policy", "x"), CLI_USAGE);
    cr_assert_eq(RUN("task", "create", "-q", "m", "--timeout", "soon"), CLI_USAGE);
    cr_assert_eq(RUN("task", "get"), CLI_USAGE);
    cr_assert_eq(RUN("task", "get", "not-an-id"), CLI_USAGE);
    cr_assert_eq(RUN("task", "cancel", "-k", "key-without-queue"), CLI_USAGE);
    cr_assert_eq(RUN("task", "update", "0a7-0000012300000001"), CLI_USAGE);
    cr_assert_eq(RUN("queue", "create", "mail"), CLI_USAGE);
    cr_assert_eq(RUN("queue", "get"), CLI_USAGE);
    cr_assert_eq(RUN("receive", "--fail-permille", "1001"), CLI_USAGE);
    cr_assert_eq(RUN("bench", "record"), CLI_USAGE);
    cr_assert_eq(RUN("bench", "record", "-q", "m", "--delay-min", "5s", "--delay-max", "1s"),
                 CLI_USAGE);
}

Test(command, help_is_no_error, .init = redirect)
{
    cr_assert_eq(RUN("--help"), CLI_OK);
    cr_assert_eq(RUN("version"), CLI_OK);
    cr_assert_eq(RUN("task", "create", "--help"), CLI_OK);
    cr_assert_eq(RUN("receive", "-h"), CLI_OK);
}

/* All options of a command in a row; returns their number. */
static size_t list_options(const struct command *command, const struct cli_option **out, size_t max)
{
    struct args_tables tables;
    size_t count = 0;

    command_tables(command, &tables);
    for (size_t i = 0; i < tables.count; i++) {
        for (size_t j = 0; j < tables.groups[i].count; j++) {
            cr_assert_lt(count, max);
            out[count++] = &tables.groups[i].options[j];
        }
    }
    return count;
}

Test(command, no_two_options_of_a_command_are_called_alike)
{
    const struct cli_option *options[64];

    for (size_t i = 0; i < command_count(); i++) {
        const struct command *command = command_at(i);
        size_t count = list_options(command, options, ARRAY_COUNT(options));

        for (size_t j = 0; j < count; j++) {
            for (size_t k = 0; k < j; k++) {
                cr_assert_str_neq(options[j]->name, options[k]->name, "%s %s --%s", command->noun,
                                  command->verb, options[j]->name);
                cr_assert(options[j]->letter == '\0' || options[j]->letter != options[k]->letter,
                          "%s %s -%c", command->noun, command->verb, options[j]->letter);
            }
        }
    }
}

Test(command, commands_of_one_noun_stand_together_and_say_what_they_are)
{
    for (size_t i = 0; i < command_count(); i++) {
        const struct command *command = command_at(i);

        cr_assert_str_neq(command_noun_summary(command->noun), "", "%s", command->noun);
        cr_assert_eq(command->summary[strlen(command->summary) - 1], '.', "%s", command->summary);
        cr_assert_eq(command->examples[strlen(command->examples) - 1], '\n', "%s %s", command->noun,
                     command->verb);
        cr_assert_eq(command_find(command->noun, command->verb), command);
        for (size_t j = i + 1; j < command_count(); j++) {
            cr_assert(strcmp(command_at(j)->noun, command->noun) != 0 ||
                          strcmp(command_at(j - 1)->noun, command->noun) == 0,
                      "%s", command->noun);
        }
    }
}

Test(cli, exit_codes_are_those_of_the_manual)
{
    cr_assert_eq(cli_exit_of(RPC_OK), 0);
    cr_assert_eq(cli_exit_of(RPC_INTERNAL), 1);
    cr_assert_eq(cli_exit_of(RPC_UNKNOWN), 1);
    cr_assert_eq(cli_exit_of(RPC_INVALID_ARGUMENT), 2);
    cr_assert_eq(cli_exit_of(RPC_NOT_FOUND), 3);
    cr_assert_eq(cli_exit_of(RPC_PERMISSION_DENIED), 4);
    cr_assert_eq(cli_exit_of(RPC_ALREADY_EXISTS), 5);
    cr_assert_eq(cli_exit_of(RPC_UNAVAILABLE), 6);
    cr_assert_eq(cli_exit_of(RPC_RESOURCE_EXHAUSTED), 6);
    cr_assert_eq(cli_exit_of(RPC_DEADLINE_EXCEEDED), 7);
}

Test(json, commas_and_escapes_are_right)
{
    struct buf out;
    struct json json;

    buf_init(&out, 4096);
    json_init(&json, &out);
    json_open(&json, NULL, '{');
    json_text(&json, "a", "q\"b\\n\n\x01\x7f\xc3\xa4");
    json_open(&json, "list", '[');
    json_int(&json, NULL, -5);
    json_int(&json, NULL, INT64_MAX);
    json_int64(&json, NULL, INT64_MIN);
    json_open(&json, NULL, '{');
    json_close(&json, '}');
    json_close(&json, ']');
    json_bool(&json, "yes", true);
    json_slice(&json, "none", (struct slice){NULL, 0});
    json_close(&json, '}');
    cr_assert_str_eq(
        buf_text(&out),
        "{\"a\":\"q\\\"b\\\\n\\n\\u0001\\u007f\xc3\xa4\",\"list\":[-5,"
        "9223372036854775807,\"-9223372036854775808\",{}],\"yes\":true,\"none\":\"\"}");
    buf_fini(&out);
}

Test(json, writes_bytes_times_and_spans_as_proto3_does)
{
    const struct {
        const char *bytes;
        const char *text;
    } rows[] = {{"", "\"\""},        {"f", "\"Zg==\""},        {"ab", "\"YWI=\""},
                {"foo", "\"Zm9v\""}, {"foob", "\"Zm9vYg==\""}, {"\xff\xfe\xfd", "\"//79\""}};
    struct buf out;
    struct json json;

    buf_init(&out, 4096);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        buf_clear(&out);
        json_init(&json, &out);
        json_bytes(&json, NULL, slice_of(rows[i].bytes));
        cr_assert_str_eq(buf_text(&out), rows[i].text);
    }
    buf_clear(&out);
    json_init(&json, &out);
    json_open(&json, NULL, '{');
    json_time(&json, "t", 1767323045678);
    json_time(&json, "never", WALL_NEVER);
    json_span(&json, "s", 1500);
    json_span(&json, "n", -1500);
    json_close(&json, '}');
    cr_assert_str_eq(buf_text(&out),
                     "{\"t\":\"2026-01-02T03:04:05.678Z\",\"s\":\"1.500s\",\"n\":\"-1.500s\"}");
    buf_fini(&out);
}

Test(table, columns_are_as_wide_as_their_widest_cell)
{
    static const char *const headings[] = {"A", "BB"};
    struct table table;
    struct buf out;

    buf_init(&out, 4096);
    table_init(&table, 2);
    table_head(&table, headings, false);
    table_add(&table, (const char *const[]){"x\xc3\xa4y", "1"});
    table_add(&table, (const char *const[]){"", "22"});
    table_flush(&table, &out);
    cr_assert_str_eq(buf_text(&out), "A    BB\nx\xc3\xa4y  1\n     22\n");
    buf_clear(&out);
    table_add(&table, (const char *const[]){"z", "3"});
    table_flush(&table, &out);
    cr_assert_str_eq(buf_text(&out), "z    3\n", "later pages keep the width");
    table_fini(&table);
    buf_fini(&out);
}

Test(table, cells_do_not_move_the_cursor)
{
    struct table table;
    struct buf out;

    buf_init(&out, 4096);
    table_init(&table, 1);
    table_head(&table, (const char *const[]){"H"}, true);
    table_add(&table, (const char *const[]){"a\x1b[2J\nb\x7f\xc2\x9b\xc3\xa4"});
    table_flush(&table, &out);
    cr_assert_str_eq(buf_text(&out), "\x1b[1mH\x1b[0m\na?[2J?b???\xc3\xa4\n");
    table_fini(&table);
    buf_fini(&out);
}
