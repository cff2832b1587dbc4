/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables for people: columns as wide as their widest cell. Their form is free to change; programs
 * take JSON.
 */
#ifndef FOLIOT_CLIENT_CLI_TABLE_H
#define FOLIOT_CLIENT_CLI_TABLE_H

#include "lib/base/buf.h"

#include <stddef.h>

#define TABLE_COLUMN_COUNT_MAX 12

/* Cells are kept as one text, each ended by a NUL. */
struct table {
    struct buf cells;
    size_t column_count;
    size_t widths[TABLE_COLUMN_COUNT_MAX]; /* characters */
};

/* Start with a row of headings. */
void table_init(struct table *table, const char *const *headings, size_t count);
void table_fini(struct table *table);

/* Append a row of as many cells as there are headings. */
void table_add(struct table *table, const char *const *cells);

/* Append the table as text to a buffer. */
void table_write(const struct table *table, struct buf *out);

#endif
