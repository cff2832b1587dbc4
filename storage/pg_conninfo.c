/* SPDX-License-Identifier: Apache-2.0
 *
 * Keywords and values of a conninfo.
 */
#include "storage/pg_conninfo.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"

#include <string.h>

bool pg_conninfo_parse(struct pg_conninfo *info, const char *text)
{
    info->count = 0;
    info->turned_count = 0;
    info->keywords[0] = NULL;
    info->values[0] = NULL;
    info->parsed = PQconninfoParse(text, NULL);
    if (info->parsed == NULL) {
        return false;
    }
    for (const PQconninfoOption *o = info->parsed; o->keyword != NULL; o++) {
        if (o->val != NULL) {
            pg_conninfo_add(info, o->keyword, o->val);
        }
    }
    return true;
}

void pg_conninfo_free(struct pg_conninfo *info)
{
    while (info->turned_count > 0) {
        mem_free(info->turned[--info->turned_count]);
    }
    PQconninfoFree(info->parsed);
    info->parsed = NULL;
}

void pg_conninfo_add(struct pg_conninfo *info, const char *keyword, const char *value)
{
    REQUIRE(info->count < PG_CONNINFO_COUNT_MAX - 1);
    info->keywords[info->count] = keyword;
    info->values[info->count] = value;
    info->count++;
    info->keywords[info->count] = NULL;
    info->values[info->count] = NULL;
}

const char *pg_conninfo_find(const struct pg_conninfo *info, const char *keyword)
{
    for (size_t i = 0; i < info->count; i++) {
        if (strcmp(info->keywords[i], keyword) == 0) {
            return info->values[i];
        }
    }
    return NULL;
}

static size_t member_count(const char *list)
{
    size_t count = 1;

    for (const char *at = list; at != NULL && (at = strchr(at, ',')) != NULL; at++) {
        count++;
    }
    return count;
}

size_t pg_conninfo_host_count(const struct pg_conninfo *info)
{
    size_t hosts = member_count(pg_conninfo_find(info, "host"));
    size_t addresses = member_count(pg_conninfo_find(info, "hostaddr"));

    return hosts > addresses ? hosts : addresses;
}

/* The list from its `by`-th member on, and then those before it; NULL when out of memory. */
static char *turn_list(const char *list, size_t by)
{
    size_t len = strlen(list);
    const char *first = list;
    char *out = mem_new(len + 1, 1);

    if (out == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < by; i++) {
        first = strchr(first, ',') + 1;
    }
    memcpy(out, first, len - (size_t)(first - list));
    out[len - (size_t)(first - list)] = ',';
    memcpy(out + len - (size_t)(first - list) + 1, list, (size_t)(first - list));
    out[len] = '\0'; // In the place of the comma before the first one.
    return out;
}

void pg_conninfo_turn(struct pg_conninfo *info, size_t by)
{
    static const char *const LISTS[PG_CONNINFO_TURNED_MAX] = {"host", "hostaddr", "port"};
    char *turned[PG_CONNINFO_TURNED_MAX] = {NULL};
    size_t hosts = pg_conninfo_host_count(info);
    bool is_whole = true;

    for (size_t i = 0; i < PG_CONNINFO_TURNED_MAX && by % hosts != 0; i++) {
        const char *list = pg_conninfo_find(info, LISTS[i]);

        if (list != NULL && member_count(list) == hosts) {
            turned[i] = turn_list(list, by % hosts);
            is_whole = is_whole && turned[i] != NULL;
        }
    }
    for (size_t i = 0; i < PG_CONNINFO_TURNED_MAX; i++) {
        if (turned[i] != NULL && is_whole) { // All in one order, or all as they stand.
            info->turned[info->turned_count++] = turned[i];
            pg_conninfo_add(info, LISTS[i], turned[i]);
        } else {
            mem_free(turned[i]);
        }
    }
}
