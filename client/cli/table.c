/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables.
 */
#include "client/cli/table.h"

#include "client/cli/cli.h"
#include "lib/base/check.h"

#include <string.h>

#define TABLE_BYTES_MAX ((size_t)64 << 20U)

/* source: ECMA-48, SGR */
#define BOLD  "\x1b[1m"
#define PLAIN "\x1b[0m"

/* Characters of a UTF-8 text: bytes that do not continue one. */
static size_t char_count(const char *text)
{
    size_t count = 0;

    for (; *text != '\0'; text++) {
        count += ((unsigned char)*text & 0xc0U) != 0x80;
    }
    return count;
}

void table_init(struct table *table, size_t column_count)
{
    REQUIRE(column_count <= TABLE_COLUMN_COUNT_MAX);
    memset(table, 0, sizeof(*table));
    buf_init(&table->cells, TABLE_BYTES_MAX);
    table->column_count = column_count;
}

void table_fini(struct table *table)
{
    buf_fini(&table->cells);
}

void table_head(struct table *table, const char *const *headings, bool is_bold)
{
    table_add(table, headings);
    table->has_bold_head = is_bold;
}

/* What others have written stays in its cell, and its line. Returns its width. */
static size_t add_cell(struct buf *cells, const char *cell)
{
    size_t len = strlen(cell);
    char *copy = (char *)buf_reserve(cells, len + 1);

    if (copy == NULL) {
        return 0; // The buffer says so.
    }
    memcpy(copy, cell, len + 1);
    cli_clean(copy, len);
    for (size_t i = 0; i < len; i++) {
        copy[i] = copy[i] == '\n' ? '?' : copy[i];
    }
    buf_commit(cells, len + 1);
    return char_count(copy);
}

void table_add(struct table *table, const char *const *cells)
{
    for (size_t i = 0; i < table->column_count; i++) {
        size_t width = add_cell(&table->cells, cells[i]);

        if (width > table->widths[i]) {
            table->widths[i] = width;
        }
    }
}

static void write_padding(struct buf *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)buf_append(out, " ", 1);
    }
}

void table_flush(struct table *table, struct buf *out)
{
    struct slice cells = buf_slice(&table->cells);
    size_t column = 0;

    out->failed = out->failed || table->cells.failed;
    for (size_t at = 0; at < cells.len;) {
        const char *cell = (const char *)cells.data + at;
        size_t len = strlen(cell);

        if (table->has_bold_head && column == 0) {
            (void)buf_append_text(out, BOLD);
        }
        (void)buf_append(out, cell, len);
        if (++column < table->column_count) {
            write_padding(out, table->widths[column - 1] + 2 - char_count(cell));
        } else {
            (void)buf_append_text(out, table->has_bold_head ? PLAIN "\n" : "\n");
            table->has_bold_head = false;
            column = 0;
        }
        at += len + 1;
    }
    buf_clear(&table->cells);
}
