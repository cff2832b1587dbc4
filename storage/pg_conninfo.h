/* SPDX-License-Identifier: Apache-2.0
 *
 * A conninfo as a list of keywords and values, to which ours are added.
 */
#ifndef FOLIOT_STORAGE_PG_CONNINFO_H
#define FOLIOT_STORAGE_PG_CONNINFO_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>

/* More than libpq has keywords. */
#define PG_CONNINFO_COUNT_MAX 64

/* keywords and values end with a NULL, as PQconnectStartParams wants them. */
struct pg_conninfo {
    PQconninfoOption *parsed; /* owns the values that were parsed */
    const char *keywords[PG_CONNINFO_COUNT_MAX];
    const char *values[PG_CONNINFO_COUNT_MAX];
    size_t count;
};

/* Parse a keyword=value string or a URI; false if it is neither, and then nothing is to be freed.
 */
bool pg_conninfo_parse(struct pg_conninfo *info, const char *text);
void pg_conninfo_free(struct pg_conninfo *info);

/* Add a pair, borrowed. Of several values of a keyword libpq takes the last. */
void pg_conninfo_add(struct pg_conninfo *info, const char *keyword, const char *value);

/* Value of a keyword, or NULL. */
const char *pg_conninfo_find(const struct pg_conninfo *info, const char *keyword);

#endif
