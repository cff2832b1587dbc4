/* SPDX-License-Identifier: Apache-2.0
 *
 * The C library's zone. It has one for the whole process, which is what a command wants.
 */
#define _GNU_SOURCE /* tm_gmtoff, environ */

#include "client/cli/zone.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ZONE_FOLDER         "/usr/share/zoneinfo"
#define ZONE_NAME_BYTES_MAX 100

/* First and last second that RFC 3339 can write, with a day to spare for the zone. */
#define SECOND_MIN INT64_C(-62167132800)
#define SECOND_MAX INT64_C(253402214400)

/* A letter or digit first, so that no name leaves the folder. */
static bool is_name(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && len <= ZONE_NAME_BYTES_MAX && name[0] != '/' && strstr(name, "..") == NULL &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/_+-") ==
               len;
}

/* Put "TZ=…" into the environment, which is where the C library takes its zone from. */
static int set_variable(char *variable)
{
    static char **own; // the environment, once there had to be room for one more
    size_t count = 0;

    for (; environ != NULL && environ[count] != NULL; count++) {
        if (strncmp(environ[count], "TZ=", 3) == 0) {
            environ[count] = variable;
            return 0;
        }
    }
    if (own == NULL) {
        own = mem_new(count + 2, sizeof(*own));
        if (own == NULL) {
            return ERR_NO_MEMORY;
        }
        for (size_t i = 0; i < count; i++) {
            own[i] = environ[i];
        }
        own[count] = variable;
        environ = own;
    }
    return 0;
}

int zone_use(const char *name)
{
    static char variable[ZONE_NAME_BYTES_MAX + 8]; // the environment points to it
    char path[ZONE_NAME_BYTES_MAX + sizeof(ZONE_FOLDER) + 1];
    int err;

    if (!is_name(name)) {
        return ERR_INVALID;
    }
    (void)snprintf(path, sizeof(path), "%s/%s", ZONE_FOLDER, name);
    if (strcmp(name, "UTC") != 0 && access(path, R_OK) != 0) {
        return ERR_INVALID;
    }
    (void)snprintf(variable, sizeof(variable), "TZ=%s%s", strcmp(name, "UTC") == 0 ? "" : ":",
                   strcmp(name, "UTC") == 0 ? "UTC0" : name);
    err = set_variable(variable);
    if (err == 0) {
        tzset();
    }
    return err;
}

static void read_fields(wall_ms time, struct tm *out)
{
    int64_t floor = time / 1000 - (time % 1000 < 0);
    time_t second = (time_t)time_clamp(floor, SECOND_MIN, SECOND_MAX);

    memset(out, 0, sizeof(*out));
    (void)localtime_r(&second, out);
}

void zone_read(wall_ms time, struct zone_time *out)
{
    struct tm fields;

    read_fields(time, &fields);
    *out = (struct zone_time){
        .year = fields.tm_year + 1900,
        .month = fields.tm_mon + 1,
        .day = fields.tm_mday,
        .hour = fields.tm_hour,
        .minute = fields.tm_min,
        .second = fields.tm_sec,
    };
}

int32_t zone_offset_s(wall_ms time)
{
    struct tm fields;

    read_fields(time, &fields);
    return (int32_t)fields.tm_gmtoff;
}

/* The moment for one guess of daylight saving; does it show what is wanted? */
static bool try_guess(const struct tm *wanted, int is_dst, time_t *out)
{
    struct tm fields = *wanted;

    fields.tm_isdst = is_dst;
    *out = mktime(&fields);
    return fields.tm_hour == wanted->tm_hour && fields.tm_min == wanted->tm_min;
}

int zone_find(const struct zone_time *shown, wall_ms *out)
{
    const struct tm wanted = {
        .tm_year = shown->year - 1900,
        .tm_mon = shown->month - 1,
        .tm_mday = shown->day,
        .tm_hour = shown->hour,
        .tm_min = shown->minute,
        .tm_sec = shown->second,
    };
    time_t found = 0;
    time_t second;
    bool is_found = false;

    for (int is_dst = 1; is_dst >= -1; is_dst--) {
        if (try_guess(&wanted, is_dst, &second) && (!is_found || second < found)) {
            found = second;
            is_found = true;
        }
    }
    if (!is_found) {
        return ERR_NOT_FOUND;
    }
    *out = time_mul((int64_t)found, 1000);
    return 0;
}
