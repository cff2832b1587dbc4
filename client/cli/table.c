/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables.
 */
#include "client/cli/table.h"

#include "lib/base/check.h"

#include <string.h>

#define TABLE_BYTES_MAX ((size_t)16 << 20U)

/* Characters of a UTF-8 text: bytes that do not continue one. */
static size_t char_count(const char *text)
{
    size_t count = 0;

    for (; *text != '\0'; text++) {
        count += ((unsigned char)*text & 0xc0U) != 0x80;
    }
    return count;
}

void table_init(struct table *table, const char *const *headings, size_t count)
{
    REQUIRE(count <= TABLE_COLUMN_COUNT_MAX);
    memset(table, 0, sizeof(*table));
    buf_init(&table->cells, TABLE_BYTES_MAX);
    table->column_count = count;
    table_add(table, headings);
}

void table_fini(struct table *table)
{
    buf_fini(&table->cells);
}

void table_add(struct table *table, const char *const *cells)
{
    for (size_t i = 0; i < table->column_count; i++) {
        size_t width = char_count(cells[i]);

        (void)buf_append(&table->cells, cells[i], strlen(cells[i]) + 1);
        if (width > table->widths[i]) {
            table->widths[i] = width;
        }
    }
}

void table_write(const struct table *table, struct buf *out)
{
    struct slice cells = buf_slice(&table->cells);
    size_t column = 0;

    for (size_t at = 0; at < cells.len;) {
        const char *cell = (const char *)cells.data + at;
        size_t len = strlen(cell);

        (void)buf_append(out, cell, len);
        column = (column + 1) % table->column_count;
        if (column == 0) {
            (void)buf_append(out, "\n", 1);
        } else {
            size_t width = table->widths[column - 1] + 2 - char_count(cell);

            for (size_t i = 0; i < width; i++) {
                (void)buf_append(out, " ", 1);
            }
        }
        at += len + 1;
    }
}
