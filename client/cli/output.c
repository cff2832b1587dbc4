/* SPDX-License-Identifier: Apache-2.0
 *
 * Forms of output.
 */
#include "client/cli/output.h"

#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "lib/base/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_BYTES_MAX ((size_t)64 << 20U)

/* Longest line beside a table: a sentence with the error of an attempt. */
#define LINE_BYTES 2048

/* A list is written in pieces of about this size. */
#define PAGE_BYTES ((size_t)1 << 20U)

static enum output_format read_format(const struct args *args)
{
    static const struct {
        const char *name;
        enum output_format format;
    } formats[] = {{"wide", OUTPUT_WIDE},
                   {"json", OUTPUT_JSON},
                   {"jsonl", OUTPUT_JSONL},
                   {"name", OUTPUT_NAME}};
    const char *text = args_text(args, "output", "table");

    for (size_t i = 0; i < ARRAY_COUNT(formats); i++) {
        if (strcmp(text, formats[i].name) == 0) {
            return formats[i].format;
        }
    }
    return OUTPUT_TABLE;
}

/* Bold headings: only for eyes, and only if they want it. source: no-color.org */
static bool wants_bold(void)
{
    const char *no_color = cli_variable("NO_COLOR");
    const char *terminal = cli_variable("TERM");

    return isatty(STDOUT_FILENO) == 1 && (no_color == NULL || no_color[0] == '\0') &&
           terminal != NULL && strcmp(terminal, "dumb") != 0;
}

/* Headings are in capitals, people write them as they like. */
static bool is_same_name(const char *heading, const char *text, size_t len)
{
    if (strlen(heading) != len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        c = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
        c = c == '_' || c == '-' ? ' ' : c;
        if (c != heading[i]) {
            return false;
        }
    }
    return true;
}

static bool is_for_people(const struct output *output)
{
    return output->format == OUTPUT_TABLE || output->format == OUTPUT_WIDE;
}

static int refuse_column(const struct output *output, const char *text, size_t len)
{
    struct buf known;
    int code;

    buf_init(&known, 1024);
    for (size_t i = 0; i < output->layout->count; i++) {
        (void)buf_append_text(&known, i == 0 ? "" : ", ");
        for (const char *at = output->layout->columns[i].name; *at != '\0'; at++) {
            char c = *at == ' ' ? '-' : (char)(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);

            (void)buf_append(&known, &c, 1);
        }
    }
    code = cli_usage("--columns: there is no column \"%.*s\"; there are %s", (int)len, text,
                     buf_text(&known));
    buf_fini(&known);
    return code;
}

static int choose_column(struct output *output, const char *text, size_t len)
{
    for (size_t i = 0; i < output->layout->count; i++) {
        if (!is_same_name(output->layout->columns[i].name, text, len)) {
            continue;
        }
        if (output->shown_count == TABLE_COLUMN_COUNT_MAX) {
            return cli_usage("--columns: more than %d (TABLE_COLUMN_COUNT_MAX)",
                             TABLE_COLUMN_COUNT_MAX);
        }
        output->shown[output->shown_count++] = i;
        return CLI_OK;
    }
    return refuse_column(output, text, len);
}

static int choose_columns(struct output *output, const char *text)
{
    int code = CLI_OK;

    if (!is_for_people(output)) {
        return cli_usage("--columns is for -o table and -o wide");
    }
    while (code == CLI_OK) {
        size_t len = strcspn(text, ",");

        code = choose_column(output, text, len);
        if (text[len] == '\0') {
            break;
        }
        text += len + 1;
    }
    return code;
}

int output_init(struct output *output, const struct args *args, const struct output_layout *layout)
{
    const char *columns = args_text(args, "columns", NULL);
    const char *headings[TABLE_COLUMN_COUNT_MAX];
    int code = CLI_OK;

    REQUIRE(layout->count <= TABLE_COLUMN_COUNT_MAX);
    memset(output, 0, sizeof(*output));
    output->layout = layout;
    output->format = read_format(args);
    output->has_headers = !args_has(args, "no-headers");
    output->is_record = layout->list == NULL && columns == NULL;
    buf_init(&output->text, OUTPUT_BYTES_MAX);
    json_init(&output->json, &output->text);
    if (columns != NULL) {
        code = choose_columns(output, columns);
    }
    for (size_t i = 0; i < layout->count && columns == NULL; i++) {
        if (!layout->columns[i].is_wide || output->format == OUTPUT_WIDE) {
            output->shown[output->shown_count++] = i;
        }
    }
    for (size_t i = 0; i < output->shown_count; i++) {
        headings[i] = layout->columns[output->shown[i]].name;
    }
    table_init(&output->table, output->is_record ? 2 : output->shown_count);
    if (is_for_people(output) && !output->is_record && output->has_headers) {
        table_head(&output->table, headings, wants_bold());
    }
    return code;
}

