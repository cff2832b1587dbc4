/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables for people: columns as wide as their widest cell. Their form is free to change; programs
 * take JSON.
 */
#ifndef FOLIOT_CLIENT_CLI_TABLE_H
#define FOLIOT_CLIENT_CLI_TABLE_H

#include "lib/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

#define TABLE_COLUMN_COUNT_MAX 20

/* Cells are kept as one text, each ended by a NUL. */
struct table {
    struct buf cells;
    size_t column_count;
    size_t widths[TABLE_COLUMN_COUNT_MAX]; /* characters; of all rows so far */
    bool has_bold_head;                    /* the first row that is kept is to be bold */
};

/* Start without headings. */
void table_init(struct table *table, size_t column_count);
void table_fini(struct table *table);

/* Append the headings: before any row. */
void table_head(struct table *table, const char *const *headings, bool is_bold);

/* Append a row of as many cells as there are columns. Control characters are shown as '?'. */
void table_add(struct table *table, const char *const *cells);

/* Append the rows as text to a buffer and forget them; later ones are at least as wide. */
void table_flush(struct table *table, struct buf *out);

#endif
