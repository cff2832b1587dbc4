/* SPDX-License-Identifier: Apache-2.0
 *
 * Keywords and values of a conninfo.
 */
#include "storage/pg_conninfo.h"

#include "lib/base/check.h"

#include <string.h>

bool pg_conninfo_parse(struct pg_conninfo *info, const char *text)
{
    info->count = 0;
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
