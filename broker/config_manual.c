/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference of settings.
 */
#include "broker/config_manual.h"

#include "broker/config.h"
#include "broker/config_table.h"
#include "lib/base/roff.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RANGE_BYTES 160

/* Milliseconds in their largest unit. */
static void format_span(int64_t ms, char *out, size_t size)
{
    static const struct {
        int64_t ms;
        const char *name;
    } units[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
    size_t i = 0;

    while (i + 1 < ARRAY_COUNT(units) && (ms < units[i].ms || ms % units[i].ms != 0)) {
        i++;
    }
    (void)snprintf(out, size, "%" PRId64 "%s", ms / units[i].ms, units[i].name);
}

/* What is allowed, in words. */
static void describe_range(const struct config_option *option, char *out, size_t size)
{
    char low[24];
    char high[24];

    switch (option->type) {
    case OPTION_TEXT:
        (void)snprintf(out, size, "text of %" PRId64 " to %" PRId64 " bytes", option->low,
                       option->high);
        break;
    case OPTION_COUNT:
        (void)snprintf(out, size, "%" PRId64 " to %" PRId64, option->low, option->high);
        break;
    case OPTION_SPAN:
        format_span(option->low, low, sizeof(low));
        format_span(option->high, high, sizeof(high));
        (void)snprintf(out, size, "%s to %s", low, high);
        break;
    case OPTION_CHOICE:
        (void)snprintf(out, size, "%s", option->choices);
        break;
    case OPTION_LIST:
        (void)snprintf(out, size, "list of %" PRId64 " to %" PRId64 ", parted by %c or lines",
                       option->low, option->high, option->separator);
        break;
    }
}

/* A cell of a table: '|' would end it. */
static void put_cell(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '|') {
            (void)buf_append_text(out, "\\");
        }
        (void)buf_append(out, text, 1);
    }
}

static void put_option(struct buf *out, const struct config_option *option)
{
    char flag[OPTION_NAME_SIZE];
    char variable[OPTION_NAME_SIZE];
    char range[RANGE_BYTES];

    config_option_flag(option, flag);
    config_option_variable(option, variable);
    describe_range(option, range, sizeof(range));
    (void)buf_printf(out, "\n### `%s`\n\n%s\n\n| | |\n|---|---|\n", option->key, option->doc);
    (void)buf_printf(out, "| flag | `%s %s` |\n| environment | `%s`%s", flag, option->value,
                     variable, option->is_secret ? ", or `" : "");
    if (option->is_secret) {
        (void)buf_printf(out, "%s_FILE` names a file that holds it", variable);
    }
    (void)buf_append_text(out, " |\n| allowed | ");
    put_cell(out, range);
    (void)buf_append_text(out, " |\n| default | ");
    if (option->default_value[0] == '\0') {
        (void)buf_append_text(out, option->low > 0 ? "none: it must be given" : "empty");
    } else {
        (void)buf_printf(out, "`%s`", option->default_value);
    }
    (void)buf_append_text(out, " |\n");
}

/* Without its stop. A dot within a word, as in tls.ca, ends none. */
static size_t first_sentence(const char *text)
{
    const char *end = strstr(text, ". ");
    size_t len = end != NULL ? (size_t)(end - text) : strlen(text);

    return len > 0 && text[len - 1] == '.' ? len - 1 : len;
}

void config_reference(struct buf *out)
{
    (void)buf_append_text(
        out,
        "# Settings of foliotd\n"
        "\n"
        "<!-- Made by tools/reference from broker/config_table.c: change that, not this. -->\n"
        "\n"
        "Each setting is a flag, a variable of the environment and a key of a YAML file that\n"
        "`--config FILE` or `FOLIOT_CONFIG` names. Flags win over the environment, that over the\n"
        "file, that over the defaults. In YAML a dot is a level: `log.level` is `log: {level: "
        "…}`.\n"
        "Unknown flags and keys are errors, unknown variables are warned of.\n"
        "\n"
        "`foliotd --check-config` says what is wrong and exits with 0 or 2; `--print-config` "
        "shows\n"
        "each value and where it came from. Lengths of time are written `250ms`, `4s`, `10m`, "
        "`1h`.\n"
        "\n"
        "| setting | default | |\n"
        "|---|---|---|\n");
    for (size_t i = 0; i < config_option_count(); i++) {
        const struct config_option *option = config_option_at(i);
        size_t first = first_sentence(option->doc);

        (void)buf_printf(out, "| `%s` | %s%s%s | ", option->key,
                         option->default_value[0] == '\0' ? "" : "`", option->default_value,
                         option->default_value[0] == '\0' ? "" : "`");
        (void)buf_append(out, option->doc, first);
        (void)buf_append_text(out, " |\n");
    }
    for (size_t i = 0; i < config_option_count(); i++) {
        put_option(out, config_option_at(i));
    }
}

static void manual_option(struct buf *out, const struct config_option *option)
{
    char flag[OPTION_NAME_SIZE];
    char variable[OPTION_NAME_SIZE];
    char range[RANGE_BYTES];
    char line[RANGE_BYTES + 3 * OPTION_NAME_SIZE];

    config_option_flag(option, flag);
    config_option_variable(option, variable);
    describe_range(option, range, sizeof(range));
    roff_item(out, flag, option->value, option->doc);
    (void)buf_append_text(out, ".br\n");
    (void)snprintf(line, sizeof(line), "Key %s, environment %s%s%s%s. Allowed: %s. Default: %s.",
                   option->key, variable, option->is_secret ? " or the file that " : "",
                   option->is_secret ? variable : "", option->is_secret ? "_FILE names" : "", range,
                   option->default_value[0] == '\0' ? "none" : option->default_value);
    roff_text(out, line);
    roff_line(out);
}

void config_manual(struct buf *out, const char *version)
{
    roff_begin(out, "foliotd", 8, version, "a broker of Foliot, which does things later");
    roff_heading(out, "Synopsis");
    roff_bold(out, "foliotd");
    roff_text(out, " [--config FILE] [FLAG...]");
    roff_line(out);
    roff_heading(out, "Description");
    roff_text(out,
              "foliotd joins a cluster by ZooKeeper, keeps tasks in PostgreSQL, and fires them "
              "by gRPC when they are due. Flags win over the environment, that over the file, "
              "that over the defaults. SIGTERM drains: no calls are taken, shards are handed "
              "over, attempts that run are waited for; a second one ends at once.");
    roff_line(out);
    roff_heading(out, "Options");
    roff_item(out, "--config", "FILE", "Read settings from this YAML file (FOLIOT_CONFIG).");
    roff_item(out, "--check-config", NULL,
              "Check all settings and exit: 0 if they are good, else 2.");
    roff_item(out, "--print-config", NULL, "Print all settings, each with its origin, and exit.");
    roff_item(out, "--version", NULL, "Print the version and exit.");
    roff_item(out, "--help", NULL, "Print the flags and exit.");
    roff_heading(out, "Settings");
    for (size_t i = 0; i < config_option_count(); i++) {
        manual_option(out, config_option_at(i));
    }
    roff_heading(out, "Exit status");
    roff_item(out, "0", NULL, "An orderly end.");
    roff_item(out, "1", NULL, "It could not start, or had to end: the last line says why.");
    roff_item(out, "2", NULL, "The settings cannot be used: there is a line for each mistake.");
    roff_heading(out, "Example");
    roff_example(out, "foliotd --name broker-a --databases 'db0=dbname=foliot' "
                      "--targets-allow '127.0.0.1:*'\n");
    roff_heading(out, "See also");
    roff_bold(out, "foliot");
    roff_text(out, "(1)");
    roff_line(out);
}
