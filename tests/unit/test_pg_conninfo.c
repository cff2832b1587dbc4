/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of several hosts in a conninfo.
 */
#include "storage/pg_conninfo.h"

#include <criterion/criterion.h>
#include <string.h>

/* What libpq takes: the last value of a keyword. */
static const char *taken(const struct pg_conninfo *info, const char *keyword)
{
    const char *found = "";

    for (size_t i = 0; i < info->count; i++) {
        found = strcmp(info->keywords[i], keyword) == 0 ? info->values[i] : found;
    }
    return found;
}

static void must_turn(const char *text, size_t by, const char *host, const char *port)
{
    struct pg_conninfo info;

    cr_assert(pg_conninfo_parse(&info, text));
    pg_conninfo_turn(&info, by);
    cr_expect_str_eq(taken(&info, "host"), host, "by %zu: %s", by, taken(&info, "host"));
    cr_expect_str_eq(taken(&info, "port"), port, "by %zu: %s", by, taken(&info, "port"));
    pg_conninfo_free(&info);
}

Test(pg_conninfo, hosts_and_their_ports_are_turned_together)
{
    must_turn("host=a,bb,ccc port=1,22,333", 0, "a,bb,ccc", "1,22,333");
    must_turn("host=a,bb,ccc port=1,22,333", 1, "bb,ccc,a", "22,333,1");
    must_turn("host=a,bb,ccc port=1,22,333", 2, "ccc,a,bb", "333,1,22");
    must_turn("host=a,bb,ccc port=1,22,333", 3, "a,bb,ccc", "1,22,333");
    must_turn("host=a,bb,ccc port=1,22,333", 7, "bb,ccc,a", "22,333,1");
}

Test(pg_conninfo, a_port_for_all_stays)
{
    must_turn("host=a,bb port=5432", 1, "bb,a", "5432");
    must_turn("host=a port=5432", 1, "a", "5432");
    must_turn("dbname=x", 1, "", "");
}

Test(pg_conninfo, addresses_are_turned_with_their_hosts)
{
    struct pg_conninfo info;

    cr_assert(pg_conninfo_parse(&info, "host=a,b port=1,2"));
    pg_conninfo_add(&info, "hostaddr", "127.0.0.1,127.0.0.2");
    cr_assert_eq(pg_conninfo_host_count(&info), 2);
    pg_conninfo_turn(&info, 1);
    cr_assert_str_eq(taken(&info, "hostaddr"), "127.0.0.2,127.0.0.1");
    cr_assert_str_eq(taken(&info, "host"), "b,a");
    cr_assert_str_eq(taken(&info, "port"), "2,1");
    pg_conninfo_free(&info);
}
