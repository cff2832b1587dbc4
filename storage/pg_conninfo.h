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

/* Lists of a conninfo that have a member for each host: host, hostaddr and port. */
#define PG_CONNINFO_TURNED_MAX 3

/* keywords and values end with a NULL, as PQconnectStartParams wants them. */
struct pg_conninfo {
    PQconninfoOption *parsed; /* owns the values that were parsed */
    const char *keywords[PG_CONNINFO_COUNT_MAX];
    const char *values[PG_CONNINFO_COUNT_MAX];
    size_t count;
    char *turned[PG_CONNINFO_TURNED_MAX]; /* owned values */
    size_t turned_count;
};

/* Parse a keyword=value string or a URI; false if it is neither, and then nothing is to be freed.
 */
bool pg_conninfo_parse(struct pg_conninfo *info, const char *text);
void pg_conninfo_free(struct pg_conninfo *info);

/* Add a pair, borrowed. Of several values of a keyword libpq takes the last. */
void pg_conninfo_add(struct pg_conninfo *info, const char *keyword, const char *value);

/* Value of a keyword, or NULL. */
const char *pg_conninfo_find(const struct pg_conninfo *info, const char *keyword);

/* How many hosts it names, at least 1. */
size_t pg_conninfo_host_count(const struct pg_conninfo *info);

/*
 * Let libpq begin with another of the hosts: the `by`-th from 0, round and round.
 *
 * note:  libpq goes on to the next host only from one that refuses; one that is silent, or that
 * takes a connection and drops it, would hide the others for ever. So whoever connects again begins
 *        one further on after each failure.
 * shape: once, after everything was added. Lists of one member are for all hosts and stay.
 */
void pg_conninfo_turn(struct pg_conninfo *info, size_t by);

#endif
