/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command shows, in the form that --output asks for: a table for people, whose form is free
 * to change; JSON, which is an API; or names, one to a line. A command describes its columns once
 * and gives each thing as cells or as JSON.
 */
#ifndef FOLIOT_CLIENT_CLI_OUTPUT_H
#define FOLIOT_CLIENT_CLI_OUTPUT_H

#include "client/cli/args.h"
#include "client/cli/json.h"
#include "client/cli/table.h"
#include "lib/base/attr.h"
#include "lib/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct output_column {
    const char *name; /* heading, in capitals: "DUE" */
    bool is_wide;     /* shown with -o wide only */
};

struct output_layout {
    const struct output_column *columns;
    size_t count;       /* ≤ TABLE_COLUMN_COUNT_MAX */
    size_t name_column; /* what -o name shows */
    const char *list;   /* member of the JSON document that holds the things; NULL: there is one
                           thing, it is the document, its table has a line for each column */
};

enum output_format {
    OUTPUT_TABLE,
    OUTPUT_WIDE,
    OUTPUT_JSON,
    OUTPUT_JSONL,
    OUTPUT_NAME
};

struct output {
    const struct output_layout *layout;
    enum output_format format;
    bool has_headers;
    bool is_record; /* a line for each column */
    size_t shown[TABLE_COLUMN_COUNT_MAX];
    size_t shown_count;
    struct table table;
    struct buf text;
    struct json json;
    bool has_begun; /* the JSON document's head is written, */
    bool has_ended; /* and so is its list */
};

/*
 * Begin, as the options want it.
 *
 * errors: CLI_USAGE after saying so: --columns names one that there is not. output_fini() is right
 *         in any case.
 */
MUST_USE int output_init(struct output *output, const struct args *args,
                         const struct output_layout *layout);
void output_fini(struct output *output);

/* Is each thing to be written as JSON? If not, it is added as a row. */
bool output_wants_json(const struct output *output);

/* Where to write the next thing: one object, opened with name NULL. */
struct json *output_json(struct output *output);

/* After that object. */
void output_json_done(struct output *output);

/* Members beside the list, at the end of the document. NULL if the format has no place for them. */
struct json *output_json_tail(struct output *output);

/* Add a thing as cells, one for each column of the layout. */
void output_row(struct output *output, const char *const *cells);

/* Write a line above a table for people, unless --no-headers: before any row. */
void output_head(struct output *output, const char *format, ...) PRINTF_LIKE(2, 3);

/* Append a line to a table for people; nothing in the other forms. */
void output_note(struct output *output, const char *format, ...) PRINTF_LIKE(2, 3);

/* After a page of a long list: write it if it has become much. Later rows of a table are at least
 * as wide. Returns CLI_OK or CLI_ERROR. */
MUST_USE int output_page(struct output *output);

/* Write to standard output what there is so far. Returns CLI_OK or CLI_ERROR. */
MUST_USE int output_flush(struct output *output);

/* The same, and the end of a document. */
MUST_USE int output_end(struct output *output);

#endif