void output_fini(struct output *output)
{
    table_fini(&output->table);
    buf_fini(&output->text);
}

bool output_wants_json(const struct output *output)
{
    return output->format == OUTPUT_JSON || output->format == OUTPUT_JSONL;
}

static bool is_document(const struct output *output)
{
    return output->format == OUTPUT_JSON && output->layout->list != NULL;
}

static void begin_document(struct output *output)
{
    if (is_document(output) && !output->has_begun) {
        output->has_begun = true;
        json_open(&output->json, NULL, '{');
        json_open(&output->json, output->layout->list, '[');
    }
}

struct json *output_json(struct output *output)
{
    begin_document(output);
    return &output->json;
}

void output_json_done(struct output *output)
{
    if (!is_document(output)) {
        (void)buf_append_text(&output->text, "\n");
        output->json.needs_comma = false;
    }
}

struct json *output_json_tail(struct output *output)
{
    if (!is_document(output)) {
        return NULL;
    }
    begin_document(output);
    if (!output->has_ended) {
        output->has_ended = true;
        json_close(&output->json, ']');
    }
    return &output->json;
}

/* "DUE" as the word of a line: "due". */
static void write_label(const char *name, char *out, size_t size)
{
    size_t i = 0;

    for (; name[i] != '\0' && i + 1 < size; i++) {
        out[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a') : name[i];
    }
    out[i] = '\0';
}

static void add_record(struct output *output, const char *const *cells)
{
    char label[40];

    for (size_t i = 0; i < output->shown_count; i++) {
        const char *cell = cells[output->shown[i]];

        write_label(output->layout->columns[output->shown[i]].name, label, sizeof(label));
        if (cell[0] != '\0') {
            table_add(&output->table, (const char *const[]){label, cell});
        }
    }
}

void output_row(struct output *output, const char *const *cells)
{
    const char *chosen[TABLE_COLUMN_COUNT_MAX];

    if (output->format == OUTPUT_NAME) {
        (void)buf_printf(&output->text, "%s\n", cells[output->layout->name_column]);
        return;
    }
    if (output->is_record) {
        add_record(output, cells);
        return;
    }
    for (size_t i = 0; i < output->shown_count; i++) {
        const char *cell = cells[output->shown[i]];

        chosen[i] = cell[0] == '\0' ? "-" : cell;
    }
    table_add(&output->table, chosen);
}

static PRINTF_LIKE(2, 0) void add_line(struct output *output, const char *format, va_list args)
{
    char line[LINE_BYTES];

    (void)vsnprintf(line, sizeof(line), format, args);
    cli_clean(line, strlen(line));
    (void)buf_printf(&output->text, "%s\n", line);
}

void output_head(struct output *output, const char *format, ...)
{
    va_list args;

    if (is_for_people(output) && output->has_headers) {
        va_start(args, format);
        add_line(output, format, args);
        va_end(args);
    }
}

void output_note(struct output *output, const char *format, ...)
{
    va_list args;

    if (is_for_people(output)) {
        table_flush(&output->table, &output->text);
        va_start(args, format);
        add_line(output, format, args);
        va_end(args);
    }
}

int output_flush(struct output *output)
{
    int code;

    table_flush(&output->table, &output->text);
    code = command_print(&output->text);
    buf_clear(&output->text);
    return code;
}

int output_page(struct output *output)
{
    bool is_much = buf_len(&output->text) + buf_len(&output->table.cells) > PAGE_BYTES;

    return is_much ? output_flush(output) : CLI_OK;
}

int output_end(struct output *output)
{
    if (output_json_tail(output) != NULL) {
        json_close(&output->json, '}');
        (void)buf_append_text(&output->text, "\n");
    }
    return output_flush(output);
}
