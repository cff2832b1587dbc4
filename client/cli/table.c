/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables.
 */
#include "client/cli/table.h"

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

/* What others have written must not move the cursor of who reads it. */
static void add_cell(struct buf *cells, const char *cell)
{
    for (; *cell != '\0'; cell++) {
        const char *shown = (unsigned char)*cell < ' ' || *cell == '\x7f' ? "?" : cell;

        (void)buf_append(cells, shown, 1);
    }
    (void)buf_append(cells, "", 1);
}

void table_add(struct table *table, const char *const *cells)
{
    for (size_t i = 0; i < table->column_count; i++) {
        size_t width = char_count(cells[i]);

        add_cell(&table->cells, cells[i]);
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
