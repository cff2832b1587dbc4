/* SPDX-License-Identifier: Apache-2.0
 *
 * Started with all, ready with any. source: ADR 0037
 */
#include "broker/readiness.h"

#include "lib/base/buf.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static char lines[2048];

/* A broker of two databases that has all that it needs. */
static struct readiness all_is_well(void)
{
    return (struct readiness){.has_session = true,
                              .has_queues = true,
                              .database_count = 2,
                              .databases = {{"a", true}, {"b", true}}};
}

static bool judge(const struct readiness *facts)
{
    struct buf out;
    bool is_ready;

    buf_init(&out, sizeof(lines) / 2);
    is_ready = readiness_judge(facts, &out);
    (void)snprintf(lines, sizeof(lines), "%s", buf_text(&out));
    buf_fini(&out);
    return is_ready;
}

Test(readiness, is_there_when_nothing_is_missing)
{
    struct readiness facts = all_is_well();

    cr_assert(judge(&facts));
    cr_assert_str_eq(lines, "");
    facts.has_started = true;
    cr_assert(judge(&facts));
}

Test(readiness, begins_with_every_database)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct readiness facts = all_is_well();

        facts.databases[i].is_writable = false;
        cr_assert(!judge(&facts));
        cr_assert_str_eq(lines, i == 0 ? "database a does not take writes\n"
                                       : "database b does not take writes\n");
    }
}

Test(readiness, goes_on_with_any_of_them_and_names_the_others)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct readiness facts = all_is_well();

        facts.has_started = true;
        facts.databases[i].is_writable = false;
        cr_assert(judge(&facts));
        cr_assert_str_eq(lines, i == 0 ? "database a does not take writes\n"
                                       : "database b does not take writes\n");
    }
}

Test(readiness, ends_with_the_last_database)
{
    struct readiness facts = all_is_well();

    facts.has_started = true;
    facts.databases[0].is_writable = false;
    facts.databases[1].is_writable = false;
    cr_assert(!judge(&facts));
    cr_assert_str_eq(lines, "database a does not take writes\ndatabase b does not take writes\n");
    facts.database_count = 1;
    cr_assert(!judge(&facts));
}

Test(readiness, ends_without_anything_else)
{
    for (int i = 0; i < 3; i++) {
        struct readiness facts = all_is_well();

        facts.has_started = true;
        facts.is_draining = i == 0;
        facts.has_session = i != 1;
        facts.has_queues = i != 2;
        cr_assert(!judge(&facts));
        cr_assert_str_eq(lines, i == 0   ? "draining\n"
                                : i == 1 ? "no ZooKeeper session\n"
                                         : "the queues have not been read\n");
    }
}

Test(readiness, needs_no_room_to_tell_it)
{
    struct readiness facts = all_is_well();
    struct buf out;

    facts.databases[0].is_writable = false;
    buf_init(&out, 8);
    cr_assert(!readiness_judge(&facts, &out));
    facts.has_started = true;
    cr_assert(readiness_judge(&facts, &out));
    cr_assert_eq(buf_len(&out), 0);
    buf_fini(&out);
}
